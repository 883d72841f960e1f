"""One conversation with an agent on a server, in few words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from langgraph_sdk.client import LangGraphClient

Message = dict[str, Any]


@dataclass
class Chat:
    """A thread, and the agent that works on it."""

    client: LangGraphClient
    agent: str
    thread: str

    @classmethod
    async def open(cls, client: LangGraphClient, agent: str) -> Self:
        thread = await client.threads.create()
        return cls(client, agent, thread["thread_id"])

    async def say(self, text: str, **options: Any) -> list[Message]:
        """Send a message, wait for the run, and return the thread's messages.

        Raises:
            Exception: the run failed; the text is the server's.
        """
        return await self._run(input=user(text), **options)

    async def resume(self, answer: Any, **options: Any) -> list[Message]:
        """Answer what is pending, wait for the run, and return the thread's messages."""
        return await self._run(command={"resume": answer}, **options)

    async def retry(self) -> list[Message]:
        """Go on with what failed or was cancelled, wait for the run, and return the messages."""
        return await self._run(input=None)

    async def _run(self, **options: Any) -> list[Message]:
        values = await self.client.runs.wait(self.thread, self.agent, **options)
        # A run that paused may come back with nothing but its interrupts.
        messages: list[Message] = values.get("messages", []) if isinstance(values, dict) else []
        return messages

    async def pending(self) -> list[dict[str, Any]]:
        """Return the interrupts that wait for an answer, each with `id` and `value`."""
        state = await self.client.threads.get_state(self.thread)
        return [dict(found) for task in state["tasks"] for found in task["interrupts"]]

    async def review(self) -> dict[str, Any]:
        """Return the one interrupt that waits; a failure if it is none, or more than one."""
        (interrupt,) = await self.pending()
        return interrupt

    async def status(self) -> str:
        return (await self.client.threads.get(self.thread))["status"]

    async def quiet(self) -> None:
        """Wait until no run is under way."""
        for status in ("running", "pending"):
            while runs := await self.client.runs.list(self.thread, status=status):
                await self.client.runs.join(self.thread, runs[0]["run_id"])

    async def messages(self) -> list[Message]:
        state = await self.client.threads.get_state(self.thread)
        values: Any = state["values"]
        messages: list[Message] = values["messages"]
        return messages


def user(text: str) -> dict[str, Any]:
    """The input of a run: a user's message."""
    return {"messages": [{"role": "user", "content": text}]}


def kinds(messages: Sequence[Message]) -> list[str]:
    return [message["type"] for message in messages]


def tool_results(messages: Sequence[Message]) -> list[str]:
    return [message["content"] for message in messages if message["type"] == "tool"]


def decide(*decisions: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": list(decisions)}


APPROVE = decide({"type": "approve"})
