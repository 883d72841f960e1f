"""What models, humans and clients may do next, as hypothesis draws it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.property.ledger import Args

Json = Any
Request = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call as a model may make it. `rounds` are the subagent's, if it is a delegation."""

    tool: str
    id: str
    text: str
    number: int
    fails: bool = False
    rounds: tuple["Round", ...] = ()


Round = tuple[Call, ...]


@dataclass(frozen=True)
class Forgery:
    """A message of a client's own, in the agent's name: a result, or a message with a call."""

    is_result: bool
    id: str | None
    call_id: str


@dataclass(frozen=True)
class Decision:
    """One human decision, before it is known what about."""

    type: str
    text: str
    number: int
    as_strings: bool


LONG = "a long letter"
"""Stands for one, so that a failing example stays readable."""

texts = st.text(max_size=12) | st.text(max_size=3) | st.just(LONG)
numbers = st.integers(-5, 5)
remarks = st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip()))


def words(text: str) -> str:
    return "All of this letter counts. " * 1_000 if text == LONG else text


call_ids = st.sampled_from(["fresh", "fresh", "", "a", "b"])
"""No id, an id that comes again and again, or a fresh one."""

impossible = st.sampled_from(["unknown", "un known", "misfit", "malformed"])


def calls(tools: st.SearchStrategy[str]) -> st.SearchStrategy[Call]:
    fails = st.sampled_from([False, False, False, True])
    return st.builds(Call, tools | tools | impossible, call_ids, texts, numbers, fails)


def rounds_of(call: st.SearchStrategy[Call], most: int) -> st.SearchStrategy[tuple[Round, ...]]:
    round_ = st.lists(call, min_size=1, max_size=4).map(tuple)
    return st.lists(round_, max_size=most).map(tuple)


plain_call = calls(st.sampled_from(["send", "post", "look"]))
delegation = st.builds(
    Call,
    st.sampled_from(["clerk", "clerk", "scout"]),
    call_ids,
    texts,
    numbers,
    st.just(False),
    rounds_of(plain_call, most=2),
)
plain_turns = rounds_of(plain_call, most=2)
supervisor_turns = rounds_of(delegation | calls(impossible), most=2)

forgeries = st.lists(
    st.builds(
        Forgery,
        st.sampled_from([True, True, False]),
        st.sampled_from([None, "do-not-render-1", "forged-2"]),
        st.sampled_from(["pending", "earlier", "a", "b", "nobody"]),
    ),
    max_size=2,
)
decisions = st.builds(
    Decision,
    st.sampled_from(["approve", "approve", "edit", "reject", "respond"]),
    remarks,
    numbers,
    st.booleans(),
)
forms = st.sampled_from(["by position", "by id", "inbox", "bare"])


def answer_in(
    form: str, decided: Sequence[dict[str, Any]], ids: Sequence[str], shuffle: Callable[..., None]
) -> Json:
    """Good decisions, in LangChain's words and the calls' order, as some client sends them."""
    if form == "bare" and len(decided) == 1:
        return decided[0]
    if form == "inbox":
        return [_in_inbox_words(one) for one in decided]
    if form == "by id":
        with_ids = [one | {"id": id} for one, id in zip(decided, ids, strict=True)]
        shuffle(with_ids)
        return {"decisions": with_ids}
    return {"decisions": list(decided)}


def _in_inbox_words(decision: dict[str, Any]) -> dict[str, Any]:
    match decision:
        case {"type": "edit", "edited_action": {"name": name, "args": args}}:
            return {"type": "edit", "args": {"action": name, "args": args}}
        case {"type": "respond", "message": message}:
            return {"type": "response", "args": message}
        case {"type": "reject"}:
            return decision | {"type": "ignore", "args": None}
    return {"type": "accept", "args": None}


APPROVE = {"type": "approve"}


def approve_all(request: Request) -> list[dict[str, Any]]:
    return [dict(APPROVE) for _ in request["action_requests"]]


def one_too_many(request: Request) -> Json:
    return {"decisions": [*approve_all(request), APPROVE]}


def one_too_few(request: Request) -> Json:
    return {"decisions": approve_all(request)[1:]}


def unknown_decision(request: Request) -> Json:
    return {"decisions": [*approve_all(request)[1:], {"type": "aprove"}]}


def another_tool(request: Request) -> Json:
    action = {"name": "look", "args": {"text": "instead"}}
    return {"decisions": [{"type": "edit", "edited_action": action}, *approve_all(request)[1:]]}


def with_args(request: Request, args: Args) -> Json:
    first, *_ = request["action_requests"]
    action = {"name": first["name"], "args": args}
    return {"decisions": [{"type": "edit", "edited_action": action}, *approve_all(request)[1:]]}


def misfitting_number(request: Request) -> Json:
    return with_args(request, {"text": "x", "number": "many"})


def missing_text(request: Request) -> Json:
    return with_args(request, {"number": 1})


def unknown_argument(request: Request) -> Json:
    return with_args(request, {"text": "x", "cc": "boss"})


def strange_ids(request: Request) -> Json:
    return {"decisions": [one | {"id": "nobody"} for one in approve_all(request)]}


def ids_that_are_none(request: Request) -> Json:
    return {"decisions": [one | {"id": ["a"]} for one in approve_all(request)]}


def one_id_for_all_but_one(request: Request) -> Json:
    ids = [action["id"] for action in request["action_requests"]]
    given = [one | {"id": ids[0]} for one in approve_all(request)]
    return {"decisions": [*given, given[0]] if len(given) == 1 else given}


def empty_response(request: Request) -> Json:
    return {"decisions": [{"type": "respond", "message": " "}, *approve_all(request)[1:]]}


def bare_for_several(request: Request) -> Json:
    several = len(request["action_requests"]) > 1
    return APPROVE if several else {"type": "approved"}


storable = st.integers(-(2**63), 2**63 - 1)
"""LangGraph stores no other: such an answer is a run's error before any node is asked, and the
review waits on."""

json_values = st.recursive(
    st.booleans() | storable | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
"""Never a good answer: no text that is drawn in practice is a decision's."""

bad_answers: st.SearchStrategy[Callable[[Request], Json]] = st.sampled_from(
    [
        *(one_too_many, one_too_few, unknown_decision, another_tool, bare_for_several),
        *(misfitting_number, missing_text, unknown_argument, empty_response),
        *(strange_ids, ids_that_are_none, one_id_for_all_but_one),
    ]
) | json_values.map(lambda value: lambda request: value)
