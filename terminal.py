"""What the client shows at the terminal, and how it asks a human there.

What models, tools and people wrote is shown as text, never as markup or control codes.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

Json = dict[str, Any]

JOINERS = "\u200c\u200d"  # they join emoji, and letters in some scripts

# At a terminal lines are wrapped between words; anywhere else each stays whole.
out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(highlight=False, soft_wrap=True, stderr=True)


class ClientError(Exception):
    """Something that the user can act on. Its message is the one line that they see."""


def clean(text: str, kept: str = f"\n\t{JOINERS}") -> str:
    r"""Make control and invisible characters visible, as `\x1b`; keep line breaks and tabs."""
    return "".join(
        c.encode("unicode_escape").decode()
        if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and c not in kept
        else c
        for c in text.replace("\r\n", "\n")
    )


def one_line(text: str) -> str:
    """Make line breaks visible too, so that a tool's name cannot pass for another line."""
    return clean(text, kept=JOINERS)


def say(label: str, text: str, style: str = "", indent: int = 0) -> None:
    margin = " " * indent
    out.print(
        Text.assemble(
            (f"{margin}{one_line(label)}  " if label else margin, "bold cyan"),
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
    """Write a tool call on one line, as `get_weather(location="Jakarta")`."""
    args = call["args"] if isinstance(call["args"], dict) else {"invalid": call["args"]}
    pairs = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return one_line(f"{call['name']}({', '.join(pairs)})")


class Transcript:
    """Shows a run's stream: text as it comes, everything else once it is certain.

    Text is printed from `messages` while the model writes. Tool calls and results come from
    `updates`, which tells what the history keeps: an agent may replace a message that was
    streamed already, under the same id, and the replacement comes in `updates` only.
    """

    def __init__(self, name: str, decided: Collection[str] = ()) -> None:
        self.agents = {"": name}  # by namespace; a subagent is named by the call it works for
        self.decided = decided  # ids of calls that the human has just seen: not shown again
        self.streamed, self.word, self.column = "", "", 0

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
        if text and not self.streamed:
            label = f"{one_line(self.agents[''])}  "
            out.print(Text(label, style="bold cyan"), end="")
            self.column = cell_len(label)
        self.streamed += text
        *words, self.word = re.split(r"(?=\s)", self.word + clean(text))
        for word in filter(None, words):
            self.write_word(word)

    def write_word(self, word: str) -> None:
        """Print a word with the space before it, or on a new line if it fits there only."""
        fits = out.soft_wrap or self.column + cell_len(word) <= out.width
        word = word if fits or word.startswith("\n") else f"\n{word.lstrip()}"
        out.print(Text(word), end="", soft_wrap=True)
        self.column = cell_len(word) + (0 if word.startswith("\n") else self.column)

    def end_line(self) -> None:
        if self.streamed:
            self.write_word(self.word)
            out.print()
        self.streamed = self.word = ""

    def show_message(self, namespace: str, message: Json) -> None:
        agent = self.agents.get(namespace, namespace.rpartition("|")[2].partition(":")[0])
        indent = 2 * len(namespace.split("|")) if namespace else 0
        text, calls = text_of(message), calls_of(message)
        if message["type"] == "tool":
            outcome = outcome_of(message)
            style = "red" if outcome == "failed" else ""
            say(f"{message.get('name') or 'tool'} {outcome}", text, style, indent)
        elif message["type"] == "ai":
            streamed = "" if namespace else self.streamed
            self.end_line()
            # A subagent's last text comes again, as its tool's result.
            if text and text != streamed and (calls or not namespace):
                say(f"{agent} (in place of the above)" if streamed else agent, text, indent=indent)
            for call in calls:
                if call["id"] not in self.decided:
                    say(f"{agent} asks for", written(call), indent=indent)


def outcome_of(result: Json) -> str:
    """Say what became of a call; our graphs put a human's decision in the result's artifact."""
    artifact = result.get("artifact")
    decided = artifact.get("decision") if isinstance(artifact, dict) else None
    ended = "failed" if result.get("status") == "error" else "returned"
    return {"reject": "rejected", "respond": "answered by a human"}.get(str(decided), ended)


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
            show_action(action, config, error_of(review["value"]))
        if not actions_of(review["value"]):
            say("asks", json.dumps(review["value"], ensure_ascii=False, indent=2))
            say("note", "This is no review of tool calls. Answer it in LangGraph Studio.")


def show_action(action: Json, config: Json, error: str = "") -> None:
    say("wants to call", one_line(action["name"]), "bold")
    width = max(map(len, map(one_line, action["args"])), default=0) + 2
    for name, value in action["args"].items():
        text = as_text(value).replace("\n", "\n" + " " * width)
        say("", f"{one_line(name):{width}}{text}", indent=2)
    args = (f"{name}: {as_text(value)}" for name, value in action["args"].items())
    says_no_more = "\n".join([f"The agent asks to run {action['name']} with:", *args])
    description = (action.get("description") or "").removeprefix(f"{error}\n\n")
    if description not in ("", says_no_more):  # which is all that graphs/review.py says by itself
        say("note", description.replace("\n", "\n" + " " * len("note  ")))
    say("you may", ", ".join(allowed(config)))


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def ask_human(action: Json, config: Json) -> Json | None:
    """Ask at the terminal for the decision on one action; None for "later"."""
    out.print()
    say("about", written(action))
    kind = choose([*allowed(config), "later"])
    if kind == "later":
        say("", "It goes on waiting, and so does its whole review.")
        return None
    if kind == "edit":
        changes = {name: ask_value(name, old) for name, old in action["args"].items()}
        edited = decision(action, kind, changes=changes)
        say("will run", written(edited["edited_action"]))
        return edited if typer.confirm("Send it?", default=True) else ask_human(action, config)
    message = typed_line("Why") if kind == "reject" else ""
    while kind == "respond" and not message.strip():
        message = typed_line("Your answer, in the tool's place")
    return decision(action, kind, message)


def choose(choices: Sequence[str]) -> str:
    while True:
        typed = typed_line(f"Decide ({', '.join(choices)})").strip().lower()
        matches = [choice for choice in choices if typed and choice.startswith(typed)]
        if len(matches) == 1:
            return matches[0]
        say("", f"Type one of: {', '.join(matches or choices)}. Its first letters are enough.")


def ask_value(name: str, old: Any) -> Any:
    """Ask for an argument's new value, with the old one offered."""
    say(name, as_text(old))
    typed = typed_line("  Enter keeps it, or type a new value")
    try:
        return old if not typed else typed if isinstance(old, str) else json.loads(typed)
    except ValueError:
        return typed


def typed_line(question: str) -> str:
    return str(typer.prompt(question, default="", show_default=False))
