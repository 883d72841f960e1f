"""The step budget: pure, on each agent, and swept over every limit."""

import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph

from graphs import human_in_the_loop, nodes
from graphs import react as react_module
from graphs.budget import is_spent, rounds_this_turn, steps_left, steps_taken
from graphs.building import Agent, agent_builder, bind_tools
from graphs.nodes import (
    MAX_SUBAGENT_STEPS,
    STEP_LIMIT_MESSAGE,
    make_llm_call,
    make_tool_node,
    read_maximum,
    send_calls,
)
from graphs.state import AgentState, Conversation
from graphs.subagents import SubagentSpec, build_supervisor_agent
from tests.agents import (
    AGENTS,
    PROMPT,
    Recorder,
    ask,
    react,
    resume,
    reviewed,
    rounds,
    rounds_within,
    thread,
)
from tests.standins.scripted_model import ModelCall, ScriptedModel, always_tool, call, calls

ROUND: list[AnyMessage] = [
    AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}]),
    ToolMessage("r", tool_call_id="1"),
]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], 0),
        ([HumanMessage("a")], 0),
        ([HumanMessage("a"), *ROUND, *ROUND], 2),
        ([HumanMessage("a"), *ROUND, *ROUND, AIMessage("x"), HumanMessage("b"), *ROUND], 1),
        ([HumanMessage("a"), AIMessage("", invalid_tool_calls=[
            {"name": "t", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
        ])], 1),
    ],
)  # fmt: skip
def test_rounds_are_counted_since_the_last_human_message(
    messages: list[AnyMessage], expected: int
) -> None:
    assert rounds_this_turn(messages) == expected


@pytest.mark.parametrize("per_round", [2, 3])
def test_steps_taken(per_round: int) -> None:
    """By the history alone, so that they are the same after a pause."""
    question, answer = HumanMessage("a"), AIMessage("x")
    asks, result = ROUND
    histories: list[tuple[list[AnyMessage], int]] = [
        ([question], 0),
        ([question, answer], 1),
        ([question, asks], 1),
        ([question, asks, result], per_round),
        ([question, *ROUND, answer], per_round + 1),
        ([question, *ROUND, *ROUND, answer], 2 * per_round + 1),
        ([question, *ROUND, answer, question, asks], 1),
    ]
    for messages, expected in histories:
        assert steps_taken(messages, per_round) == expected


@pytest.mark.parametrize(
    ("rounds_run", "remaining", "limit", "per_round", "expected"),
    [
        (0, 24, 25, 2, 24),
        (1, 22, 25, 2, 22),
        (0, 99, 100, 2, 24),
        (2, 25, 25, 3, 18),  # resumed: LangGraph counts afresh
        (0, 6, 7, 2, 6),
        (2, 2, 7, 2, 2),
        (0, 3, 7, 2, 3),  # other nodes took steps before
        (0, 78, 100, 2, 3),  # the same under a limit that is not given
    ],
)
def test_steps_left(
    rounds_run: int, remaining: int, limit: int, per_round: int, expected: int
) -> None:
    messages: list[AnyMessage] = [HumanMessage("a"), *ROUND * rounds_run]
    assert steps_left(messages, remaining, limit, 25, per_round) == expected


@pytest.mark.parametrize(
    ("steps", "per_round", "spent"),
    [(1, 2, True), (2, 2, True), (3, 2, False), (3, 3, True), (4, 3, False)],
)
def test_a_round_starts_only_if_the_answer_after_it_still_has_a_step(
    steps: int, per_round: int, spent: bool
) -> None:
    assert is_spent(steps, per_round) is spent


def left_after_each_round(limit: int, per_round: int) -> list[int]:
    """What `llm_call` sees in one invocation, by the number of rounds before it."""
    return [
        steps_left([HumanMessage("a"), *ROUND * n], limit - 1 - per_round * n, limit, 25, per_round)
        for n in range(limit)
    ]


@pytest.mark.parametrize(
    ("limit", "per_round", "seen"),
    [(6, 2, [5, 3, 1]), (7, 2, [6, 4, 2])],
)
def test_what_llm_call_sees(limit: int, per_round: int, seen: list[int]) -> None:
    """Two rounds, then the closing answer."""
    left = left_after_each_round(limit, per_round)[:3]
    assert left == seen
    assert [is_spent(steps, per_round) for steps in left] == [False, False, True]


@pytest.mark.parametrize(
    ("limit", "per_round", "rounds"), [(25, 2, 11), (25, 3, 7), (15, 2, 6), (2, 2, 0), (2, 3, 0)]
)
def test_how_many_rounds_a_turn_has(limit: int, per_round: int, rounds: int) -> None:
    left = left_after_each_round(limit, per_round)
    assert [is_spent(steps, per_round) for steps in left].index(True) == rounds


def cycle_length(agent: Agent) -> int:
    """The most steps from one llm_call to the next, read off the compiled graph."""
    ways = defaultdict(set)
    for edge in agent.get_graph().edges:
        ways[edge.source].add(edge.target)

    def longest(node: str, passed: frozenset[str]) -> int:
        if node == "llm_call" and passed:
            return 0
        onward = [longest(n, passed | {node}) for n in ways[node] if n not in passed - {"llm_call"}]
        return 1 + max(onward, default=-1000)

    length = longest("llm_call", frozenset())
    assert length > 0, "no way leads back to llm_call"
    return length


@pytest.mark.parametrize(
    ("agent", "constant"),
    [
        (react_module.graph, react_module.STEPS_PER_TOOL_ROUND),
        (human_in_the_loop.graph, human_in_the_loop.STEPS_PER_TOOL_ROUND),
        (
            build_supervisor_agent(ScriptedModel(), [SubagentSpec("a", "Does.", PROMPT, [])]),
            react_module.STEPS_PER_TOOL_ROUND,
        ),
    ],
)
def test_the_constant_is_the_length_of_the_cycle(agent: Agent, constant: int) -> None:
    assert cycle_length(agent) == constant


@pytest.mark.parametrize("detour", [False, True])
def test_a_node_more_in_the_round_would_be_noticed(detour: bool) -> None:
    """Also one that is passed in some rounds only."""
    builder: Any = StateGraph(AgentState)
    for name in ("llm_call", "log", "tool_node"):
        builder.add_node(name, lambda state: state)
    builder.add_edge(START, "llm_call")
    targets = ["log", "tool_node"] if detour else ["log"]
    builder.add_conditional_edges("llm_call", lambda _: "log", targets)
    builder.add_edge("log", "tool_node")
    builder.add_edge("tool_node", "llm_call")
    assert cycle_length(builder.compile()) == 3


@pytest.mark.parametrize("limit", range(3, 9))
async def test_steps_that_other_nodes_took_are_counted(limit: int) -> None:
    """Someone puts a node before the first llm_call: the run still ends with an answer."""
    model = ScriptedModel(script=always_tool("work", {"text": "x"}))
    tools = [Recorder().tool("work")]
    builder: Any = agent_builder()
    builder.add_node("prepare", lambda _: None)
    builder.add_node("llm_call", make_llm_call(bind_tools(model, tools), PROMPT, 2))
    builder.add_node("tool_node", make_tool_node(tools), input_schema=AgentState)
    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "llm_call")
    builder.add_conditional_edges("llm_call", send_calls, ["tool_node", END])
    builder.add_edge("tool_node", "llm_call")
    messages = await ask(builder.compile(), "go", thread(limit=limit))
    assert messages[-1].text == "Closing."
    assert rounds(messages) == math.ceil((limit - 2) / 2) - 1


@pytest.mark.parametrize("limit", range(2, 61))
@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize(("obeys", "maximum"), [(True, 60), (False, 25)])
async def test_every_limit_ends_with_an_answer(
    kind: str, limit: int, obeys: bool, maximum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 1, 2: no limit ends in GraphRecursionError, and each turn has the whole budget."""
    monkeypatch.setattr(nodes, "MAX_AGENT_STEPS", maximum)
    model = ScriptedModel(script=always_tool("work", {"text": "x"}, obeys=obeys))
    agent = AGENTS[kind](model, [Recorder().tool("work")])
    expected = rounds_within(min(limit, maximum), kind)
    before = 0
    for turn in ("one", "two"):
        messages = await ask(agent, turn, thread(limit=limit))
        answer = messages[-1]
        assert rounds(messages[before:]) == expected
        assert answer.text == ("Closing." if obeys else STEP_LIMIT_MESSAGE)
        assert answer.response_metadata["stop_reason"] == "step_limit"
        assert not isinstance(answer, AIMessage) or not answer.tool_calls
        before = len(messages)
    assert model.calls[-1].tool_choice == "none"
    assert "No steps are left" in model.calls[-1].messages[0].text


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize("limit", [None, 25, 26, 100, 10_011])
async def test_asking_for_more_than_the_maximum_does_not_give_more(
    kind: str, limit: int | None
) -> None:
    model = ScriptedModel(script=always_tool("work", {"text": "x"}))
    messages = await ask(AGENTS[kind](model, [Recorder().tool("work")]), "go", thread(limit=limit))
    assert rounds(messages) == rounds_within(25, kind)
    assert len(model.calls) == rounds_within(25, kind) + 1


async def test_configurable_recursion_limit_means_nothing() -> None:
    """Case 4: only the top-level key counts."""
    model = ScriptedModel(script=always_tool("work", {"text": "x"}))
    agent = react(model, [Recorder().tool("work")])
    config = thread()
    config["configurable"]["recursion_limit"] = 7
    assert rounds(await ask(agent, "go", config)) == rounds_within(25, "react")


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_that_is_no_limit_is_refused(limit: int) -> None:
    """Case 5."""
    agent = react(ScriptedModel(script=["hi"]), [])
    with pytest.raises(ValueError, match="recursion_limit"):
        await ask(agent, "go", thread(limit=limit))


async def test_a_limit_of_one_cannot_even_answer() -> None:
    agent = react(ScriptedModel(script=["hi"]), [])
    with pytest.raises(GraphRecursionError):
        await ask(agent, "go", thread(limit=1))


@pytest.mark.parametrize("limit", [None, 7, 13, 25])
async def test_the_budget_holds_across_resumes(limit: int | None) -> None:
    """Case 2: LangGraph counts afresh on each resume; the turn's budget does not."""
    recorder = Recorder()
    model = ScriptedModel(script=always_tool("work", {"text": "x"}))
    agent = reviewed(model, [recorder.tool("work")], {"work": True})
    await ask(agent, "go", thread(limit=limit))
    approvals = 0
    while (await agent.aget_state(thread())).next:
        await resume(agent, {"decisions": [{"type": "approve"}]}, thread(limit=limit))
        approvals += 1
    assert approvals == len(recorder.runs) == rounds_within(limit or 25, "human_in_the_loop")


@pytest.mark.parametrize("limit", [2, 3, 4])
async def test_a_resume_with_hardly_any_steps_runs_what_was_approved_and_answers(
    limit: int,
) -> None:
    """Case 2."""
    recorder = Recorder()
    model = ScriptedModel(script=always_tool("work", {"text": "x"}))
    agent = reviewed(model, [recorder.tool("work")], {"work": True})
    await ask(agent, "go")
    result = await resume(agent, {"decisions": [{"type": "approve"}]}, thread(limit=limit))
    assert recorder.names() == ["work"]
    assert result["messages"][-1].response_metadata["stop_reason"] == "step_limit"


@pytest.mark.parametrize(("limit", "maximum"), [(7, 25), (25, 25), (100, 100), (25, 7)])
async def test_a_delegation_has_its_own_budget(
    limit: int, maximum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 6: whatever the supervisor's limit, a subagent gets 15 steps."""
    monkeypatch.setattr(nodes, "MAX_AGENT_STEPS", maximum)

    def script(made: ModelCall) -> str | AIMessage:
        if made.tool_names == ["worker"]:
            return "done" if made.messages[-1].type == "tool" else call("worker", {"query": "x"})
        return always_tool("work", {"text": "x"})(made)

    recorder = Recorder()
    spec = SubagentSpec("worker", "Works.", PROMPT, [recorder.tool("work")])
    agent = build_supervisor_agent(ScriptedModel(script=script), [spec])
    messages = await ask(agent, "go", thread(limit=limit))
    assert len(recorder.runs) == rounds_within(MAX_SUBAGENT_STEPS, "react")
    assert messages[-2].text == "Closing."


async def test_endless_delegation_is_bounded() -> None:
    """Case 10."""

    def script(made: ModelCall) -> str | AIMessage:
        if made.tool_names == ["worker"]:
            return always_tool("worker", {"query": "again"}, obeys=False)(made)
        return "done"

    agent = build_supervisor_agent(
        ScriptedModel(script=script), [SubagentSpec("worker", "Works.", PROMPT, [])]
    )
    messages = await ask(agent, "go")
    assert rounds(messages) == rounds_within(25, "subagents")
    assert messages[-1].text == STEP_LIMIT_MESSAGE


async def test_after_the_budget_is_spent_the_conversation_goes_on() -> None:
    """Case 3: no call is left without a result."""
    script = always_tool("work", {"text": "x"}, obeys=False)
    model = ScriptedModel(
        script=lambda made: "hello" if made.messages[-1].text == "hi" else script(made)
    )
    agent = react(model, [Recorder().tool("work")])
    await ask(agent, "go", thread(limit=6))
    assert (await ask(agent, "hi"))[-1].text == "hello"


@pytest.mark.parametrize(
    "late",
    [
        calls(("work", {"text": "a"}, "1"), ("work", {"text": "b"}, "2")),
        AIMessage(
            [
                {"type": "text", "text": "let me"},
                {"type": "function_call", "name": "work", "arguments": "{}", "call_id": "1"},
            ],
            tool_calls=[{"name": "work", "args": {}, "id": "1"}],
            additional_kwargs={"tool_calls": [{"id": "1", "function": {"name": "work"}}]},
            response_metadata={"finish_reason": "tool_calls"},
        ),
        AIMessage("Let me see.", invalid_tool_calls=[
            {"name": "work", "args": "{", "id": "1", "error": "x", "type": "invalid_tool_call"}
        ]),
        AIMessage("", id="empty"),
        AIMessage([{"type": "text", "text": "  "}]),
        AIMessage("", invalid_tool_calls=[
            {"name": "work", "args": "{", "id": "1", "error": "x", "type": "invalid_tool_call"}
        ]),
    ],
)  # fmt: skip
async def test_nothing_of_a_late_call_is_left(late: AIMessage) -> None:
    """Case 7, 8: not in the message, its extra fields or its blocks, also after a checkpoint."""
    agent = react(
        ScriptedModel(script=[late.model_copy(update={"id": "same"})]), [Recorder().tool("work")]
    )
    await ask(agent, "go", thread(limit=2))
    answer = (await agent.aget_state(thread())).values["messages"][-1]
    assert answer.id == "same"
    assert answer.content == STEP_LIMIT_MESSAGE
    assert not answer.tool_calls
    assert not answer.invalid_tool_calls
    assert not answer.additional_kwargs
    assert answer.response_metadata == {"stop_reason": "step_limit"}


async def test_a_closing_answer_in_blocks_becomes_plain_text() -> None:
    """Case 8, 43."""
    usage = UsageMetadata(input_tokens=1, output_tokens=2, total_tokens=3)
    blocks = AIMessage([{"type": "text", "text": "All I know."}], usage_metadata=usage)
    agent = react(ScriptedModel(script=[blocks]), [Recorder().tool("work")])
    answer = (await ask(agent, "go", thread(limit=2)))[-1]
    assert answer.content == "All I know."
    assert isinstance(answer, AIMessage)
    assert answer.usage_metadata == usage


@pytest.mark.parametrize("value", ["many", "1", "0", "-5", "2.5", "1e3"])
def test_a_maximum_that_is_none_is_a_clear_error(value: str) -> None:
    with pytest.raises(ValueError, match=f"is '{value}'. Set it to a whole number, 2 or more"):
        read_maximum(value)


@pytest.mark.parametrize(("value", "expected"), [("", 25), ("2", 2), (" 40 ", 40)])
def test_the_maximum(value: str, expected: int) -> None:
    assert read_maximum(value) == expected


def test_the_environment_sets_the_maximum() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import graphs.nodes as n; print(n.MAX_AGENT_STEPS)"],
        env={**os.environ, "MAX_AGENT_STEPS": "40"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["40"]


def test_the_agents_have_names() -> None:
    """Traces and streams show them."""
    supervisor = build_supervisor_agent(ScriptedModel(), [])
    assert [react_module.graph.name, human_in_the_loop.graph.name, supervisor.name] == [
        "react",
        "human_in_the_loop",
        "subagents",
    ]


async def test_a_trace_shows_which_call_of_the_model_was_the_last_that_the_budget_allowed() -> None:
    """By a tag on that run, and on no other."""
    traced = RunCollectorCallbackHandler()
    agent = react(
        ScriptedModel(script=always_tool("work", {"text": "x"})), [Recorder().tool("work")]
    )
    config = thread(limit=4)
    config["callbacks"] = [traced]
    await ask(agent, "go", config)
    (root,) = traced.traced_runs
    assert root.name == "react"
    calls_of_the_model = [
        run for node in root.child_runs for run in node.child_runs if run.run_type == "llm"
    ]
    assert ["step_limit" in (run.tags or []) for run in calls_of_the_model] == [False, True]


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_client_that_is_shown_messages_alone_sees_the_closing_answer(obeys: bool) -> None:
    """Once, and whole: LangGraph streams a message no second time under the same id."""
    model = ScriptedModel(script=always_tool("work", {"text": "x"}, obeys=obeys))
    agent = react(model, [Recorder().tool("work")])
    given = Conversation(messages=[HumanMessage("go")])
    shown = [part async for part in agent.astream(given, thread(limit=4), stream_mode="messages")]
    texts = [message.text for message, _ in shown if isinstance(message, AIMessage)]
    assert "".join(texts) == ("Closing." if obeys else STEP_LIMIT_MESSAGE)
