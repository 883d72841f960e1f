"""The evals' world: emails land in a folder of the test's own, the weather is a stand-in's."""

import os
from pathlib import Path

import pytest

from graphs.models import EnvironmentModel
from tests.outbox import Outbox
from tests.standins.weather_service import WeatherService


@pytest.fixture
def outbox(
    tmp_path: Path, weather_service: WeatherService, monkeypatch: pytest.MonkeyPatch
) -> Outbox:
    """Where the agents' emails land. No mail server, and no weather service, is asked."""
    for name in [name for name in os.environ if name.startswith("SMTP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTBOX_DIR", str(tmp_path / "outbox"))
    for name in ("OPEN_METEO_GEOCODING_URL", "OPEN_METEO_FORECAST_URL"):
        monkeypatch.setenv(name, weather_service.url)
    return Outbox(tmp_path / "outbox")


@pytest.fixture(scope="session")
def langsmith_experiment_metadata() -> dict[str, str]:
    """What LangSmith keeps beside the experiment, and names it by."""
    model = EnvironmentModel().model_name
    os.environ.setdefault("LANGSMITH_EXPERIMENT", model)
    return {"model": model}
