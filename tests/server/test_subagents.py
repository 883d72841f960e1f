"""Delegations on the server: side by side, each with its own budget, pauses and all."""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk.client import LangGraphClient

from graphs.nodes import MAX_SUBAGENT_STEPS
from tests.agents import rounds_within
from tests.outbox import Outbox
from tests.server.chat import APPROVE, Chat, decide, kinds, tool_results, user
from tests.standins.openai_endpoint import ChatRequest, Fault, OpenAIEndpoint, Scene
from tests.standins.scripted_model import always_tool, call, calls
from tests.standins.weather_service import WeatherService


def mails(endpoint: OpenAIEndpoint, to: str) -> Scene:
    """Script a delegation that sends one email."""
    email = {"to": to, "subject": "The report", "body": "It is ready."}
    return endpoint.scene([call("send_email", email), f"Sent to {to}."])


def looks_up(endpoint: OpenAIEndpoint, location: str) -> Scene:
    """Script a delegation that looks up the weather of one place."""
    return endpoint.scene([call("get_weather", {"location": location}), f"{location} is warm."])


def someone() -> str:
    return f"{uuid4().hex[:12]}@example.com"


async def test_a_delegation_is_a_conversation_of_its_own(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 46: of a delegation the thread keeps the answer alone."""
    weather = looks_up(openai_endpoint, "Jakarta")
    query = f"{weather.marker} How is the weather in Jakarta?"
    scene = openai_endpoint.scene([call("weather_agent", {"query": query}), "Warm."])
    messages = await (await Chat.open(client, "subagents")).say(scene.marker)

    assert kinds(messages) == ["human", "ai", "tool", "ai"]
    assert tool_results(messages) == ["Jakarta is warm."]
    assert weather.requests[0].roles == ["system", "user"]
    assert weather.requests[0].last_user_text == query
    assert weather.requests[0].tool_names == ["get_weather"]
    assert sorted(scene.requests[0].tool_names) == ["email_agent", "weather_agent"]


async def test_a_delegation_has_its_own_budget(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 6: 15 steps, 6 rounds, whatever the supervisor's limit."""

    async def delegates(limit: int) -> None:
        weather = openai_endpoint.scene(always_tool("get_weather", {"location": "Atlantis"}))
        scene = openai_endpoint.scene([call("weather_agent", {"query": weather.marker}), "Sorry."])
        chat = await Chat.open(client, "subagents")
        messages = await chat.say(scene.marker, config={"recursion_limit": limit})
        assert len(weather.requests) == rounds_within(MAX_SUBAGENT_STEPS, "react") + 1
        assert tool_results(messages) == ["Closing."]
        assert messages[-1]["content"] == "Sorry."

    await asyncio.gather(delegates(7), delegates(100))


async def test_reviews_side_by_side_are_answered_in_any_order(
    client: LangGraphClient,
    openai_endpoint: OpenAIEndpoint,
    weather_service: WeatherService,
    outbox: Outbox,
) -> None:
    """Cases 21 and 38: each answer meets its own email, and what is done does not run again."""
    first, second = someone(), someone()
    weather = looks_up(openai_endpoint, "Jakarta")
    one, other = mails(openai_endpoint, first), mails(openai_endpoint, second)
    wanted = calls(
        ("email_agent", {"query": one.marker}, "one"),
        ("weather_agent", {"query": weather.marker}, "weather"),
        ("email_agent", {"query": other.marker}, "other"),
    )
    scene = openai_endpoint.scene([wanted, "All done."])
    chat = await Chat.open(client, "subagents")
    await chat.say(scene.marker)
    ids = {
        waiting["value"]["action_requests"][0]["args"]["to"]: waiting["id"]
        for waiting in await chat.pending()
    }
    assert ids.keys() == {first, second}

    await chat.resume({ids[second]: APPROVE})
    assert (len(outbox.to(first)), len(outbox.to(second))) == (0, 1)
    assert [waiting["id"] for waiting in await chat.pending()] == [ids[first]]
    messages = await chat.resume({ids[first]: decide({"type": "reject", "message": "No."})})

    assert messages[-1]["content"] == "All done."
    assert (len(outbox.to(first)), len(outbox.to(second))) == (0, 1)
    assert [len(s.requests) for s in (weather, one, other, scene)] == [2, 2, 2, 2]
    assert scene.requests[-1].roles == ["system", "user", "assistant", "tool", "tool", "tool"]
    results = {m["tool_call_id"]: m["content"] for m in messages if m["type"] == "tool"}
    assert results["weather"] == "Jakarta is warm."
    assert results["other"] == f"Sent to {second}."


async def test_reviews_side_by_side_are_answered_together(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 63: both are listed, and one resume answers both."""
    recipients = [someone(), someone()]
    delegations = [mails(openai_endpoint, to) for to in recipients]
    wanted = calls(
        *(("email_agent", {"query": d.marker}, f"d{i}") for i, d in enumerate(delegations))
    )
    scene = openai_endpoint.scene([wanted, "All done."])
    chat = await Chat.open(client, "subagents")
    await chat.say(scene.marker)
    pending = await chat.pending()
    assert len(pending) == 2
    messages = await chat.resume({waiting["id"]: APPROVE for waiting in pending})
    assert messages[-1]["content"] == "All done."
    assert [len(outbox.to(to)) for to in recipients] == [1, 1]


async def test_the_next_turn_starts_from_the_whole_conversation(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    to = someone()
    inner = mails(openai_endpoint, to)
    scene = openai_endpoint.scene(
        [call("email_agent", {"query": inner.marker}), "It is sent.", "As I said, it is sent."]
    )
    chat = await Chat.open(client, "subagents")
    await chat.say(scene.marker)
    await chat.resume(APPROVE)
    messages = await chat.say(f"{scene.marker} Is it?")
    assert messages[-1]["content"] == "As I said, it is sent."
    assert scene.requests[-1].roles == [
        *("system", "user", "assistant", "tool", "assistant", "user")
    ]
    assert len(outbox.to(to)) == 1


async def test_an_answer_without_an_id_counts_for_what_was_shown(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Case 34: not for what a delegation asks later, however often its failed run is retried."""
    first, second = someone(), someone()
    emails = [call("send_email", {"to": to, "subject": "x", "body": "x"}) for to in (first, second)]
    down = Fault(status=401)
    inner = openai_endpoint.scene([down, emails[0], down, emails[1], "Both are sent."])
    scene = openai_endpoint.scene([call("email_agent", {"query": inner.marker}), "Done."])
    chat = await Chat.open(client, "subagents")

    def sent() -> tuple[int, int]:
        return len(outbox.to(first)), len(outbox.to(second))

    with pytest.raises(Exception, match="401"):
        await chat.say(scene.marker)
    await chat.resume(APPROVE)  # nothing waits yet: it only tries again
    await chat.retry()
    assert sent() == (0, 0)
    with pytest.raises(Exception, match="401"):
        await chat.resume(APPROVE)
    await chat.retry()
    await chat.retry()
    assert sent() == (1, 0)
    messages = await chat.resume(APPROVE)
    assert (sent(), messages[-1]["content"]) == ((1, 1), "Done.")


async def test_a_delegated_task_can_be_looked_at(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """While it runs, while it waits and afterwards, from the thread; whose history stays short."""
    goes_on = threading.Event()

    def slowly(_: ChatRequest) -> str:
        goes_on.wait(20)
        return "Jakarta is warm."

    weather = openai_endpoint.scene([call("get_weather", {"location": "Jakarta"}), slowly])
    mail = mails(openai_endpoint, someone())
    wanted = calls(
        ("weather_agent", {"query": weather.marker}, "w"),
        ("email_agent", {"query": mail.marker}, "e"),
    )
    scene = openai_endpoint.scene([wanted, "Done."])
    chat = await Chat.open(client, "subagents")

    async def looked_at() -> dict[str, list[str]]:
        """The kinds of the messages of each delegation that goes on, by its query."""
        state = await client.threads.get_state(chat.thread, subgraphs=True)
        below: Any = [task["state"]["values"] for task in state["tasks"] if task["state"]]
        found = [values["messages"] for values in below if values]
        return {messages[0]["content"]: kinds(messages) for messages in found}

    run = await client.runs.create(chat.thread, "subagents", input=user(scene.marker))
    try:
        running = {weather.marker: ["human", "ai", "tool"], mail.marker: ["human", "ai"]}
        for _ in range(200):
            if (seen := await looked_at()) == running:
                break
            await asyncio.sleep(0.05)
        assert seen == running
    finally:
        goes_on.set()
    await client.runs.join(chat.thread, run["run_id"])
    done = ["human", "ai", "tool", "ai"]
    assert await looked_at() == {weather.marker: done, mail.marker: ["human", "ai"]}

    messages = await chat.resume({(await chat.review())["id"]: APPROVE})
    assert kinds(messages) == ["human", "ai", "tool", "tool", "ai"]
    for result, marker in zip(messages[2:4], (weather.marker, mail.marker), strict=True):
        state = await client.threads.get_state(chat.thread, checkpoint=result["artifact"])
        values: Any = state["values"]
        assert values["messages"][0]["content"] == marker
        assert kinds(values["messages"]) == done
