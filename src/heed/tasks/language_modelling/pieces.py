"""Text that is being written: the part that can already be shown, and where a stop text ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heed.data.tokens.tokenizer import Encoded

INCOMPLETE = "\ufffd"
"""Decoding of bytes that are not a whole character."""


class Pieces:
    """Turns tokens, one by one, into text that no later token can change.

    The bytes of an incomplete character, and a possible beginning of a stop text, are held back; nothing is returned
    after a stop text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = stop
        self._tokens: list[int] = []  # tokens whose text was not fully shown
        self._shown = 0  # characters of their text that were shown

    def add(self, token: int) -> str:
        """Add a token and return the text that can now be shown."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        text, stopped = before_stop(text, self._stop)
        if not stopped:
            text = text.rstrip(INCOMPLETE)
            text = text[: len(text) - self._held(text)]
        piece = text[self._shown :]
        self._shown += len(piece)
        if not stopped and text == self._decode(self._tokens):
            self._tokens, self._shown = [], 0
        return piece

    def _held(self, text: str) -> int:
        """Number of characters at the end that may be the beginning of a stop text."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest


class Stops:
    """Finds stop texts in written tokens; only the last few tokens can complete one."""

    def __init__(self, decode: Callable[[Sequence[int]], str], texts: tuple[str, ...]) -> None:
        self._decode = decode
        self._texts = texts
        # A token stands for one byte at least; a few more, as the first may be the middle of a character.
        self._longest = max((len(text.encode()) for text in texts), default=0) + 4

    def ends(self, written: Sequence[int]) -> bool:
        """True if the last of these tokens completes a stop text."""
        if not self._texts:
            return False
        tail = self._decode(written[-self._longest :])
        return any(text in tail for text in self._texts)

    def of(self, before: list[list[int]]) -> Callable[[int, Sequence[int]], bool] | None:
        """The stop condition of a search, given the tokens written before for each source; None without stop texts."""
        if not self._texts:
            return None
        tails = [written[-self._longest :] for written in before]
        return lambda source, written: self.ends([*tails[source], *written])


def before_stop(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """Cut a text at its earliest stop text, and return both; of two at the same position, the longer."""
    found = [(place, -len(one), one) for one in stop if (place := text.find(one)) >= 0]
    if not found:
        return text, None
    place, _, one = min(found)
    return text[:place], one


def without_incomplete(text: str, tokens: Sequence[int], encode: Callable[[str], Encoded]) -> str:
    """Remove the bytes of an incomplete character from the end of the tokens' text."""
    if not text.endswith(INCOMPLETE):
        return text
    written = encode(INCOMPLETE).ids  # the character itself may have been written
    return text if list(tokens[-len(written) :]) == written else text.rstrip(INCOMPLETE)
