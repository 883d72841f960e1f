"""The nodes that the agents share, and the routing between them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, cast

from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Send

from graphs.arguments import misfit
from graphs.budget import is_spent, steps_left
from graphs.context import Context, current
from graphs.history import STARTED, WITHDRAWN, calls_of, unanswered, view, with_call_ids
from graphs.models import BoundModel, whole_message
from graphs.pauses import is_superseded, still_stands
from graphs.prompts import NO_STEPS_LEFT
from graphs.started import SERVES, note_start, serving, started_of
from graphs.state import AgentState, Update
from graphs.tool_results import in_shape
from graphs.tool_tasks import Answer, AnyToolCall, ToolTask, first_call, task_for

STEP_LIMIT_MESSAGE = (
    "I ran out of steps before I could finish this. What I found out so far is in this "
    "conversation: send another message, and I will go on from there."
)

STEP_LIMIT = "step_limit"
"""Marks a closing answer: its `stop_reason`, and a tag of the model's run in traces."""


class Node(Protocol):
    """What LangGraph takes as a node: it is given the state, or what was sent to it."""

    async def __call__(self, state: Any, config: RunnableConfig) -> Any:
        """Do one step, and return what it adds to the state or where to go on."""


def read_maximum(text: str) -> int:
    """The maximum that the environment sets; 25 if the text is empty.

    Raises:
        ValueError: If it is no whole number of at least 2.
    """
    value = text.strip() or "25"
    if not value.isdecimal() or int(value) < 2:
        raise ValueError(
            f"MAX_AGENT_STEPS is {value!r}. Set it to a whole number, 2 or more: the most steps "
            "that one user turn may take."
        )
    return int(value)


MAX_AGENT_STEPS = read_maximum(os.environ.get("MAX_AGENT_STEPS", ""))
"""The most steps that one user turn may take, whatever `recursion_limit` a caller asks for."""

MAX_SUBAGENT_STEPS = 15
"""The steps of one delegation, whatever is left of the supervisor's."""


def make_llm_call(
    model_with_tools: BoundModel, system_prompt: str, steps_per_tool_round: int
) -> Node:
    """Make the node that calls the model.

    Args:
        model_with_tools: A chat model with its tools bound.
        system_prompt: Sent before the history, and never stored in it.
        steps_per_tool_round: The steps from one call of the model to the next: the number of
            nodes on the way round.

    Returns:
        A node that adds the model's message to the history. On the last call that the step
        budget allows the message is an answer for certain, and carries
        `response_metadata["stop_reason"] == "step_limit"`. It raises `ValueError` where there is
        no message to answer. The run's `Context` wins over the model and the prompt given here.
    """

    async def llm_call(state: AgentState, config: RunnableConfig) -> Update:
        messages, context = state["messages"], current()
        prompt, options = context.system_prompt or system_prompt, options_of(context)
        if not any(isinstance(message, HumanMessage) for message in messages):
            raise ValueError("There is nothing to answer. Send a message before anything else.")
        steps = steps_left(
            messages,
            state["remaining_steps"],
            config["recursion_limit"],
            _maximum(config),
            steps_per_tool_round,
        )
        started = await started_of(unanswered(messages))
        if is_spent(steps, steps_per_tool_round):
            shown = view(f"{prompt}\n\n{NO_STEPS_LEFT}", messages, started)
            # Not streamed: what may be replaced would be shown, and its replacement would not.
            unseen = merge_configs(config, {"tags": [STEP_LIMIT, TAG_NOSTREAM]})
            stream = model_with_tools.astream(shown, unseen, **options, tool_choice="none")
            return {"messages": [closing(await whole_message(stream))]}
        stream = model_with_tools.astream(view(prompt, messages, started), config, **options)
        taken = (call["id"] for message in messages for call in calls_of(message))
        return {"messages": [with_call_ids(await whole_message(stream), taken)]}

    return llm_call


def options_of(context: Context) -> dict[str, Any]:
    """What a context changes about the call of a model; empty if it leaves all as it is."""
    model = {"model": context.model} if context.model else {}
    return model if context.parallel_tool_calls else model | {"parallel_tool_calls": False}


def _maximum(config: RunnableConfig) -> int:
    """The most steps of a turn, whatever is asked for. A delegation's are not the deployment's."""
    delegated = "|" in config["configurable"]["checkpoint_ns"]
    return max(MAX_AGENT_STEPS, MAX_SUBAGENT_STEPS) if delegated else MAX_AGENT_STEPS


def closing(answer: AIMessage) -> AIMessage:
    """The last message of a turn whose budget is spent: text, with nothing of a call in it."""
    metadata = {**answer.response_metadata, "stop_reason": STEP_LIMIT}
    text = str(answer.text)
    if calls_of(answer) or not text.strip():
        metadata.pop("finish_reason", None)
        text = STEP_LIMIT_MESSAGE
    return AIMessage(
        id=answer.id,
        content=text,
        response_metadata=metadata,
        usage_metadata=answer.usage_metadata,
    )


def should_continue(state: AgentState) -> Literal["tool_node", "__end__"]:
    """Where to go after the model: on to the tools if its message asks for any, else to the end."""
    return "tool_node" if calls_of(state["messages"][-1]) else "__end__"


def send_calls(state: AgentState) -> list[Send] | str:
    """Send every call of the last message to `tool_node`, or end if there is none.

    Each is a task of its own, so that what has finished is kept and does not run again when
    another call pauses or fails. Only the first one runs if the run's `Context` says so.
    """
    if not current().parallel_tool_calls:
        return send_one_call(state)
    if should_continue(state) == END:
        return END
    message = cast(AIMessage, state["messages"][-1])
    return [send(task_for(message, call)) for call in calls_of(message)]


def send_one_call(state: AgentState) -> list[Send] | str:
    """Like `send_calls`, but only the first call runs; the model may ask again for the others."""
    if should_continue(state) == END:
        return END
    alone, put_off = first_call(cast(AIMessage, state["messages"][-1]))
    return [send(task_for(alone, calls_of(alone)[0])), *map(send, put_off)]


def send(task: ToolTask) -> Send:
    """The task as LangGraph takes it."""
    return Send("tool_node", task)


def make_tool_node(tools: Sequence[BaseTool]) -> Node:
    """Make the node that runs one call, or gives the answer that was decided on without running it.

    A tool that does not exist and arguments that do not fit are results for the model; an
    exception of the tool's own function goes to the caller. See `shortened` for long results.
    """
    runner = ToolNode(tools, handle_tool_errors=False)

    async def tool_node(state: ToolTask, config: RunnableConfig) -> Any:
        if await is_superseded(config):
            raise GraphInterrupt(())
        answer = state.get("answer") or await _objection(state, config, runner.tools_by_name)
        if answer:
            update: Any = {"messages": [_result(state["call"], answer)]}
        else:
            await note_start(state, config)
            update = await _run(runner, state, config)
        return in_shape(update, state)

    return tool_node


async def _objection(
    task: ToolTask, config: RunnableConfig, tools: Mapping[str, BaseTool]
) -> Answer | None:
    """What is said instead of running the call, if it may not run."""
    call = task["call"]
    if "approval" in task and not await still_stands(task["approval"], config):
        started = await started_of([task["result_id"]])
        return Answer(content=STARTED if started else WITHDRAWN, status="error")
    tool = tools.get(call["name"] or "")
    problem = tool and misfit(tool, cast(ToolCall, call)["args"])
    return Answer(content=problem, status="error") if problem else None


async def _run(runner: ToolNode, task: ToolTask, config: RunnableConfig) -> Any:
    # The tool learns which call it serves, as with the thread: to do once what must be done once.
    # And of which delegations it is a part.
    serves = [*serving(config), task["result_id"]]
    known = {"tool_call_id": task["call"]["id"], SERVES: serves}
    try:
        return await runner.ainvoke([task["call"]], merge_configs(config, {"metadata": known}))
    except ToolInvocationError as error:
        # The arguments fit: this is the function's own, of a kind that ToolNode takes for a misfit.
        raise error.source from None


def _result(call: AnyToolCall, answer: Answer) -> ToolMessage:
    return ToolMessage(**answer, name=call["name"], tool_call_id=call["id"])
