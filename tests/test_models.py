"""The chat model that the environment names, against an endpoint over HTTP."""

import asyncio
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from graphs import models
from graphs.models import DEFAULT_MODEL, EnvironmentModel, ModelError, name_of, read_settings
from tests.agents import Recorder, ask, react, results
from tests.standins.openai_endpoint import (
    API_KEY,
    DROP,
    DROP_IN_STREAM,
    HANG,
    HANG_IN_STREAM,
    MODEL,
    Fault,
    OpenAIEndpoint,
    Scene,
)
from tests.standins.scripted_model import ScriptedModel, call, malformed_call

# As it is in the code: the tests themselves do not wait so long.
PATIENCE = models.PATIENCE


def test_an_endpoint_is_waited_for_at_most_a_minute() -> None:
    assert PATIENCE == 60


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIEndpoint]:
    """An endpoint that the environment names."""
    monkeypatch.setattr(models, "FIRST_PAUSE", 0.05)
    with OpenAIEndpoint() as running:
        monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("AGENT_MODEL", f"openai:{MODEL}")
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a second in all, where the answer is known never to come."""
    monkeypatch.setattr(models, "PATIENCE", 1.0)
    monkeypatch.setattr(models, "ATTEMPT", 0.4)


async def say(scene: Scene, text: str = "hello") -> AIMessage:
    return await EnvironmentModel().ainvoke([HumanMessage(f"{scene.marker} {text}")])


@pytest.mark.parametrize(
    ("key", "url", "name", "expected"),
    [
        ("", "", "", None),
        ("", "", "demo", None),
        ("k", "", "demo", None),
        ("k", "", "", ("gpt", models.OPENAI_URL, "k")),
        ("k\n", " ", "openai:gpt", ("gpt", models.OPENAI_URL, "k")),
        ("k", "", "gpt", ("gpt", models.OPENAI_URL, "k")),
        ("k", "http://x/v1", "llama3.2:3b", ("llama3.2:3b", "http://x/v1", "k")),
        ("k", "http://x/v1", "openai:llama3.2:3b", ("llama3.2:3b", "http://x/v1", "k")),
    ],
)
def test_what_the_environment_names(
    key: str, url: str, name: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "DEFAULT_MODEL", "gpt")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("AGENT_MODEL", name)
    assert read_settings() == expected


@pytest.mark.parametrize(
    ("variable", "value"), [("AGENT_MODEL", "openai:gpt"), ("OPENAI_BASE_URL", "http://x/v1")]
)
async def test_a_missing_key_is_a_clear_error_and_never_the_demo_model(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 55: the graph was imported and built; only the run fails."""
    monkeypatch.setenv(variable, value)
    agent = react(EnvironmentModel(), [])
    with pytest.raises(ModelError, match=f"{variable} is '{value}', but OPENAI_API_KEY is not set"):
        await ask(agent, "hello")


async def test_a_key_that_cannot_be_one_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret\x07ä")
    with pytest.raises(ModelError) as error:
        await EnvironmentModel().ainvoke("hello")
    assert "secret" not in str(error.value)


async def test_without_a_key_the_demo_model_answers() -> None:
    answer = await EnvironmentModel().ainvoke("hello")
    assert answer.response_metadata["model_name"] == "demo"
    assert "OPENAI_API_KEY" in answer.text


async def test_an_agent_works_with_the_endpoint(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene(
        [
            malformed_call("work", "{oops", "1"),
            call("work", {"text": "x"}),
            "done",
            lambda request: str(request.tool_choice),
        ]
    )
    agent = react(EnvironmentModel(), [Recorder().tool("work")])
    messages = await ask(agent, f"{scene.marker} go")
    assert [r.status for r in results(messages)] == ["error", "success"]
    assert messages[-1].text == "done"
    config: Any = {"configurable": {"thread_id": "2"}, "recursion_limit": 2}
    assert (await ask(agent, f"{scene.marker} go", config))[-1].text == "none"
    assert not endpoint.refusals


@pytest.mark.parametrize(
    "args", ['{"text": "Dear Bob, I', '{"text": "x"', "", '["x"]', '{"text": "x"} and', "{text: x}"]
)
async def test_arguments_that_were_cut_off_are_never_mended(
    endpoint: OpenAIEndpoint, args: str
) -> None:
    """Case 14: LangChain closes the brackets of streamed arguments, and half an email goes out."""
    recorder = Recorder()
    scene = endpoint.scene([malformed_call("work", args, "1"), "done"])
    messages = await ask(react(EnvironmentModel(), [recorder.tool("work")]), f"{scene.marker} go")
    assert recorder.runs == []
    (result,) = results(messages)
    assert result.status == "error"
    assert messages[-1].text == "done"


@pytest.mark.parametrize("fault", [Fault(429), Fault(500), Fault(503), DROP, HANG])
async def test_a_passing_fault_is_waited_out(
    endpoint: OpenAIEndpoint, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is HANG:
        monkeypatch.setattr(models, "ATTEMPT", 3.0)
    scene = endpoint.scene([fault, "at last"])
    assert (await say(scene)).text == "at last"
    assert len(scene.requests) == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(429), "answered 429"),
        (Fault(500), "answered 500"),
        (DROP, "could not be reached"),
        (HANG, "did not answer"),
    ],
)
@pytest.mark.usefixtures("impatient")
async def test_a_lasting_fault_ends_in_one_clear_line(
    endpoint: OpenAIEndpoint, fault: Fault, said: str
) -> None:
    scene = endpoint.scene(lambda _: fault)
    begun = time.monotonic()
    with pytest.raises(ModelError) as error:
        await say(scene)
    assert time.monotonic() - begun < models.PATIENCE + 2
    assert 1 < len(scene.requests) <= 6, "each pause is longer than the one before"
    line = str(error.value)
    assert line.startswith(f"The chat model 'scripted' at {endpoint.url} {said}")
    assert "send a new message" in line
    assert "\n" not in line
    assert API_KEY not in line


async def test_the_next_message_works_after_the_model_failed(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene([Fault(400), "better"])
    agent = react(EnvironmentModel(), [])
    with pytest.raises(ModelError):
        await ask(agent, f"{scene.marker} go")
    assert (await ask(agent, f"{scene.marker} again"))[-1].text == "better"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_will_not_pass_is_not_asked_again(endpoint: OpenAIEndpoint, status: int) -> None:
    scene = endpoint.scene([Fault(status)])
    with pytest.raises(ModelError, match=f"answered {status}"):
        await say(scene)


async def test_a_wrong_key_is_not_repeated(
    endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key")
    with pytest.raises(ModelError, match="answered 401") as error:
        await EnvironmentModel().ainvoke("hello")
    assert "Incorrect API key provided: ***" in str(error.value)
    # A trace has the whole chain of errors.
    assert "wrong-key" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "AGENT_MODEL": ""}, "demo"),
        ({"AGENT_MODEL": "openai:big"}, "big"),
        ({"AGENT_MODEL": "big"}, "big"),
        ({"AGENT_MODEL": ""}, DEFAULT_MODEL),
        ({"AGENT_MODEL": "big", "OPENAI_API_KEY": ""}, "unknown, as OPENAI_API_KEY is not right"),
    ],
)
def test_traces_name_the_model(
    endpoint: OpenAIEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    name: str,
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert name_of(EnvironmentModel()) == name


def test_traces_name_other_models_too() -> None:
    assert name_of(ChatOpenAI(model="big", api_key=SecretStr("x"))) == "big"
    assert name_of(ScriptedModel(script=[])) == "ScriptedModel"


@pytest.mark.usefixtures("impatient")
async def test_retry_after_is_respected(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene([Fault(429, retry_after=0.0), Fault(429, retry_after=5.0)])
    begun = time.monotonic()
    with pytest.raises(ModelError, match="answered 429"):
        await say(scene)
    assert time.monotonic() - begun < 4, "waiting longer than the patience allows is pointless"
    assert len(scene.requests) == 2


async def test_a_stream_that_stands_still_is_not_waited_for_longer_than_a_minute(
    endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert models.SILENCE <= 60
    monkeypatch.setattr(models, "SILENCE", 0.3)
    scene = endpoint.scene([HANG_IN_STREAM])
    with pytest.raises(ModelError, match="did not answer"):
        await asyncio.wait_for(say(scene), 5)


@pytest.mark.parametrize(
    "body",
    [b"<html>Welcome to nginx!</html>", b"", b"data: [DONE]\n\n", b"data: {broken\n\n", b"{}"],
)
async def test_an_answer_that_is_no_chat_completion(endpoint: OpenAIEndpoint, body: bytes) -> None:
    scene = endpoint.scene([Fault(body=body), "better"])
    with pytest.raises(ModelError, match="did not answer with the stream of a chat completion"):
        await say(scene)
    assert (await say(scene)).text == "better"


async def test_what_the_environment_says_elsewhere_does_not_move_the_endpoint(
    endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/elsewhere")
    monkeypatch.setenv("OPENAI_BASE_URL", " ")
    settings = read_settings()
    assert settings
    assert models.chat_model(settings).openai_api_base == models.OPENAI_URL  # type: ignore[attr-defined]


async def test_a_stream_that_breaks_off_is_an_error_and_not_asked_again(
    endpoint: OpenAIEndpoint,
) -> None:
    scene = endpoint.scene([DROP_IN_STREAM])
    with pytest.raises(ModelError, match="could not be reached"):
        await say(scene)


@pytest.mark.parametrize("url", ["localhost:1", "http://127.0.0.1:1/v1"])
@pytest.mark.usefixtures("impatient")
async def test_an_endpoint_that_is_not_there(
    endpoint: OpenAIEndpoint, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ModelError, match="could not be reached"):
        await EnvironmentModel().ainvoke("hello")


def test_each_event_loop_has_a_model_of_its_own(endpoint: OpenAIEndpoint) -> None:
    """Connections are bound to a loop: sharing them is an error on the second loop."""
    scene = endpoint.scene(lambda _: "hello")
    for _ in range(3):
        assert asyncio.run(say(scene)).text == "hello"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the files in /proc")
def test_many_event_loops_leave_no_connections_behind(endpoint: OpenAIEndpoint) -> None:
    scene = endpoint.scene(lambda _: "hello")
    asyncio.run(say(scene))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(30):
        asyncio.run(say(scene))
    assert len(list(Path("/proc/self/fd").iterdir())) < before + 10


async def test_a_model_is_built_once_for_each_setting(
    endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings()
    assert settings
    assert models.chat_model(settings) is models.chat_model(settings)
    monkeypatch.setenv("AGENT_MODEL", "other")
    other = read_settings()
    assert other
    assert models.chat_model(other) is not models.chat_model(settings)


def test_the_agents_are_async_only() -> None:
    with pytest.raises(NotImplementedError, match="ainvoke"):
        EnvironmentModel().invoke("hello")
