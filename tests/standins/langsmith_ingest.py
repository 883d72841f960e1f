"""Where LangSmith's client sends traces: its ingest endpoint, decoded and checked.

Served are `GET /info` and `POST /runs/multipart`, as langsmith 0.15 asks for them: one part a run
and one for each of its larger fields, one a feedback, compressed with zstd or not. What the real
one refuses is refused: another key, a part that cannot be read, a run whose place in its trace is
not told, feedback that does not say on what. `LangSmithExperiments` has what its pytest plugin
asks for, too.
"""

import json
import re
import threading
import time
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self

import zstandard

API_KEY = "lsv2_test_key"
INFO = {
    "version": "0.15.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": True,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 16,
        "scale_down_nempty_trigger": 4,
        "size_limit": 100,
        "size_limit_bytes": 20_971_520,
    },
    "instance_flags": {"zstd_compression_enabled": True},
}
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PART = re.compile(
    rf"(post|patch|feedback)\.({UUID})(?:\.(inputs|outputs|events|extra|error|serialized))?"
)
PLACE = re.compile(rf"(?:\d{{8}}T\d{{12}}Z{UUID}\.)*\d{{8}}T\d{{12}}Z({UUID})")
NEEDED = {
    "post": {"id", "trace_id", "dotted_order", "name", "run_type", "start_time"},
    "patch": {"id", "trace_id", "dotted_order", "end_time"},
    "feedback": {"id", "trace_id", "run_id", "key", "session_id", "start_time"},
}

Run = dict[str, Any]


class Refused(ValueError):
    """The endpoint does not take this request."""


class LangSmithIngest:
    """The server. `bodies` are the requests as they came, decompressed; `feedback` is decoded."""

    def __init__(self, handler: "type[Handler] | None" = None) -> None:
        self.bodies: list[bytes] = []
        self.refusals: list[str] = []
        self.feedback: list[dict[str, Any]] = []
        self._runs: dict[str, Run] = {}
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Served", (handler or Handler,), {"ingest": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, body: bytes, content_type: str) -> None:
        """Read a request's runs.

        Raises:
            Refused: It cannot be read, or a run's place is not told.
        """
        with self.lock:
            self.bodies.append(body)
            runs, feedback = read_runs(body, content_type)
            self.feedback += feedback
            for run_id, run in runs.items():
                self._runs.setdefault(run_id, {}).update(run)

    def every_run(self) -> list[Run]:
        with self.lock:
            return list(self._runs.values())

    def runs(self, thread_id: str) -> list[Run]:
        """The runs of a thread's traces, in the order of their places."""
        known = self.every_run()
        traces = {run["trace_id"] for run in known if metadata(run).get("thread_id") == thread_id}
        found = [run for run in known if run["trace_id"] in traces]
        return sorted(found, key=lambda run: str(run["dotted_order"]))

    def finished(self, thread_id: str, traces: int = 1) -> list[Run]:
        """The runs of a thread as soon as so many traces, and all in them, have ended."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            runs = self.runs(thread_id)
            roots = [run for run in runs if not run.get("parent_run_id")]
            if len(roots) == traces and all(run.get("end_time") for run in runs):
                return runs
            time.sleep(0.05)
        raise AssertionError(f"{traces} traces of {thread_id} did not end: {self.runs(thread_id)}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def metadata(run: Run) -> dict[str, Any]:
    """The metadata of a run."""
    found: dict[str, Any] = run.get("extra", {}).get("metadata", {})
    return found


def read_runs(body: bytes, content_type: str) -> tuple[dict[str, Run], list[dict[str, Any]]]:
    """The runs of a multipart request by their ids, each with all that came; and the feedback."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise Refused(f"{content_type!r} is no multipart request")
    runs: dict[str, Run] = {}
    kinds: dict[str, set[str]] = {}
    feedback = []
    for part in message.iter_parts():
        kind, run_id, field, value = _read_part(part)
        if kind == "feedback":
            _check_fields(kind, run_id, value)
            feedback.append(value)
            continue
        run = runs.setdefault(run_id, {})
        if field is None:
            _check_run(kind, run_id, value)
            kinds.setdefault(run_id, set()).add(kind)
            run.update(value)
        else:
            run[field] = value
    if orphans := runs.keys() - kinds.keys():
        raise Refused(f"fields came without their runs: {orphans}")
    return runs, feedback


def _read_part(part: Message) -> tuple[str, str, str | None, Any]:
    name = str(part.get_param("name", "", "content-disposition"))
    if not (match := PART.fullmatch(name)):
        raise Refused(f"unknown part {name!r}")
    if part.get_content_type() != "application/json":
        raise Refused(f"{name} is {part.get_content_type()}")
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    try:
        value = json.loads(content)
    except ValueError as error:
        raise Refused(f"{name} is no JSON: {error}") from error
    return match[1], match[2], match[3], value


def _check_fields(kind: str, id: str, value: dict[str, Any]) -> None:
    if missing := NEEDED[kind] - {name for name, one in value.items() if one is not None}:
        raise Refused(f"{kind} of {id} lacks {missing}")


def _check_run(kind: str, run_id: str, run: Run) -> None:
    _check_fields(kind, run_id, run)
    place = PLACE.fullmatch(run["dotted_order"])
    if run["id"] != run_id or not place or place[1] != run_id:
        raise Refused(f"{run_id} is not at the end of its place {run['dotted_order']}")
    if run["trace_id"] not in run["dotted_order"].partition(".")[0]:
        raise Refused(f"{run_id} is in another trace than its place {run['dotted_order']}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ingest: ClassVar[LangSmithIngest]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: tests read `runs` and `refusals` instead."""

    def do_GET(self) -> None:
        if self.path == "/info":
            return self.answer(200, INFO)
        return self.refuse(404, f"GET {self.path}")

    def do_POST(self) -> None:
        body = self.body()
        if self.path != "/runs/multipart":
            return self.refuse(404, f"POST {self.path}")
        if self.headers.get("x-api-key") != API_KEY:
            return self.refuse(403, "another key")
        try:
            if self.headers.get("Content-Encoding") == "zstd":
                body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
            self.ingest.take(body, self.headers.get("Content-Type", ""))
        except (Refused, zstandard.ZstdError) as error:
            return self.refuse(422, str(error))
        return self.answer(202, {"message": "Runs batch ingested"})

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def json_body(self) -> Any:
        body = self.body() if self.command != "GET" else b""
        return json.loads(body) if body else {}

    def refuse(self, status: int, why: str) -> None:
        self.ingest.refusals.append(why)
        self.answer(status, {"detail": why})

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
