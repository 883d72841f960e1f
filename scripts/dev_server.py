"""Run a LangGraph dev server: for a command, with nothing left behind, or for a developer.

    python -m scripts.dev_server --port PORT

is `make dev`: it serves the project with its `.env`, until Ctrl-C. And

    python -m scripts.dev_server -- COMMAND [ARGUMENT ...]

starts `langgraph dev` on a free port of 127.0.0.1, runs COMMAND with `LANGGRAPH_URL` set to the
server's address, stops the server again (on Ctrl-C too), and exits with COMMAND's exit code.

This server takes nothing from the developer's `.env`, and none of the agents' variables from the
shell but those in `KEPT_VARIABLES`: no key is used, no real email is sent, nothing is traced.
Its saved threads lie in a temporary folder, apart from those of `make dev`.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx

PROJECT = Path(__file__).resolve().parent.parent

AGENT_VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_MODEL", "MAX_AGENT_STEPS"),
    *("OPEN_METEO_GEOCODING_URL", "OPEN_METEO_FORECAST_URL"),
    *("SMTP_HOST", "SMTP_PORT", "SMTP_TLS", "SMTP_USERNAME", "SMTP_PASSWORD", "SMTP_FROM"),
    "OUTBOX_DIR",
    *("LANGSMITH_TRACING", "LANGSMITH_API_KEY", "LANGSMITH_PROJECT", "LANGSMITH_ENDPOINT"),
)
KEPT_VARIABLES = ("OUTBOX_DIR", "OPEN_METEO_GEOCODING_URL", "OPEN_METEO_FORECAST_URL")
OFFLINE = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "1",
}
START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOG_TAIL_LINES = 30


@dataclass(frozen=True)
class DevServer:
    """A running server: its address without a slash at the end, and the file of its output."""

    url: str
    log: Path


class DevServerError(RuntimeError):
    """The server did not start. The message says why, or holds the end of its output."""


@contextmanager
def dev_server(env: Mapping[str, str], *, log: Path | None = None) -> Iterator[DevServer]:
    """Serve the project's graphs with exactly the agents' variables in `env`.

    Args:
        env: variables for the server, on top of the shell's without the agents' own.
        log: file for the server's output; without it, a temporary one that goes with the server.

    Raises:
        DevServerError: it ended, or did not answer within START_SECONDS.
    """
    with tempfile.TemporaryDirectory(prefix="langgraph-dev-") as folder:
        config = Path(folder, "langgraph.json")
        config.write_text(json.dumps(config_without_env_file(PROJECT)), encoding="utf-8")
        with langgraph_dev(config, env, log or Path(folder, "server.log")) as server:
            yield server


def config_without_env_file(project: Path) -> dict[str, object]:
    """Return the project's `langgraph.json` with absolute paths, and with no `.env` to load.

    Values of the `env` file would win over the process's environment. Absolute paths let the
    server run in another folder, where it keeps its saved threads: it ignores
    `disable_persistence` in this file (langgraph-cli 0.4.40).
    """
    config: dict[str, object] = json.loads((project / "langgraph.json").read_text("utf-8"))
    graphs = config["graphs"]
    assert isinstance(graphs, dict)  # noqa: S101
    absolute = {
        name: {**entry, "path": f"{project}/{entry['path'].removeprefix('./')}"}
        for name, entry in graphs.items()
    }
    return {**config, "dependencies": [str(project)], "graphs": absolute, "env": {}}


@contextmanager
def langgraph_dev(config: Path, env: Mapping[str, str], log: Path) -> Iterator[DevServer]:
    """Run `langgraph dev` on `config`, from its folder, until the block is left.

    Args:
        config: a `langgraph.json`; the folder that it is in is the server's working folder.
        env: variables for the server, on top of the shell's without the agents' own.
        log: file for the server's output.

    Raises:
        DevServerError: it ended, or did not answer within START_SECONDS.
    """
    port = free_port()
    command = [*dev_command(port), "--config", config.name, "--no-reload"]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=config.parent,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us, who then stop the server in order
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(process, url, log)
        yield DevServer(url, log)
    finally:
        stop_group(process)


def dev_command(port: int) -> list[str]:
    """Serve the agents so that ten runs go on at once: by itself the server runs one."""
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser"]
    return [*command, "--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", "10"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the shell's environment without the agents' variables, then OFFLINE, then `env`."""
    shell = {name: value for name, value in os.environ.items() if name not in AGENT_VARIABLES}
    return {**shell, "PYTHONUNBUFFERED": "1", **OFFLINE, **env}


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise DevServerError(f"The server ended with code {process.returncode}.{tail(log)}")
            if is_ready(client, url):
                return
            time.sleep(0.05)
    raise DevServerError(f"The server did not answer within {START_SECONDS:.0f} s.{tail(log)}")


def is_ready(client: httpx.Client, url: str) -> bool:
    with suppress(httpx.TransportError):
        return client.get(f"{url}/ok").is_success
    return False


def tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\nIts last output:\n" + "\n".join(lines[-LOG_TAIL_LINES:])


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, then kill whatever of its group is still there."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_against_server(command: Sequence[str]) -> int:
    """Run `command` against a server of its own, and return its exit code."""
    with dev_server(kept_environment()) as server:
        process = subprocess.Popen(  # noqa: S603
            command, env={**os.environ, "LANGGRAPH_URL": server.url}
        )
        try:
            code = process.wait()
        except BaseException:
            let_end(process)
            raise
    return code if code >= 0 else 128 - code


def kept_environment() -> dict[str, str]:
    """Return the shell's KEPT_VARIABLES, with the outbox where the command looks for it."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if os.environ.get(name)}
    return {**kept, "OUTBOX_DIR": str(Path(kept.get("OUTBOX_DIR", "outbox")).absolute())}


def let_end(process: subprocess.Popen[bytes]) -> None:
    """Give a command that has seen the same Ctrl-C time to end by itself, then end it."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return
        process.send_signal(signum)
    process.wait()


def serve(port: int) -> int:
    """Run `langgraph dev` on the project as a developer wants it, and return its exit code.

    It has the project's `.env`, loads changed code again, and keeps its threads in
    `.langgraph_api`. It shows warnings and errors only, unless LOG_LEVEL says otherwise: it
    would report its own saving every 10 seconds.

    Raises:
        DevServerError: the port cannot be used, or another server keeps its threads there.
    """
    url = f"http://127.0.0.1:{port}"
    with alone(PROJECT / ".langgraph_api") as lock, httpx.Client(trust_env=False) as client:
        check_port(port)
        process = subprocess.Popen(  # noqa: S603
            dev_command(port),
            cwd=PROJECT,
            env={"LOG_LEVEL": "WARNING", **os.environ},
            pass_fds=[lock],  # it holds the lock too, should this process be killed
            start_new_session=True,  # of two signals at once, its reloader can wait for ever
        )
        try:
            while process.poll() is None and not is_ready(client, url):
                time.sleep(0.1)
            if process.returncode is None:
                print(f"The agents are ready: {url} (Ctrl-C stops them)", flush=True)
            return process.wait()
        finally:
            stop_group(process)


@contextmanager
def alone(folder: Path) -> Iterator[int]:
    """Lock a folder of saved threads: of two servers, each would overwrite the other's."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DevServerError(
                f"Another server keeps its threads in {folder}. Stop it, or use another clone."
            ) from None
        yield lock.fileno()


def check_port(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as problem:
        raise DevServerError(
            f"Port {port} cannot be used ({problem}). Name another: make dev PORT=2025"
        ) from None


def exit_in_order(signum: int, _frame: FrameType | None) -> NoReturn:
    """Leave through every `finally`, once: a second Ctrl-C must not cut the cleaning short."""
    ignore = signal.SIG_IGN
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, ignore)
    raise SystemExit(128 + signum)


def main(arguments: Sequence[str]) -> int:
    run: Callable[[], int]
    match list(arguments):
        case ["--", _, *_]:
            run = partial(run_against_server, arguments[1:])
        case ["--port", port] if port.isdecimal():
            run = partial(serve, int(port))
        case _:
            usage = "python -m scripts.dev_server -- COMMAND ... | --port PORT (make dev PORT=2024)"
            print(f"usage: {usage}", file=sys.stderr)
            return 2
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, exit_in_order)
    try:
        return run()
    except (DevServerError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
