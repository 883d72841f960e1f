"""Agents in a world that fails, is cancelled and tried again, on command."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from graphs.building import Agent
from graphs.review import InterruptOn
from graphs.subagents import SubagentSpec, build_supervisor_agent
from tests.agents import reviewed, thread
from tests.property.ledger import Args, Ledger, did, key_in
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel

Place = Literal["model", "tool"]

REVIEWED: InterruptOn = {
    "send": True,
    "post": {"allowed_decisions": ["approve", "reject"]},
}
RUN_SECONDS = 20.0


class Down(RuntimeError):
    """A service that does not answer."""


@dataclass
class Trap:
    """Where a run is to be cancelled: at the `skip`-th arrival after this one."""

    place: Place
    skip: int
    sprung: asyncio.Event = field(default_factory=asyncio.Event)

    async def arrive(self, place: Place) -> None:
        if place != self.place or self.sprung.is_set():
            return
        if self.skip:
            self.skip -= 1
            return
        self.sprung.set()
        await asyncio.Event().wait()


@dataclass
class World:
    """The services behind the tools, and the model. Everything that they do is in the ledger."""

    ledger: Ledger = field(default_factory=Ledger)
    plans: dict[str, list[AIMessage]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    trap: Trap | None = None

    def restart(self) -> None:
        """Begin a new conversation."""
        self.ledger, self.plans, self.failures, self.trap = Ledger(), {}, {}, None

    def tool(self, name: str) -> BaseTool:
        async def run(text: str, number: int = 0) -> str:
            args: Args = {"text": text, "number": number}
            await self.arrive("tool", key_in(args))
            self.ledger.run(name, args)
            return did(name, args)

        return StructuredTool.from_function(coroutine=run, name=name, description=f"Does {name}.")

    def model(self) -> "Model":
        return Model(script=self.reply, world=self)

    async def arrive(self, place: Place, key: str) -> None:
        """Come to a service that may be down, or hold on to a run until it is cancelled."""
        if self.trap:
            await self.trap.arrive(place)
        if self.failures.get(key):
            self.failures[key] -= 1
            await let_others_finish()
            raise Down(key)

    def reply(self, made: ModelCall) -> Reply:
        """What is planned after the last human message: its calls, round by round, then a text."""
        self.ledger.check_shown(made.messages)
        key, rounds = request_of(made.messages)
        plan = self.plans[key]
        if made.tool_choice == "none" or rounds >= len(plan):
            return f"Report {key}"
        return plan[rounds]


class Model(ScriptedModel):
    """A strict scripted model that can be cancelled half-way, and be down."""

    world: Any

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await self.world.arrive("model", request_of(messages)[0])
        async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
            yield chunk


def request_of(messages: list[BaseMessage]) -> tuple[str, int]:
    """The key of the last human message, and how many messages with calls came after it."""
    last = max(i for i, message in enumerate(messages) if message.type == "human")
    turn = messages[last:]
    rounds = sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in turn)
    return key_in(turn[0].text), rounds


@cache
def plain_agent() -> tuple[World, Agent]:
    """A human-in-the-loop agent that may look freely; two of its tools are reviewed."""
    world = World()
    tools = [world.tool(name) for name in ("send", "post", "look")]
    return world, reviewed(world.model(), tools, REVIEWED)


@cache
def supervisor() -> tuple[World, Agent]:
    """A supervisor with a clerk, who has all of the tools above, and a scout, who just looks."""
    world = World()
    tools = [world.tool(name) for name in ("send", "post", "look")]
    clerk = SubagentSpec("clerk", "Writes.", "You write.", tools, interrupt_on=REVIEWED)
    scout = SubagentSpec("scout", "Looks.", "You look.", [world.tool("look")])
    agent = build_supervisor_agent(world.model(), [clerk, scout], checkpointer=InMemorySaver())
    return world, agent


async def run(agent: Agent, world: World, given: Any, trap: Trap | None = None) -> None:
    """Run the agent to its end, to a service that is down, or into the trap."""
    world.trap = trap
    running = asyncio.ensure_future(agent.ainvoke(given, thread()))
    waiting = asyncio.ensure_future(trap.sprung.wait() if trap else asyncio.Event().wait())
    try:
        async with asyncio.timeout(RUN_SECONDS):
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await let_others_finish()
                running.cancel()
            with suppress(Down, asyncio.CancelledError):
                await running
    finally:
        waiting.cancel()
        world.trap = None


async def let_others_finish() -> None:
    """Give the calls beside this one time to return what they did, and LangGraph to note it.

    What is cancelled between the two runs again: that is what `send_email` keeps a journal for.
    """
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)


async def forget(agent: Agent) -> None:
    """Delete the thread, as a conversation that never was."""
    assert isinstance(agent.checkpointer, InMemorySaver)
    await agent.checkpointer.adelete_thread("1")
