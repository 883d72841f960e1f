"""One HTTP client for each event loop, so that connections are used again."""

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import httpx

T = TypeVar("T")

HTTP_TIMEOUT = httpx.Timeout(10, connect=5)


def per_event_loop(
    make: Callable[[], T], close: Callable[[T], Awaitable[None]] | None = None
) -> Callable[[], T]:
    """Share one object among all who ask on the same event loop.

    A server may run graphs on several event loops, and a connection that was opened on
    one of them fails on another: "bound to a different event loop".

    Args:
        make: Makes the object. Called once for each event loop, while the loop runs.
        close: Awaited with the object when its event loop shuts down.

    Returns:
        A function that returns the running event loop's object. It raises `RuntimeError`
        where no event loop runs.
    """
    # A weak dictionary would keep its entries: an open connection refers to its loop.
    keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[T]] = {}
    objects: dict[asyncio.AbstractEventLoop, T] = {}

    def forget(loop: asyncio.AbstractEventLoop) -> None:
        objects.pop(loop, None)
        keepers.pop(loop, None)

    async def keep(loop: asyncio.AbstractEventLoop, kept: T) -> AsyncGenerator[T]:
        try:
            yield kept
        finally:
            forget(loop)
            if close:
                await close(kept)

    def get() -> T:
        loop = asyncio.get_running_loop()
        if loop not in objects:
            for closed in [other for other in list(objects) if other.is_closed()]:
                forget(closed)
            objects[loop] = make()
            keepers[loop] = keep(loop, objects[loop])
            _start(keepers[loop])
        return objects[loop]

    return get


def _start(keeper: AsyncGenerator[T]) -> None:
    """Run a generator to its `yield`: the loop ends what has begun when it shuts down."""
    try:
        keeper.__anext__().__await__().send(None)
    except StopIteration:
        return


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """Read the trusted certificates once: it takes longer than a request.

    They are certifi's, or those that SSL_CERT_FILE or SSL_CERT_DIR names.
    """
    return httpx.create_ssl_context()


def make_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=HTTP_TIMEOUT, verify=ssl_context())


http_client = per_event_loop(make_client, httpx.AsyncClient.aclose)
"""Returns the running event loop's `httpx.AsyncClient`, which is not to be closed."""
