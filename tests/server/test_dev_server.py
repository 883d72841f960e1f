"""The server of one command: hermetic, and gone when the command is."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from scripts.dev_server import (
    PROJECT,
    DevServer,
    DevServerError,
    config_without_env_file,
    environment,
    langgraph_dev,
    main,
    run_against_server,
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


@pytest.mark.parametrize(("script", "code"), [("exit(7)", 7), ("import os; os.abort()", 134)])
def test_the_exit_code_is_the_commands(
    monkeypatch: pytest.MonkeyPatch, script: str, code: int
) -> None:
    running = nullcontext(DevServer("http://127.0.0.1:1", Path("server.log")))
    monkeypatch.setattr("scripts.dev_server.dev_server", lambda _: running)
    url_is_set = "import os; assert os.environ['LANGGRAPH_URL'] == 'http://127.0.0.1:1'; "
    assert run_against_server([sys.executable, "-c", url_is_set + script]) == code


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--"]) == 2
    assert "usage" in capsys.readouterr().err


ASK_AND_WAIT = """
import os, time, httpx
url = os.environ["LANGGRAPH_URL"]
run = {"assistant_id": "react", "input": {"messages": [{"role": "user", "content": "Hello"}]}}
print(url, "demo model" in httpx.post(url + "/runs/wait", json=run, timeout=30).text)
time.sleep(600)
"""


def test_a_key_does_not_get_in_and_ctrl_c_stops_all() -> None:
    process = start(ASK_AND_WAIT, OPENAI_API_KEY="sk-real")
    assert process.stdout is not None
    url, answered_by_demo_model = process.stdout.readline().split()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert answered_by_demo_model == "True"
    assert process.returncode == 130
    assert "Traceback" not in errors
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/ok")


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
