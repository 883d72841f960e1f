"""`make eval`: what it prints of a model at an endpoint, and what LangSmith is sent."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from scripts.dev_server import PROJECT, environment
from tests.evals.report import HARNESS_ONLY
from tests.standins.langsmith_experiments import LangSmithExperiments
from tests.standins.langsmith_ingest import API_KEY as LANGSMITH_KEY
from tests.standins.openai_endpoint import API_KEY, MODEL, OpenAIEndpoint


def evaluate(
    cases: str, settings: Mapping[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    """Run the evals of these cases as `make eval` does, with a `.env` of these settings.

    By two workers instead of its four: what they make at LangSmith must be one experiment.
    """
    file = folder / ".env"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    shell = environment({"EVALS": str(file)})
    shell.pop("LANGSMITH_TEST_TRACKING")
    command = ["-m", "pytest", "tests/evals/test_agents.py", "-k", cases, "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, *command, "-n", "2", "--no-header", "--tb=line", "-r", "N"],
        cwd=PROJECT,
        env=shell,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_make_eval_runs_this() -> None:
    recipe = (PROJECT / "Makefile").read_text("utf-8").partition("\neval:")[2].partition("\n\n")[0]
    assert "EVALS=.env $(BIN)/python -m pytest tests/evals/test_agents.py" in recipe
    assert "-n 4 --no-header --tb=line -r N" in recipe


def test_the_table_of_a_model(tmp_path: Path) -> None:
    """One that asks for the recipient once, and else repeats what it was told."""
    with OpenAIEndpoint() as endpoint:
        endpoint.scene(["What is your boss's address?"], marker="Email my boss")
        model = {"AGENT_MODEL": f"openai:{MODEL}", "OPENAI_API_KEY": API_KEY}
        ran = evaluate("recipient", {**model, "OPENAI_BASE_URL": endpoint.url}, tmp_path)
        assert not endpoint.refusals
    assert ran.returncode == 1, ran.stdout
    rows = [line.split("  ") for line in ran.stdout.splitlines()]
    table = [[cell.strip() for cell in row if cell] for row in rows]
    assert ["en", "id", "passed"] in table
    assert ["asks for the recipient", "1/3", "0/2", "20 %"] in table
    assert ["asks for the recipient, supervisor", "0/3", "0/2", "0 %"] in table
    assert ["all", "1/6", "0/4", "10 %"] in table
    assert f"The model was {MODEL}." in ran.stdout
    assert "asks: it does not ask for the recipient: You said: Email Ana" in ran.stdout


def test_langsmith_keeps_an_experiment(tmp_path: Path) -> None:
    """The requests are examples of a dataset, and each one's run has its outcome and its grades."""
    with LangSmithExperiments() as langsmith:
        tracing = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": LANGSMITH_KEY}
        settings = {**tracing, "LANGSMITH_ENDPOINT": langsmith.url}
        ran = evaluate("right and time", settings, tmp_path)
        assert not langsmith.refusals
    assert ran.returncode == 0, ran.stdout
    assert HARNESS_ONLY in ran.stdout
    (dataset,), (experiment,) = langsmith.datasets.values(), langsmith.experiments.values()
    assert dataset["name"] == "langgraph-agents evals"
    assert experiment["reference_dataset_id"] == dataset["id"]
    assert experiment["name"].startswith("demo:")
    assert experiment["extra"]["metadata"]["model"] == "demo"
    asked = [one["inputs"] for one in langsmith.examples.values()]
    assert {
        "case": "right tool: time",
        "language": "id",
        "turns": ["Jam berapa di Tokyo?"],
    } in asked
    roots = [run for run in langsmith.every_run() if run["name"] == "test_agent"]
    assert len(roots) == len(asked) == 4
    assert all(run["outputs"]["calls"] for run in roots)
    grades = {(one["run_id"], one["key"]): one["score"] for one in langsmith.feedback}
    for run in roots:
        assert grades[run["id"], "pass"] == grades[run["id"], "calls"] == 1


@pytest.mark.parametrize("path", ["/datasets/1", "/nothing"])
def test_the_stand_in_is_strict(path: str) -> None:
    """What it refuses, it has read: the same connection goes on."""
    key, lost = {"x-api-key": LANGSMITH_KEY}, {"id": "1", "name": "lost"}
    with LangSmithExperiments() as langsmith, httpx.Client(base_url=langsmith.url) as client:
        assert client.patch(path, json=lost, headers=key).status_code == 404
        assert client.post("/datasets", json=lost).status_code == 403
        of_none = {**lost, "reference_dataset_id": "2"}
        assert client.post("/sessions", json=of_none, headers=key).status_code == 422
        assert len(langsmith.refusals) == 3


def test_the_stand_in_keeps_one_of_each_name() -> None:
    """As the real one says it, so that of several workers the second takes what the first made."""
    with LangSmithExperiments() as langsmith, httpx.Client(base_url=langsmith.url) as client:
        client.headers["x-api-key"] = LANGSMITH_KEY
        dataset = client.post("/datasets", json={"name": "evals"}).json()
        experiment = {"name": "demo", "reference_dataset_id": dataset["id"], "extra": {}}
        first = client.post("/sessions", json={"id": "1", **experiment})
        again = client.post("/sessions", json={"id": "2", **experiment})
        assert (first.status_code, again.status_code) == (200, 409)
        assert client.post("/datasets", json={"name": "evals"}).status_code == 409
        assert client.get("/sessions", params={"name": "demo"}).json() == [first.json()]
        assert client.get("/sessions", params={"name": "other"}).json() == []
        assert langsmith.refusals == []
