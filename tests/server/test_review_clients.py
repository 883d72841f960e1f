"""Clients that show reviews, by what they send: each as far as the README's table says."""

from typing import Any, NamedTuple

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.outbox import Outbox
from tests.server.chat import Chat, decide, tool_results
from tests.server.test_reviews import asks_to_mail, email, someone
from tests.standins.openai_endpoint import ChatRequest, OpenAIEndpoint, Reply
from tests.standins.scripted_model import calls

Answer = Any


class Ui(NamedTuple):
    """How a client answers: what it sends for each decision, and whether it shows all calls."""

    approve: Answer
    edit: Answer
    reject: Answer
    respond: Answer | None
    shows_all: bool


def edited(to: str) -> dict[str, Any]:
    return {"name": "send_email", "args": email(to, "Changed.")}


def inbox(kind: str, args: Any = None) -> list[dict[str, Any]]:
    return [{"type": kind, "args": args}]


def ui(name: str, to: str) -> Ui:
    """A client by its name; an edit sends the email to `to`."""
    approve, reject = {"type": "approve"}, {"type": "reject", "message": "No."}
    edit = {"type": "edit", "edited_action": edited(to)}
    change = {"action": "send_email", "args": edited(to)["args"]}
    respond = decide({"type": "respond", "message": "Done by me."})
    decisions = decide(approve), decide(edit), decide(reject)
    return {
        "Agent Chat UI": Ui(*decisions, None, shows_all=True),
        "deep-agents-ui": Ui(*decisions, respond, shows_all=False),
        "Agent Inbox": Ui(
            inbox("accept"), inbox("edit", change), inbox("ignore"),
            inbox("response", "Done by me."), shows_all=False,
        ),
    }[name]  # fmt: skip


UIS = ["Agent Chat UI", "Agent Inbox", "deep-agents-ui"]


KINDS = ["approve", "edit", "reject", "respond"]


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in UIS for k in KINDS if getattr(ui(n, ""), k) is not None]
)
async def test_what_it_sends_is_understood(
    client: LangGraphClient,
    openai_endpoint: OpenAIEndpoint,
    outbox: Outbox,
    name: str,
    kind: str,
) -> None:
    to, other = someone(), someone()
    scene = openai_endpoint.scene([asks_to_mail(to), "Done."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(scene.marker)
    (result,) = tool_results(await chat.resume(getattr(ui(name, other), kind)))
    assert [len(outbox.to(one)) for one in (to, other)] == {
        "approve": [1, 0],
        "edit": [0, 1],
    }.get(kind, [0, 0])
    assert {"reject": "rejected", "respond": "Done by me."}.get(kind, "stored") in result


@pytest.mark.parametrize("agent", ["human_in_the_loop", "subagents"])
@pytest.mark.parametrize("name", UIS)
async def test_it_works_through_three_emails_one_at_a_time(
    client: LangGraphClient,
    openai_endpoint: OpenAIEndpoint,
    outbox: Outbox,
    name: str,
    agent: str,
) -> None:
    """It answers without an id, and may show the first call only."""
    recipients = [someone() for _ in range(3)]

    def reply(request: ChatRequest) -> Reply:
        """Ask at once for all that was not done yet."""
        told = [m["content"] for m in request.messages if m["role"] == "tool"]
        left = recipients[sum("one call runs at a time" not in text for text in told) :]
        if "email_agent" in request.tool_names:
            tasks = [("email_agent", {"query": f"{scene.marker} {to}"}, f"d_{to}") for to in left]
            return calls(*tasks) if tasks else "Done."
        if agent == "subagents":
            (to,) = (to for to in recipients if to in request.messages[1]["content"])
            return "Sent." if told else asks_to_mail(to)
        return asks_to_mail(*left) if left else "Done."

    scene = openai_endpoint.scene(reply)
    one_at_a_time = {"parallel_tool_calls": False}
    chat = await Chat.open(client, agent)
    await chat.say(scene.marker, context=one_at_a_time)
    for to in recipients:
        (action,) = (await chat.review())["value"]["action_requests"]
        assert action["args"]["to"] == to
        messages = await chat.resume(ui(name, "").approve, context=one_at_a_time)
    assert messages[-1]["content"] == "Done."
    assert [len(outbox.to(to)) for to in recipients] == [1, 1, 1]


@pytest.mark.parametrize("name", UIS)
async def test_of_several_calls_in_one_review(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox, name: str
) -> None:
    """Who shows all of them decides on all; an answer of the others runs nothing."""
    recipients = someone(), someone()
    scene = openai_endpoint.scene([asks_to_mail(*recipients), "Done."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(scene.marker)
    shown = ui(name, "")
    answer = decide(*shown.approve["decisions"] * 2) if shown.shows_all else shown.approve
    await chat.resume(answer)
    assert [len(outbox.to(to)) for to in recipients] == [int(shown.shows_all)] * 2
    if not shown.shows_all:
        assert "2 calls wait" in (await chat.review())["value"]["error"]
