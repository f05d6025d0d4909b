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
import mimetypes
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from heed.errors import DataError, HeedError
from heed.serve import requests
from heed.serve.served import Served
from heed.serve.worker import Worker
from heed.show.page import page
from heed.tasks import spec_of
from heed.tasks.base.curves import curves_of
from heed.visible import clean

BODY = 64 * 2**10
"""Most bytes of a body without pictures."""
SECONDS = 10.0
"""After this time without an answer, or without all of the body, a request ends."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Of every answer; the policy has the hash of the page's script."""


def _failure(status: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status, headers)


class Guard:
    """Answers what may not be asked, and adds the headers that every answer has."""

    def __init__(self, app: Any, hosts: Sequence[str], token: str, script: str) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), f"Bearer {token}".encode()
        self.origins = {f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")}
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._headers = {name: value.format(digest) for name, value in _HEADERS.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        with suppress(Exception):  # Starlette raises it again, after `_failed` has answered
            await (self._refusal(scope) or self.app)(scope, receive, guarded)

    def _refusal(self, scope: Any) -> Response | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # two lengths: one may hide a request
            return _failure(400, "Content-Length and Transfer-Encoding exclude each other", {"Connection": "close"})
        hosts, origins = ([value.lower() for value in headers.getlist(name)] for name in ("host", "origin"))
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _failure(403, "this server is not called by that name (header Host)")
        if not self.origins.issuperset(origins):
            return _failure(403, "a page of another server may not ask (header Origin)")
        given = headers.get("authorization", "").encode("latin-1")
        if scope["path"] in ("/", "/v1/health") or hmac.compare_digest(given, self.token):
            return None
        reason = "the token is missing or wrong (header Authorization: Bearer TOKEN)"
        return _failure(401, reason, {"WWW-Authenticate": "Bearer"})


class Server:
    """The routes, and the worker behind them."""

    def __init__(self, runs: Sequence[Served], seconds: float = SECONDS) -> None:
        self.runs, self.seconds, self.worker = runs, seconds, Worker()
        pictures = any(spec_of(run.task).input == "picture" for run in runs)
        self.most = requests.PICTURE * 4 // 3 * pictures + BODY

    def app(self, hosts: Sequence[str], token: str) -> Guard:
        """The ASGI application; `hosts` are the names, with ports, by which it may be called."""
        text = page("serve/page.html", "heed")
        script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
        assert script is not None

        def post(path: str, kind: type[requests.Body], answer: Callable[[Any], Response]) -> Route:
            return Route(path, self._answered(kind, answer), methods=["POST"])

        app = Starlette(
            routes=[
                Route("/", HTMLResponse(text), methods=["GET"]),
                Route("/v1/health", JSONResponse({"status": "ok"}), methods=["GET"]),
                Route("/v1/runs", self._answered(None, self.list_runs)),
                Route("/api/write", self.write, methods=["POST"]),
                post("/v1/predict", requests.Predict, self.predict),
                post("/api/number", requests.Cell, self.number),
                post("/api/save", requests.Save, self.save),
                post("/api/curves", requests.OfRun, self.curves),
            ],
            exception_handlers=dict.fromkeys((HTTPException, ClientDisconnect, HeedError, Exception), _failed),
            lifespan=lambda app: self.worker,
        )
        app.router.redirect_slashes = False
        return Guard(app, hosts, token, script[1])

    # What is asked ---------------------------------------------------------------------------------------------------

    async def _body(self, kind: type[requests.Body], request: Request) -> Any:
        """The body, checked.

        Raises:
            HTTPException: It is too long, takes too long, or is not JSON.
            DataError: A field is missing, unknown or wrong.
        """
        parts = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.stream():
                    parts += part
                    if len(parts) > self.most:
                        raise HTTPException(
                            413, f"the body is longer than {self.most:,} bytes", {"Connection": "close"}
                        )
        except TimeoutError:
            late = f"the body did not arrive within {self.seconds:g} s"
            raise HTTPException(408, late, {"Connection": "close"}) from None
        return requests.checked(kind, bytes(parts))

    def _run(self, asked: requests.OfRun) -> Served:
        if asked.run >= len(self.runs):
            number = asked.run if asked.run < 10**9 else "a huge number"
            raise DataError(f"run is {number}, expected a number of a run, from 0 to {len(self.runs) - 1}")
        return self.runs[asked.run]

    def _answered(
        self, kind: type[requests.Body] | None, answer: Callable[[Any], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """The handler of requests with a body, which the worker answers."""

        async def handler(request: Request) -> Response:
            asked = kind and await self._body(kind, request)
            answered: Response = await self._wait(request, lambda: answer(asked))
            return answered

        return handler

    async def _wait(self, request: Request, call: Callable[[], Any]) -> Any:
        """The worker's result, unless it takes too long or the client goes away; then the work is given up.

        Raises:
            HTTPException: It took too long, or too much waits already.
        """
        working, begun = asyncio.ensure_future(self.worker.call(call)), time.monotonic()
        try:
            while not (await asyncio.wait({working}, timeout=0.25))[0]:
                if await request.is_disconnected():
                    raise ClientDisconnect
                if time.monotonic() - begun > self.seconds:
                    less = "ask for less (a shorter text, fewer layers), or again when the server is less busy"
                    raise HTTPException(504, f"no answer within {self.seconds:g} s: {less}")
            return working.result()
        finally:
            working.cancel()

    # What answers ----------------------------------------------------------------------------------------------------

    def list_runs(self, asked: None) -> Response:
        """The runs; one without weights has an error in place of its facts."""
        return JSONResponse({"runs": [{"run": number, **run.facts()} for number, run in enumerate(self.runs)]})

    def predict(self, asked: requests.Predict) -> Response:
        """Predictions; those of one request are computed together."""
        run, single = self._run(asked), "input" in asked.model_fields_set
        if single == ("inputs" in asked.model_fields_set):
            raise DataError("give either input, for one, or inputs, a list")
        places = {"input": asked.input} if single else {f"inputs.{n}": x for n, x in enumerate(asked.inputs)}
        inputs = [run.read(value, where) for where, value in places.items()]
        outputs = run.predict(inputs, asked.options) if inputs else []
        return JSONResponse({"output": outputs[0]} if single else {"outputs": outputs})

    async def write(self, request: Request) -> Response:
        """An output while it is being written: lines of JSON, each with a piece of it, or the last with an error."""
        asked = await self._body(requests.Write, request)
        run = self._run(asked)

        async def lines() -> AsyncIterator[str]:
            try:
                async for piece in self.worker.stream(lambda: run.write(run.read(asked.input), asked.options)):
                    yield json.dumps({"piece": piece}) + "\n"
            except Exception as error:
                yield json.dumps({"error": _problem(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/jsonl")

    def number(self, asked: requests.Cell) -> Response:
        """What one weight of a look came from."""
        return JSONResponse(self._run(asked.look).number(asked.look, asked.map, asked.row, asked.column))

    def save(self, asked: requests.Save) -> Response:
        """A look in a format; the page shows what `heed look --out look.html` writes."""
        drawn = getattr(self._run(asked.look).look(asked.look), asked.format)()
        return Response(drawn, media_type=mimetypes.types_map[f".{asked.format}"])

    def curves(self, asked: requests.OfRun) -> Response:
        """The curves of training, as a page."""
        return HTMLResponse(curves_of(self._run(asked).path).html())


async def _failed(request: Request, error: Exception) -> Response:
    """What is answered in place of an error."""
    status = error.status_code if isinstance(error, HTTPException) else 400 if isinstance(error, HeedError) else 500
    return _failure(status, _problem(error), getattr(error, "headers", None))


def _problem(error: Exception) -> str:
    """An error for a client; one in heed itself is printed."""
    if isinstance(error, HTTPException | HeedError | ClientDisconnect):
        return getattr(error, "detail", str(error))
    # Hidden characters of what was asked are made visible.
    print("\n".join(map(clean, "".join(traceback.format_exception(error)).splitlines())), file=sys.stderr, flush=True)
    return "an error in heed; the server's output has it"
