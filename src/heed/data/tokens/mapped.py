"""Tokenizers that cut by one vocabulary and number by another, like Marian's pairs of SentencePiece models.

Each side has its own model that cuts texts into pieces; the ids of the pieces are looked up in a table, shared by both
sides or one for each. A piece missing from the table is the unknown token, even if the cutting model knows it; a piece
unknown to the cutting model may be in the table. A text may begin with a language code such as ">>fra<<", which is a
separate token and is not cut.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders

from heed.data.tokens.special import BLANK, SPECIAL_TOKENS, UNKNOWN
from heed.data.tokens.subwords import SubwordSampler
from heed.data.tokens.tokenizer import Encoded, TextTokenizer
from heed.errors import ConfigError
from heed.storage.disk import write_whole

_CODE = re.compile(r">>.*?<<", re.DOTALL)
"""A language code at the start of a text."""
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class MappedTokenizer(TextTokenizer):
    """A tokenizer that cuts with one tokenizer and numbers with a table of tokens.

    Attributes:
        origin: Content of the file from which the cutting tokenizer was made; empty if there was none.
    """

    def __init__(
        self, cutter: Tokenizer, vocabulary: Sequence[str], origin: bytes = b"", tags: Sequence[str] = ()
    ) -> None:
        """Combine both; `vocabulary` has the special tokens first, its `tags` never occur in texts."""
        super().__init__(cutter)
        self.origin = origin
        self._vocabulary = list(vocabulary)
        self._tags = list(tags)
        self._number()

    def _number(self) -> None:
        first, marks = len(SPECIAL_TOKENS), {*self._tags}
        self._places = {token: i for i, token in reversed([*enumerate(self._vocabulary)]) if i >= first}
        known = {token: i for token, i in self._places.items() if token not in marks}
        cutter = self._tokenizer
        names = (cutter.id_to_token(i) or "" for i in range(cutter.get_vocab_size()))
        self._ids = [known.get(name, UNKNOWN) for name in names]
        self._of_bytes = any(_BYTE.fullmatch(token) for token in self._vocabulary)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self._vocabulary)

    @property
    def tags(self) -> dict[str, int]:
        """Tokens that mark the origin of a text; no text is ever tokenized into one."""
        return {tag: self._places[tag] for tag in self._tags}

    def add_tags(self, tags: Iterable[str]) -> None:
        """Append tags such as "<bt>" to the vocabulary; existing ones stay as they are."""
        for tag in tags:
            if tag not in self._places:
                self._vocabulary.append(tag)
                self._tags.append(tag)
                self._number()

    @property
    def mask(self) -> int | None:
        """None: these tokenizers have no mask token."""
        return None

    def encode(self, text: str) -> Encoded:
        """Convert one text to tokens, without start and end."""
        code, rest = self._split(text)
        encoding = self._tokenizer.encode(rest, add_special_tokens=False)
        spans = [(a + len(code), b + len(code)) for a, b in encoding.offsets]
        ids = self._numbered(encoding)
        return Encoded([self._code(code), *ids], [(0, len(code)), *spans]) if code else Encoded(ids, spans)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Convert many texts to ids, without start and end."""
        rests = [self._split(text)[1] for text in texts]
        encodings = self._tokenizer.encode_batch_fast(rests, add_special_tokens=False)
        encoded = []
        for text, rest, encoding in zip(texts, rests, encodings, strict=True):
            ids = [self._ids[i] for i in encoding.ids]
            whole = UNKNOWN not in ids and len(rest) == len(text)
            encoded.append(ids if whole else self.encode(text).ids)  # the fast encoding has no text of tokens
        return encoded

    def _split(self, text: str) -> tuple[str, str]:
        found = _CODE.match(text)
        return ("", text) if found is None else (found[0], text[found.end() :])

    def _code(self, code: str) -> int:
        return self._places.get(code, UNKNOWN)

    def _numbered(self, encoding: Any) -> list[int]:
        """Ids by the table; for pieces unknown to the cutting model, by their text."""
        ids = [self._ids[i] for i in encoding.ids]
        if UNKNOWN in ids:
            for n, token in enumerate(encoding.tokens):
                if ids[n] == UNKNOWN and token not in self._tags:
                    ids[n] = self._places.get(token, UNKNOWN)
        return ids

    def token(self, token: int) -> str:
        """The text of one token as in the vocabulary."""
        return self._vocabulary[token] if 0 <= token < len(self._vocabulary) else self._vocabulary[UNKNOWN]

    def decode(self, ids: Sequence[int], instead: Mapping[int, str] | None = None) -> str:
        """Raw text of tokens, without special ones; `instead` has words for some positions (unknown words)."""
        given = instead or {}
        silent = {*range(len(SPECIAL_TOKENS)), *self.tags.values()}
        kept = [given.get(n, self.token(i)) for n, i in enumerate(ids) if n in given or i not in silent]
        text = decoders.ByteFallback().decode(kept) if self._of_bytes else "".join(kept)
        return text.replace(BLANK, " ").strip()

    @property
    def is_exact(self) -> bool:
        """False: spaces around a text are lost."""
        return False

    def sampler(self, amount: float) -> SubwordSampler:
        """Not available."""
        raise ConfigError(f"tokenizer.sampling is {amount}, but an imported pair of tokenizers cannot sample")

    @property
    def text(self) -> str:
        """The tokenizer as JSON."""
        state = {
            "cutter": json.loads(self._tokenizer.to_str()),
            "vocabulary": self._vocabulary,
            "tags": self._tags,
            "origin": base64.b64encode(self.origin).decode("ascii"),
        }
        return json.dumps(state, ensure_ascii=False)

    def save(self, path: Path) -> None:
        """Write the tokenizer as JSON."""
        write_whole(path, lambda part: part.write_text(self.text, encoding="utf-8"))

    @classmethod
    def of_text(cls, text: str) -> MappedTokenizer:
        """From the JSON of `text`; a KeyError, ValueError or TypeError if it is something else."""
        state = json.loads(text)
        cutter = Tokenizer.from_str(json.dumps(state["cutter"]))
        origin = base64.b64decode(state["origin"], validate=True)
        return cls(cutter, list(state["vocabulary"]), origin, list(state["tags"]))
