"""What holds for every test: no settings from outside, no internet; and what tests share."""

import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from dotenv import load_dotenv

from scripts.dev_server import AGENT_VARIABLES
from tests.standins.openai_endpoint import OpenAIEndpoint
from tests.standins.weather_service import WeatherService


def _comes_from_outside(name: str) -> bool:
    if name in AGENT_VARIABLES or name.startswith(("LANGSMITH_", "LANGCHAIN_")):
        return True
    return name.upper().endswith("_PROXY")


EVALS = os.environ.get("EVALS", "")
"""In `make eval` the file with the settings: its model is the one that they name."""

# At import, and not in a fixture: modules under test may read them when they are imported.
if EVALS:
    load_dotenv(EVALS, override=True)
    os.environ.setdefault("LANGSMITH_TEST_SUITE", "langgraph-agents evals")
else:
    for _name in filter(_comes_from_outside, list(os.environ)):
        del os.environ[_name]
    os.environ["LANGSMITH_TRACING"] = "false"
if os.environ.get("LANGSMITH_TRACING") != "true":
    os.environ["LANGSMITH_TEST_TRACKING"] = "false"

pytest_plugins = ["tests.evals.report"]


def is_local(host: object) -> bool:
    """Whether a host is this machine, without asking a name server."""
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(str(name).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(scope="session", autouse=True)
def no_internet() -> Iterator[None]:
    """Refuse to look up or connect to any other machine; names in `.invalid` are just unknown.

    `make eval` alone may: its model is wherever OPENAI_BASE_URL says.
    """
    if EVALS:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        lookup, connect, connect_ex = (
            socket.getaddrinfo,
            socket.socket.connect,
            socket.socket.connect_ex,
        )

        def guarded_lookup(host: Any, *args: Any, **options: Any) -> Any:
            if str(host).endswith(".invalid"):
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            _allow(host)
            return lookup(host, *args, **options)

        def guarded_connect(self: socket.socket, address: Any) -> None:
            _allow_address(self, address)
            connect(self, address)

        def guarded_connect_ex(self: socket.socket, address: Any) -> int:
            _allow_address(self, address)
            return connect_ex(self, address)

        patch.setattr(socket, "getaddrinfo", guarded_lookup)
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield


def _allow_address(connection: socket.socket, address: Any) -> None:
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        _allow(address[0])


def _allow(host: object) -> None:
    if not is_local(host):
        # No OSError: a tool would take that for a network that is down, and go on.
        raise RuntimeError(f"A test tried to reach {host!r}. Tests stay on this machine.")


@pytest.fixture(scope="session")
def openai_endpoint() -> Iterator[OpenAIEndpoint]:
    """The stand-in that the session's server talks to. All that it refuses fails the session."""
    with OpenAIEndpoint() as endpoint:
        yield endpoint
    assert not endpoint.refusals, "The agents sent what a provider refuses"


@pytest.fixture(scope="session")
def weather_service() -> Iterator[WeatherService]:
    """The Open-Meteo stand-in that the session's servers talk to."""
    with WeatherService() as service:
        yield service
