"""The client's pure parts: what it shows, and what it makes of a human's words."""

import doctest
import mailbox
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import client
import terminal
import walkthrough
from client import scripted
from terminal import ClientError, Transcript

EMAIL = {
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


def test_examples_in_docstrings() -> None:
    for module, examples in ((client, 1), (terminal, 2)):
        results = doctest.testmod(module)
        assert (results.attempted, results.failed) == (examples, 0)


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


def test_an_edited_call_is_shown_as_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    first = ai("", ("f", {"x": 1}, "c1"), ("g", {}, "c2"))
    second = ai("", ("f", {"x": 2}, "c1"), ("g", {}, "c2"))
    out = shown(
        capsys,
        ("updates", {"llm_call": {"messages": [first]}}),
        ("updates", {"human_review": {"messages": [second]}}),
    )
    assert out.splitlines() == [
        "react calls  f(x=1)",
        "react calls  g()",
        "a human changed it to  f(x=2)",
    ]


def test_a_call_that_a_human_has_just_seen_is_shown_only_if_it_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    transcript = Transcript("react", {"c1": {"x": 1}, "c2": {}})
    edited = ai("", ("f", {"x": 2}, "c1"), ("g", {}, "c2"))
    transcript.show("updates|tool_node:7", {"human_review": {"messages": [edited]}})
    assert capsys.readouterr().out == "  a human changed it to  f(x=2)\n"


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
        "  mail calls  send_email()",
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


def test_a_failed_run_is_an_error() -> None:
    part = SimpleNamespace(event="error", data={"error": "ValueError", "message": "boom"})
    fake: Any = SimpleNamespace(runs=SimpleNamespace(stream=lambda *_, **__: iter([part])))
    with pytest.raises(ClientError, match=r"ValueError: boom.*--thread t1"):
        client.ask_in(fake, "t1", "react", "hi")


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


def test_a_description_that_repeats_the_arguments_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal.show_action(EMAIL | {"description": "to: a@example.com\nsubject: Hi\ncopies: 1"}, ALL)
    assert capsys.readouterr().out.count("a@example.com") == 1


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
    with pytest.raises(ClientError, match=r"respond.*Allowed: approve, reject"):
        client.answer_to(request, client.same_for_all("respond", "x"))


def test_new_values_are_for_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two emails would go to the recipient that was meant for one of them."""
    two = REQUEST | {"action_requests": [EMAIL, EMAIL]}
    for waiting in ([interrupt(two)], [interrupt(), interrupt(id="i2")]):
        found = {"t1": waiting}
        monkeypatch.setattr(client, "connect", lambda _: None)
        monkeypatch.setattr(client, "waiting_reviews", lambda *_, found=found: found)
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

    def prompt(text: str, default: str | None = None, **_: Any) -> str:
        questions.append(text)
        line = next(given)
        return line or default or ""

    monkeypatch.setattr("typer.prompt", prompt)
    return questions


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["approve"], {"type": "approve", "id": "call_1"}),
        (["re", "rejec", ""], {"type": "reject", "id": "call_1"}),
        (
            ["res", "I did it."],
            {"type": "respond", "message": "I did it.", "id": "call_1"},
        ),
        (["later"], None),
        (
            ["", "x", "EDIT", "", "New", "2"],
            terminal.decision(EMAIL, "edit", changes={"subject": "New", "copies": 2}),
        ),
    ],
)
def test_what_a_human_types(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], expected: Any
) -> None:
    questions = typed(monkeypatch, *lines)
    assert terminal.ask_human(EMAIL, ALL) == expected
    assert len(questions) == len(lines)


def test_only_what_is_allowed_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = typed(monkeypatch, "edit", "approve")
    config = ALL | {"allowed_decisions": ["approve", "reject"]}
    assert terminal.ask_human(EMAIL, config) == {"type": "approve", "id": "call_1"}
    assert questions == ["Decide: approve, reject, later?"] * 2


@pytest.mark.parametrize("editor", ["no-such-editor-here", "false"])
def test_an_editor_that_fails(monkeypatch: pytest.MonkeyPatch, editor: str) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(ClientError, match="EDITOR"):
        terminal.in_editor("text")


@pytest.mark.parametrize("text", ["one line", "two\nlines", "ends\n", ""])
def test_an_editor_that_changes_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("EDITOR", "true")
    assert terminal.in_editor(text) == text


def test_the_threads_that_may_wait_are_looked_at_once() -> None:
    """Those that changed last too: a server may call a paused thread idle."""
    found = {None: ["idle", "paused"], "interrupted": ["paused", "older"]}
    threads = SimpleNamespace(
        search=lambda status=None, **_: [{"thread_id": thread} for thread in found[status]]
    )
    fake: Any = SimpleNamespace(threads=threads)
    assert client.threads_to_look_at(fake) == ["idle", "paused", "older"]


class Office:
    """Pretends to be a server whose agent writes emails, well or badly, and asks or does not."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, outbox: Path, reviews: list[int], mails: list[int]
    ) -> None:
        """`reviews` wait, and `mails` go out, after the question and after the answer."""
        self.outbox, self.waiting = outbox, 0
        turns = iter(zip(reviews, mails, strict=True))

        def turn(*_: Any, **__: Any) -> None:
            self.waiting, sent = next(turns)
            for _mail in range(sent):
                mailbox.Maildir(outbox).add("To: bob@example.com\nSubject: Hi\n\nHello.")

        monkeypatch.setattr(walkthrough, "ask_in", turn)
        monkeypatch.setattr(walkthrough, "answer", turn)
        monkeypatch.setattr(walkthrough, "pending", lambda *_: [interrupt()] * self.waiting)

    def demo_email(self, mails: int) -> None:
        create = {"create": lambda: {"thread_id": "t1"}}
        fake: Any = SimpleNamespace(threads=SimpleNamespace(**create))
        decide = client.same_for_all("approve")
        walkthrough.demo_email(fake, "agent", "Email Bob.", self.outbox, decide, mails)


@pytest.mark.parametrize(
    ("reviews", "mails", "expected", "problem"),
    [
        ([0, 0], [0, 1], 1, "did not pause for a review"),
        ([1, 0], [1, 1], 1, "went out before the review"),
        ([1, 1], [0, 1], 1, "waits for another review"),
        ([1, 0], [0, 1], 0, "1 emails landed in .*, not 0"),
        ([1, 0], [0, 0], 1, "0 emails landed in .*, not 1.*OUTBOX_DIR"),
    ],
)
def test_the_demo_notices_a_promise_that_was_not_kept(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    reviews: list[int],
    mails: list[int],
    expected: int,
    problem: str,
) -> None:
    office = Office(monkeypatch, tmp_path / "outbox", reviews, mails)
    with pytest.raises(ClientError, match=problem):
        office.demo_email(expected)


def test_the_demo_shows_what_landed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Office(monkeypatch, tmp_path / "outbox", [1, 0], [0, 1]).demo_email(1)
    assert "To: bob@example.com\nSubject: Hi\nHello." in capsys.readouterr().out


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
