"""The stand-ins are as strict as what they stand for: what a provider refuses, they refuse."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import APIConnectionError, AuthenticationError, BadRequestError, RateLimitError
from pydantic import SecretStr

from scripts.dev_server import AGENT_VARIABLES
from tests.standins.openai_endpoint import (
    API_KEY,
    DROP,
    DROP_IN_STREAM,
    HANG,
    MODEL,
    Fault,
    OpenAIEndpoint,
)
from tests.standins.provider_rules import (
    ProviderRefusal,
    check_history,
    check_langchain_history,
    check_request,
)
from tests.standins.scripted_model import (
    ScriptedModel,
    always_tool,
    call,
    calls,
    malformed_call,
)

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hello"}
ANSWER = {"role": "assistant", "content": "Hello, you."}


def asks(*ids: str, name: str = "look", arguments: object = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    tool_calls = [{"id": id_, "type": "function", "function": function} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "seen"}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return place


@pytest.mark.parametrize(
    "history",
    [
        [USER],
        [SYSTEM, USER, ANSWER, USER],
        [USER, asks("a"), result("a")],
        [USER, asks("a", "b"), result("b"), result("a"), ANSWER, USER],
        [USER, asks("a"), result("a"), asks("a"), result("a")],
        [USER, {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}],
    ],
)
def test_a_provider_accepts(history: list[dict[str, Any]]) -> None:
    check_history(history)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([], "no user message"),
        ([SYSTEM, ANSWER], "no user message"),
        ([USER, SYSTEM], "not the first"),
        ([SYSTEM, SYSTEM, USER], "not the first"),
        ([USER, {"role": "human", "content": "x"}], "unknown role"),
        ([USER, {"role": "assistant", "content": ""}], "without content"),
        ([USER, {"role": "assistant", "content": None}], "without content"),
        ([USER, {"role": "assistant", "content": []}], "without content"),
        ([{"role": "user", "content": None}], "neither text nor"),
        ([{"role": "user", "content": {"text": "x"}}], "neither text nor"),
        ([{"role": "user", "content": ["x"]}], "not a content part"),
        ([USER, asks("a")], "without a result before the end"),
        ([USER, asks("a"), USER, result("a")], "without a result before messages"),
        ([USER, asks("a", "b"), result("a"), USER], "without a result before messages"),
        ([USER, asks("a"), asks("b"), result("b"), result("a")], "without a result before"),
        ([USER, asks("a"), result("a"), result("a")], "second result"),
        ([USER, result("a")], "without a call"),
        ([USER, asks("a"), result("b")], "without a call"),
        ([USER, asks("a"), result("a"), ANSWER, result("a")], "without a call"),
        ([USER, asks("a", "a"), result("a")], "twice"),
        ([USER, asks(""), result("")], "without an id"),
        ([USER, {**ANSWER, "tool_calls": []}], "empty list"),
        ([USER, asks("a", name="look at"), result("a")], "no tool name"),
        ([USER, asks("a", name="x" * 65), result("a")], "no tool name"),
        ([USER, asks("a", name=""), result("a")], "no tool name"),
        ([USER, asks("a", arguments='{"place": '), result("a")], "not a JSON object"),
        ([USER, asks("a", arguments="[]"), result("a")], "not a JSON object"),
        ([USER, asks("a", arguments={}), result("a")], "not a JSON object"),
        ([USER, {**ANSWER, "tool_calls": [{"id": "a"}]}, result("a")], "no tool name"),
    ],
)
def test_a_provider_refuses(history: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(ProviderRefusal, match=reason):
        check_history(history)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"messages": [USER]}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": [USER], "tool_choice": "none"}, "only allowed when tools"),
        ({"model": "m", "messages": [USER], "parallel_tool_calls": False}, "only allowed when"),
        ({"model": "m", "messages": [USER], "tools": []}, "empty list"),
        ({"model": "m", "messages": [USER], "tools": [{"function": {"name": "a b"}}]}, "tool name"),
        ({"model": "m", "messages": [USER], "tools": [{"function": {"name": "a"}}] * 2}, "twice"),
    ],
)
def test_a_provider_refuses_the_request(request_: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProviderRefusal, match=reason):
        check_request(request_)


LEFTOVER = {"id": "z", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(
    "history",
    [
        [HumanMessage("x"), call("look", {}, "a")],
        [HumanMessage("x"), malformed_call("look", "{", "a")],
        [HumanMessage("x"), malformed_call("look", "{", "a"), ToolMessage("x", tool_call_id="a")],
        [HumanMessage("x"), AIMessage("")],
        [HumanMessage("x"), SystemMessage("y")],
        [HumanMessage("x"), AIMessage("over", additional_kwargs={"tool_calls": [LEFTOVER]})],
        [HumanMessage("x"), ToolMessage("seen", tool_call_id="a")],
    ],
)
def test_langchain_messages_are_judged_as_they_would_be_sent(history: list[BaseMessage]) -> None:
    with pytest.raises(ProviderRefusal):
        check_langchain_history(history)


async def test_the_model_plays_its_script_and_records() -> None:
    model = ScriptedModel(
        script=[call("look", {"place": "x"}, "a"), lambda made: f"{len(made.messages)} messages"]
    )
    bound = model.bind_tools([look])
    history: list[AnyMessage] = [HumanMessage("Look")]
    first = await bound.ainvoke(history)
    history += [first, ToolMessage("seen", tool_call_id="a")]
    second = await bound.ainvoke(history, tool_choice="none")

    assert first.tool_calls[0]["args"] == {"place": "x"}
    assert second.text == "3 messages"
    assert [made.tool_choice for made in model.calls] == [None, "none"]
    assert model.calls[0].tool_names == ["look"]
    assert len(model.calls[0].messages) == 1
    with pytest.raises(AssertionError, match="once more"):
        await bound.ainvoke([HumanMessage("x")])


async def test_the_model_refuses_what_a_provider_refuses() -> None:
    model = ScriptedModel(script=["never", "never"])
    with pytest.raises(ProviderRefusal, match="without a result"):
        await model.ainvoke([HumanMessage("x"), call("look")])
    with pytest.raises(ProviderRefusal, match="only allowed when tools"):
        await model.ainvoke([HumanMessage("x")], tool_choice="none")
    assert len(model.calls) == 2


async def test_the_model_raises_an_exception_of_its_script() -> None:
    with pytest.raises(TimeoutError):
        await ScriptedModel(script=[TimeoutError()]).ainvoke("x")


@pytest.mark.parametrize("obeys", [True, False])
async def test_always_tool(obeys: bool) -> None:
    model = ScriptedModel(script=always_tool("look", {"place": "x"}, obeys=obeys))
    bound = model.bind_tools([look])
    assert (await bound.ainvoke("x")).tool_calls
    assert bool((await bound.ainvoke("x", tool_choice="none")).tool_calls) is not obeys


REPLIES = [
    AIMessage("Two  words, and\nlines ", id="1"),
    calls(("look", {"place": "a/b?c#d"}, "a"), ("look", {}, "b")),
    AIMessage("I look.", tool_calls=call("look", {"place": "x"}, "a").tool_calls),
    malformed_call("look", '{"place": here}', "a"),
]


def essence(message: AIMessage) -> object:
    invalid = [(c["name"], c["args"], c["id"]) for c in message.invalid_tool_calls]
    return message.text, message.tool_calls, invalid


@pytest.mark.parametrize("reply", REPLIES)
async def test_the_model_streams_what_it_answers(reply: AIMessage) -> None:
    pieces = [piece async for piece in ScriptedModel(script=[reply]).astream("x")]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole + piece
    assert len(pieces) > 2
    assert essence(whole) == essence(reply)


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    with OpenAIEndpoint() as running:
        yield running


def chat(endpoint: OpenAIEndpoint, key: str = API_KEY, **options: Any) -> ChatOpenAI:
    given = {"timeout": 5, "max_retries": 0, **options}
    return ChatOpenAI(model=MODEL, base_url=endpoint.url, api_key=SecretStr(key), **given)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("reply", REPLIES)
async def test_the_endpoint_answers(
    endpoint: OpenAIEndpoint, reply: AIMessage, streaming: bool
) -> None:
    scene = endpoint.scene([reply])
    model = chat(endpoint, streaming=streaming).bind_tools([look])
    answer = await model.ainvoke(f"{scene.marker} Look")

    assert essence(answer) == essence(reply)
    assert bool(scene.requests[0].body.get("stream")) is streaming
    assert scene.requests[0].tool_names == ["look"]


async def test_the_endpoint_keeps_scenes_apart(endpoint: OpenAIEndpoint) -> None:
    one, other = endpoint.scene(["one"]), endpoint.scene(["other", Fault(status=400)])
    model = chat(endpoint)
    answers = await asyncio.gather(
        model.ainvoke(f"{other.marker} x"), model.ainvoke(f"{one.marker} x"), model.ainvoke("Hi")
    )
    assert [answer.text for answer in answers] == ["other", "one", "You said: Hi"]
    assert len(endpoint.requests) == 3
    with pytest.raises(BadRequestError, match="has 1 replies"):
        await model.ainvoke(f"{one.marker} again")


async def test_the_endpoint_streams_token_by_token(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene(["one two three"])
    texts = [c.text async for c in chat(endpoint, stream_usage=True).astream(scene.marker)]
    assert [text for text in texts if text] == ["one", " two", " three"]


async def test_the_endpoint_refuses_what_a_provider_refuses(endpoint: OpenAIEndpoint) -> None:
    with pytest.raises(BadRequestError, match="without a result"):
        await chat(endpoint).ainvoke([HumanMessage("x"), call("look", {}, "a")])
    with pytest.raises(AuthenticationError):
        await chat(endpoint, key="wrong").ainvoke("x")
    assert len(endpoint.refusals) == 1
    assert not endpoint.requests


async def test_the_endpoint_says_when_to_come_back(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene([Fault(status=429, retry_after=2)])
    with pytest.raises(RateLimitError) as refused:
        await chat(endpoint).ainvoke(scene.marker)
    assert refused.value.response.headers["retry-after"] == "2"


async def test_the_endpoint_fails_a_few_times(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene([Fault(status=429, retry_after=0.01), Fault(status=500), "At last."])
    answer = await chat(endpoint, max_retries=2).ainvoke(scene.marker)
    assert answer.text == "At last."


@pytest.mark.parametrize("fault", [DROP, HANG])
async def test_the_endpoint_does_not_answer(endpoint: OpenAIEndpoint, fault: Fault) -> None:
    scene = endpoint.scene([fault])
    with pytest.raises(APIConnectionError):
        await chat(endpoint, timeout=0.2).ainvoke(scene.marker)


async def test_the_endpoint_breaks_off_in_the_stream(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene([DROP_IN_STREAM])
    seen: list[str] = []

    async def read(pieces: AsyncIterator[Any]) -> None:
        async for piece in pieces:
            seen.append(piece.text)

    with pytest.raises(APIConnectionError):
        await read(chat(endpoint).astream(scene.marker))
    assert "This" in seen


def test_a_hanging_endpoint_stops_at_once() -> None:
    with OpenAIEndpoint() as endpoint:
        scene = endpoint.scene([HANG])
        body = {"model": MODEL, "messages": [{"role": "user", "content": scene.marker}]}
        headers = {"Authorization": f"Bearer {API_KEY}"}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{endpoint.url}/chat/completions", json=body, headers=headers, timeout=0.1)
        started = time.monotonic()
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("host", ["example.com", "192.0.2.1", "2001:db8::1"])
def test_no_test_reaches_the_internet(host: str) -> None:
    with pytest.raises(RuntimeError, match="stay on this machine"):
        socket.create_connection((host, 80), timeout=1)
    with pytest.raises(OSError, match="not known"):
        socket.create_connection(("nowhere.invalid", 80), timeout=1)


def test_no_setting_of_the_developer_reaches_a_test() -> None:
    assert [name for name in AGENT_VARIABLES if name in os.environ] == ["LANGSMITH_TRACING"]
