"""The weather, against a local Open-Meteo that misbehaves in every way."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from blockbuster import blockbuster_ctx

from tests.standins.weather_service import (
    CURRENT,
    CURRENT_UNITS,
    PLACES,
    Behaviour,
    WeatherService,
    answer,
    answer_body,
    dribble,
    drop,
    fail,
    hang,
    redirect,
)
from tools import http_client, weather
from tools.weather import CONDITIONS, NoWeatherError, Place, choose_place, get_weather, lies_in

SEARCH, FORECAST = "/v1/search", "/v1/forecast"
JAKARTA = PLACES[0]
URL_VARIABLES = ("OPEN_METEO_GEOCODING_URL", "OPEN_METEO_FORECAST_URL")
TEMPERATURE = re.compile(r"\d °C")


# As it is in the code: the tests themselves do not wait so long.
RETRY_AFTER_SECONDS = weather.RETRY_AFTER_SECONDS


@pytest.fixture(scope="module")
def running_service() -> Iterator[WeatherService]:
    with WeatherService() as running:
        yield running


@pytest.fixture(autouse=True)
def service(
    running_service: WeatherService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WeatherService]:
    running_service.reset()
    for variable in URL_VARIABLES:
        monkeypatch.setenv(variable, running_service.url)
    monkeypatch.setattr(weather, "RETRY_AFTER_SECONDS", (0.001, 0.001))
    yield running_service
    running_service.reset()


async def ask(location: str) -> str:
    return str(await get_weather.ainvoke({"location": location}))


async def ask_in_vain(location: str = "Jakarta") -> str:
    """Ask, and require an answer that is short, admits it, and makes no weather up."""
    text = await ask(location)
    assert re.search(r" The weather( in .+)? is not known\.$", text)
    assert len(text) < 900
    assert not TEMPERATURE.search(text)
    return text


async def test_the_answer_names_the_place_and_what_was_observed() -> None:
    assert await ask("Jakarta") == (
        "Jakarta, Indonesia: 29.4 °C, feels like 34.1 °C, wind 11.2 km/h, slight rain. "
        "Observed at 2026-01-07 14:15 local time (Asia/Jakarta). Source: Open-Meteo.com."
    )


async def test_what_is_not_known_is_named_if_it_is_a_name() -> None:
    assert (await ask("Atlantis")).endswith(" The weather in Atlantis is not known.")
    assert (await ask("Atlantis\x1b[31m")).endswith(" The weather is not known.")
    assert (await ask("A" * 10_000)).endswith(" The weather is not known.")


async def test_the_region_is_named(service: WeatherService) -> None:
    assert (await ask("Paris")).startswith("Paris, Île-de-France, France: ")


@pytest.mark.parametrize(("code", "words"), CONDITIONS.items())
async def test_every_condition_in_words(service: WeatherService, code: int, words: str) -> None:
    service.misbehave = current(weather_code=code)
    assert f", {words}. " in await ask("Jakarta")


async def test_a_condition_that_is_not_in_the_table_is_told_as_its_number(
    service: WeatherService,
) -> None:
    service.misbehave = current(weather_code=42)
    assert ", WMO weather code 42. " in await ask("Jakarta")


@pytest.mark.parametrize("slash", ["", "/"])
async def test_base_urls_are_read_on_each_call(
    service: WeatherService, monkeypatch: pytest.MonkeyPatch, slash: str
) -> None:
    for variable in URL_VARIABLES:
        monkeypatch.setenv(variable, service.url + slash)
    assert "29.4 °C" in await ask("Jakarta")
    assert [request.path for request in service.requests] == [SEARCH, FORECAST]
    for variable in URL_VARIABLES:
        monkeypatch.setenv(variable, f"{service.url}/elsewhere{slash}")
    assert "HTTP 404" in await ask_in_vain()
    assert service.requests[-1].path == f"/elsewhere{SEARCH}"


# Which place is meant


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("paris", "Paris, Île-de-France, France"),
        ("Paris, Texas", "Paris, Texas, United States"),
        ("Paris,TEXAS , usa", "Paris, Texas, United States"),
        ("London", "London, England, United Kingdom"),
        ("London, UK", "London, England, United Kingdom"),
        ("London, Canada", "London, Ontario, Canada"),
        ("London, CA", "London, Ontario, Canada"),
        ("Tokyo", "Tokyo, Japan"),
        ("Washington, D.C.", "Washington, District of Columbia, United States"),
        ("São Paulo, brazil", "São Paulo, Brazil"),
        ("Springfield, Illinois", "Springfield, Illinois, United States"),
        ("Springfield, Illinois, United States", "Springfield, Illinois, United States"),
        ("Springfield, Dane, Wisconsin", "Springfield, Wisconsin, United States"),
    ],
)
async def test_the_place_that_is_meant(location: str, place: str) -> None:
    assert (await ask(location)).startswith(f"{place}: 29.4 °C")


async def test_several_places_of_a_name_are_listed_for_a_choice() -> None:
    """Case 53."""
    text = await ask_in_vain("Springfield")
    for state in ("Missouri", "Massachusetts", "Illinois", "Oregon", "Ohio"):
        assert state in text
    assert "Which one is meant?" in text


async def test_a_listed_choice_can_be_asked_for() -> None:
    listed = (await ask_in_vain("Springfield")).split(": ")[1].split(". ")[0].split("; ")
    for choice in listed:
        assert "29.4 °C" in await ask(choice)


async def test_the_county_is_listed_where_the_region_is_not_enough() -> None:
    text = await ask_in_vain("Springfield, Wisconsin")
    assert "Springfield, Dane, Wisconsin" in text
    assert "Springfield, Walworth, Wisconsin" in text


async def test_a_region_without_that_place_lists_where_it_is() -> None:
    text = await ask_in_vain("Paris, Germany")
    assert 'no "Paris" in "Germany"' in text
    assert "Paris, Texas, United States" in text


@pytest.mark.parametrize("population", [None, 0, 40_000])
def test_no_choice_without_a_clear_lead(population: int | None) -> None:
    twins = [
        Place(name="Twin", latitude=1, longitude=n, country=c, population=population)
        for n, c in enumerate(("Chile", "Chad"))
    ]
    with pytest.raises(NoWeatherError, match="Several places"):
        choose_place(twins, "Twin", [])


@pytest.mark.parametrize(("lead", "clear"), [(4.9, False), (5, True)])
def test_how_large_a_lead_is_clear(lead: float, clear: bool) -> None:
    sizes = {"Chad": 1000, "Chile": int(1000 * lead)}
    places = [
        Place(name="Twin", latitude=1, longitude=1, country=country, population=size)
        for country, size in sizes.items()
    ]
    if clear:
        assert choose_place(places, "Twin", []).country == "Chile"
    else:
        with pytest.raises(NoWeatherError):
            choose_place(places, "Twin", [])


def test_a_name_in_another_language_takes_the_most_relevant_place() -> None:
    munich = Place(name="Munich", latitude=48, longitude=11, country="Germany", population=1260391)
    other = Place(name="Munchen", latitude=50, longitude=8, country="Nowhere")
    assert choose_place([munich, other], "Muenchen", ["Germany"]) is munich


@pytest.mark.parametrize(
    ("area", "inside"),
    [
        *(
            (area, True)
            for area in ("New South Wales", "NSW", "new-south wales", "AU", "australia")
        ),
        *((area, False) for area in ("N", "A", "", "Wales", "New", "USA")),
    ],
)
def test_what_a_place_lies_in(area: str, inside: bool) -> None:
    sydney = Place(
        name="Sydney",
        latitude=-33.9,
        longitude=151.2,
        admin1="New South Wales",
        country="Australia",
        country_code="AU",
    )
    assert lies_in(sydney, area) is inside


# What is no place


@pytest.mark.parametrize(
    "location",
    [
        "Atlantis",
        "a/b?c#d",
        "x&count=1&name=Jakarta",
        "../../etc/passwd",
        "東京都庁",
        "%00",
        "J",
        "💥",
    ],
)
async def test_an_unknown_place_is_said_to_be_unknown(
    service: WeatherService, location: str
) -> None:
    """Case 53."""
    assert f'no place called "{location}"' in await ask_in_vain(location)
    assert service.requests[0].path == SEARCH
    assert service.requests[0].query["name"] == location


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("", "No location was given"),
        (" \t ", "control characters"),
        ("  ", "No location was given"),
        (" ,, ,", "No location was given"),
        ("Jak\x00arta", "control characters"),
        ("Jak\narta", "control characters"),
        ("\ud800", "control characters"),
        ("Jakarta\u2028", "control characters"),
        ("x" * 10_000, "10000 characters long"),
        ("," * 10_000, "10000 characters long"),
    ],
)
async def test_what_cannot_be_a_place_is_not_asked_for(
    service: WeatherService, location: str, why: str
) -> None:
    assert why in await ask_in_vain(location)
    assert not service.requests


# What can go wrong on the way


def current(**changes: Any) -> Behaviour:
    """A forecast with other values; a value of `...` is left out."""
    return forecast(current=leave_out(CURRENT | changes))


def forecast(**changes: Any) -> Behaviour:
    usual = {"current": CURRENT, "current_units": CURRENT_UNITS, "timezone": "Asia/Jakarta"}
    return answer(leave_out(usual | changes), FORECAST)


def units(**changes: Any) -> Behaviour:
    return forecast(current_units=leave_out(CURRENT_UNITS | changes))


def leave_out(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not ...}


def geocoded(**changes: Any) -> Behaviour:
    return answer({"results": [leave_out(JAKARTA | changes)]}, SEARCH)


NO_UNDERSTANDING = "could not be understood"
NO_TIMES = (
    *("yesterday", "", "2026-13-07T14:15", "2026-02-30T14:15", "2026-01-07T24:15"),
    *("2026-01-07T14:15Z", "2026-01-07T14:15+07:00", "2026-01-07", "1767770100", 1767770100),
)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (fail(400), "HTTP 400"),
        (fail(404), "HTTP 404"),
        (fail(429), "HTTP 429"),
        (fail(500), "HTTP 500"),
        (fail(503), "HTTP 503"),
        (drop(), "broke off the connection"),
        (redirect("http://127.0.0.1:1/"), "HTTP 302"),
        (answer({}, SEARCH), "no place called"),
        (answer({"results": []}, SEARCH), "no place called"),
        (answer({"results": None}, SEARCH), NO_UNDERSTANDING),
        (answer({"results": "Jakarta"}, SEARCH), NO_UNDERSTANDING),
        (answer({"results": {"0": JAKARTA}}, SEARCH), NO_UNDERSTANDING),
        (answer({"results": [None]}, SEARCH), NO_UNDERSTANDING),
        (answer({"results": [[]]}, SEARCH), NO_UNDERSTANDING),
        (answer([JAKARTA], SEARCH), NO_UNDERSTANDING),
        (answer(None, SEARCH), NO_UNDERSTANDING),
        (geocoded(name=...), NO_UNDERSTANDING),
        (geocoded(latitude=...), NO_UNDERSTANDING),
        (geocoded(latitude="-6.2"), NO_UNDERSTANDING),
        (geocoded(longitude=None), NO_UNDERSTANDING),
        (geocoded(longitude=1000), NO_UNDERSTANDING),
        (geocoded(population="many"), NO_UNDERSTANDING),
        (answer_body(b"<html>", SEARCH, "text/html"), NO_UNDERSTANDING),
        (answer_body(b"", SEARCH), NO_UNDERSTANDING),
        (answer_body(b"\xff\xfe{}", SEARCH), NO_UNDERSTANDING),
        (answer_body(b"[" * 100_000, SEARCH), NO_UNDERSTANDING),
        (answer({}, FORECAST), NO_UNDERSTANDING),
        (forecast(current=None), NO_UNDERSTANDING),
        (forecast(current=[CURRENT]), NO_UNDERSTANDING),
        (forecast(timezone=...), NO_UNDERSTANDING),
        (forecast(timezone=""), NO_UNDERSTANDING),
        (forecast(timezone=" \x00"), NO_UNDERSTANDING),
        (forecast(current_units=...), NO_UNDERSTANDING),
        (units(temperature_2m="°F"), NO_UNDERSTANDING),
        (units(apparent_temperature="°F"), NO_UNDERSTANDING),
        (units(wind_speed_10m="mp/h"), NO_UNDERSTANDING),
        (units(wind_speed_10m=...), NO_UNDERSTANDING),
        (answer_body(b"soon", FORECAST), NO_UNDERSTANDING),
        (answer_body(b'{"current": {"temperature_2m": NaN}}', FORECAST), NO_UNDERSTANDING),
        *((current(**{field: ...}), NO_UNDERSTANDING) for field in CURRENT if field != "interval"),
        *((current(**{field: None}), NO_UNDERSTANDING) for field in CURRENT if field != "interval"),
        *((current(**{field: "12"}), NO_UNDERSTANDING) for field in CURRENT if field != "interval"),
        *((current(**{field: True}), NO_UNDERSTANDING) for field in CURRENT if field != "interval"),
        (current(temperature_2m=9999), NO_UNDERSTANDING),
        (current(wind_speed_10m=-1), NO_UNDERSTANDING),
        (current(weather_code=61.5), NO_UNDERSTANDING),
        *((current(time=time), NO_UNDERSTANDING) for time in NO_TIMES),
        (geocoded(name="\x1b\u202e"), NO_UNDERSTANDING),
    ],
)
async def test_a_service_that_misbehaves(
    service: WeatherService, behaviour: Behaviour, why: str
) -> None:
    """Case 53."""
    service.misbehave = behaviour
    assert why in await ask_in_vain()


@pytest.mark.parametrize("field", ["name", "country", "admin1"])
async def test_no_control_character_of_the_service_reaches_the_answer(
    service: WeatherService, field: str
) -> None:
    service.misbehave = geocoded(**{field: "Ja\x1b[31m\nkar\u202eta\u2028\x9b"})
    text = await ask("Jakarta")
    assert "Ja [31m kar ta" in text
    assert text.isprintable()


async def test_no_control_character_reaches_a_choice(service: WeatherService) -> None:
    twins = [{**JAKARTA, "population": 1, "country": f"\x1b[{n}m\n"} for n in range(2)]
    service.misbehave = answer({"results": twins}, SEARCH)
    text = await ask_in_vain()
    assert "Several places" in text
    assert text.isprintable()


async def test_no_control_character_of_the_zone(service: WeatherService) -> None:
    service.misbehave = forecast(timezone="Asia/\x1bJakarta\r")
    assert "(Asia/ Jakarta)" in await ask("Jakarta")


@pytest.mark.parametrize("missing", ["country", "admin1", "admin2", "population", "feature_code"])
async def test_what_the_service_often_leaves_out_is_not_needed(
    service: WeatherService, missing: str
) -> None:
    service.misbehave = geocoded(**{missing: ...})
    assert "29.4 °C" in await ask("Jakarta")


@pytest.mark.parametrize("behaviour", [fail(500, times=2), fail(503, times=1), drop(times=2)])
async def test_a_short_failure_is_overcome(service: WeatherService, behaviour: Behaviour) -> None:
    service.misbehave = behaviour
    assert "29.4 °C" in await ask("Jakarta")


@pytest.mark.parametrize(("status", "asked"), [(500, 3), (400, 1), (429, 1)])
async def test_how_often_it_is_asked(service: WeatherService, status: int, asked: int) -> None:
    service.misbehave = fail(status)
    await ask_in_vain()
    assert len(service.requests) == asked


@pytest.mark.parametrize("behaviour", [hang(), dribble()])
async def test_a_service_that_is_too_slow(
    service: WeatherService, monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour
) -> None:
    monkeypatch.setattr(weather, "REQUEST_SECONDS", 0.1)
    service.misbehave = behaviour
    async with asyncio.timeout(5):
        assert "did not answer in time" in await ask_in_vain()
    assert len(service.requests) == 3


def test_a_request_has_ten_seconds_and_two_retries() -> None:
    assert weather.REQUEST_SECONDS == 10
    assert http_client.HTTP_TIMEOUT.read == 10
    assert len(RETRY_AFTER_SECONDS) == 2


async def test_the_units_are_asked_for(service: WeatherService) -> None:
    await ask("Jakarta")
    asked = service.requests[-1].query
    assert (asked["temperature_unit"], asked["wind_speed_unit"]) == ("celsius", "kmh")


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "clear sky"), (45, "fog"), (56, "light freezing drizzle"), (66, "light freezing rain"),
     (67, "heavy freezing rain"), (75, "heavy snow fall"), (82, "violent rain showers"),
     (95, "thunderstorm"), (99, "thunderstorm with heavy hail")],
)  # fmt: skip
def test_the_words_for_wmo_codes(code: int, words: str) -> None:
    assert weather.CONDITIONS[code] == words


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:UNUSED",
        "https://127.0.0.1:PORT",
        "ftp://127.0.0.1",
        "no url",
        "http://127.0.0.1:notaport",
        "http://\x7f",
        "http://",
        "/",
    ],
)
@pytest.mark.parametrize("variable", URL_VARIABLES)
async def test_a_service_that_cannot_be_reached(
    service: WeatherService, monkeypatch: pytest.MonkeyPatch, variable: str, url: str
) -> None:
    url = url.replace("UNUSED", str(unused_port())).replace("PORT", service.url.rpartition(":")[2])
    monkeypatch.setenv(variable, url)
    assert "cannot be reached" in await ask_in_vain()


async def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lookup(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
    for variable in URL_VARIABLES:
        monkeypatch.delenv(variable)
    assert "Temporary failure in name resolution" in await ask_in_vain()


@pytest.mark.parametrize(
    ("proxy", "why"),
    [
        ("socks5://user:s3cret@127.0.0.1:1", "socksio"),
        ("gopher://user:s3cret@127.0.0.1:1", "scheme"),
        ("http://user:s3cret@127.0.0.1:port", "port"),
    ],
)
async def test_a_proxy_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, proxy: str, why: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    text = await ask_in_vain()
    assert "cannot be reached" in text
    assert why in text
    assert "s3cret" not in text


async def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    http_client.ssl_context.cache_clear()
    assert "cannot be reached" in await ask_in_vain()


async def test_many_at_once(service: WeatherService) -> None:
    texts = await asyncio.gather(*(ask(city) for city in ["Jakarta", "Paris", "Tokyo"] * 20))
    assert all("29.4 °C" in text for text in texts)


async def test_the_loop_is_not_blocked() -> None:
    """Case 57."""
    with blockbuster_ctx():
        assert "29.4 °C" in await ask("Jakarta")


async def test_the_request_is_what_the_service_documents(service: WeatherService) -> None:
    await ask("Jakarta")
    search, forecast = service.requests
    assert search.query == {"name": "Jakarta", "count": "100", "language": "en", "format": "json"}
    assert forecast.query["timezone"] == "auto"
    assert forecast.query["latitude"] == str(JAKARTA["latitude"])


def test_the_model_is_told_what_to_give() -> None:
    assert get_weather.args["location"]["type"] == "string"
    assert "Springfield, Illinois" in get_weather.args["location"]["description"]


def test_the_stand_in_refuses_what_the_service_refuses(service: WeatherService) -> None:
    for path in (f"{FORECAST}?latitude=95&longitude=0", f"{FORECAST}?latitude=x&longitude=0"):
        refused = httpx.get(service.url + path + "&current=weather_code")
        assert refused.status_code == 400
        assert json.loads(refused.content)["error"] is True
