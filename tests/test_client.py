"""The client's pure parts: what it shows, and what it makes of a human's words."""

import mailbox
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from langchain_core.messages.tool import tool_call
from rich.console import Console
from typer.testing import CliRunner

import client
import terminal
import walkthrough
from client import scripted
from graphs.review import build_request, read_policies
from terminal import ClientError, Transcript
from tools.mail import send_email

EMAIL: dict[str, Any] = {
    "name": "send_email",
    "args": {"to": "a@example.com", "subject": "Hi", "copies": 1},
    "id": "call_1",
}
ALL = {
    "action_name": "send_email",
    "allowed_decisions": ["approve", "edit", "reject", "respond"],
}
REQUEST = {"action_requests": [EMAIL], "review_configs": [ALL]}


def interrupt(value: Any = REQUEST, id: str = "i1") -> dict[str, Any]:
    return {"id": id, "value": value}


def ai(text: str = "", *calls: tuple[str, dict[str, Any], str]) -> dict[str, Any]:
    wanted = [{"name": name, "args": args, "id": id} for name, args, id in calls]
    return {"type": "ai", "content": text, "tool_calls": wanted, "id": "m1"}


def shown(capsys: pytest.CaptureFixture[str], *events: tuple[str, Any]) -> str:
    transcript = Transcript("react")
    for event, data in events:
        transcript.show(event, data)
    transcript.end_line()
    return capsys.readouterr().out


def streamed(text: str) -> tuple[str, Any]:
    return "messages", [{"type": "AIMessageChunk", "content": text}, {}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\rwritten"),
        ("line\r\nend", "line\nend"),
        ("\x9b31m", "\\x9b31m"),
        ("bob@exam\u200bple.com", "bob@exam\\u200bple.com"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("half \ud83d of a pair", "half \\ud83d of a pair"),
        ("👩\u200d💻 selamat pagi, 東京", "👩\u200d💻 selamat pagi, 東京"),
    ],
)
def test_nothing_reaches_the_terminal_but_text(text: str, expected: str) -> None:
    assert terminal.clean(text) == expected


def test_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say("[red]label", "[bold]x[/bold] :smile: [/]")
    assert capsys.readouterr().out == "[red]label  [bold]x[/bold] :smile: [/]\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        ([{"type": "text", "text": "a"}, "b", {"type": "reasoning", "reasoning": "x"}], "ab"),
    ],
)
def test_text_of_string_and_block_content(content: Any, expected: str) -> None:
    assert terminal.text_of({"content": content}) == expected


def test_text_is_shown_once_though_it_comes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(
        capsys,
        streamed("It is "),
        streamed("noon."),
        ("updates", {"llm_call": {"messages": [ai("It is noon.")]}}),
    )
    assert out == "react  It is noon.\n"


def test_a_retracted_call_is_not_shown_and_its_answer_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A closing answer has the id of the message that was streamed: only `updates` has it."""
    chunk = {
        "type": "AIMessageChunk",
        "content": "Let me look.",
        "tool_call_chunks": [{"name": "get_weather", "args": "{}", "id": "c1", "index": 0}],
    }
    closing = ("updates", {"llm_call": {"messages": [ai("I ran out of steps.")]}})
    out = shown(capsys, ("messages", [chunk, {}]), closing)
    assert out == "react  Let me look.\nreact (in place of the above)  I ran out of steps.\n"


def test_a_call_is_shown_as_the_history_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    """After an edit, it is the human's call that is shown before its result."""
    edited = ai("", ("f", {"x": 2}, "c1"), ("g", {}, "c2"))
    out = shown(capsys, ("updates|tool_node:7", {"human_review": {"messages": [edited]}}))
    assert out.splitlines() == ["  tool_node asks for  f(x=2)", "  tool_node asks for  g()"]


def test_a_call_that_a_human_has_just_decided_on_is_no_new_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    transcript = Transcript("react", {"c1"})
    edited = ai("", ("f", {"x": 2}, "c1"), ("g", {}, "c2"))
    transcript.show("updates|tool_node:7", {"human_review": {"messages": [edited]}})
    assert capsys.readouterr().out == "  tool_node asks for  g()\n"


def test_a_name_cannot_pass_for_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    fake = "f\nsend_email returned  Sent."
    call = ai("", (fake, {"x\ny": 1}, "c1"))
    result = {"type": "tool", "name": fake, "content": "Done.", "status": "success"}
    action = {"name": fake, "args": {"to\ny": "a\nb"}}
    terminal.show_action(action, {"action_name": fake})
    out = capsys.readouterr().out + shown(
        capsys,
        ("updates", {"llm_call": {"messages": [call]}}),
        ("updates", {"tool_node": {"messages": [result]}}),
    )
    escaped = "f\\nsend_email returned  Sent."
    assert out.splitlines() == [
        f"wants to call  {escaped}",
        "  to\\ny  a",
        "         b",
        "you may  approve, reject",
        f"react asks for  {escaped}(x\\ny=1)",
        f"{escaped} returned  Done.",
    ]


@pytest.mark.parametrize(
    ("status", "artifact", "outcome"),
    [
        ("success", None, "returned"),
        ("error", None, "failed"),
        ("error", {"decision": "reject"}, "rejected"),
        ("success", {"decision": "respond"}, "answered by a human"),
        ("success", {"decision": "approve"}, "returned"),
        ("error", {"decision": "edit"}, "failed"),
        ("success", ["decision"], "returned"),
    ],
)
def test_what_became_of_a_call(
    capsys: pytest.CaptureFixture[str], status: str, artifact: Any, outcome: str
) -> None:
    result = {"type": "tool", "name": "f", "content": "x", "status": status, "artifact": artifact}
    assert shown(capsys, ("updates", {"n": {"messages": [result]}})) == f"f {outcome}  x\n"


def test_streamed_text_is_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "out", Console(highlight=False, soft_wrap=False, width=20))
    text = "One two three four, 東京 is far.\n\nAnd a_word_that_is_longer_than_a_line ends."
    out = shown(capsys, *(streamed(text[at : at + 3]) for at in range(0, len(text), 3)))
    assert [line.rstrip() for line in out.splitlines()] == [
        "react  One two three",  # 20 wide
        "four, 東京 is far.",
        "",
        "And",
        "a_word_that_is_longer_than_a_line",
        "ends.",
    ]


@pytest.mark.parametrize(
    "task_input", [{"call": {"name": "mail", "args": {}}}, {"name": "mail", "args": {}}]
)
def test_a_subagents_work_has_its_name(capsys: pytest.CaptureFixture[str], task_input: Any) -> None:
    task = {"id": "7", "name": "tool_node", "input": task_input}
    result = {"type": "tool", "name": "send_email", "content": "Sent.", "status": "success"}
    out = shown(
        capsys,
        ("tasks", task),
        ("updates|tool_node:7", {"llm_call": {"messages": [ai("", ("send_email", {}, "c1"))]}}),
        ("updates|tool_node:7", {"tool_node": [{"messages": [result]}, None]}),
        ("updates|tool_node:7", {"llm_call": {"messages": [ai("Done.")]}}),
        ("updates", {"tool_node": {"messages": result | {"name": "mail", "content": "Done."}}}),
    )
    assert out.splitlines() == [
        "  mail asks for  send_email()",
        "  send_email returned  Sent.",
        "mail returned  Done.",
    ]


def test_what_was_done_before_the_pause_is_not_shown_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cached = {"tool_node": {"messages": [ai("again")]}, "__metadata__": {"cached": True}}
    assert shown(capsys, ("updates", cached)) == ""


@pytest.mark.parametrize(
    "update", [None, {}, {"n": None}, {"n": {"messages": None}}, {"__interrupt__": [{"value": 1}]}]
)
def test_updates_without_messages(capsys: pytest.CaptureFixture[str], update: Any) -> None:
    assert shown(capsys, ("updates", update or {})) == ""


class Stream:
    """Pretends to be a server: one run, whose stream breaks off with `error` after `parts`."""

    def __init__(self, *parts: Any, error: BaseException | None = None) -> None:
        self.parts, self.error = parts, error
        self.options: dict[str, Any] = {}
        self.runs = self
        thread = {"metadata": {"graph_id": "react", "assistant_id": "an-id"}}
        self.threads = SimpleNamespace(get=lambda _: {"thread_id": "t1", **thread})

    def list(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def stream(self, *_: Any, **options: Any) -> Iterator[Any]:
        self.options = options
        yield from self.parts
        if self.error:
            raise self.error


def test_a_failed_run_is_an_error() -> None:
    part = SimpleNamespace(event="error", data={"error": "ValueError", "message": "boom."})
    fake: Any = Stream(part)
    with pytest.raises(ClientError, match=r"ValueError: boom\. Ask again: .* --thread t1"):
        client.ask_in(fake, "t1", "react", "hi")


class OneAnswer(BaseHTTPRequestHandler):
    """Answers /ok with `ok`, and breaks off any stream after it has said where to reconnect."""

    ok = b'{"ok":true,"services":{}}'

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.ok)))
        self.end_headers()
        self.wfile.write(self.ok)

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Location", "/threads/t1/runs/r1/stream")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"event: metadata\ndata: {}\n\n")
        self.close_connection = True


@contextmanager
def server_that_says(ok: bytes = OneAnswer.ok) -> Iterator[str]:
    handler = type("Handler", (OneAnswer,), {"ok": ok})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(5)


def test_a_connection_that_breaks_is_told_at_once() -> None:
    """The SDK would try to reconnect for a minute."""
    with server_that_says() as url:
        server = client.connect(url)
        started = time.monotonic()
        with pytest.raises(ClientError, match=r"broke off \(.*[^.]\)\. .*client.py review t1"):
            client.ask_in(server, "t1", "react", "hi")
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "ok", [b"<html>ok</html>", b"null", b"{}", b"", b'{"ok": false}', b"\xff", b'"ok"']
)
def test_a_server_that_is_no_langgraph_server(ok: bytes) -> None:
    with server_that_says(ok) as url:
        result = CliRunner().invoke(client.app, ["review", "--url", url])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: No answer from a LangGraph server (")
    assert result.stderr.count("\n") == 1


def test_no_proxy_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at the proxy's address; a proxy would not find this machine's server."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with server_that_says() as url:
        assert client.connect(url).http.get("/ok")["ok"] is True


@pytest.mark.parametrize(
    "error",
    [
        TypeError("str is not valid UTF-8: surrogates not allowed"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    ],
)
def test_text_that_cannot_be_sent(error: Exception) -> None:
    assert "not valid UTF-8" in client.explained(error)


def test_a_bug_is_not_explained_away() -> None:
    assert client.explained(TypeError("unsupported operand")) == ""


def test_a_lines_end_has_one_full_stop() -> None:
    line = client.explained(httpx.ConnectError("All attempts failed."))
    assert "(All attempts failed). " in line


def test_a_server_that_shuts_down_ends_the_stream_in_good_order() -> None:
    fake: Any = Stream()
    fake.threads.get = lambda _: Stream(error=httpx.ConnectError("refused")).stream().__next__()
    with pytest.raises(ClientError, match=r"broke off \(refused\)\. .*client.py review t1"):
        client.ask_in(fake, "t1", "react", "hi")


def test_a_question_is_dropped_with_its_reader_and_an_answer_is_not() -> None:
    asked: Any = Stream(error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match="the run stops too"):
        client.ask_in(asked, "t1", "react", "hi")
    assert asked.options["on_disconnect"] == "cancel"
    answered: Any = Stream(error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match=r"goes on at the server.* ask react \S+ --thread"):
        client.resume_with(answered, "t1", {"i1": {"decisions": []}})
    assert answered.options["on_disconnect"] == "continue"
    assert answered.options["durability"] == "sync"


def test_a_review_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    to = ", ".join(f"person{n}@example.com" for n in range(200))
    body = "First line\n" + "x" * 5000 + "\n[red]last[/red] line"
    action = EMAIL | {"args": {"to": to, "body": body}, "description": "Please check."}
    request = {"action_requests": [action], "review_configs": [ALL], "error": "no such field"}
    terminal.show_reviews("t1", [interrupt(request)])
    out = capsys.readouterr().out
    assert to in out
    for line in [*body.splitlines(), "Please check.", "no such field", "t1", "i1"]:
        assert line in out
    assert "approve, edit, reject, respond" in out


MAIL_POLICY = read_policies({"send_email": True}, [send_email])
(BY_ITSELF,) = build_request([tool_call(**EMAIL)], MAIL_POLICY)["action_requests"]


@pytest.mark.parametrize("error", ["", "Nothing was run. Why?"])
@pytest.mark.parametrize(
    ("description", "shown_too"),
    [
        (BY_ITSELF["description"], []),
        ("Ask legal about a@example.com, Hi and 1.", ["Ask legal about a@example.com, Hi and 1."]),
        ("Mind this:\nno lies", ["Mind this:", "      no lies"]),
    ],
)
def test_all_that_a_description_says_is_shown(
    capsys: pytest.CaptureFixture[str], error: str, description: str, shown_too: list[str]
) -> None:
    """Only what graphs/review.py says by itself is left out, as the arguments say it."""
    whole = f"{error}\n\n{description}" if error else description
    terminal.show_action(EMAIL | {"description": whole}, ALL, error)
    note = "\n".join(capsys.readouterr().out.splitlines()[4:-1])
    assert note == ("note  " + "\n".join(shown_too) if shown_too else "")


@pytest.mark.parametrize("value", ["What now?", 7, None, {"question": "Sure?"}, ["a"]])
def test_an_interrupt_of_another_kind_is_shown_and_not_answered(
    capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    terminal.show_reviews("t1", [interrupt(value)])
    assert "Answer it in LangGraph Studio" in capsys.readouterr().out
    assert client.answer_to(value, client.same_for_all("approve")) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"approve": True}, {"type": "approve"}),
        ({"reject": "not now"}, {"type": "reject", "message": "not now"}),
        ({"reject": ""}, {"type": "reject"}),
        ({"respond": "done"}, {"type": "respond", "message": "done"}),
        (
            {"edit": ["subject=a=b"]},
            {
                "type": "edit",
                "edited_action": {
                    "name": "send_email",
                    "args": {"to": "a@example.com", "subject": "a=b", "copies": 1},
                },
            },
        ),
        (
            {"edit": ['{"copies": 2}', "subject="]},
            {
                "type": "edit",
                "edited_action": {
                    "name": "send_email",
                    "args": {"to": "a@example.com", "subject": "", "copies": 2},
                },
            },
        ),
    ],
)
def test_options_become_decisions_with_the_calls_id(options: Any, expected: Any) -> None:
    """Case 29: a decision carries its call's id."""
    given: dict[str, Any] = {"approve": False, "reject": None, "respond": None, "edit": []}
    decide = scripted(**given | options)
    assert decide is not None
    assert client.answer_to(REQUEST, decide) == {"decisions": [{**expected, "id": "call_1"}]}


def test_no_options_no_decision() -> None:
    assert scripted(False, None, None, []) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"approve": True, "reject": "x"}, "--approve, --reject"),
        ({"edit": ["subject"]}, "NAME=TEXT"),
        ({"edit": ["{broken"]}, "JSON object"),
    ],
)
def test_options_that_make_no_sense(options: Any, message: str) -> None:
    given: dict[str, Any] = {"approve": False, "reject": None, "respond": None, "edit": []}
    with pytest.raises(ClientError, match=message):
        scripted(**given | options)


def test_a_decision_that_is_not_allowed() -> None:
    request = REQUEST | {"review_configs": [ALL | {"allowed_decisions": ["approve", "reject"]}]}
    with pytest.raises(ClientError, match="takes approve, reject, not respond"):
        client.answer_to(request, client.same_for_all("respond", "x"))


def test_new_values_are_for_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two emails would go to the recipient that was meant for one of them."""
    two = REQUEST | {"action_requests": [EMAIL, EMAIL]}
    for waiting in ([interrupt(two)], [interrupt(), interrupt(id="i2")]):
        found = {"t1": waiting}
        monkeypatch.setattr(client, "connect", lambda _: None)
        monkeypatch.setattr(client, "waiting_reviews", lambda *_, found=found: found)
        monkeypatch.setattr(client, "show_asked", lambda *_: None)
        monkeypatch.setattr(client, "answer", lambda *_, **__: pytest.fail("it was sent"))
        result = CliRunner().invoke(client.app, ["review", "--edit", "to=x@example.com"])
        assert result.exit_code == 1
        assert "--edit is for one" in result.stderr


def test_a_script_is_told_that_this_is_no_review() -> None:
    fake: Any = None
    with pytest.raises(ClientError, match="nothing was sent"):
        client.answer(fake, "t1", [interrupt("?")], client.same_for_all("approve"), again=False)


def test_one_decision_put_off_puts_off_the_whole_review() -> None:
    """A review takes the decisions on all its actions at once."""
    made = iter([{"type": "approve"}, None])
    request = REQUEST | {"action_requests": [EMAIL, EMAIL]}
    assert client.answer_to(request, lambda action, config: next(made)) is None


class SwallowingServer:
    """Pretends to be a server whose pending reviews are as told, and that takes any answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *pending: list[dict[str, Any]]) -> None:
        answers = iter(pending)
        self.sent: list[Any] = []
        monkeypatch.setattr(client, "pending", lambda *_: next(answers))
        monkeypatch.setattr(client, "resume_with", lambda *given: self.sent.append(given[-1]))

    def answer(self, *, again: bool = False) -> None:
        fake: Any = None
        client.answer(fake, "t1", [interrupt()], client.same_for_all("approve"), again=again)


def test_a_swallowed_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 25: the server drops an answer without an error."""
    server = SwallowingServer(monkeypatch, [interrupt()], [interrupt()])
    with pytest.raises(ClientError, match="did not take the answer"):
        server.answer()


def test_nothing_is_sent_when_somebody_else_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 25: an answer to a review that is gone."""
    server = SwallowingServer(monkeypatch, [interrupt(id="another")])
    with pytest.raises(ClientError, match="Somebody else answered first"):
        server.answer()
    assert server.sent == []


def test_a_review_that_comes_after_is_not_answered_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SwallowingServer(monkeypatch, [interrupt()], [interrupt(id="i2")])
    server.answer()
    assert [list(resume) for resume in server.sent] == [["i1"]]


def test_a_human_is_asked_again_after_a_bad_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 30: the request comes back with an error, under a new id."""
    refused = interrupt(REQUEST | {"error": "one decision is missing"}, id="i2")
    server = SwallowingServer(monkeypatch, [interrupt()], [refused], [refused], [])
    server.answer(again=True)
    assert [list(resume) for resume in server.sent] == [["i1"], ["i2"]]
    assert "one decision is missing" in capsys.readouterr().out


def test_a_script_is_told_that_its_answer_was_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = interrupt(REQUEST | {"error": "one decision is missing"}, id="i2")
    server = SwallowingServer(monkeypatch, [interrupt()], [refused])
    with pytest.raises(ClientError, match="not accepted"):
        server.answer()


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """Let a human type these lines; return the questions they are asked."""
    questions: list[str] = []
    given = iter(lines)

    def prompt(text: str, **_: Any) -> str:
        questions.append(text)
        return next(given)

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("typer.confirm", lambda text, **_: prompt(text) != "n")
    return questions


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["approve"], {"type": "approve", "id": "call_1"}),
        (["re", "rejec", ""], {"type": "reject", "id": "call_1"}),
        (
            ["res", "", " ", "I did it."],
            {"type": "respond", "message": "I did it.", "id": "call_1"},
        ),
        (["later"], None),
        (
            ["", "x", "EDIT", "", "New", "2", "y"],
            terminal.decision(EMAIL, "edit", changes={"subject": "New", "copies": 2}),
        ),
        (
            ["edit", "", "2", "two", ""],
            terminal.decision(EMAIL, "edit", changes={"subject": "2", "copies": "two"}),
        ),
        (["edit", "", "Wrong", "", "n", "approve"], {"type": "approve", "id": "call_1"}),
    ],
)
def test_what_a_human_types(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], expected: Any
) -> None:
    questions = typed(monkeypatch, *lines)
    assert terminal.ask_human(EMAIL, ALL) == expected
    assert len(questions) == len(lines)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["r", "a"], "Type one of: reject, respond."),
        (["x", "a"], "Type one of: approve, edit, reject, respond, later."),
        (["later"], "goes on waiting"),
        (["e", "b@example.com", "", "", ""], 'will run  send_email(to="b@example.com", subject='),
    ],
)
def test_what_a_human_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[str],
    told: str,
) -> None:
    typed(monkeypatch, *lines)
    terminal.ask_human(EMAIL, ALL)
    assert told in capsys.readouterr().out


def test_only_what_is_allowed_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = typed(monkeypatch, "edit", "approve")
    config = ALL | {"allowed_decisions": ["approve", "reject"]}
    assert terminal.ask_human(EMAIL, config) == {"type": "approve", "id": "call_1"}
    assert questions == ["Decide (approve, reject, later)"] * 2


def test_the_threads_that_may_wait_are_looked_at_once() -> None:
    """Those that changed last too: a server may call a paused thread idle."""
    found = {None: ["idle", "paused"], "interrupted": ["paused", "older"]}
    threads = SimpleNamespace(
        search=lambda status=None, **_: [{"thread_id": thread} for thread in found[status]]
    )
    fake: Any = SimpleNamespace(threads=threads)
    assert client.threads_to_look_at(fake) == ["idle", "paused", "older"]


MAIL = {"to": "bob@example.com", "subject": "Hi", "body": "Hello."}


class Office:
    """Pretends to be a server whose agent writes emails, well or badly, and asks or does not."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        outbox: Path,
        reviews: Sequence[int] = (1, 0),
        mails: Sequence[Sequence[dict[str, str]]] = ((), (MAIL,)),
        asked: dict[str, str] = MAIL,
        results: Sequence[Any] = (None,),
    ) -> None:
        """`reviews` wait, and `mails` go out, after the question and after the answer.

        The agent asks to send `asked`; its tasks have `results` while the review waits.
        """
        self.outbox, self.waiting = outbox, 0
        self.threads = self.runs = self
        self.state = {"tasks": [{"result": result} for result in results]}
        turns = iter(zip(reviews, mails, strict=True))
        action = {"name": "send_email", "args": asked}
        review = interrupt({"action_requests": [action], "review_configs": [ALL]})

        def turn(*_: Any, **__: Any) -> None:
            self.waiting, sent = next(turns)
            for mail in sent:
                put(outbox, mail)

        self.wait = turn
        monkeypatch.setattr(walkthrough, "ask_in", turn)
        monkeypatch.setattr(walkthrough, "answer", turn)
        monkeypatch.setattr(walkthrough, "pending", lambda *_: [review] * self.waiting)

    def create(self) -> dict[str, str]:
        return {"thread_id": "t1"}

    def get_state(self, _: str) -> Any:
        return self.state

    def demo_email(self, kind: str = "approve", changes: Any = None, quiet: bool = False) -> None:
        fake: Any = self
        decide = client.same_for_all(kind, "Why not.", changes)
        walkthrough.demo_email(fake, "agent", "Email Bob.", self.outbox, decide, quiet=quiet)


def put(outbox: Path, mail: dict[str, str]) -> None:
    message = EmailMessage()
    message["To"], message["Subject"] = mail["to"], mail["subject"]
    message.set_content(mail["body"])
    if mail.get("also"):
        message.add_attachment(mail["also"])
    mailbox.Maildir(outbox).add(message)


TO_EVE = MAIL | {"to": "eve@example.com"}


@pytest.mark.parametrize(
    ("office", "decision", "problem"),
    [
        ({"reviews": [0, 0]}, {}, "did not pause for one review"),
        ({"reviews": [2, 0]}, {}, "did not pause for one review"),
        ({"mails": [[MAIL], [MAIL]]}, {}, "went out before the review"),
        ({"results": [None, None]}, {}, "something else is not done"),
        ({"reviews": [1, 1]}, {}, "waits for another review"),
        ({}, {"kind": "reject"}, "1 emails landed, not 0"),
        ({}, {"kind": "respond"}, "1 emails landed, not 0"),
        ({"mails": [[], []]}, {}, "0 emails landed, not 1.*OUTBOX_DIR"),
        ({"mails": [[], [MAIL, MAIL]]}, {}, "2 emails landed, not 1"),
        ({"mails": [[], [TO_EVE]], "asked": TO_EVE}, {}, "went to eve@example.com"),
        ({"mails": [[], [MAIL | {"body": "Bye."}]]}, {}, "landed, and the human decided on"),
        ({}, {"kind": "edit", "changes": {"subject": "New"}}, "landed, and the human decided on"),
    ],
)
def test_the_demo_notices_a_promise_that_was_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, office: Any, decision: Any, problem: str
) -> None:
    with pytest.raises(ClientError, match=problem):
        Office(monkeypatch, tmp_path / "outbox", **office).demo_email(**decision)


@pytest.mark.parametrize("quiet", [True, False])
def test_the_demo_shows_what_landed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    quiet: bool,
) -> None:
    """Emails that were there before do not matter, whatever they are."""
    outbox = tmp_path / "outbox"
    put(outbox, MAIL | {"also": "an attachment"})
    (outbox / "new" / "broken").write_bytes(b"\xff\x00")
    landing = MAIL | {"also": "an attachment"}
    office = Office(monkeypatch, outbox, mails=[[], [landing]], results=[None, {"done": 1}])
    office.demo_email(quiet=quiet)
    out = capsys.readouterr().out
    landed = "  to: bob@example.com\n  subject: Hi\n  body: Hello."
    assert f"landed in {outbox}  \n{landed}\n" in out
    assert ("Waits for a human" in out) != quiet


@pytest.mark.parametrize(
    ("kind", "mails", "changes"),
    [
        ("edit", [MAIL | {"subject": "New"}], {"subject": "New"}),
        ("reject", [], None),
        ("respond", [], None),
    ],
)
def test_the_demo_goes_on_when_promises_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, mails: Any, changes: Any
) -> None:
    Office(monkeypatch, tmp_path / "outbox", mails=[[], mails]).demo_email(kind, changes)


def results_of(*ids: str) -> list[dict[str, Any]]:
    return [{"type": "tool", "tool_call_id": id, "content": "x"} for id in ids]


def work(*turns: str) -> list[Any]:
    """Messages of turns, each a letter for a call; all calls have results."""
    asked = [ai("", *((id, {}, id) for id in turn)) for turn in turns]
    return [m for turn, call in zip(turns, asked, strict=True) for m in (call, *results_of(*turn))]


@pytest.mark.parametrize(
    ("messages", "calls", "problem"),
    [
        (work("ab"), 2, None),
        (work("abc"), 3, None),
        (work("a", "b"), 2, "no message has more than 1"),
        (work("ab", "c"), 3, "no message has more than 2"),
        (work("abc")[:-1], 2, "exactly one result"),
        (work("abc")[:-1], 3, "exactly one result"),
        (work("abc") + results_of("c"), 2, "exactly one result"),
        (work("abc") + results_of("c"), 3, "exactly one result"),
    ],
)
def test_the_demo_notices_whether_work_was_parallel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, messages: Any, calls: int, problem: str | None
) -> None:
    office: Any = Office(monkeypatch, tmp_path / "outbox", asked=MAIL)
    office.state |= {"values": {"messages": messages}}
    with pytest.raises(ClientError, match=problem) if problem else nullcontext():
        if calls == 2:
            walkthrough.demo_react(office)
        else:
            walkthrough.demo_subagents(office, tmp_path / "outbox")


CLOSING = ai("No steps left.") | {"response_metadata": {"stop_reason": "step_limit"}}
ROUNDS = {6: 2, 7: 2, 25: 11, 100: 11, None: 11}


def endless(rounds: int, end: Any = CLOSING) -> list[Any]:
    asked = [ai("", ("f", {}, f"c{n}")) for n in range(rounds)]
    return [m for n, call in enumerate(asked) for m in (call, *results_of(f"c{n}"))] + [end]


@pytest.mark.parametrize(
    ("limit", "messages", "problem"),
    [
        (None, endless(11), None),
        (None, endless(49), "a limit of 100 did not give 49"),
        (None, endless(11, ai("Enough.")), "recursion_limit None, no closing answer"),
        (6, endless(2, ai("Enough.")), "recursion_limit 6, no closing answer"),
        (6, endless(3), "3 tool rounds ran under recursion_limit 6"),
        (7, endless(0), "0 tool rounds ran under recursion_limit 7"),
        (25, endless(12), "12 tool rounds ran under recursion_limit 25"),
        (100, endless(12), "a limit of 100 did not give 11"),
        (100, endless(10), "a limit of 100 did not give 11"),
        (25, [*endless(11)[:-2], CLOSING], "exactly one result"),
    ],
)
def test_the_demo_notices_a_budget_that_does_not_hold(
    limit: int | None, messages: Any, problem: str | None
) -> None:
    histories = {each: endless(rounds) for each, rounds in ROUNDS.items()} | {limit: messages}

    def wait(*_: Any, config: Any, **__: Any) -> Any:
        return {"messages": histories[config and config["recursion_limit"]]}

    fake: Any = SimpleNamespace(runs=SimpleNamespace(wait=wait))
    with pytest.raises(ClientError, match=problem) if problem else nullcontext():
        walkthrough.demo_budget(fake)


def test_ctrl_c_in_the_demo_gives_no_hint_for_a_server_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt("Go on: ask again")

    monkeypatch.setattr(client, "connect", lambda _: None)
    monkeypatch.setattr(walkthrough, "show_all", interrupted)
    result = CliRunner().invoke(client.app, ["demo"])
    assert (result.exit_code, result.stderr) == (1, "Error: The demo was stopped.\n")


def test_help_does_not_wait_for_the_sdk() -> None:
    loaded = (
        "import sys, client; print({'langgraph_sdk', 'httpx', 'walkthrough'} & set(sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    result = subprocess.run(
        [sys.executable, "-c", loaded],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == "set()\n"
