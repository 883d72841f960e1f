"""One conversation with an agent as it is shipped, written down for the graders."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from graphs import human_in_the_loop, react, subagents
from graphs.building import Agent
from graphs.nodes import MAX_AGENT_STEPS
from tests.agents import ask, requests, resume, thread
from tests.outbox import Outbox

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
    limit: int = MAX_AGENT_STEPS

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
    outbox: Outbox,
    *,
    decision: str = "",
    limit: int | None = None,
) -> Transcript:
    """Say the turns to an agent one after the other, and decide on what then waits for a human.

    Args:
        agent: The agent, without a checkpointer.
        turns: The user's messages.
        outbox: Where emails land.
        decision: Its kind, for all that waits, `MOST_REVIEWS` times at the most; without one, it
            waits.
        limit: The most steps of a turn, if fewer than usual.
    """
    agent = agent.copy({"checkpointer": InMemorySaver()})
    config = thread(limit=limit)
    for text in turns:
        await ask(agent, text, config)
    for _ in range(MOST_REVIEWS if decision else 0):
        if not (waiting := await requests(agent, config)):
            break
        answers = {
            id: {"decisions": [{"type": decision}] * len(request["action_requests"])}
            for id, request in waiting.items()
        }
        await resume(agent, answers, config)
    return await _written_down(agent, config, outbox, limit or MAX_AGENT_STEPS)


async def _written_down(
    agent: Agent, config: RunnableConfig, outbox: Outbox, limit: int
) -> Transcript:
    waiting = [
        ToolCall(name=action["name"], args=action["args"], id=action["id"])
        for request in (await requests(agent, config)).values()
        for action in request["action_requests"]
    ]
    sent = [
        {"to": str(one["to"]), "subject": str(one["subject"]), "body": str(one.get_content())}
        for one in outbox.messages()
    ]
    state = await agent.aget_state(config, subgraphs=True)
    messages = state.values["messages"]
    places = [
        RunnableConfig(configurable={**config["configurable"], **message.artifact})
        for message in messages
        if isinstance(message, ToolMessage) and "checkpoint_ns" in (message.artifact or {})
    ]
    delegations = [task.state for task in state.tasks if isinstance(task.state, StateSnapshot)]
    delegations += [await agent.aget_state(place) for place in places]
    delegated = [one.values["messages"] for one in delegations if "messages" in one.values]
    return Transcript(messages, delegated, waiting, sent, limit)


def clock_times(text: str) -> set[str]:
    """The times in a text, of a clock of 24 or of 12 hours, as HH:MM of 24 hours."""
    found = re.findall(r"(?i)\b(\d{1,2})[:.](\d{2})\b(?::\d{2})?\s*([ap])?", text)
    return {f"{_hour(int(hour), half.lower()):02}:{minute}" for hour, minute, half in found}


def _hour(hour: int, half: str) -> int:
    return hour % 12 + (12 if half == "p" else 0) if half else hour
