"""The local Maildir that emails land in, as tests read it."""

import email
import email.policy
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path


@dataclass(frozen=True)
class Outbox:
    """The Maildir in a folder."""

    folder: Path

    def messages(self) -> list[EmailMessage]:
        """Return all emails, in no particular order."""
        return [
            email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
            for path in self.folder.glob("new/*")
        ]

    def to(self, recipient: str) -> list[str]:
        """Return the texts of the emails to a recipient."""
        return [str(one.get_content()) for one in self.messages() if recipient in one["to"]]
