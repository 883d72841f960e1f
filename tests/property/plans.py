"""What the scripted models will say: drawn calls become messages, and are noted in the ledger."""

from collections.abc import Mapping, Sequence

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall

from tests.property import moves
from tests.property.ledger import Args, Kind
from tests.property.world import World

EVERYTHING: Mapping[str, Kind] = {"send": "reviewed", "post": "reviewed", "look": "plain"}
TOOLS: Mapping[str, Mapping[str, Kind]] = {
    "human_in_the_loop": EVERYTHING,
    "supervisor": {"clerk": "delegation", "scout": "delegation"},
    "clerk": EVERYTHING,
    "scout": {"look": "plain"},
}
"""What becomes of the calls of each agent's tools; those of any other are impossible."""


def plan(world: World, agent: str, rounds: Sequence[moves.Round]) -> list[AIMessage]:
    """The messages that an agent's model will answer one request with, before its report."""
    return [_message(world, agent, calls) for calls in rounds]


def _message(world: World, agent: str, calls: moves.Round) -> AIMessage:
    made = [_call(world, agent, call) for call in calls]
    return AIMessage(
        "",
        tool_calls=[call for call in made if call["type"] == "tool_call"],
        invalid_tool_calls=[call for call in made if call["type"] != "tool_call"],
    )


def _call(world: World, agent: str, drawn: moves.Call) -> ToolCall | InvalidToolCall:
    key = world.ledger.new_key()
    id = f"call{key[1:-1]}" if drawn.id == "fresh" else drawn.id
    tool = next(iter(TOOLS[agent])) if drawn.tool in ("misfit", "malformed") else drawn.tool
    if drawn.tool == "malformed":
        args = f'{{"text": "{key}'
        return InvalidToolCall(type="invalid_tool_call", name=tool, args=args, id=id, error=None)
    kind = "impossible" if drawn.tool == "misfit" else TOOLS[agent].get(tool, "impossible")
    asked = world.ledger.ask(tool, _args(key, drawn), kind, key)
    world.failures[key] = int(drawn.fails)
    if kind == "delegation":
        world.plans[key] = plan(world, tool, drawn.rounds)
    return ToolCall(type="tool_call", name=tool, args=asked.args, id=id)


def _args(key: str, drawn: moves.Call) -> Args:
    text = f"{key} {moves.words(drawn.text)}"
    match drawn.tool:
        case "misfit":
            return {"text": text, "query": "", "number": "many"}
        case "clerk" | "scout":
            return {"query": text}
    return {"text": text, "number": drawn.number}
