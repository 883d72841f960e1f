"""What travels through every agent."""

from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps

# Not typing.TypedDict: with it, on Python 3.11, the server serves no schemas (see the tests).
from typing_extensions import TypedDict


class Conversation(TypedDict):
    """What goes into an agent and comes out of it: the schemas that the server shows."""

    messages: Annotated[list[AnyMessage], add_messages]


class AgentState(Conversation):
    """The state of every agent.

    `remaining_steps` is LangGraph's: the steps that the running invocation still has, the
    current one included, under its `recursion_limit`. No node writes it.
    """

    remaining_steps: RemainingSteps


Update = dict[str, Any]
