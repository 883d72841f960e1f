"""The clock's answers."""

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from blockbuster import blockbuster_ctx

from tools.clock import find_zone, format_time, get_current_time, time_in, zones_by_name

ANSWER = re.compile(r"^[A-Z][a-z]+day, (\S+), (\S+) \(UTC([+-]\d\d:\d\d), (\S+)\)$")


async def ask(timezone: str) -> str:
    return str(await get_current_time.ainvoke({"timezone": timezone}))


async def test_it_tells_the_current_time() -> None:
    found = ANSWER.match(await ask("Asia/Jakarta"))
    assert found
    date, time, offset, zone = found.groups()
    assert (offset, zone) == ("+07:00", "Asia/Jakarta")
    told = datetime.fromisoformat(f"{date}T{time}{offset}")
    assert abs(datetime.now(ZoneInfo("UTC")) - told) < timedelta(seconds=30)


def test_date_weekday_time_offset_and_zone() -> None:
    moment = datetime(2026, 1, 7, 14, 5, 9, tzinfo=ZoneInfo("America/St_Johns"))
    assert format_time(moment, "America/St_Johns") == (
        "Wednesday, 2026-01-07, 14:05:09 (UTC-03:30, America/St_Johns)"
    )


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Asia/Jakarta", "Asia/Jakarta"),
        ("asia/jakarta", "Asia/Jakarta"),
        ("AMERICA/ARGENTINA/BUENOS_AIRES", "America/Argentina/Buenos_Aires"),
        ("jakarta", "Asia/Jakarta"),
        ("New York", "America/New_York"),
        ("utc", "UTC"),
        ("Etc/GMT+7", "Etc/GMT+7"),
        # Etc/GMT+7 is behind UTC; who says "GMT+7" means a zone ahead of it.
        ("GMT+7", None),
        # America/Louisville and America/Kentucky/Louisville.
        ("Louisville", None),
        ("Factory", None),
    ],
)
def test_which_zone_a_name_means(name: str, zone: str | None) -> None:
    assert find_zone(name) == zone


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("Asia/Jakrta", "Asia/Jakarta"),
        ("Europe/Pariss", "Europe/Paris"),
        ("Indonesia/Jakarta", "Asia/Jakarta"),
        ("Toky", "Asia/Tokyo"),
        ("Louisville", "America/Kentucky/Louisville"),
    ],
)
async def test_an_unknown_zone_gives_the_closest_names(name: str, closest: str) -> None:
    text = await ask(name)
    assert text.startswith(f'There is no time zone "{name}".')
    assert closest in text


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "../../etc/passwd",
        "/etc/passwd",
        "/usr/share/zoneinfo/Asia/Jakarta",
        "Asia/../Asia/Jakarta",
        "Asia",
        "Asia/",
        "x" * 10_000,
        "Asia/Jakarta\n",
        "Asia/\nJakarta",
        "\x00",
        "\ud800",
        "日本",
        ".",
    ],
)
async def test_what_is_no_zone_is_answered_with_a_short_text(name: str) -> None:
    text = await ask(name)
    assert len(text) < 400
    if name.strip() != "Asia/Jakarta":
        assert not ANSWER.match(text)


def test_every_zone_can_be_told() -> None:
    assert len(zones_by_name()) > 400
    for zone in zones_by_name().values():
        assert ANSWER.match(time_in(zone)), zone


async def test_reading_zones_does_not_block_the_loop() -> None:
    """Case 57."""
    zones_by_name.cache_clear()
    ZoneInfo.clear_cache()
    with blockbuster_ctx():
        assert ANSWER.match(await ask("Pacific/Chatham"))
        assert "Asia/Jakarta" in await ask("Jakata")


def test_the_model_is_told_what_to_give() -> None:
    described = get_current_time.args["timezone"]
    assert described["type"] == "string"
    assert "IANA" in described["description"]
