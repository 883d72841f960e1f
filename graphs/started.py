"""Remembers which calls were started that a human let run, also when the thread no longer does.

A run that is rolled back, or dies before its checkpoints are saved, leaves the thread as it was
before the approval, while the call may have had its effect. LangGraph's store is not rolled back.
Without a store nothing is remembered.
"""

import asyncio
from collections.abc import Iterable

from langchain_core.runnables import RunnableConfig

from graphs.tool_tasks import ToolTask
from tools.journal import running_store

NAMESPACE = ("started",)
SERVES = "serves"
"""Metadata: the ids of the results of the calls that a run is a part of, the outermost first."""


def serving(config: RunnableConfig) -> list[str]:
    """The ids of the results of the delegations that a call is a part of."""
    found: list[str] = config.get("metadata", {}).get(SERVES, [])
    return found


async def note_start(task: ToolTask, config: RunnableConfig) -> None:
    """Write down that a call is about to run which a human let run."""
    if "approval" in task and (store := running_store()):
        for id in (*serving(config), task["result_id"]):
            await store.aput(NAMESPACE, id, {"call": task["call"]["id"]}, index=False)


async def started_of(result_ids: Iterable[str]) -> set[str]:
    """Which of these calls were started, by the ids that their results have."""
    store, ids = running_store(), list(result_ids)
    if not store:
        return set()
    found = await asyncio.gather(*(store.aget(NAMESPACE, id) for id in ids))
    return {id for id, item in zip(ids, found, strict=True) if item}
