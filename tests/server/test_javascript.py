"""The JavaScript SDK against the server, as its users have it from npm."""

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.dev_server import DevServer
from tests.outbox import Outbox
from tests.server.chat import APPROVE, decide
from tests.server.test_subagents import mails, someone
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.scripted_model import call

JAVASCRIPT = Path(__file__).parent.parent / "javascript"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the scripts, and with what they import: installed once, and kept."""
    if not (shutil.which("node") and shutil.which("npm")):
        if os.environ.get("REQUIRE_NODE"):
            pytest.fail("REQUIRE_NODE is set, and node or npm is not there.")
        pytest.skip("node and npm are not there")
    with (tmp_path_factory.getbasetemp().parent / "npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests run in several processes
        if not is_installed():
            command = ["npm", "ci"]
            done = subprocess.run(
                command, cwd=JAVASCRIPT, capture_output=True, text=True, timeout=100, check=False
            )
            assert done.returncode == 0, done.stderr
    return JAVASCRIPT


def is_installed() -> bool:
    """Whether npm has come to the end of an installation of just these versions."""
    done = subprocess.run(
        ["npm", "ls", "--all"], cwd=JAVASCRIPT, capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


async def review(node: Path, *arguments: str) -> dict[str, Any]:
    """What `review.js` saw."""
    process = await asyncio.create_subprocess_exec(
        "node", "review.js", *arguments, cwd=node, stdout=-1, stderr=-1
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, err.decode()
    seen: dict[str, Any] = json.loads(out)
    return seen


@pytest.mark.parametrize("agent", ["human_in_the_loop", "subagents"])
async def test_it_streams_a_run_and_answers_its_review(
    node: Path, server: DevServer, openai_endpoint: OpenAIEndpoint, outbox: Outbox, agent: str
) -> None:
    to = someone()
    scene = mails(openai_endpoint, to)
    if agent == "subagents":
        delegation = call("email_agent", {"query": scene.marker})
        scene = openai_endpoint.scene([delegation, f"Sent to {to}."])
    seen = await review(node, server.url, agent, scene.marker, json.dumps(APPROVE))
    (request,) = seen["reviews"]
    assert request["action_requests"][0]["args"]["to"] == to
    assert (seen["before"]["text"], seen["after"]["text"]) == ("", f"Sent to {to}.")
    assert seen["before"]["nodes"] == ["llm_call", "__interrupt__"]
    assert seen["after"]["nodes"][-2:] == ["tool_node", "llm_call"]
    assert seen["left"] == []
    assert len(outbox.to(to)) == 1


async def test_it_rejects(
    node: Path, server: DevServer, openai_endpoint: OpenAIEndpoint, outbox: Outbox
) -> None:
    to = someone()
    email = call("send_email", {"to": to, "subject": "x", "body": "x"})
    scene = openai_endpoint.scene([email, "Then not."])
    answer = decide({"type": "reject", "message": "No."})
    seen = await review(node, server.url, "human_in_the_loop", scene.marker, json.dumps(answer))
    assert seen["after"]["text"] == "Then not."
    assert outbox.to(to) == []
