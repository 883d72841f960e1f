"""MCP and A2A: clients that know nothing of LangGraph."""

from typing import Any
from uuid import uuid4

import httpx
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import StreamableHttpConnection
from langgraph_sdk.client import LangGraphClient

from scripts.dev_server import DevServer
from tests.agents import rounds_within
from tests.outbox import Outbox
from tests.server.chat import APPROVE
from tests.server.test_subagents import mails, someone
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import always_tool, call, calls


async def test_an_mcp_client_has_the_agents_as_tools(
    server: DevServer, openai_endpoint: OpenAIEndpoint
) -> None:
    at = StreamableHttpConnection(transport="streamable_http", url=f"{server.url}/mcp")
    mcp = MultiServerMCPClient({"agents": at})
    tools = {tool.name: tool for tool in await mcp.get_tools()}
    assert sorted(tools) == ["human_in_the_loop", "react", "subagents"]
    assert all(len(tool.description) > 80 for tool in tools.values())
    time = call("get_current_time", {"timezone": "Asia/Tokyo"})
    scene = openai_endpoint.scene([time, "It is late."])
    messages = [{"role": "user", "content": scene.marker}]
    result = await tools["react"].ainvoke({"messages": messages})
    assert "It is late." in str(result)
    assert scene.requests[-1].roles == ["system", "user", "assistant", "tool"]


class Agent2Agent:
    """As much of A2A as a client needs (https://a2a-protocol.org): JSON-RPC over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def send(self, part: dict[str, Any], **where: str) -> dict[str, Any]:
        """Send a message of one part; `where` is the context and the task that it goes on with."""
        message = {"role": "user", "kind": "message", "messageId": str(uuid4()), "parts": [part]}
        params = {"message": message | where}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": params}
        async with httpx.AsyncClient(timeout=30, headers={"Accept": "application/json"}) as http:
            answer = (await http.post(self.url, json=body)).json()
        task: dict[str, Any] = answer["result"]
        return task


async def by_a2a(server: DevServer, client: LangGraphClient, agent: str) -> Agent2Agent:
    (assistant,) = await client.assistants.search(graph_id=agent)
    return Agent2Agent(f"{server.url}/a2a/{assistant['assistant_id']}")


def text(words: str) -> dict[str, Any]:
    return {"kind": "text", "text": words}


async def test_an_a2a_client_answers_what_input_is_required_for(
    server: DevServer, client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """By a data part with `resume`. A text is no decision: it asks again, and says why."""
    to = someone()
    scene = mails(openai_endpoint, to)
    agent = await by_a2a(server, client, "human_in_the_loop")

    task = await agent.send(text(scene.marker))
    here = {"contextId": task["contextId"], "taskId": task["id"]}
    assert task["status"]["state"] == "input-required"
    (asked,) = task["artifacts"][0]["parts"]
    assert asked["data"]["value"]["action_requests"][0]["args"]["to"] == to

    task = await agent.send(text("yes, go ahead"), **here)
    assert task["status"]["state"] == "input-required"
    (again,) = task["artifacts"][0]["parts"]
    assert again["data"]["value"]["error"].startswith("Nothing was run.")
    assert outbox.to(to) == []

    task = await agent.send({"kind": "data", "data": {"resume": APPROVE}}, **here)
    assert task["status"]["state"] == "completed"
    assert task["artifacts"][0]["parts"] == [text(f"Sent to {to}.")]
    assert len(outbox.to(to)) == 1


async def test_an_a2a_client_answers_several_reviews_at_once(
    server: DevServer, client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """By their ids, which the parts of the task's artifacts have."""
    recipients = [someone() for _ in range(2)]
    tasks = [mails(openai_endpoint, to) for to in recipients]
    wanted = [("email_agent", {"query": t.marker}, f"d{n}") for n, t in enumerate(tasks)]
    scene = openai_endpoint.scene([calls(*wanted), "Done."])
    agent = await by_a2a(server, client, "subagents")
    task = await agent.send(text(scene.marker))
    parts = [part["data"] for artifact in task["artifacts"] for part in artifact["parts"]]
    assert len(parts) == 2
    answers = {part["id"]: APPROVE for part in parts}
    here = {"contextId": task["contextId"], "taskId": task["id"]}
    task = await agent.send({"kind": "data", "data": {"resume": answers}}, **here)
    assert task["artifacts"][0]["parts"] == [text("Done.")]
    assert [len(outbox.to(to)) for to in recipients] == [1, 1]


async def test_the_budget_holds_for_a2a(
    server: DevServer, client: LangGraphClient, openai_endpoint: OpenAIEndpoint
) -> None:
    scene = openai_endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}))
    task = await (await by_a2a(server, client, "react")).send(text(scene.marker))
    assert task["artifacts"][0]["parts"] == [text("Closing.")]
    assert len(scene.requests) == rounds_within(25, "react") + 1
