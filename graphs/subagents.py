"""The subagents: a supervisor hands tasks to specialists.

user -> supervisor -> weather_agent | email_agent -> supervisor -> answer
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Checkpointer
from pydantic import BaseModel, Field

from graphs import human_in_the_loop, react
from graphs.budget import steps_taken
from graphs.building import Agent, AgentTool, check_names
from graphs.context import Context, current
from graphs.human_in_the_loop import build_human_in_the_loop_agent
from graphs.models import ChatModel, EnvironmentModel, name_of
from graphs.nodes import MAX_SUBAGENT_STEPS as MAX_SUBAGENT_STEPS
from graphs.prompts import EMAIL_AGENT, SUBAGENT_OUTPUT_RULE, SUPERVISOR, WEATHER_AGENT
from graphs.react import build_react_agent
from graphs.review import InterruptOn
from graphs.state import Conversation
from tools.mail import send_email
from tools.weather import get_weather

STEPS_PER_TOOL_ROUND = react.STEPS_PER_TOOL_ROUND  # a delegation is one tool call


@dataclass(frozen=True)
class SubagentSpec:
    """A specialist.

    Args:
        name: The name of the tool that it is to the supervisor.
        description: All that the supervisor knows of it: which tasks it does, what it needs to
            be told and what it returns.
        system_prompt: The specialist's own prompt.
        tools: What it may call.
        llm: Its chat model; the supervisor's if `None`.
        interrupt_on: Which of its calls wait for a human, as in the human-in-the-loop agent.
    """

    name: str
    description: str
    system_prompt: str
    tools: Sequence[BaseTool]
    llm: ChatModel | None = None
    interrupt_on: InterruptOn | None = None


class Delegation(BaseModel):
    """A task for a specialist."""

    query: str = Field(
        min_length=1,
        description="The whole task in words that stand on their own, with every name, address, "
        "number and text that it needs: the specialist sees nothing else.",
    )


def build_subagent_tool(spec: SubagentSpec, default_llm: ChatModel) -> BaseTool:
    """Build the tool that hands a task to a specialist and returns its final answer as text.

    Each delegation starts from an empty conversation, with `MAX_SUBAGENT_STEPS` steps. Its
    pauses for human review reach the thread of whoever called the tool. After each of its steps
    a `custom` event tells how far it is: `{"subagent": name, "query": ..., "tool_call_id": ...,
    "checkpoint_ns": ..., "steps": taken so far, "max_steps": 15}`. The `checkpoint_ns`, which the
    result's `artifact` has too, is where its state is in the caller's thread.

    Raises:
        ValueError: If the spec's name is none that providers take, its description is empty, or
            its `interrupt_on` is wrong.
    """
    check_names([spec.name])
    if not spec.description.strip():
        raise ValueError(
            f"The subagent {spec.name} has no description. It is all that the supervisor knows of "
            "it: say which tasks it does, what it needs and what it returns."
        )
    llm = spec.llm or default_llm
    agent = _build_agent(spec, llm)

    async def delegate(query: str) -> tuple[str, dict[str, str]]:
        tell = progress_of(spec, query)
        context = context_of(spec, current())
        model = context.model or name_of(llm)
        # No thread id here: with one of its own, a pause would not reach the caller's thread.
        stream = agent.astream(
            Conversation(messages=[HumanMessage(query)]),
            RunnableConfig(recursion_limit=MAX_SUBAGENT_STEPS, metadata={"model": model}),
            context=context,
            stream_mode="values",
        )
        async for values in stream:
            messages = values["messages"]
            tell(messages)
        answer = messages[-1].text.strip() or (
            f"{spec.name} ended without an answer. Whether its task was done is not known."
        )
        return answer, {"checkpoint_ns": checkpoint_ns()}

    return AgentTool.from_function(
        coroutine=delegate,
        name=spec.name,
        description=spec.description,
        args_schema=Delegation,
        response_format="content_and_artifact",
        agent=agent,
    )


def checkpoint_ns() -> str:
    """Where the checkpoints of a delegation are, in the thread of whoever called the tool."""
    namespace: str = get_config()["configurable"].get("checkpoint_ns", "")
    return namespace


def context_of(spec: SubagentSpec, supervisors: Context) -> Context:
    """The context of a delegation: the supervisor's, but for the prompt and a model of its own."""
    own = {"model": ""} if spec.llm else {}
    return supervisors.model_copy(update={"system_prompt": "", **own})


def progress_of(spec: SubagentSpec, query: str) -> Callable[[Sequence[AnyMessage]], None]:
    """What tells the supervisor's stream how far a delegation is; silent outside of a graph."""
    runtime: Runtime[Context] | None = get_runtime(Context)
    of = {
        "subagent": spec.name,
        "query": query,
        "tool_call_id": get_config().get("metadata", {}).get("tool_call_id"),
        "checkpoint_ns": checkpoint_ns(),
        "max_steps": MAX_SUBAGENT_STEPS,
    }
    per_round = (react if spec.interrupt_on is None else human_in_the_loop).STEPS_PER_TOOL_ROUND

    told = -1

    def tell(messages: Sequence[AnyMessage]) -> None:
        nonlocal told
        steps = steps_taken(messages, per_round)
        if runtime and steps != told:
            runtime.stream_writer({**of, "steps": steps})
        told = steps

    return tell


def _build_agent(spec: SubagentSpec, llm: ChatModel) -> Agent:
    prompt = f"{spec.system_prompt}\n\n{SUBAGENT_OUTPUT_RULE}"
    if spec.interrupt_on is None:
        return build_react_agent(llm, spec.tools, prompt, name=spec.name)
    return build_human_in_the_loop_agent(llm, spec.tools, prompt, spec.interrupt_on, name=spec.name)


def build_supervisor_agent(
    llm: ChatModel,
    specs: Sequence[SubagentSpec],
    system_prompt: str = SUPERVISOR,
    checkpointer: Checkpointer = None,
    parallel_tool_calls: bool = True,
) -> Agent:
    """Build a ReAct agent whose tools are subagents.

    Args:
        llm: The chat model, also of each subagent that brings none.
        specs: The subagents; their names must differ.
        system_prompt: The supervisor's. It need not name the subagents.
        checkpointer: For use outside a server, where a pause needs one. A server brings its own.
        parallel_tool_calls: With false one delegation runs at a time, so that no more than one
            review is pending: for clients that answer without an interrupt id.

    Raises:
        ValueError: If two subagents have one name, or a spec is wrong.
    """
    tools = [build_subagent_tool(spec, llm) for spec in specs]
    return build_react_agent(
        llm,
        tools,
        system_prompt,
        checkpointer,
        name="subagents",
        parallel_tool_calls=parallel_tool_calls,
    )


SPECS = [
    SubagentSpec(
        name="weather_agent",
        description=(
            "Looks up the current weather of one or more places. Needs the names of the places. "
            "Returns temperature, wind and conditions of each, or says which were not found."
        ),
        system_prompt=WEATHER_AGENT,
        tools=[get_weather],
    ),
    SubagentSpec(
        name="email_agent",
        description=(
            "Writes and sends an email. Needs the recipients' addresses and what to say, word for "
            "word where that matters. A human reviews it first. Returns whether it was sent."
        ),
        system_prompt=EMAIL_AGENT,
        tools=[send_email],
        interrupt_on={"send_email": True},
    ),
]

graph = build_supervisor_agent(EnvironmentModel(), SPECS)
