"""Reviews as pure functions: policies, requests and answers, as tables."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from langchain_core.tools import StructuredTool
from pydantic import AfterValidator

from graphs.history import AWAITS_REVIEW, result_id
from graphs.review import (
    STARTED_BEFORE,
    BadAnswer,
    awaiting,
    build_request,
    calls_to_review,
    decided,
    read_answer,
    read_policies,
    tasks_of,
    with_error,
)


def known_zone(name: str) -> str:
    ZoneInfo(name)  # raises a KeyError
    return name


Zone = Annotated[str, AfterValidator(known_zone)]


def send(to: str, text: str, copies: int = 1) -> str:
    """Send a letter."""
    return f"sent {copies} to {to}: {text}"


def delete(path: str) -> str:
    """Delete a file."""
    return path


SEND = StructuredTool.from_function(send)
DELETE = StructuredTool.from_function(delete)
# As MCP clients build them: a plain JSON schema, no pydantic model.
REMOTE = StructuredTool.from_function(
    func=lambda **_: "",
    name="remote",
    description="Does it elsewhere.",
    args_schema={
        "type": "object",
        "properties": {"count": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["count"],
        "additionalProperties": False,
    },
)


def mixed(when: date, tags: Sequence[str] = (), size: int | None = None, zone: Zone = "UTC") -> str:
    """Take values that a form sends as text."""
    return f"{when} {tags} {size} {zone}"


MIXED = StructuredTool.from_function(mixed)
# A pattern that JSON Schema allows, and that Python cannot read.
UNCHECKED = StructuredTool.from_function(
    func=lambda **_: "",
    name="unchecked",
    description="Has a schema that cannot be checked here.",
    args_schema={"type": "object", "properties": {"x": {"type": "string", "pattern": "\\p{L}"}}},
)
FREE = StructuredTool.from_function(
    func=lambda **_: "", name="free", description="Takes anything.", args_schema={"type": "object"}
)
TOOLS = [SEND, DELETE, REMOTE, MIXED, UNCHECKED, FREE]
POLICIES = read_policies(
    {
        "send": True,
        "delete": {"allowed_decisions": ["approve", "reject"], "description": "Deletes for good."},
        "remote": True,
        "mixed": True,
        "unchecked": True,
        "free": True,
    },
    TOOLS,
)


def call(name: str, id_: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=id_, type="tool_call")


A = call("send", "a", to="ann", text="hi", copies=2)
B = call("send", "b", to="bob", text="ho")
D = call("delete", "d", path="/tmp/x")
R = call("remote", "r", count=1)
M = call("mixed", "m", when="2026-01-01")
APPROVE = {"type": "approve"}


@pytest.mark.parametrize(
    ("interrupt_on", "message"),
    [
        ({"sendd": True}, "interrupt_on names 'sendd', which is no tool here. Tools: send, delete"),
        ({"send": {"allowed_decisions": []}}, r"interrupt_on\['send'\] needs allowed_decisions"),
        ({"send": {}}, "needs allowed_decisions"),
        ({"send": {"allowed_decisions": "approve"}}, "needs allowed_decisions, a list"),
        ({"send": {"allowed_decisions": ["aprove"]}}, "unknown decision 'aprove'"),
        ({"send": {"allowed": ["approve"]}}, "unknown key allowed. Its keys are"),
        ({"send": {"allowed_decisions": ["approve"], "description": 7}}, "no text: 7"),
        ({"send": "yes"}, "is 'yes'. Expected True, False or"),
        ({"send": None}, "is None. Expected"),
        ({"send": 1}, "is 1. Expected"),
        ({"send": ["approve"]}, "Expected True, False or"),
    ],
)
def test_a_mistake_in_the_policy_stops_the_build(interrupt_on: Any, message: str) -> None:
    """Case 31: never a call that is approved because its policy was mistyped."""
    with pytest.raises(ValueError, match=message):
        read_policies(interrupt_on, TOOLS)


def test_false_means_no_review() -> None:
    assert read_policies({"send": False}, TOOLS) == {}


def test_the_request_is_langchains_with_everything_in_full() -> None:
    long = call("send", "l", to="ann, bob, " * 500, text="x" * 30_000)
    request = build_request([long, D], POLICIES)
    first, second = request["action_requests"]
    assert first["name"] == "send"
    assert first["args"] == first["arguments"] == long["args"]
    assert first["id"] == "l"
    assert long["args"]["to"] in first["description"]
    assert long["args"]["text"] in first["description"]
    assert second["description"] == "Deletes for good."
    config, other = request["review_configs"]
    assert config["action_name"] == "send"
    assert config["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert config["args_schema"]["required"] == ["to", "text"]
    assert other["allowed_decisions"] == ["approve", "reject"]


def test_the_request_says_which_calls_may_have_happened_already() -> None:
    first, second = build_request([A, D], POLICIES, {D["id"]})["action_requests"]
    assert first == build_request([A], POLICIES)["action_requests"][0]
    assert second["description"] == f"{STARTED_BEFORE}\n\nDeletes for good."


def test_the_error_stands_in_the_request_and_at_the_head_of_each_description() -> None:
    request = build_request([A, D], POLICIES)
    again = with_error(request, "That was wrong.")
    assert again["error"] == "That was wrong."
    assert all(a["description"].startswith("That was wrong.\n") for a in again["action_requests"])
    assert "error" not in request
    assert with_error(request, "Other.")["action_requests"][1]["description"] == (
        "Other.\n\nDeletes for good."
    )


@pytest.mark.parametrize(
    ("args", "reviewed"),
    [
        ({"to": "ann", "text": "hi"}, True),
        ({"to": "ann"}, False),
        ({"to": "ann", "text": "hi", "copies": "many"}, False),
    ],
)
def test_a_call_that_does_not_fit_is_not_worth_a_humans_time(
    args: dict[str, Any], reviewed: bool
) -> None:
    message = AIMessage("", tool_calls=[call("send", "a", **args)])
    assert bool(calls_to_review(message, POLICIES)) is reviewed
    (task,) = tasks_of(message, POLICIES, {})
    assert "answer" in task, "what nobody decided on never runs"


def test_a_tool_that_does_not_exist_never_reaches_the_reviewer() -> None:
    """Case 32."""
    message = AIMessage("", tool_calls=[call("nope", "n"), A])
    assert calls_to_review(message, POLICIES) == [A]


def edit(name: Any, args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


EDIT = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve", "text": "yo"}}}
EDITED = {"type": "edit", "args": {"to": "eve", "text": "yo"}}

GOOD: list[tuple[str, Any, list[ToolCall], dict[str, Any]]] = [
    ("approve", {"decisions": [APPROVE]}, [A], {"a": APPROVE}),
    ("edit", {"decisions": [EDIT]}, [A], {"a": EDITED}),
    ("reject", {"decisions": [{"type": "reject"}]}, [A], {"a": {"type": "reject", "message": ""}}),
    (
        "reject with a reason",
        {"decisions": [{"type": "reject", "message": "no"}]},
        [A],
        {"a": {"type": "reject", "message": "no"}},
    ),
    (
        "respond",
        {"decisions": [{"type": "respond", "message": "I did"}]},
        [A],
        {"a": {"type": "respond", "message": "I did"}},
    ),
    (
        "by position",
        {"decisions": [APPROVE, {"type": "reject"}]},
        [A, B],
        {"a": APPROVE, "b": {"type": "reject", "message": ""}},
    ),
    (
        "case 29: by id, in another order",
        {"decisions": [{"type": "reject", "id": "b"}, {"type": "approve", "id": "a"}]},
        [A, B],
        {"a": APPROVE, "b": {"type": "reject", "message": ""}},
    ),
    ("a bare decision", APPROVE, [A], {"a": APPROVE}),
    ("a list of decisions", [APPROVE], [A], {"a": APPROVE}),
    ("Agent Inbox: accept", [{"type": "accept", "args": None}], [A], {"a": APPROVE}),
    (
        "Agent Inbox: edit",
        [{"type": "edit", "args": {"action": "send", "args": {"to": "eve", "text": "yo"}}}],
        [A],
        {"a": EDITED},
    ),
    (
        "Agent Inbox: response",
        [{"type": "response", "args": "I did"}],
        [A],
        {"a": {"type": "respond", "message": "I did"}},
    ),
    (
        "Agent Inbox: ignore",
        [{"type": "ignore", "args": None}],
        [A],
        {"a": {"type": "reject", "message": ""}},
    ),
    (
        "edited values as a form's text",
        {
            "type": "edit",
            "edited_action": {"name": "send", "args": {"to": "e", "text": "3", "copies": "3"}},
        },
        [A],
        {"a": {"type": "edit", "args": {"to": "e", "text": "3", "copies": 3}}},
    ),
    (
        "a form's texts in every type",
        edit("mixed", {"when": "2026-02-03", "tags": '["a", "b"]', "size": "4"}),
        [M],
        {"m": {"type": "edit", "args": {"when": "2026-02-03", "tags": ["a", "b"], "size": 4}}},
    ),
    (
        "a schema that cannot be checked is the server's to check",
        edit("unchecked", {"x": "y"}),
        [call("unchecked", "u", x="a")],
        {"u": {"type": "edit", "args": {"x": "y"}}},
    ),
    (
        "a tool that takes anything",
        edit("free", {"x": "y"}),
        [call("free", "f", a="b")],
        {"f": {"type": "edit", "args": {"x": "y"}}},
    ),
    (
        "the same for a tool with a plain JSON schema",
        {
            "type": "edit",
            "edited_action": {"name": "remote", "args": {"count": "3", "note": "4"}},
        },
        [R],
        {"r": {"type": "edit", "args": {"count": 3, "note": "4"}}},
    ),
]


@pytest.mark.parametrize(
    ("answer", "calls", "expected"), [g[1:] for g in GOOD], ids=[g[0] for g in GOOD]
)
def test_a_good_answer(answer: Any, calls: list[ToolCall], expected: dict[str, Any]) -> None:
    assert read_answer(answer, calls, POLICIES) == expected


BAD: list[tuple[Any, list[ToolCall], str]] = [
    # Case 22, 24: what is no answer at all.
    ("yes", [A], "one call waits"),
    ("", [A], "one call waits"),
    (None, [A], "The answer was None"),
    (True, [A], "The answer was True"),
    (7, [A], "The answer was 7"),
    ({}, [A], "one call waits"),
    ([], [A], "0 decisions came"),
    ({"decisions": None}, [A], "one call waits"),
    ({"decisions": "approve"}, [A], "one call waits"),
    ({"decisions": {"type": "approve"}}, [A], "one call waits"),
    ("x" * 10_000, [A], "x…"),
    # Case 30: a wrong count.
    ({"decisions": []}, [A, B], "0 decisions came. But 2 calls wait"),
    ({"decisions": [APPROVE]}, [A, B], "1 decisions came. But 2 calls wait"),
    ({"decisions": [APPROVE] * 3}, [A, B], "3 decisions came"),
    ({"decisions": [APPROVE] * 4}, [A, B], "4 decisions came"),
    (APPROVE, [A, B], "1 decisions came"),
    # What is no decision.
    ({"decisions": ["approve"]}, [A], "A decision was 'approve'"),
    ({"decisions": [None]}, [A], "A decision was None"),
    ({"decisions": [{}]}, [A], "A decision was {}"),
    ({"decisions": [{"type": None}]}, [A], "each must be an object"),
    ({"decisions": [{"type": "aprove"}]}, [A], "'aprove' is no decision on send"),
    ({"decisions": [{"type": "APPROVE"}]}, [A], "'APPROVE' is no decision"),
    # What is not allowed.
    ({"decisions": [{"type": "respond", "message": "x"}]}, [D], "it takes approve, reject"),
    ({"decisions": [edit("delete", {"path": "/"})]}, [D], "'edit' is no decision on delete"),
    # Case 28: another tool's name.
    ({"decisions": [edit("delete", {"path": "/"})]}, [A], "may not change send into delete"),
    ({"decisions": [edit("", {})]}, [A], "may not change send into"),
    # What cannot be edited so.
    ({"decisions": [{"type": "edit"}]}, [A], "its edited_action was None"),
    ({"decisions": [{"type": "edit", "edited_action": []}]}, [A], "its edited_action was"),
    ({"decisions": [edit(None, {})]}, [A], "its edited_action was"),
    ({"decisions": [edit("send", None)]}, [A], "its edited_action was"),
    ({"decisions": [edit("send", "x")]}, [A], "its edited_action was"),
    ({"decisions": [edit("send", {"to": "x"})]}, [A], "text: Field required"),
    ({"decisions": [edit("send", {"to": "x", "text": ["y"]})]}, [A], "text: Input should be"),
    (
        {"decisions": [edit("send", {"to": "x", "text": "y", "copies": "many"})]},
        [A],
        "copies: Input should be a valid integer",
    ),
    (
        {"decisions": [edit("send", {"to": "x", "text": "y", "bcc": "z"})]},
        [A],
        "send has no argument bcc; it has to, text, copies",
    ),
    ({"decisions": [edit("remote", {"count": "many"})]}, [R], "count: 'many' is not of type"),
    ({"decisions": [edit("remote", {"note": "x"})]}, [R], "'count' is a required property"),
    (
        {"decisions": [edit("remote", {"count": 1, "x": 1})]},
        [R],
        "remote has no argument x; it has count, note",
    ),
    ({"decisions": [edit("mixed", {"when": "soon"})]}, [M], "when: Input should be a valid date"),
    (
        {"decisions": [edit("mixed", {"when": "2026-01-01", "zone": "Mars/Base"})]},
        [M],
        "No time zone found with key Mars/Base",
    ),
    # Words that are none.
    ({"decisions": [{"type": "respond"}]}, [A], "needs a text as its message"),
    ({"decisions": [{"type": "respond", "message": "  "}]}, [A], "needs a text"),
    ({"decisions": [{"type": "respond", "message": {"a": 1}}]}, [A], "needs a text"),
    ({"decisions": [{"type": "reject", "message": 7}]}, [A], "needs a text"),
    # Ids that do not match, repeat, or are half there.
    ({"decisions": [{**APPROVE, "id": "z"}]}, [A], "the calls that wait have a"),
    ({"decisions": [{**APPROVE, "id": "a"}] * 2}, [A, B], "Give each call's id once"),
    ({"decisions": [{**APPROVE, "id": "a"}, APPROVE]}, [A, B], "Give each call's id once"),
    ({"decisions": [{**APPROVE, "id": ["a"]}]}, [A], "the calls that wait have a"),
    ({"decisions": [{**APPROVE, "id": 0}]}, [A], "the calls that wait have a"),
]


@pytest.mark.parametrize(("answer", "calls", "said"), BAD, ids=range(len(BAD)))
def test_anything_else_is_no_answer(answer: Any, calls: list[ToolCall], said: str) -> None:
    with pytest.raises(BadAnswer) as error:
        read_answer(answer, calls, POLICIES)
    assert str(error.value).startswith("Nothing was run. ")
    assert said in str(error.value)
    assert len(str(error.value)) < 500


def test_an_edit_replaces_the_call_in_its_place() -> None:
    """Case 27: under the same ids, with nothing of the old arguments left."""
    message = AIMessage(
        [{"type": "text", "text": "I will write."}, {"type": "tool_use", "id": "b", "input": {}}],
        id="m",
        tool_calls=[A, B],
        additional_kwargs={"tool_calls": [{"id": "b", "function": {"arguments": "ho"}}]},
    )
    decisions = read_answer({"decisions": [APPROVE, EDIT]}, [A, B], POLICIES)
    edited = decided(message, tasks_of(message, POLICIES, decisions))
    assert edited.id == "m"
    assert edited.content == "I will write."
    assert edited.tool_calls == [A, call("send", "b", to="eve", text="yo")]
    assert not edited.additional_kwargs


def test_without_an_edit_only_the_mark_goes() -> None:
    content: list[Any] = [{"type": "text", "text": "I will."}, {"type": "reasoning", "id": "r"}]
    message = AIMessage(content, tool_calls=[A], response_metadata={"model_name": "m"})
    marked = awaiting(message, POLICIES)
    assert marked.response_metadata == {"model_name": "m", AWAITS_REVIEW: True}
    tasks = tasks_of(marked, POLICIES, {"a": {"type": "approve"}})
    assert decided(marked, tasks) == message


def test_a_message_that_nobody_must_decide_on_is_not_marked() -> None:
    message = AIMessage("", tool_calls=[call("other", "o"), call("send", "a", to="x")])
    assert awaiting(message, POLICIES) is message


def test_what_becomes_of_each_call() -> None:
    """Case 20: one task for every call, and only what was approved or edited runs."""
    plain = call("other", "o")
    message = AIMessage("", id="m", tool_calls=[A, B, D, plain, R])
    answer = {"decisions": [APPROVE, EDIT, {"type": "reject", "message": "Keep it."},
                            {"type": "respond", "message": "It is 7."}]}  # fmt: skip
    decisions = read_answer(answer, [A, B, D, R], POLICIES)
    approved, edited, rejected, unreviewed, responded = tasks_of(
        message, POLICIES, decisions, "ann"
    )
    assert approved["call"] == A
    assert "answer" not in approved
    assert unreviewed == {"call": plain, "result_id": result_id(message, plain)}
    assert edited["call"]["args"] == {"to": "eve", "text": "yo"}
    assert "A human edited this call" in edited["note"]
    assert "Not executed" in rejected["answer"]["content"]
    assert "Keep it." in rejected["answer"]["content"]
    assert responded["answer"] == {"content": "It is 7.", "status": "success"}
    reviews = [task["review"] for task in (approved, edited, rejected, responded)]
    assert reviews == [
        review("approve", None, A["args"], A["args"]),
        review("edit", None, B["args"], {"to": "eve", "text": "yo"}),
        review("reject", "Keep it.", D["args"], None),
        review("respond", "It is 7.", R["args"], None),
    ]


def review(decision: str, message: str | None, original: Any, final: Any) -> dict[str, Any]:
    return {
        "decision": decision,
        "message": message,
        "original_args": original,
        "final_args": final,
        "decided_by": "ann",
    }


@pytest.mark.parametrize(
    ("bad", "fits"),
    [
        (call("remote", "r", count="many"), False),
        (call("remote", "r", count=1, x=2), False),
        (call("remote", "r", count=1), True),
        (call("mixed", "m", when="2026-01-01", zone="Mars/Base"), False),
        (call("unchecked", "u", x="y"), True),
        (call("free", "f", x="y"), True),
    ],
)
def test_every_kind_of_schema_is_asked_before_a_human_is(bad: ToolCall, fits: bool) -> None:
    message = AIMessage("", tool_calls=[bad])
    assert bool(calls_to_review(message, POLICIES)) is fits


def test_a_malformed_call_beside_an_edited_one_keeps_its_place() -> None:
    broken = InvalidToolCall(
        type="invalid_tool_call", name="send", args="{", id="x", error="no JSON"
    )
    message = AIMessage(
        "text",
        id="m",
        name="writer",
        tool_calls=[B],
        invalid_tool_calls=[broken],
        response_metadata={"model_name": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    decisions = read_answer({"decisions": [EDIT]}, [B], POLICIES)
    edited = decided(message, tasks_of(message, POLICIES, decisions))
    for kept in ("content", "name", "invalid_tool_calls", "response_metadata", "usage_metadata"):
        assert getattr(edited, kept) == getattr(message, kept)
    _, task = tasks_of(message, POLICIES, decisions)
    assert task["answer"]["status"] == "error"
