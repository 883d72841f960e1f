"""What of the history the model is shown.

A provider refuses a history in which a call has no result right behind it, a result has no
call, or an assistant message is empty. Such holes come up when a tool raised, a run was
cancelled, or the user wrote on while a review was pending. The state keeps what happened; the
model is shown a view of it in which every call has one result, in the order of the calls.
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"
"""The names of tools that providers take."""

AWAITS_REVIEW = "awaits_review"
"""In the `response_metadata` of a message none of whose calls may run before a human decides."""

NOT_EXECUTED = (
    "Not executed: this call waited for a human's decision, and the user went on instead. "
    "Nothing of it has happened."
)
NO_RESULT = (
    "No result: the run stopped before this call was finished, and the conversation went on "
    "without it. If it was waiting for a human's approval, it was not executed. Otherwise it may "
    "or may not have taken effect. Do not say that it succeeded."
)

STARTED = (
    "No result: a human let this run and it was started, but what came of it is not known. It may "
    "or may not have taken effect. Do not say that it succeeded, nor that it did not."
)
WITHDRAWN = (
    "Not executed: a human had approved this, but the approval was taken back, or answered "
    "otherwise, before it ran. If it is still wanted, call the tool again: it is reviewed anew."
)


def calls_of(message: AnyMessage) -> list[ToolCall | InvalidToolCall]:
    """The calls of a message, those whose arguments were not JSON at the end."""
    if not isinstance(message, AIMessage):
        return []
    return [*message.tool_calls, *message.invalid_tool_calls]


def rebuilt(message: AIMessage, **changes: Any) -> AIMessage:
    """The message under its own id, made afresh from its text, its calls and `changes`.

    A copy would not do: what is taken out of a copy's `tool_calls` lives on in its
    `additional_kwargs` and content blocks, and comes back from a checkpoint or in the request
    to the provider.
    """
    kept: dict[str, Any] = {
        "id": message.id,
        "name": message.name,
        "content": message.text,
        "tool_calls": message.tool_calls,
        "invalid_tool_calls": message.invalid_tool_calls,
        "response_metadata": message.response_metadata,
        "usage_metadata": message.usage_metadata,
    }
    return AIMessage(**kept | changes)


def with_call_ids(message: AIMessage, taken: Iterable[str | None] = ()) -> AIMessage:
    """The message with an id of its own for every call, unchanged where that is so already.

    Args:
        message: An assistant message.
        taken: The ids of earlier calls of the thread. Some servers give the same ids in each
            turn, or none; an id that comes again would stand for two calls.
    """
    ids = [call["id"] for call in calls_of(message)]
    if all(ids) and len(set(ids)) == len(ids) and not set(ids) & set(taken):
        return message
    # At most 40 characters: more are refused by OpenAI.
    fresh = (f"call_{(message.id or '')[-12:]}_{number}" for number in count())
    return rebuilt(
        message,
        tool_calls=[{**call, "id": next(fresh)} for call in message.tool_calls],
        invalid_tool_calls=[{**call, "id": next(fresh)} for call in message.invalid_tool_calls],
    )


def result_id(message: AIMessage, call: ToolCall | InvalidToolCall) -> str:
    """The id of the message that holds the agent's own result of a call.

    Results under other ids came from a client, and are not believed: Agent Chat UI, for one,
    reports success for a pending call when the user writes on instead of deciding.
    """
    return str(uuid5(NAMESPACE_OID, f"{message.id} {call['id']}"))


def unanswered(messages: Sequence[AnyMessage]) -> list[str]:
    """The ids that the results would have of the calls that have none."""
    results = {message.id for message in messages if isinstance(message, ToolMessage)}
    ids = (result_id(m, call) for m in messages if isinstance(m, AIMessage) for call in calls_of(m))
    return [id for id in ids if id not in results]


def view(
    system_prompt: str, messages: Sequence[AnyMessage], started: Container[str] = ()
) -> list[AnyMessage]:
    """What is sent to the model: the system prompt, then the history without holes.

    System messages in the history, which only a client can have put there, are added to the
    prompt, since many providers take one only, and only at the start.

    Args:
        system_prompt: What the model is told before the conversation.
        messages: The conversation as it is kept.
        started: Of `unanswered(messages)`, those that a human let run.
    """
    words = [system_prompt, *(m.text for m in messages if isinstance(m, SystemMessage))]
    results = {m.id: m for m in messages if isinstance(m, ToolMessage)}
    shown: list[AnyMessage] = [SystemMessage("\n\n".join(words))]
    for message in messages:
        if isinstance(message, AIMessage):
            shown.extend(_with_results(message, results, started))
        elif not isinstance(message, SystemMessage | ToolMessage):
            shown.append(message)
    return shown


def _with_results(
    message: AIMessage, results: Mapping[Any, ToolMessage], started: Container[str]
) -> list[AnyMessage]:
    """An assistant message and one result for each of its calls; nothing if it says nothing."""
    if not calls_of(message):
        return [message] if message.text.strip() else []
    message = _readable(with_call_ids(message))
    answers = (
        results.get(result_id(message, call)) or _no_result(message, call, started)
        for call in message.tool_calls
    )
    return [message, *answers]


def _readable(message: AIMessage) -> AIMessage:
    """The message with calls that a provider takes back: JSON arguments, and a possible name.

    What the model sent in their place stands in the call's result.
    """
    possible = all(re.fullmatch(TOOL_NAME, call["name"]) for call in message.tool_calls)
    if possible and not message.invalid_tool_calls:
        return message
    calls = [
        ToolCall(name=_possible_name(call["name"]), args=args, id=call["id"], type="tool_call")
        for call, args in [
            *((call, call["args"]) for call in message.tool_calls),
            *((call, {}) for call in message.invalid_tool_calls),
        ]
    ]
    return rebuilt(message, tool_calls=calls, invalid_tool_calls=[])


def _possible_name(name: str | None) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name or "")[:64] or "unknown"


def _no_result(message: AIMessage, call: ToolCall, started: Container[str]) -> ToolMessage:
    text = NOT_EXECUTED if AWAITS_REVIEW in message.response_metadata else NO_RESULT
    if result_id(message, call) in started:
        text = STARTED
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")
