"""How a tool's result reaches the history: with a human's note, and not longer than it may be."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from graphs.tool_tasks import ToolTask

MAX_RESULT_CHARACTERS = 20_000
"""Characters of one message that a tool returns, the note about what was left out included."""

_ROOM_FOR_NOTE = 100

Content = str | list[str | dict[str, Any]]


def in_shape(update: Any, task: ToolTask) -> Any:
    """What a tool returned (an update of the state, a `Command` or a list of them), in shape.

    Args:
        update: What `ToolNode` returns.
        task: The call that was run: its result gets the task's id, note and review.
    """
    if isinstance(update, list):
        return [in_shape(part, task) for part in update]
    if isinstance(update, Command):
        return replace(update, update=in_shape(update.update, task))
    if isinstance(update, Mapping) and isinstance(update.get("messages"), list):
        messages = [shortened(_as_result(message, task)) for message in update["messages"]]
        return {**update, "messages": messages}
    return update


def _as_result(message: Any, task: ToolTask) -> Any:
    """The message that answers the call, as the agent's own; any other as it is."""
    if not isinstance(message, ToolMessage) or message.tool_call_id != task["call"]["id"]:
        return message
    changes: dict[str, Any] = {"id": task["result_id"]}
    if "note" in task:
        changes["content"] = _noted(message.content, task["note"])
    if "review" in task:
        own = {} if message.artifact is None else {"tool_artifact": message.artifact}
        changes["artifact"] = task["review"] | own
    return message.model_copy(update=changes)


def _noted(content: Content, note: str) -> Content:
    if isinstance(content, str):
        return f"{note}\n{content}"
    return [{"type": "text", "text": note}, *content]


def shortened(message: Any) -> Any:
    """The message itself where it is short enough, else its beginning with a note.

    Content blocks count by their size as JSON. Where they are too long in all, their text is
    kept as far as it goes. The `artifact`, which no model sees, stays as it is.
    """
    if not isinstance(message, BaseMessage):
        return message
    size = _size(message.content)
    if size <= MAX_RESULT_CHARACTERS:
        return message
    kept = _text(message.content)[: MAX_RESULT_CHARACTERS - _ROOM_FOR_NOTE]
    note = f"\n[This result was shortened: {size - len(kept)} of {size} characters were left out.]"
    return message.model_copy(update={"content": kept + note})


def _size(content: Content) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(b) if isinstance(b, str) else len(_as_json(b)) for b in content)


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(blocks: Iterable[str | dict[str, Any]]) -> Iterable[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block.get("text"), str):
            yield block["text"]


def _as_json(block: dict[str, Any]) -> str:
    return json.dumps(block, ensure_ascii=False, default=str)
