"""The client against a real server: every command, every error line, with its exit code."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from typer.testing import CliRunner, Result

import client as program
from scripts.dev_server import DevServer, free_port
from tests.server.chat import Outbox
from tests.standins.openai_endpoint import HANG, Fault, OpenAIEndpoint
from tests.standins.scripted_model import always_tool, calls

PROJECT = Path(__file__).resolve().parents[2]
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REVIEW = re.compile(r"review  ([0-9a-f]{32})")
NO_SUCH_THREAD = "00000000-0000-4000-8000-000000000000"

Run = Callable[..., Result]


@pytest.fixture
def run(demo_server: DevServer) -> Run:
    """Run the client against the server with the demo model."""

    def invoke(*arguments: str, url: str = demo_server.url, **options: Any) -> Result:
        return CliRunner().invoke(program.app, [*arguments, "--url", url], **options)

    return invoke


@pytest.fixture
def sdk(demo_server: DevServer) -> SyncLangGraphClient:
    return get_sync_client(url=demo_server.url)


def thread_in(result: Result) -> str:
    found = UUID.search(result.stdout)
    assert found, result.stdout
    return found.group()


def ask_for_email(run: Run, to: str, *, agent: str = "human_in_the_loop") -> str:
    """Ask for an email, and return the thread that waits for its review."""
    result = run("ask", agent, f"Email {to} that the meeting moved.")
    assert result.exit_code == 0, result.stderr
    assert "Waits for a human" in result.stdout
    return thread_in(result)


def assert_one_line(result: Result, *words: str) -> None:
    """What went wrong is one line that names `words`, and the exit code is not 0."""
    assert result.exit_code != 0
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("Error: ")
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.output


# ask


def test_ask_shows_calls_results_answer_and_thread(run: Run, sdk: SyncLangGraphClient) -> None:
    result = run("ask", "react", "What is the weather in Jakarta and what time is it in Tokyo?")
    assert result.exit_code == 0
    assert 'react calls  get_weather(location="Jakarta")' in result.stdout
    assert 'react calls  get_current_time(timezone="Asia/Tokyo")' in result.stdout
    assert "get_weather returned  Jakarta" in result.stdout
    values: Any = sdk.threads.get_state(thread_in(result))["values"]
    answer = values["messages"][-1]["content"]
    assert f"react  {answer}" in result.stdout
    assert result.stdout.count(answer.splitlines()[-1]) == 2  # the tool's result, and the answer


def test_a_call_that_the_budget_dropped_is_not_shown(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run
) -> None:
    call = {"name": "get_current_time", "args": {"timezone": "UTC"}, "id": "c1"}
    scene = openai_endpoint.scene([AIMessage("Let me look.", tool_calls=[call])])
    result = run("ask", "react", f"{scene.marker} go", "--steps", "2", url=server.url)
    assert result.exit_code == 0
    assert "calls" not in result.stdout
    assert "Let me look.\nreact (in place of the above)  I ran out of steps" in result.stdout


def test_what_a_model_writes_is_no_markup_and_no_control_code(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run
) -> None:
    scene = openai_endpoint.scene(["[bold]x[/bold] \x1b[31mred\x07 [/] \u202eabc"])
    result = run("ask", "react", f"{scene.marker} go", url=server.url)
    assert "react  [bold]x[/bold] \\x1b[31mred\\x07 [/] \\u202eabc\n" in result.stdout


def test_subagents_work_has_their_names(run: Run) -> None:
    result = run("ask", "subagents", "What is the weather in Jakarta and in Paris?")
    assert result.exit_code == 0
    for place in ("Jakarta", "Paris"):
        assert f'  weather_agent calls  get_weather(location="{place}")\n' in result.stdout
    assert result.stdout.count("  get_weather returned") == 2
    assert result.stdout.count("weather_agent returned") == 2


def test_a_message_during_a_review_moves_on(run: Run, demo_outbox: Outbox) -> None:
    """Case 11: the call that waited is not run."""
    thread = ask_for_email(run, "moved.on@example.com")
    result = run("ask", "human_in_the_loop", "What time is it in Tokyo?", "--thread", thread)
    assert result.exit_code == 0
    assert "You move on" in result.stdout
    assert "Asia/Tokyo" in result.stdout
    assert "Nothing waits" in run("review", thread).stdout
    assert demo_outbox.to("moved.on@example.com") == []


# review


def test_a_pause_shows_the_review_and_how_to_answer(run: Run) -> None:
    text = "Send an email to a@example.com and b@example.com about lunch saying noon works."
    result = run("ask", "human_in_the_loop", text)
    assert result.exit_code == 0
    for shown in ("wants to call  send_email", "a@example.com", "b@example.com", "lunch"):
        assert shown in result.stdout
    assert f"python client.py review {thread_in(result)}" in result.stdout
    assert '--approve or --edit NAME=TEXT or --reject "why" or --respond "text"' in result.stdout


def test_review_without_a_terminal_only_lists(
    run: Run, sdk: SyncLangGraphClient, demo_outbox: Outbox
) -> None:
    """A thread whose graph was renamed since hides none of the others."""
    first, second = (ask_for_email(run, f"list{n}@example.com") for n in (1, 2))
    renamed = sdk.threads.create(graph_id="renamed_since")["thread_id"]
    listed, blanket = run("review"), run("review", "--approve")
    sdk.threads.delete(renamed)
    assert listed.exit_code == 0
    for text in (first, second, "list1@example.com", "list2@example.com"):
        assert text in listed.stdout
    assert_one_line(blanket, "name one", "Nothing was sent")
    assert second not in run("review", first).stdout
    assert demo_outbox.to("list1@example.com") == []


def test_review_says_when_nothing_waits(run: Run) -> None:
    thread = thread_in(run("ask", "react", "What time is it in Tokyo?"))
    result = run("review", thread)
    assert (result.exit_code, result.stdout.strip()) == (0, "Nothing waits for a human.")
    assert_one_line(run("review", thread, "--approve"), "Nothing waits", "Nothing was sent")


@pytest.mark.parametrize(
    ("name", "options", "sent"),
    [
        ("edited", ["--edit", "body=In room 7."], True),
        ("answered", ["--respond", "In room 7."], False),
    ],
)
def test_options_answer_a_review(
    run: Run, demo_outbox: Outbox, name: str, options: list[str], sent: bool
) -> None:
    address = f"{name}@example.com"
    thread = ask_for_email(run, address)
    result = run("review", thread, *options)
    assert result.exit_code == 0, result.stderr
    mails = demo_outbox.to(address)
    assert len(mails) == sent
    assert all("In room 7." in mail for mail in mails)
    assert ("a human changed it to  send_email" in result.stdout) == sent
    assert "In room 7." in result.stdout
    assert "Nothing waits" in run("review", thread).stdout


def test_an_answer_that_does_not_fit_is_refused_and_the_review_waits(
    run: Run, demo_outbox: Outbox
) -> None:
    """Case 22: a bad answer costs nothing, and a good one goes through after it."""
    thread = ask_for_email(run, "misfit@example.com")
    result = run("review", thread, "--edit", '{"subject": {"not": "text"}}')
    assert_one_line(result, "not accepted")
    assert "the last answer was not accepted" in result.stdout
    assert demo_outbox.to("misfit@example.com") == []
    assert run("review", thread, "--approve").exit_code == 0
    assert len(demo_outbox.to("misfit@example.com")) == 1


def test_an_answer_goes_on_under_the_same_step_budget(run: Run, sdk: SyncLangGraphClient) -> None:
    text = "Email budget@example.com that the meeting moved."
    thread = thread_in(run("ask", "human_in_the_loop", text, "--steps", "8"))
    assert run("review", thread, "--approve").exit_code == 0
    runs: Any = sdk.runs.list(thread)
    assert [each["kwargs"]["config"]["recursion_limit"] for each in runs] == [8, 8]


def test_parallel_reviews_are_found_and_answered_by_id(run: Run, demo_outbox: Outbox) -> None:
    """Cases 38 and 63: the second first; also where the server calls the thread idle."""
    text = (
        "What is the weather in Jakarta? Email first@example.com that it rains "
        "and email second@example.com that it shines."
    )
    asked = run("ask", "subagents", text)
    thread, reviews = thread_in(asked), REVIEW.findall(asked.stdout)
    assert len(reviews) == 2
    assert all(review in run("review").stdout for review in reviews)

    second = asked.stdout.split(reviews[1])[1]
    address = "second@example.com" if "second@example.com" in second else "first@example.com"
    assert run("review", thread, "--only", reviews[1], "--approve").exit_code == 0
    assert len(demo_outbox.to(address)) == 1
    assert len(demo_outbox.to("first@example.com") + demo_outbox.to("second@example.com")) == 1

    assert run("review", thread, "--approve").exit_code == 0
    assert len(demo_outbox.to("first@example.com")) == 1
    assert len(demo_outbox.to("second@example.com")) == 1


def test_parallel_reviews_answered_in_one_command(run: Run, demo_outbox: Outbox) -> None:
    text = "Email both1@example.com that it rains and email both2@example.com that it shines."
    asked = run("ask", "subagents", text)
    reviews = REVIEW.findall(asked.stdout)
    assert len(reviews) == 2
    result = run("review", thread_in(asked), "--approve")
    assert result.exit_code == 0
    assert all(f'"{review}": {{"decisions"' in result.stdout for review in reviews)
    assert [len(demo_outbox.to(f"both{n}@example.com")) for n in (1, 2)] == [1, 1]


def test_a_review_that_is_gone(run: Run, demo_outbox: Outbox) -> None:
    """Case 25: an id that does not wait is told, and nothing is sent."""
    thread = ask_for_email(run, "stale@example.com")
    assert_one_line(
        run("review", thread, "--only", "f" * 32, "--approve"), "Nothing waits", "Nothing was sent"
    )
    assert demo_outbox.to("stale@example.com") == []


def test_a_cancelled_thread_does_not_wait(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run
) -> None:
    """Case 35: its status is "interrupted", and nothing is pending."""
    sdk = get_sync_client(url=server.url)
    thread, started = start_hanging_run(sdk, openai_endpoint)
    sdk.runs.cancel(thread, started, wait=True)
    assert sdk.threads.get(thread)["status"] == "interrupted"
    assert "Nothing waits" in run("review", thread, url=server.url).stdout


def start_hanging_run(sdk: SyncLangGraphClient, endpoint: OpenAIEndpoint) -> tuple[str, str]:
    """Start a run whose model does not answer, and wait until it was asked."""
    scene = endpoint.scene([HANG])
    thread = sdk.threads.create()["thread_id"]
    said: Any = {"messages": [{"role": "user", "content": f"{scene.marker} go"}]}
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


def test_a_human_approves(run: Run, terminal: Any, demo_outbox: Outbox) -> None:
    thread = ask_for_email(run, "typed@example.com")
    screen = terminal("review", thread)
    screen.expect("approve, edit, reject, respond, later?")
    screen.type("nonsense")
    screen.expect("later?")
    screen.type("a")
    assert screen.exit_code() == 0
    assert len(demo_outbox.to("typed@example.com")) == 1


def test_a_human_edits_each_argument(
    run: Run, terminal: Any, demo_outbox: Outbox, tmp_path: Path
) -> None:
    """The old value is offered: Enter keeps it, and an editor takes several lines."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "Dear Bob,\\nroom 7.\\n" > "$1"\n')
    editor.chmod(0o700)
    thread = ask_for_email(run, "kept@example.com")
    screen = terminal("review", thread, EDITOR=str(editor))
    screen.expect("later?")
    screen.type("edit")
    for old, typed in (("kept@example.com", ""), ("moved", "New subject"), ("moved", "!")):
        screen.expect(old)
        screen.expect("new value")
        screen.type(typed)
    assert screen.exit_code() == 0, screen.screen
    (mail,) = demo_outbox.to("kept@example.com")
    assert "Dear Bob,\nroom 7." in mail


def test_ctrl_c_at_a_question_sends_nothing(run: Run, terminal: Any) -> None:
    thread = ask_for_email(run, "interrupted@example.com")
    screen = terminal("review", thread)
    screen.expect("later?")
    screen.interrupt()
    assert screen.exit_code() != 0
    assert "Error: Stopped." in screen.screen
    assert "Traceback" not in screen.screen
    assert "interrupted@example.com" in run("review", thread).stdout


# What goes wrong


@pytest.mark.parametrize("command", [["ask", "react", "hi"], ["review"], ["budget"], ["demo"]])
def test_no_server(run: Run, command: list[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert_one_line(run(*command, url=url), "No answer", "make dev", "--url")


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_an_address_that_is_none(run: Run, url: str) -> None:
    assert_one_line(run("ask", "react", "hi", url=url), "--url")


@pytest.mark.parametrize("thread", ["nonsense", NO_SUCH_THREAD, "../assistants"])
def test_no_such_thread(run: Run, thread: str) -> None:
    assert_one_line(run("review", thread), "There is no thread", thread)
    assert_one_line(run("ask", "react", "hi", "--thread", thread), "There is no thread", thread)


def test_no_such_agent(run: Run) -> None:
    result = run("ask", "reactor", "hi")
    assert_one_line(result, "'reactor'", "human_in_the_loop, react, subagents")


@pytest.mark.parametrize("steps", ["0", "-1", "1", "many", "9" * 30])
def test_a_step_budget_that_makes_no_sense(run: Run, steps: str) -> None:
    result = run("ask", "react", "hi", f"--steps={steps}")
    assert result.exit_code == 2
    assert "--steps" in result.stderr
    assert "Traceback" not in result.output


def test_a_run_that_fails(server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run) -> None:
    scene = openai_endpoint.scene([Fault(status=400), "Fine now."])
    failed = run("ask", "react", f"{scene.marker} go", url=server.url)
    assert_one_line(failed, "The run failed", "--thread")
    again = run(
        "ask", "react", f"{scene.marker} go on", "--thread", thread_in(failed), url=server.url
    )
    assert (again.exit_code, "Fine now." in again.stdout) == (0, True)


def test_a_run_under_way(server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run) -> None:
    sdk = get_sync_client(url=server.url)
    thread, started = start_hanging_run(sdk, openai_endpoint)
    result = run("ask", "react", "hi", "--thread", thread, url=server.url)
    assert_one_line(result, "A run is under way")
    sdk.runs.cancel(thread, started, wait=True)


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


def test_budget_shows_what_every_limit_allows(run: Run) -> None:
    result = run("budget", env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.stderr
    rows = re.findall(r"│ (\d+) +│ (\d+) +│ (\d+) +│ ([^│]+?) +│", result.stdout)
    closing = "a closing answer: no steps left"
    assert rows == [
        ("6", "2", "2", closing),
        ("7", "2", "2", closing),
        ("25", "11", "11", closing),
        ("100", "11", "11", closing),
    ]


def test_demo_keeps_its_promises(run: Run, demo_outbox: Outbox) -> None:
    result = run("demo", env={"OUTBOX_DIR": str(demo_outbox.folder)})
    assert result.exit_code == 0, result.stderr
    assert "All of it was as promised." in result.stdout
    for decision in ("approve", "edit", "reject", "respond"):
        assert f'"type": "{decision}"' in result.stdout
    assert result.stdout.count("landed in outbox  nothing") == 2
    assert "Subject: Meeting at 3 pm, in room 7" in result.stdout


def test_demo_notices_a_promise_that_was_not_kept(run: Run, tmp_path: Path) -> None:
    result = run("demo", env={"OUTBOX_DIR": str(tmp_path / "elsewhere")})
    assert_one_line(result, "0 emails landed", "OUTBOX_DIR")


def test_demo_notices_that_no_review_came(server: DevServer, run: Run, outbox: Outbox) -> None:
    """The endpoint only echoes here, so no tool is called and nothing pauses."""
    assert_one_line(run("demo", env={"OUTBOX_DIR": str(outbox.folder)}, url=server.url), "expected")


def test_two_actions_of_one_review(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run, outbox: Outbox
) -> None:
    """Case 20: one message with two calls is one review with two decisions."""
    mails = [
        ("send_email", {"to": f"pair{n}@example.com", "subject": "Hi", "body": "x"}, f"c{n}")
        for n in (1, 2)
    ]
    scene = openai_endpoint.scene([calls(*mails), "Sent both."])
    asked = run("ask", "human_in_the_loop", f"{scene.marker} go", url=server.url)
    assert asked.stdout.count("wants to call  send_email") == 2
    result = run("review", thread_in(asked), "--reject", "Neither.", url=server.url)
    assert result.exit_code == 0
    assert result.stdout.count('"type": "reject"') == 2
    assert outbox.to("pair1@example.com") + outbox.to("pair2@example.com") == []


def test_the_budget_holds_for_a_model_that_never_stops(
    server: DevServer, openai_endpoint: OpenAIEndpoint, run: Run
) -> None:
    stubborn = always_tool("get_current_time", {"timezone": "UTC"}, obeys=False)
    scene = openai_endpoint.scene(stubborn)
    result = run("ask", "react", f"{scene.marker} go", "--steps", "7", url=server.url)
    assert result.exit_code == 0
    assert result.stdout.count("react calls") == 2
    assert "I ran out of steps" in result.stdout
