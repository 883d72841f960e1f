"""A command line for the agents, and an example of the LangGraph SDK to copy from.

    python client.py ask react "What time is it in Tokyo?"
    python client.py review
    python client.py budget
    python client.py demo

Works with any server and any agent whose reviews follow LangChain's `HITLRequest`:
https://docs.langchain.com/oss/python/langchain/human-in-the-loop
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from terminal import (
    ClientError,
    Json,
    Transcript,
    actions_of,
    allowed,
    ask_human,
    clean,
    decision,
    err,
    error_of,
    out,
    say,
    show_reviews,
    text_of,
)

if TYPE_CHECKING:  # The SDK takes a second to import: `--help` need not wait for it.
    from langgraph_sdk.client import SyncLangGraphClient as Client

Decide = Callable[[Json, Json], Json | None]
"""Takes an action request and its review config; returns a decision, or None for "not now"."""

Waiting = dict[str, list[Json]]
COMMAND = ".venv/bin/python client.py"
DEFAULT_URL = "http://127.0.0.1:2024"
NO_SERVER = "No answer from a LangGraph server ({}). Run `make dev`, or name one with --url."


class OneLineErrors(TyperGroup):
    """Ends with one line on stderr, and exit code 1, where Python would print a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if not (line := explained(error)):
                raise
        err.print(Text(f"Error: {clean(' '.join(line.split()))}", style="red"))
        raise typer.Exit(1)


def explained(error: BaseException) -> str:
    """Say in one line what went wrong and what to do; empty for a bug of this program."""
    import httpx
    from langgraph_sdk.errors import APIStatusError, ConflictError

    if isinstance(error, ClientError | KeyboardInterrupt | typer.Abort):
        return str(error) or "Stopped. Nothing more was sent; what waits for a human still waits."
    if isinstance(error, ConflictError):
        return "A run is under way on this thread. Wait until it has ended, then try again."
    if isinstance(error, APIStatusError):
        return f"The server refused this ({error.status_code}): {error.message}"
    if isinstance(error, httpx.TransportError | httpx.InvalidURL):
        return NO_SERVER.format(str(error).rstrip("."))
    if isinstance(error, UnicodeError) or "surrogates not allowed" in str(error):
        return "This text is not valid UTF-8, so it was not sent. Type or paste it anew."
    return ""


app = typer.Typer(
    help="Talk to the agents on a LangGraph server, and answer what waits for a human.",
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help comes at once
    pretty_exceptions_enable=False,
)
Url = Annotated[str, typer.Option(envvar="LANGGRAPH_URL", help="Address of the LangGraph server.")]


@app.command()
def ask(
    agent: Annotated[str, typer.Argument(help="react, human_in_the_loop, subagents, ...")],
    text: Annotated[str, typer.Argument(help="What to ask, in everyday words.")],
    thread: Annotated[str | None, typer.Option(help="Go on in this thread.")] = None,
    steps: Annotated[int | None, typer.Option(min=2, max=10_000, help="Steps allowed.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Ask an agent something, and watch the answer come."""
    client = connect(url)
    check_agent(client, agent)
    if thread and pending(client, find_thread(client, thread)["thread_id"]):
        say("note", "A review waits on this thread. You move on: its call will not run.")
    thread = thread or client.threads.create()["thread_id"]
    say("thread", thread)
    ask_in(client, thread, agent, text, steps)
    if reviews := pending(client, thread):
        show_reviews(thread, reviews)
        show_how_to_answer(thread, url)


@app.command()
def review(
    thread: Annotated[str | None, typer.Argument(help="Only this thread.")] = None,
    only: Annotated[str | None, typer.Option(help="Only the review with this id.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve every call.")] = False,
    reject: Annotated[str | None, typer.Option(help="Reject every call, and say why.")] = None,
    respond: Annotated[str | None, typer.Option(help="Answer in the tools' place.")] = None,
    edit: Annotated[list[str] | None, typer.Option(help="NAME=TEXT or a JSON object.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """List what waits for a human, and ask for each decision, unless an option gives it."""
    client = connect(url)
    decide = scripted(approve, reject, respond, edit or [])
    waiting = waiting_reviews(client, thread, only)
    for found, reviews in waiting.items():
        show_asked(client, found)
        show_reviews(found, reviews)
        if decide is None and sys.stdin.isatty():
            answer(client, found, reviews, ask_human, again=True)
        elif decide is None:
            show_how_to_answer(found, url)
    if decide is None:
        say("", "" if waiting else "Nothing waits for a human.")
        return
    if len(waiting) != 1:
        problem = "Several threads wait: name one" if waiting else "Nothing waits for a human"
        raise ClientError(f"{problem}. Nothing was sent. `{COMMAND} review` lists what waits.")
    found, reviews = waiting.popitem()
    if edit and sum(len(actions_of(review["value"])) for review in reviews) > 1:
        raise ClientError("Several calls wait, and --edit is for one: try --only, or no option.")
    answer(client, found, reviews, decide, again=False)


@app.command()
def budget(url: Url = DEFAULT_URL) -> None:
    """Show the step budget on real runs, as a table."""
    from walkthrough import show_budget

    show_budget(connect(url))


@app.command()
def demo(url: Url = DEFAULT_URL) -> None:
    """Watch all three agents work, and check it. OUTBOX_DIR must be the server's (outbox)."""
    from walkthrough import show_all

    try:
        show_all(connect(url), Path(os.environ.get("OUTBOX_DIR") or "outbox"))
    except KeyboardInterrupt:  # no hint how to go on: the demo's server goes away with it
        raise ClientError("The demo was stopped.") from None


def show_asked(client: "Client", thread: str) -> None:
    """Show which agent works on a thread, and what the user asked it last."""
    out.print()
    state: Any = client.threads.get_state(thread)
    messages = state["values"].get("messages") or []
    asked = ["", *(text_of(message) for message in messages if message["type"] == "human")]
    say(f"{state['metadata'].get('graph_id')} was asked", asked[-1])


def show_how_to_answer(thread: str, url: str) -> None:
    at = "" if url == os.environ.get("LANGGRAPH_URL", DEFAULT_URL) else f" --url {url}"
    out.print()
    say("answer it", f"\n  {COMMAND} review {thread}{at}")
    say("without questions", "--approve, --edit NAME=TEXT, --reject WHY or --respond TEXT")


# Talking to the server


def connect(url: str) -> "Client":
    """Return the SDK's client, once a LangGraph server has answered at `url`."""
    import httpx
    from langgraph_sdk import get_sync_client

    # Asked apart, as the SDK would try for eight seconds. Given a transport, both use no proxy.
    with httpx.Client(transport=httpx.HTTPTransport(), timeout=10) as probe:
        if '"ok":true' not in "".join(probe.get(f"{url}/ok").text.split()):
            raise ClientError(NO_SERVER.format(f"something else answers at {url}"))
    client = get_sync_client(url=url)
    # Not told where to reconnect, it says at once that a stream broke, and not after a minute.
    client.http.client.event_hooks = {"response": [lambda got: got.headers.pop("location", None)]}
    return client


def check_agent(client: "Client", agent: str) -> None:
    known = client.assistants.search(limit=100)
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
        advice = f"`ask` prints a thread's id, and `{COMMAND} review` lists those that wait."
        raise ClientError(f"There is no thread {thread!r} on this server. {advice}") from None


def ask_in(client: "Client", thread: str, agent: str, text: str, steps: int | None = None) -> None:
    """Send the user's words, and show the agent at work until it answers or pauses."""
    run: Json = {"input": user_says(text), "config": {"recursion_limit": steps} if steps else None}
    watch(client, thread, agent, Transcript(agent), on_disconnect="cancel", **run)


def user_says(text: str) -> Json:
    return {"messages": [{"role": "user", "content": text}]}


def watch(client: "Client", thread: str, agent: str, transcript: Transcript, **run: Any) -> None:
    """Start a run, with these options of `client.runs.stream`, and show what it does as it comes.

    Raises:
        ClientError: the run failed, or the connection did.
        KeyboardInterrupt: the user stopped watching; the text says how to go on.
    """
    import httpx

    go_on = f'{COMMAND} ask {transcript.agents[""]} "..." --thread {thread}'
    modes: Any = ["messages-tuple", "updates", "tasks"]
    run |= {"stream_mode": modes, "stream_subgraphs": True, "multitask_strategy": "reject"}
    try:
        for part in client.runs.stream(thread, agent, **run):
            if part.event.startswith("error"):
                reason = f"{part.data.get('error')}: {part.data.get('message')}".rstrip(".")
                raise ClientError(f"The run failed: {reason}. Ask again: {go_on}")
            transcript.show(part.event, part.data)
        client.threads.get(thread)  # fails if the stream ended because the server shuts down
    except httpx.TransportError as error:
        broken = f"The connection broke off ({str(error).rstrip('.')}). Ask again: {go_on}"
        raise ClientError(f"{broken} or see what waits: {COMMAND} review {thread}") from None
    except KeyboardInterrupt:
        run_now = "stops too" if run["on_disconnect"] == "cancel" else "goes on at the server"
        raise KeyboardInterrupt(f"Stopped watching; the run {run_now}. Go on: {go_on}") from None
    finally:
        transcript.end_line()


# What waits for a human


def pending(client: "Client", thread: str) -> list[Json]:
    """Return the interrupts that wait on a thread, each with `id` and `value`."""
    from langgraph_sdk.errors import NotFoundError

    try:
        tasks = client.threads.get_state(thread)["tasks"]
    except NotFoundError:  # just deleted, or its graph is not served any more
        return []
    return [dict(interrupt) for task in tasks for interrupt in task["interrupts"]]


def waiting_reviews(client: "Client", thread: str | None, only: str | None) -> Waiting:
    """Return the reviews that wait, by thread: of one thread and with one id, if these are given.

    A thread's status only tells where to look: a cancelled one reads "interrupted" too.
    """
    from concurrent.futures import ThreadPoolExecutor

    ids = [find_thread(client, thread)["thread_id"]] if thread else threads_to_look_at(client)
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(ids, pool.map(lambda id: pending(client, id), ids), strict=True))
    chosen = {id: [r for r in found[id] if only in (None, r["id"])] for id in ids}
    return {id: reviews for id, reviews in chosen.items() if reviews}


def threads_to_look_at(client: "Client") -> list[str]:
    """Return the threads that read "interrupted", up to 1,000, and the 100 that changed last:
    langgraph-api 0.16.7 may call a paused thread "idle" if it was streamed with its subgraphs.
    """
    recent = client.threads.search(limit=100, sort_by="updated_at", select=["thread_id"])
    paused = client.threads.search(limit=1000, status="interrupted", select=["thread_id"])
    return list(dict.fromkeys(thread["thread_id"] for thread in [*recent, *paused]))


# Answering a review


def answer(
    client: "Client", thread: str, reviews: Sequence[Json], decide: Decide, *, again: bool
) -> None:
    """Decide on reviews of one thread, send all decisions in one resume, show how it goes on.

    `reviews` are interrupts as `pending` returns them; with `again` it goes on with later ones.

    Raises:
        ClientError: an answer was not taken: it does not fit, or somebody else was faster.
    """
    answers = {review["id"]: answer_to(review["value"], decide) for review in reviews}
    resume = {key: value for key, value in answers.items() if value}
    if not resume:
        if again:
            return
        raise ClientError("This is no review of tool calls, so nothing was sent. Use Studio.")
    before = {review["id"] for review in pending(client, thread)}
    if not before >= resume.keys():
        raise ClientError("Somebody else answered first, so nothing was sent.")
    resume_with(client, thread, resume)
    after = pending(client, thread)
    if resume.keys() & {review["id"] for review in after}:
        raise ClientError("The server did not take the answer: the review still waits.")
    new = [review for review in after if review["id"] not in before]
    show_reviews(thread, new)
    if again and new:
        answer(client, thread, new, decide, again=True)
    elif any(error_of(review["value"]) for review in new):
        raise ClientError("The answer was not accepted (see above). The review waits again.")


def answer_to(request: Any, decide: Decide) -> Json | None:
    """Return the answer to one interrupt; None if a decision is put off."""
    decisions = []
    for action, config in actions_of(request):
        if (made := decide(action, config)) is None:
            return None
        decisions.append(made)
    return {"decisions": decisions} if decisions else None


def resume_with(client: "Client", thread: str, resume: Json) -> None:
    """Answer reviews by their ids, and show how the agent goes on."""
    metadata = find_thread(client, thread)["metadata"]
    agent = metadata.get("assistant_id") or metadata["graph_id"]
    decided = {made.get("id") for answer in resume.values() for made in answer["decisions"]}
    transcript = Transcript(metadata.get("graph_id") or agent, decided - {None})
    run: Json = {"command": {"resume": resume}, "config": same_budget(client, thread)}
    say("the client sends", json.dumps(run["command"], ensure_ascii=False))
    # Each step is saved before the next one starts, so that a crash repeats as little as it can.
    watch(client, thread, agent, transcript, durability="sync", on_disconnect="continue", **run)


def same_budget(client: "Client", thread: str) -> Json | None:
    """Return the limit of the thread's last run, which the server does not keep for the next."""
    run: Any = next(iter(client.runs.list(thread, limit=1)), {})
    limit = ((run.get("kwargs") or {}).get("config") or {}).get("recursion_limit")
    return {"recursion_limit": limit} if limit else None


def same_for_all(kind: str, message: str = "", changes: Json | None = None) -> Decide:
    """Make the same decision about every action; `changes` are new values for an edit."""

    def decide(action: Json, config: Json) -> Json:
        if kind not in allowed(config):
            decisions = f"{', '.join(allowed(config))}, not {kind}"
            raise ClientError(f"{action['name']} takes {decisions}. Nothing was sent.")
        return decision(action, kind, message, changes)

    return decide


def scripted(
    approve: bool, reject: str | None, respond: str | None, edit: Sequence[str]
) -> Decide | None:
    """Turn the options into decisions; None if there are none."""
    given = {"approve": approve, "reject": reject, "respond": respond, "edit": edit}
    kinds = [kind for kind, value in given.items() if value not in (False, None, [])]
    if len(kinds) > 1:
        raise ClientError(f"Give one of {', '.join('--' + kind for kind in kinds)}, not several.")
    return same_for_all(kinds[0], reject or respond or "", changes_in(edit)) if kinds else None


def changes_in(options: Sequence[str]) -> Json:
    """Read `name=text` pairs and JSON objects."""
    changes: Json = {}
    for option in options:
        name, equals, text = option.partition("=")
        pair = equals and not option.lstrip().startswith("{")
        try:
            changes |= {name.strip(): text} if pair else {**json.loads(option)}
        except (ValueError, TypeError):
            problem = f"--edit takes NAME=TEXT or a JSON object, not {option!r}."
            raise ClientError(problem) from None
    return changes


if __name__ == "__main__":
    app()
