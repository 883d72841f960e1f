"""What becomes of a call: it runs, or it is given an answer instead."""

from typing import Any, Literal, NotRequired

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from typing_extensions import TypedDict

from graphs.history import calls_of, rebuilt, result_id

AnyToolCall = ToolCall | InvalidToolCall
Status = Literal["success", "error"]


class Answer(TypedDict):
    """A result that is given instead of running the call."""

    content: str
    status: Status


class Approval(TypedDict):
    """What let a call run that was under review, or came beside one.

    Attributes:
        run: The id of the run that brought the answer; empty outside of a server.
        interrupt: The id of the interrupt that it was an answer to.
        answer: The answer as it came.
    """

    run: str
    interrupt: str
    answer: Any


class ToolTask(TypedDict):
    """One call on its way to `tool_node`, each a task of its own.

    Attributes:
        call: The call. One with an `answer` is not run.
        result_id: The id of the message that will hold its result.
        answer: What is said instead of running it.
        note: Put before the result of a call that is run.
        review: What a human decided, for the result's `artifact`.
        approval: The answer to the review that its message waited for.
    """

    call: AnyToolCall
    result_id: str
    answer: NotRequired[Answer]
    note: NotRequired[str]
    review: NotRequired[dict[str, Any]]
    approval: NotRequired[Approval]


def task_for(message: AIMessage, call: AnyToolCall) -> ToolTask:
    """The task of a call as the model made it: to run, unless its arguments were not JSON."""
    if call["type"] == "tool_call":
        return {"call": call, "result_id": result_id(message, call)}
    text = (
        f"Error: the arguments of this call were not valid JSON ({call['error'] or 'no details'}). "
        f"They were: {call['args']}\nCall the tool again with a JSON object as its arguments."
    )
    return answered(message, call, text, "error")


def answered(message: AIMessage, call: AnyToolCall, text: str, status: Status) -> ToolTask:
    """The task of a call that gets `text` as its result and is not run."""
    answer = Answer(content=text, status=status)
    return {"call": call, "result_id": result_id(message, call), "answer": answer}


def first_call(message: AIMessage) -> tuple[AIMessage, list[ToolTask]]:
    """The message with its first call alone, and the tasks that answer its others."""
    first, *others = calls_of(message)
    kind = "tool_calls" if first["type"] == "tool_call" else "invalid_tool_calls"
    alone = rebuilt(message, **{"tool_calls": [], "invalid_tool_calls": [], kind: [first]})
    return alone, [_not_at_once(message, call) for call in others]


def _not_at_once(message: AIMessage, call: AnyToolCall) -> ToolTask:
    """The task of a call that came beside another one, where one at a time may run."""
    text = (
        "Not executed: only one call runs at a time here, and another one came first. "
        "If it is still needed, ask for it again, alone."
    )
    return answered(message, call, text, "error")
