"""Servers in other environments: without a key, on the demo model, with loops of their own."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph_sdk import get_client

from scripts.dev_server import PROJECT, DevServer, dev_server, langgraph_dev
from tests.outbox import Outbox
from tests.server.chat import APPROVE, Chat, tool_results
from tests.server.conftest import assert_never_blocked
from tests.standins.mail_server import MailServer
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import always_tool, call


async def test_a_missing_key_fails_the_run_alone(tmp_path: Path) -> None:
    """Cases 54 and 55: what is shipped starts as it is, without `.env` and without a key."""
    for folder in ("graphs", "tools"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    shutil.copy(PROJECT / "langgraph.json", tmp_path)
    env = {"AGENT_MODEL": "openai:gpt-5-mini"}
    with langgraph_dev(tmp_path / "langgraph.json", env, tmp_path / "server.log") as server:
        client = get_client(url=server.url)
        assert len(await client.assistants.search()) == 3
        chat = await Chat.open(client, "react")
        with pytest.raises(Exception, match="OPENAI_API_KEY"):
            await chat.say("Hello")
        assert await chat.status() == "error"


async def test_a_copied_example_of_the_settings_starts_the_server(tmp_path: Path) -> None:
    """As the README says: copy it to `.env`, and fill in what is needed."""
    for folder in ("graphs", "tools"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    shutil.copy(PROJECT / "langgraph.json", tmp_path)
    shutil.copy(PROJECT / ".env.example", tmp_path / ".env")
    with langgraph_dev(tmp_path / "langgraph.json", {}, tmp_path / "server.log") as server:
        messages = await (await Chat.open(get_client(url=server.url), "react")).say("Hello")
        assert messages[-1]["response_metadata"]["model_name"] == "demo"


async def test_the_demo_model_answers_with_tools(demo_server: DevServer) -> None:
    chat = await Chat.open(get_client(url=demo_server.url), "react")
    messages = await chat.say("What is the weather in Jakarta and what time is it in Tokyo?")
    weather, time = tool_results(messages)
    assert "°C" in weather
    assert "Asia/Tokyo" in time
    assert messages[-1]["response_metadata"]["model_name"] == "demo"


async def test_the_demo_model_sends_an_email(demo_server: DevServer, demo_outbox: Outbox) -> None:
    chat = await Chat.open(get_client(url=demo_server.url), "human_in_the_loop")
    await chat.say("Email jane@example.com that the meeting moved to 3 pm.")
    assert demo_outbox.to("jane@example.com") == []
    await chat.resume({(await chat.review())["id"]: APPROVE})
    (text,) = demo_outbox.to("jane@example.com")
    assert "the meeting moved to 3 pm" in text.lower()


async def test_the_demo_model_delegates(demo_server: DevServer, demo_outbox: Outbox) -> None:
    chat = await Chat.open(get_client(url=demo_server.url), "subagents")
    await chat.say(
        "Find the weather in Jakarta and in Paris, "
        "and email mary@example.com that the report is ready."
    )
    messages = await chat.resume({(await chat.review())["id"]: APPROVE})
    assert len(demo_outbox.to("mary@example.com")) == 1
    results = tool_results(messages)
    assert len(results) == 3
    assert sum("°C" in result for result in results) == 2


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    with MailServer(tls="starttls", login=("agent@example.com", "secret")) as running:
        yield running


@pytest.fixture(scope="module")
def isolated_server(
    endpoint_env: dict[str, str],
    mail_server: MailServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[DevServer]:
    """A server with an event loop for each run, a mail server, and 40 steps a turn."""
    log = tmp_path_factory.mktemp("isolated") / "server.log"
    env = {**endpoint_env, **mail_server.environment}
    env |= {"BG_JOB_ISOLATED_LOOPS": "true", "MAX_AGENT_STEPS": "40"}
    with dev_server(env, log=log) as server:
        yield server
    assert_never_blocked(log)


async def test_runs_with_loops_of_their_own(
    isolated_server: DevServer, openai_endpoint: OpenAIEndpoint
) -> None:
    """What runs share, a chat model and HTTP connections, is not shared between loops."""
    client = get_client(url=isolated_server.url)

    async def weather_twice() -> list[str]:
        scene = openai_endpoint.scene(
            [
                *(call("get_weather", {"location": "Jakarta"}), "First."),
                *(call("get_weather", {"location": "Paris"}), "Second."),
            ]
        )
        chat = await Chat.open(client, "react")
        await chat.say(scene.marker)
        return tool_results(await chat.say(scene.marker))

    answers = await asyncio.gather(*(weather_twice() for _ in range(8)))
    assert all("Jakarta" in first and "Paris" in second for first, second in answers)
    assert all("°C" in text for pair in answers for text in pair)


async def test_emails_go_out_by_smtp(
    isolated_server: DevServer, mail_server: MailServer, openai_endpoint: OpenAIEndpoint
) -> None:
    """Case 57: TLS and login hold up no event loop; see `assert_never_blocked`."""
    client = get_client(url=isolated_server.url)

    async def sends(to: str) -> None:
        email = {"to": to, "subject": "The report", "body": "It is ready."}
        scene = openai_endpoint.scene([call("send_email", email), "Sent."])
        chat = await Chat.open(client, "human_in_the_loop")
        await chat.say(scene.marker)
        await chat.resume({(await chat.review())["id"]: APPROVE})

    recipients = ["ann@example.com", "bob@example.com"]
    await asyncio.gather(*(sends(to) for to in recipients))
    assert sorted(mail.recipients for mail in mail_server.received) == [(to,) for to in recipients]
    assert all(mail.over_tls and mail.user for mail in mail_server.received)


async def test_a_deployment_can_raise_the_budget(
    isolated_server: DevServer, openai_endpoint: OpenAIEndpoint
) -> None:
    scene = openai_endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}))
    chat = await Chat.open(get_client(url=isolated_server.url), "react")
    messages = await chat.say(scene.marker, config={"recursion_limit": 100})
    assert len(tool_results(messages)) == 19
    assert messages[-1]["content"] == "Closing."
