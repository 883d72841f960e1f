"""The evals: the agents as they are shipped, on whatever model the environment names.

`make eval` runs all requests of `cases.json`; `make test` those that the demo model understands.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langsmith import testing

from graphs.models import EnvironmentModel
from tests.evals.graders import grade
from tests.evals.transcript import AGENTS, Transcript, converse
from tests.outbox import Outbox
from tests.standins import weather_service

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
BY_NAME = {case["case"]: case for case in CASES}
ON_DEMO_MODEL = EnvironmentModel().model_name == "demo"


def requests() -> Iterator[Any]:
    """Each case with each of its requests, as parameters."""
    for case in CASES:
        for number, request in enumerate(case["requests"]):
            if request.get("demo") or not ON_DEMO_MODEL:
                name = f"{case['case']}-{request['language']}-{number}"
                yield pytest.param(case["case"], request["language"], request["turns"], id=name)


@pytest.fixture(autouse=True)
def world(
    request: pytest.FixtureRequest,
    outbox: Outbox,
    record_property: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weather is as the case says, and the table is told which case it is."""
    known = request.node.callspec.params
    record_property("case", known["case"])
    record_property("language", known["language"])
    case = BY_NAME[known["case"]]
    if "temperature" in case:
        monkeypatch.setitem(weather_service.CURRENT, "temperature_2m", case["temperature"])
    if "place" in case:
        place = weather_service.PLACES[0] | {"name": case["place"]}
        monkeypatch.setattr(weather_service, "PLACES", [place])


@pytest.mark.timeout(300)
@pytest.mark.langsmith
@pytest.mark.parametrize(("case", "language", "turns"), list(requests()))
async def test_agent(case: str, language: str, turns: list[str]) -> None:
    """Its arguments are the inputs of LangSmith's example."""
    known = BY_NAME[case]
    testing.log_reference_outputs(known["expect"])
    transcript = await converse(
        AGENTS[known["agent"]],
        turns,
        Outbox(Path(os.environ["OUTBOX_DIR"])),
        decision=known.get("decision", ""),
        limit=known.get("limit"),
    )
    testing.log_outputs(in_short(transcript))
    problems = grade(transcript, known["expect"])
    for grader, problem in problems.items():
        testing.log_feedback(key=grader, score=not problem)
    wrong = "; ".join(f"{grader}: {problem}" for grader, problem in problems.items() if problem)
    assert not wrong


def in_short(transcript: Transcript) -> dict[str, Any]:
    """What LangSmith keeps as the outcome."""
    return {
        "answer": transcript.answer,
        "calls": [{"name": call["name"], "args": call["args"]} for call in transcript.calls()],
        "waiting": [{"name": c["name"], "args": c["args"]} for c in transcript.waiting],
        "sent": transcript.sent,
    }
