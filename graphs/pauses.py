"""An answer counts for the request that it was given to, and for no other.

LangGraph keeps an answer without an interrupt id for whichever pause comes next in the run, also
inside a subagent, and for the run's retries: one that nobody has been shown a request for would
take it. (langgraph 1.2: `interrupt`, and `_scratchpad` of its `pregel`.)

Not with `durability="exit"`: there LangGraph stores such an answer once more when the run ends.
"""

from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

OF_THE_RUN = str(UUID(int=0))
"""What LangGraph stores as the task of an answer without an interrupt id."""


async def show_first(request: Any, config: RunnableConfig) -> None:
    """Pause with a request that nobody has been shown yet, whatever answer lies at hand.

    Args:
        request: The interrupt's value.
        config: The config of the node that calls `interrupt` with it next.

    Raises:
        GraphInterrupt: On the node's first run; on the later ones `interrupt` may take an answer.
    """
    checkpointer: BaseCheckpointSaver[Any] | None = config["configurable"].get(
        "__pregel_checkpointer"
    )
    if checkpointer is None:
        return  # No answer can come.
    namespace = config["configurable"]["checkpoint_ns"]
    await _forget_answer_of_the_run(checkpointer, config)
    if not await _was_shown(checkpointer, config):
        raise GraphInterrupt((Interrupt.from_ns(request, namespace),))


async def _was_shown(checkpointer: BaseCheckpointSaver[Any], config: RunnableConfig) -> bool:
    graph, _, task = config["configurable"]["checkpoint_ns"].rpartition("|")
    saved = await checkpointer.aget_tuple(_checkpoint(config, graph))
    writes = (saved and saved.pending_writes) or []
    task_id = task.rpartition(":")[2]
    return any((id, channel) == (task_id, INTERRUPT) for id, channel, _ in writes)


async def _forget_answer_of_the_run(
    checkpointer: BaseCheckpointSaver[Any], config: RunnableConfig
) -> None:
    """The run that brings the answer has it in memory: what is stored is for a retry."""
    await checkpointer.aput_writes(_checkpoint(config, ""), [(RESUME, None)], OF_THE_RUN)


def _checkpoint(config: RunnableConfig, namespace: str) -> RunnableConfig:
    given = config["configurable"]
    return RunnableConfig(
        configurable={
            "thread_id": given["thread_id"],
            "checkpoint_ns": namespace,
            "checkpoint_id": given["checkpoint_map"][namespace],
        }
    )
