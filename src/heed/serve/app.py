"""The server: who may ask, how much, and which function answers.

Every request but those for the page itself and for its health needs the token in a header, so that neither another
page in the browser nor another user of the machine can ask. Host and Origin are compared exactly, against pages that
change what their name points to (DNS rebinding). No request names a path: runs are numbers.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import sys
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from heed.errors import DataError, HeedError
from heed.serve import requests
from heed.serve.served import PICTURE, Served
from heed.serve.worker import Worker
from heed.show.page import page
from heed.tasks import spec_of
from heed.visible import clean

B = TypeVar("B", bound=requests.Body)
BODY = 64 * 2**10
"""Most bytes of a body without pictures."""
SECONDS = 10.0
"""After this time without an answer, or without all of the body, a request ends."""
HEAD_SECONDS = 10.0
"""A connection ends after one to two times this without a complete head of a request, also if bytes arrive, or in which
the client has read nothing of an answer."""
_POLICY = (
    "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _failure(status: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)


class Guard:
    """Answers what may not be asked, and adds the headers that every answer has."""

    def __init__(self, app: Any, hosts: Sequence[str], token: str, policy: str) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), token.encode()
        self.origins = {f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")}
        self.open, self.last = 0, time.monotonic()  # requests that are not answered yet; when the last one was
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        self.open += 1
        try:
            with suppress(Exception):  # Starlette raises it again, after `_failed` has answered
                await (self._refusal(scope) or self.app)(scope, receive, guarded)
        finally:
            self.open -= 1
            self.last = time.monotonic()

    def _refusal(self, scope: Any) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # two lengths: one may hide a request
            return _failure(400, "Content-Length and Transfer-Encoding exclude each other", {"Connection": "close"})
        hosts, origins = ([value.lower() for value in headers.getlist(name)] for name in ("host", "origin"))
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _failure(403, "this server is not called by that name (header Host)")
        if len(origins) > 1 or any(origin not in self.origins for origin in origins):
            return _failure(403, "a page of another server may not ask (header Origin)")
        if scope["path"] in ("/", "/v1/health"):
            return None
        tokens = headers.getlist("authorization")
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode("latin-1"), b"Bearer " + self.token):
            reason = "the token is missing or wrong (header Authorization: Bearer TOKEN)"
            return _failure(401, reason, {"WWW-Authenticate": "Bearer"})
        return None


class Connection(H11Protocol):
    """Uvicorn's connection, whose own limit begins anew with every byte."""

    _timer: asyncio.TimerHandle | None = None
    _unread = 0  # bytes that waited to be sent at the last check
    most = 1_000  # connections at once; those beyond are closed

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close_unless_asked, None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _close_unless_asked(self, before: Any) -> None:
        now = self.cycle  # the last request
        unread = self.transport.get_write_buffer_size()
        if (now is before and (now is None or now.response_complete)) or 0 < self._unread <= unread:
            self.transport.abort()
        else:
            self._unread = unread
            self._timer = self.loop.call_later(HEAD_SECONDS, self._close_unless_asked, now)


class Server:
    """The routes, and the worker behind them."""

    def __init__(self, runs: Sequence[Served], seconds: float = SECONDS) -> None:
        self.runs, self.seconds = runs, seconds
        self.worker = Worker()
        self.most = PICTURE * 4 // 3 + BODY if any(spec_of(run.task).input == "picture" for run in runs) else BODY

    def app(self, hosts: Sequence[str], token: str) -> Guard:
        """The ASGI application; `hosts` are the names, with ports, by which it may be called."""
        text = page("serve/page.html", "heed")
        script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
        assert script is not None
        digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()

        async def index(request: Request) -> Response:
            return HTMLResponse(text)

        posts = {
            "/v1/predict": self.predict,
            "/api/write": self.write,
            "/api/number": self.number,
            "/api/save": self.save,
            "/api/curves": self.curves,
        }
        gets = {"/v1/runs": self.list_runs, "/v1/health": self.health, "/openapi.json": self.openapi}
        app = Starlette(
            routes=[
                Route("/", index),
                *(Route(path, handler, methods=["POST"]) for path, handler in posts.items()),
                *(Route(path, handler, methods=["GET"]) for path, handler in gets.items()),
            ],
            exception_handlers=dict.fromkeys((HTTPException, ClientDisconnect, HeedError, Exception), _failed),
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False
        return Guard(app, hosts, token, _POLICY.format(digest))

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.worker.start()
        try:
            yield
        finally:
            self.worker.stop()

    # What is asked ---------------------------------------------------------------------------------------------------

    async def _asked(self, kind: type[B], request: Request) -> B:
        """The body, checked.

        Raises:
            HTTPException: It is too long, takes too long, or is not JSON.
            DataError: A field is missing, unknown or wrong.
        """
        content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content != "application/json":
            raise HTTPException(415, f"Content-Type is {content[:100]!r}, expected application/json")
        length = request.headers.get("content-length", "0")
        too_long = HTTPException(413, f"the body is longer than {self.most:,} bytes", {"Connection": "close"})
        if length.isdecimal() and int(length[:20]) > self.most:
            raise too_long
        parts = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.stream():
                    parts += part
                    if len(parts) > self.most:
                        raise too_long
        except TimeoutError:
            late = f"the body did not arrive within {self.seconds:g} s"
            raise HTTPException(408, late, {"Connection": "close"}) from None
        try:
            body = json.loads(parts.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the body is not JSON: {clean(str(error)[:200])}") from None
        checked: B = requests.checked(kind, body)
        return checked

    def _run(self, number: int) -> Served:
        if number >= len(self.runs):
            there = f"there {'is 1 run' if len(self.runs) == 1 else f'are {len(self.runs)} runs'}, counted from 0"
            raise DataError(f"run is {number if number < 10**9 else 'a huge number'}: {there}")
        return self.runs[number]

    def _look(self, asked: requests.Asked) -> tuple[Served, dict[str, Any]]:
        run = self._run(asked.run)
        return run, asked.chosen() | {"options": requests.checked_options(asked.options, run.task, "look")}

    async def _wait(self, request: Request, call: Callable[[], Any]) -> Any:
        """The worker's result, unless it takes too long or the client goes away; then the work is given up.

        Raises:
            HTTPException: It took too long, or too much waits already.
        """
        working, gone = map(asyncio.ensure_future, (self.worker.call(call), _gone(request)))
        try:
            await asyncio.wait({working, gone}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if gone.done():
                raise ClientDisconnect
            less = "ask for less (a shorter text, fewer layers), or again when the server is less busy"
            raise HTTPException(504, f"no answer within {self.seconds:g} s: {less}")
        finally:
            for task in (working, gone):
                task.cancel()

    # What answers ----------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """That the server answers."""
        return JSONResponse({"status": "ok"})

    async def openapi(self, request: Request) -> Response:
        """The description of the interface."""
        return JSONResponse(requests.openapi(await self._wait(request, self._facts)))

    async def list_runs(self, request: Request) -> Response:
        """The runs; one without weights has an error in place of its facts."""
        return JSONResponse({"runs": await self._wait(request, self._facts)})

    def _facts(self) -> list[dict[str, Any]]:
        return [{"run": number, **run.facts()} for number, run in enumerate(self.runs)]

    async def predict(self, request: Request) -> Response:
        """Predictions; those of one request are computed together."""
        asked = await self._asked(requests.Predict, request)
        run = self._run(asked.run)
        options = requests.checked_options(asked.options, run.task, "predict")
        single = "input" in asked.model_fields_set
        if single == ("inputs" in asked.model_fields_set):
            raise DataError("give either input, for one, or inputs, a list")
        places = {"input": asked.input} if single else {f"inputs[{n}]": x for n, x in enumerate(asked.inputs)}
        inputs = [run.read(value, where) for where, value in places.items()]
        outputs = await self._wait(request, lambda: run.predict(inputs, options)) if inputs else []
        return JSONResponse({"output": outputs[0]} if single else {"outputs": outputs})

    async def write(self, request: Request) -> Response:
        """An output while it is being written, as server-sent events."""
        asked = await self._asked(requests.Write, request)
        run = self._run(asked.run)
        options = requests.checked_options(asked.options, run.task, "predict")
        text = run.read(asked.input)
        return await self._events(self.worker.stream(lambda: run.write(text, options)))

    async def _events(self, pieces: AsyncGenerator[str]) -> Response:
        """Server-sent events; an error before the first is an ordinary answer, a later one an event."""
        try:
            first = await anext(pieces, None)
        except BaseException:
            await pieces.aclose()
            raise

        async def events() -> AsyncIterator[str]:
            try:
                if first is not None:
                    yield _event("piece", first)
                async for piece in pieces:
                    yield _event("piece", piece)
                yield _event("end", None)
            except Exception as error:
                yield _event("error", _problem(error))
            finally:
                await pieces.aclose()

        return StreamingResponse(events(), media_type="text/event-stream")

    async def number(self, request: Request) -> Response:
        """What one weight of a look came from."""
        asked = await self._asked(requests.Cell, request)
        run, look = self._look(asked.look)
        opened = await self._wait(request, lambda: run.number(look, asked.map, asked.row, asked.column))
        return JSONResponse(opened)

    async def save(self, request: Request) -> Response:
        """A look in a format; the page shows what `heed look --out look.html` writes."""
        asked = await self._asked(requests.Save, request)
        run, look = self._look(asked.look)
        drawn = await self._wait(request, lambda: run.saved(look, asked.format))
        return Response(drawn, media_type=requests.FORMATS[asked.format])

    async def curves(self, request: Request) -> Response:
        """The curves of training, as server-sent events: again whenever more was logged, until training ends."""
        run = self._run((await self._asked(requests.OfRun, request)).run)

        async def pieces() -> AsyncGenerator[str]:
            logged: object = None
            while True:
                training, now = run.training, run.logged()
                if now != logged:
                    yield await asyncio.to_thread(run.curves)
                logged = now
                if not training:
                    return
                await asyncio.sleep(1)

        return await self._events(pieces())


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.25)


async def _failed(request: Request, error: Exception) -> Response:
    """What is answered in place of an error."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    if isinstance(error, HTTPException):
        return _failure(error.status_code, error.detail, error.headers)
    return _failure(400 if isinstance(error, HeedError) else 500, _problem(error))


def _problem(error: Exception) -> str:
    """An error for a client; one in heed itself is printed."""
    if isinstance(error, HeedError):
        return str(error)
    # Hidden characters of what was asked are made visible.
    print("\n".join(map(clean, "".join(traceback.format_exception(error)).splitlines())), file=sys.stderr, flush=True)
    return "an error in heed; the server's output has it"


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
