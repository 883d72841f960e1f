"""The server of one command: hermetic, and gone when the command is."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from itertools import takewhile
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_client

from scripts.dev_server import (
    AGENT_VARIABLES,
    PROJECT,
    DevServer,
    DevServerError,
    config_without_env_file,
    environment,
    free_port,
    kept_environment,
    langgraph_dev,
    main,
    run_against_server,
    stop_group,
)
from tests.server.chat import Chat, tool_results
from tests.standins.weather_service import WeatherService, wait_for

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
        start_new_session=True,
    )


@pytest.mark.parametrize(("script", "code"), [("exit(7)", 7), ("import os; os.abort()", 134)])
def test_the_exit_code_is_the_commands(
    monkeypatch: pytest.MonkeyPatch, script: str, code: int
) -> None:
    running = nullcontext(DevServer("http://127.0.0.1:1", Path("server.log")))
    monkeypatch.setattr("scripts.dev_server.dev_server", lambda _: running)
    url_is_set = "import os; assert os.environ['LANGGRAPH_URL'] == 'http://127.0.0.1:1'; "
    assert run_against_server([sys.executable, "-c", url_is_set + script]) == code


@pytest.mark.parametrize(
    "arguments", [[], ["--"], ["python"], ["--port"], ["--port", "http"], ["--port", "1", "2"]]
)
def test_a_command_or_a_port_is_needed(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert "usage" in capsys.readouterr().err


ASK_AND_WAIT = """
import os, signal, time, httpx
signal.signal(signal.SIGINT, signal.SIG_DFL)
url = os.environ["LANGGRAPH_URL"]
run = {"assistant_id": "react", "input": {"messages": [{"role": "user", "content": "Hello"}]}}
print(url, "demo model" in httpx.post(url + "/runs/wait", json=run, timeout=30).text)
time.sleep(600)
"""


def test_a_key_does_not_get_in_and_ctrl_c_stops_all() -> None:
    process = start(ASK_AND_WAIT, OPENAI_API_KEY="sk-real")
    assert process.stdout is not None
    url, answered_by_demo_model = process.stdout.readline().split()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
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


def test_of_the_shells_settings_three_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """None that sends real emails, costs money or traces."""
    for name in AGENT_VARIABLES:
        monkeypatch.setenv(name, "/x")
    kept = {"OUTBOX_DIR", "OPEN_METEO_GEOCODING_URL", "OPEN_METEO_FORECAST_URL"}
    assert kept_environment() == dict.fromkeys(kept, "/x")


FAMILY = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
signal.pause()
"""


def test_nothing_of_the_group_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ending a server does not end what it has started."""
    parent = subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    stop_group(parent)
    # The pipe is open as long as one of them lives.
    ready, _, _ = select.select([parent.stdout], [], [], SECONDS)
    try:
        assert ready
        assert parent.stdout.read() == b""
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        parent.stdout.close()


async def test_ten_runs_go_on_at_once(
    demo_server: DevServer, weather_service: WeatherService
) -> None:
    """Each asks for the weather, which comes when all ten have asked."""
    client = get_client(url=demo_server.url)
    weather_service.misbehave = wait_for(10)

    async def ask() -> str:
        chat = await Chat.open(client, "react")
        (result,) = tool_results(await chat.say("What is the weather in Jakarta?"))
        return result

    try:
        results = await asyncio.gather(*(ask() for _ in range(10)))
    finally:
        weather_service.reset()
    assert all("29.4 °C" in result for result in results)


# make dev


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The product in a folder of its own."""
    for folder in ("graphs", "tools", "scripts"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    for file in ("langgraph.json", "Makefile"):
        shutil.copy(PROJECT / file, tmp_path)
    return tmp_path


Make = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def make(clone: Path) -> Iterator[Make]:
    """Start make with this Python's environment in the place of `.venv`."""
    started = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        environment = f"BIN={Path(sys.executable).parent}"
        process = subprocess.Popen(
            ["make", "-o", ".venv/installed", environment, *arguments],
            cwd=clone,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=SECONDS)


def test_make_dev(make: Make) -> None:
    """It says when it is ready, lets no second one near its threads, and ends on Ctrl-C."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    first = make("dev", f"PORT={port}")
    assert first.stdout
    banner = "".join(takewhile(lambda line: "are ready" not in line, first.stdout))
    assert f"{url}\x1b" in banner
    assert httpx.get(f"{url}/ok").is_success

    refused, _ = make("dev", f"PORT={free_port()}").communicate(timeout=SECONDS)
    assert "Another server keeps its threads in" in refused

    os.killpg(first.pid, signal.SIGINT)
    printed, _ = first.communicate(timeout=SECONDS)
    assert "background workers" not in banner + printed
    assert "Traceback" not in printed
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/ok")


def test_make_dev_on_a_port_that_is_taken(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        printed, _ = make("dev", f"PORT={port}").communicate(timeout=SECONDS)
    assert f"Port {port} cannot be used" in printed
    assert "make dev PORT=" in printed
