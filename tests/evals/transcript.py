"""One conversation with an agent as it is shipped, written down for the graders."""

import email
import email.policy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot

from graphs import human_in_the_loop, react, subagents
from graphs.building import Agent

AGENTS: Mapping[str, Agent] = {
    "react": react.graph,
    "human_in_the_loop": human_in_the_loop.graph,
    "subagents": subagents.graph,
}
MOST_REVIEWS = 5
"""How often a human decides before an eval ends: an agent may ask again and again."""


@dataclass
class Transcript:
    """What came of a conversation.

    Attributes:
        messages: The thread's messages.
        delegated: The messages of each delegation, in no particular order.
        waiting: The calls that wait for a human at the end.
        sent: The emails that went out: `to`, `subject`, `body`.
        limit: The most steps of a turn.
    """

    messages: list[AnyMessage]
    delegated: list[list[AnyMessage]] = field(default_factory=list)
    waiting: list[ToolCall] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    limit: int = 25

    @property
    def answer(self) -> str:
        """The text of the last message, if the agent made it."""
        last = self.messages[-1]
        return last.text if isinstance(last, AIMessage) and not last.tool_calls else ""

    def every_message(self) -> Iterator[AnyMessage]:
        """The thread's messages, then those of the delegations."""
        return chain(self.messages, *self.delegated)

    def asked_for(self) -> Iterator[list[ToolCall]]:
        """The calls of each message that asks for tools."""
        for message in self.every_message():
            if isinstance(message, AIMessage) and message.tool_calls:
                yield message.tool_calls

    def calls(self) -> list[ToolCall]:
        return list(chain.from_iterable(self.asked_for()))

    def results_of(self, tool: str) -> list[str]:
        return [m.text for m in self.messages if isinstance(m, ToolMessage) and m.name == tool]


async def converse(
    agent: Agent,
    turns: Sequence[str],
    outbox: Path,
    *,
    decisions: Sequence[str] = (),
    limit: int | None = None,
) -> Transcript:
    """Say the turns to an agent one after the other, and decide on what then waits for a human.

    Args:
        agent: The agent, without a checkpointer.
        turns: The user's messages.
        outbox: The Maildir where emails land.
        decisions: The kinds of decisions, each for all that waits then; without one, it waits.
            The last one holds for whatever comes after it, up to `MOST_REVIEWS`.
        limit: The most steps of a turn, if fewer than usual.
    """
    agent = agent.copy({"checkpointer": InMemorySaver()})
    config = RunnableConfig(configurable={"thread_id": "1"})
    if limit:
        config["recursion_limit"] = limit
    for text in turns:
        await agent.ainvoke({"messages": [HumanMessage(text)]}, config)
    for number in range(MOST_REVIEWS if decisions else 0):
        kind = decisions[min(number, len(decisions) - 1)]
        if not (answers := await _answers(agent, config, kind)):
            break
        await agent.ainvoke(Command(resume=answers), config)
    return await _written_down(agent, config, outbox, limit)


async def _answers(agent: Agent, config: RunnableConfig, kind: str) -> dict[str, Any]:
    state = await agent.aget_state(config)
    return {
        pause.id: {"decisions": [{"type": kind}] * len(pause.value["action_requests"])}
        for task in state.tasks
        for pause in task.interrupts
    }


async def _written_down(
    agent: Agent, config: RunnableConfig, outbox: Path, limit: int | None
) -> Transcript:
    state = await agent.aget_state(config, subgraphs=True)
    waiting = [
        ToolCall(name=action["name"], args=action["args"], id=action["id"])
        for task in state.tasks
        for pause in task.interrupts
        for action in pause.value["action_requests"]
    ]
    messages = state.values["messages"]
    places = [
        RunnableConfig(configurable={**config["configurable"], **message.artifact})
        for message in messages
        if isinstance(message, ToolMessage) and "checkpoint_ns" in (message.artifact or {})
    ]
    delegations = [task.state for task in state.tasks if isinstance(task.state, StateSnapshot)]
    delegations += [await agent.aget_state(place) for place in places]
    delegated = [one.values["messages"] for one in delegations if "messages" in one.values]
    known = {} if limit is None else {"limit": limit}
    return Transcript(messages, delegated, waiting, read_outbox(outbox), **known)


def read_outbox(folder: Path) -> list[dict[str, str]]:
    """The emails in a Maildir."""
    found = [
        email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        for path in folder.glob("new/*")
    ]
    return [
        {"to": str(m["to"]), "subject": str(m["subject"]), "body": str(m.get_content())}
        for m in found
    ]


def clock_times(text: str) -> set[str]:
    """The times in a text, of a clock of 24 or of 12 hours, as HH:MM of 24 hours."""
    found = re.findall(r"(?i)\b(\d{1,2})[:.](\d{2})\b(?::\d{2})?\s*([ap])?", text)
    return {f"{_hour(int(hour), half.lower()):02}:{minute}" for hour, minute, half in found}


def _hour(hour: int, half: str) -> int:
    return hour % 12 + (12 if half == "p" else 0) if half else hour
