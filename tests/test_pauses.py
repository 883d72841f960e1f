"""An answer counts for the request that it was given to, and for no other."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs.building import Agent
from graphs.history import WITHDRAWN
from graphs.pauses import NOT_TAKEN
from graphs.state import Conversation
from tests.agents import Recorder, ask, requests, results, resume, reviewed, the_request, thread
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel, call
from tests.test_subagents import APPROVE, REJECT, Office, delegations


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


class Down(Office):
    """Its subagents' model is down at first. Then all are done before a clerk asks but `first`."""

    down = True
    first = ""

    def reply(self, made: ModelCall) -> Reply:
        if "clerk" in made.tool_names:
            return self.plan.pop(0)
        if self.down:
            return RuntimeError("down")
        tries = sum(message.type == "tool" for message in made.messages)
        if made.messages[1].text == self.first:
            tries += 2
        if "look" in made.tool_names or tries > 2:
            return "Done."
        return call("send", {} if tries < 2 else {"text": "email"})


@pytest.mark.parametrize("by_id", [True, False])
async def test_nor_for_whatever_else_waits_then(by_id: bool) -> None:
    """Of two reviews that come up after the answer, the second was not told of it."""
    office = Down(delegations(("clerk", "A"), ("clerk", "B")), "ok")
    with pytest.raises(RuntimeError, match="down"):
        await ask(office.agent, "go")
    office.down, office.first = False, "B"
    await office.agent.ainvoke(Command(resume=APPROVE), thread(), durability="exit")
    errors = {"error" in request for request in (await requests(office.agent)).values()}
    assert errors == {True, False}
    waiting = await requests(office.agent)
    told = [id for id, request in waiting.items() if "error" in request]
    given: Command[Any] = Command(resume=dict.fromkeys(told, REJECT))
    await office.agent.ainvoke(given if by_id else None, thread(), durability="sync")
    assert office.recorder.runs == []
    assert len(await requests(office.agent)) == (1 if by_id else 2)


async def one_with_an_answer_too_early() -> tuple[Agent, Recorder]:
    """An agent that waits, and where LangGraph keeps an older answer that has no id."""
    office = Down(delegations(("clerk", "go"), ("scout", "go")), "ok")
    with pytest.raises(RuntimeError, match="down"):
        await ask(office.agent, "go")
    office.down = False
    await office.agent.ainvoke(Command(resume=APPROVE), thread(), durability="exit")
    assert office.recorder.runs == []
    assert (await the_request(office.agent))["error"] == NOT_TAKEN
    return office.agent, office.recorder


async def test_nor_where_langgraph_stores_it_again_when_the_run_ends() -> None:
    agent, recorder = await one_with_an_answer_too_early()
    await agent.ainvoke(None, thread())
    assert (await the_request(agent))["error"] == NOT_TAKEN
    for _ in range(2):
        before = await requests(agent)
        await agent.ainvoke(None, thread())
        assert await requests(agent) == before
    assert recorder.runs == []
    await resume(agent, APPROVE)
    assert recorder.names() == ["send"]


async def test_by_id_an_answer_is_taken_at_once_there_too() -> None:
    agent, recorder = await one_with_an_answer_too_early()
    (interrupt_id,) = await requests(agent)
    await resume(agent, {interrupt_id: APPROVE})
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


async def one_that_waits() -> tuple[Agent, Recorder]:
    """An agent that waits for the review of the first of two emails."""
    recorder = Recorder()
    emails = [call("send", {"text": f"email {number}"}, f"c{number}") for number in (1, 2)]
    agent = reviewed(ScriptedModel(script=[*emails, "ok"]), [recorder.tool("send")], {"send": True})
    await ask(agent, "go")
    return agent, recorder


def of_run(run_id: object) -> RunnableConfig:
    """The config of a run, as a server makes it."""
    return {**thread(), "metadata": {"run_id": str(run_id)}}


def asked_for_at(seconds: float) -> UUID:
    """A run's id that tells when the run was asked for, in seconds since 1970."""
    return UUID(int=(int(seconds * 1000) << 80) | (7 << 76) | (2 << 62) | 5)


@pytest.mark.parametrize("bad_first", [False, True])
async def test_an_answer_that_had_to_wait_is_none_to_what_was_asked_meanwhile(
    bad_first: bool,
) -> None:
    """Of two approvals that are sent at once, the second one's run waits for the first one's."""
    agent, recorder = await one_that_waits()
    if bad_first:
        await resume(agent, "what?")
    before = await requests(agent)
    pause = (await agent.aget_state(thread())).created_at
    assert pause
    shown = datetime.fromisoformat(pause).timestamp()
    for seconds in (shown - 60, shown - 0.01):
        await resume(agent, APPROVE, of_run(asked_for_at(seconds)))
        assert recorder.runs == []
        assert list(await requests(agent)) == list(before)
        if not bad_first:
            assert (await the_request(agent))["error"] == NOT_TAKEN
    await resume(agent, APPROVE, of_run(asked_for_at(shown + 1)))
    assert [args["text"] for _, args in recorder.runs] == ["email 1"]


@pytest.mark.parametrize("run_id", [uuid4(), "my run", ""])
async def test_where_a_runs_id_tells_no_time_its_answer_is_taken(run_id: object) -> None:
    agent, recorder = await one_that_waits()
    await resume(agent, APPROVE, of_run(run_id))
    assert [args["text"] for _, args in recorder.runs] == ["email 1"]


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("kind", ["approve", "reject"])
async def test_an_answer_at_the_checkpoint_of_a_decided_review_runs_nothing(
    kind: str, by_id: bool
) -> None:
    """LangGraph would play the decision again. What waits meanwhile waits on."""
    agent, recorder = await one_that_waits()
    at_review = (await agent.aget_state(thread())).config
    (interrupt_id,) = await requests(agent)
    await resume(agent, APPROVE)
    waiting = await requests(agent)
    for _ in range(2):
        answer = {"type": kind}
        again = await resume(agent, {interrupt_id: answer} if by_id else answer, at_review)
        assert again["__interrupt__"], "the client can tell"
        assert [args["text"] for _, args in recorder.runs] == ["email 1"]
        assert await requests(agent) == waiting
    await resume(agent, APPROVE)
    assert [args["text"] for _, args in recorder.runs] == ["email 1", "email 2"]


@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("by_id", [True, False])
async def test_under_the_supervisor_too_and_what_finished_beside_it_does_not_run_again(
    by_id: bool, durability: Literal["async", "exit"]
) -> None:
    office = Office(
        delegations(("clerk", "a"), ("scout", "look")), delegations(("clerk", "b")), "ok", "never"
    )
    agent, done = office.agent, office.recorder
    given = Conversation(messages=[HumanMessage("go")])
    await agent.ainvoke(given, thread(), durability=durability)
    at_review = (await agent.aget_state(thread())).config
    (interrupt_id,) = await requests(agent)
    await agent.ainvoke(Command(resume=APPROVE), thread(), durability=durability)
    waiting, ran = await requests(agent), list(done.runs)
    for _ in range(2):
        await resume(agent, {interrupt_id: APPROVE} if by_id else APPROVE, at_review)
        assert await requests(agent) == waiting
        assert done.runs == ran
    await resume(agent, dict.fromkeys(waiting, APPROVE))
    assert [args["text"] for name, args in done.runs if name == "send"] == ["a", "b"]


async def test_a_decided_review_is_asked_again_where_its_checkpoint_is_played_again() -> None:
    agent, recorder = await one_that_waits()
    at_review = (await agent.aget_state(thread())).config
    await resume(agent, APPROVE)
    await agent.ainvoke(None, at_review)
    assert (await the_request(agent))["action_requests"][0]["args"] == {"text": "email 1"}
    assert len(recorder.runs) == 1


class Stopped:
    """A call that a human approved in one run, which ended before the call was through."""

    def __init__(self, nested: bool) -> None:
        self.office = Office(delegations(("clerk", "hi")), "ok")
        recorder = Recorder()
        script = [call("send", {"text": "hi"}), "ok"]
        plain = reviewed(ScriptedModel(script=script), [recorder.tool("send")], {"send": True})
        self.agent = self.office.agent if nested else plain
        self.recorder = self.office.recorder if nested else recorder

    async def approve_and_stop(self) -> str:
        """Approve in a run that fails in the tool; return the review's interrupt id."""
        await ask(self.agent, "go", of_run("first"))
        (interrupt_id,) = await requests(self.agent)
        self.recorder.failures["send"] = RuntimeError("stopped")
        with pytest.raises(RuntimeError, match="stopped"):
            await resume(self.agent, {interrupt_id: APPROVE}, of_run("second"))
        self.recorder.failures.clear()
        return interrupt_id


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("kind", ["approve", "reject", "null"])
async def test_after_a_stop_a_call_runs_unless_it_is_answered_otherwise(
    kind: str, by_id: bool, nested: bool
) -> None:
    """LangGraph would carry out the first decision, whatever the second one is."""
    stopped = Stopped(nested)
    interrupt_id = await stopped.approve_and_stop()
    answer = {"approve": APPROVE, "reject": REJECT, "null": None}[kind]
    resumed: Command[Any] = Command(resume={interrupt_id: answer} if by_id else answer)
    await stopped.agent.ainvoke(resumed if answer else None, of_run("third"))
    assert stopped.recorder.names() == ([] if kind == "reject" else ["send"])
    assert await requests(stopped.agent) == {}


async def test_a_call_whose_approval_was_taken_back_does_not_run() -> None:
    """A rollback on langgraph-api 0.16 leaves the decision stored, and no checkpoint of its run."""
    stopped = Stopped(nested=False)
    interrupt_id = await stopped.approve_and_stop()
    saver = stopped.agent.checkpointer
    assert isinstance(saver, InMemorySaver)
    decided = saver.storage["1"][""].popitem()
    assert "second" in str(decided)
    await stopped.agent.ainvoke(None, of_run("third"))
    assert stopped.recorder.names() == []
    told = results((await stopped.agent.aget_state(thread())).values["messages"])
    assert [message.text for message in told] == [WITHDRAWN]
    assert interrupt_id not in await requests(stopped.agent)
