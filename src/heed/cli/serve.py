"""`heed serve`: a page, and an interface for programs, to trained runs on one machine."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
import time
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heed.errors import ConfigError
from heed.storage.files import read_text

if TYPE_CHECKING:
    import uvicorn

    from heed.serve.app import Guard

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this machine reaches."""
_BACKLOG = 32
"""Connections that wait to be accepted, and tries of asyncio to accept some at a time."""
_SHORTEST = 20
"""Fewest characters of a token."""


@dataclass(frozen=True)
class Place:
    """Where and how a server listens."""

    host: str
    port: int
    names: tuple[str, ...] = ()  # further names, with their ports, by which it may be called
    token_file: Path | None = None
    open_it: bool = False
    minutes: float | None = None  # without a request, after which it ends


def run_serve(names: list[str], place: Place, force: bool, device: str = "auto") -> None:
    """Serve runs until Ctrl-C, or until nobody has asked for some minutes."""
    try:
        import uvicorn

        from heed.serve.app import Connection, Server
    except ImportError as error:
        raise ConfigError(f"heed serve needs {error.name}; install it with: pip install -e '.[serve]'") from None
    from heed.serve.served import open_runs

    Connection.most = _most_connections()
    token = _token(place)
    runs = open_runs(names or [newest_or_example()], force, device)
    listening = _listen(place)
    host, port = listening.getsockname()[:2]
    here = f"[{host}]" if ":" in host else host
    own = [f"{name}:{port}" for name in dict.fromkeys(("127.0.0.1", "localhost", here, place.host))]
    guard = Server(runs).app([name.lower() for name in (*own, *place.names)], token)
    serving = uvicorn.Server(
        uvicorn.Config(
            guard,
            http=Connection,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=0,
            ws="none",
            backlog=_BACKLOG,
        )
    )
    link = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else here}:{port}/"
    secret = "" if place.token_file else f"#{token}"
    print(f"{', '.join(one.name for one in runs)}: {link}{secret}\nCtrl-C ends it.", flush=True)
    if place.open_it:
        webbrowser.open(f"{link}#{token}")
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # a client that goes away is no reason for a warning
    logging.getLogger("asyncio").addFilter(_OnceASecond())  # without descriptors, each try to accept is an error
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(serving, guard, listening, place.minutes))


def _most_connections() -> int:
    """Connections at once that leave the server enough descriptors for files."""
    try:
        import resource
    except ImportError:  # Windows
        return 200
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1_000 if limit == resource.RLIM_INFINITY else max(1, min(1_000, limit // 2 - _BACKLOG))


class _OnceASecond(logging.Filter):
    """Lets one record a second pass."""

    _passed = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        if passes := time.monotonic() - self._passed >= 1:
            self._passed = time.monotonic()
        return passes


async def _serve(serving: uvicorn.Server, guard: Guard, listening: socket.socket, minutes: float | None) -> None:
    async def end_when_idle() -> None:
        while minutes is not None and (guard.open or time.monotonic() - guard.last < 60 * minutes):
            await asyncio.sleep(0.2)
        if minutes is not None:
            serving.should_exit = True

    idle = asyncio.create_task(end_when_idle())
    try:
        await serving.serve([listening])
    finally:
        idle.cancel()


def _token(place: Place) -> str:
    """The token that requests must have: that of a file, or a new one.

    Raises:
        ConfigError: The file has none; or other machines may ask, and there is no file.
    """
    if place.token_file is None:
        if place.host not in LOCAL:
            raise ConfigError(
                f"--host {place.host} lets other machines ask: give --token-file FILE, with a token of at least "
                f"{_SHORTEST} characters that only those who may ask can read (openssl rand -hex 32 > FILE makes one)"
            )
        return secrets.token_urlsafe(24)
    token = read_text(place.token_file).strip()
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"'{place.token_file}' must have one token of at least {_SHORTEST} letters, digits or signs, without spaces"
        )
    return token


def _listen(place: Place) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)  # without the protocol, asyncio leaves Nagle's 40 ms on
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)  # who asks before the server runs waits a moment
    except OSError as error:
        raise ConfigError(f"--host {place.host} --port {place.port}: {error.strerror or error}") from None
    return made
