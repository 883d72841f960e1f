"""After a failed run, a cancelled run or a skipped review, the next message is answered.

The stand-in for the provider refuses any history with a hole in it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langgraph_sdk.client import LangGraphClient

from graphs.history import STARTED
from tests.outbox import Outbox
from tests.server.chat import APPROVE, Chat, decide, user
from tests.standins.openai_endpoint import Fault, OpenAIEndpoint
from tests.standins.scripted_model import call, calls
from tests.standins.weather_service import WeatherService, hang

SECONDS = 10.0


async def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {SECONDS} s"
        await asyncio.sleep(0.02)


@pytest.fixture
def silent_weather(weather_service: WeatherService) -> Iterator[WeatherService]:
    """A weather service that keeps its callers waiting, until the test is over."""
    weather_service.reset()
    weather_service.misbehave = hang()
    yield weather_service
    weather_service.reset()


async def test_the_endpoint_refuses(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 47: the run fails with the reason, at once or after a round; the thread works on."""

    async def fails(reason: int, *before: AIMessage, roles: list[str]) -> None:
        scene = openai_endpoint.scene([*before, Fault(status=reason), "Now it works."])
        chat = await Chat.open(client, "react")
        with pytest.raises(Exception, match=str(reason)):
            await chat.say(scene.marker)
        assert await chat.status() == "error"
        assert (await chat.say(scene.marker))[-1]["content"] == "Now it works."
        assert scene.requests[-1].roles == roles

    time_in_utc = call("get_current_time", {"timezone": "UTC"})
    await asyncio.gather(
        fails(401, roles=["system", "user", "user"]),
        fails(400, time_in_utc, roles=["system", "user", "assistant", "tool", "user"]),
    )


async def test_a_passing_fault_is_not_noticed(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    scene = openai_endpoint.scene([Fault(status=429, retry_after=0), Fault(status=500), "Fine."])
    chat = await Chat.open(client, "react")
    assert (await chat.say(scene.marker))[-1]["content"] == "Fine."


async def test_a_delegation_fails_beside_another(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Cases 42 and 47: the supervisor's call stays without a result, and the thread usable."""
    broken = openai_endpoint.scene([Fault(status=401)])
    sound = openai_endpoint.scene(["Sunny."])
    wanted = calls(
        ("weather_agent", {"query": broken.marker}, "broken"),
        ("weather_agent", {"query": sound.marker}, "sound"),
    )
    scene = openai_endpoint.scene([wanted, "Now it works."])
    chat = await Chat.open(client, "subagents")
    with pytest.raises(Exception, match="401"):
        await chat.say(scene.marker)
    assert (await chat.say(scene.marker))[-1]["content"] == "Now it works."
    assert scene.requests[-1].roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert "No result" in scene.requests[-1].messages[3]["content"]


async def test_a_run_is_cancelled_in_its_tool(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, silent_weather: WeatherService
) -> None:
    """Cases 13 and 35: valid history for the next message; nothing is pending meanwhile."""
    wanted = calls(
        ("get_weather", {"location": "Paris"}, "w"),
        ("get_current_time", {"timezone": "UTC"}, "t"),
    )
    scene = openai_endpoint.scene([wanted, "Never mind, then."])
    chat = await Chat.open(client, "react")
    run = await client.runs.create(chat.thread, "react", input=user(scene.marker))
    await until(lambda: bool(silent_weather.requests), "the tool's request")
    await client.runs.cancel(chat.thread, run["run_id"], wait=True, action="interrupt")

    assert await chat.pending() == []
    assert (await chat.say(scene.marker))[-1]["content"] == "Never mind, then."
    assert scene.requests[-1].roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert "No result" in scene.requests[-1].messages[3]["content"]


async def test_a_message_is_typed_during_a_run(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, silent_weather: WeatherService
) -> None:
    async def typed(strategy: Literal["interrupt", "rollback"]) -> list[str]:
        scene = openai_endpoint.scene([call("get_weather", {"location": "Paris"}), "Here I am."])
        chat = await Chat.open(client, "react")
        await client.runs.create(chat.thread, "react", input=user(scene.marker))
        await until(lambda: len(silent_weather.requests) == 2, "both tools' requests")
        messages = await chat.say(scene.marker, multitask_strategy=strategy)
        assert messages[-1]["content"] == "Here I am."
        return scene.requests[-1].roles

    interrupted, rolled_back = await asyncio.gather(typed("interrupt"), typed("rollback"))
    assert interrupted == ["system", "user", "assistant", "tool", "user"]
    assert rolled_back == ["system", "user"]


async def test_a_message_is_typed_during_a_review(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Cases 11 and 12: the call gets a result in its place, and is not executed, then or later."""

    async def typed(agent: str) -> None:
        to = f"typed-{agent}@example.com"
        email = call("send_email", {"to": to, "subject": "x", "body": "x"})
        inner = openai_endpoint.scene([email])
        delegation = call("email_agent", {"query": inner.marker})
        first = email if agent == "human_in_the_loop" else delegation
        scene = openai_endpoint.scene([first, "What else?"])
        chat = await Chat.open(client, agent)
        await chat.say(scene.marker)
        stale = await chat.review()

        assert (await chat.say(f"{scene.marker} Leave it."))[-1]["content"] == "What else?"
        assert scene.requests[-1].roles == ["system", "user", "assistant", "tool", "user"]
        assert await chat.pending() == []
        await chat.resume({stale["id"]: APPROVE})
        assert outbox.to(to) == []

    await asyncio.gather(typed("human_in_the_loop"), typed("subagents"))


@pytest.mark.parametrize("stop", ["interrupt", "rollback"])
async def test_a_rejection_after_an_approved_run_was_stopped(
    client: LangGraphClient,
    openai_endpoint: OpenAIEndpoint,
    silent_weather: WeatherService,
    outbox: Outbox,
    stop: Literal["interrupt", "rollback"],
) -> None:
    """The server keeps the approval; nothing more is done on its account, and nothing is denied."""
    to = f"stopped-{stop}@example.com"
    wanted = calls(
        ("send_email", {"to": to, "subject": "x", "body": "x"}, "mail"),
        ("get_weather", {"location": "Paris"}, "weather"),
    )
    scene = openai_endpoint.scene([wanted, "As you wish."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(scene.marker)
    review = (await chat.review())["id"]
    approval: Any = {"resume": {review: APPROVE}}
    run = await client.runs.create(chat.thread, chat.agent, command=approval)
    await until(lambda: bool(outbox.to(to) and silent_weather.requests), "the approved round")
    await client.runs.cancel(chat.thread, run["run_id"], wait=True, action=stop)
    asked = len(silent_weather.requests)

    messages = await chat.resume({review: decide({"type": "reject", "message": "Stop."})})
    assert messages[-1]["content"] == "As you wish."
    assert await chat.pending() == []
    assert (len(outbox.to(to)), len(silent_weather.requests)) == (1, asked)
    mail, weather = [m["content"] for m in scene.requests[-1].messages if m["role"] == "tool"]
    assert weather == STARTED
    kept_result = stop == "interrupt" and mail.startswith("The email was stored")
    assert kept_result or mail == STARTED
