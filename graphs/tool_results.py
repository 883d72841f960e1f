"""How much of a tool's result reaches the history."""

import json
from collections.abc import Iterable

from langchain_core.messages import ToolMessage

MAX_RESULT_CHARACTERS = 20_000
"""Characters of one result, the note about what was left out included."""

_ROOM_FOR_NOTE = 100


def shortened(message: ToolMessage) -> ToolMessage:
    """The result itself where it is short enough, else its beginning with a note.

    Content blocks count by their size as JSON. Where they are too long in all, their text is
    kept as far as it goes. The `artifact`, which no model sees, stays as it is.
    """
    size = _size(message.content)
    if size <= MAX_RESULT_CHARACTERS:
        return message
    kept = _text(message.content)[: MAX_RESULT_CHARACTERS - _ROOM_FOR_NOTE]
    note = f"\n[This result was shortened: {size - len(kept)} of {size} characters were left out.]"
    return message.model_copy(update={"content": kept + note})


def _size(content: str | list[str | dict[str, object]]) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(b) if isinstance(b, str) else len(_as_json(b)) for b in content)


def _text(content: str | list[str | dict[str, object]]) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(blocks: Iterable[str | dict[str, object]]) -> Iterable[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block.get("text"), str):
            yield str(block["text"])


def _as_json(block: dict[str, object]) -> str:
    return json.dumps(block, ensure_ascii=False, default=str)
