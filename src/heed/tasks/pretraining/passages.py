"""Documents as one array of tokens, and the rows of one or two texts that are cut from it.

| | first text | second text |
|---|---|---|
| follows | sentences of a document | the sentences after them |
| does not follow | sentences of a document | the second text of another row, of another document |
| no question | sentences of a document | none: the rest is too short for two texts |

Only both texts together show whether the second follows. The pairs that do not follow are made by exchanging second
texts between rows of about equal length. Passes 2k and 2k + 1 cut the documents in the same way, and a pair that
follows in one does not in the other, so that every text is equally often in both kinds.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Next Sentence Prediction", and appendix A.2.
Differs from the paper: negatives are exchanged instead of drawn, so that neither length nor the second text gives
them away; documents are cut again every two passes instead of ten times before training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import split_sentences
from heed.data.kinds.documents import Document
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.documents import EncodedDocuments, encode_documents

PIECE, WORD, SENTENCE = 1, 2, 4
"""Flags of a token: it begins a unit of the tokenizer (a word or a mark), a word after a space, a sentence."""
_BLANKS = [9, 10, 11, 12, 13, 32, 0xA0, 0x3000]


@dataclass(frozen=True)
class Passages(EncodedDocuments):
    """The tokens of all documents, concatenated, without start and end tokens.

    Attributes:
        ids: `(tokens,)`, integers of the smallest type that fits the vocabulary.
        flags: `(tokens,)` uint8, what begins at each token: `PIECE`, `WORD`, `SENTENCE`.
        starts: `(documents + 1,)` int64, where each document begins; the last is the number of tokens.
        widths: `(vocab_size,)` uint8, number of characters of each token of the vocabulary.
    """

    ids: NDArray[Any]
    flags: NDArray[np.uint8]
    starts: NDArray[np.int64]
    widths: NDArray[np.uint8]

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer) -> Passages:
        """Encode documents, see `encode_documents`."""
        widths = np.minimum([len(token) for token in tokenizer.tokens], 255).astype(np.uint8)

        def encode(texts: list[str]) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8]]]:
            return _flagged([plain_text(text) for text in texts], tokenizer)

        starts, ids, flags = encode_documents(documents, tokenizer, encode, {"flags": "u1"}, kind="passages")
        return cls(ids, flags, starts, widths)

    def characters(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of characters in each of some ranges of tokens, none empty."""
        if not len(starts):
            return np.zeros(0, np.int64)
        widths = np.append(self.widths[self.ids], 0)  # a range may end with the last token
        ends = np.stack([starts, stops], axis=1).reshape(-1)
        return np.add.reduceat(widths, ends, dtype=np.int64)[::2]

    def begins(self, flag: int) -> NDArray[np.int64]:
        """Positions of the tokens with a flag, in order; every document begins with all flags."""
        return np.flatnonzero(self.flags & flag)


def plain_text(text: str) -> tuple[str, list[int]]:
    """A document as the model reads it: its sentences separated by one space; and where each begins."""
    sentences = [text[start:end] for start, end in split_sentences(text)]
    lengths = [0, *(len(sentence) + 1 for sentence in sentences[:-1])]
    return " ".join(sentences), np.cumsum(lengths).tolist() if sentences else []


def _flagged(texts: list[tuple[str, list[int]]], tokenizer: TextTokenizer) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
    encodings = tokenizer.library.encode_batch([text for text, _ in texts], add_special_tokens=False)
    for (text, sentences), encoding in zip(texts, encodings, strict=True):
        ids = np.array(encoding.ids, dtype=np.int32)
        flags = np.zeros(len(ids), dtype=np.uint8)
        if len(ids):
            starts, stops = np.array(encoding.offsets, dtype=np.int64).T
            words = np.array([-1 if one is None else one for one in encoding.word_ids])
            flags |= PIECE * (np.diff(words, prepend=-2) != 0).astype(np.uint8)
            characters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
            blank = np.append(_is_blank(characters), True)
            # A token that begins with a space or follows one; never within a character's bytes.
            fresh = np.diff(starts, prepend=-1) > 0
            flags |= WORD * (fresh & (blank[starts] | blank[starts - 1] | (starts == 0))).astype(np.uint8)
            # The first token that ends after the beginning of a sentence.
            first = np.searchsorted(stops, np.array(sentences), side="right")
            flags[np.unique(first[first < len(ids)])] |= SENTENCE
            flags[0] |= PIECE | WORD | SENTENCE
        yield ids, flags


def _is_blank(characters: NDArray[Any]) -> NDArray[np.bool_]:
    blanks: NDArray[np.bool_] = np.isin(characters, _BLANKS)
    return blanks


FOLLOWS, FOLLOWS_NOT, NO_QUESTION = 0, 1, -1
"""Labels of a row."""
_NEAR = 16
"""Number of rows of similar length that exchange their second texts."""
_TRIES = 20
_LEAST = 10
"""Smallest number of words of each text of a training pair, at the end of a document."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """How documents are cut into rows.

    Attributes:
        length: Most tokens of a row, without start and end tokens.
        words: Words of each text of a pair; None for sentences. In training the rest of a document is a pair of shorter
            texts, if each has at least ten words.
        pairs: True if rows are pairs.
    """

    length: int
    words: int | None = None
    pairs: bool = True


@dataclass(frozen=True)
class Rows:
    """Places in the tokens of some documents, `(rows,)` each.

    Attributes:
        first: Where the first text begins.
        first_end: Where it ends.
        second: Where the second text begins.
        second_end: Where it ends; equal to `second` if there is none.
        labels: `FOLLOWS`, `FOLLOWS_NOT` or `NO_QUESTION`.
    """

    first: Places
    first_end: Places
    second: Places
    second_end: Places
    labels: Places

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.first)

    @property
    def lengths(self) -> Places:
        """Tokens of each row, start and end tokens included."""
        second = self.second_end - self.second
        return self.first_end - self.first + second + 2 + (second > 0)


def draw_rows(passages: Passages, cut: Cut, seed: int, epoch: int | None) -> Rows:
    """Draw the rows of one pass from (seed, epoch); epoch None draws those of evaluation, always the same."""
    generator = _generator(seed if epoch is not None else 0, -1 if epoch is None else epoch // 2)
    first, middle, end = _cut(passages, cut, generator, shifts=epoch is not None)
    is_pair = middle < end
    labels = np.where(is_pair, FOLLOWS, NO_QUESTION)
    second, second_end = middle.copy(), end.copy()
    if cut.pairs:
        pairs = np.flatnonzero(is_pair)
        chosen = generator.permutation(pairs)
        half = len(chosen) // 2
        negative = chosen[half:] if epoch is not None and epoch % 2 else chosen[:half]
        documents, sizes = passages.document_at(first), passages.characters(middle[negative], end[negative])
        given, possible = _exchanged(documents, end - middle, sizes, negative, generator)
        second[negative], second_end[negative] = middle[given], end[given]
        labels[negative] = np.where(possible, FOLLOWS_NOT, NO_QUESTION)
        # If the exchanged text is too long for the row, the first text begins later.
        first = np.maximum(first, middle - (cut.length - (second_end - second)))
    return Rows(first, middle, second, second_end, labels)


def _cut(passages: Passages, cut: Cut, generator: np.random.Generator, shifts: bool) -> tuple[Places, Places, Places]:
    """Where each row's first text begins, where the second begins, and where the second ends.

    Rows are filled with as many whole units (sentences, or words) as fit; with `shifts` the first row of each document
    is shortened at random, so that rows begin elsewhere in other passes.
    """
    bounds = _units(passages, cut)
    ends = np.append(bounds, len(passages))  # the end of unit u is ends[u + 1]
    last = np.searchsorted(bounds, passages.starts[1:])  # one after the last unit of each document
    at = np.searchsorted(bounds, passages.starts[:-1])
    at, last = at[at < last], last[at < last]
    parts: list[tuple[Places, Places]] = []
    while len(at):
        shorter = generator.random(len(at)) if shifts and not parts else np.ones(len(at))
        if cut.words is not None:
            most = np.ceil(2 * cut.words * shorter).astype(np.int64)
            stop = np.minimum(at + most, last)
        else:
            room = np.maximum(1, np.ceil(cut.length * np.maximum(shorter, 0.25))).astype(np.int64)
            stop = np.clip(np.searchsorted(ends, ends[at] + room, side="right") - 1, at + 1, last)
        parts.append((at, stop))
        at, last = stop[stop < last], last[stop < last]
    begin, stop = (np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64) for i in (0, 1))
    order = np.argsort(begin, kind="stable")
    begin, stop = begin[order], stop[order]
    if not cut.pairs:
        middle = stop
    elif cut.words is not None:
        count = stop - begin
        least = 2 * min(_LEAST, cut.words) if shifts else 2 * cut.words
        middle = np.where(count >= least, begin + count // 2, stop)
    else:
        middle = begin + 1 + np.floor(generator.random(len(begin)) * (stop - begin - 1)).astype(np.int64)
        middle = np.where(stop - begin > 1, middle, stop)
    first, second, end = ends[begin], ends[middle], ends[stop]
    half = cut.length // 2
    if cut.words is not None:  # so many words may be more tokens than fit into a row; the two texts stay adjacent
        is_pair = second < end
        first = np.where(is_pair, np.maximum(first, second - half), first)
        end = np.where(is_pair, np.minimum(end, second + half), end)
        second = np.where(is_pair, second, np.minimum(second, first + cut.length))
        end = np.where(is_pair, end, second)
    return first, second, end


def _units(passages: Passages, cut: Cut) -> Places:
    """Where the units of rows begin; no sentence is longer than half a row."""
    if cut.words is not None:
        bounds = passages.begins(WORD)
    elif not cut.pairs:
        bounds = passages.begins(PIECE)
    else:
        bounds = passages.begins(SENTENCE)
        words = passages.begins(PIECE)
        longest = max(1, cut.length // 2)
        ends = np.append(bounds[1:], len(passages))
        further = []
        for start, end in zip(bounds[ends - bounds > longest], ends[ends - bounds > longest], strict=True):
            while end - start > longest:  # a long sentence is cut into several, between words
                place = words[np.searchsorted(words, start + longest, side="right") - 1]
                start = place if place > start else start + longest
                further.append(start)
        bounds = np.sort(np.concatenate([bounds, np.array(further, dtype=np.int64)]))
    return bounds


def _exchanged(
    documents: Places, lengths: Places, sizes: Places, rows: Places, generator: np.random.Generator
) -> tuple[Places, NDArray[np.bool_]]:
    """For each chosen row, the row of another document whose second text it receives; and whether there was one.

    Every second text is used once. Rows exchange with those of similar length, in tokens and then in characters: texts
    of one document are similar in both, so that unequal lengths would give a negative away.

    Args:
        documents: Document of each row.
        lengths: Tokens of the second text of each row.
        sizes: Characters of the second texts of the chosen rows.
        rows: The chosen rows.
        generator: Random generator.
    """
    order = np.lexsort((generator.random(len(rows)), sizes, lengths[rows]))
    ordered = rows[order]
    count = len(ordered)
    given = np.arange(count)
    for start in range(0, max(1, count - _NEAR + 1), _NEAR):
        stop = count if start + 2 * _NEAR > count else start + _NEAR
        given[start:stop] = np.roll(given[start:stop], -1)
    document = documents[ordered]
    for attempt in range(_TRIES):
        same = np.flatnonzero(document == document[given])
        if not len(same):
            break
        reach = count if attempt >= _TRIES // 2 else 2 * _NEAR
        for place in same.tolist():
            if document[place] != document[given[place]]:
                continue  # already resolved by an exchange with another row
            other = int(np.clip(place + generator.integers(-reach, reach + 1), 0, count - 1))
            if document[place] != document[given[other]] and document[other] != document[given[place]]:
                given[place], given[other] = given[other], given[place]
    result = np.empty(count, dtype=np.int64)
    result[order] = ordered[given]
    possible = np.empty(count, dtype=bool)
    possible[order] = document != document[given]
    return result, possible


def _generator(seed: int, epoch: int) -> np.random.Generator:
    digest = hashlib.blake2b(f"rows {seed} {epoch}".encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
