"""The client's two shows: the step budget on real runs, and a demo that checks what it claims."""

import mailbox
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from client import COMMAND, Decide, answer, ask_in, pending, same_for_all, user_says
from terminal import ClientError, Json, actions_of, calls_of, out, say, show_reviews

if TYPE_CHECKING:
    from langgraph_sdk.client import SyncLangGraphClient as Client

LIMITS = (6, 7, 25, 100, None)
ENDLESS = "Check the time in UTC again and again and never stop."
BUDGET_RULE = (
    "A tool round is two steps: the model asks for tools, and they run. One step is kept for the "
    "answer, and one LangGraph needs itself: a limit of 6 gives 2 rounds (4 + 1 + 1), and so does "
    "7. A limit above the server's maximum (MAX_AGENT_STEPS, 25 unless set) gives no more."
)
QUESTION = "What is the weather in Jakarta and what time is it in Tokyo?"
EMAIL = "Email bob@example.com that the meeting moved to 3 pm."
TASKS = (
    "Find the weather in Jakarta and in Paris, and email bob@example.com that the report is ready."
)
CHECKED = """
All of it was as promised. This was checked on the way:
- two tools were asked for in one message, and every call got exactly one result
- endless requests ended with an answer, under every limit, and none got more than the maximum
- no email went out before a human had decided, nor after a rejection or an answer in its place
- what landed is what the human approved or edited, word for word
- the supervisor handed out three tasks at once; two were done while the third waited\
"""


def claim(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClientError(f"Something else was expected: {otherwise}")


# The step budget


def show_budget(client: "Client") -> dict[int | None, list[Json]]:
    """Run an endless request under several limits at once; show and return what came of each."""

    def run(limit: int | None) -> Any:
        config: Any = {"recursion_limit": limit} if limit else None
        values: Any = client.runs.wait(None, "react", input=user_says(ENDLESS), config=config)
        return values["messages"]

    say("each run is asked", ENDLESS)
    with ThreadPoolExecutor(len(LIMITS)) as pool:
        histories = dict(zip(LIMITS, pool.map(run, LIMITS), strict=True))
    table = Table("recursion_limit", "tools run", "tool rounds", "how the run ended")
    for limit, messages in histories.items():
        ended = "answered: no steps left" if was_closed(messages) else "answered by itself"
        calls = sum(len(calls_of(message)) for message in messages)
        table.add_row(str(limit or "none given"), str(calls), str(rounds(messages)), ended)
    out.print(table, soft_wrap=False)
    say("", BUDGET_RULE)
    return histories


def rounds(messages: list[Json]) -> int:
    return sum(bool(calls_of(message)) for message in messages)


def was_closed(messages: list[Json]) -> bool:
    return (messages[-1].get("response_metadata") or {}).get("stop_reason") == "step_limit"


# The demo


def show_all(client: "Client", outbox: Path) -> None:
    """Walk through all three agents; `outbox` is the Maildir that the server writes emails to."""
    demo_react(client)
    demo_budget(client)
    demo_review(client, outbox)
    demo_subagents(client, outbox)
    say("", CHECKED, "green")
    say("the emails are in", f"{outbox.absolute()} (a Maildir, which most mail programs open)")
    say("go on with", f'\n  make dev\n  {COMMAND} ask react "What time is it in Tokyo?"')


def heading(title: str, why: str) -> None:
    out.print()
    out.rule(Text(title, style="bold"), align="left")
    say("", f"{why}\n", "italic")


def demo_react(client: "Client") -> None:
    heading("1. ReAct", "The model asks for two tools in one message, and answers from both.")
    thread = client.threads.create()["thread_id"]
    say("you", QUESTION)
    ask_in(client, thread, "react", QUESTION)
    model = (check_parallel(client, thread, 2)[-1].get("response_metadata") or {}).get("model_name")
    say("the model", "demo, a small program that needs no key" if model == "demo" else str(model))


def demo_budget(client: "Client") -> None:
    heading("2. The step budget", "A model that never stops asking for tools: each run still ends.")
    histories = show_budget(client)
    for limit, messages in histories.items():
        check_results(messages)
        claim(was_closed(messages), f"with recursion_limit {limit}, no closing answer came.")
        fits = 0 < rounds(messages) <= ((limit or 10**6) - 2) // 2
        claim(fits, f"{rounds(messages)} tool rounds ran under recursion_limit {limit}.")
    most = min(rounds(histories[None]), (100 - 2) // 2)
    claim(rounds(histories[100]) == most, f"a limit of 100 did not give {most} tool rounds.")


def demo_review(client: "Client", outbox: Path) -> None:
    heading("3. Human in the loop", "No email goes out before a human has decided on it.")
    demo_email(client, "human_in_the_loop", EMAIL, outbox, same_for_all("approve"))
    say("", "\nThe same request and the same pause, with three other decisions:", "italic")
    for decide in (
        same_for_all("edit", changes={"subject": "Meeting at 3 pm, in room 7"}),
        same_for_all("reject", "Wait until the room is booked."),
        same_for_all("respond", "I told Bob myself, on the phone."),
    ):
        demo_email(client, "human_in_the_loop", EMAIL, outbox, decide, quiet=True)


def demo_subagents(client: "Client", outbox: Path) -> None:
    heading("4. Subagents", "A supervisor hands out three tasks; two are done while one waits.")
    thread = demo_email(client, "subagents", TASKS, outbox, same_for_all("approve"))
    check_parallel(client, thread, 3)


def demo_email(
    client: "Client", agent: str, text: str, outbox: Path, decide: Decide, *, quiet: bool = False
) -> str:
    """Ask for an email (unseen if `quiet`), answer the review, check it; return the thread."""
    thread = client.threads.create()["thread_id"]
    known = keys_in(outbox)
    if quiet:
        client.runs.wait(thread, agent, input=user_says(text))
    else:
        say("you", text)
        ask_in(client, thread, agent, text)
        show_reviews(thread, pending(client, thread))
    reviews = pending(client, thread)
    claim(len(reviews) == 1, "the agent did not pause for one review.")
    claim(keys_in(outbox) == known, "an email went out before the review.")
    tasks: Any = client.threads.get_state(thread)["tasks"]
    claim(sum(not task["result"] for task in tasks) == 1, "something else is not done either.")
    ((action, config),) = actions_of(reviews[0]["value"])
    decision = decide(action, config) or {}
    out.print()
    say("the human decides to", decision["type"], "bold")
    answer(client, thread, reviews, decide, again=False)
    claim(not pending(client, thread), "the agent waits for another review.")
    landed = [read_email(outbox, key) for key in keys_in(outbox) - known]
    shown = "".join(f"\n  {name}: {value}" for mail in landed for name, value in mail.items())
    say(f"landed in {outbox.absolute()}", shown or "nothing", "green")
    decided = {"approve": [action], "edit": [decision.get("edited_action", {})]}
    check_landed(landed, decided.get(decision["type"], []))
    return thread


def check_landed(landed: list[Json], calls: list[Json]) -> None:
    hint = "Give the demo the server's OUTBOX_DIR; a server with SMTP_HOST writes to none."
    claim(len(landed) == len(calls), f"{len(landed)} emails landed, not {len(calls)}. {hint}")
    for mail, call in zip(landed, calls, strict=True):
        claim(mail["to"] == "bob@example.com", f"the email went to {mail['to']}.")
        same = all(text.split() == str(call["args"][name]).split() for name, text in mail.items())
        claim(same, f"{mail} landed, and the human decided on {call['args']}.")


def check_parallel(client: "Client", thread: str, calls: int) -> list[Json]:
    """Check that one message of a thread has so many tool calls; return all its messages."""
    values: Any = client.threads.get_state(thread)["values"]
    messages: list[Json] = values["messages"]
    most = max(len(calls_of(message)) for message in messages)
    claim(most >= calls, f"no message has more than {most} tool calls.")
    check_results(messages)
    return messages


def check_results(messages: list[Json]) -> None:
    calls = [call["id"] for message in messages for call in calls_of(message)]
    results = [message["tool_call_id"] for message in messages if message["type"] == "tool"]
    claim(sorted(calls) == sorted(results), "not every tool call has exactly one result.")


def keys_in(outbox: Path) -> set[str]:
    return set(mailbox.Maildir(outbox, create=False).keys()) if outbox.is_dir() else set()


def read_email(outbox: Path, key: str) -> Json:
    content = mailbox.Maildir(outbox, create=False).get_bytes(key)
    mail = message_from_bytes(content, policy=default)
    body = mail.get_body(("plain", "html"))
    text = body.get_content().strip() if body else ""
    return {"to": str(mail["To"]), "subject": str(mail["Subject"]), "body": text}
