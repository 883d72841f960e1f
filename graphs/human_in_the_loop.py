"""The human-in-the-loop agent: a human decides on calls before they run.

START -> llm_call -> human_review -> tool_node -> llm_call ... -> END
"""

from collections.abc import Container, Sequence
from typing import Literal, cast

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END, START
from langgraph.types import Checkpointer, Command, Send, interrupt

from graphs.building import Agent, agent_builder, bind_tools, compiled
from graphs.context import current
from graphs.history import result_id, with_call_ids
from graphs.models import ChatModel, EnvironmentModel
from graphs.nodes import Node, make_llm_call, make_tool_node, send, should_continue
from graphs.pauses import ask, run_of
from graphs.prompts import HUMAN_IN_THE_LOOP
from graphs.review import (
    STARTED_BEFORE,
    BadAnswer,
    Decisions,
    InterruptOn,
    Policies,
    awaiting,
    build_request,
    calls_to_review,
    decided,
    read_answer,
    read_policies,
    tasks_of,
    with_error,
)
from graphs.started import started_of
from graphs.state import AgentState, Update
from graphs.tool_tasks import Approval, ToolTask, first_call
from tools.clock import get_current_time
from tools.mail import send_email
from tools.weather import get_weather

STEPS_PER_TOOL_ROUND = 3  # human_review, tool_node, llm_call


def build_human_in_the_loop_agent(
    llm: ChatModel,
    tools: Sequence[BaseTool],
    system_prompt: str,
    interrupt_on: InterruptOn,
    checkpointer: Checkpointer = None,
    *,
    name: str = "human_in_the_loop",
) -> Agent:
    """Build an agent some of whose calls wait for a human.

    Args:
        llm: The chat model.
        tools: What it may call; their names must differ.
        system_prompt: Sent with every call of the model, and never stored.
        interrupt_on: By the tool's name: `True` for a review with all decisions, `False` for
            none, or `{"allowed_decisions": [...], "description": "..."}`.
        checkpointer: For use outside a server, where a pause needs one. A server brings its own.
        name: The name of the agent's runs.

    Returns:
        A graph of `{"messages": [...]}`, at most `MAX_AGENT_STEPS` steps a user turn, pauses
        included. It pauses with an interrupt whose value is LangChain's `HITLRequest`.

    Raises:
        ValueError: If `interrupt_on` names an unknown tool, decision or key, if two tools have
            one name, or a name is none that providers take.
    """
    model = bind_tools(llm, tools)
    policies = read_policies(interrupt_on, tools)
    builder = agent_builder()
    llm_call = make_llm_call(model, system_prompt, STEPS_PER_TOOL_ROUND)
    builder.add_node("llm_call", mark_for_review(llm_call, policies))
    builder.add_node("human_review", make_human_review(policies), input_schema=AgentState)
    builder.add_node("tool_node", make_tool_node(tools), input_schema=AgentState)
    builder.add_edge(START, "llm_call")
    builder.add_conditional_edges("llm_call", send_to_review, ["human_review", END])
    builder.add_edge("tool_node", "llm_call")
    return compiled(builder, checkpointer, name, llm, tools)


def mark_for_review(llm_call: Node, policies: Policies) -> Node:
    """The node that calls the model, with a mark on a message that a human must decide on.

    If the user goes on instead, the model is told for certain that its calls did not run.
    """

    async def marking_llm_call(state: AgentState, config: RunnableConfig) -> Update:
        update = await llm_call(state, config)
        return {"messages": [awaiting(message, policies) for message in update["messages"]]}

    return marking_llm_call


def send_to_review(state: AgentState) -> Send | str:
    """Send a message with calls to `human_review`, or end if it has none.

    Sent, it stays as the model made it: what a human is shown, decides on and lets run is the
    same, whatever is written into the thread in the meantime.
    """
    if should_continue(state) == END:
        return END
    return Send("human_review", cast(AIMessage, state["messages"][-1]))


def make_human_review(policies: Policies) -> Node:
    """Make the node that decides what becomes of the calls. It never runs one.

    It is passed in every round, and pauses once per message that has calls to review. Of several
    calls only the first one is decided on and runs if the run's `Context` says so.
    """

    async def human_review(
        state: AIMessage, config: RunnableConfig
    ) -> Command[Literal["tool_node"]]:
        message = with_call_ids(state)
        now, put_off = (message, []) if current().parallel_tool_calls else first_call(message)
        tasks = await decide(now, policies, config)
        kept = decided(message, tasks) if calls_to_review(message, policies) else message
        return Command(
            update={} if kept is state else {"messages": [kept]},
            goto=[send(task) for task in (*tasks, *put_off)],
        )

    return human_review


async def decide(message: AIMessage, policies: Policies, config: RunnableConfig) -> list[ToolTask]:
    """What becomes of the calls of a message: pauses if a human must say so."""
    calls = calls_to_review(message, policies)
    if not calls:
        return tasks_of(message, policies, {})
    by_result = {result_id(message, call): call["id"] for call in calls}
    started = {by_result[id] for id in await started_of(by_result)}
    decisions, approval = await ask_human(calls, policies, started, config)
    reviewer = config["configurable"].get("langgraph_auth_user_id") or None
    tasks = tasks_of(message, policies, decisions, reviewer, started)
    return [{**task, "approval": approval} for task in tasks]


async def ask_human(
    calls: Sequence[ToolCall],
    policies: Policies,
    started: Container[str | None],
    config: RunnableConfig,
) -> tuple[Decisions, Approval]:
    """Pause until a human has decided on every call; an answer that does not do so asks again.

    Raising here instead would end the run, and every later resume would be given the same bad
    answer first.
    """
    request = build_request(calls, policies, started)
    answer, interrupt_id = await ask(request, STARTED_BEFORE if started else "", config)
    while True:
        try:
            decisions = read_answer(answer, calls, policies)
        except BadAnswer as problem:
            answer = interrupt(with_error(request, str(problem)))
        else:
            return decisions, Approval(run=run_of(config), interrupt=interrupt_id, answer=answer)


graph = build_human_in_the_loop_agent(
    EnvironmentModel(),
    [get_weather, get_current_time, send_email],
    HUMAN_IN_THE_LOOP,
    interrupt_on={"send_email": True},
)
