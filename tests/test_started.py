"""What an approved call did is not denied where the thread has forgotten the approval."""

from copy import deepcopy

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from graphs.building import Agent
from graphs.history import NOT_EXECUTED, STARTED
from graphs.human_in_the_loop import build_human_in_the_loop_agent
from graphs.review import STARTED_BEFORE
from tests.agents import PROMPT, Recorder, ask, resume, the_request, thread
from tests.standins.scripted_model import ScriptedModel, call
from tests.test_subagents import APPROVE, REJECT


class Forgetful:
    """An agent whose server dies, with all checkpoints since a review was asked for."""

    def __init__(self, store: bool) -> None:
        self.recorder = Recorder()
        self.store = InMemoryStore() if store else None
        self.model = ScriptedModel(
            script=lambda made: (
                call("send", {"text": "hi"}, "1") if made.messages[-1].text == "go" else "ok"
            )
        )
        self.saver = InMemorySaver()
        self.agent = self.built()

    def built(self) -> Agent:
        tools = [self.recorder.tool("send")]
        agent = build_human_in_the_loop_agent(self.model, tools, PROMPT, {"send": True}, self.saver)
        agent.store = self.store
        return agent

    async def decide_and_die(self, answer: object) -> None:
        await ask(self.agent, "go")
        storage, writes, blobs = deepcopy((self.saver.storage, self.saver.writes, self.saver.blobs))
        await resume(self.agent, answer)
        self.saver.storage, self.saver.writes, self.saver.blobs = storage, writes, blobs

    async def told(self) -> str:
        """What the model is told of the call when the user goes on."""
        await ask(self.agent, "Was it sent?")
        return self.model.calls[-1].messages[3].text


@pytest.mark.parametrize(
    ("store", "answer", "told"),
    [
        (True, APPROVE, STARTED),
        (True, REJECT, NOT_EXECUTED),
        (False, APPROVE, NOT_EXECUTED),
    ],
)
async def test_the_model_is_told_of_a_call_that_was_started(
    store: bool, answer: object, told: str
) -> None:
    server = Forgetful(store)
    await server.decide_and_die(answer)
    assert await server.told() == told


@pytest.mark.parametrize(("answer", "before"), [(APPROVE, True), (REJECT, False)])
async def test_who_is_asked_again_is_told_too(answer: object, before: bool) -> None:
    server = Forgetful(store=True)
    await server.decide_and_die(answer)
    await server.agent.ainvoke(None, thread())
    (action,) = (await the_request(server.agent))["action_requests"]
    assert (STARTED_BEFORE in action["description"]) is before


async def test_another_call_of_the_same_id_is_another_one() -> None:
    """Some models count their calls anew in each conversation."""
    server = Forgetful(store=True)
    await server.decide_and_die(APPROVE)
    await server.agent.ainvoke({"messages": [HumanMessage("go")]}, thread("2"))
    (action,) = (await the_request(server.agent, thread("2")))["action_requests"]
    assert STARTED_BEFORE not in action["description"]
