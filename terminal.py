"""What the client shows at the terminal, and how it asks a human there.

What models, tools and people wrote is shown as text, never as markup or control codes.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

Json = dict[str, Any]

KEPT = "\n\t\u200c\u200d"  # the last two join emoji, and letters in some scripts

# At a terminal lines are wrapped between words; anywhere else each stays whole.
out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(highlight=False, soft_wrap=True, stderr=True)


class ClientError(Exception):
    """Something that the user can act on. Its message is the one line that they see."""


def clean(text: str) -> str:
    r"""Make control and invisible characters visible; keep line breaks and tabs.

    >>> clean("a\x1b[31m\u202e")
    'a\\x1b[31m\\u202e'
    """
    return "".join(
        c.encode("unicode_escape").decode()
        if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and c not in KEPT
        else c
        for c in text.replace("\r\n", "\n")
    )


def say(label: str, text: str, style: str = "", indent: int = 0) -> None:
    margin = " " * indent
    out.print(
        Text.assemble(
            (f"{margin}{clean(label)}  " if label else margin, "bold cyan"),
            (clean(text).replace("\n", f"\n{margin}"), style),
        )
    )


# A run as it goes on


def text_of(message: Json) -> str:
    """Return the text of a message whose content is a string or a list of blocks."""
    content = message.get("content") or ""
    blocks = [content] if isinstance(content, str) else content
    return "".join(b if isinstance(b, str) else b.get("text", "") for b in blocks)


def calls_of(message: Json) -> list[Json]:
    return [*(message.get("tool_calls") or []), *(message.get("invalid_tool_calls") or [])]


def written(call: Json) -> str:
    """Write a tool call as code, on one line.

    >>> written({"name": "get_weather", "args": {"location": "Jakarta"}})
    'get_weather(location="Jakarta")'
    """
    args = call["args"] if isinstance(call["args"], dict) else {"invalid": call["args"]}
    pairs = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return f"{call['name']}({', '.join(pairs)})"


class Transcript:
    """Shows a run's stream: text as it comes, everything else once it is certain.

    Text is printed from `messages` while the model writes. Tool calls and results come from
    `updates`, which tells what the history keeps: an agent may replace a message that was
    streamed already, under the same id, and the replacement comes in `updates` only.
    """

    def __init__(self, name: str, reviewed: Json | None = None) -> None:
        """Take the agent's name, and by id the arguments of calls that a human has just seen."""
        self.agents = {"": name}  # by namespace; a subagent is named by the call it works for
        self.reviewed = reviewed or {}
        self.known_calls: dict[tuple[str, str], Any] = {}
        self.line = ""

    def show(self, event: str, data: Any) -> None:
        """Show one part of the stream, such as `updates`, or `updates|NAMESPACE` of a subagent."""
        mode, _, namespace = event.partition("|")
        if mode == "tasks":
            self.learn_name(namespace, data)
        elif mode == "messages" and not namespace:
            self.write(data[0])
        elif mode == "updates" and not (data.get("__metadata__") or {}).get("cached"):
            for message in messages_in(data):
                self.show_message(namespace, message)

    def learn_name(self, namespace: str, task: Json) -> None:
        """A subagent's namespace names the task that it runs in: keep the name of its call."""
        given = task.get("input")
        for call in [given, *given.values()] if isinstance(given, dict) else []:
            if isinstance(call, dict) and "args" in call:
                key = f"{namespace}|{task['name']}:{task['id']}".lstrip("|")
                self.agents[key] = call["name"]

    def write(self, chunk: Json) -> None:
        text = text_of(chunk) if chunk["type"].lower().startswith("ai") else ""
        if text and not self.line:
            out.print(Text(f"{clean(self.agents[''])}  ", style="bold cyan"), end="")
        self.line += text
        out.print(Text(clean(text)), end="", soft_wrap=True)

    def end_line(self) -> None:
        if self.line:
            out.print()
        self.line = ""

    def show_message(self, namespace: str, message: Json) -> None:
        agent = self.agents.get(namespace, namespace.rpartition("|")[2].partition(":")[0])
        indent = 2 * len(namespace.split("|")) if namespace else 0
        text, calls = text_of(message), calls_of(message)
        if message["type"] == "tool":
            failed = message.get("status") == "error"
            label = f"{message.get('name') or 'tool'} {'failed' if failed else 'returned'}"
            say(label, text, "red" if failed else "", indent)
        elif message["type"] == "ai":
            streamed = "" if namespace else self.line
            self.end_line()
            # A subagent's last text comes again, as its tool's result.
            if text and text != streamed and (calls or not namespace):
                say(f"{agent} (in place of the above)" if streamed else agent, text, indent=indent)
            for call in calls:
                self.show_call(agent, namespace, call, indent)

    def show_call(self, agent: str, namespace: str, call: Json, indent: int) -> None:
        key = (namespace, call["id"])
        known = self.known_calls.get(key, self.reviewed.get(call["id"]))
        self.known_calls[key] = call["args"]
        if known is None:
            say(f"{agent} calls", written(call), indent=indent)
        elif known != call["args"]:
            say("a human changed it to", written(call), indent=indent)


def messages_in(updates: Json) -> Iterator[Json]:
    """Yield the messages that the nodes of one `updates` event wrote."""
    for node, written_by_node in updates.items():
        if node.startswith("__"):
            continue
        for update in written_by_node if isinstance(written_by_node, list) else [written_by_node]:
            messages = update.get("messages") if isinstance(update, dict) else None
            yield from [messages] if isinstance(messages, dict) else messages or []


# A review: what it asks, and what a human says to it


def actions_of(request: Any) -> list[tuple[Json, Json]]:
    """Pair each action request with its review config; empty for an interrupt of another kind."""
    if not isinstance(request, dict) or "action_requests" not in request:
        return []
    configs = {config["action_name"]: config for config in request.get("review_configs", [])}
    return [(action, configs.get(action["name"], {})) for action in request["action_requests"]]


def allowed(config: Json) -> list[str]:
    decisions: list[str] = config.get("allowed_decisions", ["approve", "reject"])
    return decisions


def error_of(request: Any) -> str:
    """Say why the last answer to a request was not accepted; empty if it was the first."""
    return str(request.get("error") or "") if isinstance(request, dict) else ""


def decision(action: Json, kind: str, message: str = "", changes: Json | None = None) -> Json:
    """Return a decision; `message` goes with reject and respond, `changes` of values with edit."""
    made = {"type": kind} | ({"id": action["id"]} if action.get("id") else {})
    if kind == "edit":
        args = {**action["args"], **(changes or {})}
        return made | {"edited_action": {"name": action["name"], "args": args}}
    return made | ({"message": message} if message else {})


def show_reviews(thread: str, reviews: Sequence[Json]) -> None:
    """Show reviews whole: a human answers for every recipient and every word."""
    for review in reviews:
        out.print()
        out.rule(Text("Waits for a human", style="bold yellow"), align="left", style="yellow")
        say("thread", thread)
        say("review", review["id"])
        if error := error_of(review["value"]):
            say("the last answer was not accepted", error, "red")
        for action, config in actions_of(review["value"]):
            show_action(action, config)
        if not actions_of(review["value"]):
            say("asks", json.dumps(review["value"], ensure_ascii=False, indent=2))
            say("note", "This is no review of tool calls. Answer it in LangGraph Studio.")


def show_action(action: Json, config: Json) -> None:
    say("wants to call", action["name"], "bold")
    description = action.get("description") or ""
    if not all(str(value) in description for value in action["args"].values()):
        say("", description, indent=2)  # else it says the arguments over again
    width = max(map(len, action["args"]), default=0) + 2
    for name, value in action["args"].items():
        say("", f"{name:{width}}" + as_text(value).replace("\n", "\n" + " " * width), indent=2)
    say("allowed", ", ".join(allowed(config)))


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def ask_human(action: Json, config: Json) -> Json | None:
    """Ask at the terminal for the decision on one action; None for "later"."""
    say("\nabout", written(action))
    choices = [*allowed(config), "later"]
    kind = ""
    while kind not in choices:
        typed = typer.prompt(f"Decide: {', '.join(choices)}?").strip().lower()
        matches = [choice for choice in choices if typed and choice.startswith(typed)]
        kind = matches[0] if len(matches) == 1 else typed
    if kind == "later":
        return None
    if kind == "edit":
        changes = {name: ask_value(name, old) for name, old in action["args"].items()}
        return decision(action, kind, changes=changes)
    question = {"reject": "Why", "respond": "Answer"}.get(kind)
    return decision(action, kind, typed_line(question) if question else "")


def ask_value(name: str, old: Any) -> Any:
    """Ask for an argument's new value, with the old one offered."""
    text = as_text(old)
    say(name, text)
    typed = typed_line("  Enter keeps it, ! opens your editor, or type a new value")
    if typed == "!":
        typed = in_editor(text)
    elif not typed:
        return old
    if isinstance(old, str):
        return typed
    try:
        return json.loads(typed)
    except ValueError:
        return typed


def typed_line(question: str) -> str:
    line: str = typer.prompt(question, default="", show_default=False)
    return line


def in_editor(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "value.txt")
        path.write_text(text, encoding="utf-8")
        command = [*shlex.split(os.environ.get("EDITOR") or "vi"), str(path)]
        try:
            subprocess.run(command, check=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError) as error:
            raise ClientError(f"The editor failed ({error}). Name one in EDITOR.") from None
        typed = path.read_text(encoding="utf-8")
    return typed if text.endswith("\n") else typed.removesuffix("\n")  # editors add it
