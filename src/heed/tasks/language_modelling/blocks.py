"""Batches of a token stream: packed blocks for models without a state, contiguous rows for models that carry one.

Block borders and order are drawn again for each pass; each token is predicted once per pass. Contiguous rows carry
their state from batch to batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch.plan import Plan
from heed.data.tokens.tokenizer import PADDING
from heed.device import to_device
from heed.tasks.language_modelling.tokens import TokenStream


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
