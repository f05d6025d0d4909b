"""Connections that send no request are closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 10.0
"""A connection is closed after one to two times this without a complete head of a request, also if bytes arrive."""


class Connection(H11Protocol):
    """Uvicorn's connection, whose own limit begins anew with every byte."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(SECONDS, self._close_unless_asked, None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _close_unless_asked(self, before: Any) -> None:
        now = self.cycle  # the last request
        if now is before and (now is None or now.response_complete):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(SECONDS, self._close_unless_asked, now)
