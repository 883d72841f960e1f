"""Emails, judged by what a real server gets and by what lies in the Maildir."""

import asyncio
import base64
import importlib.util
import logging
import mailbox
import os
import re
import socket
from collections.abc import Callable, Iterator
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from email.utils import getaddresses
from pathlib import Path
from types import ModuleType

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from tests.standins.mail_server import MailServer, Received, Stage
from tools import mail
from tools.journal import Journal
from tools.mail import (
    Mailbox,
    MailError,
    compose,
    parse_recipients,
    read_settings,
    send_email,
)

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

VARIABLES = (
    "SMTP_HOST",
    "SMTP_PORT",
    "SMTP_TLS",
    "SMTP_USERNAME",
    "SMTP_PASSWORD",
    "SMTP_FROM",
    "OUTBOX_DIR",
    "SSL_CERT_FILE",
)
AGENT = Mailbox("", "agent@example.com")
HEADERS = ["From", "To", "Subject", "Date", "Message-ID"]
MIME_HEADERS = ["Content-Type", "Content-Transfer-Encoding", "MIME-Version"]
LOGIN = ("agent@example.com", "s3cret pass")


@pytest.fixture(autouse=True)
def outbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OUTBOX_DIR", str(tmp_path / "mail" / "outbox"))
    monkeypatch.setenv("SMTP_FROM", "agent@example.com")
    return tmp_path / "mail" / "outbox"


@pytest.fixture(scope="module")
def plain_server() -> Iterator[MailServer]:
    with MailServer() as running:
        yield running


@pytest.fixture
def server(plain_server: MailServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    plain_server.reset()
    point_to(plain_server, monkeypatch)
    yield plain_server
    plain_server.reset()


def point_to(server: MailServer, monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    for name, value in (server.environment | changes).items():
        monkeypatch.setenv(name, value)


async def send(
    to: object = "bob@example.com", subject: str = "Hello", body: str = "Hi Bob.\n"
) -> str:
    return str(await send_email.ainvoke({"to": to, "subject": subject, "body": body}))


async def send_in_vain(
    to: object = "bob@example.com", subject: str = "Hello", body: str = "Hi Bob.\n"
) -> str:
    text = await send(to, subject, body)
    assert text.startswith("The email was not sent. ")
    assert len(text) < 6000
    return text


def stored(outbox: Path) -> list[bytes]:
    if not outbox.exists():
        return []
    return [message.as_bytes() for message in mailbox.Maildir(outbox, create=False)]


def parse(content: bytes) -> EmailMessage:
    message = BytesParser(policy=default).parsebytes(content)
    assert isinstance(message, EmailMessage)
    return message


# Into the outbox


async def test_without_a_server_it_lands_in_the_outbox(outbox: Path) -> None:
    text = await send("bob@example.com", "Hello", "Hi Bob.\n")
    [content] = stored(outbox)
    message = parse(content)
    assert (message["To"], message["Subject"]) == ("bob@example.com", "Hello")
    assert message["From"] == "agent@example.com"
    assert message.get_content() == "Hi Bob.\n"
    assert b"\r" not in content
    assert f"stored in the outbox {outbox}, and did not leave this machine" in text
    assert f"Message-ID: {message['Message-ID']}" in text
    assert "To: bob@example.com." in text


def test_an_empty_folder_becomes_an_outbox(outbox: Path) -> None:
    outbox.mkdir(parents=True)
    asyncio.run(send())
    asyncio.run(send())
    assert len(stored(outbox)) == 2


async def test_many_at_once_are_all_stored(outbox: Path) -> None:
    texts = await asyncio.gather(*(send(f"user{number}@example.com") for number in range(40)))
    assert all("stored" in text for text in texts)
    assert len({parse(content)["Message-ID"] for content in stored(outbox)}) == 40


def test_an_outbox_that_cannot_be_made(outbox: Path) -> None:
    outbox.parent.mkdir()
    outbox.write_text("a file")
    assert f"cannot be stored in the outbox {outbox}" in asyncio.run(send_in_vain())


async def test_the_outbox_is_named_outbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OUTBOX_DIR")
    monkeypatch.chdir(tmp_path)
    await send()
    assert len(stored(tmp_path / "outbox")) == 1


async def test_the_loop_is_not_blocked(server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 57."""
    with blockbuster_ctx():
        assert "sent by" in await send()
        monkeypatch.delenv("SMTP_HOST")
        assert "stored in the outbox" in await send()


# By SMTP


@pytest.mark.parametrize("login", [None, LOGIN])
@pytest.mark.parametrize("tls", ["none", "starttls", "tls"])
async def test_it_goes_out_by_smtp(
    monkeypatch: pytest.MonkeyPatch, tls: str, login: tuple[str, str] | None
) -> None:
    with MailServer(tls, login) as server:  # type: ignore[arg-type]
        point_to(server, monkeypatch)
        text = await send("bob@example.com, Jane <jane@example.com>", "Hello", "Hi.\n")
        [received] = server.received
    assert received.sender == "agent@example.com"
    assert received.recipients == ("bob@example.com", "jane@example.com")
    assert received.over_tls is (tls != "none")
    assert received.user == (login[0] if login else None)
    assert received.message.get_content() == "Hi.\r\n"
    assert text == (
        f"The email was sent by 127.0.0.1:{server.port}. To: bob@example.com, jane@example.com. "
        f'Subject: "Hello". Message-ID: {received.message["Message-ID"]}.'
    )
    assert LOGIN[1] not in text


async def test_starttls_does_not_fall_back_to_plain_text(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_TLS", "starttls")
    assert "STARTTLS" in await send_in_vain()
    monkeypatch.delenv("SMTP_TLS")
    assert "STARTTLS" in await send_in_vain()
    assert not server.received


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_a_certificate_that_nobody_vouches_for(
    monkeypatch: pytest.MonkeyPatch, tls: str
) -> None:
    with MailServer(tls) as server:  # type: ignore[arg-type]
        point_to(server, monkeypatch)
        monkeypatch.delenv("SSL_CERT_FILE")
        assert "certificate verify failed" in (await send_in_vain()).lower()
        assert not server.received


async def test_a_wrong_password_is_said_but_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with MailServer("starttls", LOGIN) as server:
        point_to(server, monkeypatch, SMTP_PASSWORD="wr0ng-pass")
        text = await send_in_vain()
        assert "refused the login of agent@example.com (code 535)" in text
        assert "wr0ng-pass" not in text
        assert not server.received


async def test_a_login_that_the_server_does_not_have(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_USERNAME", "agent")
    monkeypatch.setenv("SMTP_PASSWORD", "s3cret")
    text = await send_in_vain()
    assert "s3cret" not in text
    assert not server.received


async def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SMTP_PORT", str(probe.getsockname()[1]))
        for host in ("127.0.0.1", "localhost"):
            monkeypatch.setenv("SMTP_HOST", host)
            assert "no session with the mail server" in await send_in_vain()


@pytest.mark.parametrize("tls", ["none", "starttls", "tls"])
@pytest.mark.parametrize(
    ("limit", "told"), [("SMTP_SECONDS", "timed out"), ("DELIVERY_SECONDS", "took too long")]
)
async def test_a_server_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tls: str, limit: str, told: str
) -> None:
    monkeypatch.setattr(mail, limit, 0.2)
    monkeypatch.setenv("SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("SMTP_TLS", tls)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SMTP_PORT", str(silent.getsockname()[1]))
        async with asyncio.timeout(5):
            assert told in (await send_in_vain()).lower()


@pytest.mark.parametrize(("mode", "configured"), [("none", "tls"), ("starttls", "none")])
async def test_a_server_with_another_mode_of_tls(
    monkeypatch: pytest.MonkeyPatch, mode: str, configured: str
) -> None:
    monkeypatch.setattr(mail, "SMTP_SECONDS", 2)
    with MailServer(mode) as server:  # type: ignore[arg-type]
        point_to(server, monkeypatch, SMTP_TLS=configured)
        await send_in_vain()
        assert not server.received


async def test_a_cancelled_run_does_not_wait_for_the_server(server: MailServer) -> None:
    server.hang_at = "RCPT"
    sending = asyncio.create_task(send())
    await asyncio.sleep(0.2)
    sending.cancel()
    done, _ = await asyncio.wait([sending], timeout=1)
    assert done
    assert sending.cancelled()
    assert not server.received
    server.hang_at = None
    assert "sent by" in await send()


@pytest.mark.parametrize("host", ["mail.example.com", "a..b", "x" * 300])
async def test_a_server_whose_name_nobody_knows(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    def no_lookup(name: str, *args: object, **kwargs: object) -> None:
        str(name).encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    monkeypatch.setenv("SMTP_HOST", host)
    assert "no session with the mail server" in await send_in_vain()


@pytest.mark.parametrize(
    ("recipients", "refused"),
    [
        ("bob@example.com", ["bob@example.com"]),
        ("bob@example.com, jane@example.com", ["bob@example.com", "jane@example.com"]),
    ],
)
async def test_all_recipients_are_refused(
    server: MailServer, recipients: str, refused: list[str]
) -> None:
    server.refused = {address: f"550 no {address} here" for address in refused}
    text = await send_in_vain(recipients)
    assert all(f"{address} (550 no {address} here)" in text for address in refused)
    assert not server.received


async def test_some_recipients_are_refused(server: MailServer) -> None:
    server.refused = {"bob@example.com": "550 no such user"}
    text = await send("bob@example.com, jane@example.com")
    assert "To: jane@example.com. " in text
    assert text.endswith("NOT sent to bob@example.com (550 no such user).")
    assert [one.recipients for one in server.received] == [("jane@example.com",)]


async def test_the_sender_is_refused(server: MailServer) -> None:
    server.refused_sender = "553 not you"
    assert "refused the sender agent@example.com (553 not you)" in await send_in_vain()


async def test_the_message_is_refused(server: MailServer) -> None:
    server.refused_content = "554 looks like spam"
    assert "refused the message (554 looks like spam)" in await send_in_vain()


@pytest.mark.parametrize("stage", ["EHLO", "MAIL", "RCPT"])
@pytest.mark.parametrize("how", ["drop_at", "hang_at"])
async def test_a_server_that_goes_away_before_it_has_the_message(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, how: str, stage: Stage
) -> None:
    monkeypatch.setattr(mail, "SMTP_SECONDS", 0.2)
    monkeypatch.setattr(mail, "QUIT_SECONDS", 0.1)
    setattr(server, how, stage)
    async with asyncio.timeout(10):
        await send_in_vain()
    assert not server.received


@pytest.mark.parametrize("how", ["drop_at", "hang_at"])
async def test_a_server_that_does_not_confirm_the_message(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(mail, "SMTP_SECONDS", 0.2)
    monkeypatch.setattr(mail, "QUIT_SECONDS", 0.1)
    setattr(server, how, "DATA")
    async with asyncio.timeout(10):
        text = await send()
    assert text.startswith("It is not known whether the email was sent.")
    assert f"Message-ID: {server.received[0].message['Message-ID']}" in text


async def test_a_server_that_is_slow_at_each_command(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred commands, each in time; together they are not, also if the end meets a reply."""
    monkeypatch.setattr(mail, "DELIVERY_SECONDS", 0.3)
    server.delay = 0.05
    to = ", ".join(f"user{number}@example.com" for number in range(100))
    async with asyncio.timeout(3):
        assert "took too long" in await send_in_vain(to)
    assert not server.received


@pytest.mark.parametrize(
    ("stage", "known"), [("EHLO", "was not sent"), ("RCPT", "was not sent"), ("DATA", "not known")]
)
async def test_a_delivery_that_takes_too_long(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, stage: Stage, known: str
) -> None:
    monkeypatch.setattr(mail, "DELIVERY_SECONDS", 0.3)
    monkeypatch.setattr(mail, "QUIT_SECONDS", 0.1)
    server.hang_at = stage
    async with asyncio.timeout(5):
        text = await send()
    assert known in text
    assert "took too long" in text
    assert len(server.received) == (stage == "DATA")


@pytest.mark.parametrize("how", ["drop_at", "hang_at"])
async def test_a_goodbye_that_is_not_answered(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(mail, "QUIT_SECONDS", 0.1)
    setattr(server, how, "QUIT")
    async with asyncio.timeout(2):
        assert "sent by" in await send()
    assert len(server.received) == 1


async def test_it_says_goodbye(server: MailServer) -> None:
    await send()
    server.refused_sender = "553 not you"
    await send_in_vain()
    assert server.farewells == 2


def test_how_long_a_server_may_take() -> None:
    assert (mail.SMTP_SECONDS, mail.DELIVERY_SECONDS, mail.QUIT_SECONDS) == (15, 60, 2)


async def test_a_server_that_drops_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    with MailServer("starttls", LOGIN) as server:
        point_to(server, monkeypatch)
        server.drop_at = "AUTH"
        assert LOGIN[1] not in await send_in_vain()


@pytest.mark.parametrize("password", [LOGIN[1], "wr0ng pass"])
@pytest.mark.parametrize("fails", ["", "refused_sender", "drop_at", "hang_at"])
async def test_the_password_is_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    password: str,
    fails: str,
) -> None:
    """Not in the result, not in a log of any level, not in the process's output."""
    monkeypatch.setattr(mail, "SMTP_SECONDS", 0.5)
    caplog.set_level(logging.DEBUG)
    with MailServer("starttls", LOGIN) as server:
        point_to(server, monkeypatch, SMTP_PASSWORD=password)
        if fails:
            setattr(server, fails, "553 not you" if fails == "refused_sender" else "RCPT")
        text = await send_as(of_call())
    logged = [str(vars(one)) for one in caplog.records if one.name != "mail.log"]  # the server's
    shown = "".join([text, *logged, *capfd.readouterr(), *journal_texts()])
    assert logged
    assert "The email was" in text
    for form in (password, encoded(password), encoded(f"\0{LOGIN[0]}\0{password}")):
        assert form not in shown


def journal_texts() -> list[str]:
    folder = Path(os.environ["OUTBOX_DIR"] + ".journal")
    return [path.read_text() for path in folder.glob("*")] if folder.exists() else []


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Once a call


def of_call(call: str = "c1", thread: str = "1") -> RunnableConfig:
    return RunnableConfig(configurable={"thread_id": thread}, metadata={"tool_call_id": call})


async def send_as(
    config: RunnableConfig,
    to: str = "bob@example.com",
    subject: str = "Hello",
    body: str = "Hi Bob.\n",
) -> str:
    arguments = {"to": to, "subject": subject, "body": body}
    return str(await send_email.ainvoke(arguments, config))


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Breaks the next delivery off, "before" or "after" it is done."""

    def arrange(when: str) -> None:
        async def deliver_and_crash(email: mail.Email, settings: mail.Settings) -> str:
            monkeypatch.setattr(mail, "deliver", deliver)
            if when == "after":
                await deliver(email, settings)
            raise asyncio.CancelledError

        deliver = mail.deliver
        monkeypatch.setattr(mail, "deliver", deliver_and_crash)

    return arrange


async def test_the_same_call_sends_once(server: MailServer) -> None:
    """Case 66."""
    first, second = [await send_as(of_call()) for _ in range(2)]
    assert first.startswith("The email was sent by 127.0.0.1")
    assert second == f"This call had sent its email already, and did not send it again. {first}"
    assert len(server.received) == 1


async def test_other_calls_are_other_emails(server: MailServer) -> None:
    for config in (of_call(), of_call(call="c2"), of_call(thread="2")):
        assert "sent by" in await send_as(config)
    assert len({one.message["Message-ID"] for one in server.received}) == 3


TWO = "Bob <bob@example.com>, jane@example.com"


@pytest.mark.parametrize(
    ("edited", "sent"),
    [
        ({}, 1),
        ({"to": '"Bob"  <bob@EXAMPLE.com>,jane@example.com,'}, 1),
        ({"subject": " Hello "}, 1),
        ({"body": "Hi Bob.\r\n"}, 1),
        ({"to": "eve@example.com"}, 2),
        ({"to": "Bob <bob@example.com>"}, 2),
        ({"to": "Robert <bob@example.com>, jane@example.com"}, 2),
        ({"subject": "Hello!"}, 2),
        ({"body": "Hi Bob.\n\nBye.\n"}, 2),
    ],
)
async def test_the_same_call_sends_again_if_its_text_was_edited(
    server: MailServer, edited: dict[str, str], sent: int
) -> None:
    """A human who plays an earlier checkpoint again may approve another text there."""
    text = {"to": TWO, "subject": "Hello", "body": "Hi Bob.\n"}
    await send_as(of_call(), **text)
    for _ in range(2):
        await send_as(of_call(), **(text | edited))
    assert len({one.message["Message-ID"] for one in server.received}) == sent
    assert len(server.received) == sent


async def test_without_a_call_or_a_thread_there_is_no_journal(outbox: Path) -> None:
    for config in (RunnableConfig(), of_call(call=""), of_call(thread="")):
        for _ in range(2):
            assert "stored in the outbox" in await send_as(config)
    assert len(stored(outbox)) == 6
    assert [folder.name for folder in outbox.parent.iterdir()] == ["outbox"]


async def test_two_at_once_send_once(server: MailServer) -> None:
    texts = await asyncio.gather(*(send_as(of_call()) for _ in range(10)))
    assert len(server.received) == 1
    assert sum(text.startswith("The email was sent by") for text in texts) == 1
    assert sum("not sent again" in text or "already" in text for text in texts) == 9


async def test_the_journal_does_not_block_the_loop(outbox: Path) -> None:
    """Case 57."""
    with blockbuster_ctx():
        assert "stored" in await send_as(of_call())
        assert "already" in await send_as(of_call())


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_that_was_cut_off_does_not_send_again(
    server: MailServer, crash: Callable[[str], None], when: str
) -> None:
    """Cases 66 and 67: nobody knows, so nobody says that it was sent, or that it was not."""
    crash(when)
    with pytest.raises(asyncio.CancelledError):
        await send_as(of_call())
    texts = [await send_as(of_call()) for _ in range(2)]
    assert len(server.received) == (1 if when == "after" else 0)
    assert texts[0] == texts[1]
    assert texts[0].startswith("It is not known whether the email was sent. ")
    assert "may have gone out. It was not sent again." in texts[0]
    assert f"at the mail server 127.0.0.1:{server.port}" in texts[0]
    assert re.search(r"Message-ID: <[0-9a-f]{64}@example\.com>", texts[0])
    assert "To: bob@example.com." in texts[0]


async def test_a_call_that_was_cut_off_before_it_stored(
    outbox: Path, crash: Callable[[str], None]
) -> None:
    crash("before")
    with pytest.raises(asyncio.CancelledError):
        await send_as(of_call())
    text = await send_as(of_call())
    assert text.startswith("It is not known whether the email was sent. ")
    assert f"look for its Message-ID in the outbox {outbox}" in text
    assert stored(outbox) == []


async def test_a_call_that_was_cut_off_after_it_stored(
    outbox: Path, crash: Callable[[str], None]
) -> None:
    crash("after")
    with pytest.raises(asyncio.CancelledError):
        await send_as(of_call())
    text = await send_as(of_call())
    assert text.startswith("The email had been stored already. ")
    assert len(stored(outbox)) == 1


@pytest.mark.parametrize("how", ["drop_at", "hang_at"])
async def test_a_lost_confirmation_does_not_send_again(
    server: MailServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(mail, "SMTP_SECONDS", 0.2)
    monkeypatch.setattr(mail, "QUIT_SECONDS", 0.1)
    setattr(server, how, "DATA")
    first = await send_as(of_call())
    setattr(server, how, None)
    second = await send_as(of_call())
    [received] = server.received
    assert f"Message-ID: {received.message['Message-ID']}" in first
    assert f"Message-ID: {received.message['Message-ID']}" in second
    assert "may have gone out. It was not sent again." in second


async def test_what_was_not_sent_to_anyone_may_be_tried_again(server: MailServer) -> None:
    server.refused = {"bob@example.com": "451 try later"}
    assert (await send_as(of_call())).startswith("The email was not sent. ")
    server.refused = {}
    assert (await send_as(of_call())).startswith("The email was sent by ")
    assert "already" in await send_as(of_call())
    assert len(server.received) == 1


async def test_an_email_that_cannot_be_composed_is_not_in_the_journal(outbox: Path) -> None:
    assert "not sent" in await send_as(of_call(), to="nobody")
    assert not outbox.parent.exists()
    assert "stored" in await send_as(of_call())


async def test_what_cannot_be_written_down_is_not_sent(server: MailServer, outbox: Path) -> None:
    outbox.parent.mkdir()
    outbox.with_name("outbox.journal").write_text("in the way")
    text = await send_as(of_call())
    assert text.startswith("The email was not sent. It cannot be written down")
    assert server.received == []


async def test_a_sent_email_is_told_as_sent_though_its_result_is_not_written_down(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def disk_is_full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Journal, "finish", disk_is_full)
    assert (await send_as(of_call())).startswith("The email was sent by ")
    assert "not sent again" in await send_as(of_call())
    assert len(server.received) == 1


# Settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SMTP_PORT", "smtp"),
        ("SMTP_PORT", "0"),
        ("SMTP_PORT", "65536"),
        ("SMTP_PORT", "-25"),
        ("SMTP_PORT", "25.0"),
        ("SMTP_PORT", "٢٥"),
        ("SMTP_PORT", "9" * 5000),
        ("SMTP_TLS", "yes"),
        ("SMTP_FROM", "nobody"),
        ("SMTP_FROM", "a@b@c"),
        ("SMTP_FROM", "a@example.com\r\nBcc: b@example.com"),
        ("SMTP_FROM", '"a\r\nBcc: b@example.com" <a@example.com>'),
    ],
)
async def test_a_bad_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, outbox: Path, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert f"{variable} is {value[:75]!r}"[:60] in await send_in_vain()
    assert not stored(outbox)


ALL_SETTINGS = {
    "SMTP_HOST": "127.0.0.1",
    "SMTP_PORT": "2525",
    "SMTP_TLS": "tls",
    "SMTP_USERNAME": "user",
    "SMTP_PASSWORD": "s3cret",
    "SMTP_FROM": "Agent <agent@localhost>",
    "OUTBOX_DIR": "outbox",
}


def load_again() -> ModuleType:
    """Run `tools/mail.py` as a server does when it starts, under another name."""
    spec = importlib.util.spec_from_file_location("mail_again", mail.__file__)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("variable", "value"), [("SMTP_PORT", "abc"), ("SMTP_TLS", "maybe"), ("SMTP_FROM", "nobody")]
)
def test_a_bad_setting_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Else it would show when a human has approved the first email."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=rf"^{variable} is '{value}'\. Set it to "):
        load_again()


@pytest.mark.parametrize("missing", ALL_SETTINGS)
def test_a_missing_setting_never_does(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for variable, value in ALL_SETTINGS.items():
        monkeypatch.setenv(variable, "" if variable == missing else value)
    assert load_again().SMTP_SECONDS
    monkeypatch.delenv(missing)
    assert load_again().SMTP_SECONDS


@pytest.mark.parametrize(
    ("tls", "port"), [("none", 25), ("StartTLS ", 587), ("tls", 465), ("", 587)]
)
def test_each_mode_has_its_port(tls: str, port: int) -> None:
    assert read_settings({"SMTP_TLS": tls, "SMTP_HOST": "mail"}).port == port


@pytest.mark.parametrize(
    ("environment", "sender"),
    [
        ({}, Mailbox("", "agent@localhost")),
        ({"SMTP_FROM": ""}, Mailbox("", "agent@localhost")),
        ({"SMTP_FROM": "The Agent <a@b.example.com>"}, Mailbox("The Agent", "a@b.example.com")),
        ({"SMTP_USERNAME": "u@example.com", "SMTP_PASSWORD": "p"}, Mailbox("", "u@example.com")),
        ({"SMTP_USERNAME": "user", "SMTP_PASSWORD": "p"}, Mailbox("", "agent@localhost")),
    ],
)
def test_whom_it_is_from(environment: dict[str, str], sender: Mailbox) -> None:
    assert read_settings(environment).sender == sender


async def test_a_user_name_needs_a_password(
    server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMTP_USERNAME", "user")
    assert "SMTP_PASSWORD must be set too" in await send_in_vain()


def test_the_password_is_not_shown() -> None:
    settings = read_settings({"SMTP_USERNAME": "user", "SMTP_PASSWORD": "s3cret"})
    assert "s3cret" not in repr(settings)


# Recipients


@pytest.mark.parametrize(
    ("to", "recipients"),
    [
        ("bob@example.com", [("", "bob@example.com")]),
        (
            " bob@example.com ,jane@example.com,",
            [("", "bob@example.com"), ("", "jane@example.com")],
        ),
        ("<bob@example.com>", [("", "bob@example.com")]),
        ("Bob B. Müller <bob@example.com>", [("Bob B. Müller", "bob@example.com")]),
        ('"Doe, Jane" <jane@example.com>', [("Doe, Jane", "jane@example.com")]),
        (r'"a \"b\" c@d.com," <e@example.com>', [('a "b" c@d.com,', "e@example.com")]),
        ("bob@example.com, Bob <BOB@Example.com>", [("", "bob@example.com")]),
        ("bob@exämple.com", [("", "bob@xn--exmple-cua.com")]),
    ],
)
def test_which_recipients_are_meant(to: str, recipients: list[tuple[str, str]]) -> None:
    assert parse_recipients(to) == [Mailbox(*one) for one in recipients]


@pytest.mark.parametrize(
    "bad",
    [
        "nobody",
        "@example.com",
        "bob@",
        "bob@localhost",
        "bob@site.test",
        "bob@@example.com",
        "bob smith@example.com",
        "jörg@example.com",
        "bob@example.com>",
        "Bob <bob@example.com> x",
        "Bob <<bob@example.com>>",
        "bob@example.com; jane@example.com",
        '"Bob <bob@example.com>',
        "bob@[127.0.0.1]",
        "x" * 100 + "@example.com",
    ],
)
async def test_one_bad_address_stops_the_email_for_all(
    server: MailServer, outbox: Path, bad: str
) -> None:
    text = await send_in_vain(f"jane@example.com, {bad}")
    assert bad[:90] in text or f"{bad[1:]}" in text
    assert not server.received


async def test_every_refused_address_is_named() -> None:
    text = await send_in_vain("one, bob@example.com, two@, three@localhost")
    assert all(f"{name} (" in text for name in ("one", "two@", "three@localhost"))
    assert "bob@example.com" not in text


@pytest.mark.parametrize("to", ["", "   ", ",", " , ,", []])
async def test_no_recipients(outbox: Path, to: object) -> None:
    assert "no recipients" in await send_in_vain(to)
    assert not stored(outbox)


async def test_a_list_of_addresses_is_understood(server: MailServer) -> None:
    await send(["bob@example.com", '"Doe, Jane" <jane@example.com>'])
    assert server.received[0].recipients == ("bob@example.com", "jane@example.com")


async def test_huge_input_is_answered_shortly() -> None:
    for to in ("x" * 100_000, "x," * 10_000, '"' * 10_000, "<" * 10_000, "\\" * 10_000):
        await send_in_vain(to)
    await send_in_vain(subject="x" * 100_000)


# What goes out, byte for byte

BREAKS = ["\r\n", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x00", "\ud800"]
ENCODED = [
    "=?utf-8?q?=0d=0aBcc:_eve=40example.com?=",
    "=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLmNvbQ==?=",
    "x =?us-ascii?q?=0ABcc:_eve@example.com=0A=0Abody?= =?utf-8?q?=0a?=",
    "=?utf-8?q?=22=20=3Ceve=40example.com=3E=2C?=",
]


def assert_honest(content: bytes, to: list[str], body: str | None = None) -> EmailMessage:
    """Judge a message as its receiver would: nothing in it but what was asked for."""
    head, _, _ = content.partition(b"\r\n\r\n")
    names = [line.split(b":")[0].decode() for line in head.split(b"\r\n") if line[:1] != b" "]
    assert sorted(names) == sorted(HEADERS + MIME_HEADERS)
    assert all(line.strip() for line in head.split(b"\r\n")), "a blank line among the headers"
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", content), "a bare CR or LF"
    assert content.isascii()
    assert max(len(line) for line in content.split(b"\r\n")) <= 998
    message = parse(content)
    assert sorted(message.keys()) == sorted(HEADERS + MIME_HEADERS)
    assert [one.addr_spec for one in message["To"].addresses] == to
    assert not message.defects
    assert not any(header.defects for header in message.values())
    if body is not None:
        assert message.get_content().splitlines() == body.splitlines()
    return message


def names_in(message: EmailMessage) -> list[str]:
    """Decode the names by RFC 2047, which drops the space between two encoded words.

    `EmailMessage` keeps it in names, though not in subjects.
    """
    raw = dict(message.raw_items())["To"]
    return [str(make_header(decode_header(name))) for name, _ in getaddresses([raw])]


@pytest.mark.parametrize("breaker", BREAKS)
@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ("bob@example.com", "Hello{}Bcc: eve@example.com"),
        ("bob@example.com", "Hello{}"),
        ("bob@example.com", "{}Hello"),
        ("bob@example.com", "Hello{}\t{}body"),
        ("bob@example.com{}Bcc: eve@example.com", "Hello"),
        ("bob@example.com,{}eve@example.com", "Hello"),
        ("bob@example.com{}", "Hello"),
        ('"Bob{}Bcc: eve@example.com" <bob@example.com>', "Hello"),
        ("Bob{}Bcc: eve@example.com <bob@example.com>", "Hello"),
        ("bob{}@example.com", "Hello"),
        ("bob@example.com{}RCPT TO:<eve@example.com>", "Hello"),
    ],
)
async def test_no_header_can_be_broken_off(
    server: MailServer, breaker: str, to: str, subject: str
) -> None:
    """Case 50."""
    await send_in_vain(to.replace("{}", breaker), subject.replace("{}", breaker))
    assert not server.received


@pytest.mark.parametrize("encoded", ENCODED)
async def test_encoded_words_are_not_decoded(server: MailServer, encoded: str) -> None:
    """Case 50."""
    quoted = encoded.replace('"', r"\"")
    for subject, name in ((encoded, "Bob"), ("Hi", quoted), (f"Ünï {encoded}", f"Ünï {quoted}")):
        await send(f'"{name}" <bob@example.com>', subject, "Hi.\n")
        received = server.received.pop()
        assert received.recipients == ("bob@example.com",)
        message = assert_honest(received.content, ["bob@example.com"], "Hi.\n")
        assert message["Subject"] == subject
        assert names_in(message)[0] == name


@pytest.mark.parametrize("breaker", [*BREAKS[:-2], ""])
async def test_a_body_forges_no_header(server: MailServer, breaker: str) -> None:
    """Case 50."""
    body = f"{breaker}Bcc: eve@example.com{breaker}.{breaker}{breaker}From me{breaker}RCPT TO:<e@x>"
    await send(body=body)
    [received] = server.received
    assert received.recipients == ("bob@example.com",)
    assert_honest(received.content, ["bob@example.com"])


SMUGGLED = (
    "\r\n.\r\nMAIL FROM:<eve@example.com>\r\nRCPT TO:<eve@example.com>\r\nDATA\r\n\r\nHi\r\n.\r\n"
)


@pytest.mark.parametrize("smuggled", [SMUGGLED, SMUGGLED.replace("\r\n", "\n"), "\n.\r\nx\r.\r"])
async def test_no_second_message_is_smuggled_in(server: MailServer, smuggled: str) -> None:
    """Case 50."""
    assert "sent by" in await send(body=smuggled)
    assert len(server.received) == 1
    text = server.received[0].message.get_content()
    assert text.split() == smuggled.split()


@pytest.mark.parametrize("body", ["a\x00b", "a\ud800b"])
async def test_a_body_that_is_no_text(server: MailServer, body: str) -> None:
    assert "no text" in await send_in_vain(body=body)
    assert not server.received


TEXTS = [
    "",
    "Hello",
    " Hello ",
    "Grüße aus Köln: 你好 🎉",
    "word " * 100,
    "x" * 900,
    "ü" * 300,
    "a" + " " * 300 + "b",
    'quotes " and \\ and , ; : <x@y.com> (z)',
    "Re: =?",
]


@pytest.mark.parametrize("subject", TEXTS)
async def test_a_subject_arrives_as_it_was(server: MailServer, subject: str) -> None:
    await send(subject=subject)
    message = assert_honest(server.received[0].content, ["bob@example.com"])
    assert message["Subject"] == subject.strip()


@pytest.mark.parametrize("name", [text for text in TEXTS if text.strip() and len(text) <= 300])
async def test_a_name_arrives_as_it_was(server: MailServer, name: str) -> None:
    quoted = name.strip().replace("\\", r"\\").replace('"', r"\"")
    await send(f'"{quoted}" <bob@example.com>, jane@example.com')
    message = assert_honest(server.received[0].content, ["bob@example.com", "jane@example.com"])
    assert names_in(message) == [name.strip(), ""]


@pytest.mark.parametrize("body", [*TEXTS, "x" * 5000, "ü\n" * 3000, "line\r\nline\n\n\nend"])
async def test_a_body_arrives_as_it_was(server: MailServer, body: str) -> None:
    await send(body=body)
    message = assert_honest(server.received[0].content, ["bob@example.com"])
    assert message.get_content().splitlines() == (body.splitlines() or [""])


async def test_many_recipients_with_names_arrive_as_they_were(server: MailServer) -> None:
    names = ["Müller, Jörg", 'Ann "A" O\'Neil', "李雷", "", "a@b.com", "x;y", "é" * 60] * 8
    quoted = [name.replace('"', r"\"") for name in names]
    to = [f'"{name}" <user{number}@example.com>' for number, name in enumerate(quoted)]
    await send(to)
    addresses = [f"user{number}@example.com" for number in range(len(names))]
    message = assert_honest(server.received[0].content, addresses)
    assert names_in(message) == names
    assert server.received[0].recipients == tuple(addresses)


def test_two_messages_have_two_ids() -> None:
    first, second = (compose("bob@example.com", "Hi", "Hi", AGENT) for _ in range(2))
    assert first.message_id != second.message_id
    assert first.message_id.endswith("@example.com>")


def test_composing_is_refused_with_a_reason() -> None:
    with pytest.raises(MailError, match="no recipients"):
        compose("", "Hi", "Hi", AGENT)


# What the model sees


def test_the_schema_asks_for_three_strings() -> None:
    served = convert_to_openai_tool(send_email)["function"]["parameters"]
    assert served["required"] == ["to", "subject", "body"]
    assert served["properties"].keys() == send_email.args.keys()
    assert {name: field["type"] for name, field in send_email.args.items()} == {
        "to": "string",
        "subject": "string",
        "body": "string",
    }
    assert "separated by commas" in send_email.args["to"]["description"]


def test_received_is_read_as_a_mail_program_reads_it() -> None:
    received = Received("a@x", ("b@x",), b"Subject: =?utf-8?q?=C3=BC?=\r\n\r\nHi", False, None)
    assert received.message["Subject"] == "ü"
    assert os.linesep.join(received.message.keys()) == "Subject"
