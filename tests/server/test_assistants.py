"""What is set in an assistant or a run holds at once, on the server."""

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.outbox import Outbox
from tests.server.chat import APPROVE, Chat, tool_results
from tests.server.test_subagents import looks_up, mails, someone
from tests.standins.openai_endpoint import Fault, OpenAIEndpoint
from tests.standins.scripted_model import calls


@pytest.mark.parametrize("agent", ["react", "human_in_the_loop", "subagents"])
async def test_studio_has_a_form(client: LangGraphClient, agent: str) -> None:
    (assistant,) = await client.assistants.search(graph_id=agent)
    schemas = await client.assistants.get_schemas(assistant["assistant_id"])
    form = schemas["context_schema"]
    assert form is not None
    assert list(form["properties"]) == ["model", "system_prompt", "parallel_tool_calls"]
    assert form["properties"]["system_prompt"]["langgraph_type"] == "prompt"


async def test_a_run_wins_over_its_assistant_and_both_over_the_environment(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """On one thread, from one turn to the next."""
    scene = openai_endpoint.scene(["one", "two", "three", "four"])
    assistant = await client.assistants.create(
        "react", context={"model": "openai:assistants", "system_prompt": "Be brief."}
    )
    try:
        chat = await Chat.open(client, "react")
        await chat.say(scene.marker)
        chat.agent = assistant["assistant_id"]
        await chat.say(scene.marker)
        await chat.say(scene.marker, context={"model": "the-runs"})
        chat.agent = "react"
        await chat.say(scene.marker)
    finally:
        await client.assistants.delete(assistant["assistant_id"])
    prompts = [request.messages[0]["content"] for request in scene.requests]
    assert [request.body["model"] for request in scene.requests] == [
        *("scripted", "assistants", "the-runs", "scripted")
    ]
    assert prompts[1] == "Be brief."
    assert prompts[0] == prompts[3] != prompts[1]


async def test_an_unknown_model_fails_the_run_alone(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    scene = openai_endpoint.scene([Fault(status=404), "Here I am."])
    chat = await Chat.open(client, "react")
    with pytest.raises(Exception, match=r"The chat model 'gpt-0' .* answered 404"):
        await chat.say(scene.marker, context={"model": "gpt-0"})
    assert (await chat.say(scene.marker))[-1]["content"] == "Here I am."


async def test_an_assistant_that_delegates_one_at_a_time(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    """The model is asked to, and is held to it if it does not obey."""
    first = looks_up(openai_endpoint, "Jakarta")
    wanted = calls(
        ("weather_agent", {"query": first.marker}, "one"),
        ("weather_agent", {"query": "never asked"}, "two"),
    )
    scene = openai_endpoint.scene([wanted, "Done."])
    chat = await Chat.open(client, "subagents")
    messages = await chat.say(scene.marker, context={"parallel_tool_calls": False})
    assert scene.requests[0].body["parallel_tool_calls"] is False
    assert first.requests[0].body["parallel_tool_calls"] is False, "a supervisor below asks so too"
    done, put_off = tool_results(messages)
    assert done == "Jakarta is warm."
    assert "only one call runs at a time" in put_off


async def test_a_client_without_interrupt_ids_works_through_three_emails(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """As Agent Chat UI answers: what waits is one review, and its answer has no id."""
    recipients = [someone() for _ in range(3)]
    tasks = [mails(openai_endpoint, to) for to in recipients]
    wanted = [("email_agent", {"query": task.marker}, f"d{n}") for n, task in enumerate(tasks)]
    scene = openai_endpoint.scene(
        [calls(*wanted), calls(*wanted[1:]), calls(*wanted[2:]), "All are sent."]
    )
    assistant = await client.assistants.create("subagents", context={"parallel_tool_calls": False})
    try:
        chat = await Chat.open(client, assistant["assistant_id"])
        await chat.say(scene.marker)
        for to in recipients:
            request = (await chat.review())["value"]
            assert request["action_requests"][0]["args"]["to"] == to
            messages = await chat.resume(APPROVE)
    finally:
        await client.assistants.delete(assistant["assistant_id"])
    assert messages[-1]["content"] == "All are sent."
    assert [len(outbox.to(to)) for to in recipients] == [1, 1, 1]
