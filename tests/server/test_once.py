"""Case 67: a server is killed while emails go out. Its successor sends none of them again."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from scripts.dev_server import PROJECT, DevServer, config_without_env_file, langgraph_dev
from tests.server.chat import APPROVE, Chat, tool_results
from tests.server.test_recovery import until
from tests.standins.mail_server import MailServer
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import call

POPEN = subprocess.Popen
SAVE_SECONDS = 20.0

# The server saves every ten seconds: too long for a test.
SAVES_OFTEN = """
import contextlib, threading, time
from langgraph_runtime_inmem import _persistence

from graphs.human_in_the_loop import graph

def save():
    while True:
        time.sleep(0.2)
        for store in list(_persistence._stores.values()):
            with contextlib.suppress(RuntimeError):  # it has changed meanwhile
                store().sync()

_persistence.stop_flush_loop()
threading.Thread(target=save, daemon=True).start()
"""


class Machine:
    """Runs one server after the other in one folder, where each saves its threads and runs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.processes: list[subprocess.Popen[bytes]] = []

    def serve(self) -> AbstractContextManager[DevServer]:
        (self.folder / "saves_often.py").write_text(SAVES_OFTEN, "utf-8")
        graphs = {"human_in_the_loop": f"{self.folder}/saves_often.py:graph"}
        config = self.folder / "langgraph.json"
        config.write_text(json.dumps(config_without_env_file(PROJECT) | {"graphs": graphs}))
        log = self.folder / f"server-{len(self.processes)}.log"
        return langgraph_dev(config, self.env, log)

    def kill(self) -> None:
        """End the server's processes, as a power cut does."""
        os.killpg(self.processes[-1].pid, signal.SIGKILL)
        self.processes[-1].wait()

    async def save(self) -> None:
        """Wait until the server has saved its runs and its checkpoints."""
        before, deadline = self.saved(), time.monotonic() + SAVE_SECONDS
        while not all(now > then for now, then in zip(self.saved(), before, strict=True)):
            assert time.monotonic() < deadline, f"nothing was saved within {SAVE_SECONDS} s"
            await asyncio.sleep(0.05)

    def saved(self) -> list[float]:
        names = (".langgraph_ops.pckl", ".langgraph_checkpoint.1.pckl")
        files = [self.folder / ".langgraph_api" / name for name in names]
        return [file.stat().st_mtime if file.exists() else 0 for file in files]

    def started(self, *arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        self.processes.append(POPEN(*arguments, **options))
        return self.processes[-1]


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with MailServer() as running:
        yield running


@pytest.fixture
def machine(
    endpoint_env: dict[str, str],
    mail_server: MailServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Machine:
    machine = Machine(tmp_path, {**endpoint_env, **mail_server.environment})
    monkeypatch.setattr(subprocess, "Popen", machine.started)
    return machine


async def test_a_killed_server_does_not_send_again(
    machine: Machine, mail_server: MailServer, openai_endpoint: OpenAIEndpoint
) -> None:
    """The server retries one run. Of the other it saved the pause only: that is approved again."""

    async def paused(client: LangGraphClient, to: str) -> str:
        email = call("send_email", {"to": to, "subject": "x", "body": "x"})
        scene = openai_endpoint.scene([email, "I said what I know."])
        chat = await Chat.open(client, "human_in_the_loop")
        await chat.say(scene.marker)
        return chat.thread

    async def approve(client: LangGraphClient, thread: str, emails: int) -> None:
        await client.runs.create(thread, "human_in_the_loop", command={"resume": APPROVE})
        await until(lambda: len(mail_server.received) == emails, f"email {emails}")

    mail_server.hang_at = "DATA"
    with machine.serve() as server:
        client = get_client(url=server.url)
        to = ("a@example.com", "b@example.com")
        retried, forgotten = await asyncio.gather(*(paused(client, one) for one in to))
        await approve(client, retried, 1)
        await machine.save()
        await approve(client, forgotten, 2)
        machine.kill()

    mail_server.hang_at = None
    with machine.serve() as server:
        client = get_client(url=server.url)
        chats = [Chat(client, "human_in_the_loop", thread) for thread in (retried, forgotten)]
        for chat in chats:
            for run in await client.runs.list(chat.thread):
                await client.runs.join(chat.thread, run["run_id"])
        assert await chats[0].status() == "idle"
        if await chats[1].pending():
            await chats[1].resume(APPROVE)
        for chat in chats:
            (result,) = tool_results(await chat.messages())
            assert "may have gone out. It was not sent again." in result
    assert len(mail_server.received) == 2
