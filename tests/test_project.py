"""The project's own files: what it asks for, and what must not stand in them."""

import re
import subprocess
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent


def test_no_python_that_loses_interrupts_is_allowed() -> None:
    """Case 70: before 3.11 asyncio tasks do not carry the run's context."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"


def test_the_lock_pins_every_version_and_names_no_index() -> None:
    lines = (PROJECT / "requirements.lock").read_text("utf-8").splitlines()
    assert len(lines) > 50
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[\w.+!]+( ; .+)?", line)
        assert "://" not in line


def test_the_lock_has_every_dependency() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=]", wish)[0].lower() for wish in wanted}
    locked = {line.split("==")[0] for line in (PROJECT / "requirements.lock").read_text().split()}
    assert names <= locked


def test_what_runs_leave_behind_is_ignored() -> None:
    """Emails and keys must not end up in a commit."""
    for left in (
        "outbox/new/mail",
        "outbox.journal/1.json",
        ".env",
        ".langgraph_api/store.pckl",
        ".venv/bin/python",
    ):
        ignored = subprocess.run(["git", "check-ignore", "-q", left], cwd=PROJECT, check=False)
        assert ignored.returncode == 0, left
