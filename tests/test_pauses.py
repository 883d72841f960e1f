"""An answer counts for the request that it was given to, and for no other."""

from typing import Literal

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from graphs.nodes import Agent
from graphs.state import Conversation
from tests.agents import Recorder, ask, requests, resume, reviewed, thread
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel, call
from tests.test_subagents import APPROVE, Office, delegations


class Crashing(Office):
    """Its clerk sends one email after another, and its model is down once, before `crash`."""

    crash: int | None = None

    def reply(self, made: ModelCall) -> Reply:
        if "clerk" in made.tool_names:
            return self.plan.pop(0)
        number = sum(message.type == "tool" for message in made.messages)
        if number == self.crash:
            self.crash = None
            return RuntimeError("down")
        return call("send", {"text": f"email {number}"}) if number < 3 else "All sent."


async def test_an_answer_where_nothing_waits_yet_is_no_answer_to_what_comes() -> None:
    """Case 34: the delegation failed before its review; an approval then has nothing to approve."""
    office = Crashing(delegations(("clerk", "go")), "ok")
    office.crash = 0
    with pytest.raises(RuntimeError, match="down"):
        await ask(office.agent, "go")
    assert await requests(office.agent) == {}
    await resume(office.agent, APPROVE)
    assert office.recorder.runs == []


@pytest.mark.parametrize("by_id", [True, False])
async def test_an_answer_counts_once_also_if_the_run_fails_after_it(by_id: bool) -> None:
    """The next email waits for an answer of its own, however often the run is tried again."""
    office = Crashing(delegations(("clerk", "go")), "ok")
    await office.agent.ainvoke({"messages": [HumanMessage("go")]}, thread())
    (interrupt_id,) = await requests(office.agent)
    office.crash = 1
    with pytest.raises(RuntimeError, match="down"):
        await resume(office.agent, {interrupt_id: APPROVE} if by_id else APPROVE)
    for _ in range(3):
        await office.agent.ainvoke(None, thread())
        assert [args["text"] for _, args in office.recorder.runs] == ["email 0"]
    (request,) = (await requests(office.agent)).values()
    assert request["action_requests"][0]["args"] == {"text": "email 1"}


@pytest.mark.parametrize("durability", ["exit", "async", "sync"])
async def test_a_request_that_was_shown_is_known_however_checkpoints_are_saved(
    durability: Literal["exit", "async", "sync"],
) -> None:
    """By itself and inside a delegation, also with an answer that has no id."""
    recorder = Recorder()
    plain = reviewed(
        ScriptedModel(script=[call("send", {"text": "go"}), "ok"]),
        [recorder.tool("send")],
        {"send": True},
    )
    office = Office(delegations(("clerk", "go")), "ok")
    for agent, did in ((plain, recorder), (office.agent, office.recorder)):
        await agent.ainvoke({"messages": [HumanMessage("go")]}, thread(), durability=durability)
        assert len(await requests(agent)) == 1
        await agent.ainvoke(Command(resume=APPROVE), thread(), durability=durability)
        assert did.runs == [("send", {"text": "go", "number": 0})]
        assert await requests(agent) == {}


async def one_that_stands_before_its_review() -> tuple[Agent, Recorder]:
    """An agent that was stopped, by a debugger for one, before anything was shown."""
    recorder = Recorder()
    model = ScriptedModel(script=[call("send", {"text": "go"}), "ok"])
    agent = reviewed(model, [recorder.tool("send")], {"send": True})
    given = Conversation(messages=[HumanMessage("go")])
    await agent.ainvoke(given, thread(), interrupt_before=["human_review"])
    assert await requests(agent) == {}
    return agent, recorder


async def test_an_answer_before_anything_was_shown_is_not_kept_for_later() -> None:
    agent, recorder = await one_that_stands_before_its_review()
    await resume(agent, APPROVE)
    for _ in range(2):
        await agent.ainvoke(None, thread())
        assert recorder.runs == []
    (interrupt_id,) = await requests(agent)
    await resume(agent, {interrupt_id: "what?"})
    assert recorder.runs == []
    (request,) = (await requests(agent)).values()
    assert request["error"].startswith("Nothing was run.")
    await resume(agent, APPROVE)
    assert recorder.names() == ["send"]


async def test_a_null_input_after_a_bad_answer_leaves_the_request_as_it_is() -> None:
    """Its id too: the answer of who was shown it still counts."""
    agent, recorder = await one_that_stands_before_its_review()
    await agent.ainvoke(None, thread())
    await resume(agent, "what?")
    asked = await requests(agent)
    for _ in range(2):
        await agent.ainvoke(None, thread())
        assert await requests(agent) == asked
    (interrupt_id,) = asked
    await resume(agent, {interrupt_id: APPROVE})
    assert recorder.names() == ["send"]
