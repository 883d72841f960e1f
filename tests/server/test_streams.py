"""What a client that watches a run is shown, by the modes that it asks for."""

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from graphs.nodes import STEP_LIMIT_MESSAGE
from tests.server.chat import Chat
from tests.server.test_subagents import looks_up
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import always_tool, call

ALL_MODES: Any = ["values", "updates", "messages-tuple", "custom", "events"]
Shown = dict[str, list[Any]]


async def watch(client: LangGraphClient, agent: str, text: str, **options: Any) -> Shown:
    """The data that came, by the event's name without its namespace's id."""
    shown: Shown = defaultdict(list)
    given: Any = {"messages": [{"role": "user", "content": text}]}
    async for part in client.runs.stream(None, agent, input=given, **options):
        shown[named(part.event)].append(part.data)
    return shown


def named(event: str) -> str:
    mode, _, namespace = event.partition("|")
    return f"{mode}|{namespace.partition(':')[0]}" if namespace else mode


def tokens(parts: list[Any]) -> str:
    """The text that the model wrote, as the messages of a stream tell it."""
    return "".join(message["content"] for message, _ in parts if message["type"] != "tool")


def nodes(updates: list[Any]) -> list[str]:
    return [node for update in updates for node in update]


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_a_delegation_in_every_mode(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, subgraphs: bool
) -> None:
    """A subagent's own work comes in its namespace to who asks for it, and else not at all."""
    weather = looks_up(openai_endpoint, "Jakarta")
    query = f"{weather.marker} How is it?"
    scene = openai_endpoint.scene([call("weather_agent", {"query": query}, "w"), "Nice."])
    shown = await watch(
        client, "subagents", scene.marker, stream_mode=ALL_MODES, stream_subgraphs=subgraphs
    )
    assert tokens(shown["messages"]) == "Nice."
    assert nodes(shown["updates"]) == ["llm_call", "tool_node", "llm_call"]
    assert shown["values"][-1]["messages"][-1]["content"] == "Nice."
    assert [event["steps"] for event in shown["custom"]] == [0, 1, 2, 3]
    told = {(e["subagent"], e["query"], e["tool_call_id"]) for e in shown["custom"]}
    assert told == {("weather_agent", query, "w")}
    names = {event["name"] for event in shown["events"] if event["event"] == "on_chain_start"}
    assert {"subagents", "weather_agent", "llm_call"} <= names
    if not subgraphs:
        assert not [event for event in shown if "|" in event]
        return
    assert tokens(shown["messages|tool_node"]) == "Jakarta is warm."
    assert nodes(shown["updates|tool_node"]) == ["llm_call", "tool_node", "llm_call"]
    assert shown["values|tool_node"][-1]["messages"][-1]["content"] == "Jakarta is warm."


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize("mode", ["values", "updates", "messages-tuple", "events"])
async def test_the_closing_answer_shows_in_every_mode(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, mode: Any, obeys: bool
) -> None:
    scene = openai_endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}, obeys=obeys))
    limit: Any = {"recursion_limit": 4}
    shown = await watch(client, "react", scene.marker, stream_mode=mode, config=limit)
    closing = "Closing." if obeys else STEP_LIMIT_MESSAGE
    parts = shown["messages" if mode == "messages-tuple" else mode]
    if mode == "messages-tuple":
        assert tokens(parts) == closing
    else:
        assert closing in str(parts[-1])


async def test_a_joined_stream_goes_on(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 65: who comes back is shown the rest, a subagent's work too."""
    weather = looks_up(openai_endpoint, "Jakarta")
    scene = openai_endpoint.scene([call("weather_agent", {"query": weather.marker}, "w"), "Nice."])
    chat = await Chat.open(client, "subagents")
    given: Any = {"messages": [{"role": "user", "content": scene.marker}]}
    run = await client.runs.create(
        chat.thread,
        chat.agent,
        input=given,
        stream_mode=["updates", "messages-tuple"],
        stream_subgraphs=True,
        stream_resumable=True,
    )
    seen: list[str] = []
    last = ""
    async for part in client.runs.join_stream(chat.thread, run["run_id"], last_event_id="-1"):
        seen.append(named(part.event))
        last = part.id or last
        if named(part.event) == "updates|tool_node":
            break  # the connection is lost in the middle of the subagent's work
    rest: Shown = defaultdict(list)
    async with asyncio.timeout(20):
        async for part in client.runs.join_stream(chat.thread, run["run_id"], last_event_id=last):
            rest[named(part.event)].append(part.data)
    assert nodes(rest["updates|tool_node"]) == ["tool_node", "llm_call"]
    assert tokens(rest["messages|tool_node"]) == "Jakarta is warm."
    assert nodes(rest["updates"]) == ["tool_node", "llm_call"]
    assert tokens(rest["messages"]) == "Nice."
