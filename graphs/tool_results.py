"""How a tool's result reaches the history: with a human's note, and not longer than it may be."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

MAX_RESULT_CHARACTERS = 20_000
"""Characters of one message that a tool returns, the note about what was left out included."""

_ROOM_FOR_NOTE = 100

Content = str | list[str | dict[str, Any]]


def in_shape(update: Any, note: str = "") -> Any:
    """What a tool returned (an update of the state, a `Command` or a list of them), in shape.

    Args:
        update: What `ToolNode` returns.
        note: Put before each result.
    """
    if isinstance(update, list):
        return [in_shape(part, note) for part in update]
    if isinstance(update, Command):
        return replace(update, update=in_shape(update.update, note))
    if isinstance(update, Mapping) and isinstance(update.get("messages"), list):
        messages = [shortened(_noted(message, note)) for message in update["messages"]]
        return {**update, "messages": messages}
    return update


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


def _noted(message: Any, note: str) -> Any:
    if not note or not isinstance(message, ToolMessage):
        return message
    content: Content = message.content
    block = {"type": "text", "text": note}
    noted = f"{note}\n{content}" if isinstance(content, str) else [block, *content]
    return message.model_copy(update={"content": noted})


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
