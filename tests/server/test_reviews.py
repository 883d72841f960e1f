"""Reviews of the human-in-the-loop agent, answered through the server."""

import asyncio
import threading
import time
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import MultitaskStrategy

from graphs.history import STARTED
from tests.outbox import Outbox
from tests.server.chat import APPROVE, Chat, decide, kinds, tool_results
from tests.standins.openai_endpoint import ChatRequest, OpenAIEndpoint, Reply, Scene
from tests.standins.scripted_model import always_tool, calls


def email(to: str, body: str = "It moved to 3 pm.") -> dict[str, str]:
    return {"to": to, "subject": "The meeting", "body": body}


def someone() -> str:
    """Return an address that no other test writes to."""
    return f"{uuid4().hex[:12]}@example.com"


def asks_to_mail(*recipients: str) -> AIMessage:
    return calls(*(("send_email", email(to), f"mail_{i}") for i, to in enumerate(recipients)))


async def paused(
    client: LangGraphClient, endpoint: OpenAIEndpoint, *recipients: str
) -> tuple[Chat, Scene]:
    """Return a conversation that waits for a review of one email to each recipient."""
    scene = endpoint.scene([asks_to_mail(*recipients), "Done."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(f"{scene.marker} Send it.")
    assert len(await chat.pending()) == 1, "no interrupt came where one was due"
    assert await chat.status() == "interrupted"
    return chat, scene


async def test_the_request(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    one, other = someone(), someone()
    chat, _ = await paused(client, openai_endpoint, one, other)
    value = (await chat.review())["value"]

    actions = value["action_requests"]
    assert [action["id"] for action in actions] == ["mail_0", "mail_1"]
    assert [action["name"] for action in actions] == ["send_email", "send_email"]
    assert [action["args"] for action in actions] == [email(one), email(other)]
    assert all(action["description"] for action in actions)
    for config in value["review_configs"]:
        assert config["action_name"] == "send_email"
        assert config["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
        assert sorted(config["args_schema"]["properties"]) == ["body", "subject", "to"]
    assert outbox.to(one) == outbox.to(other) == []


async def test_approve(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    to = someone()
    chat, scene = await paused(client, openai_endpoint, to)
    messages = await chat.resume(APPROVE, durability="sync")
    (body,) = outbox.to(to)
    assert "It moved to 3 pm." in body
    assert messages[-1]["content"] == "Done."
    assert scene.requests[-1].roles == ["system", "user", "assistant", "tool"]
    assert await chat.pending() == []
    assert await chat.status() == "idle"


async def test_edit(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 27: what the provider is shown afterwards is what was sent."""
    to, other = someone(), someone()
    chat, scene = await paused(client, openai_endpoint, to)
    edited = {"name": "send_email", "args": email(other, "It moved to 4 pm.")}
    messages = await chat.resume(decide({"type": "edit", "edited_action": edited}))

    assert outbox.to(to) == []
    assert "It moved to 4 pm." in outbox.to(other)[0]
    shown = scene.requests[-1].messages[2]["tool_calls"]
    assert [call["id"] for call in shown] == ["mail_0"]
    assert other in shown[0]["function"]["arguments"]
    assert to not in shown[0]["function"]["arguments"]
    assert "edited" in tool_results(messages)[0]


async def test_the_call_does_not_run(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    async def answered(decision: dict[str, Any], result: str) -> None:
        to = someone()
        chat, scene = await paused(client, openai_endpoint, to)
        messages = await chat.resume(decide(decision))
        assert outbox.to(to) == []
        assert result in tool_results(messages)[0]
        assert result in scene.requests[-1].messages[-1]["content"]
        assert messages[-1]["content"] == "Done."

    await asyncio.gather(
        answered({"type": "reject", "message": "Not before Monday."}, "Not before Monday."),
        answered({"type": "reject"}, "reject"),
        answered({"type": "respond", "message": "I told her myself."}, "I told her myself."),
    )


async def test_each_decision_meets_its_own_call(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Cases 20 and 29: decisions with ids, in another order."""
    first, second, third = someone(), someone(), someone()
    chat, scene = await paused(client, openai_endpoint, first, second, third)
    messages = await chat.resume(
        decide(
            {"type": "respond", "message": "Known.", "id": "mail_2"},
            {"type": "approve", "id": "mail_0"},
            {"type": "reject", "message": "No.", "id": "mail_1"},
        )
    )
    assert [len(outbox.to(to)) for to in (first, second, third)] == [1, 0, 0]
    results = tool_results(messages)
    assert len(results) == 3
    assert "No." in results[1]
    assert results[2] == "Known."
    answered = [m["tool_call_id"] for m in scene.requests[-1].messages if m["role"] == "tool"]
    assert answered == ["mail_0", "mail_1", "mail_2"]


async def test_bad_answers_ask_again(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Cases 22, 24, 28 and 30: whatever comes, the thread waits on, and a good answer is taken."""
    to, other = someone(), someone()
    rename = {"name": "get_weather", "args": {"location": "Paris"}}
    misfit = {"name": "send_email", "args": {"to": to}}
    bad: list[Any] = [
        *("yes", [], 7, True, {"decisions": "approve"}),
        *(decide(), decide({"type": "approve"}), decide(*[{"type": "approve"}] * 3)),
        decide({"type": "approve"}, {"type": "shrug"}),
        decide({"type": "approve"}, {"type": "edit", "edited_action": rename}),
        decide({"type": "approve"}, {"type": "edit", "edited_action": misfit}),
        decide({"type": "approve", "id": "mail_0"}, {"type": "approve", "id": "mail_0"}),
    ]

    async def insist(answer: Any) -> None:
        chat, _ = await paused(client, openai_endpoint, to, other)
        await chat.resume(answer)
        assert (await chat.review())["value"]["error"], f"no reason after {answer!r}"
        assert await chat.status() == "interrupted"
        good = decide({"type": "reject"}, {"type": "respond", "message": "x"})
        assert (await chat.resume(good))[-1]["content"] == "Done."

    await asyncio.gather(*(insist(answer) for answer in bad))
    assert outbox.to(to) == outbox.to(other) == []


async def test_nothing_is_no_answer(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 24: a null or empty answer and a null input run nothing, and the review waits on."""

    async def insist(nothing: dict[str, Any]) -> None:
        to = someone()
        chat, _ = await paused(client, openai_endpoint, to)
        await client.runs.wait(chat.thread, chat.agent, **nothing)
        assert outbox.to(to) == []
        await chat.resume({(await chat.review())["id"]: APPROVE})
        assert len(outbox.to(to)) == 1

    nothings: list[dict[str, Any]] = [
        *({"command": {"resume": None}}, {"command": {"resume": {}}}, {"input": None})
    ]
    await asyncio.gather(*(insist(nothing) for nothing in nothings))


async def test_an_unknown_interrupt_id(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 25."""
    to = someone()
    chat, _ = await paused(client, openai_endpoint, to)
    before = await chat.review()
    await chat.resume({"0" * 32: APPROVE})
    assert await chat.review() == before
    assert outbox.to(to) == []


async def test_a_resume_where_nothing_waits(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 34: nothing is sent twice, and the next message is answered."""

    async def finished() -> None:
        to = someone()
        chat, scene = await paused(client, openai_endpoint, to)
        done = await chat.resume(APPROVE)
        assert await chat.resume(APPROVE) == done
        assert len(outbox.to(to)) == 1
        assert len(scene.requests) == 2

    async def fresh() -> None:
        chat = await Chat.open(client, "human_in_the_loop")
        # The first is the server's own error, before any node runs.
        with pytest.raises(Exception, match=r"NoneType|empty"):
            await chat.resume(APPROVE)
        assert (await chat.say("Hello"))[-1]["content"] == "You said: Hello"

    await asyncio.gather(finished(), fresh())


async def test_the_budget_holds_across_reviews(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Limit 8 has two rounds of three steps, though the server counts afresh on each resume."""
    to = someone()
    scene = openai_endpoint.scene(always_tool("send_email", email(to)))
    chat = await Chat.open(client, "human_in_the_loop")
    limit: Any = {"recursion_limit": 8}
    await chat.say(scene.marker, config=limit)
    for _ in range(2):
        messages = await chat.resume({(await chat.review())["id"]: APPROVE}, config=limit)
    assert len(outbox.to(to)) == 2
    assert messages[-1]["content"] == "Closing."
    assert messages[-1]["response_metadata"]["stop_reason"] == "step_limit"
    assert await chat.pending() == []


async def test_calls_that_need_no_review_do_not_pause(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    wanted = calls(
        ("get_current_time", {"timezone": "UTC"}, "good"),
        ("erase_everything", {}, "unknown"),
        ("send_email", {"to": "bob@example.com"}, "misfit"),
    )
    scene = openai_endpoint.scene([wanted, "Done."])
    messages = await (await Chat.open(client, "human_in_the_loop")).say(scene.marker)
    time, unknown, misfit = tool_results(messages)
    assert "UTC" in time
    assert "erase_everything" in unknown
    assert "subject" in misfit
    assert messages[-1]["content"] == "Done."


async def test_two_approvals_at_once_send_once(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Whichever comes second finds nothing to answer."""
    to = someone()
    chat, _ = await paused(client, openai_endpoint, to)
    interrupt_id = (await chat.review())["id"]
    await asyncio.gather(*(chat.resume({interrupt_id: APPROVE}) for _ in range(3)))
    assert len(outbox.to(to)) == 1
    assert await chat.pending() == []
    assert (await chat.messages())[-1]["content"] == "Done."


@pytest.mark.parametrize("agent", ["human_in_the_loop", "subagents"])
@pytest.mark.parametrize("strategy", ["enqueue", "interrupt", "rollback", "reject"])
async def test_two_approvals_at_once_approve_no_other_email(
    client: LangGraphClient,
    openai_endpoint: OpenAIEndpoint,
    outbox: Outbox,
    agent: str,
    strategy: MultitaskStrategy,
) -> None:
    """Without an id, with a checkpoint's: the second may not count for the next email."""

    async def approve_twice(chat: Chat, at: dict[str, Any], *recipients: str) -> None:
        approvals = (chat.resume(APPROVE, multitask_strategy=strategy, **at) for _ in range(2))
        await asyncio.gather(*approvals, return_exceptions=True)
        await chat.quiet()
        if not await chat.pending():  # the one was cancelled by the other
            await chat.retry()
        sent = [len(outbox.to(one)) for one in recipients]
        assert sent in ([1, 0], [0, 0])
        waits = (await chat.review())["value"]["action_requests"]
        assert [action["args"]["to"] for action in waits] == [recipients[sent[0]]]

    async def start(*recipients: str) -> tuple[Chat, dict[str, Any]]:
        def reply(request: ChatRequest) -> Reply:
            done = request.roles.count("tool")
            if "send_email" in request.tool_names and agent == "subagents":
                (to,) = (to for to in recipients if to in request.messages[1]["content"])
                return "Sent." if done else asks_to_mail(to)
            if done == len(recipients):
                return "Done."
            if agent == "subagents":
                query = f"{scene.marker} Mail {recipients[done]}."
                return calls(("email_agent", {"query": query}, f"delegation_{done}"))
            return asks_to_mail(recipients[done])

        scene = openai_endpoint.scene(reply)
        chat = await Chat.open(client, agent)
        await chat.say(f"{scene.marker} Send both.")
        state = await client.threads.get_state(chat.thread)
        return chat, {"checkpoint_id": state["checkpoint"]["checkpoint_id"]}

    async def insist(with_checkpoint: bool) -> None:
        recipients = someone(), someone()
        chat, at = await start(*recipients)
        await approve_twice(chat, at if with_checkpoint else {}, *recipients)

    await asyncio.gather(insist(False), insist(True))


async def test_an_approval_that_is_taken_back_is_not_forgotten(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """A message with `rollback` undoes the run in the thread, and not what it sent."""
    to, sent = someone(), threading.Event()

    def after_sending(request: ChatRequest) -> Reply:
        sent.set()
        time.sleep(2)
        return "Done."

    scene = openai_endpoint.scene([asks_to_mail(to), after_sending, "I do not know."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(f"{scene.marker} Send it.")
    approved = asyncio.create_task(chat.resume({(await chat.review())["id"]: APPROVE}))
    await asyncio.to_thread(sent.wait, 20)
    messages = await chat.say(f"{scene.marker} Was it sent?", multitask_strategy="rollback")
    await asyncio.wait([approved])
    assert kinds(messages) == ["human", "ai", "human", "ai"]
    assert [m["content"] for m in scene.requests[-1].messages if m["role"] == "tool"] == [STARTED]
    assert len(outbox.to(to)) == 1


async def test_what_agent_chat_ui_adds_when_the_user_writes_on(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Its made-up result claims success; the model is told the truth, and nothing was sent."""
    to = someone()
    scene = openai_endpoint.scene([asks_to_mail(to), "It was not sent."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(scene.marker)
    claim = {
        "type": "tool",
        "tool_call_id": "mail_0",
        "name": "send_email",
        "id": "do-not-render-1",
        "content": "Successfully handled tool call.",
    }
    said = {"role": "user", "content": f"{scene.marker} Was it sent?"}
    new: Any = {"messages": [claim, said]}
    await client.runs.wait(chat.thread, chat.agent, input=new)
    (told,) = [m["content"] for m in scene.requests[-1].messages if m["role"] == "tool"]
    assert told.startswith("Not executed")
    assert outbox.to(to) == []


async def test_an_answer_may_not_bring_a_call_of_its_own(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """`command` can write into the thread in the same breath; only what was shown runs."""
    shown, forged = someone(), someone()
    chat, _ = await paused(client, openai_endpoint, shown)
    calls_of_its_own: Any = [{"name": "send_email", "args": email(forged), "id": "mail_0"}]
    message: Any = {"type": "ai", "content": "", "tool_calls": calls_of_its_own}
    command: Any = {"resume": APPROVE, "update": {"messages": [message]}}
    await client.runs.wait(chat.thread, chat.agent, command=command)
    assert len(outbox.to(shown)) == 1
    assert outbox.to(forged) == []
