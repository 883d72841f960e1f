"""An answer counts for the request that it was given to, and for no other.

LangGraph keeps an answer without an interrupt id for whichever pause comes next in the run, also
inside a subagent, and for the run's retries: one that nobody has been shown a request for would
take it. At the checkpoint of a review that was decided it plays that decision again, whatever
the new answer says. (langgraph 1.2: `interrupt`, and `_scratchpad` of its `pregel`.)
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.types import Interrupt

NOT_TAKEN = (
    "Nothing was run. An answer came that was given before this was asked. "
    "Please decide on what is asked here."
)
NOT_TAKEN_YET = f"{NOT_TAKEN} Answer by the interrupt's id; without it, the first answer is lost."

OF_THE_RUN = str(UUID(int=0))
"""What LangGraph stores as the task of an answer without an interrupt id."""


async def set_aside_other_answers(config: RunnableConfig) -> str:
    """See to it that the next `interrupt` takes no answer that was given to something else.

    Args:
        config: The config of the node that calls `interrupt` next.

    Returns:
        The `error` that its request has to show; empty if there is nothing to tell.
    """
    checkpointer: BaseCheckpointSaver[Any] | None = config["configurable"].get(
        "__pregel_checkpointer"
    )
    if checkpointer is None:
        return ""  # No answer can come.
    # The run that brings an answer has it in memory: what is stored is for a retry.
    await checkpointer.aput_writes(_checkpoint(config, ""), [(RESUME, None)], OF_THE_RUN)
    graph, _, task = config["configurable"]["checkpoint_ns"].rpartition("|")
    saved = await checkpointer.aget_tuple(_checkpoint(config, graph))
    written = _written(saved, task.rpartition(":")[2])
    error = _error_shown(written.get(INTERRUPT, ()))
    decided = not written.keys() <= {INTERRUPT, RESUME, ERROR}
    answers = config["configurable"]["__pregel_scratchpad"]
    if decided:
        answers.resume.clear()
    elif saved and INTERRUPT in written and error != NOT_TAKEN_YET and not _early(config, saved):
        return error
    other: Any = answers.get_null_resume(True)
    if other is None:
        return ""
    # Then LangGraph stores it once more when the run ends.
    again = config["configurable"].get("__pregel_durability") == "exit" and error != NOT_TAKEN_YET
    return NOT_TAKEN_YET if again else NOT_TAKEN


def _written(saved: CheckpointTuple | None, task_id: str) -> dict[str, Any]:
    writes = (saved and saved.pending_writes) or []
    return {channel: value for id, channel, value in writes if id == task_id}


def _error_shown(interrupts: Sequence[Interrupt]) -> str:
    return interrupts[0].value.get("error", "") if interrupts else ""


def _early(config: RunnableConfig, saved: CheckpointTuple) -> bool:
    """Whether the run was asked for before this pause was reached, and had to wait for its turn."""
    asked_for = _time_in(str(config.get("metadata", {}).get("run_id")))
    return asked_for < datetime.fromisoformat(saved.checkpoint["ts"]).timestamp()


def _time_in(run_id: str) -> float:
    """When a server made this id of a run (UUID version 7); infinite where it does not tell."""
    with suppress(ValueError):
        id = UUID(run_id)
        if id.version == 7:
            return (id.int >> 80) / 1000
    return math.inf


def _checkpoint(config: RunnableConfig, namespace: str) -> RunnableConfig:
    given = config["configurable"]
    return RunnableConfig(
        configurable={
            "thread_id": given["thread_id"],
            "checkpoint_ns": namespace,
            "checkpoint_id": given["checkpoint_map"][namespace],
        }
    )
