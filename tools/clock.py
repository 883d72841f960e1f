"""The current time in a time zone, without any network."""

import asyncio
import difflib
import functools
import zoneinfo
from collections.abc import Mapping
from datetime import datetime

from langchain_core.tools import tool

LONGEST_NAME = 100
MOST_SUGGESTIONS = 5
NO_ZONES = {"Factory", "localtime"}


@tool(parse_docstring=True)
async def get_current_time(timezone: str) -> str:
    """Get the current date and time in a time zone.

    Returns the date, the weekday, the time and the UTC offset; for a name that is no time
    zone, the names closest to it.

    Args:
        timezone: An IANA time zone name, such as "Asia/Jakarta", "Europe/Paris" or "UTC".
    """
    # In a thread, since time zones are read from files.
    return await asyncio.to_thread(time_in, timezone)


def time_in(timezone: str) -> str:
    """Say what time it is.

    Args:
        timezone: The name of an IANA time zone, in upper or lower case. A city alone, such
            as "Jakarta", is taken where just one zone is named after it.

    Returns:
        One line of text. The zones are those of the `zoneinfo` module: the system's time
        zone data, or the `tzdata` package's where there are none.
    """
    name = timezone.strip()
    if not name:
        return 'No time zone was given. Name one, such as "Asia/Jakarta" or "UTC".'
    if len(name) > LONGEST_NAME or not name.isprintable():
        return 'This is not the name of a time zone. Name one, such as "Asia/Jakarta" or "UTC".'
    zone = find_zone(name)
    if zone is None:
        return unknown_zone(name)
    return format_time(datetime.now(zoneinfo.ZoneInfo(zone)), zone)


def format_time(moment: datetime, zone: str) -> str:
    """Write a moment as "Wednesday, 2026-01-07, 14:05:09 (UTC+07:00, Asia/Jakarta)"."""
    return f"{moment:%A, %Y-%m-%d, %H:%M:%S} (UTC{moment.isoformat()[-6:]}, {zone})"


def find_zone(name: str) -> str | None:
    """Find the one zone that has this name, or whose city has this name."""
    key = _key(name)
    if zone := zones_by_name().get(key):
        return zone
    of_city = zones_of_city(key)
    return of_city[0] if len(of_city) == 1 else None


def zones_of_city(key: str) -> list[str]:
    """List the zones whose last part is `key`.

    The zones under `Etc/` have no city: Etc/GMT+7 is seven hours *behind* UTC, and who asks
    for "GMT+7" means the opposite.
    """
    return [
        zone
        for known, zone in zones_by_name().items()
        if _city(known) == key and not known.startswith("etc/")
    ]


def unknown_zone(name: str) -> str:
    """Say that there is no such zone, and which ones come closest to it."""
    key = _key(name)
    by_name = zones_by_name()
    cities = {_city(known): zone for known, zone in by_name.items()}
    alike = zones_of_city(key)
    alike += [by_name[known] for known in difflib.get_close_matches(key, by_name)]
    alike += [cities[city] for city in difflib.get_close_matches(_city(key), cities)]
    closest = ", ".join(list(dict.fromkeys(alike))[:MOST_SUGGESTIONS])
    if not closest:
        return f'There is no time zone "{name}", and no name comes close to it.'
    return f'There is no time zone "{name}". The names closest to it are: {closest}.'


@functools.cache
def zones_by_name() -> Mapping[str, str]:
    """Read the names of all time zones, each under its lower-case name."""
    names = zoneinfo.available_timezones() - NO_ZONES
    return {_key(name): name for name in sorted(names)}


def _key(name: str) -> str:
    return name.casefold().replace(" ", "_")


def _city(key: str) -> str:
    return key.rpartition("/")[2]
