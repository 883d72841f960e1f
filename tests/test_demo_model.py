"""The demo model: what it reads in a request, what it calls, what it answers."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from graphs.demo_model import CAPABILITIES, DemoChatModel, respond

Calls = list[tuple[str, dict[str, Any]]]


@tool
def get_weather(location: str, units: str = "metric") -> str:
    """Get the current weather of a place."""
    return f"{location}: 31 °C."


@tool
def get_current_time(timezone: str) -> str:
    """Get the current time in an IANA time zone."""
    return f"{timezone}: 12:00."


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an email."""
    return f"Sent to {to}: {subject}: {body}"


@tool
def population(location: str) -> str:
    """How many people live there."""
    return ""


def subagent(name: str, description: str, its_tool: BaseTool) -> BaseTool:
    def delegate(query: str) -> str:
        return loop(query, [its_tool])[-1].text

    return StructuredTool.from_function(delegate, name=name, description=description)


PLAIN = [population, get_weather, get_current_time, send_email]
SUBAGENTS = [
    subagent("email_agent", "Sends emails. Does not look up the weather.", send_email),
    subagent("weather_agent", "Looks up the weather; sends no email.", get_weather),
    subagent("helper", "Tells the current time in a place.", get_current_time),
]


def ask(messages: str | Sequence[BaseMessage], tools: Sequence[BaseTool], **options: Any) -> Any:
    question = [HumanMessage(messages)] if isinstance(messages, str) else list(messages)
    return DemoChatModel().bind_tools(tools).invoke(question, **options)


def calls_of(message: AIMessage) -> Calls:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def results_of(message: AIMessage, text: str, **options: Any) -> list[ToolMessage]:
    return [ToolMessage(text, tool_call_id=c["id"], **options) for c in message.tool_calls]


def loop(text: str, tools: Sequence[BaseTool], **options: Any) -> list[BaseMessage]:
    """Run an agent's loop to the answer, or fail after nine rounds."""
    by_name = {tool.name: tool for tool in tools}
    history: list[BaseMessage] = [HumanMessage(text)]
    for _ in range(9):
        history.append(message := ask(history, tools, **options))
        if not message.tool_calls:
            return history
        history += [by_name[call["name"]].invoke(call) for call in message.tool_calls]
    raise AssertionError(f"no answer: {history}")


def weather(*places: str) -> Calls:
    return [("get_weather", {"location": place}) for place in places]


def clock(*zones: str) -> Calls:
    return [("get_current_time", {"timezone": zone}) for zone in zones]


def email(to: str, subject: str, body: str) -> Calls:
    return [("send_email", {"to": to, "subject": subject, "body": body})]


MOVED = email("bob@example.com", "The meeting moved to 3 pm", "The meeting moved to 3 pm.")
LUNCH = email("a@x.com, b@y.com", "lunch", "noon works")
LATE = email("b@x.com", "I am late", "I am late.")
ODD = "Hi!\n\n“Xi'an”, \\ {x}: again and again, and weather in Rome? Mail c@x.com \ud800 \x00 end"
REPORT = "Check the weather in Jakarta and in Paris and email it to bob@example.com"
ABOUT = "Here is the current weather in Jakarta, the current weather in Paris"
FOUND = "Jakarta: 31 °C.\n\nParis: 31 °C."
TASKS = "Find the weather in Jakarta and in Paris, and email b@x.com"
LACKS = "I have no tool here for the"

REQUESTS: dict[str, Calls] = {
    "What time is it in Tokyo?": clock("Asia/Tokyo"),
    "time in Asia/Jakarta": clock("Asia/Jakarta"),
    "What's the current time in Atlantis, please?": clock("Atlantis"),
    "What is the weather in Jakarta?": weather("Jakarta"),
    "weather in Jakarta, Paris and Tokyo": weather("Jakarta", "Paris", "Tokyo"),
    "the weather in Springfield, Illinois right now": weather("Springfield, Illinois"),
    'How is the weather in "Côte d\'Ivoire"?': weather("Côte d'Ivoire"),
    "Weather in St. Louis. Thanks!": weather("St. Louis"),
    "Get the weather for Paris and The Hague": weather("Paris", "The Hague"),
    "Weather in Oslo and what time is it in Tokyo?": weather("Oslo") + clock("Asia/Tokyo"),
    "The weather in Oslo, and what time is it there?": weather("Oslo") + clock("Oslo"),
    "cuaca di Oslo dan jam berapa di Tokyo": weather("Oslo") + clock("Asia/Tokyo"),
    "Email bob@example.com that the meeting moved to 3 pm.": MOVED,
    "Could you please email bob@example.com that the meeting moved to 3 pm.": MOVED,
    "Email bob@example.com to say that the meeting moved to 3 pm.": MOVED,
    "Send an email to a@x.com and b@y.com about lunch saying noon works": LUNCH,
    "Email a@x.com, b@y.com about lunch: noon works": LUNCH,
    'Email a@x.com: "a" or "b"': email("a@x.com", '"a" or "b"', '"a" or "b"'),
    f"Email a@x.com saying {ODD}": email("a@x.com", "Hi!", ODD),
    "Kirim email ke a@x.com bahwa rapat pindah": email("a@x.com", "Rapat pindah", "Rapat pindah"),
    "Weather in Paris, and email b@x.com that I am late.": weather("Paris") + LATE,
    "What is the weather in Paris? Email b@x.com that I am late.": weather("Paris") + LATE,
    "email a@x.com that A, email b@x.com that B and email c@x.com that C": [
        call for name in "abc" for call in email(f"{name}@x.com", name.upper(), name.upper())
    ],
    "Email a@x.com: Hi. And what time is it?": (
        email("a@x.com", "Hi. And what time is it?", "Hi. And what time is it?")
    ),
    "Check the time in UTC again and again and never stop.": clock("UTC"),
    REPORT: weather("Jakarta", "Paris"),
}

UNKNOWN = [
    *("hello", "", "What is the weather?", "I had a great time"),
    # A guess at what these emails should say could send too little, or not what was meant.
    *("Email bob@example.com", "Email it to a@x.com", "Email a@x.com about the car that you want"),
    'Email a@x.com saying "Hi, email b@x.com that hi"',
    "Email a@x.com that , email b@x.com that hi",
    "Check the weather in Jakarta and email it to bob@example.com with my regards",
]

each_request = pytest.mark.parametrize("text", REQUESTS, ids=lambda text: text[:50])
each_text = pytest.mark.parametrize("text", [*REQUESTS, *UNKNOWN], ids=lambda text: text[:50])


@each_request
def test_request_becomes_calls_of_one_message(text: str) -> None:
    assert calls_of(ask(text, PLAIN)) == REQUESTS[text]


@each_request
def test_delegated_queries_are_read_as_what_was_asked(text: str) -> None:
    queries = [args["query"] for _, args in calls_of(ask(text, SUBAGENTS))]
    assert [calls_of(ask(query, PLAIN)) for query in queries] == [[c] for c in REQUESTS[text]]


def test_delegation_goes_to_the_subagent_that_speaks_of_it() -> None:
    text = "What is the weather in Jakarta, what time is it there, and email a@x.com that I am late"
    assert calls_of(ask(text, SUBAGENTS)) == [
        ("weather_agent", {"query": "What is the current weather in Jakarta?"}),
        ("helper", {"query": "What is the current time in Asia/Jakarta?"}),
        (
            "email_agent",
            {"query": "Send an email to a@x.com.\nSubject: I am late\nBody: I am late"},
        ),
    ]


@pytest.mark.parametrize(
    "body", ["a\n\nBody: b\nSubject: c", " x ", "\"q\" 'q' {to} \\n ü 你好 🎉"]
)
@pytest.mark.parametrize("subject", ["Hi, Body: no", "Subject: yes.", "a"])
def test_queried_email_is_parsed_back_exactly(subject: str, body: str) -> None:
    to = '"Doe, Jane" <jane@example.com>, bob@example.com'
    query = f"Send an email to {to}.\nSubject: {subject}\nBody: {body}"
    assert calls_of(ask(query, [send_email])) == email(to, subject, body)


@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS], ids=["tools", "subagents"])
@pytest.mark.parametrize(
    ("text", "together", "rounds", "answer"),
    [
        ("Weather in Rome and time in Tokyo?", True, [2], "Rome: 31 °C.\n\nAsia/Tokyo: 12:00."),
        (REPORT, True, [2, 1], f"Sent to bob@example.com: {ABOUT}: {FOUND}"),
        (REPORT, False, [1, 1, 1], f"Sent to bob@example.com: {ABOUT}: {FOUND}"),
        (f"{REPORT} and email b@x.com that hi", True, [3, 1], "Sent to b@x.com: Hi: Hi"),
        (f"{REPORT} and email b@x.com that hi", False, [1, 1, 1, 1], FOUND),
        (f"{TASKS} that it is ready.", True, [3], "Sent to b@x.com: It is ready: It is ready."),
    ],
)
def test_loop(
    tools: list[BaseTool], text: str, together: bool, rounds: list[int], answer: str
) -> None:
    """What depends on nothing is called at once, and a report once the results are in."""
    history = loop(text, tools, parallel_tool_calls=together)
    calls = [len(m.tool_calls) for m in history if isinstance(m, AIMessage)]
    assert calls == [*rounds, 0]
    assert answer in history[-1].text


def test_options_may_be_bound_or_given_with_the_call() -> None:
    tools = [convert_to_openai_tool(tool) for tool in PLAIN]
    options: dict[str, Any] = {"tools": tools, "parallel_tool_calls": False}
    given = DemoChatModel().invoke("Weather in Jakarta and Paris", **options)
    bound = DemoChatModel().bind_tools(PLAIN, parallel_tool_calls=False, tool_choice=None)
    answer = bound.invoke("Weather in Jakarta and Paris")
    assert calls_of(given) == calls_of(answer) == weather("Jakarta")
    assert bound.invoke("Weather in Jakarta", tool_choice="none").tool_calls == []


def test_again_and_again_goes_on_until_it_may_not() -> None:
    history: list[BaseMessage] = [HumanMessage("Check the time in UTC again and again.")]
    for i in range(11):
        message = ask(history, PLAIN)
        assert calls_of(message) == clock("UTC")
        status = "error" if i == 5 else "success"
        history += [message, *results_of(message, f"UTC: {i}", status=status)]
    closing = ask(history, PLAIN, tool_choice="none")
    assert closing.tool_calls == []
    assert "UTC: 10" in closing.text
    assert "I ran out of steps" in closing.text


@each_text
@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS, [get_weather], []])
def test_no_call_and_some_text_where_calls_are_not_allowed(text: str, tools: Any) -> None:
    answer = ask(text, tools, tool_choice="none")
    assert answer.tool_calls == []
    assert answer.text.strip()


def test_out_of_steps_it_answers_from_what_it_has() -> None:
    answer = ask(loop(REPORT, PLAIN)[:4], PLAIN, tool_choice="none").text
    assert answer.startswith(FOUND)
    assert answer.endswith("I ran out of steps, so this is not done: the email to bob@example.com.")


@pytest.mark.parametrize("status", ["success", "error"])
@pytest.mark.parametrize("text", ["Not executed: no.", "The server refused it.", "I told Bob.", ""])
def test_what_became_of_an_email_is_said_as_it_is(text: str, status: str) -> None:
    call = ask(question := "Email bob@example.com that the meeting moved to 3 pm.", PLAIN)
    answer = ask([HumanMessage(question), call, *results_of(call, text, status=status)], PLAIN)
    assert answer.tool_calls == []
    failed = status == "error" or text.startswith("Not executed")
    before = "send_email did not succeed: " if failed else ""
    assert answer.text == before + (text or "(an empty result)")


@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS], ids=["tools", "subagents"])
def test_report_on_a_failure_is_not_sent(tools: list[BaseTool]) -> None:
    call = ask(REPORT, tools)
    answer = ask([HumanMessage(REPORT), call, *results_of(call, "boom", status="error")], tools)
    assert answer.tool_calls == []
    assert "did not succeed: boom" in answer.text
    assert "this is not done: the email to bob@example.com" in answer.text


def test_edited_call_counts_as_done_and_one_without_a_result_as_failed() -> None:
    question = HumanMessage("Email bob@example.com that hi, and email ann@example.com that ho")
    call = ask([question], PLAIN, parallel_tool_calls=False)
    call.tool_calls[0]["args"] = {"to": "x@example.com"}
    then = ask([question, call, *results_of(call, "Edited.")], PLAIN, parallel_tool_calls=False)
    assert [args["to"] for _, args in calls_of(then)] == ["ann@example.com"]
    answer = ask([question, call, then], PLAIN).text
    assert answer.count("send_email did not succeed: no result") == 2


@pytest.mark.parametrize(
    ("tools", "text", "answer"),
    [
        ([get_weather], "Email b@x.com that hi", f"{LACKS} email to b@x.com."),
        ([get_weather], f"{TASKS} that hi", f"{FOUND}\n\n{LACKS} email to b@x.com."),
        ([get_weather], "Weather in Rome, time in UTC", f"{LACKS} current time in UTC."),
        ([send_email], REPORT, f"this is not done: the email to bob@example.com.\n\n{LACKS} "),
    ],
)
def test_what_has_no_tool_is_said_and_the_rest_is_done(tools: Any, text: str, answer: str) -> None:
    assert answer in (said := loop(text, tools)[-1].text)
    assert "Sent" not in said


@pytest.mark.parametrize("text", UNKNOWN)
def test_anything_else_is_answered_with_what_it_can_do(text: str) -> None:
    assert ask(text, PLAIN).tool_calls == []
    answer = ask(text, [get_weather]).text
    for words in ("demo model", "OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_MODEL", "Jakarta,"):
        assert words in answer
    assert "mail" not in answer


@pytest.mark.parametrize("line", CAPABILITIES.splitlines())
@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS], ids=["tools", "subagents"])
def test_it_can_do_what_it_says(line: str, tools: list[BaseTool]) -> None:
    assert line.startswith("- ")
    assert ask(line.removeprefix("- "), tools).tool_calls
    assert line in ask("hello", tools).text
    assert line in ask([SystemMessage("Without a human message.")], tools).text


def test_only_the_last_human_message_counts() -> None:
    history = loop("What is the weather in Paris?", PLAIN)
    blocks = HumanMessage([{"type": "text", "text": "What time is it in UTC?"}])
    assert calls_of(ask([SystemMessage("Weather in Rome?"), *history, blocks], PLAIN)) == clock(
        "UTC"
    )
    assert "demo model" in ask([*history, HumanMessage("thanks")], PLAIN).text


def test_call_ids_are_short_and_unique_in_a_thread() -> None:
    """A subagent starts from an empty conversation, but shares its caller's thread."""
    text = "Weather in Jakarta and Paris"
    history: list[BaseMessage] = []
    for _ in range(3):
        history += [HumanMessage(text)]
        for _ in range(2):
            history += [call := ask(history, PLAIN, parallel_tool_calls=False)]
            history += results_of(call, "Fine.")
    history += [ask([HumanMessage(text, id=delegation)], PLAIN) for delegation in ("1", "2")]
    ids = [str(c["id"]) for m in history if isinstance(m, AIMessage) for c in m.tool_calls]
    assert len(ids) == len(set(ids)) == 10
    assert all(0 < len(call_id) <= 40 for call_id in ids)


@each_text
async def test_streamed_and_whole_are_the_same(text: str) -> None:
    model = DemoChatModel().bind_tools(PLAIN)
    question = [HumanMessage(text)]
    whole = await model.ainvoke(question)
    chunks = [chunk async for chunk in model.astream(question)]
    merged = sum(chunks[1:], chunks[0])
    for message in (merged, whole):
        assert (message.content, message.tool_calls) == (whole.content, whole.tool_calls)
        assert message.response_metadata["model_name"] == "demo"
    assert all(len(chunk.text.split()) <= 1 for chunk in chunks)
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    starts = [(p["name"], p["id"]) for p in pieces if not p["args"]]
    assert starts == [(call["name"], call["id"]) for call in whole.tool_calls]
    assert len(pieces) >= 3 * len(starts)


def test_same_messages_same_answer_from_any_instance() -> None:
    used = DemoChatModel()
    used.bind_tools(SUBAGENTS).invoke("Weather in Paris")
    for text in (REPORT, "hello"):
        first, again = used.bind_tools(PLAIN).invoke(text), ask(text, PLAIN)
        assert (first.content, first.tool_calls) == (again.content, again.tool_calls)


def test_it_is_traced_as_demo() -> None:
    model = DemoChatModel()
    assert model._llm_type == "demo"
    assert model._identifying_params == {"model_name": "demo"}
    assert model._get_ls_params().get("ls_model_name") == "demo"


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 100_000, " " * 100_000, "@" * 100_000, "\n" * 100_000, '"' * 100_000),
        *("a@b.c, " * 15_000, "a.b" * 33_000, "email " * 17_000, ", and " * 17_000),
        *("and " * 25_000, "Email " + "a" * 100_000, "Email a@b.c" + ", a@b.c" * 15_000),
        *("Email a@x.com that b, " * 4_500, "Email a@x.com about x " * 4_500),
        *("weather in " * 9_000, "weather in a, b and " * 5_000, "what, and check " * 6_000),
        "weather in " + ", ".join(map(str, range(15_000))),
        "weather in " + ", ".join(map(str, range(5_000))) + " time there" * 6_000,
        "Weather in a, email it to a@x.com" + "!" * 100_000 + "a",
        "Send an email to a@x.com.\nSubject: " + "Body:" * 20_000,
    ],
    ids=lambda text: text.strip()[:30],
)
def test_long_texts_are_not_slow(text: str) -> None:
    started = time.process_time()
    respond([HumanMessage(text)], [convert_to_openai_tool(tool) for tool in PLAIN])
    assert time.process_time() - started < 2
