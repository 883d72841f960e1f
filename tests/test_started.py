"""What an approved call did is not denied where the thread has forgotten the approval."""

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from graphs.history import NO_RESULT, NOT_EXECUTED, STARTED
from graphs.review import STARTED_ALL_THE_SAME, STARTED_BEFORE
from tests.agents import Recorder, ask, history, requests, results, resume, reviewed, thread
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel, calls
from tests.test_subagents import APPROVE, REJECT, Office, delegations


class Forgetful:
    """An agent whose server dies, with all checkpoints since a review was asked for.

    Asked to "go", it wants to `send`, which is reviewed, and to `look`; or it delegates that.
    """

    def __init__(self, *, store: bool = True, nested: bool = False) -> None:
        office = Office(delegations(("clerk", "hi")), "ok", "ok")
        self.recorder = office.recorder if nested else Recorder()
        self.model = office.model if nested else ScriptedModel(script=self.reply)
        tools = [self.recorder.tool(name) for name in ("send", "look")]
        self.agent = office.agent if nested else reviewed(self.model, tools, {"send": True})
        self.agent.store = InMemoryStore() if store else None

    def reply(self, made: ModelCall) -> Reply:
        wanted = calls(("send", {"text": "hi"}, "1"), ("look", {"text": "hi"}, "2"))
        return wanted if made.messages[-1].text == "go" else "ok"

    async def decide_and_die(self, answer: object) -> None:
        saver: Any = self.agent.checkpointer
        assert isinstance(saver, InMemorySaver)
        await ask(self.agent, "go")
        kept = deepcopy((saver.storage, saver.writes, saver.blobs))
        await resume(self.agent, answer)
        saver.storage, saver.writes, saver.blobs = kept

    async def told(self) -> list[str]:
        """What the model is told of the calls when the user goes on."""
        await ask(self.agent, "Was it sent?")
        return [m.text for m in self.model.calls[-1].messages if m.type == "tool"]

    async def request(self) -> tuple[str, str]:
        """The pending review's id, and how it describes the call."""
        ((interrupt_id, request),) = (await requests(self.agent)).items()
        (action,) = request["action_requests"]
        return interrupt_id, action["description"]


@pytest.mark.parametrize(
    ("store", "answer", "told"),
    [
        (True, APPROVE, [STARTED, STARTED]),
        (True, REJECT, [NOT_EXECUTED, STARTED]),
        (False, APPROVE, [NOT_EXECUTED, NOT_EXECUTED]),
    ],
)
async def test_the_model_is_told_of_what_was_started(
    store: bool, answer: object, told: list[str]
) -> None:
    """Also of the call beside it that needed no review: it waited for the answer, too."""
    server = Forgetful(store=store)
    await server.decide_and_die(answer)
    assert await server.told() == told


@pytest.mark.parametrize(("answer", "told"), [(APPROVE, STARTED), (REJECT, NO_RESULT)])
async def test_a_supervisor_is_told_of_a_delegation_in_which_something_was_started(
    answer: object, told: str
) -> None:
    server = Forgetful(nested=True)
    await server.decide_and_die(answer)
    assert await server.told() == [told]


@pytest.mark.parametrize(("answer", "before"), [(APPROVE, True), (REJECT, False)])
async def test_who_is_asked_again_is_told_too(answer: object, before: bool) -> None:
    server = Forgetful()
    await server.decide_and_die(answer)
    await server.agent.ainvoke(None, thread())
    _, description = await server.request()
    assert (STARTED_BEFORE in description) is before


@pytest.mark.parametrize("answer", [APPROVE, REJECT])
@pytest.mark.parametrize("by_id", [True, False])
async def test_an_answer_of_who_was_not_told_asks_again(by_id: bool, answer: object) -> None:
    """The request of before is still listed, and says nothing of what was started since."""
    server = Forgetful()
    await server.decide_and_die(APPROVE)
    ran = list(server.recorder.runs)
    interrupt_id, description = await server.request()
    assert STARTED_BEFORE not in description
    await resume(server.agent, {interrupt_id: answer} if by_id else answer)
    _, description = await server.request()
    assert STARTED_BEFORE in description
    assert server.recorder.runs == ran


async def test_a_rejection_does_not_deny_what_was_started() -> None:
    server = Forgetful()
    await server.decide_and_die(APPROVE)
    await server.agent.ainvoke(None, thread())
    await resume(server.agent, REJECT)
    assert server.recorder.names().count("send") == 1
    sent, _ = results(await history(server.agent))
    assert sent.text.startswith("Not executed: a human rejected this call. The reason: no")
    assert sent.text.endswith(STARTED_ALL_THE_SAME)


async def test_another_call_of_the_same_id_is_another_one() -> None:
    """Some models count their calls anew in each conversation."""
    server = Forgetful()
    await server.decide_and_die(APPROVE)
    await server.agent.ainvoke({"messages": [HumanMessage("go")]}, thread("2"))
    (request,) = (await requests(server.agent, thread("2"))).values()
    assert STARTED_BEFORE not in request["action_requests"][0]["description"]
