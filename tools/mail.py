"""Sends real emails: by SMTP where `SMTP_HOST` is set, else into a local Maildir.

Three steps: `compose` checks what was asked for and builds the message, `read_settings` reads
the environment, `deliver` hands the message over. The first two are pure. A call that runs again
because its run was retried does not send again: `deliver_once` keeps a journal.
"""

import asyncio
import mailbox
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid
from pathlib import Path
from typing import Annotated

import aiosmtplib
from email_validator import EmailNotValidError, validate_email
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from pydantic import BeforeValidator

from tools.journal import Entry, Journal, call_key, running_store

# For one reply of the server, for all until it has the message, and for its goodbye.
SMTP_SECONDS = 15.0
DELIVERY_SECONDS = 60.0
QUIT_SECONDS = 2.0
DEFAULT_PORTS = {"none": 25, "starttls": 587, "tls": 465}
DEFAULT_SENDER = "agent@localhost"
LONGEST_SUBJECT = 900
LONGEST_WORD = 60
MOST_LISTED = 20

# Headers are encoded by `encode_header` and must go out as they are: `refold_source="none"`.
# With 7-bit content no server needs an extension to take the message.
WIRE = SMTP.clone(refold_source="none", cte_type="7bit")

# Control characters, line separators and halves of surrogate pairs.
NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
NO_BODY_TEXT = re.compile(r"[\x00\ud800-\udfff]")
QUOTED = r'"(?:[^"\\]|\\.)*"'
NAME_AND_ADDRESS = re.compile(rf"(?P<name>{QUOTED}|[^\"<>]*) *<(?P<address>[^<>]*)>")
BETWEEN_COMMAS = re.compile(rf'(?:{QUOTED}|[^",])+|".*')
# A sender may be at localhost or in a company's own network, where email-validator refuses it.
SENDER_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")


class MailError(Exception):
    """Nothing was sent. The message says why, for the model to pass on."""


class MaybeSentError(Exception):
    """The email may have gone out, or not. The message says why that is not known."""


class SettingsError(MailError, ValueError):
    """An environment variable has a value that cannot be used. It stops the server's start."""

    def __init__(self, variable: str, value: str, expected: str) -> None:
        super().__init__(f"{variable} is {shorten(repr(value), 80)}. Set it to {expected}.")


@dataclass(frozen=True)
class Mailbox:
    """Somebody's name, which may be empty, and address."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


@dataclass(frozen=True)
class Settings:
    """Where emails go: to the SMTP server `host`, or, without one, to the Maildir `outbox`."""

    host: str
    port: int
    tls: str
    username: str
    password: str = field(repr=False)
    sender: Mailbox
    outbox: str


@dataclass(frozen=True)
class Email:
    """A message that is ready to go out.

    Attributes:
        sender: The envelope's sender.
        recipients: The envelope's recipients, each once.
        subject: The subject, as asked for.
        message_id: The Message-ID header.
        content: The whole message with its headers, in ASCII, its lines ended by CR LF.
        key: The tool call's and this text's, see `call_key`; empty outside of a call.
    """

    sender: str
    recipients: tuple[str, ...]
    subject: str
    message_id: str
    content: bytes
    key: str


def join_addresses(to: object) -> object:
    """Accept a list of addresses where one string is asked for; models send both."""
    if isinstance(to, list) and all(isinstance(one, str) for one in to):
        return ", ".join(to)
    return to


@tool(parse_docstring=True)
async def send_email(
    to: Annotated[str, BeforeValidator(join_addresses)],
    subject: str,
    body: str,
    config: RunnableConfig,
) -> str:
    """Send an email to one or more people.

    Returns who it was sent to and where it went, or why it was not sent. It is sent to all
    recipients or, if one of the addresses is not valid, to none.

    Args:
        to: One or more addresses, separated by commas, such as "bob@example.com" or
            "Jane Doe <jane@example.com>, bob@example.com".
        subject: The subject, on one line.
        body: The text of the email, as plain text.
    """
    try:
        settings = read_settings(os.environ)
        email = compose(to, subject, body, settings.sender, config)
        return await (deliver_once if email.key else deliver)(email, settings)
    except MailError as problem:
        return f"The email was not sent. {problem}"
    except MaybeSentError as problem:
        return f"It is not known whether the email was sent. {problem}"


# Settings


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read where emails go and whom they are from.

    `SMTP_TLS` is "starttls" unless it is set, so that nothing goes out in the clear by
    accident. Without `SMTP_FROM` the sender is `SMTP_USERNAME`, if that is an address.

    Args:
        environment: The `SMTP_*` variables and `OUTBOX_DIR`, such as `os.environ`.

    Raises:
        SettingsError: A value cannot be used.
    """

    def read(name: str, default: str = "") -> str:
        return environment.get(name, "").strip() or default

    tls = read("SMTP_TLS", "starttls").lower()
    if tls not in DEFAULT_PORTS:
        raise SettingsError("SMTP_TLS", tls, "none, starttls or tls")
    username = read("SMTP_USERNAME")
    return Settings(
        host=read("SMTP_HOST"),
        port=read_port(read("SMTP_PORT", str(DEFAULT_PORTS[tls]))),
        tls=tls,
        username=username,
        password=environment.get("SMTP_PASSWORD", ""),
        sender=read_sender(read("SMTP_FROM"), username),
        outbox=read("OUTBOX_DIR", "outbox"),
    )


def read_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 65536):
        raise SettingsError("SMTP_PORT", text, "a number from 1 to 65535")
    return int(text)


def read_sender(sender: str, username: str) -> Mailbox:
    """Take the sender from SMTP_FROM, else from a user name that is an address."""
    if not sender:
        return Mailbox("", username if SENDER_ADDRESS.fullmatch(username) else DEFAULT_SENDER)
    name, address = split_name(sender)
    if NO_TEXT.search(sender) or not SENDER_ADDRESS.fullmatch(address):
        raise SettingsError("SMTP_FROM", sender, 'an address, such as "Bot <bot@example.com>"')
    return Mailbox(name, address)


# The message


def compose(
    to: str, subject: str, body: str, sender: Mailbox, config: RunnableConfig | None = None
) -> Email:
    """Build a message.

    A subject or an address with a line break or another control character is refused, not
    mended: whoever reviews the email sees it as it would go out.

    Args:
        to: One or more addresses, with or without names, separated by commas.
        subject: One line of text.
        body: Plain text in any language.
        sender: Whom it is from.
        config: The tool call's. The Message-ID is made from it and the text, so that a mail
            program would recognise a second copy; without it, every message has a new one.

    Raises:
        MailError: Some of it cannot be sent. All refused addresses are named.
    """
    check_text(subject, body)
    recipients = parse_recipients(to)
    text = [[one.name, one.address] for one in recipients], subject.strip(), body.splitlines()
    key = call_key(config or {}, *text)
    message_id = f"<{key}@{sender.domain}>" if key else make_msgid(domain=sender.domain)
    message = EmailMessage(policy=WIRE)
    headers = {
        "From": encode_mailboxes([sender]),
        "To": encode_mailboxes(recipients),
        "Subject": encode_header(subject.strip(), "Subject"),
        "Date": format_datetime(datetime.now(UTC)),
        "Message-ID": message_id,
    }
    for name, value in headers.items():
        message.set_raw(name, value)
    message.set_content(body)
    addresses = tuple(one.address for one in recipients)
    return Email(sender.address, addresses, subject, message_id, message.as_bytes(), key)


def check_text(subject: str, body: str) -> None:
    if NO_TEXT.search(subject):
        raise MailError("The subject has a line break or another control character. Leave it out.")
    if len(subject) > LONGEST_SUBJECT:
        raise MailError(
            f"The subject has {len(subject)} characters, more than {LONGEST_SUBJECT}. Shorten it."
        )
    if NO_BODY_TEXT.search(body):
        raise MailError("The body has characters that are no text (NUL, or half a surrogate pair).")


def parse_recipients(to: str) -> list[Mailbox]:
    """Parse a list of addresses, and keep each address once.

    Raises:
        MailError: There is no address, or one that is not valid.
    """
    if NO_TEXT.search(to):
        raise MailError(
            "The recipients have a line break or another control character. "
            "Separate addresses by commas."
        )
    recipients: dict[str, Mailbox] = {}
    refused = []
    for text in split_addresses(to):
        try:
            recipient = parse_mailbox(text)
        except EmailNotValidError as problem:
            refused.append(f"{shorten(text, 100)} ({shorten(str(problem), 150)})")
        else:
            recipients.setdefault(recipient.address.casefold(), recipient)
    if refused:
        raise MailError(f"These addresses are refused: {listing(refused, '; ')}.")
    if not recipients:
        raise MailError("It has no recipients.")
    return list(recipients.values())


def split_addresses(to: str) -> list[str]:
    """Split at the commas that are not within quotes."""
    parts = [part.strip() for part in BETWEEN_COMMAS.findall(to)]
    return [part for part in parts if part]


def parse_mailbox(text: str) -> Mailbox:
    """Parse "bob@example.com" or "Bob <bob@example.com>".

    Raises:
        EmailNotValidError: It is none, or has letters outside of ASCII before the @, which
            many servers do not take.
    """
    name, address = split_name(text)
    valid = validate_email(address, check_deliverability=False, allow_smtputf8=False, strict=True)
    return Mailbox(name, valid.ascii_email or valid.normalized)


def split_name(text: str) -> tuple[str, str]:
    """Split "Bob <bob@example.com>" into the name, which may be empty, and the address."""
    named = NAME_AND_ADDRESS.fullmatch(text)
    if not named:
        return "", text
    name = named["name"].strip()
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return name, named["address"].strip()


def encode_mailboxes(mailboxes: Sequence[Mailbox]) -> str:
    """Write an address header, one mailbox a line."""
    return ",\r\n ".join(
        f"{encode_name(one.name)}\r\n <{one.address}>" if one.name else one.address
        for one in mailboxes
    )


def encode_name(name: str) -> str:
    """Quote a display name, or encode it where quotes are not enough."""
    if name.isascii() and "=?" not in name and len(name) < 70:
        return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return encode_header(name, "To", always=True)


def encode_header(text: str, name: str, *, always: bool = False) -> str:
    """Encode a header's text as RFC 2047 says.

    Not left to EmailMessage, which decodes encoded words in what it is given, and may write
    the line breaks that were in them (https://github.com/python/cpython/issues/121650).
    """
    encoded = always or "=?" in text or not (text.isascii() and is_foldable(text))
    header = Header(text, "utf-8" if encoded else "us-ascii", header_name=name)
    return header.encode(linesep="\r\n")


def is_foldable(text: str) -> bool:
    """Whether words fit on a line, with one space between them.

    Else folding would leave a line that is too long, or a blank one, which ends the headers.
    """
    return all(0 < len(word) <= LONGEST_WORD for word in text.split(" ")) or not text


# Delivery


async def deliver_once(email: Email, settings: Settings) -> str:
    """Deliver a message unless the same call has tried to before, and say what came of it.

    An attempt that did not come to its end is not repeated, since the message may have gone out.

    Raises:
        MailError: It was not sent to anyone. It may be tried again.
        MaybeSentError: It was begun, now or earlier, and what came of it is not known.
    """
    journal = Journal(Path(f"{settings.outbox}.journal"), running_store())
    entry = Entry(f"{way_to_look(settings)} {summarize(email, email.recipients)}")
    try:
        earlier = await journal.begin(email.key, entry)
    except OSError as problem:
        raise MailError(f"It cannot be written down that it goes out ({problem}).") from problem
    if earlier:
        return await tell_earlier(earlier, email, settings)
    try:
        result = await deliver(email, settings)
    except MailError:
        await journal.take_back(email.key)
        raise
    with suppress(OSError):  # it is sent: then the entry says that it may have been
        await journal.finish(email.key, replace(entry, result=result))
    return result


async def tell_earlier(earlier: Entry, email: Email, settings: Settings) -> str:
    """Say what is known of an earlier attempt.

    Raises:
        MaybeSentError: Nothing for certain.
    """
    if earlier.result:
        return f"This call had sent its email already, and did not send it again. {earlier.result}"
    if not settings.host and await asyncio.to_thread(is_in_outbox, email, settings.outbox):
        return f"The email had been stored already. {earlier.begun}"
    raise MaybeSentError(
        "An earlier attempt at this same call was cut off, so the email may have gone out. It was "
        f"not sent again. {earlier.begun}"
    )


def way_to_look(settings: Settings) -> str:
    if settings.host:
        return (
            f"To know, look for its Message-ID at the mail server {settings.host}:{settings.port} "
            "or ask a recipient."
        )
    return f"To know, look for its Message-ID in the outbox {settings.outbox}."


def is_in_outbox(email: Email, outbox: str) -> bool:
    """Whether a message with the same Message-ID lies in the Maildir. This blocks."""
    with suppress(OSError, mailbox.Error):
        stored = mailbox.Maildir(outbox, create=False)
        return any(message["Message-ID"] == email.message_id for message in stored)
    return False


async def deliver(email: Email, settings: Settings) -> str:
    """Hand a message over, and say what came of it.

    Raises:
        MailError: It was not sent to anyone.
    """
    if settings.host:
        return await deliver_by_smtp(email, settings)
    return await asyncio.to_thread(deliver_to_outbox, email, settings.outbox)


def deliver_to_outbox(email: Email, outbox: str) -> str:
    """Store a message in a Maildir, which is made if it is not there. This blocks."""
    try:
        for folder in ("tmp", "new", "cur"):
            (Path(outbox) / folder).mkdir(parents=True, exist_ok=True)
        # In a Maildir, lines end as in the system's own text files.
        mailbox.Maildir(outbox, create=False).add(email.content.replace(b"\r\n", b"\n"))
    except (OSError, ValueError, mailbox.Error) as problem:
        raise MailError(f"It cannot be stored in the outbox {outbox} ({problem}).") from problem
    return (
        f"The email was stored in the outbox {outbox}, and did not leave this machine, since "
        f"SMTP_HOST is not set. {summarize(email, email.recipients)}"
    )


async def deliver_by_smtp(email: Email, settings: Settings) -> str:
    """Send a message by SMTP, over TLS unless `SMTP_TLS` is "none"."""
    server = f"{settings.host}:{settings.port}"
    deadline = asyncio.get_running_loop().time() + DELIVERY_SECONDS
    async with session(settings, server, deadline) as client:
        refused = await announce(client, email, server, deadline)
        accepted = [one for one in email.recipients if one not in refused]
        await transmit(client, email, server, accepted, deadline)
    text = f"The email was sent by {server}. {summarize(email, accepted)}"
    return f"{text} NOT sent to {list_refusals(refused)}." if refused else text


@asynccontextmanager
async def session(
    settings: Settings, server: str, deadline: float
) -> AsyncIterator[aiosmtplib.SMTP]:
    """Connect, start TLS and log in; say goodbye at the end.

    STARTTLS that is asked for is never given up for plain text. The server's words about a
    login are left out, since they may repeat the password.
    """
    if settings.username and not settings.password:
        raise MailError("SMTP_USERNAME is set, so SMTP_PASSWORD must be set too.")
    client = aiosmtplib.SMTP(
        hostname=settings.host,
        port=settings.port,
        use_tls=settings.tls == "tls",
        start_tls=settings.tls == "starttls",
        username=settings.username or None,
        password=settings.password or None,
        timeout=SMTP_SECONDS,
    )
    try:
        async with asyncio.timeout_at(deadline):
            await client.connect()
    except aiosmtplib.SMTPAuthenticationError as problem:
        raise MailError(
            f"The mail server {server} refused the login of {settings.username} "
            f"(code {problem.code}). Check SMTP_USERNAME and SMTP_PASSWORD."
        ) from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as problem:
        raise MailError(
            f"There is no session with the mail server {server}, SMTP_TLS being "
            f"{settings.tls} ({reason(problem)})."
        ) from problem
    try:
        yield client
    except asyncio.CancelledError:
        client.close()
        raise
    finally:
        with suppress(aiosmtplib.SMTPException, OSError):
            await client.quit(timeout=QUIT_SECONDS)
        client.close()


async def announce(
    client: aiosmtplib.SMTP, email: Email, server: str, deadline: float
) -> dict[str, str]:
    """Tell the server the sender and the recipients.

    Returns:
        The recipients that it refused, and why.

    Raises:
        MailError: It refused the sender or all recipients, or went away.
    """
    refused: dict[str, str] = {}
    try:
        async with asyncio.timeout_at(deadline):
            await client.mail(email.sender)
        for recipient in email.recipients:
            try:
                # For each: Python 3.11's `wait_for` loses a cancellation that meets a reply.
                async with asyncio.timeout_at(deadline):
                    await client.rcpt(recipient)
            except aiosmtplib.SMTPRecipientRefused as problem:
                refused[recipient] = reason(problem)
    except aiosmtplib.SMTPSenderRefused as problem:
        raise MailError(
            f"The mail server {server} refused the sender {email.sender} ({reason(problem)})."
        ) from problem
    except (aiosmtplib.SMTPException, OSError) as problem:
        raise MailError(f"The mail server {server} failed ({reason(problem)}).") from problem
    if len(refused) == len(email.recipients):
        raise MailError(f"The mail server {server} refused {list_refusals(refused)}.")
    return refused


async def transmit(
    client: aiosmtplib.SMTP, email: Email, server: str, accepted: Sequence[str], deadline: float
) -> None:
    """Send the content.

    Raises:
        MailError: The server refused the message.
        MaybeSentError: The server did not confirm that it took the message.
    """
    try:
        async with asyncio.timeout_at(deadline):
            await client.data(email.content)
    except aiosmtplib.SMTPDataError as problem:
        raise MailError(
            f"The mail server {server} refused the message ({reason(problem)})."
        ) from problem
    except (aiosmtplib.SMTPException, OSError) as problem:
        raise MaybeSentError(
            f"The mail server {server} did not confirm it ({reason(problem)}), so it may or may "
            f"not reach them. {summarize(email, accepted)}"
        ) from problem


# Words


def summarize(email: Email, recipients: Sequence[str]) -> str:
    """Tell the recipients, the subject and the Message-ID."""
    return (
        f'To: {listing(recipients, ", ")}. Subject: "{shorten(email.subject, 100)}". '
        f"Message-ID: {email.message_id}."
    )


def list_refusals(refused: Mapping[str, str]) -> str:
    return listing([f"{recipient} ({why})" for recipient, why in refused.items()], "; ")


def listing(items: Sequence[str], separator: str) -> str:
    more = f" and {len(items) - MOST_LISTED} more" if len(items) > MOST_LISTED else ""
    return separator.join(items[:MOST_LISTED]) + more


def reason(problem: Exception) -> str:
    """Put an error on one short line."""
    if isinstance(problem, aiosmtplib.SMTPResponseException):
        text = f"{problem.code} {problem.message}"
    else:
        text = str(problem) or "it took too long"  # a deadline has no words of its own
    return shorten(" ".join(text.split()), 200)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


# A wrong value is told when the server starts, and not when a human has approved an email.
read_settings(os.environ)
