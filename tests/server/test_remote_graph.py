"""LangGraph's `RemoteGraph`: an agent on a server, used as if it were a graph of one's own."""

from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command

from scripts.dev_server import DevServer
from tests.outbox import Outbox
from tests.server.chat import APPROVE
from tests.server.test_subagents import looks_up, mails, someone
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import call


def on_a_thread() -> RunnableConfig:
    return RunnableConfig(configurable={"thread_id": str(uuid4())})


async def test_a_review_is_found_and_answered(
    server: DevServer, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Inside a delegation: the pause comes back, `aget_state` lists it, an answer by id goes on."""
    to = someone()
    inner = mails(openai_endpoint, to)
    scene = openai_endpoint.scene([call("email_agent", {"query": inner.marker}), "Done."])
    graph, config = RemoteGraph("subagents", url=server.url), on_a_thread()
    await graph.ainvoke({"messages": [HumanMessage(scene.marker)]}, config)

    state = await graph.aget_state(config)
    (review,) = [found for task in state.tasks for found in task.interrupts]
    assert review.value["action_requests"][0]["args"]["to"] == to
    assert outbox.to(to) == []
    result = await graph.ainvoke(Command(resume={review.id: APPROVE}), config)
    assert isinstance(result, dict)
    assert result["messages"][-1]["content"] == "Done."
    assert len(outbox.to(to)) == 1
    assert not (await graph.aget_state(config)).next


async def test_it_streams(server: DevServer, openai_endpoint: OpenAIEndpoint) -> None:
    weather = looks_up(openai_endpoint, "Jakarta")
    scene = openai_endpoint.scene([call("weather_agent", {"query": weather.marker}), "Warm."])
    graph = RemoteGraph("subagents", url=server.url)
    steps = graph.astream({"messages": [HumanMessage(scene.marker)]}, stream_mode="updates")
    assert [node for update in [step async for step in steps] for node in update] == [
        *("llm_call", "tool_node", "llm_call")
    ]


async def test_it_is_a_node_of_another_graph(
    server: DevServer, openai_endpoint: OpenAIEndpoint
) -> None:
    scene = openai_endpoint.scene(["Here I am."])
    builder = StateGraph(MessagesState)
    builder.add_node("agent", RemoteGraph("react", url=server.url))
    builder.add_edge(START, "agent")
    result = await builder.compile().ainvoke({"messages": [HumanMessage(scene.marker)]})
    assert [type(message) for message in result["messages"]] == [HumanMessage, AIMessage]
    assert result["messages"][-1].text == "Here I am."
