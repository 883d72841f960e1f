"""The step budget: may another tool round start?

Every node that runs is one step, and LangGraph raises `GraphRecursionError` past the limit. A
round may start only if the `llm_call` after it still has a step, so that there is always one
left to answer with. The budget is one user turn's: LangGraph counts afresh on each resume, so
the rounds already run are read off the history.
"""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from graphs.history import calls_of


def rounds_this_turn(messages: Sequence[AnyMessage]) -> int:
    """How many tool rounds the model has asked for since the last human message."""
    rounds = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        rounds += bool(calls_of(message))
    return rounds


def steps_taken(messages: Sequence[AnyMessage], steps_per_tool_round: int) -> int:
    """How many steps this turn has taken to come to this history."""
    last = messages[-1]
    rounds = rounds_this_turn(messages) - bool(calls_of(last))  # one under way does not count yet
    return steps_per_tool_round * rounds + isinstance(last, AIMessage)


def steps_left(
    messages: Sequence[AnyMessage],
    remaining_steps: int,
    limit: int,
    maximum: int,
    steps_per_tool_round: int,
) -> int:
    """How many steps this turn still has in a call of the model, that call's own included.

    Args:
        messages: The history.
        remaining_steps: What LangGraph says is left of this invocation, under `limit`.
        limit: The caller's `recursion_limit`.
        maximum: The steps that a turn may take, whatever the caller asks for.
        steps_per_tool_round: The steps from one call of the model to the next.
    """
    in_this_invocation = remaining_steps - max(0, limit - maximum)
    used_this_turn = 1 + steps_per_tool_round * rounds_this_turn(messages)
    return min(in_this_invocation, min(limit, maximum) - used_this_turn)


def is_spent(steps: int, steps_per_tool_round: int) -> bool:
    """Whether this call of the model must be the turn's last.

    Not `<`: at odd limits the round would fit, but not the model's answer after it.
    """
    return steps <= steps_per_tool_round
