"""What the tests of the graphs share: small tools, and short ways to run an agent."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import human_in_the_loop, subagents
from graphs import react as react_module
from graphs.building import Agent
from graphs.human_in_the_loop import build_human_in_the_loop_agent
from graphs.models import ChatModel
from graphs.react import build_react_agent
from graphs.review import InterruptOn

PROMPT = "You are a test."

ROUND_STEPS = {
    "react": react_module.STEPS_PER_TOOL_ROUND,
    "human_in_the_loop": human_in_the_loop.STEPS_PER_TOOL_ROUND,
    "subagents": subagents.STEPS_PER_TOOL_ROUND,
}
"""The steps of a round, by agent: who puts a node into one changes the agent's own file only."""


class Recorder:
    """Makes tools that note every run: what they did is in `runs`, in order."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, dict[str, Any]]] = []
        self.failures: dict[str, Exception] = {}

    def tool(self, name: str) -> BaseTool:
        """A tool of one text argument and an optional number, that fails if told to."""

        async def run(text: str, number: int = 0) -> str:
            if name in self.failures:
                raise self.failures[name]
            self.runs.append((name, {"text": text, "number": number}))
            return f"{name} did {text}"

        return StructuredTool.from_function(coroutine=run, name=name, description=f"Does {name}.")

    def names(self) -> list[str]:
        return [name for name, _ in self.runs]


def react(llm: ChatModel, tools: Sequence[BaseTool]) -> Agent:
    """A ReAct agent with checkpoints in memory."""
    return build_react_agent(llm, tools, PROMPT, InMemorySaver())


def reviewed(
    llm: ChatModel, tools: Sequence[BaseTool], interrupt_on: InterruptOn | None = None
) -> Agent:
    """A human-in-the-loop agent with checkpoints in memory; nothing is reviewed by default."""
    return build_human_in_the_loop_agent(llm, tools, PROMPT, interrupt_on or {}, InMemorySaver())


AGENTS: dict[str, Callable[..., Agent]] = {"react": react, "human_in_the_loop": reviewed}
"""The two that are built alike, by the names that `rounds_within` takes."""


def thread(name: str = "1", limit: int | None = None) -> RunnableConfig:
    """The config of a run on a thread."""
    config = RunnableConfig(configurable={"thread_id": name})
    if limit is not None:
        config["recursion_limit"] = limit
    return config


async def ask(agent: Agent, text: str, config: RunnableConfig | None = None) -> list[AnyMessage]:
    """The history after a new human message."""
    result = await agent.ainvoke({"messages": [HumanMessage(text)]}, config or thread())
    return list(result["messages"])


async def resume(agent: Agent, answer: Any, config: RunnableConfig | None = None) -> Any:
    """What a run returns that resumes with an answer."""
    return await agent.ainvoke(Command(resume=answer), config or thread())


async def requests(agent: Agent, config: RunnableConfig | None = None) -> dict[str, Any]:
    """The pending requests of a thread, by interrupt id."""
    state = await agent.aget_state(config or thread())
    return {i.id: i.value for task in state.tasks for i in task.interrupts}


async def the_request(agent: Agent, config: RunnableConfig | None = None) -> Any:
    """The one pending request; fails if there is none, or more than one."""
    (request,) = (await requests(agent, config)).values()
    return request


async def history(agent: Agent, config: RunnableConfig | None = None) -> list[AnyMessage]:
    """The messages of a thread."""
    return list((await agent.aget_state(config or thread())).values["messages"])


def results(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """The tools' results."""
    return [message for message in messages if isinstance(message, ToolMessage)]


def rounds(messages: Sequence[AnyMessage]) -> int:
    """How many messages ask for tools."""
    return sum(isinstance(m, AIMessage) and bool(m.tool_calls) for m in messages)


def rounds_within(limit: int, agent: str) -> int:
    """How many rounds fit: each leaves the model a step to answer with, and LangGraph one more."""
    return math.ceil((limit - 1) / ROUND_STEPS[agent]) - 1
