"""A local Open-Meteo: real HTTP, real shapes of answers, and any misbehaviour that is asked for.

with WeatherService() as service:
    service.url                      # for both OPEN_METEO_*_URL, this process's or another's
    service.misbehave = fail(500)    # from now on, until None is set
    service.requests                 # what was asked: path and query
"""

import csv
import io
import itertools
import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, BrokenBarrierError, Event, Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Json = Any
Behaviour = Callable[["Handler", str], bool]
"""Handles a request for a path, or returns False to have it answered as usual."""


GAZETTEER = """\
name,country,country_code,admin1,admin2,latitude,longitude,population,timezone,feature_code
Jakarta,Indonesia,ID,Jakarta,,-6.21462,106.84513,8540121,Asia/Jakarta,PPLC
Paris,France,FR,Île-de-France,Paris,48.85341,2.3488,2138551,Europe/Paris,PPLC
Paris,United States,US,Texas,Lamar,33.66094,-95.55551,24782,America/Chicago,PPLA2
Paris,United States,US,Tennessee,Henry,36.302,-88.32671,10156,America/Chicago,PPLA2
Tokyo,Japan,JP,Tokyo,,35.69,139.69,13960000,Asia/Tokyo,ADM1
Tokyo,Japan,JP,Tokyo,,35.6895,139.69171,8336599,Asia/Tokyo,PPLC
London,United Kingdom,GB,England,Greater London,51.50853,-0.12574,8961989,Europe/London,PPLC
London,Canada,CA,Ontario,,42.98339,-81.23304,422324,America/Toronto,PPL
Washington,United States,US,District of Columbia,,38.89511,-77.03637,689545,America/New_York,PPLC
Washington,United States,US,Pennsylvania,,40.17396,-80.24617,13500,America/New_York,PPLA2
São Paulo,Brazil,BR,São Paulo,,-23.5475,-46.63611,12400232,America/Sao_Paulo,PPLA
Springfield,United States,US,Missouri,Greene,37.21533,-93.29824,166810,America/Chicago,PPLA2
Springfield,United States,US,Massachusetts,Hampden,42.10148,-72.58981,154341,America/New_York,PPLA2
Springfield,United States,US,Illinois,Sangamon,39.80172,-89.64371,116565,America/Chicago,PPLA
Springfield,United States,US,Oregon,Lane,44.04624,-123.02203,60870,America/Los_Angeles,PPL
Springfield,United States,US,Ohio,Clark,39.92423,-83.80882,59680,America/New_York,PPLA2
Springfield,United States,US,Wisconsin,Dane,43.17,-89.6,,America/Chicago,PPL
Springfield,United States,US,Wisconsin,Walworth,42.64,-88.41,,America/Chicago,PPL
"""


def read_gazetteer() -> list[dict[str, Json]]:
    """Make the geocoding's results; as there, what is not known is left out."""
    kinds = {"latitude": float, "longitude": float, "population": int}
    rows = csv.DictReader(io.StringIO(GAZETTEER))
    return [
        {"id": number, "elevation": 8.0}
        | {key: kinds.get(key, str)(value) for key, value in row.items() if value}
        for number, row in enumerate(rows)
    ]


PLACES = read_gazetteer()

CURRENT = {
    "time": "2026-01-07T14:15",
    "interval": 900,
    "temperature_2m": 29.4,
    "apparent_temperature": 34.1,
    "wind_speed_10m": 11.2,
    "weather_code": 61,
}
CURRENT_UNITS = {
    "time": "iso8601",
    "interval": "seconds",
    "temperature_2m": "°C",
    "apparent_temperature": "°C",
    "wind_speed_10m": "km/h",
    "weather_code": "wmo code",
}


@dataclass
class Request:
    path: str
    query: dict[str, str]


class WeatherService:
    """The server, in a thread of its own. Use it as a context manager, or start and stop it."""

    def __init__(self) -> None:
        self.misbehave: Behaviour | None = None
        self.requests: list[Request] = []
        self.stopping = Event()
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.service = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)
        assert not self._thread.is_alive(), "the weather service did not stop"

    def reset(self) -> None:
        self.misbehave = None
        self.requests.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    service: WeatherService

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away early are what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A client that keeps its connection and asks nothing more does not hold a thread for long.
    timeout = 30
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        service = self.server.service
        service.requests.append(Request(parts.path, query))
        if service.misbehave and service.misbehave(self, parts.path):
            return
        answers = {"/v1/search": search, "/v1/forecast": forecast}
        if parts.path not in answers:
            self.send_json(404, {"error": True, "reason": "Not Found"})
            return
        try:
            self.send_json(200, answers[parts.path](query))
        except BadQuery as problem:
            self.send_json(400, {"error": True, "reason": str(problem)})

    def send_json(self, status: int, value: Json) -> None:
        self.send_body(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def send_body(
        self, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


# As the real service answers


class BadQuery(Exception):
    """The real service would refuse this query with 400 and this reason."""


def search(query: dict[str, str]) -> Json:
    check_keys(query, {"name", "count", "language", "format", "countryCode"})
    name = query.get("name", "")
    count = number(query.get("count", "10"), "count", 1, 100)
    if query.get("format", "json") != "json":
        raise BadQuery("Parameter 'format' must be json")
    found = [one for one in PLACES if matches(one["name"], name)][: int(count)]
    return {"results": found, "generationtime_ms": 0.5} if found else {"generationtime_ms": 0.5}


def matches(known: str, name: str) -> bool:
    """As documented: nothing for one letter, exact for two, from three on the beginning."""
    known, name = known.casefold(), name.casefold()
    return known.startswith(name) if len(name) > 2 else len(name) == 2 and known == name


def forecast(query: dict[str, str]) -> Json:
    check_keys(
        query,
        {"latitude", "longitude", "current", "temperature_unit", "wind_speed_unit", "timezone"},
    )
    latitude = number(query.get("latitude"), "latitude", -90, 90)
    longitude = number(query.get("longitude"), "longitude", -180, 180)
    names = query.get("current", "").split(",")
    if unknown := [name for name in names if name not in CURRENT]:
        raise BadQuery(f"Cannot initialize SurfaceVariable from invalid String value {unknown[0]}")
    if query.get("temperature_unit", "celsius") != "celsius":
        raise BadQuery("The stand-in knows celsius only")
    if query.get("wind_speed_unit", "kmh") != "kmh":
        raise BadQuery("The stand-in knows kmh only")
    zone = zone_of(latitude, longitude) if query.get("timezone") == "auto" else "GMT"
    shown = ["time", "interval", *names]
    return {
        "latitude": latitude,
        "longitude": longitude,
        "generationtime_ms": 0.06,
        "timezone": zone,
        "elevation": 8.0,
        "current_units": {name: CURRENT_UNITS[name] for name in shown},
        "current": {name: CURRENT[name] for name in shown},
    }


def zone_of(latitude: float, longitude: float) -> str:
    zones = {(one["latitude"], one["longitude"]): one["timezone"] for one in PLACES}
    return str(zones.get((latitude, longitude), "GMT"))


def check_keys(query: dict[str, str], known: set[str]) -> None:
    if unknown := set(query) - known:
        raise BadQuery(f"Unknown parameter {sorted(unknown)}")


def number(text: str | None, name: str, least: float, most: float) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise BadQuery(f"Parameter '{name}' must be a number, not {text!r}") from None
    if not least <= value <= most:
        raise BadQuery(f"Parameter '{name}' must be in range of {least} to {most}. Given: {value}")
    return value


# Misbehaviours


def fail(status: int, times: int | None = None) -> Behaviour:
    """Answer with an error status, always or the first few times."""
    failures = itertools.count(1)

    def behave(handler: Handler, path: str) -> bool:
        if times is not None and next(failures) > times:
            return False
        handler.send_json(status, {"error": True, "reason": "on purpose"})
        return True

    return behave


def answer(value: Json, path: str) -> Behaviour:
    """Answer 200 and this JSON on one path."""
    return answer_body(json.dumps(value).encode(), path)


def answer_body(body: bytes, path: str, content_type: str = "application/json") -> Behaviour:
    """Answer 200 and these bytes on one path."""

    def behave(handler: Handler, asked: str) -> bool:
        if asked == path:
            handler.send_body(200, body, content_type)
        return asked == path

    return behave


def redirect(to: str) -> Behaviour:
    def behave(handler: Handler, path: str) -> bool:
        handler.send_body(302, b"", "text/plain", {"Location": to})
        return True

    return behave


def hang(seconds: float = 30) -> Behaviour:
    """Take the request and stay silent, until the service stops."""

    def behave(handler: Handler, path: str) -> bool:
        handler.server.service.stopping.wait(seconds)
        handler.close_connection = True
        return True

    return behave


def wait_for(callers: int, seconds: float = 30) -> Behaviour:
    """Answer as usual, but nobody before as many have asked; 503 if they do not come."""
    arrived = Barrier(callers)

    def behave(handler: Handler, path: str) -> bool:
        if path != "/v1/search":
            return False
        try:
            arrived.wait(seconds)
        except BrokenBarrierError:
            handler.send_json(503, {"error": True, "reason": f"not {callers} at once"})
            return True
        return False

    return behave


def dribble(seconds: float = 30) -> Behaviour:
    """Send a body that never ends, a byte at a time."""

    def behave(handler: Handler, path: str) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not handler.server.service.stopping.wait(0.02):
            handler.wfile.write(b" ")
        handler.close_connection = True
        return True

    return behave


def drop(times: int | None = None) -> Behaviour:
    """Reset the connection instead of answering, always or the first few times."""
    drops = itertools.count(1)

    def behave(handler: Handler, path: str) -> bool:
        if times is not None and next(drops) > times:
            return False
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.close_connection = True
        handler.connection.close()
        return True

    return behave
