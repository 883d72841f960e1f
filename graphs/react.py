"""The ReAct agent: the model calls tools until it can answer.

START -> llm_call -> (tool calls?) tool_node -> llm_call ... -> END
"""

from collections.abc import Sequence

from langchain_core.tools import BaseTool
from langgraph.graph import END, START
from langgraph.types import Checkpointer

from graphs.building import Agent, agent_builder, bind_tools, compiled
from graphs.models import ChatModel, EnvironmentModel
from graphs.nodes import make_llm_call, make_tool_node, send_calls, send_one_call
from graphs.prompts import REACT
from graphs.state import AgentState
from tools.clock import get_current_time
from tools.weather import get_weather

STEPS_PER_TOOL_ROUND = 2  # tool_node, llm_call


def build_react_agent(
    llm: ChatModel,
    tools: Sequence[BaseTool],
    system_prompt: str,
    checkpointer: Checkpointer = None,
    *,
    name: str = "react",
    parallel_tool_calls: bool = True,
) -> Agent:
    """Build a ReAct agent.

    Args:
        llm: The chat model.
        tools: What it may call; their names must differ.
        system_prompt: Sent with every call of the model, and never stored.
        checkpointer: For use outside a server. A server brings its own.
        name: The name of the agent's runs.
        parallel_tool_calls: With false, one call runs at a time, and the model is asked to make
            no more than one.

    Returns:
        A graph of `{"messages": [...]}`, at most `MAX_AGENT_STEPS` steps a user turn.

    Raises:
        ValueError: If two tools have one name, or a name is none that providers take.
    """
    options = {} if parallel_tool_calls else {"parallel_tool_calls": False}
    model = bind_tools(llm, tools, **options)
    builder = agent_builder()
    builder.add_node("llm_call", make_llm_call(model, system_prompt, STEPS_PER_TOOL_ROUND))
    builder.add_node("tool_node", make_tool_node(tools), input_schema=AgentState)
    builder.add_edge(START, "llm_call")
    route = send_calls if parallel_tool_calls else send_one_call
    builder.add_conditional_edges("llm_call", route, ["tool_node", END])
    builder.add_edge("tool_node", "llm_call")
    return compiled(builder, checkpointer, name, llm, tools)


graph = build_react_agent(EnvironmentModel(), [get_weather, get_current_time], REACT)
