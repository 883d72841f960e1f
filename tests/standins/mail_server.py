"""A real SMTP server in a thread, which keeps what it gets and fails where it is told to.

with MailServer() as server:
    server.environment               # the SMTP_* variables that lead to it
    server.received                  # envelopes and raw bytes
    server.refused["bob@example.com"] = "550 no such user"
    server.drop_at = "DATA"          # break off the connection at this command
    server.hang_at = "RCPT"          # or take the command and stay silent
    server.delay = 0.1               # take as long, in seconds, for each command

with MailServer(tls="starttls", login=("user", "password")) as server:
    server.trust                     # where SSL_CERT_FILE must point to
"""

import asyncio
import contextlib
import functools
import socket
import ssl
import tempfile
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

Stage = Literal["EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT"]


@dataclass(frozen=True)
class Received:
    sender: str
    recipients: tuple[str, ...]
    content: bytes
    over_tls: bool
    user: str | None

    @property
    def message(self) -> EmailMessage:
        """What the recipient's mail program makes of the bytes."""
        message = BytesParser(policy=default).parsebytes(self.content)
        assert isinstance(message, EmailMessage)
        return message


class MailServer:
    """The server. Use it as a context manager, or start and stop it."""

    def __init__(
        self,
        tls: Literal["none", "starttls", "tls"] = "none",
        login: tuple[str, str] | None = None,
    ) -> None:
        self.tls = tls
        self.login = login
        self.reset()
        server_context = make_tls()[0] if tls != "none" else None
        self._controller = FreePortController(
            self,
            hostname="127.0.0.1",
            ssl_context=server_context if tls == "tls" else None,
            tls_context=server_context if tls == "starttls" else None,
            require_starttls=tls == "starttls",
            authenticator=self.check_login,
            auth_required=login is not None,
            auth_require_tls=tls == "starttls",
            server_hostname="mail.example.com",
            enable_SMTPUTF8=False,
        )

    def reset(self) -> None:
        self.received: list[Received] = []
        self.refused: dict[str, str] = {}
        self.refused_sender = ""
        self.refused_content = ""
        self.drop_at: Stage | None = None
        self.hang_at: Stage | None = None
        self.delay = 0.0
        self.farewells = 0
        self._user: str | None = None

    @property
    def port(self) -> int:
        return int(self._controller.port)

    @property
    def trust(self) -> str:
        """The certificate authority's file."""
        return make_tls()[1]

    @property
    def environment(self) -> dict[str, str]:
        variables = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(self.port), "SMTP_TLS": self.tls}
        if self.login:
            variables |= {"SMTP_USERNAME": self.login[0], "SMTP_PASSWORD": self.login[1]}
        if self.tls != "none":
            variables["SSL_CERT_FILE"] = self.trust
        return variables

    def start(self) -> Self:
        self._controller.start()
        return self

    def stop(self) -> None:
        self._controller.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # aiosmtpd calls these.

    def check_login(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        if self.drop_at == "AUTH":
            abort(server)
        assert isinstance(data, LoginPassword)
        given = (data.login.decode(), data.password.decode())
        if given == self.login:
            self._user = given[0]
            return AuthResult(success=True)
        # As some servers do, repeat what should not be repeated.
        return AuthResult(success=False, handled=False, message=f"535 5.7.8 bad login {given}")

    async def handle_EHLO(
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        session.host_name = hostname
        await self._fail_at("EHLO", server)
        return responses

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        await self._fail_at("MAIL", server)
        if self.refused_sender:
            return self.refused_sender
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        await self._fail_at("RCPT", server)
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.refused_content:
            return self.refused_content
        self.received.append(
            Received(
                sender=str(envelope.mail_from),
                recipients=tuple(envelope.rcpt_tos),
                content=bytes(envelope.original_content or b""),
                over_tls=session.ssl is not None or self.tls == "tls",
                user=self._user if session.authenticated else None,
            )
        )
        await self._fail_at("DATA", server)
        return "250 2.0.0 queued"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.farewells += 1
        await self._fail_at("QUIT", server)
        return "221 Bye"

    async def _fail_at(self, stage: Stage, server: SMTP) -> None:
        await asyncio.sleep(self.delay)
        if self.drop_at == stage:
            abort(server)
        if self.hang_at == stage:
            await asyncio.sleep(60)


class FreePortController(Controller):
    """A controller that lets the system choose the port."""

    def __init__(self, handler: MailServer, **options: Any) -> None:
        super().__init__(handler, port=0, **options)
        self.listening = socket.socket()
        self.listening.bind((self.hostname, 0))
        self.port = self.listening.getsockname()[1]

    def _create_server(self) -> Any:
        return self.loop.create_server(
            self._factory_invoker, sock=self.listening, ssl=self.ssl_context
        )

    def _trigger_server(self) -> None:
        with contextlib.suppress(OSError), socket.create_connection((self.hostname, self.port), 1):
            pass


def abort(server: SMTP) -> None:
    assert isinstance(server.transport, asyncio.Transport)
    server.transport.abort()


@functools.cache
def make_tls() -> tuple[ssl.SSLContext, str]:
    """Make a certificate for 127.0.0.1, and the file of the authority that vouches for it."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    folder = tempfile.TemporaryDirectory(prefix="mail-server-ca-")
    _folders.append(folder)
    path = Path(folder.name) / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, str(path)


# Removed when the process ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []
