"""A command line for the agents, and an example of the LangGraph SDK to copy from.

    python client.py ask react "What time is it in Tokyo?"
    python client.py review
    python client.py budget
    python client.py demo

Works with any server and any agent whose reviews follow LangChain's `HITLRequest`:
https://docs.langchain.com/oss/python/langchain/human-in-the-loop
"""

import json
import mailbox
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

if TYPE_CHECKING:  # The SDK takes a second to import: `--help` need not wait for it.
    from langgraph_sdk.client import SyncLangGraphClient as Client
    from langgraph_sdk.schema import DisconnectMode

Json = dict[str, Any]
Decide = Callable[[Json, Json], Json | None]
"""Takes an action request and its review config; returns a decision, or None for "not now"."""

COMMAND = "python client.py"
DEFAULT_URL = "http://127.0.0.1:2024"
PAGE = 100
NO_SERVER = (
    "No answer from a LangGraph server ({}). Start one with `make dev`, or name another with --url."
)
ENDLESS = "Check the time in UTC again and again and never stop."
BUDGET_RULE = (
    "A tool round is two steps, and one step is kept for the answer. A limit above the "
    "deployment's maximum (MAX_AGENT_STEPS, 25 unless it is set) gives no more than that maximum."
)
DEMO_QUESTION = "What is the weather in Jakarta and what time is it in Tokyo?"
DEMO_EMAIL = "Email bob@example.com that the meeting moved to 3 pm."
DEMO_TASKS = (
    "Find the weather in Jakarta and in Paris, and email bob@example.com that the report is ready."
)

# At a terminal lines are wrapped between words; anywhere else each stays whole.
out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(highlight=False, soft_wrap=True, stderr=True)


class ClientError(Exception):
    """Something that the user can act on. Its message is the one line that they see."""


class OneLineErrors(TyperGroup):
    """Ends with one line on stderr, and exit code 1, where Python would print a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            line = explained(error)
            if not line:
                raise
        err.print(Text(f"Error: {clean(' '.join(line.split()))}", style="red"))
        raise typer.Exit(1)


def explained(error: BaseException) -> str:
    """Say in one line what went wrong and what to do; empty for a bug of this program."""
    import httpx
    from langgraph_sdk.errors import APIStatusError, ConflictError

    if isinstance(error, ClientError):
        return str(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "Stopped. Nothing more was sent; what waits for a human still waits."
    if isinstance(error, ConflictError):
        return "A run is under way on this thread. Wait until it has ended, then try again."
    if isinstance(error, APIStatusError):
        return f"The server refused this ({error.status_code}): {error.message}"
    if isinstance(error, httpx.TransportError | httpx.InvalidURL):
        return NO_SERVER.format(error)
    return ""


app = typer.Typer(
    help="Talk to the agents on a LangGraph server, and answer what waits for a human.",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Url = Annotated[str, typer.Option(envvar="LANGGRAPH_URL", help="Address of the LangGraph server.")]


@app.command()
def ask(
    agent: Annotated[str, typer.Argument(help="react, human_in_the_loop, subagents, ...")],
    text: Annotated[str, typer.Argument(help="What to ask, in everyday words.")],
    thread: Annotated[str | None, typer.Option(help="Go on in this thread.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Step budget (recursion_limit).")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Ask an agent and watch the answer come; shows the review when it pauses for one."""
    client = connect(url)
    check_agent(client, agent)
    if thread and pending(client, find_thread(client, thread)["thread_id"]):
        say("note", "A review waits on this thread. You move on: its call will not run.")
    thread = thread or new_thread(client)
    say("thread", thread)
    ask_in(client, thread, agent, text, steps)
    reviews = pending(client, thread)
    show_reviews(thread, reviews)
    if reviews:
        show_how_to_answer(thread, reviews, url)


@app.command()
def review(
    thread: Annotated[str | None, typer.Argument(help="Only this thread.")] = None,
    only: Annotated[str | None, typer.Option(help="Only the review with this id.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve every call.")] = False,
    reject: Annotated[str | None, typer.Option(help="Reject every call, and say why.")] = None,
    respond: Annotated[
        str | None, typer.Option(help="Answer in the tools' place; no call runs.")
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(help="NAME=TEXT or a JSON object: new values. Can be repeated."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List what waits for a human, and answer it: by questions, or by options for scripts."""
    client = connect(url)
    decide = scripted(approve, reject, respond, edit or [])
    waiting = waiting_reviews(client, thread, only)
    asks = decide is None and sys.stdin.isatty()
    for thread, reviews in waiting.items():
        show_reviews(thread, reviews)
        if asks:
            answer(client, thread, reviews, ask_human, again=True)
        elif decide is None:
            show_how_to_answer(thread, reviews, url)
    if decide is None:
        say("", "" if waiting else "Nothing waits for a human.")
    elif len(waiting) == 1:
        answer(client, *waiting.popitem(), decide, again=False)
    else:
        found = "Several threads wait: name one" if waiting else "Nothing waits for a human"
        raise ClientError(f"{found}. Nothing was sent. `{COMMAND} review` lists what waits.")


@app.command()
def budget(url: Url = DEFAULT_URL) -> None:
    """Show the step budget on real runs: limit asked for, tool rounds run, how each ended."""
    show_budget(connect(url))


@app.command()
def demo(
    outbox: Annotated[
        Path, typer.Option(envvar="OUTBOX_DIR", help="The Maildir that the server writes to.")
    ] = Path("outbox"),
    url: Url = DEFAULT_URL,
) -> None:
    """Watch all three agents work, and check what is claimed on the way."""
    client = connect(url)
    demo_react(client)
    demo_budget(client)
    demo_review(client, outbox)
    demo_subagents(client, outbox)
    say("", "\nAll of it was as promised.", "bold green")


# Talking to the server


def connect(url: str) -> "Client":
    """Return the SDK's client, once somebody listens at the address.

    The SDK alone would try for eight seconds before it says that nobody does.
    """
    from langgraph_sdk import get_sync_client

    client = get_sync_client(url=url)
    address = client.http.client.base_url
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((address.host, port), timeout=5).close()
    except OSError as error:
        raise ClientError(NO_SERVER.format(error)) from None
    return client


def new_thread(client: "Client") -> str:
    thread: str = client.threads.create()["thread_id"]
    return thread


def check_agent(client: "Client", agent: str) -> None:
    known = client.assistants.search(limit=PAGE)
    if agent not in {name for a in known for name in (a["graph_id"], a["assistant_id"])}:
        names = ", ".join(sorted({a["graph_id"] for a in known}))
        raise ClientError(f"There is no agent {agent!r} on this server. There are: {names}.")


def find_thread(client: "Client", thread: str) -> Json:
    from langgraph_sdk.errors import APIStatusError

    try:
        return dict(client.threads.get(thread))
    except APIStatusError as error:
        if error.status_code not in (400, 404, 422):  # 400 and 422: it is no UUID
            raise
        raise ClientError(
            f"There is no thread {thread!r} on this server. "
            f"`ask` prints a thread's id, and `{COMMAND} review` lists those that wait."
        ) from None


def ask_in(client: "Client", thread: str, agent: str, text: str, steps: int | None = None) -> None:
    """Send the user's words, and show the agent at work until it answers or pauses."""
    config = {"recursion_limit": steps} if steps else None
    transcript = Transcript(agent)
    watch(client, thread, agent, transcript, "cancel", input=user_says(text), config=config)


def user_says(text: str) -> Json:
    return {"messages": [{"role": "user", "content": text}]}


def watch(
    client: "Client",
    thread: str,
    agent: str,
    transcript: "Transcript",
    on_disconnect: "DisconnectMode",
    **run: Any,
) -> None:
    """Start a run and show what it does as it comes.

    Args:
        client: the SDK's client.
        thread: the thread's id.
        agent: a graph's name, or an assistant's id.
        transcript: what shows the run.
        on_disconnect: what becomes of the run when nobody watches any more, as after Ctrl-C.
        run: the `input` or the `command`, and other options of `client.runs.stream`.

    Raises:
        ClientError: the run failed, or the user stopped watching.
    """
    try:
        for part in client.runs.stream(
            thread,
            agent,
            stream_mode=["messages-tuple", "updates", "tasks"],
            stream_subgraphs=True,
            stream_resumable=True,  # the SDK reconnects, and misses nothing
            multitask_strategy="reject",
            on_disconnect=on_disconnect,
            **run,
        ):
            transcript.show(part.event, part.data)
    except KeyboardInterrupt:
        run_now = "stops too" if on_disconnect == "cancel" else "goes on at the server"
        go_on = f'{COMMAND} ask {transcript.name} "..." --thread {thread}'
        raise ClientError(f"Stopped watching; the run {run_now}. Go on: {go_on}") from None
    finally:
        transcript.end_line()


def history(client: "Client", thread: str) -> list[Json]:
    values: Any = client.threads.get_state(thread)["values"]
    messages: list[Json] = values["messages"]
    return messages


def pending(client: "Client", thread: str) -> list[Json]:
    """Return the interrupts that wait on a thread, each with `id` and `value`."""
    tasks = client.threads.get_state(thread)["tasks"]
    return [dict(interrupt) for task in tasks for interrupt in task["interrupts"]]


def pending_if_served(client: "Client", thread: str) -> list[Json]:
    """Like `pending`; empty for a thread that was just deleted, or whose graph is not served."""
    from langgraph_sdk.errors import NotFoundError

    try:
        return pending(client, thread)
    except NotFoundError:
        return []


def waiting_reviews(
    client: "Client", thread: str | None, only: str | None
) -> dict[str, list[Json]]:
    """Return the reviews that wait, by thread; the newest thread comes first.

    A thread's `status` does not tell: a cancelled one reads "interrupted" with nothing pending,
    and langgraph-api 0.16.7 leaves a paused one "idle" if its run was streamed with
    `stream_subgraphs` and another subagent finished after the pause. The state always tells.
    """
    ids = [find_thread(client, thread)["thread_id"]] if thread else all_threads(client)
    with ThreadPoolExecutor(8) as pool:
        each = pool.map(lambda thread: pending_if_served(client, thread), ids)
        found = dict(zip(ids, each, strict=True))
    chosen = {t: [r for r in rs if only in (None, r["id"])] for t, rs in found.items()}
    return {t: reviews for t, reviews in chosen.items() if reviews}


def all_threads(client: "Client") -> list[str]:
    ids: list[str] = []
    while page := client.threads.search(
        limit=PAGE, offset=len(ids), sort_by="created_at", select=["thread_id"]
    ):
        ids += [thread["thread_id"] for thread in page]
    return ids


# Answering a review


def answer(
    client: "Client", thread: str, reviews: Sequence[Json], decide: Decide, *, again: bool
) -> None:
    """Decide on reviews of one thread, send all decisions in one resume, show how it goes on.

    Args:
        client: the SDK's client.
        thread: the thread that waits.
        reviews: interrupts of that thread, as `pending` returns them.
        decide: what the human says to each action.
        again: whether to go on with reviews that come up after the answer.

    Raises:
        ClientError: an answer was not taken: it does not fit, or somebody else was faster.
    """
    answers = {review["id"]: answer_to(review["value"], decide) for review in reviews}
    resume = {key: value for key, value in answers.items() if value}
    if not resume and again:
        return
    if not resume:
        raise ClientError("This is no review of tool calls, so nothing was sent. Use Studio.")
    before = {review["id"] for review in pending(client, thread)}
    if not before >= resume.keys():
        raise ClientError("Somebody else answered first, so nothing was sent. See: review THREAD")
    resume_with(client, thread, reviews, resume)
    after = pending(client, thread)
    if resume.keys() & {review["id"] for review in after}:
        raise ClientError("The server did not take the answer: the review still waits.")
    new = [review for review in after if review["id"] not in before]
    show_reviews(thread, new)
    if again and new:
        answer(client, thread, new, decide, again=True)
    elif any(error_of(review) for review in new):
        raise ClientError("The answer was not accepted (see above). The review waits again.")


def resume_with(client: "Client", thread: str, reviews: Sequence[Json], resume: Json) -> None:
    """Answer reviews by their ids, and show how the agent goes on."""
    metadata = find_thread(client, thread)["metadata"]
    agent = metadata.get("assistant_id") or metadata["graph_id"]
    actions = [action for review in reviews for action, _ in actions_of(review["value"])]
    reviewed = {action["id"]: action["args"] for action in actions if "id" in action}
    transcript = Transcript(metadata.get("graph_id") or agent, reviewed)
    run: Json = {"command": {"resume": resume}, "config": same_budget(client, thread)}
    say("\nanswer", json.dumps(run["command"], ensure_ascii=False))
    watch(client, thread, agent, transcript, "continue", durability="sync", **run)


def same_budget(client: "Client", thread: str) -> Json | None:
    """Return the config of a run that goes on with the turn of the thread's last run.

    The server keeps no `recursion_limit` from one run to the next.
    """
    run: Any = next(iter(client.runs.list(thread, limit=1)), {})
    limit = ((run.get("kwargs") or {}).get("config") or {}).get("recursion_limit")
    return {"recursion_limit": limit} if limit else None


def answer_to(request: Any, decide: Decide) -> Json | None:
    """Return the answer to one interrupt; None if a decision is put off."""
    decisions = []
    for action, config in actions_of(request):
        decision = decide(action, config)
        if decision is None:
            return None
        decisions.append(decision | ({"id": action["id"]} if action.get("id") else {}))
    return {"decisions": decisions} if decisions else None


def actions_of(request: Any) -> list[tuple[Json, Json]]:
    """Pair each action request with its review config; empty for an interrupt of another kind."""
    if not isinstance(request, dict) or "action_requests" not in request:
        return []
    configs = {config["action_name"]: config for config in request.get("review_configs", [])}
    return [(action, configs.get(action["name"], {})) for action in request["action_requests"]]


def allowed(config: Json) -> list[str]:
    decisions: list[str] = config.get("allowed_decisions", ["approve", "reject"])
    return decisions


def error_of(review: Json) -> str:
    value = review["value"]
    return str(value.get("error") or "") if isinstance(value, dict) else ""


def edited(action: Json, changes: Json) -> Json:
    args = {**action["args"], **changes}
    return {"type": "edit", "edited_action": {"name": action["name"], "args": args}}


def with_message(kind: str, message: str) -> Json:
    return {"type": kind, "message": message} if message else {"type": kind}


def decision(kind: str, message: str = "", changes: Json | None = None) -> Decide:
    """Make the same decision about every action; `changes` are new values for an edit."""

    def decide(action: Json, config: Json) -> Json:
        if kind not in allowed(config):
            raise ClientError(
                f"{action['name']} cannot be answered by {kind}, so nothing was sent. "
                f"Allowed: {', '.join(allowed(config))}."
            )
        return edited(action, changes or {}) if kind == "edit" else with_message(kind, message)

    return decide


def scripted(
    approve: bool, reject: str | None, respond: str | None, edit: Sequence[str]
) -> Decide | None:
    """Turn the options into decisions; None if there are none."""
    given = {"approve": approve, "reject": reject, "respond": respond, "edit": edit}
    kinds = [kind for kind, value in given.items() if value not in (False, None, [])]
    if len(kinds) > 1:
        raise ClientError(f"Give one of {', '.join('--' + kind for kind in kinds)}, not several.")
    if not kinds:
        return None
    decide = decision(kinds[0], reject or respond or "", changes_in(edit))
    return only_once(decide) if edit else decide


def only_once(decide: Decide) -> Decide:
    """Refuse to decide a second time: new values are meant for one call, not for all that wait."""
    decided: list[Json] = []

    def decide_once(action: Json, config: Json) -> Json | None:
        decided.append(action)
        if len(decided) > 1:
            raise ClientError("Several calls wait, and --edit is for one: try --only, or no option")
        return decide(action, config)

    return decide_once


def changes_in(options: Sequence[str]) -> Json:
    """Read `name=text` pairs and JSON objects.

    >>> changes_in(["subject=Hi = hello", '{"copies": 2}'])
    {'subject': 'Hi = hello', 'copies': 2}
    """
    changes: Json = {}
    for option in options:
        name, equals, value = option.partition("=")
        if option.lstrip().startswith("{"):
            changes |= json_object(option)
        elif equals:
            changes[name.strip()] = value
        else:
            raise ClientError(f"--edit takes NAME=TEXT or a JSON object, not {option!r}.")
    return changes


def json_object(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError as error:
        raise ClientError(f"--edit got something that is not JSON: {error}.") from None
    return value


def ask_human(action: Json, config: Json) -> Json | None:
    """Ask at the terminal for the decision on one action."""
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
        return edited(action, {name: ask_value(name, old) for name, old in action["args"].items()})
    if kind not in ("reject", "respond"):
        return {"type": kind}
    return with_message(kind, typed_line("Why" if kind == "reject" else "Answer"))


def typed_line(question: str) -> str:
    line: str = typer.prompt(question, default="", show_default=False)
    return line


def ask_value(name: str, old: Any) -> Any:
    """Ask for an argument's new value, with the old one offered."""
    text = old if isinstance(old, str) else json.dumps(old, ensure_ascii=False)
    say(name, text)
    typed = typed_line("  Enter keeps it, ! opens your editor, or type a new value")
    if not typed:
        return old
    if typed == "!":
        typed = in_editor(text)
    return typed if isinstance(old, str) else json_value(typed)


def json_value(text: str) -> Any:
    """Read JSON where it is JSON, and text where it is not."""
    try:
        return json.loads(text)
    except ValueError:
        return text


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


# The terminal: what models, tools and people wrote is text, never markup or control codes


def clean(text: str) -> str:
    r"""Make control and invisible characters visible; keep line breaks and tabs.

    >>> clean("a\x1b[31m\u202e")
    'a\\x1b[31m\\u202e'
    """
    return "".join(
        escaped(c) if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c
        for c in text.replace("\r\n", "\n")
    )


def escaped(character: str) -> str:
    if character in "\n\t\u200c\u200d":  # the last two join emoji, and letters in some scripts
        return character
    return character.encode("unicode_escape").decode()


def say(label: str, text: str, style: str = "", indent: int = 0) -> None:
    margin = " " * indent
    out.print(
        Text.assemble(
            (f"{margin}{clean(label)}  " if label else margin, "bold cyan"),
            (clean(text).replace("\n", f"\n{margin}"), style),
        )
    )


def heading(title: str, why: str) -> None:
    out.print()
    out.rule(Text(title, style="bold"), align="left")
    say("", f"{why}\n", "italic")


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
        self.name = name
        self.agents = {"": name}  # by namespace; a subagent is named by the call it works for
        self.reviewed = reviewed or {}
        self.known_calls: dict[tuple[str, str], Any] = {}
        self.line = ""

    def show(self, event: str, data: Any) -> None:
        mode, _, namespace = event.partition("|")
        if mode == "error":
            raise ClientError(
                f"The run failed: {data.get('error')}: {data.get('message')}. The thread stays "
                "usable: ask again with --thread."
            )
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
            out.print(Text(f"{clean(self.name)}  ", style="bold cyan"), end="")
        self.line += text
        out.print(Text(clean(text)), end="", soft_wrap=True)

    def end_line(self) -> None:
        if self.line:
            out.print()
        self.line = ""

    def show_message(self, namespace: str, message: Json) -> None:
        agent = self.agents.get(namespace, namespace.rpartition("|")[2].partition(":")[0])
        indent = 2 * len(namespace.split("|")) if namespace else 0
        if message["type"] == "ai":
            calls = calls_of(message)
            if calls or not namespace:  # a subagent's last text comes again, as its tool's result
                self.show_text(agent, namespace, text_of(message), indent)
            self.show_calls(agent, namespace, calls, indent)
        elif message["type"] == "tool":
            failed = message.get("status") == "error"
            label = f"{message.get('name') or 'tool'} {'failed' if failed else 'returned'}"
            say(label, text_of(message), "red" if failed else "", indent)

    def show_text(self, agent: str, namespace: str, text: str, indent: int) -> None:
        """Print a message's text, unless it was printed as it came."""
        streamed = "" if namespace else self.line
        self.end_line()
        if text and text != streamed:
            say(f"{agent} (in place of the above)" if streamed else agent, text, indent=indent)

    def show_calls(self, agent: str, namespace: str, calls: Sequence[Json], indent: int) -> None:
        for call in calls:
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


def show_reviews(thread: str, reviews: Sequence[Json]) -> None:
    """Show reviews whole: a human answers for every recipient and every word."""
    for review in reviews:
        out.print()
        out.rule(Text("Waits for a human", style="bold yellow"), align="left", style="yellow")
        say("thread", thread)
        say("review", review["id"])
        if error := error_of(review):
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
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say("", f"{name:{width}}" + shown.replace("\n", "\n" + " " * width), indent=2)
    say("allowed", ", ".join(allowed(config)))


def show_how_to_answer(thread: str, reviews: Sequence[Json], url: str) -> None:
    examples = {
        "approve": "--approve",
        "edit": "--edit NAME=TEXT",
        "reject": '--reject "why"',
        "respond": '--respond "text"',
    }
    actions = [action for review in reviews for action in actions_of(review["value"])]
    kinds = [kind for kind in examples if all(kind in allowed(config) for _, config in actions)]
    at = "" if url == os.environ.get("LANGGRAPH_URL", DEFAULT_URL) else f" --url {url}"
    say("\nanswer it", f"{COMMAND} review {thread}{at}")
    if kinds:
        say("in a script", f"add {' or '.join(examples[kind] for kind in kinds)}")


# The step budget on real runs


def show_budget(client: "Client") -> None:
    """Run an endless request under several limits at once, and tell how each run ended.

    Raises:
        ClientError: a run ran more tool rounds than its limit has room for.
    """
    say("asked", ENDLESS)
    limits = (6, 7, 25, 100)
    with ThreadPoolExecutor(len(limits)) as pool:
        runs = list(pool.map(lambda limit: endless_run(client, limit), limits))
    table = Table("recursion_limit", "tool calls", "rounds run", "ended with")
    for limit, messages in zip(limits, runs, strict=True):
        rounds = [calls for message in messages if (calls := calls_of(message))]
        table.add_row(
            str(limit), str(sum(map(len, rounds))), str(len(rounds)), ending(messages[-1])
        )
        if len(rounds) > (limit - 2) // 2:
            raise ClientError(f"{len(rounds)} tool rounds ran under recursion_limit {limit}.")
    out.print(table, soft_wrap=False)
    say("", BUDGET_RULE)


def endless_run(client: "Client", limit: int) -> list[Json]:
    """Return the history that an endless request leaves under a limit."""
    values: Any = client.runs.wait(
        new_thread(client), "react", input=user_says(ENDLESS), config={"recursion_limit": limit}
    )
    messages: list[Json] = values["messages"]
    return messages


def ending(message: Json) -> str:
    metadata = message.get("response_metadata") or {}
    closing = metadata.get("stop_reason") == "step_limit"
    return "a closing answer: no steps left" if closing else "an answer of its own accord"


# The demo: every part checks what it claims


def claim(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClientError(f"The demo expected something else: {otherwise}")


def demo_react(client: "Client") -> None:
    heading(
        "1. ReAct: two tools at once",
        "The model asks for two tools in one message, and both run at the same time.",
    )
    thread = new_thread(client)
    demo_ask(client, thread, "react", DEMO_QUESTION)
    claim(most_calls(client, thread) > 1, "no message asked for two tools.")


def demo_budget(client: "Client") -> None:
    heading(
        "2. The step budget",
        "A model that never stops asking for tools: every run ends in time, with an answer.",
    )
    show_budget(client)


def demo_review(client: "Client", outbox: Path) -> None:
    heading(
        "3. Human in the loop: approve, edit, reject, respond",
        "The agent may write emails, but none goes out before a human has decided.",
    )
    for kind, message, changes, mails in (
        ("approve", "", {}, 1),
        ("edit", "", {"subject": "Meeting at 3 pm, in room 7"}, 1),
        ("reject", "Wait until the room is booked.", {}, 0),
        ("respond", "I told Bob myself, on the phone.", {}, 0),
    ):
        say("\nthis time the human will", kind, "bold")
        decide = decision(kind, message, changes)
        demo_email(client, "human_in_the_loop", DEMO_EMAIL, outbox, decide, mails)


def demo_subagents(client: "Client", outbox: Path) -> None:
    heading(
        "4. Subagents: parallel work, with a review inside",
        "A supervisor hands out three tasks at once. The email waits for a human; the other two "
        "are done meanwhile, and are not done again after the answer.",
    )
    thread = demo_email(client, "subagents", DEMO_TASKS, outbox, decision("approve"), 1)
    claim(most_calls(client, thread) > 1, "the supervisor did not hand out tasks at once.")


def demo_ask(client: "Client", thread: str, agent: str, text: str) -> None:
    say("you", text)
    ask_in(client, thread, agent, text)


def most_calls(client: "Client", thread: str) -> int:
    return max(len(calls_of(message)) for message in history(client, thread))


def demo_email(
    client: "Client", agent: str, text: str, outbox: Path, decide: Decide, mails: int
) -> str:
    """Ask for an email, answer the review, and check that so many emails went out after it."""
    thread = new_thread(client)
    before = emails_in(outbox)
    demo_ask(client, thread, agent, text)
    reviews = pending(client, thread)
    claim(bool(reviews), "the agent did not pause for a review.")
    claim(emails_in(outbox) == before, "an email went out before the review.")
    show_reviews(thread, reviews)
    answer(client, thread, reviews, decide, again=False)
    claim(not pending(client, thread), "the agent waits for another review.")
    landed = [mail for key, mail in emails_in(outbox).items() if key not in before]
    say(f"\nlanded in {outbox.name}", "".join(f"\n{mail}" for mail in landed) or "nothing", "green")
    claim(
        len(landed) == mails,
        f"{len(landed)} emails landed in {outbox.absolute()}, not {mails}. If the server writes "
        "elsewhere, name its OUTBOX_DIR with --outbox; with SMTP_HOST it writes to none.",
    )
    return thread


def emails_in(outbox: Path) -> dict[str, str]:
    """Return the emails of a Maildir, by key, as a reader sees them."""
    if not outbox.is_dir():
        return {}
    box = mailbox.Maildir(outbox, create=False)
    mails = {key: message_from_bytes(box.get_bytes(key), policy=default) for key in box.iterkeys()}
    return {
        key: f"To: {mail['To']}\nSubject: {mail['Subject']}\n{mail.get_content()}"
        for key, mail in mails.items()
    }


if __name__ == "__main__":
    app()
