"""The server: access control, limits, routes, and the thread that owns the models.

Every request except those for the page itself and for its health needs the token in a header, so that neither another
page in the browser nor another user of the machine can ask. Host and Origin are compared exactly, against DNS
rebinding. No request names a path: runs are numbers.

Models are used by one thread, because only one pass can be traced at a time, and because concurrent passes only
compete for cores. A call that no client waits for any longer is stopped at the next module of the network.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import mimetypes
import re
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from torch import nn

from heed.errors import DataError, HeedError
from heed.serve import requests
from heed.serve.served import Served
from heed.show.page import page
from heed.tasks import spec_of
from heed.tasks.base.curves import curves_of
from heed.visible import clean

BODY = 64 * 2**10
"""Maximum number of bytes of a body without pictures."""
SECONDS = 10.0
"""Time limit for an answer, and for a complete body."""
WAITING = 32
"""Maximum number of calls that wait."""
Answer = Callable[[Any], Response]
"""From the checked body of a request to its answer."""
_CLOSE = {"Connection": "close"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every answer; the policy has the hash of the page's script."""


def _failure(status: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)


class Guard:
    """Refuses requests that are not allowed, and adds the headers that every answer has."""

    def __init__(self, app: Any, hosts: Sequence[str], token: str, script: str) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), f"Bearer {token}".encode()
        self.origins = {f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")}
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._headers = {name: value.format(digest) for name, value in _HEADERS.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        with suppress(Exception):  # Starlette raises it again, after `_failed` has answered
            await (self._refusal(scope) or self.app)(scope, receive, guarded)

    def _refusal(self, scope: Any) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # two lengths: one may hide a request
            return _failure(400, "Content-Length and Transfer-Encoding exclude each other", _CLOSE)
        hosts, origins = ([value.lower() for value in headers.getlist(name)] for name in ("host", "origin"))
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _failure(403, "this server is not called by that name (header Host)")
        if not self.origins.issuperset(origins):
            return _failure(403, "a page of another server may not ask (header Origin)")
        token = headers.get("authorization", "").encode("latin-1")
        if scope["path"] in ("/", "/v1/health") or hmac.compare_digest(token, self.token):
            return None
        reason = "the token is missing or wrong (header Authorization: Bearer TOKEN)"
        return _failure(401, reason, {"WWW-Authenticate": "Bearer"})


class Worker:
    """The thread and its queue, a context manager; methods are called from the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "heed models")
        self._calls = 0  # the running one, and those that wait
        self._of_thread = threading.local()  # `cancelled`: the event of the running call, in the worker's thread
        self._current = threading.Event()  # the same, for other threads

    async def __aenter__(self) -> None:
        self._hook = nn.modules.module.register_module_forward_pre_hook(self._stop_cancelled)

    async def __aexit__(self, *error: object) -> None:
        self._current.set()
        self._pool.shutdown(cancel_futures=True)  # torch aborts a process that exits while it computes
        self._hook.remove()

    def _stop_cancelled(self, module: nn.Module, inputs: Any) -> None:
        if (cancelled := getattr(self._of_thread, "cancelled", None)) is not None and cancelled.is_set():
            raise RuntimeError("nobody waits for this result")

    async def call(self, call: Callable[[], Any]) -> Any:
        """The result of a call in the worker's thread; cancelling stops the call.

        Raises:
            HTTPException: `WAITING` others wait already.
        """
        if self._calls > WAITING:
            raise HTTPException(503, "too much waits already; ask again later", {"Retry-After": "1"})
        cancelled = threading.Event()

        def run() -> Any:
            self._of_thread.cancelled = self._current = cancelled
            try:
                return call()
            except BaseException as error:
                if isinstance(error, Exception):
                    raise
                raise RuntimeError(repr(error)) from None  # such as a panic of Rust: it must not end the event loop

        self._calls += 1
        try:
            return await asyncio.wrap_future(self._pool.submit(run))
        finally:
            self._calls -= 1
            cancelled.set()

    async def stream(self, pieces: Callable[[], Iterator[str]]) -> AsyncGenerator[str]:
        """The items of an iterator that runs in the worker's thread, as they come; closing stops it.

        Raises:
            HTTPException: `WAITING` others wait already.
        """
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def write() -> None:
            for piece in pieces():
                loop.call_soon_threadsafe(queue.put_nowait, piece)

        writing = asyncio.ensure_future(self.call(write))
        writing.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (piece := await queue.get()) is not None:
                yield piece
            await writing
        finally:
            writing.cancel()


class Server:
    """The routes, and the worker behind them."""

    def __init__(self, runs: Sequence[Served], seconds: float = SECONDS) -> None:
        self.runs, self.seconds, self.worker = runs, seconds, Worker()
        pictures = any(spec_of(run.task).input == "picture" for run in runs)
        self.max_body = requests.PICTURE * 4 // 3 * pictures + BODY

    def app(self, hosts: Sequence[str], token: str) -> Guard:
        """The ASGI application; `hosts` are the names, with ports, by which it may be called."""
        text = page("serve/page.html", "heed")
        script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
        assert script is not None

        def post(path: str, kind: type[requests.Body], answer: Answer) -> Route:
            return Route(path, self._handler(kind, answer), methods=["POST"])

        app = Starlette(
            routes=[
                Route("/", HTMLResponse(text), methods=["GET"]),
                Route("/v1/health", JSONResponse({"status": "ok"}), methods=["GET"]),
                Route("/v1/runs", self._handler(None, self.list_runs)),
                Route("/api/write", self.write, methods=["POST"]),
                post("/v1/predict", requests.Predict, self.predict),
                post("/api/number", requests.Cell, lambda cell: JSONResponse(self._run(cell.look).number(cell))),
                post("/api/save", requests.Save, self.save),
                post("/api/curves", requests.OfRun, lambda of: HTMLResponse(curves_of(self._run(of).path).html())),
            ],
            exception_handlers=dict.fromkeys((HTTPException, ClientDisconnect, HeedError, Exception), _failed),
            lifespan=lambda app: self.worker,
        )
        app.router.redirect_slashes = False
        return Guard(app, hosts, token, script[1])

    # Requests --------------------------------------------------------------------------------------------------------

    async def _body(self, kind: type[requests.Body], request: Request) -> Any:
        """The body, checked.

        Raises:
            HTTPException: The body is too long, takes too long, or is not JSON.
            DataError: A field is missing, unknown or wrong.
        """
        parts = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.stream():
                    parts += part
                    if len(parts) > self.max_body:
                        raise HTTPException(413, f"the body is longer than {self.max_body:,} bytes", _CLOSE)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {self.seconds:g} s", _CLOSE) from None
        return requests.checked(kind, bytes(parts))

    def _run(self, body: requests.OfRun) -> Served:
        if body.run >= len(self.runs):
            number = body.run if body.run < 10**9 else "a huge number"
            raise DataError(f"run is {number}, expected a number of a run, from 0 to {len(self.runs) - 1}")
        return self.runs[body.run]

    def _handler(self, kind: type[requests.Body] | None, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """A handler whose answers the worker computes, unless that takes too long or the client goes away.

        Raises:
            HTTPException: It took too long, or too much waits already.
        """

        async def handler(request: Request) -> Response:
            body = kind and await self._body(kind, request)
            working, begun = asyncio.ensure_future(self.worker.call(lambda: answer(body))), time.monotonic()
            try:
                while not (await asyncio.wait({working}, timeout=0.25))[0]:
                    if await request.is_disconnected():
                        raise ClientDisconnect
                    if time.monotonic() - begun > self.seconds:
                        less = "ask for less (a shorter text, fewer layers), or again when the server is less busy"
                        raise HTTPException(504, f"no answer within {self.seconds:g} s: {less}")
                return working.result()  # type: ignore[no-any-return]
            finally:
                working.cancel()

        return handler

    # Answers ---------------------------------------------------------------------------------------------------------

    def list_runs(self, body: None) -> Response:
        """The runs; one without weights has an error in place of its facts."""
        return JSONResponse({"runs": [{"run": number, **run.facts()} for number, run in enumerate(self.runs)]})

    def predict(self, body: requests.Predict) -> Response:
        """Predictions; those of one request are computed together."""
        run, single = self._run(body), "input" in body.model_fields_set
        if single == ("inputs" in body.model_fields_set):
            raise DataError("give either input, for one, or inputs, a list")
        places = {"input": body.input} if single else {f"inputs.{n}": x for n, x in enumerate(body.inputs)}
        inputs = [run.read(value, where) for where, value in places.items()]
        outputs = run.predict(inputs, body.options) if inputs else []
        return JSONResponse({"output": outputs[0]} if single else {"outputs": outputs})

    async def write(self, request: Request) -> Response:
        """An output while it is being written: lines of JSON, each with a piece of it, or the last with an error."""
        body = await self._body(requests.Write, request)
        run = self._run(body)

        async def lines() -> AsyncIterator[str]:
            try:
                async for piece in self.worker.stream(lambda: run.write(run.read(body.input), body.options)):
                    yield json.dumps({"piece": piece}) + "\n"
            except Exception as error:
                yield json.dumps({"error": _problem(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/jsonl")

    def save(self, body: requests.Save) -> Response:
        """A look in a format; the page shows the output of `heed look --out look.html`."""
        drawn = getattr(self._run(body.look).look(body.look), body.format)()
        return Response(drawn, media_type=mimetypes.types_map[f".{body.format}"])


async def _failed(request: Request, error: Exception) -> Response:
    """The answer to a request that raised an error."""
    status = error.status_code if isinstance(error, HTTPException) else 400 if isinstance(error, HeedError) else 500
    return _failure(status, _problem(error), getattr(error, "headers", None))


def _problem(error: Exception) -> str:
    """An error for a client; one in heed itself is printed."""
    if isinstance(error, HTTPException | HeedError | ClientDisconnect):
        return getattr(error, "detail", str(error))
    # Hidden characters of the request are made visible.
    print("\n".join(map(clean, "".join(traceback.format_exception(error)).splitlines())), file=sys.stderr, flush=True)
    return "an error in heed; the server's output has it"
