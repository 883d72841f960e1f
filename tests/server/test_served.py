"""What the server shows of the agents."""

from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from scripts.dev_server import DevServer
from tests.agents import rounds_within
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import always_tool

AGENTS = ["human_in_the_loop", "react", "subagents"]


def test_it_is_up(server: DevServer) -> None:
    """Cases 54 and 56: the shipped entries load, by absolute imports and without checkpointer."""
    assert httpx.get(f"{server.url}/ok").json()["ok"] is True
    assert "version" in httpx.get(f"{server.url}/info").json()


async def test_three_agents_with_descriptions(client: LangGraphClient) -> None:
    assistants = await client.assistants.search()
    assert sorted(found["graph_id"] for found in assistants) == AGENTS
    assert all(len(found["description"] or "") > 80 for found in assistants)


@pytest.mark.parametrize("agent", AGENTS)
async def test_schemas_list_only_messages(client: LangGraphClient, agent: str) -> None:
    (assistant,) = await client.assistants.search(graph_id=agent)
    schemas = await client.assistants.get_schemas(assistant["assistant_id"])
    for schema in (schemas["input_schema"], schemas["output_schema"]):
        assert schema is not None
        assert list(schema["properties"]) == ["messages"]


async def test_graph_can_be_drawn(client: LangGraphClient) -> None:
    (assistant,) = await client.assistants.search(graph_id="human_in_the_loop")
    graph = await client.assistants.get_graph(assistant["assistant_id"])
    nodes = {node["id"] for node in graph["nodes"]}
    assert {"llm_call", "human_review", "tool_node"} <= nodes


def mcp(server: DevServer, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(
        f"{server.url}/mcp/",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"Accept": "application/json, text/event-stream"},
        timeout=30,
        follow_redirects=True,
    )
    result: dict[str, Any] = answer.json()["result"]
    return result


def test_mcp_lists_all_three(server: DevServer) -> None:
    tools = mcp(server, "tools/list", {})["tools"]
    assert sorted(tool["name"] for tool in tools) == AGENTS
    assert all(list(tool["inputSchema"]["properties"]) == ["messages"] for tool in tools)


def test_the_budget_holds_for_mcp(server: DevServer, openai_endpoint: OpenAIEndpoint) -> None:
    scene = openai_endpoint.scene(always_tool("get_current_time", {"timezone": "UTC"}))
    messages = [{"role": "user", "content": scene.marker}]
    result = mcp(server, "tools/call", {"name": "react", "arguments": {"messages": messages}})
    assert "Closing." in result["content"][0]["text"]
    assert len(scene.requests) == rounds_within(25, "react") + 1
