"""What LangSmith is sent of the agents' runs, from a server that traces."""

import asyncio
import base64
from collections.abc import Iterator

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from scripts.dev_server import dev_server
from tests.server.chat import APPROVE, Chat
from tests.server.test_reviews import email
from tests.standins.langsmith_ingest import API_KEY, LangSmithIngest, Run, metadata
from tests.standins.mail_server import MailServer
from tests.standins.openai_endpoint import API_KEY as MODEL_KEY
from tests.standins.openai_endpoint import MODEL, OpenAIEndpoint
from tests.standins.scripted_model import always_tool, calls

PASSWORD = "a password that nobody may see"


@pytest.fixture(scope="module")
def langsmith() -> Iterator[LangSmithIngest]:
    with LangSmithIngest() as ingest:
        yield ingest


@pytest.fixture(scope="module")
def tracing(
    langsmith: LangSmithIngest,
    endpoint_env: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LangGraphClient]:
    """A client of a server that traces, and whose mail server refuses the login."""
    env = {
        **endpoint_env,
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": API_KEY,
        "LANGSMITH_ENDPOINT": langsmith.url,
        "LANGSMITH_PROJECT": "agents",
    }
    log = tmp_path_factory.mktemp("tracing") / "server.log"
    with MailServer(login=("bot", "another password")) as mail_server:
        login = {"SMTP_USERNAME": "bot", "SMTP_PASSWORD": PASSWORD}
        with dev_server({**env, **mail_server.environment, **login}, log=log) as server:
            yield get_client(url=server.url)


def named(runs: list[Run], name: str, kind: str) -> list[Run]:
    return [run for run in runs if (run["name"], run["run_type"]) == (name, kind)]


def parent(runs: list[Run], run: Run) -> Run:
    (found,) = (one for one in runs if one["id"] == run["parent_run_id"])
    return found


async def test_traces(
    tracing: LangGraphClient, langsmith: LangSmithIngest, openai_endpoint: OpenAIEndpoint
) -> None:
    async def one_trace_a_run(agent: str, model: str) -> None:
        scene = openai_endpoint.scene(["Hello.", "Hello again."])
        chat = await Chat.open(tracing, agent)
        context = {"model": model} if model != MODEL else None
        for text in ("Hi", "And?"):
            await chat.say(f"{scene.marker} {text}", context=context)
        runs = await asyncio.to_thread(langsmith.finished, chat.thread, traces=2)
        roots = [run for run in runs if not run.get("parent_run_id")]
        assert [run["name"] for run in roots] == [agent] * 2
        for run in roots:
            found = metadata(run)
            assert (found["agent"], found["model"]) == (agent, model)
            assert found["thread_id"] == chat.thread
            assert run["session_name"] == "agents"

    async def the_budget_is_a_tag() -> None:
        scene = openai_endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}))
        chat = await Chat.open(tracing, "react")
        await chat.say(scene.marker, config={"recursion_limit": 4})
        runs = await asyncio.to_thread(langsmith.finished, chat.thread)
        models = [run for run in runs if run["run_type"] == "llm"]
        assert ["step_limit" in run["tags"] for run in models] == [False, True]

    async def a_delegation_is_under_its_tool_call() -> None:
        places = ("Jakarta", "Paris")
        scenes = [
            openai_endpoint.scene([calls(("get_weather", {"location": place}, place)), "Warm."])
            for place in places
        ]
        queries = {f"{s.marker} {p}" for s, p in zip(scenes, places, strict=True)}
        both = calls(*[("weather_agent", {"query": query}, query) for query in queries])
        supervisor = openai_endpoint.scene([both, "Warm in both."])
        chat = await Chat.open(tracing, "subagents")
        await chat.say(f"{supervisor.marker} Where is it warm?")
        runs = await asyncio.to_thread(langsmith.finished, chat.thread)
        delegations = named(runs, "weather_agent", "chain")
        asked = {run["inputs"]["messages"][0]["content"]: run for run in delegations}
        assert asked.keys() == queries
        for query, run in asked.items():
            tool_run = parent(runs, run)
            assert (tool_run["run_type"], tool_run["name"]) == ("tool", "weather_agent")
            assert query in str(tool_run["inputs"])
            assert metadata(run)["agent"] == "weather_agent"
            assert metadata(run)["model"] == MODEL
            assert metadata(run)["tool_call_id"] == query
        for run in named(runs, "get_weather", "tool"):
            above = parent(runs, parent(runs, run))
            assert above["id"] in {one["id"] for one in delegations}

    async def a_review_goes_on_in_a_trace_of_its_own() -> None:
        call = calls(("send_email", email("bob@example.com"), "mail"))
        clerk = openai_endpoint.scene([call, "It failed."])
        delegation = calls(("email_agent", {"query": clerk.marker}, "delegation"))
        supervisor = openai_endpoint.scene([delegation, "Sorry."])
        chat = await Chat.open(tracing, "subagents")
        await chat.say(f"{supervisor.marker} Mail Bob.")
        await chat.resume({(await chat.review())["id"]: APPROVE})
        runs = await asyncio.to_thread(langsmith.finished, chat.thread, traces=2)
        (sent,) = named(runs, "send_email", "tool")
        assert "refused the login" in str(sent["outputs"])
        for run in named(runs, "email_agent", "chain"):
            assert parent(runs, run)["run_type"] == "tool"

    await asyncio.gather(
        *(one_trace_a_run(agent, MODEL) for agent in ("react", "human_in_the_loop", "subagents")),
        one_trace_a_run("react", "another-model"),
        the_budget_is_a_tag(),
        a_delegation_is_under_its_tool_call(),
        a_review_goes_on_in_a_trace_of_its_own(),
    )
    sent = b"".join(langsmith.bodies)
    assert b"SMTP" in sent or b"refused the login" in sent
    for secret in (MODEL_KEY, PASSWORD, API_KEY):
        assert secret.encode() not in sent
        assert base64.b64encode(secret.encode()) not in sent
    assert [why for why in langsmith.refusals if why.startswith("POST /runs")] == []
