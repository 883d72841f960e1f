# ruff: noqa: E501 (the cases are a table)
"""The view on the history: a table of broken histories and what the model is shown."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
)

from graphs.history import (
    AWAITS_REVIEW,
    NO_RESULT,
    NOT_EXECUTED,
    STARTED,
    result_id,
    unanswered,
    view,
    with_call_ids,
)
from tests.standins.provider_rules import check_langchain_history


def asks(*ids: str | None, m: str = "m") -> AIMessage:
    calls: list[Any] = [{"name": f"tool{id_}", "args": {}, "id": id_} for id_ in ids]
    return AIMessage("", id=m, tool_calls=calls)


def result(id_: str, text: str = "", m: str = "m") -> ToolMessage:
    """The agent's own result of a call of message `m`."""
    (call,) = asks(id_).tool_calls
    own = result_id(AIMessage("", id=m), call)
    return ToolMessage(text or f"result {id_}", tool_call_id=id_, id=own)


def forged(id_: str, message_id: str | None = None) -> ToolMessage:
    return ToolMessage("Successfully handled tool call.", tool_call_id=id_, id=message_id)


def malformed(id_: str | None, name: str | None = "tool") -> AIMessage:
    bad = InvalidToolCall(type="invalid_tool_call", name=name, args="{x", id=id_, error="no JSON")
    return AIMessage("", id="m", invalid_tool_calls=[bad])


H = HumanMessage("hi")
NOTHING = "no result"


def outline(messages: list[AnyMessage]) -> list[str]:
    """A history in short: each message's type, and what matters of it."""
    return [_short(message) for message in messages]


def _short(message: AnyMessage) -> str:
    if isinstance(message, ToolMessage):
        text = NOTHING if message.text == NO_RESULT else message.text
        return f"{message.tool_call_id}: {text}"
    if isinstance(message, AIMessage) and message.tool_calls:
        return "asks " + " ".join(str(call["id"]) for call in message.tool_calls)
    return f"{message.type}: {message.text}"


CASES: list[tuple[str, list[AnyMessage], list[str]]] = [
    ("nothing wrong", [H, asks("1"), result("1"), AIMessage("ok")],
     ["human: hi", "asks 1", "1: result 1", "ai: ok"]),
    ("case 11, 12: the user wrote on while a review was pending", [H, asks("1"), HumanMessage("and?")],
     ["human: hi", "asks 1", f"1: {NOTHING}", "human: and?"]),
    ("case 12: a result appended last belongs behind its call", [H, asks("1"), HumanMessage("and?"), result("1")],
     ["human: hi", "asks 1", "1: result 1", "human: and?"]),
    ("case 13: cancelled with one of two done", [H, asks("1", "2"), result("2"), HumanMessage("and?")],
     ["human: hi", "asks 1 2", f"1: {NOTHING}", "2: result 2", "human: and?"]),
    ("results in the order of the calls", [H, asks("1", "2"), result("2"), result("1")],
     ["human: hi", "asks 1 2", "1: result 1", "2: result 2"]),
    ("case 19: a second result for a call", [H, asks("1"), result("1"), forged("1")],
     ["human: hi", "asks 1", "1: result 1"]),
    ("case 15: a result of no call", [H, result("9"), AIMessage("ok")], ["human: hi", "ai: ok"]),
    ("a result first", [result("9"), H], ["human: hi"]),
    ("an id that comes again in a later turn", [H, asks("1"), result("1", "old"), AIMessage("a"), H, asks("1", m="n"), result("1", "new", m="n")],
     ["human: hi", "asks 1", "1: old", "ai: a", "human: hi", "asks 1", "1: new"]),
    ("an id that comes again, without a result", [H, asks("1"), AIMessage("a"), H, asks("1", m="n"), result("1", "new", m="n")],
     ["human: hi", "asks 1", f"1: {NOTHING}", "ai: a", "human: hi", "asks 1", "1: new"]),
    ("a result that the agent did not make", [H, asks("1"), forged("1"), H], ["human: hi", "asks 1", f"1: {NOTHING}", "human: hi"]),
    ("one of Agent Chat UI's", [H, asks("1"), forged("1", "do-not-render-1"), H], ["human: hi", "asks 1", f"1: {NOTHING}", "human: hi"]),
    ("a forged result before the agent's own", [H, asks("1"), forged("1"), result("1")], ["human: hi", "asks 1", "1: result 1"]),
    ("the result of another message's call", [H, asks("1"), result("1", m="n"), H], ["human: hi", "asks 1", f"1: {NOTHING}", "human: hi"]),
    ("an empty answer", [H, AIMessage(""), AIMessage("  "), AIMessage([]), H], ["human: hi", "human: hi"]),
    ("a client's system message joins the prompt", [H, SystemMessage("Be brief."), AIMessage("ok")],
     ["human: hi", "ai: ok"]),
    ("calls from a client, without ids", [asks(None, None), H],
     ["asks call_m_0 call_m_1", f"call_m_0: {NOTHING}", f"call_m_1: {NOTHING}", "human: hi"]),
    ("calls of one id", [H, asks("1", "1"), result("1")],
     ["human: hi", "asks call_m_0 call_m_1", f"call_m_0: {NOTHING}", f"call_m_1: {NOTHING}"]),
    ("case 14: arguments that are no JSON", [H, malformed("1"), result("1")],
     ["human: hi", "asks 1", "1: result 1"]),
    ("a name that providers refuse", [H, AIMessage("", id="m", tool_calls=[{"name": "multi_tool_use.parallel", "args": {}, "id": "1"}]), result("1")],
     ["human: hi", "asks 1", "1: result 1"]),
    ("no name, and a long one", [H, AIMessage("", tool_calls=[{"name": n, "args": {}, "id": n} for n in ("", "x" * 70)], id="m")],
     ["human: hi", "asks call_m_0 call_m_1", f"call_m_0: {NOTHING}", f"call_m_1: {NOTHING}"]),
    ("case 14: nothing right about a call", [H, malformed(None, None)],
     ["human: hi", "asks call_m_0", f"call_m_0: {NOTHING}"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_model_is_shown_a_history_without_holes(
    messages: list[AnyMessage], expected: list[str]
) -> None:
    before = [m.model_copy(deep=True) for m in messages]
    shown = view("Prompt.", messages)
    assert isinstance(shown[0], SystemMessage)
    assert outline(shown[1:]) == expected
    check_langchain_history(shown)
    assert messages == before, "the view must not change the history"


def test_a_clients_system_message_is_not_lost() -> None:
    shown = view("Prompt.", [SystemMessage("Be brief."), H])
    assert shown[0].text == "Prompt.\n\nBe brief."


def test_a_message_with_good_calls_is_left_as_it_is() -> None:
    message = asks("1", "2")
    assert with_call_ids(message) is message


def test_fresh_ids_are_short_enough_for_providers() -> None:
    message = asks(None).model_copy(update={"id": "lc_run--0199f9a5-1111-7222-8333-444455556666"})
    (call,) = with_call_ids(message).tool_calls
    assert call["id"]
    assert len(call["id"]) <= 40


def test_a_call_that_waited_for_a_review_is_told_for_what_it_is() -> None:
    """The user went on instead, and one of the two had been approved and started after all."""
    waiting = asks("1", "2", "3")
    waiting.response_metadata[AWAITS_REVIEW] = True
    messages: list[AnyMessage] = [H, waiting, result("3"), H, asks("1", m="n")]
    first, second = (result_id(waiting, call) for call in waiting.tool_calls[:2])
    assert unanswered(messages)[:2] == [first, second]
    assert len(unanswered(messages)) == 3
    assert [m.text for m in view("Prompt.", messages)[3:6]] == [NOT_EXECUTED] * 2 + ["result 3"]
    told = [m.text for m in view("Prompt.", messages, {second})[3:6]]
    assert told == [NOT_EXECUTED, STARTED, "result 3"]


class Counted(list[AnyMessage]):
    """A history that counts how many of its messages are read."""

    read = 0

    def __iter__(self) -> Iterator[AnyMessage]:
        for message in super().__iter__():
            self.read += 1
            yield message

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.read += len(found) if isinstance(key, slice) else 1
        return found


def test_a_long_history_is_read_a_few_times_and_not_once_a_message() -> None:
    messages = Counted([H, *[m for n in range(500) for m in (asks(str(n)), result(str(n)))]])
    assert len(view("Prompt.", messages)) == len(messages) + 1
    assert messages.read <= 4 * len(messages)


def test_a_missing_result_is_marked_as_an_error() -> None:
    missing = view("Prompt.", [H, asks("1"), H])[3]
    assert isinstance(missing, ToolMessage)
    assert missing.status == "error"


def test_a_call_that_waited_for_a_human_is_told_as_not_executed() -> None:
    waiting = asks("1", "2")
    waiting.response_metadata[AWAITS_REVIEW] = True
    shown = view("Prompt.", [H, waiting, forged("1"), H])
    assert [m.text for m in shown[3:5]] == [NOT_EXECUTED, NOT_EXECUTED]


@pytest.mark.parametrize("taken", [["1"], ["x", "2"]])
def test_an_id_of_an_earlier_turn_is_replaced(taken: list[str]) -> None:
    ids = [call["id"] for call in with_call_ids(asks("1", "2"), taken).tool_calls]
    assert ids == ["call_m_0", "call_m_1"]
