"""The demo model: a small chat model that plays its part by rules, without a key or a network.

What it understands is in `CAPABILITIES`. All that it knows comes from the messages and the tools
that it is given, so any worker can go on where another one stopped.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

CAPABILITIES = """\
- What is the weather in Jakarta, Paris and Tokyo?
- What time is it in Tokyo?
- What is the weather in Jakarta, and what time is it there?
- Email bob@example.com that the meeting moved to 3 pm.
- Send an email to a@example.com and b@example.com about lunch saying noon works.
- Check the weather in Jakarta and email it to bob@example.com.
- What is the weather in Paris? And email bob@example.com that I am late.
- Check the time in UTC again and again and never stop."""
"""Requests that the demo model understands, if it has the tools or the subagents for them."""

MODEL_NAME = "demo"

Kind = Literal["weather", "time", "email"]
Tool = dict[str, Any]


class Skill(NamedTuple):
    """One kind of request: how its tool is recognised, and its words for a subagent."""

    parameters: set[str]
    speaks_of_it: str
    query: str
    label: str


SKILLS: dict[Kind, Skill] = {
    "weather": Skill(
        {"location"},
        r"weather|forecast",
        "What is the current weather in {location}?",
        "the weather in {location}",
    ),
    "time": Skill(
        {"timezone"},
        r"(?:^|_)time|clock|current time",
        "What is the current time in {timezone}?",
        "the time in {timezone}",
    ),
    "email": Skill(
        {"to", "subject", "body"},
        r"mail",
        "Send an email to {to}.\nSubject: {subject}\nBody: {body}",
        "the email to {to}",
    ),
}

ZONES = {
    zone.partition("/")[2].replace("_", " ").lower(): zone
    for zone in (
        *("America/Los_Angeles", "America/New_York", "Asia/Jakarta", "Asia/Singapore"),
        *("Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London", "Europe/Paris"),
    )
}
"""The zones of some cities. Other places go to the tool as they are, which helps with names."""


@dataclass(frozen=True)
class Wish:
    """One thing that is asked for; `reports` marks an email that carries the others' results."""

    kind: Kind
    args: dict[str, str]
    reports: bool = False

    def __str__(self) -> str:
        return SKILLS[self.kind].label.format_map(self.args)


class Request(NamedTuple):
    """All that is asked for, reporting emails last, and whether to go on with it for ever."""

    wishes: list[Wish]
    endless: bool = False


# Reading a request. Repetitions are bounded where a pattern may start anywhere: no text is slow.

_ADDRESS = r"\w[^\s@,;:<>()\"]{0,63}@\w[\w-]{0,62}(?:\.\w[\w-]{0,62}){0,8}"
_ADDRESSES = rf"{_ADDRESS}(?:(?:[,;]\s{{0,3}}|,?\s{{1,3}}(?:and|dan|&)\s{{1,3}}){_ADDRESS})*"
_LEAD_IN = r"(?:and|then|also|please|can you|could you|you to|dan|tolong)\s{1,3}"
_CLAUSE = re.compile(
    rf"(?:^|(?<=[.?!])\s{{1,3}}|[,;:]\s{{1,3}}|\n|\s(?={_LEAD_IN}))(?:{_LEAD_IN}){{0,3}}"
    rf"(?:(?:e-?mail|mail|(?:send|write)\s(?:an?\s)?e-?mail\sto|kirim\semail\ske)\s{_ADDRESSES}"
    r"|(?:send|e-?mail|mail)\s(?P<what>(?:an\se-?mail\s(?:about|with)\s)?(?:it|this|that|them|both"
    r"|the\s(?:results?|answers?)|the\s(?:current\s)?(?:weather|time)\s[^@\n]{1,200}?))"
    rf"\sto\s{_ADDRESSES})"
    r"|(?:,|(?<=[.;?!]))\s(?:and|then|also)\s"
    r"(?=(?:what|how|tell|check|find|get)\b[^,.;\n]{0,40}\b(?:weather|time)\b)",
    re.IGNORECASE,
)
_QUERIED_EMAIL = re.compile(
    r"\s{0,3}Send an email to (?P<to>[^\n]{1,2000}?)[.,]?\s{1,3}Subject: ?"
    r"(?P<subject>[^\n]{0,1000}(?=\nBody:)|[^\n]{0,1000}?(?=,?\s{1,3}Body:)),?\s{1,3}"
    r"Body: ?(?P<body>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SUBJECT = re.compile(r"(?:with\s)?(?:the\s)?(?:subject|about|tentang)\b:?\s", re.IGNORECASE)
_BODY = re.compile(
    r"(?:^|[,.]?\s)(?:and\s)?(?:with\s)?(?:the\s)?"
    r"(?:(?:body|message|saying|to\ssay|tell\s(?:him|her|them))(?:\sthat)?|that|bahwa):?\s|^:\s?",
    re.IGNORECASE,
)
_NEWS = re.compile(
    r"(?:about\s)?the\s(?:current\s)?(?:weather|time)\sin\s(?!.*\s(?:saying|that)\b)",
    re.IGNORECASE | re.DOTALL,
)
_TOPIC = re.compile(
    r"\b(?:(?P<weather>weather|temperature|cuaca)|(?P<now>what time|time is it|jam berapa)"
    r"|(?:the|current|local) time|time(?= (?:in|and)\b))\b",
    re.IGNORECASE,
)
_PLACES = re.compile(r"\b(?:in|for|di)\s(.+)", re.IGNORECASE | re.DOTALL)
_PLACES_END = re.compile(
    r"[?!;\n]|(?<=\w{3})\.(?=\s|$)|\s(?:again|right now|now|today|please|sekarang|what|what's|how"
    r"|then|never|and (?:the|tell|also|check|find|get|give|say))\b"
)


def read_request(text: str) -> Request:
    """Read what a human's message, or a query to a subagent, asks for."""
    if email := _QUERIED_EMAIL.fullmatch(text):
        return Request([Wish("email", email.groupdict())])
    questions, letters = _clauses(text)
    lookups = _lookups(questions)
    subject = _capitalized(_listed(lookups))
    emails = [_email(to, content) for to, content in letters if content]
    reports = [
        Wish("email", {"to": to, "subject": subject, "body": ""}, reports=True)
        for to, content in letters
        if lookups and not content
    ]
    return Request([*lookups, *emails, *reports], "again and again" in questions.lower())


def _clauses(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Part a message into its questions, and the recipients and the content of each email."""
    starts = [m for m in _CLAUSE.finditer(text) if text.count('"', 0, m.start()) % 2 == 0]
    ends = [*(start.start() for start in starts[1:]), len(text)][: len(starts)]
    questions, letters = [text[: starts[0].start()] if starts else text], []
    for start, end in zip(starts, ends, strict=True):
        content = text[start.end() : end].strip()
        recipients = ", ".join(re.findall(_ADDRESS, start[0]))
        if not recipients or start["what"] or _NEWS.match(content):
            questions.append(start["what"] or content)
            content = ""
        if recipients:
            letters.append((recipients, content if content.strip(" .!?") else ""))
    return "\n".join(questions), letters


def _email(to: str, content: str) -> Wish:
    subject, body = "", content
    if named := _SUBJECT.match(content):
        subject = body = content[named.end() :]
    if mark := (_BODY.search if named else _BODY.match)(body):
        subject, body = body[: mark.start()], body[mark.end() :]
        if mark[0].strip().lower().endswith(("that", "bahwa")):
            body = _capitalized(body)
    subject, body = _unquoted(subject), _unquoted(body)
    subject = subject or body.strip().partition("\n")[0][:60].rstrip(" .")
    return Wish("email", {"to": to, "subject": " ".join(subject.split()), "body": body})


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unquoted(text: str) -> str:
    bare = text.strip().rstrip(".")
    quoted = bare[:1] + bare[-1:] in ('""', "''", "“”") and bare[0] not in bare[1:-1]
    return bare[1:-1] if quoted else text.strip()


def _lookups(text: str) -> list[Wish]:
    """The weather and the times asked for, each once, in the order of the text.

    A question without a place ("and what time is it there?") is about the places of the one
    before it, or else of the one after it.
    """
    topics = list(_TOPIC.finditer(text))
    ends = [*(topic.start() for topic in topics[1:]), len(text)][: len(topics)]
    places = [_places(text[topic.end() : end]) for topic, end in zip(topics, ends, strict=True)]
    nearest = next(filter(None, places), [])
    wishes: dict[tuple[Kind, str], Wish] = {}
    for topic, own in zip(topics, places, strict=True):
        nearest = own or nearest
        for place in nearest or ["UTC"] * bool(topic["now"]):
            wish = _lookup("weather" if topic["weather"] else "time", place)
            wishes.setdefault((wish.kind, place), wish)
    return list(wishes.values())


def _lookup(kind: Kind, place: str) -> Wish:
    if kind == "weather":
        return Wish(kind, {"location": place})
    return Wish(kind, {"timezone": ZONES.get(place.lower(), place)})


def _places(text: str) -> list[str]:
    """The places after "in": "A, B and C" are three, "Springfield, Illinois" is one."""
    found = _PLACES.search(text)
    named = " ".join(_PLACES_END.split(found[1], maxsplit=1)[0].split()) if found else ""
    parts = re.split(r",? (?:and|dan|&)(?: in)?(?: |$)", named)
    if len(parts) > 1 or named.count(",") > 1:
        parts = [place for part in parts for place in part.split(",")]
    return [place for part in parts if (place := part.strip(' ,.:"“”')) not in ("", "there")]


# Answering.


Step = tuple[Wish, Tool]


class Result(NamedTuple):
    """What became of a call since the last human message."""

    tool_name: str
    text: str
    failed: bool

    def __str__(self) -> str:
        return f"{self.tool_name} did not succeed: {self.text}" if self.failed else self.text


def respond(
    messages: Sequence[BaseMessage],
    tools: Sequence[Tool] = (),
    tool_choice: str | None = None,
    parallel_tool_calls: bool | None = None,
    **_: Any,
) -> AIMessage:
    """The demo model's next message.

    Args:
        messages: The conversation. What is asked for is read off its last human message, and
            how far that got off the calls and results after it.
        tools: The tools, as OpenAI describes them.
        tool_choice: `"none"` for an answer in text, without a call.
        parallel_tool_calls: `False` for one call a message.
        **_: What else a chat model may be asked for; it makes no difference here.
    """
    start = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=None)
    if start is None:
        return _message(_help(tools))
    request = read_request(messages[start].text)
    steps = _steps(request.wishes, tools)
    results = _results(messages[start:])
    wanted = _next_steps(steps, results, request.endless)
    if not wanted or tool_choice == "none":
        return _message(_answer(request, steps, results, bool(wanted)) or _help(tools))
    if parallel_tool_calls is False:
        wanted = wanted[:1]
    call_id = _call_id(messages[start], len(messages))
    return _message(calls=[_call(s, f"{call_id}_{i}") for i, s in enumerate(wanted, 1)])


def _message(text: str = "", calls: Sequence[ToolCall] = ()) -> AIMessage:
    metadata = {"model_name": MODEL_NAME}
    return AIMessage(text, tool_calls=list(calls), response_metadata=metadata)


def _steps(wishes: list[Wish], tools: Sequence[Tool]) -> list[Step]:
    """The wishes that there is a tool for, with it. A report needs all that it reports on."""
    found = [(wish, tool) for wish in wishes if (tool := _tool_for(wish, tools))]
    complete = len(found) == len(wishes)
    return [(wish, tool) for wish, tool in found if complete or not wish.reports]


def _tool_for(wish: Wish, tools: Sequence[Tool]) -> Tool | None:
    """The tool with the wish's parameters, or else the subagent, that speaks of such things."""
    skill = SKILLS[wish.kind]
    functions: list[Tool] = [tool.get("function", tool) for tool in tools]
    for parameters in (skill.parameters, {"query"}):
        fitting = [function for function in functions if _takes(function, parameters)]
        for field in ("name", "description"):
            for function in fitting:
                if re.search(skill.speaks_of_it, function.get(field, ""), re.IGNORECASE):
                    return function
    return None


def _takes(function: Tool, parameters: set[str]) -> bool:
    schema = function.get("parameters", {})
    return set(schema.get("required", [])) <= parameters <= set(schema.get("properties", []))


def _results(messages: Sequence[BaseMessage]) -> list[Result]:
    """What became of each call. By position: a human may have edited the arguments."""
    answers = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    return [_result(call["name"], answers.get(call["id"] or "")) for call in calls]


def _result(tool_name: str, message: ToolMessage | None) -> Result:
    if message is None:
        return Result(tool_name, "no result", failed=True)
    failed = message.status == "error" or message.text.startswith("Not executed")
    return Result(tool_name, message.text.strip() or "(an empty result)", failed)


def _next_steps(steps: list[Step], results: list[Result], endless: bool) -> list[Step]:
    """What can be called now: all that waits for nothing, then the reports on what was found."""
    if endless:
        return steps[len(results) % len(steps) :][:1] if steps else []
    rest = steps[len(results) :]
    if not rest or not rest[0][0].reports:
        return list(takewhile(lambda step: not step[0].reports, rest))
    found = [r for (wish, _), r in zip(steps, results, strict=False) if wish.kind != "email"]
    if any(result.failed for result in found):
        return []
    body = "\n\n".join(result.text for result in found)
    return [(replace(wish, args=wish.args | {"body": body}), tool) for wish, tool in rest]


def _call(step: Step, call_id: str) -> ToolCall:
    wish, tool = step
    args = wish.args
    if not _takes(tool, SKILLS[wish.kind].parameters):
        args = {"query": SKILLS[wish.kind].query.format_map(args)}
    return ToolCall(name=tool["name"], args=args, id=call_id, type="tool_call")


def _call_id(request: BaseMessage, position: int) -> str:
    """The start of an id that is unique in a thread, its subagents' conversations included."""
    seed = f"{request.id} {request.text}".encode(errors="surrogatepass")
    return f"call_demo_{sha256(seed).hexdigest()[:8]}_{position}"


def _answer(request: Request, steps: list[Step], results: list[Result], cut_short: bool) -> str:
    """What came of the request, failures included; empty if it asked for nothing known."""
    parts = [str(result) for result in results]
    if request.endless and results:
        parts = [f"Times asked: {len(results)}. The last answer: {parts[-1]}"]
    left = steps[len(results) :] or (steps if cut_short else [])
    if left:
        reason = "I ran out of steps" if cut_short else "Something failed that was needed"
        parts.append(f"{reason}, so this is not done: {_listed(wish for wish, _ in left)}.")
    planned = [wish for wish, _ in steps]
    if lacking := [wish for wish in request.wishes if wish not in planned]:
        parts.append(f"I have no tool here that could do this: {_listed(lacking)}.")
    return "\n\n".join(parts)


def _listed(wishes: Iterable[Wish]) -> str:
    return ", ".join(map(str, wishes))


def _help(tools: Sequence[Tool]) -> str:
    known = [line for line in CAPABILITIES.splitlines() if _is_possible(line[2:], tools)]
    examples = "\n".join(known) or "- nothing, for this agent has no tool that I know how to use"
    return (
        "I am the demo model, a small program in place of a chat model. I understand requests "
        f"like these:\n{examples}\nFor anything else, set OPENAI_API_KEY to use a real model "
        "(OPENAI_BASE_URL says where it is, AGENT_MODEL which one)."
    )


def _is_possible(request: str, tools: Sequence[Tool]) -> bool:
    return all(_tool_for(wish, tools) for wish in read_request(request).wishes)


# The chat model.


class DemoChatModel(BaseChatModel):
    """A deterministic chat model that answers what `CAPABILITIES` lists. It keeps no memory."""

    model_name: str = MODEL_NAME

    @property
    def _llm_type(self) -> str:
        return MODEL_NAME

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools that it may call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=respond(messages, **kwargs))])

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(respond(messages, **kwargs)):
            yield ChatGenerationChunk(message=chunk)


def _chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    """The message as it is streamed: word by word, and each call in three pieces."""
    for word in re.findall(r"\s+|\S+\s*", message.text):
        yield AIMessageChunk(content=word)
    for index, call in enumerate(message.tool_calls):
        args = json.dumps(call["args"])
        half = len(args) // 2
        yield _call_chunk(index, "", name=call["name"], id=call["id"])
        yield _call_chunk(index, args[:half])
        yield _call_chunk(index, args[half:])
    # Once only: metadata that several chunks carry is strung together when they are merged.
    yield AIMessageChunk(
        content="", response_metadata=message.response_metadata, chunk_position="last"
    )


def _call_chunk(index: int, args: str, **rest: str | None) -> AIMessageChunk:
    return AIMessageChunk(
        content="", tool_call_chunks=[tool_call_chunk(index=index, args=args, **rest)]
    )
