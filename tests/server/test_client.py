"""The client against a real server: every command, every error line, with its exit code."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

import client as program
from scripts.dev_server import DevServer, free_port
from tests.outbox import Outbox
from tests.standins.openai_endpoint import HANG, Fault, OpenAIEndpoint, Scene, Script
from tests.standins.scripted_model import always_tool, calls
from tests.standins.weather_service import WeatherService

PROJECT = Path(__file__).resolve().parents[2]
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REVIEW = re.compile(r"review  ([0-9a-f]{32})")
NO_SUCH_THREAD = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Result:
    """What one command of the client printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str


Played = dict[str, tuple[Scene, Result]]


class TextByThread(io.TextIOBase):
    """A standard stream that each thread has for itself, so that commands can run side by side."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def start(self) -> io.StringIO:
        text = self._of_thread.text = io.StringIO()
        return text

    def write(self, text: str) -> int:
        written: int = self._of_thread.text.write(text)
        return written


def together(*commands: Sequence[str]) -> list[Result]:
    """Run commands of the client at the same time, in this process and away from a terminal."""
    out, err = TextByThread(), TextByThread()

    def run_one(command: Sequence[str]) -> Result:
        texts = out.start(), err.start()
        with pytest.raises(SystemExit) as ended:
            program.app(list(command))
        return Result(int(ended.value.code or 0), *(text.getvalue() for text in texts))

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(commands)) as pool:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        patch.setattr("sys.stdin", io.StringIO())
        patch.setenv("COLUMNS", "120")  # a table is not wrapped
        # Typer sets this and takes it back, which threads would do under each other's feet.
        patch.setenv("PYDANTIC_DISABLE_PLUGINS", "1")
        return list(pool.map(run_one, commands))


@dataclass(frozen=True)
class Client:
    """The client, pointed at a server."""

    url: str

    def __call__(self, *arguments: str) -> Result:
        return self.together(arguments)[0]

    def together(self, *commands: Sequence[str]) -> list[Result]:
        return together(*([*command, "--url", self.url] for command in commands))


@pytest.fixture
def run(demo_server: DevServer) -> Client:
    """Run the client against the server with the demo model."""
    return Client(demo_server.url)


@pytest.fixture
def run_scripted(server: DevServer) -> Client:
    """Run the client against the server whose model is scripted."""
    return Client(server.url)


@pytest.fixture
def sdk(demo_server: DevServer) -> SyncLangGraphClient:
    return get_sync_client(url=demo_server.url)


def thread_in(result: Result) -> str:
    found = UUID.search(result.stdout)
    assert found, result.stdout
    return found.group()


@pytest.fixture(scope="module")
def waiting(demo_server: DevServer) -> dict[str, str]:
    """Threads of which each waits for the review of an email, by the email's recipient."""
    sdk = get_sync_client(url=demo_server.url)
    names = ("moved", "list1", "list2", "edited", "responded", "misfit", "stale", "interrupted")

    def ask_for_email(name: str) -> str:
        thread = sdk.threads.create()["thread_id"]
        text = f"Email {name}@example.com that the meeting moved."
        sdk.runs.wait(thread, "human_in_the_loop", input=program.user_says(text))
        assert program.pending(sdk, thread), "no interrupt came where one was due"
        return thread

    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(ask_for_email, names), strict=True))


def assert_one_line(result: Result, *words: str) -> None:
    """What went wrong is one line that names `words`, and the exit code is not 0."""
    assert result.exit_code != 0
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("Error: ")
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stdout + result.stderr


# ask


@pytest.fixture(scope="module")
def asked(demo_server: DevServer) -> dict[str, Result]:
    """What `ask` and `budget` print for independent runs that go on at the same time."""
    questions = {
        "two tools": ("react", "What is the weather in Jakarta and what time is it in Tokyo?"),
        "subagents": ("subagents", "What is the weather in Jakarta and in Paris?"),
        "one email": (
            "human_in_the_loop",
            "Send an email to a@example.com and b@example.com about lunch saying noon works.",
        ),
        "eight steps": (
            "human_in_the_loop",
            "Email budget@example.com that the meeting moved.",
            "--steps=8",
        ),
        "two emails": (
            "human_in_the_loop",
            "Email typed@example.com that it rains and email kept@example.com that it shines.",
        ),
        "first and second": (
            "subagents",
            "What is the weather in Jakarta? Email first@example.com that it rains "
            "and email second@example.com that it shines.",
        ),
        "both": (
            "subagents",
            "Email both1@example.com that it rains and email both2@example.com that it shines.",
        ),
    }
    run = Client(demo_server.url)
    results = run.together(["budget"], *(("ask", *question) for question in questions.values()))
    for result in results:
        assert result.exit_code == 0, result.stderr
    return dict(zip(["budget", *questions], results, strict=True))


def test_ask_shows_calls_results_answer_and_thread(
    asked: dict[str, Result], sdk: SyncLangGraphClient
) -> None:
    result = asked["two tools"]
    assert 'react asks for  get_weather(location="Jakarta")' in result.stdout
    assert 'react asks for  get_current_time(timezone="Asia/Tokyo")' in result.stdout
    assert "get_weather returned  Jakarta" in result.stdout
    values: Any = sdk.threads.get_state(thread_in(result))["values"]
    answer = values["messages"][-1]["content"]
    assert f"react  {answer}" in result.stdout
    assert result.stdout.count(answer.splitlines()[-1]) == 2  # the tool's result, and the answer


@pytest.fixture(scope="module")
def played(server: DevServer, openai_endpoint: OpenAIEndpoint) -> Played:
    """What `ask` prints while the model plays a scene; all scenes at the same time."""
    utc = {"timezone": "UTC"}
    look = AIMessage(
        "Let me look.", tool_calls=[{"name": "get_current_time", "args": utc, "id": "c"}]
    )
    mails = [
        ("send_email", {"to": f"pair{n}@example.com", "subject": "Hi", "body": "x"}, f"c{n}")
        for n in (1, 2)
    ]
    scripts: dict[str, tuple[Script, list[str]]] = {
        "dropped": ([look], ["react", "--steps=2"]),
        "stubborn": (always_tool("get_current_time", utc, obeys=False), ["react", "--steps=7"]),
        "colourful": (["[bold]x[/bold] \x1b[31mred\x07 [/] \u202eabc"], ["react"]),
        "failing": ([Fault(status=400), "Fine now."], ["react"]),
        "pair": ([calls(*mails), "Sent both."], ["human_in_the_loop"]),
    }
    scenes = [openai_endpoint.scene(script) for script, _ in scripts.values()]
    agents = [agent for _, agent in scripts.values()]
    results = Client(server.url).together(
        *(["ask", *agent, f"{s.marker} go"] for s, agent in zip(scenes, agents, strict=True))
    )
    return dict(zip(scripts, zip(scenes, results, strict=True), strict=True))


def test_a_call_that_the_budget_dropped_is_not_shown(played: Played) -> None:
    _, result = played["dropped"]
    assert result.exit_code == 0
    assert "asks for" not in result.stdout
    assert "Let me look." not in result.stdout, "what is not kept is not shown"
    assert "\nreact  I ran out of steps" in result.stdout


def test_the_budget_holds_for_a_model_that_never_stops(played: Played) -> None:
    _, result = played["stubborn"]
    assert result.exit_code == 0
    assert result.stdout.count("react asks for") == 2
    assert "I ran out of steps" in result.stdout


def test_what_a_model_writes_is_no_markup_and_no_control_code(played: Played) -> None:
    _, result = played["colourful"]
    assert "react  [bold]x[/bold] \\x1b[31mred\\x07 [/] \\u202eabc\n" in result.stdout


def test_subagents_work_has_their_names(asked: dict[str, Result]) -> None:
    result = asked["subagents"]
    for place in ("Jakarta", "Paris"):
        assert f'  weather_agent asks for  get_weather(location="{place}")\n' in result.stdout
    assert result.stdout.count("  get_weather returned") == 2
    assert result.stdout.count("weather_agent returned") == 2


@pytest.fixture(scope="module")
def answered(demo_server: DevServer, waiting: dict[str, str]) -> dict[str, Result]:
    """What comes of different answers to threads that wait, given at the same time."""
    answers = {
        "moved": ["ask", "human_in_the_loop", "What time is it in Tokyo?", "--thread"],
        "edited": ["review", "--edit", "body=In room 7."],
        "responded": ["review", "--respond", "In room 7."],
        "misfit": ["review", "--edit", '{"subject": {"not": "text"}}'],
    }
    run = Client(demo_server.url)
    results = run.together(*([*answers[name], waiting[name]] for name in answers))
    return dict(zip(answers, results, strict=True))


def test_a_message_during_a_review_moves_on(
    run: Client, waiting: dict[str, str], answered: dict[str, Result], demo_outbox: Outbox
) -> None:
    """Case 11: the call that waited is not run."""
    result = answered["moved"]
    assert result.exit_code == 0
    assert "You move on" in result.stdout
    assert "Asia/Tokyo" in result.stdout
    assert "Nothing waits" in run("review", waiting["moved"]).stdout
    assert demo_outbox.to("moved@example.com") == []


# review


def test_a_pause_shows_the_review_and_how_to_answer(asked: dict[str, Result]) -> None:
    result = asked["one email"]
    assert "Waits for a human" in result.stdout
    for shown in ("wants to call  send_email", "a@example.com", "b@example.com", "lunch"):
        assert shown in result.stdout
    assert f"python client.py review {thread_in(result)}" in result.stdout
    assert "--approve, --edit NAME=TEXT, --reject WHY or --respond TEXT" in result.stdout
    assert len(result.stdout.splitlines()[-1]) < 80


def test_review_without_a_terminal_only_lists(
    run: Client, sdk: SyncLangGraphClient, waiting: dict[str, str], demo_outbox: Outbox
) -> None:
    """A thread whose graph was renamed since hides none of the others."""
    first, second = waiting["list1"], waiting["list2"]
    renamed = sdk.threads.create(graph_id="renamed_since")["thread_id"]
    listed, blanket = run("review"), run("review", "--approve")
    sdk.threads.delete(renamed)
    assert listed.exit_code == 0
    for text in (first, second, "list1@example.com", "list2@example.com"):
        assert text in listed.stdout
    question = "Email list1@example.com that the meeting moved."
    assert f"human_in_the_loop was asked  {question}\n" in listed.stdout
    assert_one_line(blanket, "name one", "Nothing was sent")
    assert second not in run("review", first).stdout
    assert demo_outbox.to("list1@example.com") == []


def test_review_says_when_nothing_waits(run: Client, asked: dict[str, Result]) -> None:
    thread = thread_in(asked["two tools"])
    result = run("review", thread)
    assert (result.exit_code, result.stdout.strip()) == (0, "Nothing waits for a human.")
    assert_one_line(run("review", thread, "--approve"), "Nothing waits", "Nothing was sent")


@pytest.mark.parametrize(("name", "sent"), [("edited", True), ("responded", False)])
def test_options_answer_a_review(
    run: Client,
    waiting: dict[str, str],
    answered: dict[str, Result],
    demo_outbox: Outbox,
    name: str,
    sent: bool,
) -> None:
    result = answered[name]
    assert result.exit_code == 0, result.stderr
    mails = demo_outbox.to(f"{name}@example.com")
    assert len(mails) == sent
    assert all("In room 7." in mail for mail in mails)
    assert ("send_email returned" in result.stdout) == sent
    assert "asks for" not in result.stdout, "the call that was decided on is no new request"
    assert ("send_email answered by a human" in result.stdout) != sent
    assert "In room 7." in result.stdout
    assert "Nothing waits" in run("review", waiting[name]).stdout


def test_an_answer_that_does_not_fit_is_refused_and_the_review_waits(
    run: Client, waiting: dict[str, str], answered: dict[str, Result], demo_outbox: Outbox
) -> None:
    """Case 22: a bad answer costs nothing, and a good one goes through after it."""
    result = answered["misfit"]
    assert_one_line(result, "not accepted")
    assert "the last answer was not accepted" in result.stdout
    assert demo_outbox.to("misfit@example.com") == []
    assert run("review", waiting["misfit"], "--approve").exit_code == 0
    assert len(demo_outbox.to("misfit@example.com")) == 1


def test_parallel_reviews_are_found_and_answered_by_id(
    run: Client, sdk: SyncLangGraphClient, asked: dict[str, Result], demo_outbox: Outbox
) -> None:
    """Cases 38 and 63: the second first; also where the server calls the thread idle.

    Beside it, two reviews are answered in one command, and a run goes on under its own budget.
    """
    paused, both, short = (asked[name] for name in ("first and second", "both", "eight steps"))
    thread, reviews = thread_in(paused), REVIEW.findall(paused.stdout)
    assert len(reviews) == 2
    listed = run("review").stdout
    assert all(review in listed for review in reviews)

    one, two, three = run.together(
        ["review", thread, "--only", reviews[1], "--approve"],
        ["review", thread_in(both), "--approve"],
        ["review", thread_in(short), "--approve"],
    )
    second = paused.stdout.split(reviews[1])[1]
    address = "second@example.com" if "second@example.com" in second else "first@example.com"
    assert one.exit_code == 0
    assert len(demo_outbox.to(address)) == 1
    assert len(demo_outbox.to("first@example.com") + demo_outbox.to("second@example.com")) == 1
    assert_answered_together(both, two, demo_outbox)
    assert three.exit_code == 0
    assert_same_budget(sdk, thread_in(short))

    assert run("review", thread, "--approve").exit_code == 0
    assert len(demo_outbox.to("first@example.com")) == 1
    assert len(demo_outbox.to("second@example.com")) == 1


def assert_answered_together(asked: Result, answered: Result, outbox: Outbox) -> None:
    reviews = REVIEW.findall(asked.stdout)
    assert len(reviews) == 2
    assert answered.exit_code == 0
    assert all(f'"{review}": {{"decisions"' in answered.stdout for review in reviews)
    assert [len(outbox.to(f"both{n}@example.com")) for n in (1, 2)] == [1, 1]


def assert_same_budget(sdk: SyncLangGraphClient, thread: str) -> None:
    runs: Any = sdk.runs.list(thread)
    assert [each["kwargs"]["config"]["recursion_limit"] for each in runs] == [8, 8]


def test_a_review_that_is_gone(run: Client, waiting: dict[str, str], demo_outbox: Outbox) -> None:
    """Case 25: an id that does not wait is told, and nothing is sent."""
    gone = run("review", waiting["stale"], "--only", "f" * 32, "--approve")
    assert_one_line(gone, "Nothing waits", "Nothing was sent")
    assert demo_outbox.to("stale@example.com") == []


def test_two_actions_of_one_review(played: Played, run_scripted: Client, outbox: Outbox) -> None:
    """Case 20: one message with two calls is one review with two decisions."""
    _, asked = played["pair"]
    assert asked.stdout.count("wants to call  send_email") == 2
    result = run_scripted("review", thread_in(asked), "--reject", "Neither.")
    assert result.exit_code == 0
    assert result.stdout.count('"type": "reject"') == 2
    assert result.stdout.count("send_email rejected  Not executed") == 2
    assert outbox.to("pair1@example.com") + outbox.to("pair2@example.com") == []


def test_a_run_under_way_and_then_cancelled(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run_scripted: Client
) -> None:
    """Case 35: a cancelled thread's status is "interrupted", and nothing is pending."""
    sdk = get_sync_client(url=server.url)
    thread, started = start_hanging_run(sdk, openai_endpoint)
    busy = run_scripted("ask", "react", "hi", "--thread", thread)
    assert_one_line(busy, "A run is under way")
    sdk.runs.cancel(thread, started, wait=True)
    assert sdk.threads.get(thread)["status"] == "interrupted"
    assert "Nothing waits" in run_scripted("review", thread).stdout


def start_hanging_run(sdk: SyncLangGraphClient, endpoint: OpenAIEndpoint) -> tuple[str, str]:
    """Start a run whose model does not answer, and wait until it was asked."""
    scene = endpoint.scene([HANG])
    thread = sdk.threads.create()["thread_id"]
    said = program.user_says(f"{scene.marker} go")
    started = sdk.runs.create(thread, "react", input=said)
    deadline = time.monotonic() + 20
    while not scene.requests:
        assert time.monotonic() < deadline, "the model was not asked"
        time.sleep(0.02)
    return thread, started["run_id"]


# A human at a terminal


class Terminal:
    """The client at a pseudo-terminal: wait for words, then type."""

    def __init__(self, url: str, *arguments: str, **env: str) -> None:
        self.screen = ""
        self.fd, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "client.py", *arguments, "--url", url],
            cwd=PROJECT,
            env={**os.environ, "COLUMNS": "200", **env},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def expect(self, words: str) -> None:
        """Read until `words` are on the screen, and forget what came before their end."""
        deadline = time.monotonic() + 30
        while words not in self.screen:
            assert time.monotonic() < deadline, f"no {words!r} in {self.screen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.screen += self._read()
        self.screen = self.screen.split(words, 1)[1]

    def _read(self) -> str:
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux: the other end is closed
            data = b""
        assert data, f"ended too early: {self.screen!r}"
        return data.decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self.fd, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, again and again: one just before Python reads a line is seen only later."""
        deadline = time.monotonic() + 30
        while "Error:" not in self.screen and self.process.poll() is None:
            assert time.monotonic() < deadline, "Ctrl-C is not noticed"
            self.process.send_signal(signal.SIGINT)
            if select.select([self.fd], [], [], 0.5)[0]:
                self.screen += self._read()

    def exit_code(self) -> int:
        deadline = time.monotonic() + 30
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the client did not end"
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.screen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        return self.process.wait(10)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self.fd)


@pytest.fixture
def terminal(demo_server: DevServer) -> Any:
    opened: list[Terminal] = []

    def start(*arguments: str, **env: str) -> Terminal:
        opened.append(Terminal(demo_server.url, *arguments, **env))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_a_human_decides(
    terminal: Any,
    run: Client,
    asked: dict[str, Result],
    waiting: dict[str, str],
    demo_outbox: Outbox,
) -> None:
    """One call is approved, one edited: Enter keeps a value.

    Beside it, Ctrl-C at a question ends the client with one line, and sends nothing.
    """
    screen = terminal("review", thread_in(asked["two emails"]))
    left = terminal("review", waiting["interrupted"])

    screen.expect("Decide (approve, edit, reject, respond, later): ")
    screen.type("nonsense")
    screen.expect("later): ")
    screen.type("a")
    screen.expect("later): ")
    screen.type("edit")
    for old, typed in (("kept@example.com", ""), ("shines", "New subject"), ("shines", "Room 7.")):
        screen.expect(old)
        screen.expect("new value")
        screen.type(typed)
    screen.expect('send_email(to="kept@example.com", subject="New subject", body="Room 7.")')
    screen.type("y")
    left.expect("later): ")
    left.interrupt()

    assert screen.exit_code() == 0, screen.screen
    assert len(demo_outbox.to("typed@example.com")) == 1
    (mail,) = demo_outbox.to("kept@example.com")
    assert "Room 7." in mail
    assert left.exit_code() != 0
    assert "Error: Stopped." in left.screen
    assert "Traceback" not in left.screen
    assert "interrupted@example.com" in run("review", waiting["interrupted"]).stdout


# What goes wrong


@pytest.mark.parametrize("command", [["ask", "react", "hi"], ["review"], ["budget"], ["demo"]])
def test_no_server(command: list[str]) -> None:
    nobody = Client(f"http://127.0.0.1:{free_port()}")
    assert_one_line(nobody(*command), "No answer", "make dev", "--url")


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_an_address_that_is_none(url: str) -> None:
    assert_one_line(Client(url)("ask", "react", "hi"), "--url")


@pytest.mark.parametrize("thread", ["nonsense", NO_SUCH_THREAD, "../assistants"])
def test_no_such_thread(run: Client, thread: str) -> None:
    assert_one_line(run("review", thread), "There is no thread", thread)
    assert_one_line(run("ask", "react", "hi", "--thread", thread), "There is no thread", thread)


def test_text_that_is_not_utf8(run: Client) -> None:
    """Such as a file name of another encoding, which Python reads with surrogates in it."""
    assert_one_line(run("ask", "react", "caf\udce9"), "not valid UTF-8")
    assert_one_line(run("ask", "caf\udce9", "hi"), "There is no agent")
    assert_one_line(run("review", "caf\udce9"), "not valid UTF-8")


def test_no_such_agent(run: Client) -> None:
    result = run("ask", "reactor", "hi")
    assert_one_line(result, "'reactor'", "human_in_the_loop, react, subagents")


@pytest.mark.parametrize("steps", ["0", "-1", "1", "many", "9" * 30])
def test_a_step_budget_that_makes_no_sense(run: Client, steps: str) -> None:
    result = run("ask", "react", "hi", f"--steps={steps}")
    assert result.exit_code == 2
    assert "--steps" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_that_fails(played: Played, run_scripted: Client) -> None:
    scene, failed = played["failing"]
    assert_one_line(failed, "The run failed", "--thread")
    again = run_scripted("ask", "react", f"{scene.marker} go on", "--thread", thread_in(failed))
    assert (again.exit_code, "Fine now." in again.stdout) == (0, True)


def test_ctrl_c_stops_the_run(server: DevServer, openai_endpoint: OpenAIEndpoint) -> None:
    scene = openai_endpoint.scene([HANG])
    process = subprocess.Popen(
        [sys.executable, "client.py", "ask", "react", f"{scene.marker} go", "--url", server.url],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not scene.requests:
        assert time.monotonic() < deadline, "the model was not asked"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr.count("\n") == 1
    assert "Stopped watching; the run stops too" in stderr
    found = UUID.search(stdout)
    assert found
    assert found.group() in stderr
    wait_until_not_busy(get_sync_client(url=server.url), found.group())


def wait_until_not_busy(sdk: SyncLangGraphClient, thread: str) -> None:
    deadline = time.monotonic() + 20
    while sdk.threads.get(thread)["status"] == "busy":
        assert time.monotonic() < deadline, "the run goes on"
        time.sleep(0.05)


# The budget and the demo


@pytest.fixture(scope="module", autouse=True)
def demo(
    weather_service: WeatherService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["subprocess.Popen[str]"]:
    """The demo as `make demo` runs it, on a server of its own, beside the other tests here."""
    command = [sys.executable, "-m", "scripts.dev_server", "--", sys.executable, "client.py"]
    env = {
        "COLUMNS": "120",
        "OUTBOX_DIR": str(tmp_path_factory.mktemp("walkthrough") / "outbox"),
        "OPEN_METEO_GEOCODING_URL": weather_service.url,
        "OPEN_METEO_FORECAST_URL": weather_service.url,
    }
    process = subprocess.Popen(
        [*command, "demo"],
        cwd=PROJECT,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.terminate()  # it stops its server, and is gone already when its test has run
    process.communicate(timeout=30)


def assert_budgets(shown: str) -> None:
    rows = re.findall(r"│ ([\w ]+?) +│ (\d+) +│ (\d+) +│ ([^│]+?) +│", shown)
    closing = "answered: no steps left"
    assert rows == [
        ("6", "2", "2", closing),
        ("7", "2", "2", closing),
        ("25", "11", "11", closing),
        ("100", "11", "11", closing),
        ("none given", "11", "11", closing),
    ]


def test_budget_shows_what_every_limit_allows(asked: dict[str, Result]) -> None:
    assert_budgets(asked["budget"].stdout)


def test_demo_notices_that_no_tools_were_called(run_scripted: Client) -> None:
    """The endpoint only echoes here."""
    assert_one_line(run_scripted("demo"), "expected", "no message has more than 0 tool calls")


def test_demo_keeps_its_promises(demo: "subprocess.Popen[str]") -> None:
    stdout, stderr = demo.communicate(timeout=60)
    assert demo.returncode == 0, stderr
    for part in (
        "1. ReAct",
        "2. The step",
        "3. Human",
        "4. Subagents",
        "All of it was as promised",
    ):
        assert part in stdout
    assert_budgets(stdout)
    for decision in ("approve", "edit", "reject", "respond"):
        assert f'"type": "{decision}"' in stdout
    landed = re.findall(r"landed in (/\S+outbox)  (nothing)?", stdout)
    assert [nothing for _, nothing in landed] == ["", "", "nothing", "nothing", ""]
    assert f"the emails are in  {landed[0][0]} (" in stdout
    assert "subject: Meeting at 3 pm, in room 7" in stdout
    assert stdout.endswith('client.py ask react "What time is it in Tokyo?"\n')
