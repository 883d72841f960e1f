"""The client's two shows: the step budget on real runs, and a demo that checks what it claims."""

import mailbox
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from client import Decide, answer, ask_in, pending, same_for_all, user_says
from terminal import ClientError, Json, calls_of, out, say, show_reviews

if TYPE_CHECKING:
    from langgraph_sdk.client import SyncLangGraphClient as Client

LIMITS = (6, 7, 25, 100)
ENDLESS = "Check the time in UTC again and again and never stop."
BUDGET_RULE = (
    "A tool round is two steps, and one step is kept for the answer. A limit above the "
    "deployment's maximum (MAX_AGENT_STEPS, 25 unless it is set) gives no more than that maximum."
)
QUESTION = "What is the weather in Jakarta and what time is it in Tokyo?"
EMAIL = "Email bob@example.com that the meeting moved to 3 pm."
TASKS = (
    "Find the weather in Jakarta and in Paris, and email bob@example.com that the report is ready."
)


def claim(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClientError(f"Something else was expected: {otherwise}")


# The step budget


def show_budget(client: "Client") -> None:
    """Run an endless request under several limits at once; tell how each ended, and check it."""

    def run(limit: int) -> list[Json]:
        values: Any = client.runs.wait(
            None, "react", input=user_says(ENDLESS), config={"recursion_limit": limit}
        )
        messages: list[Json] = values["messages"]
        return messages

    say("asked", ENDLESS)
    with ThreadPoolExecutor(len(LIMITS)) as pool:
        histories = list(pool.map(run, LIMITS))
    table = Table("recursion_limit", "tool calls", "rounds run", "ended with")
    for limit, messages in zip(LIMITS, histories, strict=True):
        rounds = [len(calls) for message in messages if (calls := calls_of(message))]
        table.add_row(str(limit), str(sum(rounds)), str(len(rounds)), ending(messages[-1]))
        fits = len(rounds) <= (limit - 2) // 2
        claim(fits, f"{len(rounds)} tool rounds ran under recursion_limit {limit}.")
    out.print(table, soft_wrap=False)
    say("", BUDGET_RULE)


def ending(message: Json) -> str:
    closing = (message.get("response_metadata") or {}).get("stop_reason") == "step_limit"
    return "a closing answer: no steps left" if closing else "an answer of its own accord"


# The demo


def show_all(client: "Client", outbox: Path) -> None:
    """Walk through all three agents; `outbox` is the Maildir that the server writes emails to.

    Raises:
        ClientError: something was not as it is claimed, or a run failed.
    """
    demo_react(client)
    heading(
        "2. The step budget",
        "A model that never stops asking for tools: every run ends in time, with an answer.",
    )
    show_budget(client)
    demo_review(client, outbox)
    demo_subagents(client, outbox)
    say("", "\nAll of it was as promised.", "bold green")


def heading(title: str, why: str) -> None:
    out.print()
    out.rule(Text(title, style="bold"), align="left")
    say("", f"{why}\n", "italic")


def demo_react(client: "Client") -> None:
    heading(
        "1. ReAct: two tools at once",
        "The model asks for two tools in one message, and both run at the same time.",
    )
    thread = client.threads.create()["thread_id"]
    say("you", QUESTION)
    ask_in(client, thread, "react", QUESTION)
    messages = history(client, thread)
    claim(most_calls(messages) > 1, "no message asked for two tools.")
    say("\nthe model was", model_of(messages[-1]))


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
        decide = same_for_all(kind, message, changes)
        demo_email(client, "human_in_the_loop", EMAIL, outbox, decide, mails)


def demo_subagents(client: "Client", outbox: Path) -> None:
    heading(
        "4. Subagents: parallel work, with a review inside",
        "A supervisor hands out three tasks at once. The email waits for a human; the other two "
        "are done meanwhile, and are not done again after the answer.",
    )
    thread = demo_email(client, "subagents", TASKS, outbox, same_for_all("approve"), 1)
    claim(most_calls(history(client, thread)) > 1, "the supervisor did not hand out tasks at once.")


def demo_email(
    client: "Client", agent: str, text: str, outbox: Path, decide: Decide, mails: int
) -> str:
    """Ask for an email, answer the review, and check that so many emails went out after it."""
    thread = client.threads.create()["thread_id"]
    before = emails_in(outbox)
    say("you", text)
    ask_in(client, thread, agent, text)
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
        f"{len(landed)} emails landed in {outbox.absolute()}, not {mails}. Give the demo the "
        "server's OUTBOX_DIR; a server with SMTP_HOST writes to none.",
    )
    return thread


def history(client: "Client", thread: str) -> list[Json]:
    values: Any = client.threads.get_state(thread)["values"]
    messages: list[Json] = values["messages"]
    return messages


def most_calls(messages: list[Json]) -> int:
    """Return how many calls the message with the most of them has."""
    return max(len(calls_of(message)) for message in messages)


def model_of(message: Json) -> str:
    name = str((message.get("response_metadata") or {}).get("model_name") or "not named")
    return "the demo model, a small program that needs no key" if name == "demo" else name


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
