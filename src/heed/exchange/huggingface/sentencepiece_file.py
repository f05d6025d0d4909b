"""Models of SentencePiece (`.spm`, `.model`), read without that library, as tokenizers of the library `tokenizers`.

The file is a protocol buffer, `ModelProto` of `sentencepiece_model.proto`: numbered fields, of which only those that
decide how texts are split are read here. Pieces that texts are never split into (control, unused, unknown) keep their
place under a name that occurs in no text.

Source: Kudo and Richardson 2018, SentencePiece, arXiv:1808.06226; the numbers are those of its `.proto` file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from heed.errors import RunError

BLANK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of pieces."""
_KINDS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}
_NAMELESS = "\ufdd0"
"""First character of the name of a piece that texts are never split into: a code point that is no character."""


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    type: int = NORMAL


@dataclass(frozen=True)
class SentencePieceFile:
    """The contents of a file that decide how texts are split."""

    pieces: Sequence[Piece]
    kind: Literal["unigram", "bpe"]
    normalisation: bytes = b""  # a compiled map of characters; empty for none
    prefixes_blank: bool = True  # a blank is put before a text
    strips: bool = True  # blanks around a text, and all but one within, are left out
    byte_fallback: bool = False  # what is unknown is cut into bytes

    @classmethod
    def read(cls, path: Path) -> SentencePieceFile:
        """Read a file.

        Raises:
            RunError: The file is missing, damaged, or of an unsupported kind.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror or error}") from None
        try:
            return cls.parse(data)
        except (ValueError, IndexError, struct.error) as error:
            raise RunError(f"{path} is not a SentencePiece model, or is damaged: {error}") from None

    @classmethod
    def parse(cls, data: bytes) -> SentencePieceFile:
        """From the contents of a file; a ValueError, IndexError or struct.error where they are none."""
        pieces: list[Piece] = []
        trainer: dict[int, Any] = {}
        normalizer: dict[int, Any] = {}
        for number, value in _fields(data):
            if number == 1:
                fields = dict(_fields(_bytes(value)))
                (score,) = struct.unpack("<f", _bytes(fields.get(2, b"\0\0\0\0")))
                pieces.append(Piece(_bytes(fields.get(1, b"")).decode("utf-8"), score, int(fields.get(3, NORMAL))))
            elif number == 2:
                trainer = dict(_fields(_bytes(value)))
            elif number == 3:
                normalizer = dict(_fields(_bytes(value)))
        if not pieces:
            raise ValueError("it has no pieces")
        if (kind := trainer.get(3, 1)) not in _KINDS:
            raise ValueError("it is of whole words or characters; unigram and bpe are read")
        if not normalizer.get(5, 1):
            raise ValueError("its spaces are not escaped")
        if trainer.get(24, 0):
            raise ValueError("its pieces end with the space instead of starting with it")
        return cls(
            pieces,
            _KINDS[kind],
            _bytes(normalizer.get(2, b"")),
            bool(normalizer.get(3, 1)),
            bool(normalizer.get(4, 1)),
            bool(trainer.get(35, 0)),
        )

    @property
    def unknown(self) -> int:
        """Index of the unknown piece."""
        return next((i for i, piece in enumerate(self.pieces) if piece.type == UNKNOWN), 0)

    def cutter(self) -> Tokenizer:
        """What cuts texts as the file says; its ids are the places of the pieces."""
        names = [
            piece.text if piece.type in (NORMAL, USER_DEFINED, BYTE) else f"{_NAMELESS}{i}"
            for i, piece in enumerate(self.pieces)
        ]
        tokenizer = Tokenizer(self._unigram(names) if self.kind == "unigram" else self._bpe(names))
        steps: list[Any] = [normalizers.Precompiled(self.normalisation)] if self.normalisation else []
        if self.strips:
            steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
        elif self.prefixes_blank:  # before a blank too, where `Metaspace` puts none
            steps.append(normalizers.Prepend(" "))
        if steps:
            tokenizer.normalizer = normalizers.Sequence(steps)
        apart = not any(BLANK in piece.text[1:] for piece in self.pieces if piece.text.strip(BLANK))
        scheme: Literal["always", "never"] = "always" if self.prefixes_blank and self.strips else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme, split=apart)
        joined = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme, split=apart)
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), joined]) if self.byte_fallback else joined
        return tokenizer

    def _unigram(self, names: Sequence[str]) -> models.Unigram:
        best = max((piece.score for piece in self.pieces if piece.type == NORMAL), default=0.0)
        scores = [
            len(piece.text.encode()) * best - 0.1 if piece.type == USER_DEFINED else piece.score
            for piece in self.pieces
        ]
        return models.Unigram([*zip(names, scores, strict=True)], self.unknown, self.byte_fallback)

    def _bpe(self, names: Sequence[str]) -> models.BPE:
        """Merges, in order of the scores of the pieces that they give, since SentencePiece stores no merges."""
        ids = {name: i for i, name in enumerate(names)}
        merges = [
            (-piece.score, ids[left], ids[right], left, right)
            for piece in self.pieces
            if piece.type == NORMAL
            for left, right in ((piece.text[:n], piece.text[n:]) for n in range(1, len(piece.text)))
            if left in ids and right in ids
        ]
        pairs = [(left, right) for *_, left, right in sorted(merges)]
        return models.BPE(
            vocab=ids,
            merges=pairs,
            unk_token=names[self.unknown],
            fuse_unk=True,
            byte_fallback=self.byte_fallback,
        )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: number and value, a number or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(data, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of the kind {wire} at byte {place}")
        if place + size > len(data) or not number:
            raise ValueError(f"it ends in the middle of a field, at byte {place}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of variable length that starts at a position, and the position after it."""
    value = shift = 0
    while shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError(f"a number of more than 64 bits at byte {place}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where text should be")
    return value
