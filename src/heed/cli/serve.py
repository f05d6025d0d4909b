"""`heed serve`: a page, and an interface for programs, to trained runs on one machine."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

from heed.cli.options import ServeOptions
from heed.errors import ConfigError
from heed.folder import newest_or_example
from heed.storage.files import read_text

if TYPE_CHECKING:
    import uvicorn

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this machine reaches."""
_BACKLOG = 32
"""Connections that wait to be accepted, and tries of asyncio to accept some at a time."""
_CONNECTIONS = 200
"""Connections at once; those beyond are told that the server is busy."""
_SHORTEST = 20
"""Fewest characters of a token."""


def run_serve(names: list[str], options: ServeOptions) -> None:
    """Serve runs until Ctrl-C, or until nobody has asked for some minutes."""
    try:
        import uvicorn

        from heed.serve.app import Server
    except ImportError as error:
        raise ConfigError(f"heed serve needs {error.name}; install it with: pip install -e '.[serve]'") from None
    from heed.exchange import has_export
    from heed.serve.served import open_runs

    token = _token(options)
    runs = open_runs(names or [newest_or_example()], options.force, options.device)
    listening = _listen(options)
    host, port = listening.getsockname()[:2]
    address = f"[{host}]" if ":" in host else host
    local = [f"{name}:{port}" for name in dict.fromkeys(("127.0.0.1", "localhost", address, options.host))]
    guard = Server(runs).app([name.lower() for name in (*local, *(options.names or ()))], token)
    serving = uvicorn.Server(
        uvicorn.Config(
            guard,
            http="h11",
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=0,
            ws="none",
            backlog=_BACKLOG,
            limit_concurrency=_CONNECTIONS,
        )
    )
    link = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else address}:{port}/"
    secret = "" if options.token_file else f"#{token}"
    print(f"{', '.join(run.name for run in runs)}: {link}{secret}", flush=True)
    if exported := [run.name for run in runs if has_export(run.path)]:
        print(f"from their CTranslate2 exports, where these write the same: {', '.join(exported)}")
    print("Ctrl-C ends it.", flush=True)
    if options.open_it:
        webbrowser.open(f"{link}#{token}")
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # a client that goes away is no reason for a warning
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(serving, listening, options.minutes))


async def _serve(serving: uvicorn.Server, listening: socket.socket, minutes: float | None) -> None:
    async def end_when_idle() -> None:
        state, asked, last = serving.server_state, 0, time.monotonic()
        while minutes is not None and time.monotonic() - last < 60 * minutes:
            await asyncio.sleep(0.2)
            if state.tasks or state.total_requests != asked:
                asked, last = state.total_requests, time.monotonic()
        if minutes is not None:
            serving.should_exit = True

    idle = asyncio.create_task(end_when_idle())
    try:
        await serving.serve([listening])
    finally:
        idle.cancel()


def _token(options: ServeOptions) -> str:
    """The token that requests must have: that of a file, or a new one.

    Raises:
        ConfigError: The file has none; or other machines may ask, and there is no file.
    """
    if options.token_file is None:
        if options.host not in LOCAL:
            raise ConfigError(
                f"--host {options.host} lets other machines ask: give --token-file FILE, with a token of at least "
                f"{_SHORTEST} characters that only those who may ask can read (openssl rand -hex 32 > FILE makes one)"
            )
        return secrets.token_urlsafe(24)
    token = read_text(options.token_file).strip()
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"'{options.token_file}' must have one token of at least {_SHORTEST} letters, digits or signs"
        )
    return token


def _listen(options: ServeOptions) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)  # without the protocol, asyncio leaves Nagle's 40 ms on
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)  # clients that connect before the server runs wait a moment
    except OSError as error:
        raise ConfigError(f"--host {options.host} --port {options.port}: {error.strerror or error}") from None
    return listening
