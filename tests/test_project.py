"""The project's own files: what it asks for, and what must not stand in them."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

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


@pytest.mark.skipif(
    not (PROJECT / ".git").exists() or shutil.which("git") is None,
    reason="git says what is ignored: it is not installed, or this copy is no clone",
)
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


def make_setup(tmp_path: Path, python: str) -> "subprocess.CompletedProcess[str]":
    """Run `make setup` in a folder without an environment."""
    for file in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(PROJECT / file, tmp_path)
    command = ["make", "setup", f"PYTHON={python}"]
    # A make that runs the tests would tell this one to name the folders that it enters.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert not (tmp_path / ".venv").exists()
    return done


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    said = make_setup(tmp_path, "nonesuch").stdout
    assert said == (
        "There is no nonesuch. Name a Python 3.11 or newer: make setup PYTHON=python3.12\n"
    )


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert (
        f"{old} is older than Python 3.11. Name a newer one"
        in make_setup(tmp_path, str(old)).stdout
    )
