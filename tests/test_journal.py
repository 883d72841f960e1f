"""The journal: what a tool call has begun is not done twice, and nobody is told otherwise."""

import asyncio
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from graphs.building import Agent
from graphs.human_in_the_loop import build_human_in_the_loop_agent
from graphs.subagents import SubagentSpec, build_supervisor_agent
from tests.agents import PROMPT, ask, requests, resume, thread
from tests.standins.scripted_model import ScriptedModel, call
from tools import mail
from tools.journal import Entry, Journal, call_key, running_store
from tools.mail import send_email

PROJECT = Path(__file__).parent.parent
KEY = "5" * 64
BEGUN = Entry("To bob.")
DONE = Entry("To bob.", "It was sent.")


# Keys


def config(thread: object = "1", call: object = "c", ns: str = "tool_node:1") -> RunnableConfig:
    return RunnableConfig(
        configurable={"thread_id": thread, "checkpoint_ns": ns}, metadata={"tool_call_id": call}
    )


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (config(), True),
        (config(ns="tool_node:2"), True),  # the call's own task: another after a second approval
        (config(ns=""), True),
        (config(ns="tool_node:1|tool_node:1"), False),
        (config(thread="2"), False),
        (config(call="d"), False),
        (config(thread="1c", call=""), False),
    ],
)
def test_which_calls_are_the_same(other: RunnableConfig, same: bool) -> None:
    assert (call_key(other) == call_key(config())) is same


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("tool_node:1|tool_node:2", True),
        ("tool_node:2|tool_node:1", False),
        ("tool_node:1|tool_node:1|tool_node:1", False),
        ("tool_node:1", False),
    ],
)
def test_each_delegation_has_its_own_calls(other: str, same: bool) -> None:
    delegated = call_key(config(ns="tool_node:1|tool_node:1"))
    assert (call_key(config(ns=other)) == delegated) is same


@pytest.mark.parametrize(
    "unknown",
    [RunnableConfig(), config(thread=None), config(call=None), config(call=""), config(thread="")],
)
def test_a_call_that_cannot_be_told_apart_has_no_key(unknown: RunnableConfig) -> None:
    assert call_key(unknown) == ""


def test_a_key_can_stand_in_a_message_id() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", call_key(config(thread="\n ü>", call={"x": 1})))


@pytest.mark.parametrize("does", [[], ["a", "bc"], ["ab", "d"], [["ab", "c"]], [["ab"], "c"]])
def test_what_does_something_else_is_another_call(does: list[Any]) -> None:
    assert call_key(config(), *does) != call_key(config(), "ab", "c")
    assert call_key(config(), *does) == call_key(config(), *does)
    assert call_key(config(call=""), *does) == ""


# Entries


@pytest.fixture(params=["files", "store", "both"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    store = None if request.param == "files" else InMemoryStore()
    return Journal(unwritable(tmp_path) if request.param == "store" else tmp_path / "j", store)


def unwritable(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "journal"


async def test_what_was_begun_is_known_from_then_on(journal: Journal) -> None:
    assert await journal.begin(KEY, BEGUN) is None
    assert await journal.begin(KEY, Entry("To jane.")) == BEGUN
    assert await journal.begin("6" * 64, BEGUN) is None


async def test_its_result_is_known_from_then_on(journal: Journal) -> None:
    await journal.begin(KEY, BEGUN)
    await journal.finish(KEY, DONE)
    assert await journal.begin(KEY, BEGUN) == DONE


async def test_what_is_taken_back_may_begin_again(journal: Journal) -> None:
    await journal.begin(KEY, BEGUN)
    await journal.take_back(KEY)
    assert await journal.begin(KEY, BEGUN) is None


async def test_of_many_that_begin_at_once_one_may(tmp_path: Path) -> None:
    journals = [Journal(tmp_path, store) for store in [None, InMemoryStore()] * 10]
    found = await asyncio.gather(*(journal.begin(KEY, BEGUN) for journal in journals))
    assert found.count(None) == 1
    assert found.count(BEGUN) == 19


BEGIN_AT_ONCE = """
import sys
from pathlib import Path

from tools.journal import Entry, create

print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    if create(Path(sys.argv[1]) / f"{number}.json", Entry("To bob.")) is None:
        print(number)
"""


def test_of_processes_that_begin_at_once_one_may(tmp_path: Path) -> None:
    """Several servers may share an outbox. They race for 200 emails, each the same for all."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BEGIN_AT_ONCE, str(tmp_path)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    begun = [process.communicate(timeout=20)[0].split() for process in processes]
    assert sorted(int(number) for numbers in begun for number in numbers) == list(range(200))


@pytest.mark.parametrize("entry", [BEGUN, DONE])
async def test_another_machine_knows_it_by_the_store(tmp_path: Path, entry: Entry) -> None:
    store = InMemoryStore()
    here, there = Journal(tmp_path / "here", store), Journal(tmp_path / "there", store)
    await here.begin(KEY, BEGUN)
    await here.finish(KEY, entry)
    assert await there.begin(KEY, BEGUN) == entry
    assert await Journal(tmp_path / "there", None).begin(KEY, BEGUN) == entry


@pytest.mark.parametrize("entry", [BEGUN, DONE])
async def test_a_store_that_forgot_does_not_matter(tmp_path: Path, entry: Entry) -> None:
    await Journal(tmp_path, InMemoryStore()).begin(KEY, BEGUN)
    await Journal(tmp_path, InMemoryStore()).finish(KEY, entry)
    assert await Journal(tmp_path, InMemoryStore()).begin(KEY, BEGUN) == entry


@pytest.mark.parametrize("text", ["", '{"begun": "To'])
async def test_a_crash_while_writing_leaves_what_was_begun(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{KEY}.json").write_text(text)
    assert await Journal(tmp_path, None).begin(KEY, BEGUN) == BEGUN


async def test_nothing_begins_that_cannot_be_written_down(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="file"):
        await Journal(unwritable(tmp_path), None).begin(KEY, BEGUN)


class BrokenStore(InMemoryStore):
    async def aput(self, *args: Any, **options: Any) -> None:
        raise ConnectionError("The database is gone.")


async def test_nothing_begins_with_a_store_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        await Journal(tmp_path, BrokenStore()).begin(KEY, BEGUN)


def test_outside_of_a_graph_there_is_no_store() -> None:
    store: BaseStore | None = running_store()
    assert store is None


# Under agents whose runs are retried

EMAIL = {"to": "bob@example.com", "subject": "Hi", "body": "Hi."}
APPROVE = {"decisions": [{"type": "approve"}]}


class PowerCut(Exception):
    """Ends a run in the middle of a tool, as a crash does."""


@dataclass
class Post:
    """Takes emails in the place of a mail server; the power may fail before or after it does."""

    ids: list[str] = field(default_factory=list)
    cut: str = ""

    async def deliver(self, email: mail.Email, settings: mail.Settings) -> str:
        if self.cut == "before":
            raise PowerCut
        self.ids.append(email.message_id)
        if self.cut == "after":
            raise PowerCut
        return "It went out."


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Post:
    post = Post()
    monkeypatch.setattr(mail, "deliver", post.deliver)
    monkeypatch.setenv("OUTBOX_DIR", str(tmp_path / "outbox"))
    for variable in ("SMTP_HOST", "SMTP_FROM", "SMTP_PORT", "SMTP_TLS", "SMTP_USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    return post


def plain(model: ScriptedModel, saver: InMemorySaver) -> Agent:
    return build_human_in_the_loop_agent(model, [send_email], PROMPT, {"send_email": True}, saver)


def delegating(model: ScriptedModel, saver: InMemorySaver) -> Agent:
    spec = SubagentSpec("clerk", "Sends.", PROMPT, [send_email], None, {"send_email": True})
    return build_supervisor_agent(model, [spec], PROMPT, saver)


def emailing(*ids: str) -> list[str | AIMessage]:
    """A script in which every turn asks for an email, under these call ids, and then answers."""
    return [reply for id in ids for reply in (call("send_email", EMAIL, id), "Done.")]


def delegated(*ids: str) -> list[str | AIMessage]:
    """The same by way of a subagent, whose result is the last word."""
    return [
        reply
        for n, id in enumerate(ids)
        for reply in (call("clerk", {"query": "q"}, f"d{n}"), *emailing(id), "Done.")
    ]


@pytest.mark.parametrize(
    ("build", "script"), [(plain, emailing("m")), (delegating, delegated("m"))]
)
@pytest.mark.parametrize(("cut", "went_out"), [("before", 0), ("after", 1)])
async def test_a_retried_run_does_not_send_again(
    post: Post, build: Any, script: list[Any], cut: str, went_out: int
) -> None:
    """Cases 66 and 67: the same checkpoint, another process, the tool's task again."""
    model, saver = ScriptedModel(script=script), InMemorySaver()
    await ask(build(model, saver), "Email Bob.")
    post.cut = cut
    with pytest.raises(PowerCut):
        await resume(build(model, saver), APPROVE)
    post.cut = ""
    after = build(model, saver)
    assert (await after.ainvoke(None, thread()))["messages"][-1].text == "Done."
    assert len(post.ids) == went_out
    assert "It was not sent again" in str(model.calls)
    assert not await requests(after)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_second_approval_of_the_same_call_does_not_send_again(post: Post, cut: str) -> None:
    """A saved thread from before the approval, as `langgraph dev` has it after a crash."""
    model, saver = ScriptedModel(script=emailing("m")), InMemorySaver()
    agent = plain(model, saver)
    await ask(agent, "Email Bob.")
    before = (await agent.aget_state(thread())).config
    post.cut = cut
    with pytest.raises(PowerCut):
        await resume(agent, APPROVE)
    post.cut = ""
    await agent.ainvoke(None, before)
    messages = (await resume(agent, APPROVE))["messages"]
    assert len(post.ids) == (cut == "after")
    assert "It was not sent again" in messages[-2].text


EDIT = {
    "type": "edit",
    "edited_action": {"name": "send_email", "args": EMAIL | {"body": "Hi, Bob!"}},
}


@pytest.mark.parametrize("cut", ["", "after"])
@pytest.mark.parametrize(("second", "sent"), [(APPROVE, 1), ({"decisions": [EDIT]}, 2)])
async def test_a_fork_sends_what_a_human_edited_in_it(
    post: Post, cut: str, second: dict[str, Any], sent: int
) -> None:
    """An earlier checkpoint is played again: the same text is not sent twice, another one is."""
    agent = plain(ScriptedModel(script=[*emailing("m"), "Done.", "Done."]), InMemorySaver())
    await ask(agent, "Email Bob.")
    before = (await agent.aget_state(thread())).config
    post.cut = cut
    with pytest.raises(PowerCut) if cut else nullcontext():
        await resume(agent, APPROVE)
    post.cut = ""
    for _ in range(2):
        await agent.ainvoke(None, before)
        await resume(agent, second)
    assert len(post.ids) == len(set(post.ids)) == sent


@pytest.mark.parametrize(
    ("build", "script"),
    [(plain, emailing("m", "m", "m")), (delegating, delegated("m", "m", "m"))],
)
async def test_ids_that_come_again_in_later_turns_are_other_calls(
    post: Post, build: Any, script: list[Any]
) -> None:
    agent = build(ScriptedModel(script=script), InMemorySaver())
    for _ in range(3):
        await ask(agent, "Email Bob.")
        await resume(agent, APPROVE)
    assert len(set(post.ids)) == 3


async def test_a_graph_with_a_store_keeps_its_journal_there(
    post: Post, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So that another machine, with files of its own, does not send again."""
    store, saver = InMemoryStore(), InMemorySaver()
    agent = plain(ScriptedModel(script=emailing("m")), saver)
    agent.store = store
    await ask(agent, "Email Bob.")
    post.cut = "after"
    with pytest.raises(PowerCut):
        await resume(agent, APPROVE)
    post.cut = ""
    monkeypatch.setenv("OUTBOX_DIR", str(tmp_path / "there"))
    messages = (await agent.ainvoke(None, thread()))["messages"]
    assert len(post.ids) == 1
    assert "It was not sent again" in messages[-2].text
    [item] = await store.asearch(("journal",))
    assert f"Message-ID: {post.ids[0]}" in item.value["begun"]
