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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from heed.errors import DataError, HeedError
from heed.observe.page import page
from heed.serve import requests
from heed.serve.served import PICTURE, Served
from heed.serve.worker import BusyError, Worker
from heed.tasks import spec_of
from heed.visible import clean

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


class RefusedError(Exception):
    """A request that is answered with this status and reason."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


def _failure(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)


class Guard:
    """Answers what may not be asked, and adds the headers that every answer has."""

    def __init__(self, app: Any, hosts: Sequence[str], token: str, policy: str) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), token.encode()
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
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        self.open += 1
        try:
            await (self._refusal(scope) or self.app)(scope, receive, guarded)
        finally:
            self.open -= 1
            self.last = time.monotonic()

    def _refusal(self, scope: Any) -> Response | None:
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name, []).append(value)
        if b"content-length" in given and b"transfer-encoding" in given:  # two lengths: one may hide a request
            return _failure(400, "Content-Length and Transfer-Encoding exclude each other", {"Connection": "close"})
        hosts, origins = given.get(b"host", []), given.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self.hosts:
            return _failure(403, "this server is not called by that name (header Host)")
        allowed = {f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https")}
        if any(origin.decode("latin-1").lower() not in allowed for origin in origins) or len(origins) > 1:
            return _failure(403, "a page of another server may not ask (header Origin)")
        if scope["path"] in ("/", "/v1/health"):
            return None
        tokens = given.get(b"authorization", [])
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], b"Bearer " + self.token):
            return _failure(401, "the token is missing or wrong (header Authorization: Bearer TOKEN)",
                            {"WWW-Authenticate": "Bearer"})  # fmt: skip
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
        self.most = PICTURE * 4 // 3 + BODY if any(spec_of(one.task).input == "picture" for one in runs) else BODY

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
            "/api/look": self.look,
            "/api/number": self.number,
            "/api/save": self.save,
            "/api/curves": self.curves,
        }
        gets = {"/v1/runs": self.list_runs, "/v1/health": self.health, "/openapi.json": self.openapi}
        app = Starlette(
            routes=[
                Route("/", index),
                *(Route(path, self._answering(handler), methods=["POST"]) for path, handler in posts.items()),
                *(Route(path, self._answering(handler), methods=["GET"]) for path, handler in gets.items()),
            ],
            exception_handlers={HTTPException: _http},
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

    def _answering(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except RefusedError as error:
                return _failure(error.status, str(error), error.headers)
            except HeedError as error:
                return _failure(400, str(error))
            except BusyError:
                return _failure(503, "too much waits already; ask again later", {"Retry-After": "1"})
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception:
                tell()
                return _failure(500, "an error in heed; the server's output has it")

        return answer

    # What is asked ---------------------------------------------------------------------------------------------------

    async def _json(self, request: Request) -> Any:
        """The body.

        Raises:
            RefusedError: It is too long, takes too long, or is not JSON.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(415, f"Content-Type is {kind[:100]!r}, expected application/json")
        length = request.headers.get("content-length", "0")
        too_long = RefusedError(413, f"the body is longer than {self.most:,} bytes", {"Connection": "close"})
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
            raise RefusedError(
                408, f"the body did not arrive within {self.seconds:g} s", {"Connection": "close"}
            ) from None
        try:
            return json.loads(parts.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise RefusedError(400, f"the body is not JSON: {clean(str(error)[:200])}") from None

    def _run(self, number: int) -> Served:
        if number >= len(self.runs):
            there = f"there {'is 1 run' if len(self.runs) == 1 else f'are {len(self.runs)} runs'}, counted from 0"
            raise DataError(f"run is {number if number < 10**9 else 'a huge number'}: {there}")
        return self.runs[number]

    async def _wait(self, request: Request, work: Awaitable[Any]) -> Any:
        """The result of the worker, unless it takes too long or the client goes away; then the work is given up.

        Raises:
            RefusedError: It took too long.
        """
        working = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({working, gone}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if gone.done():
                raise ClientDisconnect
            less = "ask for less (a shorter text, fewer layers), or again when the server is less busy"
            raise RefusedError(504, f"no answer within {self.seconds:g} s: {less}")
        finally:
            for task in (working, gone):
                task.cancel()

    # What answers ----------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """That the server answers."""
        return JSONResponse({"status": "ok"})

    async def openapi(self, request: Request) -> Response:
        """The description of the interface."""

        def kind(one: Served) -> str | None:
            with suppress(HeedError):  # without weights yet
                return one.kind
            return None

        def described() -> dict[str, Any]:
            return requests.openapi([(one.task, kind(one)) for one in self.runs])

        return JSONResponse(await self._wait(request, self.worker.call(described)))

    async def list_runs(self, request: Request) -> Response:
        """The runs; one without weights has an error in place of its facts."""

        def facts(number: int, one: Served) -> dict[str, Any]:
            try:
                return {"run": number, **one.facts()}
            except HeedError as error:
                return {
                    "run": number,
                    "name": one.name,
                    "task": one.task,
                    "training": one.training,
                    "error": str(error),
                }

        def every() -> list[dict[str, Any]]:
            return [facts(number, one) for number, one in enumerate(self.runs)]

        return JSONResponse({"runs": await self._wait(request, self.worker.call(every))})

    async def predict(self, request: Request) -> Response:
        """Predictions; those of one request are computed together."""
        asked = requests.checked(requests.Predict, await self._json(request))
        one = self._run(asked.run)
        options = requests.checked_options(asked.options, one.task, "predict")
        single = "input" in asked.model_fields_set
        if single == ("inputs" in asked.model_fields_set):
            raise DataError("give either input, for one, or inputs, a list")
        given = [one.read(asked.input)] if single else [one.read(x, f"inputs[{n}]") for n, x in enumerate(asked.inputs)]
        if not given:
            return JSONResponse({"outputs": []})
        outputs = await self._wait(request, self.worker.call(lambda: one.predict(given, options)))
        return JSONResponse({"output": outputs[0]} if single else {"outputs": outputs})

    async def write(self, request: Request) -> Response:
        """An output while it is being written, as server-sent events."""
        asked = requests.checked(requests.Write, await self._json(request))
        one = self._run(asked.run)
        options = requests.checked_options(asked.options, one.task, "predict")
        given = one.read(asked.input)
        return await self._events(self.worker.stream(lambda: one.write(given, options)))

    async def _events(self, pieces: AsyncIterator[str]) -> Response:
        """Server-sent events; an error before the first is an ordinary answer, a later one an event."""
        try:
            first = await anext(pieces, None)
        except BaseException:
            await pieces.aclose()  # type: ignore[attr-defined]
            raise

        async def events() -> AsyncIterator[str]:
            try:
                if first is not None:
                    yield _event("piece", first)
                async for piece in pieces:
                    yield _event("piece", piece)
                yield _event("end", None)
            except HeedError as error:
                yield _event("error", str(error))
            except Exception:
                tell()
                yield _event("error", "an error in heed; the server's output has it")
            finally:
                await pieces.aclose()  # type: ignore[attr-defined]

        return StreamingResponse(events(), media_type="text/event-stream")

    async def look(self, request: Request) -> Response:
        """A look as the page that `heed look --out look.html` writes."""
        asked = requests.checked(requests.Asked, await self._json(request))
        one, chosen = self._asked(asked)
        drawn = await self._wait(request, self.worker.call(lambda: one.saved(chosen, "html")))
        return JSONResponse({"html": drawn.decode()})

    def _asked(self, asked: requests.Asked) -> tuple[Served, dict[str, Any]]:
        one, chosen = self._run(asked.run), asked.chosen()
        chosen["options"] = requests.checked_options(asked.options, one.task, "look")
        return one, chosen

    async def number(self, request: Request) -> Response:
        """What one weight of a look came from."""
        asked = requests.checked(requests.Cell, await self._json(request))
        one, chosen = self._asked(asked.look)
        call = self.worker.call(lambda: one.number(chosen, asked.map, asked.row, asked.column))
        return JSONResponse(await self._wait(request, call))

    async def save(self, request: Request) -> Response:
        """A look in a format."""
        asked = requests.checked(requests.Save, await self._json(request))
        one, chosen = self._asked(asked.look)
        drawn = await self._wait(request, self.worker.call(lambda: one.saved(chosen, asked.format)))
        return Response(drawn, media_type=requests.FORMATS[asked.format])

    async def curves(self, request: Request) -> Response:
        """The curves of training, as server-sent events: again whenever more was logged, until training ends."""
        one = self._run(requests.checked(requests.OfRun, await self._json(request)).run)

        async def pieces() -> AsyncIterator[str]:
            logged: object = None
            while True:
                training, now = one.training, one.logged()
                if now != logged:
                    yield await asyncio.to_thread(one.curves)
                logged = now
                if not training:
                    return
                await asyncio.sleep(1)

        return await self._events(pieces())


async def _gone(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.25)


async def _http(request: Request, error: Exception) -> Response:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    return _failure(error.status_code, error.detail.lower(), dict(error.headers or {}))


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def tell() -> None:
    """Print the current error; hidden characters of what was asked are made visible."""
    print("\n".join(map(clean, traceback.format_exc().splitlines())), file=sys.stderr, flush=True)
