"""One `langgraph dev` a session, on a stand-in for the endpoint; and one on the demo model."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from scripts.dev_server import DevServer, dev_server
from tests.outbox import Outbox
from tests.standins.openai_endpoint import API_KEY, MODEL, OpenAIEndpoint
from tests.standins.weather_service import WeatherService


@pytest.fixture(scope="session")
def outbox(tmp_path_factory: pytest.TempPathFactory) -> Outbox:
    """Where the session's `server` leaves its emails."""
    return Outbox(tmp_path_factory.mktemp("server") / "outbox")


@pytest.fixture(scope="session")
def endpoint_env(
    openai_endpoint: OpenAIEndpoint, weather_service: WeatherService, outbox: Outbox
) -> dict[str, str]:
    """The variables of a server that talks to the stand-ins only."""
    return {
        "OPENAI_API_KEY": API_KEY,
        "OPENAI_BASE_URL": openai_endpoint.url,
        "AGENT_MODEL": f"openai:{MODEL}",
        "OPEN_METEO_GEOCODING_URL": weather_service.url,
        "OPEN_METEO_FORECAST_URL": weather_service.url,
        "OUTBOX_DIR": str(outbox.folder),
    }


@pytest.fixture(scope="session")
def server(
    endpoint_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DevServer]:
    """The session's server. What its model says, tests script at `openai_endpoint`."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    with dev_server(endpoint_env, log=log) as running:
        yield running
    assert_never_blocked(log)


@pytest.fixture(scope="session")
def demo_outbox(tmp_path_factory: pytest.TempPathFactory) -> Outbox:
    """Where the session's `demo_server` leaves its emails."""
    return Outbox(tmp_path_factory.mktemp("demo") / "outbox")


@pytest.fixture(scope="session")
def demo_server(
    weather_service: WeatherService,
    demo_outbox: Outbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[DevServer]:
    """A server without a key: its agents run on the demo model."""
    log = tmp_path_factory.mktemp("demo") / "server.log"
    env = {
        "OPEN_METEO_GEOCODING_URL": weather_service.url,
        "OPEN_METEO_FORECAST_URL": weather_service.url,
        "OUTBOX_DIR": str(demo_outbox.folder),
    }
    with dev_server(env, log=log) as running:
        yield running
    assert_never_blocked(log)


def assert_never_blocked(log: Path) -> None:
    """Case 57: no node and no tool held up the event loop with blocking I/O."""
    assert "BlockingError" not in log.read_text("utf-8"), f"blocking I/O, see {log}"


@pytest.fixture
def client(server: DevServer) -> LangGraphClient:
    return get_client(url=server.url)
