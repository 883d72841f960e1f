"""The supervisor: what a delegation sees, returns and costs, and reviews inside of it."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot

from graphs.building import Agent
from graphs.history import NO_RESULT
from graphs.prompts import SUBAGENT_OUTPUT_RULE, SUPERVISOR
from graphs.subagents import SPECS, SubagentSpec, build_subagent_tool, build_supervisor_agent
from tests.agents import Recorder, ask, history, requests, results, resume, thread
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel, call, calls

APPROVE = {"decisions": [{"type": "approve"}]}
REJECT = {"decisions": [{"type": "reject", "message": "no"}]}
OFFICE = ("clerk", "scout")


class Office:
    """A supervisor with a clerk, whose `send` is reviewed, and a scout, who may just look.

    Whoever is asked "text" calls its own tool with that text, and reports the result.
    """

    def __init__(self, *plan: Reply, parallel: bool = True) -> None:
        self.plan = list(plan)
        self.recorder = Recorder()
        self.model = ScriptedModel(script=self.reply)
        specs = [
            SubagentSpec(
                "clerk", "Writes.", "You write.", [self.recorder.tool("send")],
                interrupt_on={"send": True},
            ),
            SubagentSpec("scout", "Looks.", "You look.", [self.recorder.tool("look")]),
        ]  # fmt: skip
        self.agent: Agent = build_supervisor_agent(
            self.model, specs, checkpointer=InMemorySaver(), parallel_tool_calls=parallel
        )

    def reply(self, made: ModelCall) -> Reply:
        if "clerk" in made.tool_names:
            return self.plan.pop(0)
        last = made.messages[-1]
        if last.type == "tool":
            return f"Report: {last.text}"
        return call(made.tool_names[0], {"text": last.text})

    def shown_to(self, tool: str) -> list[ModelCall]:
        """The model's calls on behalf of the agent that has this tool."""
        return [made for made in self.model.calls if tool in made.tool_names]


def delegations(*wanted: tuple[str, str]) -> AIMessage:
    """A message that hands tasks to agents, each given as (agent, query)."""
    return calls(*[(name, {"query": query}, query) for name, query in wanted])


async def reports(office: Office) -> dict[str, str]:
    return {r.tool_call_id: r.text for r in results(await history(office.agent))}


async def test_a_delegation_starts_from_its_prompt_and_the_query_alone() -> None:
    office = Office(delegations(("scout", "one")), "ok", delegations(("scout", "two")), "ok")
    await ask(office.agent, "a long story")
    await ask(office.agent, "and more")
    first = [made for made in office.shown_to("look") if made.messages[-1].type == "human"]
    assert [[m.type for m in made.messages] for made in first] == [["system", "human"]] * 2
    assert [made.messages[1].text for made in first] == ["one", "two"]
    assert first[0].messages[0].text == f"You look.\n\n{SUBAGENT_OUTPUT_RULE}"


async def test_only_the_text_of_the_final_answer_comes_back() -> None:
    office = Office(delegations(("scout", "one")), "ok")
    messages = await ask(office.agent, "go")
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai"]
    assert messages[2].text == "Report: look did one"


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        ("", "worker ended without an answer."),
        ([], "worker ended without an answer."),
        ([{"type": "text", "text": " "}], "worker ended without an answer."),
        ([{"type": "text", "text": "It is "}, {"type": "text", "text": "warm."}], "It is warm."),
        ([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Warm."}], "Warm."),
    ],
)
async def test_an_empty_or_block_answer_becomes_text(final: Any, expected: str) -> None:
    """Case 43."""
    spec = SubagentSpec("worker", "Works.", "Work.", [])
    delegate = build_subagent_tool(spec, ScriptedModel(script=[AIMessage(final)]))
    assert str(await delegate.ainvoke({"query": "go"})).startswith(expected)


async def test_a_subagent_may_have_a_model_of_its_own() -> None:
    own, shared = ScriptedModel(script=["mine"]), ScriptedModel(script=["ours"])
    for llm, expected in ((own, "mine"), (None, "ours")):
        tool = build_subagent_tool(SubagentSpec("worker", "Works.", "Work.", [], llm=llm), shared)
        assert await tool.ainvoke({"query": "go"}) == expected


async def test_delegations_of_one_message_run_at_the_same_time() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(text: str) -> str:
        """Wait until three are here."""
        await asyncio.wait_for(meeting.wait(), 5)
        return f"met for {text}"

    office = Office(delegations(("clerk", "a"), ("clerk", "b"), ("clerk", "c")), "ok")
    specs = [
        SubagentSpec("clerk", "Meets.", "You meet.", [StructuredTool.from_function(coroutine=meet)])
    ]
    agent = build_supervisor_agent(office.model, specs)
    messages = await ask(agent, "go")
    assert [r.text for r in results(messages)] == [f"Report: met for {x}" for x in "abc"]


async def test_a_review_inside_a_subagent_pauses_the_supervisors_thread() -> None:
    """Case 40, 41: and the query is not taken for the result."""
    office = Office(delegations(("clerk", "hello")), "ok")
    await ask(office.agent, "go")
    (request,) = (await requests(office.agent)).values()
    assert request["action_requests"][0]["args"] == {"text": "hello"}
    assert office.recorder.runs == []
    await resume(office.agent, APPROVE)
    assert office.recorder.names() == ["send"]
    assert await reports(office) == {"hello": "Report: send did hello"}


async def pending(office: Office) -> dict[str, str]:
    """The ids of the pending interrupts, by the text that each wants to send."""
    return {
        request["action_requests"][0]["args"]["text"]: interrupt_id
        for interrupt_id, request in (await requests(office.agent)).items()
    }


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
async def test_three_reviews_in_any_order_beside_a_finished_delegation(order: str) -> None:
    """Case 21, 38: each answer to its own, each once, and what is finished does not run again."""
    office = Office(
        delegations(("clerk", "a"), ("clerk", "b"), ("scout", "look"), ("clerk", "c")), "ok"
    )
    await ask(office.agent, "go")
    assert office.recorder.names() == ["look"]
    for text in order:
        answer = REJECT if text == "b" else APPROVE
        await resume(office.agent, {(await pending(office))[text]: answer})
    assert sorted(args["text"] for _, args in office.recorder.runs) == ["a", "c", "look"]
    assert office.recorder.names().count("look") == 1
    told = await reports(office)
    assert told["a"] == "Report: send did a"
    assert "rejected" in told["b"]
    assert told["c"] == "Report: send did c"
    assert (await history(office.agent))[-1].text == "ok"


async def test_all_reviews_answered_together() -> None:
    office = Office(delegations(("clerk", "a"), ("clerk", "b")), "ok")
    await ask(office.agent, "go")
    ids = await pending(office)
    await resume(office.agent, {ids["a"]: APPROVE, ids["b"]: REJECT})
    assert [args["text"] for _, args in office.recorder.runs] == ["a"]
    assert (await history(office.agent))[-1].text == "ok"


async def test_an_answer_without_an_id_is_refused_while_several_wait_and_nothing_is_lost() -> None:
    office = Office(delegations(("clerk", "a"), ("clerk", "b")), "ok")
    await ask(office.agent, "go")
    with pytest.raises(RuntimeError, match="interrupt id"):
        await resume(office.agent, APPROVE)
    ids = await pending(office)
    await resume(office.agent, {ids["b"]: APPROVE})
    await resume(office.agent, {(await pending(office))["a"]: APPROVE})
    assert sorted(args["text"] for _, args in office.recorder.runs) == ["a", "b"]


async def test_a_bad_answer_asks_again_in_its_own_delegation_only() -> None:
    """Case 22, under the supervisor."""
    office = Office(delegations(("clerk", "a"), ("clerk", "b")), "ok")
    await ask(office.agent, "go")
    await resume(office.agent, {(await pending(office))["a"]: "garbage"})
    errors = {
        request["action_requests"][0]["args"]["text"]: "error" in request
        for request in (await requests(office.agent)).values()
    }
    assert errors == {"a": True, "b": False}
    ids = await pending(office)
    await resume(office.agent, dict.fromkeys(ids.values(), APPROVE))
    assert sorted(office.recorder.names()) == ["send", "send"]


async def test_a_message_during_a_review_in_a_subagent_moves_on() -> None:
    """Case 11: the supervisor knows that there is no result, and nothing was sent."""
    office = Office(delegations(("clerk", "a")), "fine", delegations(("clerk", "b")), "ok")
    await ask(office.agent, "go")
    messages = await ask(office.agent, "never mind")
    assert messages[-1].text == "fine"
    assert office.shown_to("clerk")[1].messages[3].text == NO_RESULT
    await ask(office.agent, "now b")
    assert list(await pending(office)) == ["b"], "the abandoned review is gone"
    await resume(office.agent, APPROVE)
    assert [args["text"] for _, args in office.recorder.runs] == ["b"]


async def test_one_failing_delegation_keeps_its_siblings() -> None:
    """Case 42: the run fails; on a retry only the failed one runs again."""
    office = Office(delegations(("scout", "a"), ("clerk", "b")), "ok")
    office.recorder.failures["look"] = RuntimeError("lost")
    with pytest.raises(RuntimeError, match="lost"):
        await ask(office.agent, "go")
    office.recorder.failures.clear()
    await office.agent.ainvoke(None, thread())
    await resume(office.agent, APPROVE)
    assert sorted(office.recorder.names()) == ["look", "send"]
    assert (await history(office.agent))[-1].text == "ok"


async def test_one_at_a_time_never_has_two_reviews_pending() -> None:
    """For clients that answer without an interrupt id; the model gets its say on the others."""
    office = Office(
        delegations(("clerk", "a"), ("clerk", "b")),
        delegations(("clerk", "b again")),
        "ok",
        parallel=False,
    )
    assert office.model.calls == []
    await ask(office.agent, "go")
    assert office.shown_to("clerk")[0].kwargs["parallel_tool_calls"] is False
    for text in ("a", "b again"):
        assert list(await pending(office)) == [text]
        await resume(office.agent, APPROVE)
    told = await reports(office)
    assert "only one call runs at a time" in told["b"]
    assert [args["text"] for _, args in office.recorder.runs] == ["a", "b again"]


@pytest.mark.parametrize("query", [{}, {"query": ""}, {"query": 7}, {"task": "x"}])
async def test_a_query_that_is_none_is_an_error_for_the_model(query: dict[str, Any]) -> None:
    office = Office(call("scout", query), "ok")
    (result,) = results(await ask(office.agent, "go"))
    assert result.status == "error"
    assert office.recorder.runs == []


def test_two_subagents_of_one_name_are_an_error_at_build_time() -> None:
    spec = SubagentSpec("worker", "Works.", "Work.", [])
    with pytest.raises(ValueError, match="Two tools are called 'worker'"):
        build_supervisor_agent(ScriptedModel(), [spec, spec])


@pytest.mark.parametrize("name", ["", "my agent", "x" * 65])
def test_a_name_that_providers_refuse_is_an_error_at_build_time(name: str) -> None:
    spec = SubagentSpec(name, "Works.", "Work.", [])
    with pytest.raises(ValueError, match="is no name for a tool"):
        build_supervisor_agent(ScriptedModel(), [spec])


def test_a_description_is_needed() -> None:
    with pytest.raises(ValueError, match="worker has no description"):
        build_supervisor_agent(ScriptedModel(), [SubagentSpec("worker", " ", "Work.", [])])


def test_a_wrong_policy_of_a_subagent_stops_the_build() -> None:
    spec = SubagentSpec("worker", "Works.", "Work.", [], interrupt_on={"send": True})
    with pytest.raises(ValueError, match="interrupt_on names 'send', which is no tool here"):
        build_supervisor_agent(ScriptedModel(), [spec])


def test_the_supervisors_prompt_names_no_subagent() -> None:
    """So that adding one is adding a spec."""
    assert not [spec.name for spec in SPECS if spec.name in SUPERVISOR]


async def test_what_is_under_way_can_be_read_however_deep_it_is() -> None:
    """Also beside a specialist of another shape."""
    recorder = Recorder()

    def reply(made: ModelCall) -> Reply:
        if "office" in made.tool_names:
            return calls(("office", {"query": "delegate"}, "o"), ("scout", {"query": "look"}, "s"))
        last = made.messages[-1]
        (name,) = made.tool_names
        given = {"query": "send"} if name == "clerk" else {"text": last.text}
        return "Seen." if last.type == "tool" else call(name, given)

    model = ScriptedModel(script=reply)
    clerk = SubagentSpec(
        "clerk", "Writes.", "You write.", [recorder.tool("send")], interrupt_on={"send": True}
    )
    specs = [
        SubagentSpec("scout", "Looks.", "You look.", [recorder.tool("look")]),
        SubagentSpec("office", "Delegates.", "Delegate.", [build_subagent_tool(clerk, model)]),
    ]
    agent = build_supervisor_agent(model, specs, checkpointer=InMemorySaver())
    await ask(agent, "go")

    def below(state: StateSnapshot) -> dict[str, Any]:
        states = [task.state for task in state.tasks if isinstance(task.state, StateSnapshot)]
        found = [(one.values["messages"], one) for one in states if one.values]
        return {messages[0].text: [len(messages), below(one)] for messages, one in found}

    state = await agent.aget_state(thread(), subgraphs=True)
    assert below(state) == {"delegate": [2, {"send": [2, {}]}], "look": [4, {}]}


async def test_progress_and_result_tell_where_a_delegations_checkpoints_are() -> None:
    office = Office(delegations(("scout", "a"), ("scout", "b")), "ok")
    told = await events(office, {"messages": [HumanMessage("go")]})
    of_call = {event["tool_call_id"]: event["checkpoint_ns"] for event in told}
    made = results(await history(office.agent))
    assert {r.tool_call_id: r.artifact["checkpoint_ns"] for r in made} == of_call
    for query, namespace in of_call.items():
        config = RunnableConfig(configurable={"thread_id": "1", "checkpoint_ns": namespace})
        assert (await office.agent.aget_state(config)).values["messages"][0].text == query


async def events(office: Office, given: Any) -> list[dict[str, Any]]:
    """The progress that a run tells to a client that asks for `custom` events, and no subgraphs."""
    told = [event async for event in office.agent.astream(given, thread(), stream_mode="custom")]
    assert all(isinstance(event, dict) for event in told)
    return [dict(event) for event in told]


async def test_a_delegation_tells_how_far_it_is() -> None:
    """Also across the pause for a review: the steps go on, and a finished sibling is silent."""
    office = Office(delegations(("clerk", "a"), ("scout", "b")), "ok")
    before = await events(office, {"messages": [HumanMessage("go")]})
    assert {event["max_steps"] for event in before} == {15}
    assert {(e["subagent"], e["query"], e["tool_call_id"]) for e in before} == {
        ("clerk", "a", "a"),
        ("scout", "b", "b"),
    }
    steps = {name: [e["steps"] for e in before if e["subagent"] == name] for name in OFFICE}
    assert steps == {"clerk": [0, 1], "scout": [0, 1, 2, 3]}
    after = await events(office, Command(resume=APPROVE))
    assert {event["subagent"] for event in after} == {"clerk"}
    assert sorted({event["steps"] for event in after})[-2:] == [3, 4]
