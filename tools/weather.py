"""The current weather of a place, from Open-Meteo (https://open-meteo.com), which needs no key.

Two requests: its geocoding finds the place, its forecast has the weather there. Their formats:
https://open-meteo.com/en/docs/geocoding-api and https://open-meteo.com/en/docs.
"""

import asyncio
import os
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import httpx
from langchain_core.tools import tool
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tools.http_client import http_client

GEOCODING_URL = "https://geocoding-api.open-meteo.com"
FORECAST_URL = "https://api.open-meteo.com"

REQUEST_SECONDS = 10.0
RETRY_AFTER_SECONDS = (0.2, 0.6)
LONGEST_LOCATION = 200
MOST_CANDIDATES = 8
# Control characters, line separators and halves of surrogate pairs.
NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# A place is meant when it has this many times the people of the next place of its name.
CLEAR_LEAD = 5

COUNTRY_NICKNAMES = {"usa": "us", "america": "us", "uk": "gb", "great britain": "gb", "uae": "ae"}

# WMO code table 4677, as far as Open-Meteo uses it.
CONDITIONS = {
    0: "clear sky",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "depositing rime fog",
    51: "light drizzle",
    53: "moderate drizzle",
    55: "dense drizzle",
    56: "light freezing drizzle",
    57: "dense freezing drizzle",
    61: "slight rain",
    63: "moderate rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "heavy freezing rain",
    71: "slight snow fall",
    73: "moderate snow fall",
    75: "heavy snow fall",
    77: "snow grains",
    80: "slight rain showers",
    81: "moderate rain showers",
    82: "violent rain showers",
    85: "slight snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with slight hail",
    99: "thunderstorm with heavy hail",
}


class NoWeatherError(Exception):
    """The weather is not known. The message says why, for the model to pass on."""


class Answer(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


def printable(text: str) -> str:
    """Put a space for what cannot be printed, so that a service steers no terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def read_time(text: str) -> str:
    """Write "2026-01-07T14:15" as "2026-01-07 14:15"; a `ValueError` if it is no such time."""
    return f"{datetime.strptime(text, '%Y-%m-%dT%H:%M'):%Y-%m-%d %H:%M}"


Text = Annotated[str, AfterValidator(printable)]
Name = Annotated[Text, Field(min_length=1)]


class Place(Answer):
    name: Name
    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)
    country: Text | None = None
    country_code: Text | None = None
    admin1: Text | None = None
    admin2: Text | None = None
    feature_code: str | None = None
    population: int | None = None


class Places(Answer):
    # Left out by the service where it knows no place of that name.
    results: list[Place] = []


# Outside these bounds it is no measurement: nowhere on Earth was it ever colder or hotter.
Celsius = Annotated[float, Field(ge=-100, le=100)]


class Weather(Answer):
    time: Annotated[str, AfterValidator(read_time)]
    temperature_2m: Celsius
    apparent_temperature: Celsius
    wind_speed_10m: float = Field(ge=0, le=500)
    weather_code: int


class Units(Answer):
    temperature_2m: Literal["°C"]
    apparent_temperature: Literal["°C"]
    wind_speed_10m: Literal["km/h"]


class Forecast(Answer):
    current: Weather
    current_units: Units
    timezone: Name


AnswerT = TypeVar("AnswerT", bound=Answer)


@tool(parse_docstring=True)
async def get_weather(location: str) -> str:
    """Get the current weather of a place.

    Returns the temperature, what it feels like, the wind, the conditions and the local time
    of the observation, for the place that it names. Where several places have the name, it
    lists them: call it again with the region or the country. Where the weather cannot be
    found out, it says why.

    Args:
        location: The name of a city or town, such as "Jakarta". Narrow it with a region or a
            country after a comma, written in full: "Springfield, Illinois", "Paris, France".
    """
    try:
        place = await find_place(location)
        return describe(place, await current_weather(place))
    except NoWeatherError as problem:
        return f"{problem} The weather{named(location)} is not known."


def named(location: str) -> str:
    """Name the place, so that several answers can be told apart; not if it is no name at all."""
    name = " ".join(location.split())
    return f" in {name}" if 0 < len(name) <= 80 and not NO_TEXT.search(location) else ""


async def find_place(location: str) -> Place:
    """Look up the place that a location names.

    Args:
        location: "City", "City, Region" or "City, Region, Country".

    Raises:
        NoWeatherError: No place has that name, several have it, or the service failed.
    """
    name, *narrowing = split_location(location)
    query = {"name": name, "count": "100", "language": "en", "format": "json"}
    base = base_url("OPEN_METEO_GEOCODING_URL", GEOCODING_URL)
    places = await fetch(Places, f"{base}/v1/search", query)
    return choose_place(places.results, name, narrowing)


async def current_weather(place: Place) -> Forecast:
    """Ask for the weather at a place: in °C and km/h, at its own local time.

    Raises:
        NoWeatherError: The service failed, or what it sent is not complete.
    """
    query = {
        "latitude": str(place.latitude),
        "longitude": str(place.longitude),
        "current": "temperature_2m,apparent_temperature,wind_speed_10m,weather_code",
        "temperature_unit": "celsius",
        "wind_speed_unit": "kmh",
        "timezone": "auto",
    }
    base = base_url("OPEN_METEO_FORECAST_URL", FORECAST_URL)
    return await fetch(Forecast, f"{base}/v1/forecast", query)


def describe(place: Place, forecast: Forecast) -> str:
    """Put a place's weather in words."""
    now = forecast.current
    conditions = CONDITIONS.get(now.weather_code, f"WMO weather code {now.weather_code}")
    return (
        f"{label(place)}: {now.temperature_2m:.1f} °C, feels like "
        f"{now.apparent_temperature:.1f} °C, wind {now.wind_speed_10m:.1f} km/h, {conditions}. "
        f"Observed at {now.time} local time ({forecast.timezone}). "
        f"Source: Open-Meteo.com."
    )


def label(place: Place, *, with_county: bool = False) -> str:
    """Name a place by its own name, region and country, as in "Paris, Île-de-France, France"."""
    county = place.admin2 if with_county else None
    parts = [place.name, county, place.admin1, place.country or place.country_code]
    return ", ".join(dict.fromkeys(part for part in parts if part))


# Which place is meant


def split_location(location: str) -> list[str]:
    """Split "City, Region, Country" at its commas.

    Raises:
        NoWeatherError: It is empty, too long, or has control characters.
    """
    if len(location) > LONGEST_LOCATION:
        raise NoWeatherError(
            f"The location is {len(location)} characters long, and no place's name has more "
            f"than {LONGEST_LOCATION}."
        )
    if NO_TEXT.search(location):
        raise NoWeatherError("The location has control characters, which no place's name has.")
    parts = [part.strip() for part in location.split(",") if part.strip()]
    if not parts:
        raise NoWeatherError('No location was given; name a place, such as "Jakarta".')
    return parts


def choose_place(found: Sequence[Place], name: str, narrowing: Sequence[str]) -> Place:
    """Choose the place that is meant, or none.

    Of the towns that have the name, those stay that fit every narrowing part. If more than
    one is left, the largest is meant if it has at least `CLEAR_LEAD` times the people of the
    next: Paris is the one in France, while Springfield may be any of several.

    Args:
        found: What the geocoding service found, the most relevant first.
        name: The name that was asked for.
        narrowing: Regions and countries, by name or country code, that the place lies in.

    Raises:
        NoWeatherError: No place fits, or several do.
    """
    if not found:
        raise NoWeatherError(f'The weather service knows no place called "{name}".')
    called = places_called(name, found)
    fitting = [place for place in called if all(lies_in(place, part) for part in narrowing)]
    if not fitting:
        raise NoWeatherError(
            f'The weather service knows no "{name}" in "{", ".join(narrowing)}". '
            f"It knows: {list_places(called)}."
        )
    by_size = sorted(fitting, key=people, reverse=True)
    if not is_clear(by_size):
        raise NoWeatherError(
            f'Several places are called "{name}": {list_places(by_size)}. '
            f"Which one is meant? Ask again with the region or the country after a comma."
        )
    return by_size[0]


def is_clear(by_size: Sequence[Place]) -> bool:
    """Whether the first of these places, the largest first, is the one that is meant."""
    if len({label(place, with_county=True) for place in by_size}) == 1:
        return True
    return people(by_size[0]) >= max(1, CLEAR_LEAD * people(by_size[1]))


def places_called(name: str, found: Sequence[Place]) -> list[Place]:
    """Keep the places of that name, the towns among them if there are any.

    Where no place has exactly that name ("NYC", "Muenchen"), the name of the most relevant
    one counts. A town and the region around it often share their name.
    """
    named = [place for place in found if plain(place.name) == plain(name)]
    named = named or [place for place in found if place.name == found[0].name]
    towns = [place for place in named if (place.feature_code or "PPL").startswith("PPL")]
    return towns or named


def lies_in(place: Place, area: str) -> bool:
    """Whether an area (a region, a country, a country's code) is one that the place lies in."""
    names = [place.admin1, place.admin2, place.country, place.country_code]
    known = {form for name in names if name for form in (plain(name), initials(name)) if form}
    asked = plain(area)
    return asked in known or COUNTRY_NICKNAMES.get(asked) in known


def plain(name: str) -> str:
    """Fold a name's case, accents and dots, so that "Sao Paulo" is "São Paulo"."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(c for c in decomposed if not unicodedata.combining(c) and c != ".")
    return " ".join(letters.replace("-", " ").split())


def initials(name: str) -> str:
    """Shorten a name as people do: "dc" for District of Columbia, "nsw" for New South Wales."""
    capitals = [word[0] for word in name.split() if word[0].isupper()]
    return "".join(capitals).casefold() if len(capitals) > 1 else ""


def people(place: Place) -> int:
    return place.population or 0


def list_places(places: Sequence[Place]) -> str:
    """List places for a choice, with their counties where the regions alone are not enough."""
    labels = [label(place) for place in places]
    with_county = len(set(labels)) < len(labels)
    labels = list(dict.fromkeys(label(place, with_county=with_county) for place in places))
    more = f" and {len(labels) - MOST_CANDIDATES} more" if len(labels) > MOST_CANDIDATES else ""
    return "; ".join(labels[:MOST_CANDIDATES]) + more


# Asking the service


def base_url(variable: str, default: str) -> str:
    """Read a service's base URL, without its path, from the environment."""
    return (os.environ.get(variable) or default).rstrip("/")


async def fetch(answer: type[AnswerT], url: str, query: dict[str, str]) -> AnswerT:
    """Get a JSON answer.

    Raises:
        NoWeatherError: The service did not answer, or with something else.
    """
    response = await get(url, query)
    if not response.is_success:
        raise NoWeatherError(f"The weather service answered with HTTP {response.status_code}.")
    try:
        return answer.model_validate_json(response.content)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "answer"
        raise NoWeatherError(
            f"The weather service's answer could not be understood ({where}: {first['msg']})."
        ) from problem


async def get(url: str, query: dict[str, str]) -> httpx.Response:
    """Send a GET request, and twice again while the service fails (5xx) or is too slow.

    Raises:
        NoWeatherError: The service cannot be reached, or failed each time.
    """
    failure = ""
    for pause in (0, *RETRY_AFTER_SECONDS):
        await asyncio.sleep(pause)
        try:
            response = await get_once(url, query)
        except (TimeoutError, httpx.TimeoutException):
            failure = "did not answer in time"
        except (httpx.ReadError, httpx.RemoteProtocolError):
            failure = "broke off the connection"
        else:
            if not response.is_server_error:
                return response
            failure = f"answered with HTTP {response.status_code}"
    raise NoWeatherError(f"The weather service {failure}, also when it was asked again.")


async def get_once(url: str, query: dict[str, str]) -> httpx.Response:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await http_client().get(url, params=query)
    except (TimeoutError, httpx.TimeoutException, httpx.ReadError, httpx.RemoteProtocolError):
        raise
    # No client can be made for a proxy of an unknown kind: ImportError, ValueError.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ImportError, ValueError) as problem:
        raise NoWeatherError(
            f"The weather service cannot be reached ({problem or type(problem).__name__})."
        ) from problem
