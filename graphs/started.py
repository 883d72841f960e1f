"""Remembers which approved calls were started, also when the thread no longer does.

A run that is rolled back, or dies before its checkpoints are saved, leaves the thread as it was
before the approval, while the call may have had its effect. LangGraph's store is not rolled back.
Without a store nothing is remembered.
"""

import asyncio
from collections.abc import Iterable

from graphs.tool_tasks import ToolTask
from tools.journal import running_store

NAMESPACE = ("started",)


async def note_start(task: ToolTask) -> None:
    """Write down that a call which a human approved is about to run."""
    if "review" in task and (store := running_store()):
        await store.aput(NAMESPACE, task["result_id"], {"call": task["call"]["id"]}, index=False)


async def started_of(result_ids: Iterable[str]) -> set[str]:
    """Which of these calls were started, by the ids that their results have."""
    store, ids = running_store(), list(result_ids)
    if not store:
        return set()
    found = await asyncio.gather(*(store.aget(NAMESPACE, id) for id in ids))
    return {id for id, item in zip(ids, found, strict=True) if item}
