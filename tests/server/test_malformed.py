"""A thousand malformed answers: each leaves the review waiting, and the good one after them counts.

The dev server starts a run up to a second after it was asked for, so many threads are answered
at the same time.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.outbox import Outbox
from tests.server.chat import Chat, decide
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import call

ANSWERS = 1_000
THREADS = 50
SECONDS = 200
APPROVE = {"type": "approve"}
EMAIL = {"subject": "The plan", "body": "We start on Monday."}
ODD_TEXTS = ["", " ", "yes", "approve", "null", "\u202eevorppa", "é\u0301\U0001f4e7", "\\u0000"]
NO_TYPES: list[Any] = [
    *ODD_TEXTS[:3],
    "Approve",
    "approve ",
    "APPROVE",
    "approved",
    "delete",
    None,
    1,
    [],
]
NO_ARGUMENTS: list[Any] = [
    *({}, {"to": "bob@example.com"}, {**EMAIL, "to": None}, {**EMAIL, "to": {"bob": 1}}),
    *({**EMAIL, "to": "bob@example.com", "bcc": "eve@example.com"}, [], None, "to: bob", 7),
]
NO_ACTIONS: list[Any] = [
    *(None, {}, [], "send_email", {"name": "send_email"}, {"args": EMAIL}),
    {"name": "get_weather", "args": {"location": "Paris"}},
    {"name": "Send_Email", "args": {**EMAIL, "to": "bob@example.com"}},
]


def no_decisions() -> Iterator[Any]:
    """What is no decision on one email."""
    yield from (None, True, 0, -1.5, [], {}, [[APPROVE]], *ODD_TEXTS)
    yield from ({"type": kind} for kind in NO_TYPES)
    yield from ({"Type": "approve"}, {"decision": "approve"}, {"approve": True})
    for action in NO_ACTIONS:
        yield {"type": "edit", "edited_action": action}
    for args in NO_ARGUMENTS:
        yield {"type": "edit", "edited_action": {"name": "send_email", "args": args}}
        yield {"type": "edit", "args": {"action": "send_email", "args": args}}
    for message in (None, "", " \n", 7, ["text"], {"text": "no"}):
        yield {"type": "respond", "message": message}
        yield {"type": "response", "args": message}
    for id in ("mail_2", "MAIL_1", "mail_1 ", "", 1, ["mail_1"], {"id": "mail_1"}):
        yield APPROVE | {"id": id}


def no_answers(decision: Any) -> Iterator[Any]:
    """Answers around something that is no decision, or around a wrong number of good ones."""
    yield {"decisions": [decision]}
    yield [decision]
    yield {"decisions": decision} if decision != [APPROVE] else {"decisions": 7}
    yield {"decisions": [APPROVE, decision]}


def nested(depth: int) -> Any:
    value: Any = APPROVE
    for _ in range(depth):
        value = {"decisions": [value]}
    return value


ODD_ANSWERS: list[Any] = [
    *("yes", "", 7, 0, False, True, [], {"answer": {}}, {"decisions": []}, {"decisions": None}),
    *({"decision": [APPROVE]}, {"decisions": {"0": APPROVE}}, {"Decisions": [APPROVE]}),
    *([APPROVE, APPROVE], decide(APPROVE, APPROVE), decide(*[APPROVE] * 500)),
    *(nested(2), nested(50), json.dumps(decide(APPROVE)), "a" * 100_000, ["\U0001f4e7"] * 5_000),
    decide(APPROVE | {"id": "mail_1"}, APPROVE | {"id": "mail_1"}),
]


def malformed_answers() -> list[Any]:
    """As many as asked for, the odd ones first, then all the kinds again and again, shuffled."""
    around = [answer for decision in no_decisions() for answer in no_answers(decision)]
    random.Random(3).shuffle(around)
    return list(itertools.islice(itertools.cycle([*ODD_ANSWERS, *around]), ANSWERS))


async def insist(
    client: LangGraphClient, endpoint: OpenAIEndpoint, outbox: Outbox, answers: list[Any]
) -> None:
    """Answer one review badly again and again, and once well."""
    to = f"{uuid4().hex[:12]}@example.com"
    scene = endpoint.scene([call("send_email", {**EMAIL, "to": to}, "mail_1"), "Done."])
    chat = await Chat.open(client, "human_in_the_loop")
    await chat.say(f"{scene.marker} Send it.")
    asked = await chat.review()
    for answer in answers:
        await chat.resume({asked["id"]: answer})
        asked = await asked_again(chat, asked, answer)
    assert outbox.to(to) == []
    messages = await chat.resume({asked["id"]: decide(APPROVE)})
    assert messages[-1]["content"] == "Done."
    assert await chat.pending() == []
    assert await chat.status() == "idle"
    assert len(outbox.to(to)) == 1
    assert len(scene.requests) == 2, "the model was asked again"


async def asked_again(chat: Chat, before: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Return the new question about the same call, which says what was wrong with the answer."""
    shown = repr(answer)[:200]
    thread = await chat.client.threads.get(chat.thread)
    assert thread["status"] == "interrupted", shown
    waiting: Any = [one for found in thread["interrupts"].values() for one in found]
    now: dict[str, Any]
    (now,) = waiting
    assert now["id"] != before["id"], f"not asked again after {shown}"
    assert now["value"]["error"].startswith("Nothing was run."), shown
    assert len(now["value"]["error"]) < 1_000, f"no sentence for a person after {shown}"
    (action,) = now["value"]["action_requests"]
    assert action["args"] == before["value"]["action_requests"][0]["args"]
    return now


@pytest.mark.timeout(SECONDS + 30)
async def test_a_thousand_malformed_answers(
    client: LangGraphClient, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    """Cases 22, 28, 29 and 30."""
    answers = malformed_answers()
    shares = [answers[start::THREADS] for start in range(THREADS)]
    assert sum(map(len, shares)) == ANSWERS
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(insist(client, openai_endpoint, outbox, mine) for mine in shares))
