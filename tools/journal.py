"""Remembers what a tool call has begun, so that the same call does not do it twice.

A run that is retried after a crash runs its tool calls again. What cannot be taken back is
written down here before it is done, and what came of it afterwards.
"""

import asyncio
import json
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store
from langgraph.store.base import BaseStore

NAMESPACE = ("journal",)


@dataclass(frozen=True)
class Entry:
    """What was begun, in words, and its result: empty as long as that is not known."""

    begun: str
    result: str = ""


def call_key(config: RunnableConfig, *does: object) -> str:
    """The key of the tool call that runs, in hexadecimal: the same whenever it runs again.

    A subagent may meet the same ids in each delegation, so the key is of the delegation too. It
    is empty if the config has no thread, or its metadata no `tool_call_id`.

    Args:
        config: The tool's.
        does: What the call does, as JSON: a human may edit it when an earlier checkpoint is
            played again, and then it is another call.
    """
    configurable = config.get("configurable", {})
    thread, call = configurable.get("thread_id"), config.get("metadata", {}).get("tool_call_id")
    if not thread or not call:
        return ""
    delegation, _, _ = str(configurable.get("checkpoint_ns", "")).rpartition("|")
    return sha256(json.dumps([str(thread), delegation, str(call), *does]).encode()).hexdigest()


def running_store() -> BaseStore | None:
    """The store of the graph that runs; none outside of one."""
    with suppress(RuntimeError, KeyError):
        return get_store()
    return None


@dataclass(frozen=True)
class Journal:
    """One entry a key: in a file, and in LangGraph's store where the run has one.

    The file outlives a crash from the start, while `langgraph dev` saves its store every ten
    seconds; the store is there for other machines. Of two calls that begin at once, one is let
    through on one machine; on two machines both may be, since no store has an atomic "add".
    The folder is made. It must be writable (else `OSError`) only where there is no store.
    """

    folder: Path
    store: BaseStore | None

    async def begin(self, key: str, entry: Entry) -> Entry | None:
        """Write down what is about to be done, unless it was begun before: then return that."""
        found: Entry | None = await self._on_disk(create, key, entry)
        if self.store and not found:
            item = await self.store.aget(NAMESPACE, key)
            found = Entry(**item.value) if item else None
            await self.finish(key, found or entry)
        return found

    async def finish(self, key: str, entry: Entry) -> None:
        """Write down what came of it."""
        await self._on_disk(Path.write_text, key, json.dumps(asdict(entry)), "utf-8")
        if self.store:
            await self.store.aput(NAMESPACE, key, asdict(entry))

    async def take_back(self, key: str) -> None:
        """Forget it, since nothing was done: the call may be tried again."""
        await self._on_disk(Path.unlink, key, True)  # if it is not gone already
        if self.store:
            await self.store.adelete(NAMESPACE, key)

    async def _on_disk(self, action: Any, key: str, *args: object) -> Any:
        with suppress(OSError) if self.store else nullcontext():
            return await asyncio.to_thread(action, self.folder / f"{key}.json", *args)


def create(path: Path, entry: Entry) -> Entry | None:
    """Make the file, unless it is there: then return what it holds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump(asdict(entry), file)
    except FileExistsError:
        with suppress(ValueError):  # whoever writes it has not come to the end
            entry = Entry(**json.loads(path.read_text(encoding="utf-8")))
        return entry
    return None
