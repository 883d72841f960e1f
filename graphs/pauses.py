"""An answer counts for the request that it was given to, and for no other.

LangGraph keeps an answer without an interrupt id for whichever pause comes next in the run, also
inside a subagent, and for the run's retries: one that nobody has been shown a request for would
take it. Where a run that decided is stopped or taken back, its decision may stay stored, and is
carried out by the next run whatever that one's answer says. (langgraph 1.2: `interrupt`, and
`_scratchpad` of its `pregel`; langgraph-api 0.16: a rollback.)
"""

import math
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME
from langgraph.types import interrupt

from graphs.review import Request, with_error
from graphs.tool_tasks import Approval

NOT_TAKEN = (
    "Nothing was run. An answer came that was not given to this request as it stands. "
    "Please decide on what is asked here; an answer by the interrupt's id counts in any case."
)

OF_THE_RUN = str(UUID(int=0))
"""What LangGraph stores as the task of an answer without an interrupt id."""


class Pause(NamedTuple):
    """The pause of a node that runs now: what is stored of it, and what the run brings.

    Attributes:
        config: The node's.
        saved: The checkpoint that its task belongs to.
        stored: The answer without an id that is stored with the run's checkpoint.
    """

    config: RunnableConfig
    saved: CheckpointTuple | None
    stored: Any

    @property
    def shown(self) -> tuple[str, Request]:
        """The interrupt's id and the request that a client was shown; empty if there was none."""
        task_id = self.config["configurable"]["checkpoint_ns"].rpartition(":")[2]
        for id, channel, value in (self.saved and self.saved.pending_writes) or []:
            if (id, channel) == (task_id, INTERRUPT):
                return value[0].id, value[0].value
        return "", {}

    @property
    def at_exit(self) -> bool:
        """Whether checkpoints are saved when the run ends."""
        return self.config["configurable"].get("__pregel_durability") == "exit"


async def ask(request: Request, must_say: str, config: RunnableConfig) -> tuple[Any, str]:
    """Pause with a request, and return the answer that was given to it, and its interrupt's id.

    Args:
        request: What a human has to decide on.
        must_say: Part of it that whoever answers must have been shown.
        config: The config of the node that pauses.
    """
    pause = await _read(config)
    if checkpointer := _checkpointer(config):
        # The run that brings an answer has it in memory: what is stored is for a retry.
        await checkpointer.aput_writes(_checkpoint(config, ""), [(RESUME, None)], OF_THE_RUN)
    if pause.at_exit:
        # LangGraph stores an answer without an id once more when such a run ends.
        request = {**request, "durability": "exit"}
    problem = _set_aside_other_answers(pause, must_say, await is_superseded(config))
    answer: Any = interrupt(with_error(request, problem) if problem else request)
    return answer, pause.shown[0]


async def still_stands(approval: Approval, config: RunnableConfig) -> bool:
    """Whether a call may run that was approved in this run or, it having been cut off, in another.

    An approval that was taken back, or another answer to it since then, means that it may not.
    """
    configurable = config["configurable"]
    if approval["run"] == run_of(config):
        return True
    given = (configurable.get("__pregel_resume_map") or {}).get(approval["interrupt"])
    if given is None:
        given = configurable["__pregel_scratchpad"].get_null_resume(False)
    if given is not None:
        return bool(given == approval["answer"])
    saved = (await _read(config)).saved
    # After a rollback the checkpoint that the call runs from is made anew, by another run.
    return saved is not None and saved.metadata.get("run_id") == approval["run"]


async def is_superseded(config: RunnableConfig) -> bool:
    """Whether the run answers at the checkpoint of a step that the thread has moved past.

    LangGraph would take that step again, with all that it did.
    """
    addressed = config.get("metadata", {}).get("checkpoint_id")
    checkpointer, given = _checkpointer(config), config["configurable"]
    if not addressed or checkpointer is None or given["checkpoint_map"][""] != addressed:
        return False
    newest = await checkpointer.aget_tuple(
        RunnableConfig(configurable={"thread_id": given["thread_id"], "checkpoint_ns": ""})
    )
    return newest is not None and bool(newest.checkpoint["id"] > addressed)


def _set_aside_other_answers(pause: Pause, must_say: str, superseded: bool) -> str:
    """Drop the answers at hand that were given to something else.

    Returns:
        The `error` that the request has to show; empty if there is nothing to tell.
    """
    answers, (_, shown) = pause.config["configurable"]["__pregel_scratchpad"], pause.shown
    error = str(shown.get("error", ""))
    outdated = superseded or must_say not in str(shown)
    if shown and not (outdated or _is_early(pause) or _is_left_over(pause, shown)):
        return error
    lost = answers.get_null_resume(True) is not None
    if outdated:
        lost = lost or bool(answers.resume)
        answers.resume.clear()
    return NOT_TAKEN if lost else error


def _is_early(pause: Pause) -> bool:
    """Whether the run was asked for before this pause was reached, and had to wait for its turn."""
    reached = datetime.fromisoformat(pause.saved.checkpoint["ts"]) if pause.saved else datetime.max
    return _time_in(run_of(pause.config)) < reached.timestamp()


def _is_left_over(pause: Pause, shown: Request) -> bool:
    """Whether the answer without an id may be an earlier run's."""
    return pause.stored is not None and (pause.at_exit or "durability" in shown)


def _time_in(run_id: str) -> float:
    """When a server made this id of a run (UUID version 7); infinite where it does not tell."""
    with suppress(ValueError):
        id = UUID(run_id)
        if id.version == 7:
            return (id.int >> 80) / 1000
    return math.inf


def run_of(config: RunnableConfig) -> str:
    """The id of the run on a server; empty outside of one."""
    return str(config.get("metadata", {}).get("run_id") or "")


def _checkpointer(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    found: BaseCheckpointSaver[Any] | None = config["configurable"].get("__pregel_checkpointer")
    return found


async def _read(config: RunnableConfig) -> Pause:
    checkpointer = _checkpointer(config)
    if checkpointer is None:
        return Pause(config, None, None)  # No answer can come.
    run = await checkpointer.aget_tuple(_checkpoint(config, ""))
    stored = [
        value
        for id, channel, value in (run and run.pending_writes) or []
        if (id, channel) == (OF_THE_RUN, RESUME) and value is not None
    ]
    graph = config["configurable"]["checkpoint_ns"].rpartition("|")[0]
    saved = await checkpointer.aget_tuple(_checkpoint(config, graph)) if graph else run
    return Pause(config, saved, stored[0] if stored else None)


def _checkpoint(config: RunnableConfig, namespace: str) -> RunnableConfig:
    given = config["configurable"]
    return RunnableConfig(
        configurable={
            "thread_id": given["thread_id"],
            "checkpoint_ns": namespace,
            "checkpoint_id": given["checkpoint_map"][namespace],
        }
    )
