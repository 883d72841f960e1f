"""The README's SDK example and its commands, run as they are written."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from scripts.dev_server import DevServer
from tests.outbox import Outbox
from tests.test_readme import blocks, section

PROJECT = Path(__file__).parent.parent.parent


def run_python(*arguments: str) -> str:
    """What a Python process prints; a failure if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**os.environ, "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_sdk_example_runs(demo_server: DevServer, demo_outbox: Outbox) -> None:
    before = len(demo_outbox.to("bob@example.com"))
    (example,) = [block for block in blocks("python") if block.startswith("# sdk:")]
    printed = run_python("-c", example.replace("http://127.0.0.1:2024", demo_server.url))
    assert "waits for a human: [{'name': 'send_email'" in printed
    assert "bob@example.com" in printed.splitlines()[-1]
    assert len(demo_outbox.to("bob@example.com")) == before + 1


def test_the_commands_run(demo_server: DevServer) -> None:
    commands = [
        line.split("#")[0].strip()
        for line in section("Two commands").splitlines()
        if line.strip().startswith(".venv/bin/python client.py")
    ]
    assert len(commands) == 3
    printed = [
        run_python(*shlex.split(command)[1:], "--url", demo_server.url) for command in commands
    ]
    assert "Asia/Tokyo" in printed[0]
    assert "send_email" in printed[1]
    assert "bob@example.com" in printed[2]
