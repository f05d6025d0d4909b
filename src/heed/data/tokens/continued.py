"""Tokens of a text to be continued: a space at its end belongs to the next word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heed.data.tokens.byte_letters import BYTES
from heed.data.tokens.pieces import is_continued
from heed.data.tokens.special import BLANK
from heed.data.tokens.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Beginning:
    """The beginning of a text to be continued."""

    ids: Sequence[int]  # tokens of the beginning
    never_next: tuple[int, ...] = ()  # tokens that may not follow, since they would change the beginning


def beginning(tokenizer: TextTokenizer, text: str) -> Beginning:
    """The tokens of a beginning.

    If tokens of words include the space before them, a separate token for a space was hardly ever seen in training,
    and half a word would follow it. The last space is then left out of the tokens, and the next token must include
    it. With word pieces, the next token must begin a word.
    """
    if not text.strip() or not text.endswith(" ") or tokenizer.unit in ("character", "byte"):
        return Beginning(tokenizer.encode(text).ids if text else [])
    if tokenizer.is_of_pieces:
        within = tuple(i for i, token in enumerate(tokenizer.tokens) if is_continued(token))
        return Beginning(tokenizer.encode(text).ids, within)
    mark = next(letter for letter, byte in BYTES.items() if byte == ord(" ")) if tokenizer.is_of_bytes else BLANK
    without = tuple(i for i, token in enumerate(tokenizer.tokens) if not token.startswith(mark) or token == mark)
    return Beginning(tokenizer.encode(text[:-1]).ids, without)
