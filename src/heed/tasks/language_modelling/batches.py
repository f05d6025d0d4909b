"""Documents as one stream of tokens, and its batches.

`tokenizer.normalization` is none by default, and no space is put before a text, so that tokens decode to the text
itself where nothing is unknown (except U+2581, a space to `word`, `bpe` and `unigram`). With end tokens even the first
token of a file has a token before it, so that all are scored.

Batches are packed blocks for models without a state and contiguous rows for models that carry one. Block borders and
order are drawn again for each pass; each token is predicted once per pass. Contiguous rows carry their state from batch
to batch (truncated back-propagation through time):

    batch n reads chunk n of every row, from the state after batch n - 1; no gradient flows across batches

Source: Williams and Peng 1990, Neural Computation 2 (4), truncated back-propagation; Zaremba et al. 2014
(arXiv:1409.2329), section 4.1, for minibatches of contiguous rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.batch.plan import Plan
from heed.data.kinds.documents import Document
from heed.data.tokens.tokenizer import END, PADDING, TextTokenizer
from heed.device import to_device
from heed.models.base import LanguageModel
from heed.tasks.base.documents import EncodedDocuments, encode_documents


@dataclass(frozen=True, eq=False)
class TokenStream(EncodedDocuments):
    """The tokens of all documents, concatenated, each document followed by END if `end_token` is True."""

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    end_token: bool = True

    @classmethod
    def of(cls, documents: Sequence[Document], tokenizer: TextTokenizer, end_token: bool) -> TokenStream:
        """Encode documents, see `encode_documents`."""
        end = np.array([END] if end_token else [], dtype=np.int32)

        def encode(texts: list[str]) -> Iterator[tuple[NDArray[Any]]]:
            yield from ((np.append(ids, end),) for ids in tokenizer.encode_arrays(texts))

        settings = {"kind": "token stream", "end_token": end_token}
        starts, ids = encode_documents(documents, tokenizer, encode, {}, **settings)
        return cls(ids, starts, end_token)

    def document(self, number: int) -> NDArray[Any]:
        """The tokens of one document, its END included."""
        return self.ids[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True)
class TokenBatch:
    """Rows of tokens, B of length L; position t of a row predicts `labels[t]`, the token after `tokens[t]`.

    Attributes:
        tokens: `(B, L)` int64, the inputs.
        labels: `(B, L)` int64, the targets; padding where `mask` is False.
        mask: `(B, L)` bool, True where there is a target.
        documents: `(B, L)` int64, the number of the document of each target within its row, from 0 and non-decreasing;
            None where each row lies in one document, or documents run on.
        indices: Indices of the blocks or rows.
        num_targets: Number of targets, end tokens included.
        padding_share: Share of positions without a target.
    """

    tokens: Tensor
    labels: Tensor
    mask: Tensor
    documents: Tensor | None
    indices: list[int]
    num_targets: int
    padding_share: float

    def to(self, device: torch.device) -> TokenBatch:
        """The batch on a device."""
        return to_device(self, device)


class Blocks:
    """Blocks of `context` targets, whose borders and order are drawn for each pass from (seed, epoch).

    A block's index is the position of its first target in the stream. Every token is a target once per pass: blocks
    begin at an offset in [0, context); the first block has the tokens before the offset, the last block the tail. The
    index of the first block is offset - context, as if it began before the stream. With documents "mask" a batch gives
    document numbers; with "run_on", or without end tokens, each document continues from the one before.
    """

    def __init__(
        self, stream: TokenStream, context: int, first_token: int, documents: Literal["mask", "run_on"] = "mask"
    ) -> None:
        self.stream, self.context, self.first_token = stream, context, first_token
        self._apart = documents == "mask" and stream.end_token

    def plan(self, batch_tokens: int, seed: int = 0, epoch: int = 0) -> Plan:
        """Plan the batches of one pass, each of batch_tokens // context blocks (at least one)."""
        count = len(self.stream)
        generator = _generator(seed, epoch)
        offset = int(torch.randint(self.context, (), generator=generator)) if count > self.context else 0
        starts = np.arange(offset - self.context if offset else 0, count, self.context)
        order = torch.randperm(len(starts), generator=generator).numpy()
        return _batches(starts[order], max(1, batch_tokens // self.context))

    def collate(self, indices: Sequence[int], epoch: int = 0) -> TokenBatch:
        """Collate these blocks; `epoch` is unused."""
        first = np.asarray(indices, dtype=np.int64)
        starts = np.maximum(first, 0)
        stops = np.minimum(first + self.context, len(self.stream))
        return _batch(self.stream, starts, stops, self.first_token, self._apart, indices)


class Streams:
    """Rows that are contiguous parts of the stream, in chunks of `context` targets, for models that carry a state.

    There are R = batch_tokens // context rows, fewer where a row would be shorter than a chunk. The n-th batch is the
    n-th chunk of every row, so that the state after one batch is the initial state of the next; chunk c of row r has
    the index c * R + r. The first token of a chunk is the last label of the chunk before. Documents run on.
    """

    def __init__(self, stream: TokenStream, context: int, first_token: int) -> None:
        self.stream, self.context, self.first_token = stream, context, first_token
        self.rows = 0  # of the latest plan

    def plan(self, batch_tokens: int, seed: int = 0, epoch: int = 0) -> Plan:
        """Plan the batches of one pass, the same for every pass; sets `rows`."""
        count = len(self.stream)
        self.rows = max(1, min(batch_tokens // self.context, count // self.context))
        longest = -(-count // self.rows)
        chunks = -(-longest // self.context)
        return _batches(np.arange(chunks * self.rows), self.rows)

    def collate(self, indices: Sequence[int], epoch: int = 0) -> TokenBatch:
        """Collate these chunks, numbered as in the latest plan."""
        assert self.rows, "plan first"
        chunks, rows = np.divmod(np.asarray(indices, dtype=np.int64), self.rows)
        count = len(self.stream)
        starts, ends = rows * count // self.rows + chunks * self.context, (rows + 1) * count // self.rows
        stops = np.minimum(starts + self.context, ends)
        return _batch(self.stream, np.minimum(starts, stops), stops, self.first_token, False, indices)


def _batch(
    stream: TokenStream,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    first_token: int,
    apart: bool,
    indices: Sequence[int],
) -> TokenBatch:
    """Make a batch with one row for each range `starts` to `stops` of targets in the stream."""
    lengths = stops - starts
    width, targets = max(1, int(lengths.max())), int(lengths.sum())
    places = starts[:, None] + np.arange(-1, width)  # of the tokens that are read, and the last label
    full = targets == lengths.size * width
    # Place -1 wraps around and is overwritten below.
    window = stream.ids[places if full else np.minimum(places, len(stream) - 1)].astype(np.int64)
    if not starts.min():
        window[places < 0] = first_token
    tokens, labels = window[:, :-1].copy(), window[:, 1:].copy()
    mask = np.ones(labels.shape, dtype=bool)
    if not full:
        mask = np.arange(width) < lengths[:, None]
        tokens[~mask] = PADDING
        labels[~mask] = PADDING
    documents = None
    if apart:
        ends = stream.document_at(np.stack([starts, np.maximum(stops - 1, starts)]))
        if (ends[0] != ends[1]).any():
            targets_at = np.minimum(places[:, 1:], (stops - 1)[:, None])
            documents = torch.from_numpy(stream.document_at(targets_at) - ends[0][:, None])
    return TokenBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(labels),
        torch.from_numpy(mask),
        documents,
        list(indices),
        targets,
        1 - targets / mask.size,
    )


def _batches(indices: NDArray[np.int64], size: int) -> Plan:
    """Cut the indices, in order, into batches of `size`; the last batch has the rest."""
    ends = np.minimum(np.arange(size, len(indices) + size, size), len(indices))
    return Plan(indices.astype(np.int64), ends.astype(np.int64), np.arange(len(ends)))


def _generator(seed: int, epoch: int) -> torch.Generator:
    digest = hashlib.blake2b(f"blocks {seed} {epoch}".encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


Packed = Mapping[str, Tensor]
"""A state as tensors by name; dimension 0 of each runs over rows."""
_ROWS = "rows"


@dataclass(frozen=True)
class RowBatch(TokenBatch):
    """Chunks of contiguous rows.

    Attributes:
        rows: Number of each row within its pass.
        begins: True for the first chunks of the pass, before which there is no state.
    """

    rows: tuple[int, ...] = ()
    begins: bool = True

    @classmethod
    def of(cls, streams: Streams, indices: list[int], epoch: int) -> RowBatch:
        """Collate these chunks: chunk c of row r has the index c * rows + r."""
        batch = streams.collate(indices, epoch)
        return cls(**vars(batch), rows=tuple(i % streams.rows for i in indices), begins=indices[0] < streams.rows)


class CarriedRows:
    """The state after the last chunk of every row that this process reads.

    States are stored by row number, so that micro-batches, processes and a resumed run find their own. Rows that are
    read together are stored together: tensors of other rows may differ in shape (a tape that is not yet full).
    """

    def __init__(self, tensors: Packed | None = None) -> None:
        """Begin empty, or from the result of `tensors()`."""
        self._groups: dict[tuple[int, ...], Packed] = {}
        for name, tensor in (tensors or {}).items():
            number, _, key = name.partition(".")
            if key == _ROWS:
                own = {k.partition(".")[2]: t for k, t in (tensors or {}).items() if k.partition(".")[0] == number}
                self._groups[tuple(tensor.tolist())] = {k: t for k, t in own.items() if k != _ROWS}

    def tensors(self) -> dict[str, Tensor]:
        """Return all states as tensors by name, for a checkpoint."""
        found: dict[str, Tensor] = {}
        for number, (rows, packed) in enumerate(self._groups.items()):
            found[f"{number}.{_ROWS}"] = torch.tensor(rows)
            found |= {f"{number}.{name}": tensor.contiguous().clone() for name, tensor in packed.items()}
        return found

    def read(self, model: LanguageModel, batch: RowBatch) -> Tensor:
        """Compute the hidden states `(batch, length, d)` of a batch, from the stored state of its rows.

        In training the state after the batch is stored.
        """
        rows, device = batch.rows, batch.tokens.device
        packed = None if batch.begins else self._of(rows)
        if packed is None:
            state: Any = model.start(None, Rows.repeat(len(rows), device=device))
        else:
            state = model.unpack({name: tensor.to(device) for name, tensor in packed.items()})
        hidden, after = model.read(batch.tokens, state)
        if model.training:
            self._keep(rows, model.pack(after))
        return hidden

    def _keep(self, rows: tuple[int, ...], packed: Packed) -> None:
        """Replace the state of some rows; rows that were read together with them keep theirs."""
        for group in [group for group in self._groups if group != rows and not set(group).isdisjoint(rows)]:
            old = self._groups.pop(group)
            rest = [n for n, row in enumerate(group) if row not in rows]
            if rest:
                self._groups[tuple(group[n] for n in rest)] = {name: tensor[rest] for name, tensor in old.items()}
        self._groups[rows] = packed

    def _of(self, rows: tuple[int, ...]) -> Packed | None:
        """Return the state of some rows; None if any of them has none."""
        if rows in self._groups:
            return self._groups[rows]
        places = {row: (group, n) for group in self._groups for n, row in enumerate(group)}
        if any(row not in places for row in rows):
            return None
        parts = [(self._groups[places[row][0]], places[row][1]) for row in rows]
        return {name: torch.stack([packed[name][n] for packed, n in parts]) for name in parts[0][0]}
