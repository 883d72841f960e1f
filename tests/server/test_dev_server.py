"""The server of one command: hermetic, and gone when the command is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from scripts.dev_server import (
    PROJECT,
    DevServerError,
    config_without_env_file,
    environment,
    langgraph_dev,
)

SECONDS = 60


def start(script: str, **env: str) -> "subprocess.Popen[str]":
    """Start `python -m scripts.dev_server` on a Python script."""
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.dev_server", "--", sys.executable, "-uc", script],
        cwd=PROJECT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_gone(url: str) -> None:
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/ok")


ASK = """
import os, sys, httpx
url = os.environ["LANGGRAPH_URL"]
print(url)
run = {"assistant_id": "react", "input": {"messages": [{"role": "user", "content": "Hello"}]}}
print("demo model" in httpx.post(url + "/runs/wait", json=run, timeout=30).text)
sys.exit(7)
"""


def test_the_exit_code_is_the_commands_and_no_key_gets_in() -> None:
    process = start(ASK, OPENAI_API_KEY="sk-real")
    url, answered_by_demo_model = process.communicate(timeout=SECONDS)[0].split()
    assert process.returncode == 7
    assert answered_by_demo_model == "True"
    assert_gone(url)


WAIT = "import os, time; print(os.environ['LANGGRAPH_URL']); time.sleep(600)"


def test_ctrl_c_stops_all() -> None:
    process = start(WAIT)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert httpx.get(f"{url}/ok").is_success
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert_gone(url)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "langgraph.json"
    config.write_text('{"dependencies": ["."], "graphs": {}}', "utf-8")
    with (
        pytest.raises(DevServerError, match="graphs"),
        langgraph_dev(config, {}, tmp_path / "server.log"),
    ):
        pytest.fail("it started")


def test_no_env_file_is_loaded() -> None:
    assert config_without_env_file(PROJECT)["env"] == {}


def test_the_shells_settings_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_HOST", "mail.example.com")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    env = environment({"OPENAI_API_KEY": "test"})
    assert "SMTP_HOST" not in env
    assert env["OPENAI_API_KEY"] == "test"
    assert env["LANGSMITH_TRACING"] == "false"
