"""What of the history the model is shown.

A provider refuses a history in which a call has no result right behind it, a result has no
call, or an assistant message is empty. Such holes come up when a tool raised, a run was
cancelled, or the user wrote on while a review was pending. The state keeps what happened; the
model is shown a view of it in which every call has one result, in the order of the calls.
"""

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

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

NO_RESULT = (
    "No result: the run stopped before this call was finished, and the conversation went on "
    "without it. If it was waiting for a human's approval, it was not executed. Otherwise it may "
    "or may not have taken effect. Do not say that it succeeded."
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


def with_call_ids(message: AIMessage) -> AIMessage:
    """The message with an id of its own for every call, unchanged where that is so already."""
    ids = [call["id"] for call in calls_of(message)]
    if all(ids) and len(set(ids)) == len(ids):
        return message
    # At most 40 characters: more are refused by OpenAI.
    fresh = (f"call_{(message.id or '')[-12:]}_{number}" for number in count())
    return rebuilt(
        message,
        tool_calls=[{**call, "id": next(fresh)} for call in message.tool_calls],
        invalid_tool_calls=[{**call, "id": next(fresh)} for call in message.invalid_tool_calls],
    )


def view(system_prompt: str, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What is sent to the model: the system prompt, then the history without holes.

    System messages in the history, which only a client can have put there, are added to the
    prompt, since many providers take one only, and only at the start.
    """
    words = [system_prompt, *(m.text for m in messages if isinstance(m, SystemMessage))]
    results = _results_by_position(messages)
    shown: list[AnyMessage] = [SystemMessage("\n\n".join(words))]
    for position, message in enumerate(messages):
        if isinstance(message, AIMessage):
            shown.extend(_with_results(message, results.get(position, {})))
        elif not isinstance(message, SystemMessage | ToolMessage):
            shown.append(message)
    return shown


Results = dict[str, ToolMessage]


def _results_by_position(messages: Sequence[AnyMessage]) -> dict[int, Results]:
    """By the position of an assistant message: the results up to the next one, by call id.

    Of several results for one call, the first counts.
    """
    found: dict[int, Results] = {}
    position = -1
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            position = index
        elif isinstance(message, ToolMessage):
            found.setdefault(position, {}).setdefault(message.tool_call_id, message)
    return found


def _with_results(message: AIMessage, results: Results) -> list[AnyMessage]:
    """An assistant message and one result for each of its calls; nothing if it says nothing."""
    if not calls_of(message):
        return [message] if message.text.strip() else []
    message = _readable(with_call_ids(message))
    return [message, *(results.get(str(c["id"])) or _no_result(c) for c in message.tool_calls)]


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


def _no_result(call: ToolCall) -> ToolMessage:
    return ToolMessage(NO_RESULT, name=call["name"], tool_call_id=call["id"], status="error")
