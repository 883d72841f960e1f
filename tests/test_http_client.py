"""One client a loop, none left behind."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from blockbuster import blockbuster_ctx

from tests.standins.weather_service import WeatherService
from tools.http_client import http_client, per_event_loop

OPEN_FILES = Path("/proc/self/fd")


@pytest.fixture(scope="module")
def service() -> Iterator[WeatherService]:
    with WeatherService() as running:
        yield running


async def request(service: WeatherService) -> httpx.Response:
    return await http_client().get(f"{service.url}/v1/search", params={"name": "Jakarta"})


def count_open_sockets() -> int:
    links = [OPEN_FILES / name for name in os.listdir(OPEN_FILES)]
    return sum(1 for link in links if link.is_symlink() and "socket" in os.readlink(link))


async def test_all_on_one_loop_share_a_client_and_its_connection(service: WeatherService) -> None:
    assert http_client() is http_client()
    for _ in range(3):
        assert (await request(service)).status_code == 200
    ports = {
        (await request(service)).extensions["network_stream"].get_extra_info("client_addr")
        for _ in range(3)
    }
    assert len(ports) == 1


def test_each_loop_has_a_client_of_its_own() -> None:
    async def client() -> httpx.AsyncClient:
        return http_client()

    first, second = asyncio.run(client()), asyncio.run(client())
    assert first is not second


def test_a_client_is_closed_with_its_loop() -> None:
    async def client() -> httpx.AsyncClient:
        return http_client()

    assert asyncio.run(client()).is_closed


def test_without_a_loop_there_is_no_client() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        http_client()


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are counted in /proc")
def test_many_short_lived_loops_leave_no_socket_open(service: WeatherService) -> None:
    asyncio.run(request(service))
    before = count_open_sockets()
    for _ in range(100):
        assert asyncio.run(request(service)).status_code == 200
    # The stand-in's own end of a connection closes a moment later, in another thread.
    assert count_open_sockets() - before < 10


def test_a_loop_that_was_closed_without_farewell_is_forgotten() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    get = per_event_loop(make)

    async def ask() -> object:
        return get()

    for count in range(1, 4):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask()) is made[-1]
        loop.close()
        assert len(made) == count
    assert asyncio.run(ask()) is made[-1]
    closure = [cell.cell_contents for cell in get.__closure__ or ()]
    assert all(len(kept) == 0 for kept in closure if isinstance(kept, dict))


async def test_making_a_client_and_asking_does_not_block_the_loop(service: WeatherService) -> None:
    """Case 57."""
    with blockbuster_ctx():
        assert (await request(service)).status_code == 200
