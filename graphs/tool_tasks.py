"""What becomes of a call: it runs, or it is given an answer instead."""

from typing import Literal, NotRequired

from langchain_core.messages import InvalidToolCall, ToolCall
from typing_extensions import TypedDict

AnyToolCall = ToolCall | InvalidToolCall


class Answer(TypedDict):
    """A result that is given instead of running the call."""

    content: str
    status: Literal["success", "error"]


class ToolTask(TypedDict):
    """One call on its way to `tool_node`, each a task of its own.

    A call with an `answer` is not run. A `note` is put before the result of one that is.
    """

    call: AnyToolCall
    answer: NotRequired[Answer]
    note: NotRequired[str]


def answered(call: AnyToolCall, text: str, status: Literal["success", "error"]) -> ToolTask:
    """The task of a call that gets `text` as its result and is not run."""
    return {"call": call, "answer": {"content": text, "status": status}}


def task_for(call: AnyToolCall) -> ToolTask:
    """The task of a call as the model made it: to run, unless its arguments were not JSON."""
    if call["type"] == "tool_call":
        return {"call": call}
    text = (
        f"Error: the arguments of this call were not valid JSON ({call['error'] or 'no details'}). "
        f"They were: {call['args']}\nCall the tool again with a JSON object as its arguments."
    )
    return answered(call, text, "error")


def not_at_once(call: AnyToolCall) -> ToolTask:
    """The task of a call that came beside another one, where one at a time may run."""
    text = (
        "Not executed: only one call runs at a time here, and another one came first. "
        "If it is still needed, ask for it again, alone."
    )
    return answered(call, text, "error")
