"""Runs of the ReAct agent on the server: streaming, threads and the step budget."""

import asyncio
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.agents import rounds_within
from tests.server.chat import Chat, kinds, tool_results
from tests.standins.openai_endpoint import OpenAIEndpoint, Scene
from tests.standins.scripted_model import always_tool, calls, malformed_call

WEATHER_AND_TIME = calls(
    ("get_weather", {"location": "Jakarta"}, "w"),
    ("get_current_time", {"timezone": "Asia/Tokyo"}, "t"),
)


async def test_two_tools_at_once(client: LangGraphClient, openai_endpoint: OpenAIEndpoint) -> None:
    scene = openai_endpoint.scene([WEATHER_AND_TIME, "Warm, and late."])
    chat = await Chat.open(client, "react")
    messages = await chat.say(f"{scene.marker} Weather in Jakarta, time in Tokyo?")

    weather, time = tool_results(messages)
    assert kinds(messages) == ["human", "ai", "tool", "tool", "ai"]
    assert "Jakarta" in weather
    assert "°C" in weather
    assert "Asia/Tokyo" in time
    assert messages[-1]["content"] == "Warm, and late."
    assert scene.requests[0].roles == ["system", "user"]
    assert sorted(scene.requests[0].tool_names) == ["get_current_time", "get_weather"]


async def test_streaming(client: LangGraphClient, openai_endpoint: OpenAIEndpoint) -> None:
    scene = openai_endpoint.scene([WEATHER_AND_TIME, "One two three."])
    tokens: list[str] = []
    nodes: list[str] = []
    message: Any = {"role": "user", "content": scene.marker}
    async for part in client.runs.stream(
        None,
        "react",
        input={"messages": [message]},
        stream_mode=["messages-tuple", "updates"],
    ):
        data: Any = part.data
        if part.event == "messages" and data[0]["type"] == "AIMessageChunk":
            tokens.append(data[0]["content"])
        if part.event == "updates":
            nodes += data
    assert [token for token in tokens if token] == ["One", " two", " three."]
    assert nodes == ["llm_call", "tool_node", "tool_node", "llm_call"]


async def test_a_thread_remembers(client: LangGraphClient, openai_endpoint: OpenAIEndpoint) -> None:
    scene = openai_endpoint.scene([WEATHER_AND_TIME, "First.", "Second."])
    chat = await Chat.open(client, "react")
    await chat.say(f"{scene.marker} one")
    messages = await chat.say(f"{scene.marker} two")
    assert kinds(messages) == ["human", "ai", "tool", "tool", "ai", "human", "ai"]
    assert scene.requests[-1].roles == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "user")
    ]


async def test_malformed_arguments_are_answered_and_corrected(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 14."""
    bad = malformed_call("get_current_time", '{"timezone": UTC}', "bad")
    good = calls(("get_current_time", {"timezone": "UTC"}, "good"))
    scene = openai_endpoint.scene([bad, good, "It is late."])
    messages = await (await Chat.open(client, "react")).say(scene.marker)
    refused, told = tool_results(messages)
    assert "JSON" in refused
    assert "UTC" in told
    assert messages[-1]["content"] == "It is late."


def endless(endpoint: OpenAIEndpoint, *, obeys: bool = True) -> Scene:
    return endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}, obeys=obeys))


async def test_the_budget(client: LangGraphClient, openai_endpoint: OpenAIEndpoint) -> None:
    """Cases 1, 2 and 3: rounds by limit, and the next turn on the same thread has as many."""

    async def rounds(obeys: bool, **options: Any) -> list[int]:
        scene = endless(openai_endpoint, obeys=obeys)
        chat = await Chat.open(client, "react")
        counts = [0]
        for _ in range(2):
            messages = await chat.say(scene.marker, **options)
            assert messages[-1]["response_metadata"]["stop_reason"] == "step_limit"
            assert messages[-1]["content"].strip()
            assert not messages[-1]["tool_calls"]
            assert scene.requests[-1].tool_choice == "none"
            counts.append(len(tool_results(messages)) - sum(counts))
        return counts[1:]

    counts = await asyncio.gather(
        rounds(obeys=True),
        rounds(obeys=True, config={"recursion_limit": 6}),
        rounds(obeys=True, config={"recursion_limit": 25}),
        rounds(obeys=True, config={"recursion_limit": 100}),
        rounds(obeys=False, config={"recursion_limit": 7}),
        rounds(obeys=False, config={"recursion_limit": 100}),
    )
    expected = [rounds_within(limit, "react") for limit in (25, 6, 25, 25, 7, 25)]
    assert list(counts) == [[rounds, rounds] for rounds in expected]


async def rounds_of(client: LangGraphClient, scene: Scene, assistant: str, **options: Any) -> int:
    messages = await (await Chat.open(client, assistant)).say(scene.marker, **options)
    return len(tool_results(messages))


async def test_whose_limit_holds(client: LangGraphClient, openai_endpoint: OpenAIEndpoint) -> None:
    """Cases 4 and 5: the run's before the assistant's, and `configurable` is no place for it."""
    scene = endless(openai_endpoint)
    assistant = (await client.assistants.create("react", config={"recursion_limit": 9}))[
        "assistant_id"
    ]
    try:
        counts = await asyncio.gather(
            rounds_of(client, scene, assistant),
            rounds_of(client, scene, assistant, config={"recursion_limit": 7}),
            rounds_of(client, scene, "react", config={"configurable": {"recursion_limit": 7}}),
        )
    finally:
        await client.assistants.delete(assistant)
    assert list(counts) == [rounds_within(limit, "react") for limit in (9, 7, 25)]


async def test_limits_that_are_none(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 5: 0 and less fail the run, and a text is refused; the thread works on."""

    async def refused(limit: Any, reason: str) -> None:
        scene = endless(openai_endpoint)
        chat = await Chat.open(client, "react")
        with pytest.raises(Exception, match=reason):
            await chat.say(scene.marker, config={"recursion_limit": limit})
        assert not scene.requests
        messages = await chat.say(scene.marker, config={"recursion_limit": 4})
        assert messages[-1]["content"] == "Closing."

    await asyncio.gather(
        refused(0, "recursion_limit"), refused(-1, "recursion_limit"), refused("x", "422")
    )


async def test_context_and_configurable_are_not_sent_together(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 58: the server refuses both at once, so the client and the README send one of them."""
    scene = openai_endpoint.scene(["hello"])
    chat = await Chat.open(client, "react")
    with pytest.raises(Exception, match="400"):
        await chat.say(scene.marker, context={"a": 1}, config={"configurable": {"b": 2}})
    messages = await chat.say(scene.marker, config={"configurable": {"b": 2}})
    assert messages[-1]["content"] == "hello"
