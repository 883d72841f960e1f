"""The demo model: what it reads in a request, what it calls, what it answers."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from graphs.demo_model import CAPABILITIES, DemoChatModel, respond


@tool
def get_weather(location: str) -> str:
    """Get the current weather of a place."""
    return f"{location}: 31 °C, clear sky."


@tool
def get_current_time(timezone: str) -> str:
    """Get the current time in an IANA time zone."""
    return f"{timezone}: 12:00."


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an email."""
    return f"Sent to {to}. Subject: {subject}. Body: {body}"


@tool
def weather_agent(query: str) -> str:
    """Look up the current weather of places. Returns it in words; sends no email."""
    return loop(query, [get_weather])[-1].text


@tool
def email_agent(query: str) -> str:
    """Write and send emails. Needs the addresses and the text."""
    return loop(query, [send_email])[-1].text


@tool
def clock_agent(query: str) -> str:
    """Tell the current time in a place."""
    return loop(query, [get_current_time])[-1].text


PLAIN = [get_weather, get_current_time, send_email]
SUBAGENTS = [email_agent, weather_agent, clock_agent]

Calls = list[tuple[str, dict[str, Any]]]


def ask(messages: Sequence[AnyMessage], tools: Sequence[BaseTool], **options: Any) -> AIMessage:
    answer: AIMessage = DemoChatModel().bind_tools(tools).invoke(list(messages), **options)
    return answer


def ask_text(text: str, tools: Sequence[BaseTool], **options: Any) -> AIMessage:
    return ask([HumanMessage(text)], tools, **options)


def calls_of(message: AIMessage) -> Calls:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def result_of(message: AIMessage, text: str, **options: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=str(message.tool_calls[0]["id"]), **options)


def loop(text: str, tools: Sequence[BaseTool], **options: Any) -> list[AnyMessage]:
    """Run an agent's loop to the answer, or fail after nine rounds."""
    by_name = {tool.name: tool for tool in tools}
    history: list[AnyMessage] = [HumanMessage(text)]
    for _ in range(9):
        message = ask(history, tools, **options)
        history.append(message)
        if not message.tool_calls:
            return history
        history += [by_name[call["name"]].invoke(call) for call in message.tool_calls]
    raise AssertionError(f"no answer: {history}")


def rounds_of(history: Sequence[AnyMessage]) -> list[list[str]]:
    """The names of the calls of each round."""
    messages = [m for m in history if isinstance(m, AIMessage) and m.tool_calls]
    return [[call["name"] for call in message.tool_calls] for message in messages]


def weather(*places: str) -> Calls:
    return [("get_weather", {"location": place}) for place in places]


def clock(*zones: str) -> Calls:
    return [("get_current_time", {"timezone": zone}) for zone in zones]


def email(to: str, subject: str, body: str) -> Calls:
    return [("send_email", {"to": to, "subject": subject, "body": body})]


MOVED = email("bob@example.com", "The meeting moved to 3 pm", "The meeting moved to 3 pm.")
LUNCH = email("a@x.com, b@y.com", "lunch", "noon works")
LATE = email("bob@example.com", "I am late", "I am late.")
ODD = "Hi!\n\n“Xi'an”, \\ {x}: again and again, and weather in Rome? Mail c@x.com"
REPORT = "Check the weather in Jakarta and in Paris and email it to bob@example.com"

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
    "What is the weather in Jakarta and what time is it in Tokyo?": (
        weather("Jakarta") + clock("Asia/Tokyo")
    ),
    "What's the weather in Jakarta, and what time is it there?": (
        weather("Jakarta") + clock("Asia/Jakarta")
    ),
    "cuaca di Jakarta dan jam berapa di Tokyo": weather("Jakarta") + clock("Asia/Tokyo"),
    "Email bob@example.com that the meeting moved to 3 pm.": MOVED,
    "Could you please email bob@example.com that the meeting moved to 3 pm.": MOVED,
    "Email bob@example.com to say that the meeting moved to 3 pm.": MOVED,
    "Send an email to a@x.com and b@y.com about lunch saying noon works": LUNCH,
    "Email a@x.com, b@y.com about lunch: noon works": LUNCH,
    'Email a@x.com: "a" or "b"': email("a@x.com", '"a" or "b"', '"a" or "b"'),
    f"Email a@x.com saying {ODD}": email("a@x.com", "Hi!", ODD),
    "Kirim email ke a@x.com bahwa rapat pindah": email("a@x.com", "Rapat pindah", "Rapat pindah"),
    "Weather in Paris, and email bob@example.com that I am late.": weather("Paris") + LATE,
    "What is the weather in Paris? Email bob@example.com that I am late.": weather("Paris") + LATE,
    "email a@x.com that A, email b@x.com that B and email c@x.com that C": (
        email("a@x.com", "A", "A") + email("b@x.com", "B", "B") + email("c@x.com", "C", "C")
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
    assert calls_of(ask_text(text, PLAIN)) == REQUESTS[text]


@each_request
def test_delegated_queries_are_read_as_what_was_asked(text: str) -> None:
    queries = [args["query"] for _, args in calls_of(ask_text(text, SUBAGENTS))]
    assert [calls_of(ask_text(query, PLAIN)) for query in queries] == [[c] for c in REQUESTS[text]]


def test_delegation_goes_to_the_subagent_that_speaks_of_it() -> None:
    text = "What is the weather in Jakarta, what time is it there, and email a@x.com that I am late"
    assert calls_of(ask_text(text, SUBAGENTS)) == [
        ("weather_agent", {"query": "What is the current weather in Jakarta?"}),
        ("clock_agent", {"query": "What is the current time in Asia/Jakarta?"}),
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
    assert calls_of(ask_text(query, [send_email])) == email(to, subject, body)


def test_tools_are_found_by_what_they_take_and_say() -> None:
    @tool
    def forecast(location: str, units: str = "metric") -> str:
        """The weather of a place."""
        return ""

    @tool
    def population(location: str) -> str:
        """How many people live there."""
        return ""

    found = calls_of(ask_text("Weather in Paris?", [population, forecast]))
    assert found == [("forecast", {"location": "Paris"})]
    assert calls_of(ask_text("Weather in Paris?", [population])) == []


def test_answer_quotes_the_results() -> None:
    history = loop("What is the weather in Jakarta and what time is it in Tokyo?", PLAIN)
    assert rounds_of(history) == [["get_weather", "get_current_time"]]
    assert history[-1].text == "Jakarta: 31 °C, clear sky.\n\nAsia/Tokyo: 12:00."


@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS], ids=["tools", "subagents"])
def test_report_is_sent_after_the_results_are_in(tools: list[BaseTool]) -> None:
    history = loop(REPORT, tools)
    assert [len(names) for names in rounds_of(history)] == [2, 1]
    subject = "Here is the current weather in Jakarta, the current weather in Paris"
    body = "Jakarta: 31 °C, clear sky.\n\nParis: 31 °C, clear sky."
    assert f"Sent to bob@example.com. Subject: {subject}. Body: {body}" in history[-1].text


def test_subagents_work_on_independent_tasks_at_once() -> None:
    text = "Find the weather in Jakarta and in Paris, and email bob@x.com that the report is ready."
    history = loop(text, SUBAGENTS)
    assert rounds_of(history) == [["weather_agent", "weather_agent", "email_agent"]]
    assert "Sent to bob@x.com" in history[-1].text


def test_one_call_a_message_without_parallel_calls() -> None:
    text = "Weather in Jakarta and Paris, email it to a@x.com and email b@x.com that hi"
    history = loop(text, PLAIN, parallel_tool_calls=False)
    assert rounds_of(history) == [["get_weather"], ["get_weather"], ["send_email"], ["send_email"]]
    sent = [m.text for m in history if isinstance(m, ToolMessage) and m.name == "send_email"]
    assert sent[0] == "Sent to b@x.com. Subject: Hi. Body: Hi"
    assert "Body: Jakarta: 31 °C, clear sky.\n\nParis: 31 °C" in sent[1]


def test_options_may_be_bound_or_given_with_the_call() -> None:
    question = [HumanMessage("Weather in Jakarta and Paris")]
    tools = [convert_to_openai_tool(tool) for tool in PLAIN]
    options: dict[str, Any] = {"tools": tools, "parallel_tool_calls": False}
    given = DemoChatModel().invoke(question, **options)
    bound = DemoChatModel().bind_tools(PLAIN, parallel_tool_calls=False, tool_choice=None)
    assert calls_of(given) == calls_of(bound.invoke(question)) == weather("Jakarta")
    assert bound.invoke(question, tool_choice="none").tool_calls == []


def test_again_and_again_goes_on_until_it_may_not() -> None:
    history: list[AnyMessage] = [HumanMessage("Check the time in UTC again and again.")]
    for i in range(11):
        message = ask(history, PLAIN)
        assert calls_of(message) == clock("UTC")
        failing = {"status": "error"} if i == 5 else {}
        history += [message, result_of(message, f"UTC: {i}", **failing)]
    closing = ask(history, PLAIN, tool_choice="none")
    assert closing.tool_calls == []
    assert "UTC: 10" in closing.text
    assert "I ran out of steps" in closing.text


@each_text
@pytest.mark.parametrize("tools", [PLAIN, SUBAGENTS, [get_weather], []])
def test_no_call_and_some_text_where_calls_are_not_allowed(text: str, tools: Any) -> None:
    answer = ask_text(text, tools, tool_choice="none")
    assert answer.tool_calls == []
    assert answer.text.strip()


def test_out_of_steps_it_answers_from_what_it_has() -> None:
    history = loop(REPORT, PLAIN)[:4]
    answer = ask(history, PLAIN, tool_choice="none")
    assert "Jakarta: 31 °C" in answer.text
    assert "I ran out of steps, so this is not done: the email to bob@example.com." in answer.text
    assert "Sent" not in answer.text


@pytest.mark.parametrize(
    ("text", "status", "failed"),
    [
        ("Not executed: the human said no.", "success", True),
        ("Error: validation failed.", "error", True),
        ("The mail server refused bob@example.com.", "success", False),
        ("I told Bob myself.", "success", False),
        ("", "success", False),
    ],
)
def test_what_became_of_an_email_is_said_as_it_is(text: str, status: str, failed: bool) -> None:
    question = HumanMessage("Email bob@example.com that the meeting moved to 3 pm.")
    call = ask([question], PLAIN)
    answer = ask([question, call, result_of(call, text, status=status)], PLAIN)
    assert answer.tool_calls == []
    assert (text or "(an empty result)") in answer.text
    assert "sent" not in answer.text.lower()
    assert ("send_email did not succeed" in answer.text) == failed


def test_report_on_a_failure_is_not_sent() -> None:
    question = HumanMessage("Check the weather in Jakarta and email it to bob@example.com")
    call = ask([question], PLAIN)
    answer = ask([question, call, result_of(call, "boom", status="error")], PLAIN)
    assert answer.tool_calls == []
    assert "get_weather did not succeed: boom" in answer.text
    assert "this is not done: the email to bob@example.com" in answer.text


def test_edited_call_counts_as_done() -> None:
    question = HumanMessage("Email bob@example.com that hi, and email ann@example.com that ho")
    call = ask([question], PLAIN, parallel_tool_calls=False)
    edited = AIMessage("", tool_calls=[call.tool_calls[0] | {"args": {"to": "x@example.com"}}])
    result = result_of(call, "Edited, sent.")
    then = ask([question, edited, result], PLAIN, parallel_tool_calls=False)
    assert [args["to"] for _, args in calls_of(then)] == ["ann@example.com"]


def test_what_has_no_tool_is_said_and_the_rest_is_done() -> None:
    tools = [get_weather, get_current_time]
    history = loop("Weather in Paris, and email bob@example.com that I am late", tools)
    assert rounds_of(history) == [["get_weather"]]
    no_tool = "I have no tool here for the email to bob@example.com."
    assert history[-1].text == f"Paris: 31 °C, clear sky.\n\n{no_tool}"
    assert ask_text("Email bob@example.com that hi", tools).text == no_tool


def test_report_is_not_sent_if_what_it_reports_on_has_no_tool() -> None:
    answer = ask_text("Check the weather in Rome and email it to a@x.com", [send_email])
    assert answer.tool_calls == []
    assert "this is not done: the email to a@x.com." in answer.text
    assert "no tool here for the current weather in Rome." in answer.text


@pytest.mark.parametrize("text", UNKNOWN)
def test_anything_else_is_answered_with_what_it_can_do(text: str) -> None:
    assert calls_of(ask_text(text, PLAIN)) == []
    answer = ask_text(text, [get_weather]).text
    for words in ("demo model", "OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_MODEL", "Jakarta,"):
        assert words in answer
    assert "mail" not in answer


@pytest.mark.parametrize("line", CAPABILITIES.splitlines())
def test_it_can_do_what_it_says(line: str) -> None:
    assert line.startswith("- ")
    for tools in (PLAIN, SUBAGENTS):
        assert calls_of(ask_text(line.removeprefix("- "), tools))
        assert line in ask_text("hello", tools).text
        assert line in ask([SystemMessage("Without a human message.")], tools).text


def test_only_the_last_human_message_counts() -> None:
    history = loop("What is the weather in Paris?", PLAIN)
    assert calls_of(ask([*history, HumanMessage("time in UTC")], PLAIN)) == clock("UTC")
    assert "demo model" in ask([*history, HumanMessage("thanks")], PLAIN).text


def test_system_messages_and_content_blocks_make_no_difference() -> None:
    blocks = HumanMessage([{"type": "text", "text": "What is the weather in Paris?"}])
    system = SystemMessage("Weather in Rome? Email eve@example.com that hi.")
    assert calls_of(ask([system, blocks], PLAIN)) == weather("Paris")


def test_call_ids_are_short_and_unique_in_a_thread() -> None:
    """A subagent starts from an empty conversation, but shares its caller's thread."""
    history: list[AnyMessage] = []
    for _ in range(3):
        history += [HumanMessage("Weather in Jakarta and Paris")]
        for _ in range(2):
            history += [ask(history, PLAIN, parallel_tool_calls=False)]
            history += [result_of(history[-1], "Fine.")]  # type: ignore[arg-type]
        history += [ask(history, PLAIN)]
    for delegation in ("one", "two"):
        query = HumanMessage("Weather in Jakarta and Paris", id=delegation)
        history += [ask([query], PLAIN)]
    ids = [str(c["id"]) for m in history if isinstance(m, AIMessage) for c in m.tool_calls]
    assert len(ids) == len(set(ids)) == 10
    assert all(0 < len(call_id) <= 40 for call_id in ids)


@each_text
async def test_streamed_and_whole_are_the_same(text: str) -> None:
    model = DemoChatModel().bind_tools(PLAIN)
    question = [HumanMessage(text)]
    whole = await model.ainvoke(question)
    chunks = [chunk async for chunk in model.astream(question)]
    assert [chunk.content for chunk in model.stream(question)] == [c.content for c in chunks]
    merged = sum(chunks[1:], chunks[0])
    assert merged.content == whole.content
    assert merged.tool_calls == whole.tool_calls
    assert merged.response_metadata["model_name"] == "demo"
    assert whole.response_metadata["model_name"] == "demo"


def test_text_is_streamed_in_words() -> None:
    chunks = list(DemoChatModel().stream("hello"))
    assert len(chunks) > 30
    assert all(len(chunk.text.split()) <= 1 for chunk in chunks)


def test_calls_are_streamed_in_pieces() -> None:
    stream = DemoChatModel().bind_tools(PLAIN).stream("Weather in Jakarta and Paris")
    chunks = [chunk for chunk in stream if isinstance(chunk, AIMessageChunk)]
    for index, place in enumerate(["Jakarta", "Paris"]):
        pieces = [p for chunk in chunks for p in chunk.tool_call_chunks if p["index"] == index]
        assert pieces[0]["name"] == "get_weather"
        assert pieces[0]["id"]
        args = [piece["args"] or "" for piece in pieces]
        assert args[0] == ""
        assert len(list(filter(None, args))) >= 2
        assert json.loads("".join(args)) == {"location": place}


def test_same_messages_same_answer_from_any_instance() -> None:
    question = [HumanMessage("Weather in Jakarta, and email bob@example.com that hi", id="1")]
    used = DemoChatModel()
    used.bind_tools(SUBAGENTS).invoke("Weather in Paris")
    first = used.bind_tools(PLAIN).invoke(question)
    again = DemoChatModel().bind_tools(PLAIN).invoke(question)
    assert (first.content, first.tool_calls) == (again.content, again.tool_calls)
    assert first.tool_calls


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
        "Weather in a, email it to a@x.com" + "!" * 100_000 + "a",
        "Send an email to a@x.com.\nSubject: " + "Body:" * 20_000,
    ],
    ids=lambda text: text.strip()[:30],
)
def test_long_texts_are_not_slow(text: str) -> None:
    started = time.process_time()
    respond([HumanMessage(text)], [convert_to_openai_tool(tool) for tool in PLAIN])
    assert time.process_time() - started < 2


def test_lone_surrogates_and_control_characters_survive() -> None:
    text = "Email a@x.com saying \ud800 \x00 end"
    assert calls_of(ask_text(text, PLAIN))[0][1]["body"] == "\ud800 \x00 end"
    assert len(list(DemoChatModel().bind_tools(PLAIN).stream(text))) > 3
