"""The tokens of a text that is gone on with: a blank at its end belongs to the word that comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heed.data.tokens.byte_letters import BYTES
from heed.data.tokens.pieces import is_continued
from heed.data.tokens.special import BLANK
from heed.data.tokens.tokenizer import TextTokenizer


@dataclass(frozen=True)
class Beginning:
    """How a text begins that is to be written on."""

    ids: Sequence[int]  # tokens of the beginning
    never_next: tuple[int, ...] = ()  # tokens that may not follow it, since the text would begin differently


def beginning(tokenizer: TextTokenizer, text: str) -> Beginning:
    """The tokens of a beginning.

    Where the token of a word carries the blank before it, a blank as a token of its own was hardly ever seen in
    training, and half a word comes after it. The last blank is then left out of the tokens, and the next token has to
    bring it. Among word pieces it is one that begins a word.
    """
    if not text.strip() or not text.endswith(" ") or tokenizer.unit in ("character", "byte"):
        return Beginning(tokenizer.encode(text).ids if text else [])
    if tokenizer.is_of_pieces:
        within = tuple(i for i, token in enumerate(tokenizer.tokens) if is_continued(token))
        return Beginning(tokenizer.encode(text).ids, within)
    mark = next(letter for letter, byte in BYTES.items() if byte == ord(" ")) if tokenizer.is_of_bytes else BLANK
    without = tuple(i for i, token in enumerate(tokenizer.tokens) if not token.startswith(mark) or token == mark)
    return Beginning(tokenizer.encode(text[:-1]).ids, without)
