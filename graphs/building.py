"""What every agent is built of beside its nodes: the graph to begin with, its model, its config."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer
from pydantic import Field

from graphs.context import Context
from graphs.history import TOOL_NAME
from graphs.models import BoundModel, ChatModel, name_of
from graphs.nodes import MAX_AGENT_STEPS
from graphs.state import AgentState, Conversation

Agent = CompiledStateGraph[AgentState, Context, Conversation, Conversation]


def agent_builder() -> StateGraph[AgentState, Context, Conversation, Conversation]:
    """A graph without nodes yet, whose served schemas list `messages` only."""
    return StateGraph(AgentState, Context, input_schema=Conversation, output_schema=Conversation)


class AgentTool(StructuredTool):
    """A tool that hands its task to an agent."""

    agent: Any = Field(exclude=True)


def compiled(
    builder: StateGraph[AgentState, Context, Conversation, Conversation],
    checkpointer: Checkpointer,
    name: str,
    llm: ChatModel,
    tools: Sequence[BaseTool],
) -> Agent:
    """The agent with its step budget, its name and its model's in the metadata of its traces.

    The states of the agents that it hands tasks to can be read from its threads.
    """
    agent = builder.compile(checkpointer, name=name)
    if below := [tool.agent for tool in tools if isinstance(tool, AgentTool)]:
        agent.nodes["tool_node"].subgraphs = [max(below, key=_extent)]
    return agent.with_config(
        recursion_limit=MAX_AGENT_STEPS,
        metadata={"agent": name},
        configurable={"model": name_of(llm)},  # on a server, a context's model takes its place
    )


def _extent(agent: Any) -> tuple[int, int]:
    """How much of others' states can be read with it: LangGraph reads all of a node's with one."""
    return len(list(agent.get_subgraphs(recurse=True))), len(agent.nodes)


def check_names(names: Sequence[str]) -> None:
    """Refuse names of tools that a provider would refuse on the first call.

    Raises:
        ValueError: If two tools have one name, or a name is not 1 to 64 letters, digits, `_`
            and `-`.
    """
    for name in names:
        if not re.fullmatch(TOOL_NAME, name):
            raise ValueError(f"{name!r} is no name for a tool: 1 to 64 letters, digits, _ and -.")
        if names.count(name) > 1:
            raise ValueError(f"Two tools are called {name!r}. Rename one of them.")


def bind_tools(llm: ChatModel, tools: Sequence[BaseTool], **options: Any) -> BoundModel:
    """The model with the tools; the bare model where there are none.

    Providers refuse options for tools without tools, so of what a call brings only the name of
    another model reaches a bare model.

    Raises:
        ValueError: If a name of a tool is taken twice, or is none that providers take.
    """
    check_names([tool.name for tool in tools])
    if tools:
        return llm.bind_tools(tools, **options)

    async def without_tools(prompt: LanguageModelInput, **given: Any) -> AsyncIterator[AIMessage]:
        options = {name: value for name, value in given.items() if name == "model"}
        async for chunk in llm.astream(prompt, **options):
            yield chunk

    return RunnableLambda(without_tools, name="llm")
