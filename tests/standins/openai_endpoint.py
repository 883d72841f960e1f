"""A local HTTP server of `POST /v1/chat/completions`, as strict as a provider, and scripted.

    with OpenAIEndpoint() as endpoint:
        scene = endpoint.scene([call("get_weather", {"location": "Paris"}), "It is warm."])
        ask(f"{scene.marker} How is the weather in Paris?")   # base URL: endpoint.url
        scene.requests[-1].messages

A request belongs to the scene whose marker stands in its last user message; so tests that share
one server do not disturb each other. A request of no scene gets its last user message back.
"""

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

from langchain_core.messages import AIMessage

from tests.standins.provider_rules import ProviderRefusal, check_request
from tests.standins.scripted_model import wanted_calls

API_KEY = "test-key"
MODEL = "scripted"


@dataclass(frozen=True)
class ChatRequest:
    """One request as it came in."""

    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def tool_choice(self) -> Any:
        return self.body.get("tool_choice")

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]

    @property
    def last_user_text(self) -> str:
        users = [m["content"] for m in self.messages if m["role"] == "user"]
        return users[-1] if isinstance(users[-1], str) else json.dumps(users[-1])


@dataclass(frozen=True)
class Fault:
    """An answer that goes wrong.

    `status` is answered with an error body, and with `retry_after` seconds where they are given.
    A `body` is answered with 200 as it is. Else the connection is dropped: at once, or after
    `pieces` pieces of a streamed "This is never finished"; with `hang`, it stays open and silent
    from there on until the server stops.
    """

    status: int | None = None
    retry_after: float | None = None
    pieces: int = 0
    hang: bool = False
    body: bytes | None = None


DROP = Fault()
DROP_IN_STREAM = Fault(pieces=2)
HANG = Fault(hang=True)
HANG_IN_STREAM = Fault(hang=True, pieces=2)

Reply = str | AIMessage | Fault
Player = Callable[[ChatRequest], Reply]
Script = Sequence[Reply | Player] | Player


@dataclass
class Scene:
    """A script, the marker that leads requests to it, and the requests that came."""

    marker: str
    script: Script
    requests: list[ChatRequest] = field(default_factory=list)

    def reply(self, request: ChatRequest) -> Reply:
        self.requests.append(request)
        if callable(self.script):
            return self.script(request)
        if len(self.requests) > len(self.script):
            raise ProviderRefusal(f"{self.marker}: the script has {len(self.script)} replies")
        entry = self.script[len(self.requests) - 1]
        return entry(request) if callable(entry) else entry


class OpenAIEndpoint:
    """The server. `url` ends in `/v1`; `requests` and `refusals` hold all that happened."""

    def __init__(self, api_key: str = API_KEY) -> None:
        self.api_key = api_key
        self.requests: list[ChatRequest] = []
        self.refusals: list[str] = []
        self.stopping = threading.Event()
        self._scenes: list[Scene] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def scene(self, script: Script, marker: str = "") -> Scene:
        """Register a script: replies in order, one a request, or a function of the request."""
        scene = Scene(marker or f"[scene {next(self._numbers)}]", script)
        self._scenes.append(scene)
        return scene

    def reply(self, request: ChatRequest) -> Reply:
        """Return the reply to a request.

        Raises:
            ProviderRefusal: the request breaks a rule, or its scene's script is over.
        """
        with self._lock:
            try:
                check_request(request.body)
                self.requests.append(request)
                return self._played(request)
            except ProviderRefusal as refusal:
                self.refusals.append(str(refusal))
                raise

    def _played(self, request: ChatRequest) -> Reply:
        for scene in self._scenes:
            if scene.marker in request.last_user_text:
                return scene.reply(request)
        return f"You said: {request.last_user_text}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    endpoint: ClassVar[OpenAIEndpoint]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `requests` instead."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            return self._error(404, f"Unknown path {self.path}")
        if self.headers.get("Authorization") != f"Bearer {self.endpoint.api_key}":
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            return self._error(401, f"Incorrect API key provided: {given}.")
        try:
            request = ChatRequest(json.loads(raw))
            reply = self.endpoint.reply(request)
        except ValueError as refusal:
            return self._error(400, str(refusal))
        if isinstance(reply, Fault):
            return self._fail(reply)
        message = AIMessage(reply) if isinstance(reply, str) else reply
        if request.body.get("stream"):
            usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
            return self._stream(_chunks(message, usage=usage))
        return self._json(200, _completion(message))

    def _fail(self, fault: Fault) -> None:
        if fault.status is not None:
            return self._error(fault.status, f"Scripted error {fault.status}", fault.retry_after)
        if fault.body is not None:
            return self._send(200, fault.body)
        if fault.pieces:
            never = AIMessage("This is never finished")
            self._stream(itertools.islice(_chunks(never, usage=False), fault.pieces), end=False)
        if fault.hang:
            self.endpoint.stopping.wait()
        self.close_connection = True
        return None

    def _error(self, status: int, message: str, retry_after: float | None = None) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        self._json(status, {"error": error}, headers)

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), headers)

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, chunks: Iterator[dict[str, Any]], *, end: bool = True) -> None:
        """Send server-sent events, chunked; without `end`, the stream stays unfinished."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self._piece(f"data: {json.dumps(chunk)}\n\n".encode())
        if end:
            self._piece(b"data: [DONE]\n\n")
            self._piece(b"")

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _head(kind: str) -> dict[str, Any]:
    created = time.time_ns()
    return {"id": f"chatcmpl-{created}", "object": kind, "created": 1, "model": MODEL}


def _finish_reason(message: AIMessage) -> str:
    return "tool_calls" if wanted_calls(message) else "stop"


def _completion(message: AIMessage) -> dict[str, Any]:
    content = message.text or None
    answer: dict[str, Any] = {"role": "assistant", "content": content}
    if wanted := wanted_calls(message):
        answer["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": args}}
            for name, args, id_ in wanted
        ]
    choice = {"index": 0, "message": answer, "finish_reason": _finish_reason(message)}
    return {**_head("chat.completion"), "choices": [choice], "usage": USAGE}


def _chunks(message: AIMessage, *, usage: bool) -> Iterator[dict[str, Any]]:
    head = _head("chat.completion.chunk")
    for delta in _deltas(message):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    finish = {"index": 0, "delta": {}, "finish_reason": _finish_reason(message)}
    yield {**head, "choices": [finish]}
    if usage:
        yield {**head, "choices": [], "usage": USAGE}


def _deltas(message: AIMessage) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in re.findall(r"\s*\S+|\s+$", message.text):
        yield {"content": piece}
    for index, (name, args, id_) in enumerate(wanted_calls(message)):
        named = {"name": name, "arguments": ""}
        first = {"index": index, "id": id_, "type": "function", "function": named}
        yield {"tool_calls": [first]}
        half = len(args) // 2
        for piece in (args[:half], args[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
