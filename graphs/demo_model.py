"""The demo model: a small chat model that plays its part by rules, without a key or a network.

It understands requests like those in `CAPABILITIES`. All that it knows comes from the messages
and the tools that it is given, so any worker can go on where another one stopped.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.tool import ToolCall, ToolCallChunk, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
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

HELP = """\
I am the demo model, a small program in place of a chat model. I understand requests like these:
{}
For a real model set OPENAI_API_KEY (OPENAI_BASE_URL says where it is, AGENT_MODEL which one)."""

PARAMETERS = {"weather": {"location"}, "time": {"timezone"}, "email": {"to", "subject", "body"}}
KEYWORDS = {"weather": "weather|forecast", "time": "(^|_)time|clock|current time", "email": "mail"}
ZONES = {"jakarta": "Asia/Jakarta", "paris": "Europe/Paris", "tokyo": "Asia/Tokyo"}
FAILED = "did not succeed:"

Tool = dict[str, Any]
Chunks = Iterator[ChatGenerationChunk]


class Wish(NamedTuple):
    """A weather, time or email that is asked for. A report is an email with what was found."""

    kind: str
    args: dict[str, str]
    is_report: bool = False

    def __str__(self) -> str:
        what = "email to" if self.kind == "email" else f"current {self.kind} in"
        return f"the {what} {next(iter(self.args.values()))}"


# Reading a request: the questions come first, then the emails. All that follows the start of an
# email is its text, up to the start of the next one.

ADDRESS = r"[\w.+'-]+@[\w.-]*\w"
TO = rf"({ADDRESS}(?:(?:,|,? and|,? dan) {ADDRESS})*)"
CLAUSE = (
    r"(?i)(?:^|(?<=[.?!;\n])|,|\s(?=and |then |dan ))\s{0,2}"
    r"(?:(?:and|then|also|please|can you|could you|dan|tolong) ){0,3}"
)
EMAIL = re.compile(
    rf"{CLAUSE}(?:e-?mail|send an e-?mail to|kirim email ke) {TO}"
    r"(?: (?:about|tentang) ([^\n]{1,100}?)(?=:| saying))?(:| that| to say that| saying| bahwa)\s"
)
REPORT = re.compile(rf"{CLAUSE}(?:send|e-?mail) (?:it|them) to {TO}\W*$")
TOPIC = re.compile(
    r"(?i)\b(?:(?:and|dan|then|also|check|find|tell me|what|what's|how|is|the|current) ){0,8}"
    r"(weather|cuaca|time|jam berapa)(?: is it)? (there|in|for|di)\b"
)
END_OF_PLACES = re.compile(r"[?!;\n]|(?<=\w{3})\.\s| (?:again|right now|now|today|please)\b")
AND = re.compile(r",? (?:and|dan)(?: in| di)?(?: |$)")
EMAIL_QUERY = "Send an email to {to}.\nSubject: {subject}\nBody: {body}"
READ_EMAIL_QUERY = re.compile(r"Send an email to (.+)\.\nSubject: (.*)\nBody: ((?s:.*))")


def read_request(text: str) -> list[Wish]:
    """Read what a human's message, or a query to a subagent, asks for; a report comes last.

    It is nothing if an email's text is missing or may be cut, or an address is left over.
    """
    if query := READ_EMAIL_QUERY.fullmatch(text):
        return [Wish("email", {"to": query[1], "subject": query[2], "body": query[3]})]
    questions, *parts = EMAIL.split(text.strip())
    emails = [_email(*parts[i : i + 4]) for i in range(0, len(parts), 4)]
    questions, *reports = REPORT.split(questions)[:2]
    lookups = _lookups(questions)
    may_be_cut = len(emails) > 1 and '"' in text
    empty = (reports and not lookups) or not all(email.args["body"] for email in emails)
    if may_be_cut or empty or "@" in questions:
        return []
    about = ", ".join(map(str, lookups))
    emails += [_email(to, f"Here is {about}")._replace(is_report=True) for to in reports]
    return lookups + emails


def _email(to: str, subject: str | None, how: str = "", text: str = "") -> Wish:
    body = text.strip()
    if how.endswith(("that", "bahwa")):
        body = body[:1].upper() + body[1:]
    subject = " ".join((subject or body.partition("\n")[0][:60].rstrip(" .")).split())
    recipients = ", ".join(re.findall(ADDRESS, to))
    return Wish("email", {"to": recipients, "subject": subject, "body": body})


def _lookups(questions: str) -> list[Wish]:
    """The weather and the times asked for. "There" is where the question before was about."""
    wishes: list[Wish] = []
    before: list[str] = []
    _, *parts = TOPIC.split(questions)
    for topic, where, rest in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        places = before if where.lower() == "there" else _places(rest)
        before = [] if places is before else places
        if topic.lower() in ("weather", "cuaca"):
            wishes += [Wish("weather", {"location": place}) for place in places]
        else:  # Other places go to the tool as they are: it helps with names.
            wishes += [Wish("time", {"timezone": ZONES.get(p.lower(), p)}) for p in places]
    return wishes


def _places(text: str) -> list[str]:
    """The places: "A, B and C" are three, "Springfield, Illinois" is one."""
    named = END_OF_PLACES.split(text.strip(), maxsplit=1)[0].strip(" ,.:")
    parts = [part for part in AND.split(named) if part]
    if len(parts) > 1 or named.count(",") > 1:
        parts = [place for part in parts for place in part.split(",")]
    return [place for part in parts if (place := part.strip(' "'))]


# Answering


def respond(
    messages: Sequence[BaseMessage],
    tools: Sequence[Tool] = (),
    tool_choice: str | None = None,
    parallel_tool_calls: bool | None = None,
    **_: Any,
) -> AIMessage:
    """The next message, from the last human message and the calls and results after it."""
    starts = [i for i, message in enumerate(messages) if isinstance(message, HumanMessage)]
    request, *turn = messages[starts[-1] :] if starts else [HumanMessage("")]
    tool_for = {kind: tool for kind in PARAMETERS if (tool := _tool_for(kind, tools))}
    asked, results = read_request(request.text), _results(turn)
    lacking = [wish for wish in asked if wish.kind not in tool_for]
    wishes = [wish for wish in asked if wish.kind in tool_for]
    if "again and again" in request.text and all(wish.kind != "email" for wish in asked):
        wishes = (wishes * (len(results) + 1))[: len(results) + 1]
    ready = _ready(wishes, results, complete=not lacking)
    if ready and tool_choice != "none":
        ready = ready[:1] if parallel_tool_calls is False else ready
        prefix = _call_id(request, len(messages))
        calls = [_call(w, tool_for[w.kind], f"{prefix}_{i}") for i, w in enumerate(ready)]
        return AIMessage("", tool_calls=calls, response_metadata={"model_name": "demo"})
    if left := ", ".join(map(str, wishes[len(results) :])):
        reason = "I ran out of steps" if ready else "Something that it needs failed or is missing"
        results.append(f"{reason}, so this is not done: {left}.")
    if lacking:
        results.append(f"I have no tool here for {', '.join(map(str, lacking))}.")
    answer = "\n\n".join(results) or _help(tool_for)
    return AIMessage(answer, response_metadata={"model_name": "demo"})


def _results(turn: Sequence[BaseMessage]) -> list[str]:
    """What became of each call. By position: a human may have edited the arguments."""
    answers = {m.tool_call_id: m for m in turn if isinstance(m, ToolMessage)}
    calls = [call for m in turn if isinstance(m, AIMessage) for call in m.tool_calls]
    return [_result(call["name"], answers.get(call["id"] or "")) for call in calls]


def _result(tool_name: str, message: ToolMessage | None) -> str:
    text = (message.text.strip() or "(an empty result)") if message else "no result"
    failed = not message or message.status == "error" or text.startswith("Not executed")
    return f"{tool_name} {FAILED} {text}" if failed else text


def _tool_for(kind: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool with the parameters for it, or else the subagent, that speaks of such things."""
    functions: list[Tool] = [tool.get("function", {}) for tool in tools]
    for parameters in (PARAMETERS[kind], {"query"}):
        for field in ("name", "description"):
            for function in functions:
                said = re.search(KEYWORDS[kind], function.get(field, ""), re.IGNORECASE)
                if said and _takes(function, parameters):
                    return function
    return None


def _takes(function: Tool, parameters: set[str]) -> bool:
    schema = function.get("parameters", {})
    return set(schema.get("required", [])) <= parameters <= set(schema.get("properties", []))


def _ready(wishes: list[Wish], results: list[str], complete: bool) -> list[Wish]:
    """What can be done now: all that waits for nothing, then the report on what was found."""
    left = wishes[len(results) :]
    if not left or not left[0].is_report:
        return [wish for wish in left if not wish.is_report]
    found = [r for wish, r in zip(wishes, results, strict=False) if wish.kind != "email"]
    if not complete or any(FAILED in result for result in found):
        return []
    return [left[0]._replace(args=left[0].args | {"body": "\n\n".join(found)})]


def _call_id(request: BaseMessage, position: int) -> str:
    """The start of an id that is unique in a thread, its subagents' conversations included."""
    seed = f"{request.id} {request.text}".encode(errors="surrogatepass")
    return f"call_demo_{sha256(seed).hexdigest()[:8]}_{position}"


def _call(wish: Wish, tool: Tool, call_id: str) -> ToolCall:
    args = wish.args
    if not _takes(tool, PARAMETERS[wish.kind]):
        is_email = wish.kind == "email"
        args = {"query": EMAIL_QUERY.format(**args) if is_email else f"What is {wish}?"}
    return ToolCall(name=tool["name"], args=args, id=call_id, type="tool_call")


def _help(tool_for: dict[str, Tool]) -> str:
    lines = CAPABILITIES.splitlines()
    known = [line for line in lines if {w.kind for w in read_request(line[2:])} <= set(tool_for)]
    return HELP.format("\n".join(known) or "- (none: this agent has no tool that I know)")


class DemoChatModel(BaseChatModel):
    """A deterministic chat model that answers what `CAPABILITIES` lists. It keeps no memory."""

    model_name: str = "demo"

    @property
    def _llm_type(self) -> str:
        return "demo"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """The model with tools that it may call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=respond(messages, **kwargs))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> Chunks:
        message = respond(messages, **kwargs)
        for word in re.findall(r"\s+|\S+\s*", message.text):
            yield _chunk(word)
        for i, call in enumerate(message.tool_calls):
            args = json.dumps(call["args"])
            half = len(args) // 2
            yield _chunk(call=tool_call_chunk(name=call["name"], id=call["id"], args="", index=i))
            yield _chunk(call=tool_call_chunk(args=args[:half], index=i))
            yield _chunk(call=tool_call_chunk(args=args[half:], index=i))
        # Once only: metadata that several chunks carry is strung together when they are merged.
        yield _chunk(response_metadata=message.response_metadata, chunk_position="last")

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, **kwargs):
            yield chunk


def _chunk(text: str = "", call: ToolCallChunk | None = None, **rest: Any) -> ChatGenerationChunk:
    message = AIMessageChunk(content=text, tool_call_chunks=[call] if call else [], **rest)
    return ChatGenerationChunk(message=message)
