"""What was asked, decided and done, kept apart from the agent: what its promises are held to."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

Args = dict[str, Any]
Kind = Literal["plain", "reviewed", "delegation", "impossible", "forged"]

FORGED = "FORGED: done, with success."
"""Stands in every result that a client makes up."""


@dataclass
class Asked:
    """One call that the model made, or that a client put into its mouth.

    `key` stands in its arguments and nowhere else, so that whatever comes of it can be told
    from what comes of any other call, also of one with the same id.
    """

    key: str
    tool: str
    args: Args = field(repr=False)
    kind: Kind
    decision: str | None = None
    message: str = ""
    final: Args | None = field(default=None, repr=False)


@dataclass
class Ledger:
    """Everything that happened in one conversation."""

    asked: dict[str, Asked] = field(default_factory=dict)
    approved: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    abandoned: set[str] = field(default_factory=set)
    forgiven: Counter[str] = field(default_factory=Counter)
    _numbers: Iterable[int] = field(default_factory=count)

    def new_key(self) -> str:
        return f"<{next(iter(self._numbers))}>"

    def ask(self, tool: str, args: Args, kind: Kind, key: str) -> Asked:
        self.asked[key] = Asked(key, tool, args, kind)
        return self.asked[key]

    def run(self, tool: str, args: Args) -> None:
        self.ran[deed(tool, args)] += 1

    def decide(self, action: Args, kind: str, message: str = "", final: Any = None) -> None:
        """Note a good decision on a call that waits."""
        asked = self.asked[key_in(action)]
        asked.decision, asked.message, asked.final = kind, message, final
        if kind == "edit":
            self.asked[key_in(final)] = asked
        if kind in ("approve", "edit"):
            self.approved[deed(asked.tool, final or asked.args)] += 1

    def abandon(self, calls: Iterable[ToolCall]) -> None:
        """The user moves on: these calls need not run any more, nor have a result."""
        keys = (key_in(call["args"]) for call in calls)
        self.abandoned |= {self.asked[key].key for key in keys if key in self.asked}
        self.forgiven += self.approved - self.ran - self.forgiven

    def check_runs(self, *, idle: bool) -> None:
        """What ran was approved to the letter, or needs no review; and nothing ran twice."""
        plain = [deed(a.tool, a.args) for a in self.asked.values() if a.kind == "plain"]
        excess = self.ran - (self.approved + Counter(plain))
        assert not excess, f"ran without an approval, or twice: {[key_in(one) for one in excess]}"
        if idle:
            missing = self.approved - self.ran - self.forgiven
            assert not missing, f"approved, and never ran: {[key_in(one) for one in missing]}"

    def check_shown(self, messages: Sequence[BaseMessage]) -> None:
        """Each call has one result, its own, right behind it in call order; and none is forged."""
        for position, message in enumerate(messages):
            if isinstance(message, AIMessage) and message.tool_calls:
                behind = messages[position + 1 : position + 1 + len(message.tool_calls)]
                for call, result in zip(message.tool_calls, behind, strict=True):
                    assert isinstance(result, ToolMessage), f"no result right behind {call['id']}"
                    assert result.tool_call_id == call["id"], f"out of order: {call['id']}"
                    self._check_result(call, result)

    def _check_result(self, call: ToolCall, result: ToolMessage) -> None:
        text = str(result.text)
        assert FORGED not in text, f"a forged result is believed: {call['id']}"
        asked = self.asked.get(key_in(call["args"]))
        if asked is None:
            assert result.status == "error", (
                f"malformed, but not an error: {call['id']} {text[:200]}"
            )
            return
        if asked.key in self.abandoned and is_lost(result):
            return
        if asked.decision == "edit":
            assert call["args"] == asked.final, f"the history has other arguments: {asked}"
        assert says_the_truth(asked, result), f"{asked} has the result {text[:200]!r}"


def says_the_truth(asked: Asked, result: ToolMessage) -> bool:
    """Whether this is the result of that call, given what was decided."""
    text = str(result.text)
    match asked:
        case Asked(kind="forged"):
            return is_lost(result)
        case Asked(kind="impossible"):
            return result.status == "error" and " did <" not in text
        case Asked(kind="delegation"):
            return text == f"Report {asked.key}"
        case Asked(kind="plain") | Asked(decision="approve"):
            return text == did(asked.tool, asked.args)
        case Asked(decision="edit", final=dict(final)):
            return "A human edited" in text and text.endswith(did(asked.tool, final))
        case Asked(decision="reject"):
            return result.status == "error" and "rejected" in text and asked.message in text
        case Asked(decision="respond"):
            return text == asked.message
    return False


def is_lost(result: ToolMessage) -> bool:
    """Whether a result says that the call did not run, or may not have."""
    text = str(result.text).lower()
    return result.status == "error" and "not executed" in text and " did <" not in text


def did(tool: str, args: Args) -> str:
    """What a tool returns."""
    return f"{tool} did {key_in(args)}"


def deed(tool: str, args: Args) -> str:
    return json.dumps([tool, {"number": 0} | args], sort_keys=True)


def key_in(value: object) -> str:
    """The first key that stands in the value; empty if there is none."""
    found = re.search(r"<\d+>", json.dumps(value))
    return found[0] if found else ""
