"""Human review, as pure functions: tool calls become a request, an answer becomes decisions.

The request is LangChain's `HITLRequest`, and the answer LangChain's `{"decisions": [...]}`; a
bare decision where one call waits and Agent Inbox's list are taken as well. Any other answer
raises `BadAnswer`, and the caller asks again: nothing is ever approved by default.
"""

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, get_args

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from graphs.arguments import fitted, misfit, schema_of
from graphs.history import AWAITS_REVIEW, calls_of, rebuilt
from graphs.tool_tasks import AnyToolCall, ToolTask, answered, task_for

DecisionType = Literal["approve", "edit", "reject", "respond"]
DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)


class ReviewConfig(TypedDict, total=False):
    """How the calls of one tool are reviewed."""

    allowed_decisions: list[DecisionType]
    description: str


InterruptOn = Mapping[str, bool | ReviewConfig]


class Policy(NamedTuple):
    """What a human may decide about the calls of one tool, and what they are told."""

    tool: BaseTool
    allowed: tuple[DecisionType, ...]
    description: str


class Decision(TypedDict):
    """One human decision. `message` goes with reject and respond, `args` with edit."""

    type: DecisionType
    message: NotRequired[str]
    args: NotRequired[dict[str, Any]]


class BadAnswer(ValueError):
    """An answer that cannot be carried out; the message says what was wrong and expected."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Nothing was run. {problem}")


STARTED_BEFORE = "This was approved and started before: it may have happened already."
STARTED_ALL_THE_SAME = (
    "It had been approved and started before, though, and may have happened then. Say so."
)

Request = dict[str, Any]
Policies = Mapping[str, Policy]
Decisions = Mapping[str, Decision]


def read_policies(interrupt_on: InterruptOn, tools: Sequence[BaseTool]) -> dict[str, Policy]:
    """What is reviewed, by the tool's name.

    Raises:
        ValueError: If `interrupt_on` names something that is not there, or cannot be read.
    """
    known = {tool.name: tool for tool in tools}
    policies = {}
    for name, setting in interrupt_on.items():
        if name not in known:
            have = ", ".join(known) or "none"
            raise ValueError(f"interrupt_on names {name!r}, which is no tool here. Tools: {have}.")
        if setting is not False:
            policies[name] = _policy(known[name], setting)
    return policies


def _policy(tool: BaseTool, setting: object) -> Policy:
    if setting is True:
        return Policy(tool, DECISIONS, "")
    where = f"interrupt_on[{tool.name!r}]"
    if not isinstance(setting, Mapping):
        raise ValueError(
            f"{where} is {setting!r}. Expected True, False or "
            '{"allowed_decisions": [...], "description": "..."}.'
        )
    unknown = [str(key) for key in setting if key not in ("allowed_decisions", "description")]
    if unknown:
        raise ValueError(
            f"{where} has the unknown key {', '.join(unknown)}. "
            "Its keys are allowed_decisions and description."
        )
    return Policy(tool, _allowed(where, setting), _description(where, setting))


def _allowed(where: str, setting: Mapping[str, Any]) -> tuple[DecisionType, ...]:
    allowed = setting.get("allowed_decisions")
    if not isinstance(allowed, list | tuple) or not allowed:
        raise ValueError(f"{where} needs allowed_decisions, a list of {', '.join(DECISIONS)}.")
    for decision in allowed:
        if decision not in DECISIONS:
            raise ValueError(
                f"{where} allows the unknown decision {decision!r}. "
                f"Decisions are {', '.join(DECISIONS)}."
            )
    return tuple(allowed)


def _description(where: str, setting: Mapping[str, Any]) -> str:
    description = setting.get("description", "")
    if not isinstance(description, str):
        raise ValueError(f"{where} has a description that is no text: {description!r}.")
    return description


def calls_to_review(message: AIMessage, policies: Policies) -> list[ToolCall]:
    """The calls that a human must decide on. One whose arguments do not fit is not worth asking."""
    return [
        call
        for call in message.tool_calls
        if call["name"] in policies and not misfit(policies[call["name"]].tool, call["args"])
    ]


def build_request(
    calls: Sequence[ToolCall], policies: Policies, started: Container[str | None] = ()
) -> Request:
    """The request for a human's decisions on these calls, each argument in full.

    Args:
        calls: The calls.
        policies: How each of their tools is reviewed.
        started: The ids of those that were approved and started before, which a human is told.
    """
    return {
        "action_requests": [
            _action(call, policies[call["name"]], call["id"] in started) for call in calls
        ],
        "review_configs": [_review_config(policies[call["name"]]) for call in calls],
    }


def with_error(request: Request, problem: str) -> Request:
    """The request once more, saying what was wrong with the last answer.

    It also stands at the head of each description, which is what most clients show.
    """
    actions = [
        action | {"description": f"{problem}\n\n{action['description']}"}
        for action in request["action_requests"]
    ]
    return request | {"action_requests": actions, "error": problem}


def _action(call: ToolCall, policy: Policy, started: bool) -> dict[str, Any]:
    description = policy.description or _in_words(call)
    return {
        "name": call["name"],
        "args": call["args"],
        # Agent Inbox reads them under this name.
        "arguments": call["args"],
        "description": f"{STARTED_BEFORE}\n\n{description}" if started else description,
        "id": call["id"],
    }


def _in_words(call: ToolCall) -> str:
    args = (f"{name}: {_as_text(value)}" for name, value in call["args"].items())
    return "\n".join([f"The agent asks to run {call['name']} with:", *args])


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _review_config(policy: Policy) -> dict[str, Any]:
    return {
        "action_name": policy.tool.name,
        "allowed_decisions": list(policy.allowed),
        "args_schema": schema_of(policy.tool),
    }


def read_answer(answer: object, calls: Sequence[ToolCall], policies: Policies) -> Decisions:
    """The decisions of an answer, by the id of their call.

    Args:
        answer: What the resume brought: `{"decisions": [...]}`, a bare decision, or Agent
            Inbox's list.
        calls: The calls of the request, in its order.
        policies: What is allowed.

    Raises:
        BadAnswer: If it is not exactly one allowed decision for every call.
    """
    given = [_as_decision(item) for item in _listed(answer, len(calls))]
    if len(given) != len(calls):
        raise BadAnswer(_expected(f"{len(given)} decisions came.", len(calls)))
    return {
        str(call["id"]): _decision(one, call, policies[call["name"]])
        for call, one in zip(calls, _in_order(given, calls), strict=True)
    }


def _listed(answer: object, count: int) -> list[Any]:
    match answer:
        case {"decisions": [*decisions]} | [*decisions]:
            return decisions
        case {"type": _}:
            return [answer]
    raise BadAnswer(_expected(f"The answer was {_shown(answer)}.", count))


def _expected(problem: str, count: int) -> str:
    calls = "one call waits" if count == 1 else f"{count} calls wait"
    return (
        f"{problem} But {calls}: please answer with "
        f'{{"decisions": [...]}} that has {count}, each with a "type".'
    )


def _shown(value: object) -> str:
    """A value as it can stand in a sentence."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _as_decision(item: object) -> dict[str, Any]:
    """One decision, with Agent Inbox's words turned into LangChain's."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise BadAnswer(
            f"A decision was {_shown(item)}; each must be an object with a "
            f'"type", one of {", ".join(DECISIONS)}.'
        )
    match item:
        case {"type": "accept"}:
            return item | {"type": "approve"}
        case {"type": "ignore"}:
            return item | {"type": "reject"}
        case {"type": "response", "args": message}:
            return item | {"type": "respond", "message": message}
        case {"type": "edit", "args": {"action": name, "args": args}}:
            return item | {"edited_action": {"name": name, "args": args}}
    return item


def _in_order(given: list[dict[str, Any]], calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """The decisions in the order of the calls: by id where they carry one, else as they came."""
    ids = [one.get("id") for one in given]
    if all(id is None for id in ids):
        return given
    wanted = [call["id"] for call in calls]
    if sorted(map(repr, ids)) != sorted(map(repr, wanted)):
        raise BadAnswer(
            f"The decisions have the ids {_shown(ids)}; the calls that wait have "
            f"{', '.join(map(str, wanted))}. Give each call's id once, or no ids at all."
        )
    by_id = dict(zip(ids, given, strict=True))
    return [by_id[id] for id in wanted]


def _decision(given: dict[str, Any], call: ToolCall, policy: Policy) -> Decision:
    kind = given["type"]
    if kind not in policy.allowed:
        raise BadAnswer(
            f"{kind!r} is no decision on {call['name']}; it takes {', '.join(policy.allowed)}."
        )
    if kind == "approve":
        return {"type": kind}
    if kind == "edit":
        return {"type": kind, "args": _edited_args(given.get("edited_action"), call, policy.tool)}
    message = given.get("message") or ""
    if not isinstance(message, str) or (kind == "respond" and not message.strip()):
        raise BadAnswer(
            f"The {kind} of {call['name']} needs a text as its message; "
            f"it was {_shown(given.get('message'))}."
        )
    return {"type": kind, "message": message}


def _edited_args(action: object, call: ToolCall, tool: BaseTool) -> dict[str, Any]:
    match action:
        case {"name": tool.name, "args": dict(args)}:
            pass
        case {"name": str(name)} if name != tool.name:
            raise BadAnswer(
                f"An edit may not change {tool.name} into {name}; "
                f"reject the call and say what to do instead."
            )
        case _:
            raise BadAnswer(
                f"The edit of {tool.name} needs "
                f'{{"edited_action": {{"name": "{tool.name}", "args": {{...}}}}}}; '
                f"its edited_action was {_shown(action)}."
            )
    try:
        return fitted(tool, args)
    except Exception as error:  # noqa: BLE001 (raised here, it would come back on every resume)
        raise BadAnswer(f"The edited arguments of {tool.name} do not fit: {error}.") from None


def awaiting(message: AIMessage, policies: Policies) -> AIMessage:
    """The message, marked if a human must decide before any of its calls may run."""
    if not calls_to_review(message, policies):
        return message
    metadata = message.response_metadata | {AWAITS_REVIEW: True}
    return message.model_copy(update={"response_metadata": metadata})


def decided(message: AIMessage, tasks: Sequence[ToolTask]) -> AIMessage:
    """The message with its edited calls, under the same ids and in the same places, unmarked."""
    args = {task["call"]["id"]: task["call"]["args"] for task in tasks if "note" in task}
    metadata = {k: v for k, v in message.response_metadata.items() if k != AWAITS_REVIEW}
    if not args:
        return message.model_copy(update={"response_metadata": metadata})
    calls = [call | {"args": args.get(call["id"], call["args"])} for call in message.tool_calls]
    return rebuilt(message, tool_calls=calls, response_metadata=metadata)


def tasks_of(
    message: AIMessage,
    policies: Policies,
    decisions: Decisions,
    reviewer: str | None = None,
    started: Container[str | None] = (),
) -> list[ToolTask]:
    """What becomes of every call of a message on whose reviewed calls was decided.

    Args:
        message: The message as the model made it.
        policies: What is reviewed.
        decisions: What was decided on the calls to review, by their ids.
        reviewer: Who decided, where the server knows.
        started: The ids of the calls that were approved and started before.
    """
    tasks = [
        _task(message, call, policies.get(call["name"] or ""), decisions, reviewer)
        for call in calls_of(message)
    ]
    for task in tasks:
        if "answer" in task and task["call"]["id"] in started:
            task["answer"]["content"] += f"\n{STARTED_ALL_THE_SAME}"
    return tasks


def _task(
    message: AIMessage,
    call: AnyToolCall,
    policy: Policy | None,
    decisions: Decisions,
    reviewer: str | None,
) -> ToolTask:
    if policy is None or call["type"] != "tool_call":
        return task_for(message, call)
    decision = decisions.get(str(call["id"]))
    if decision is None:
        # Never run what nobody decided on, should the tool be more lenient than its schema.
        return answered(message, call, misfit(policy.tool, call["args"]), "error")
    task = _decided_task(message, call, decision)
    runs = "answer" not in task
    task["review"] = {
        "decision": decision["type"],
        "message": decision.get("message"),
        "original_args": call["args"],
        "final_args": task["call"]["args"] if runs else None,
        "decided_by": reviewer,
    }
    return task


def _decided_task(message: AIMessage, call: ToolCall, decision: Decision) -> ToolTask:
    words = decision.get("message", "")
    match decision["type"]:
        case "approve":
            return task_for(message, call)
        case "edit":
            ran = json.dumps(decision["args"], ensure_ascii=False)
            task = task_for(message, call | {"args": decision["args"]})
            return task | {"note": f"A human edited this call. It ran with {ran}."}
        case "respond":
            return answered(message, call, words, "success")
        case "reject":
            reason = f" The reason: {words}" if words.strip() else ""
            text = f"Not executed: a human rejected this call.{reason}"
            return answered(message, call, text, "error")
