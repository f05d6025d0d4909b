"""Documents as one array of tokens, the rows of one or two texts that are cut from it, and their masked batches.

| | first text | second text |
|---|---|---|
| follows | sentences of a document | the sentences after them |
| does not follow | sentences of a document | the second text of another row, of another document |
| no question | sentences of a document | none: the rest is too short for two texts |

Only both texts together show whether the second follows. The pairs that do not follow are made by exchanging second
texts between rows of about equal length. Passes 2k and 2k + 1 cut the documents in the same way, and a pair that
follows in one does not in the other, so that every text is equally often in both kinds.

Of the tokens of a text, 15 % are chosen. Of these, 80 % are read as the mask token, 10 % as a random token and 10 %
unchanged. The choice and the replacements depend only on the seed, the pass and the row, not on the batch or the
process. With whole words the pieces of a word are chosen together.

Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1 and appendices A.1 and A.2. Whole words are those of the
checkpoints that its authors published later.
Differs from the paper: negatives are exchanged instead of drawn, so that neither length nor the second text gives
them away; documents are cut again every two passes instead of ten times before training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heed.config.data import Documents
from heed.data.batch import frame, pad_rows
from heed.data.examples import STEP, mixed, split_sentences
from heed.data.kinds.documents import Document, EncodedDocuments, encode_documents
from heed.data.tokens import Special, refused_texts
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks.contracts import Batch

PIECE, WORD, SENTENCE = 1, 2, 4
"""Flags of a token: it begins a unit of the tokenizer (a word or a mark), a word after a space, a sentence."""
_BLANKS = [9, 10, 11, 12, 13, 32, 0xA0, 0x3000]


@dataclass(frozen=True)
class Passages(EncodedDocuments):
    """The tokens of all documents, concatenated, without start and end tokens."""

    ids: NDArray[Any]  # `(tokens,)`, integers of the smallest type that fits the vocabulary
    flags: NDArray[np.uint8]  # `(tokens,)` uint8, what begins at each token: `PIECE`, `WORD`, `SENTENCE`
    starts: NDArray[np.int64]  # `(documents + 1,)` int64, where each document begins; the last is the number of tokens
    widths: NDArray[np.uint8]  # `(vocab_size,)` uint8, number of characters of each token of the vocabulary

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer) -> Passages:
        """Encode documents, see `encode_documents`."""
        widths = np.minimum([len(token) for token in tokenizer.tokens], 255).astype(np.uint8)
        encode = partial(_flagged, tokenizer)
        starts, ids, flags = encode_documents(documents, tokenizer, encode, ["u1"], form="passages")
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


def _flagged(tokenizer: TextTokenizer, texts: list[str]) -> Iterator[tuple[Any, NDArray[np.uint8]]]:
    """The tokens of each text, and their flags."""
    plain, sentences_of = zip(*map(plain_text, texts), strict=True)
    with refused_texts(*plain):
        encodings = tokenizer.library.encode_batch(plain, add_special_tokens=False)
    for text, sentences, encoding in zip(plain, sentences_of, encodings, strict=True):
        ids = np.array(encoding.ids, dtype=np.int32)
        flags = np.zeros(len(ids), dtype=np.uint8)
        if len(ids):
            starts, stops = np.array(encoding.offsets, dtype=np.int64).T
            words = np.array([-1 if word is None else word for word in encoding.word_ids])
            flags |= PIECE * (np.diff(words, prepend=-2) != 0).astype(np.uint8)
            characters = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
            blank = np.append(np.isin(characters, _BLANKS), True)
            # A token that begins with a space or follows one; never within a character's bytes.
            fresh = np.diff(starts, prepend=-1) > 0
            flags |= WORD * (fresh & (blank[starts] | blank[starts - 1] | (starts == 0))).astype(np.uint8)
            # The first token that ends after the beginning of a sentence.
            first = np.searchsorted(stops, np.array(sentences), side="right")
            flags[np.unique(first[first < len(ids)])] |= SENTENCE
            flags[0] |= PIECE | WORD | SENTENCE
        yield ids, flags


FOLLOWS, FOLLOWS_NOT, NO_QUESTION = 0, 1, -1
"""Labels of a row."""
_NEAR = 16
"""Number of rows of similar length that exchange their second texts."""
_TRIES = 20
_MIN_WORDS = 10
"""Smallest number of words of each text of a training pair, at the end of a document."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """How documents are cut into rows."""

    length: int  # largest number of tokens of a row, without start and end tokens
    # Words of each text of a pair; None for sentences. In training the rest of a document is a pair of shorter texts,
    # if each has at least ten words
    words: int | None = None
    pairs: bool = True  # True if rows are pairs


@dataclass(frozen=True, eq=False)
class Rows(Sequence[Any]):
    """Rows of one or two texts: places in the tokens of some documents, and labels, `(rows,)` each."""

    passages: Passages
    first: Places  # where the first text begins
    first_end: Places  # where it ends
    second: Places  # where the second text begins
    second_end: Places  # where it ends; equal to `second` if there is none
    labels: Places  # `FOLLOWS`, `FOLLOWS_NOT` or `NO_QUESTION`
    numbers: Places  # the number of each in its pass, on which its masks depend
    masked: Any = None  # bool, True where words are masked, for scoring; None in training
    unread: Places | None = None  # tokens of the texts of a question that are not in its row

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.first)

    def __getitem__(self, row: Any) -> Any:
        return self.select([row])

    def select(self, chosen: Sequence[int] | NDArray[Any]) -> Rows:
        """Some of the rows."""
        which = np.asarray(chosen, dtype=np.int64)
        parts: dict[str, Any] = {n: part[which] for n, part in vars(self).items() if isinstance(part, np.ndarray)}
        return replace(self, **parts)

    @property
    def lengths(self) -> Places:
        """Tokens of each row, start and end tokens included."""
        second = self.second_end - self.second
        return self.first_end - self.first + second + 2 + (second > 0)


def draw_rows(passages: Passages, cut: Cut, seed: int, epoch: int | None) -> Rows:
    """Draw the rows of one pass from (seed, epoch); without an epoch, the fixed rows of evaluation."""
    seeds = f"rows {seed if epoch is not None else 0} {-1 if epoch is None else epoch // 2}"
    digest = hashlib.blake2b(seeds.encode(), digest_size=8).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "big"))
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
        negative, partner, possible = _exchanged(documents, end - middle, sizes, negative, generator)
        second[negative], second_end[negative] = middle[partner], end[partner]
        labels[negative] = np.where(possible, FOLLOWS_NOT, NO_QUESTION)
        # If the exchanged text is too long for the row, the first text begins later.
        first = np.maximum(first, middle - (cut.length - (second_end - second)))
    return Rows(passages, first, middle, second, second_end, labels, np.arange(len(first)))


def _cut(passages: Passages, cut: Cut, generator: np.random.Generator, shifts: bool) -> tuple[Places, Places, Places]:
    """The beginnings of the first and second texts of rows, and the ends of the second texts.

    Rows are filled with as many whole units (sentences, or words) as fit; with `shifts` the first row of each document
    is shortened at random, so that rows begin elsewhere in other passes.
    """
    bounds = _units(passages, cut)
    ends = np.append(bounds, len(passages))  # the end of unit u is ends[u + 1]
    last = np.searchsorted(bounds, passages.starts[1:])  # one after the last unit of each document
    at = np.searchsorted(bounds, passages.starts[:-1])
    at, last = at[at < last], last[at < last]
    begins, stops = [at[:0]], [at[:0]]
    while len(at):
        shorter = generator.random(len(at)) if shifts and len(begins) == 1 else np.ones(len(at))
        if cut.words is not None:
            max_words = np.ceil(2 * cut.words * shorter).astype(np.int64)
            stop = np.minimum(at + max_words, last)
        else:
            room = np.maximum(1, np.ceil(cut.length * np.maximum(shorter, 0.25))).astype(np.int64)
            stop = np.clip(np.searchsorted(ends, ends[at] + room, side="right") - 1, at + 1, last)
        begins.append(at)
        stops.append(stop)
        at, last = stop[stop < last], last[stop < last]
    begin, stop = (np.sort(np.concatenate(parts)) for parts in (begins, stops))
    if not cut.pairs:
        middle = stop
    elif cut.words is not None:
        count = stop - begin
        min_words = 2 * min(_MIN_WORDS, cut.words) if shifts else 2 * cut.words
        middle = np.where(count >= min_words, begin + count // 2, stop)
    else:
        middle = begin + 1 + np.floor(generator.random(len(begin)) * (stop - begin - 1)).astype(np.int64)
        middle = np.where(stop - begin > 1, middle, stop)
    first, second, end = ends[begin], ends[middle], ends[stop]
    half = cut.length // 2
    if cut.words is not None:  # so many words may be more tokens than fit into a row; the two texts stay adjacent
        is_pair = second < end
        first[is_pair] = np.maximum(first, second - half)[is_pair]
        end[is_pair] = np.minimum(end, second + half)[is_pair]
        second[~is_pair] = end[~is_pair] = np.minimum(second, first + cut.length)[~is_pair]
    return first, second, end


def _units(passages: Passages, cut: Cut) -> Places:
    """The beginnings of the units of rows; no sentence is longer than half a row."""
    if cut.words is not None:
        return passages.begins(WORD)
    pieces = passages.begins(PIECE)
    if not cut.pairs:
        return pieces
    bounds, longest, further = passages.begins(SENTENCE), max(1, cut.length // 2), list[int]()
    ends = np.append(bounds[1:], len(passages))
    for start, end in zip(bounds[ends - bounds > longest], ends[ends - bounds > longest], strict=True):
        while end - start > longest:  # a long sentence is cut into several, between words
            place = pieces[np.searchsorted(pieces, start + longest, side="right") - 1]
            start = place if place > start else start + longest
            further.append(start)
    return np.sort(np.concatenate([bounds, np.array(further, dtype=np.int64)]))


def _exchanged(
    documents: Places, lengths: Places, sizes: Places, rows: Places, generator: np.random.Generator
) -> tuple[Places, Places, NDArray[np.bool_]]:
    """The chosen rows in another order, for each the row whose second text it receives; and False if of its document.

    Every second text is used once. Rows exchange with those of similar length, in tokens and then in characters: texts
    of one document are similar in both, so that unequal lengths would give a negative away.

    Args:
        documents: Document of each row.
        lengths: Tokens of the second text of each row.
        sizes: Characters of the second texts of the chosen rows.
        rows: The chosen rows.
        generator: Random generator.
    """
    ordered = rows[np.lexsort((generator.random(len(rows)), sizes, lengths[rows]))]
    count = len(ordered)
    partner = np.arange(count)
    for start in range(0, max(1, count - _NEAR + 1), _NEAR):
        stop = count if start + 2 * _NEAR > count else start + _NEAR
        partner[start:stop] = np.roll(partner[start:stop], -1)
    document = documents[ordered]
    for attempt in range(_TRIES):
        same = np.flatnonzero(document == document[partner])
        if not len(same):
            break
        reach = count if attempt >= _TRIES // 2 else 2 * _NEAR
        for place in same.tolist():
            if document[place] != document[partner[place]]:
                continue  # already resolved by an exchange with another row
            other = int(np.clip(place + generator.integers(-reach, reach + 1), 0, count - 1))
            if document[place] != document[partner[other]] and document[other] != document[partner[place]]:
                partner[place], partner[other] = partner[other], partner[place]
    return ordered, ordered[partner], document != document[partner]


@dataclass(frozen=True)
class Masking:
    """How tokens are masked."""

    options: Documents  # the shares of tokens, and whether the pieces of a word are chosen together
    mask: int  # the mask token
    others: NDArray[np.int64]  # `(n,)`, the tokens that random ones are drawn from


def mask_rows(
    tokens: NDArray[np.int64],
    candidates: NDArray[np.bool_],
    word_starts: NDArray[np.bool_],
    masking: Masking,
    seeds: tuple[int, int],
    rows: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Mask some rows; return the tokens to read, and True where a token is to be predicted, `(rows, length)` each.

    At least one token is chosen in every row that has a candidate.

    Args:
        tokens: `(rows, length)`.
        candidates: `(rows, length)`, True on tokens that may be chosen.
        word_starts: `(rows, length)`, True where a word begins; a token that is not a candidate ends a word.
        masking: How tokens are masked.
        seeds: Seed and pass.
        rows: `(rows,)`, the number of each row in the pass.
    """
    how, places = masking.options, np.arange(tokens.shape[1])
    draw = [_uniform(seeds, rows, places, kind) for kind in range(3)]
    num_masked = np.maximum(np.rint(how.mask_share * candidates.sum(1)), candidates.any(1)).astype(np.int64)
    keys = draw[0]
    if how.whole_words:
        # Each piece has the random number of its word's first piece.
        starts = word_starts | ~candidates | ~np.roll(candidates, 1, axis=1)
        starts[:, 0] = True
        keys = np.take_along_axis(keys, np.maximum.accumulate(np.where(starts, places, 0), axis=1), axis=1)
    keys = np.where(candidates, keys, 2.0)
    limits = np.pad(np.sort(keys, axis=1), ((0, 0), (0, 1)), constant_values=2.0)
    # A word that does not fit whole is left out, except the first.
    chosen = keys < np.take_along_axis(limits, num_masked[:, None], axis=1)
    chosen |= candidates & ~chosen.any(1, keepdims=True) & (keys == limits[:, :1])
    read = np.where(chosen & (draw[1] < how.mask_token_share), masking.mask, tokens)
    is_random = chosen & (draw[1] >= how.mask_token_share)
    is_random &= draw[1] < how.mask_token_share + how.random_token_share
    instead = masking.others[(draw[2] * len(masking.others)).astype(np.int64)]
    return np.where(is_random, instead, read), chosen


def _uniform(
    seeds: tuple[int, int], rows: NDArray[np.int64], places: NDArray[np.int64], kind: int
) -> NDArray[np.float64]:
    """Numbers in [0, 1) for each row and place, `(rows, places)`, from a hash of all arguments.

    The hash is splitmix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators").
    """
    base = _mixed(_mixed(_mixed(np.uint64(seeds[0] % 2**64)) ^ np.uint64(seeds[1] % 2**64)) ^ np.uint64(kind))
    of_row = _mixed(base ^ rows.astype(np.uint64))  # (rows,)
    numbers = _mixed(of_row[:, None] ^ places.astype(np.uint64))
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(number: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        return np.asarray(mixed(np.asarray(number + STEP, dtype=np.uint64)), dtype=np.uint64)


def collate_rows(rows: Rows, masking: Masking | None, seeds: tuple[int, int], double: bool, special: Special) -> Batch:
    """Rows `START a END` or `START a END b END`, B of length L, of a pass; without a masking no word is masked.

    | name | shape | |
    |---|---|---|
    | tokens | `(B, L)` int64 | the inputs |
    | mask | `(B, L)` bool | True on all but padding |
    | places | `(M,)` int64 | the masked words: row * L + position |
    | words | `(M,)` int64 | the tokens that were masked |
    | order | `(B,)` int64 | the label of each row |
    | shares | `(B,)` float32 | weight of each pair: its number of masked words, or 1 if no words are masked |

    Targets are the masked words, or the pairs if no words are masked. `seeds` are the seed and the pass; with `double`,
    two end tokens are put between two texts.
    """
    ends = np.stack([rows.first, rows.first_end, rows.second, rows.second_end], axis=1).tolist()

    def framed(values: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """The values of the tokens of each row, padded, and their mask."""
        sides = ((values[a:b].tolist(), values[c:d].tolist() if d > c else None) for a, b, c, d in ends)
        return pad_rows([frame(*texts, double, special) for texts in sides])

    tokens, mask = framed(rows.passages.ids)
    read, places, words = tokens.numpy(), np.zeros(0, np.int64), np.zeros(0, np.int64)
    weights = np.ones(len(rows), np.float32)
    if masking is not None:
        candidates = (mask & ~torch.isin(tokens, torch.tensor([special.start, special.end, special.unknown]))).numpy()
        begins = (framed(rows.passages.flags)[0] & PIECE).bool().numpy()
        read, chosen = mask_rows(tokens.numpy(), candidates, begins, masking, seeds, rows.numbers)
        places, weights = np.flatnonzero(chosen), chosen.sum(1).astype(np.float32)
        words = tokens.flatten().numpy()[places]
    targets = {"places": places, "words": words, "order": rows.labels, "shares": weights}
    return Batch(
        rows.numbers.tolist(),
        {"tokens": torch.from_numpy(read), "mask": mask},
        len(places) if masking is not None else int((rows.labels != NO_QUESTION).sum()),
        targets={name: torch.from_numpy(values) for name, values in targets.items()},
    )


def check_pairs(rows: Rows, cut: Cut) -> None:
    """Refuse documents of which no pairs can be made.

    Raises:
        DataError: Pairs are needed, but no document has two texts, or there is only one document.
    """
    if not cut.pairs or (rows.labels == FOLLOWS_NOT).any():
        return
    hint = "or set model.next_sentence=false to train on masked words alone"
    if (count := rows.passages.num_documents) < 2:
        raise DataError(
            "model.next_sentence needs at least two documents, because a text that does not follow comes from another, "
            f"but there is {count}; name more files, cut the file with data.separator, {hint}"
        )
    what = "two sentences" if cut.words is None else f"two texts of {cut.words} words (data.side_words)"
    raise DataError(
        f"fewer than two training documents contain {what}, so no pairs can be made; give longer "
        f"documents (data.separator marks the end of one), {hint}"
    )


_WINDOW = 5
_MAX_COUNTED = 20_000_000
"""Tokens that are counted, from the beginning of the text: more would change the embeddings of rare tokens only."""
_TOGETHER = 4_000_000
"""Tokens whose neighbours are counted at once."""
_POWER = 0.75
DEVIATION = 0.1
"""Standard deviation of the embeddings: five times that of the positions, so that equal tokens resemble each other at
any position."""


@dataclass(frozen=True)
class Counted:
    """Counts of the tokens that embeddings were made from."""

    tokens: int  # tokens of text that were counted
    filled: int  # tokens of the vocabulary that occur there
    vocab_size: int

    def __str__(self) -> str:
        return (
            f"embeddings of {self.filled:,} of {self.vocab_size:,} tokens initialised from their neighbours in "
            f"{self.tokens:,} tokens of the training text"
        )

    def as_report(self) -> dict[str, Any]:
        """The counts for `report.json`."""
        return dict(vars(self))


def fill_from_neighbours(embedding: nn.Embedding, passages: Passages) -> Counted:
    """Fill an embedding table `(vocab_size, d)` from the co-occurrence of tokens in some documents.

        M[i, j] = max(0, ln(n_ij N / (n_i m_j)))        n_ij: nearby pairs (i, j); m_j = N n_j^0.75 / sum_k n_k^0.75
        M ~ U S V^T with the d largest singular values;   e_i = U_i sqrt(S)

    Two tokens are near if they are at most five positions apart in a document; the weight of a pair falls with its
    distance (5/5, 4/5, ..., 1/5). Rows of tokens that do not occur, and columns beyond the rank of the counts, keep
    their random values; all are scaled to the same deviation.

    Source: Levy and Goldberg 2014, Neural Word Embedding as Implicit Matrix Factorization (what skip-gram with negative
    samples factorises); Levy, Goldberg and Dagan 2015, Improving Distributional Similarity (Q15-1016), sections 3.2 and
    3.3 (the power 0.75, the root of S, weights by distance).
    Differs from the paper: the factors are scaled as a whole to one deviation.
    """
    size, width = embedding.weight.shape
    ids, starts = passages.ids[:_MAX_COUNTED], passages.starts
    counts = _neighbours(ids, starts, size)
    vectors = _factors(counts, width)
    present = np.flatnonzero(np.asarray(counts.sum(1)).ravel())
    with torch.no_grad():
        weight = embedding.weight
        weight.mul_(DEVIATION / weight.std(correction=0))
        if len(present) and vectors.shape[1]:
            chosen = vectors[present]
            values = torch.from_numpy(chosen * (DEVIATION / chosen.std())).to(weight)
            weight[torch.from_numpy(present).to(weight.device), : values.shape[1]] = values
    return Counted(len(ids), len(present), size)


def _neighbours(ids: NDArray[Any], starts: NDArray[np.int64], size: int) -> Any:
    """Counts of nearby tokens, weighted by distance: a sparse symmetric matrix `(size, size)`."""
    from scipy.sparse import coo_matrix, csr_matrix  # heavy, and only needed once

    total = csr_matrix((size, size), dtype=np.float64)
    for begin in range(0, len(ids), _TOGETHER):
        part = np.asarray(ids[begin : begin + _TOGETHER + _WINDOW], dtype=np.int64)
        document = np.searchsorted(starts, np.arange(begin, begin + len(part)), side="right")
        for apart in range(1, _WINDOW + 1):
            pairs = max(0, min(_TOGETHER, len(part) - apart))
            near = slice(0, pairs), slice(apart, apart + pairs)
            same = document[near[0]] == document[near[1]]
            left, right = (part[side][same] for side in near)
            weight = np.full(len(left), (_WINDOW + 1 - apart) / _WINDOW)
            total += coo_matrix((weight, (left, right)), shape=(size, size)).tocsr()
    return total + total.T


def _factors(counts: Any, width: int) -> NDArray[np.float64]:
    """The leading factors of the positive mutual information, `(size, at most width)`."""
    from scipy.sparse import csr_matrix
    from sklearn.utils.extmath import randomized_svd

    pairs = counts.tocoo()
    each = np.asarray(counts.sum(1)).ravel()
    smoothed = each**_POWER
    with np.errstate(divide="ignore"):
        information = np.log(pairs.data) - np.log(each[pairs.row]) - np.log(smoothed[pairs.col] / smoothed.sum())
    positive = information > 0
    matrix = csr_matrix((information[positive], (pairs.row[positive], pairs.col[positive])), shape=counts.shape)
    rank = min(width, int(np.count_nonzero(each)))
    if not rank or not matrix.nnz:
        return np.zeros((counts.shape[0], 0))
    left, values, _ = randomized_svd(matrix, rank, n_iter=4, random_state=0)
    return np.asarray(left * np.sqrt(values))
