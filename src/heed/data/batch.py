"""Batches: which examples go together, and examples as padded tensors.

From top to bottom: rows padded to tensors; framed texts, texts with labels; pairs of texts, and
conversations; plans of the batches of a pass; batches moved to a device.

Framed texts have a start token before and an end token after, as `models.base.TokenEncoder.framed` expects:

one text     START a END
two texts    START a END b END         or, with a double separator (RoBERTa), START a END END b END
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import pad

from heed.attention.host import sent
from heed.data.examples import Lazy
from heed.data.tokens import OWN, Special
from heed.errors import DataError


def positions_in_groups(mask: Tensor) -> int:
    """Positions computed if rows `(..., rows, longest)` are grouped by length and rows of padding left out."""
    longest = total = 0
    for length in sorted(filter(None, mask.sum(-1).flatten().tolist()), reverse=True):
        longest = length if 2 * length <= longest or not longest else longest  # as `layers.ragged.length_groups`
        total += longest
    return max(1, total)


def pad_rows(rows: Sequence[Sequence[int] | NDArray[np.int32]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as one tensor `(rows, longest)`, and its mask, True on real ids.

    The others are 0 in every vocabulary: models read nothing outside a mask.
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    tokens = np.zeros(mask.shape, dtype=np.int64)
    tokens[mask] = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return torch.from_numpy(tokens), torch.from_numpy(mask)


def pad_nested(examples: Sequence[Sequence[list[int]]]) -> tuple[Tensor, Tensor]:
    """Examples of several rows (sentences, turns) as one tensor `(examples, rows, longest)`, and its mask."""
    count = max(1, max(map(len, examples), default=1))
    tokens, mask = pad_rows([row for rows in examples for row in (*rows, *[[]] * (count - len(rows)))])
    shape = (len(examples), count, tokens.shape[1])
    return tokens.view(shape), mask.view(shape)


def pad_shifted(rows: Sequence[list[int]], special: Special) -> tuple[Tensor, Tensor, Tensor]:
    """Decoder inputs, start token first; the expected predictions, end token last; and the mask of both."""
    read, mask = pad_rows([[special.start, *row] for row in rows])
    labels, _ = pad_rows([[*row, special.end] for row in rows])
    return read, labels, mask


_SHORT = 8
"""Words up to this length form one group; above it the longest of a group is at most twice its shortest."""


@dataclass(frozen=True)
class DistinctWords:
    """The distinct words of a batch, padded in groups, so that a long word does not lengthen the others."""

    groups: tuple[Tensor, ...]  # character ids `(words, characters)` of each group of words of similar length
    place: Tensor  # `(batch, words)`, each word's row in the concatenated groups, from 1; 0 for padding and empty words


def distinct_words(texts: Sequence[Sequence[Sequence[int]]]) -> DistinctWords:
    """Group the words of some texts, given as character ids."""
    distinct = {tuple(word) for words in texts for word in words}
    ordered = sorted(filter(None, distinct), key=lambda word: (len(word), word))
    grouped: dict[int, list[tuple[int, ...]]] = {}
    for word in ordered:
        grouped.setdefault(max(_SHORT, 1 << (len(word) - 1).bit_length()), []).append(word)
    row_of = {word: row for row, word in enumerate(ordered, start=1)}
    place, _ = pad_rows([[row_of.get(tuple(word), 0) for word in words] for words in texts])
    return DistinctWords(tuple(pad_rows(words)[0] for words in grouped.values()), place)


def frame(
    ids: Sequence[int], pair: Sequence[int] | None = None, double: bool = False, special: Special = OWN
) -> list[int]:
    """A text, or two, with their start and end tokens."""
    start, end = special.start, special.end
    tokens = [start, *ids, end]
    return tokens if pair is None else [*tokens, *([end] if double else []), *pair, end]


def frame_size(is_pair: bool, double: bool = False) -> int:
    """The number of tokens that `frame` adds."""
    return 3 + double if is_pair else 2


def fit(lengths: NDArray[np.int32], max_length: int, special: int) -> NDArray[np.int32]:
    """How many tokens of each text, or of both texts of a pair, fit into `max_length` positions, `(examples, texts)`.

    `special` positions are taken by start and end tokens.

    Of two texts the longer one is cut until both are equally long, then both alternately, the second first.

    Raises:
        DataError: There is no room for these.

    Source: Devlin et al. 2019, the published code (`_truncate_seq_pair`).
    """
    room = max_length - special
    if room < 0:
        raise DataError(f"{max_length} positions are too few for the {special} start and end tokens")
    fitted: NDArray[np.int32] = np.minimum(lengths, room)
    if lengths.shape[1] == 1:
        return fitted
    first = np.minimum(lengths[:, 0], np.maximum(room - lengths[:, 1], room - room // 2))
    return np.stack([first, np.minimum(lengths[:, 1], room - first)], axis=1)


def framed(tokens: Tensor, mask: Tensor, special: Special) -> tuple[Tensor, Tensor]:
    """Padded rows with the start token before each and the end token after its last real one.

    Args:
        tokens: `(batch, length)`, padded on the right.
        mask: `(batch, length)`, True on real tokens.
        special: Ids of the start and end token.

    Returns:
        Tokens and mask `(batch, length + 2)`: position t + 1 has the former position t.
    """
    lengths = mask.sum(1, keepdim=True)
    moved = pad(tokens.masked_fill(~mask, 0), (1, 1))
    moved[:, 0] = special.start
    moved.scatter_(1, lengths + 1, special.end)
    return moved, torch.arange(moved.shape[1], device=tokens.device) < lengths + 2


def framed_features(features: Tensor) -> Tensor:
    """Features of each token `(batch, length, d)`, with zeros for the start and end tokens."""
    return pad(features, (0, 0, 1, 1))


def unframed(hidden: Tensor) -> Tensor:
    """States of framed tokens, `(batch, length + 2, d)`, without those of the first and last position.

    The result is `(batch, length, d)`, undefined outside the mask of the unframed tokens.
    """
    return hidden[:, 1:-1]


class TokenPair(NamedTuple):
    """A pair as token ids, without start and end."""

    source: list[int]
    target: list[int]

    @property
    def cost(self) -> tuple[int, int]:
        """Lengths that are padded: target with its start or end token, and source."""
        return len(self.target) + 1, len(self.source)


class TokenTurn(NamedTuple):
    """A turn as token ids, without start and end, and the id of its speaker, 0 if unknown."""

    ids: list[int]
    speaker: int


class Histories(NamedTuple):
    """Utterances of several conversations, each once."""

    tokens: Tensor  # `(utterances, words)`, every utterance of the batch once
    mask: Tensor  # `(utterances, words)`, True on real tokens, which come first
    turns: Tensor  # `(conversations, turn)`, the row of `tokens` at each turn of each conversation, -1 on padding
    speakers: Tensor  # `(utterances,)`, speaker of each; 0 if unknown


def pad_histories(utterances: Sequence[TokenTurn], conversations: Sequence[Sequence[int]]) -> Histories:
    """Pad utterances and, for each conversation, the indices of its utterances."""
    tokens, mask = pad_rows([utterance.ids for utterance in utterances])
    turns = torch.full((len(conversations), max(1, max(map(len, conversations), default=1))), -1)
    for row, numbers in enumerate(conversations):
        turns[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
    return Histories(tokens, mask, turns, torch.tensor([utterance.speaker for utterance in utterances]))


_POOL = 64
"""Batches that are sorted by length together: enough for little padding, few enough to keep the order random."""


def _batch_sizes(costs: NDArray[np.int64], batch_tokens: int) -> Iterator[int]:
    """Cut sorted examples into batches within a budget of padded tokens; a larger example is a separate batch."""
    start = 0
    while start < len(costs):
        maximum = max(1, batch_tokens // max(1, int(costs[start].sum())))
        widest = np.maximum.accumulate(costs[start : start + maximum]).sum(1)
        padded = np.maximum(1, widest) * np.arange(1, len(widest) + 1)
        size = max(1, int(np.searchsorted(padded, batch_tokens, side="right")))
        yield size
        start += size


def draw_epoch(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> NDArray[np.int64]:
    """The examples of one pass over weighted corpora, numbered consecutively; depends on (seed, epoch) only.

    Each example of a corpus of weight w is seen floor(w) times, and a random share of them once more. Fractions of an
    example are rounded up or down at random, so that a small weight of a small corpus is not always rounded to zero.
    """
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))  # not the one that orders the batches
    chosen: list[NDArray[np.int64]] = []
    first = 0
    for size, weight in zip(sizes, weights, strict=True):
        times = math.floor(weight)
        share = (weight - times) * size
        order = torch.randperm(size, generator=generator)
        drawn = math.floor(share + float(torch.rand((), generator=generator)))
        chosen += [np.arange(first, first + size)] * times
        chosen.append(first + order[:drawn].numpy())
        first += size
    return np.concatenate(chosen)


class Plan(Lazy[list[int]]):
    """The batches of one pass in one array of indices, with the end of each and their order.

    Millions of lists would take several times the memory.
    """

    def __init__(self, indices: NDArray[np.int64], ends: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        self._indices, self._ends, self._order = indices, ends, order

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        """A digest of the batches, by which a resumed run recognises them."""
        content = hashlib.blake2b(digest_size=16)
        for part in (self._indices, self._ends, self._order):
            content.update(part.astype("<i8").tobytes())
        return f"<{len(self)} batches, {content.hexdigest()}>"

    def take(self, indices: Sequence[int]) -> list[list[int]]:
        batches = self._order[list(indices)].tolist()
        starts = (self._ends[batch - 1] if batch else 0 for batch in batches)
        return [self._indices[start : self._ends[batch]].tolist() for batch, start in zip(batches, starts, strict=True)]


def plan_pass(
    costs: ArrayLike, batch_tokens: int, seed: int = 0, epoch: int | None = None, chosen: ArrayLike | None = None
) -> Plan:
    """Plan the batches of one pass over the data.

    Examples are shuffled, then sorted by length within pools, cut into batches, and the batches shuffled.

    Args:
        costs: Lengths of every example, `(examples, sides)` or `(examples,)`.
        batch_tokens: Largest number of padded positions of a batch.
        seed: Seed of the run; the order depends on (seed, epoch) only.
        epoch: Number of the pass; None for a pass sorted by length (validation).
        chosen: Examples of this pass, repeats and omissions allowed; every example once by default.
    """
    table = np.asarray(costs)
    table = table if table.ndim == 2 else table.reshape(-1, 1)
    generator = torch.Generator()
    if epoch is not None:
        generator.manual_seed((seed * 1_000_003 + epoch) % 2**63)
    count = len(table) if chosen is None else len(np.asarray(chosen))
    order = np.arange(count) if epoch is None else torch.randperm(count, generator=generator).numpy()
    if chosen is not None:
        order = np.asarray(chosen, dtype=np.int64)[order]
    mean = max(1.0, int((table if chosen is None else table[order]).sum()) / max(1, count))
    pool = max(1, count if epoch is None else int(_POOL * batch_tokens / mean))
    sizes: list[int] = []
    for start in range(0, count, pool):
        part = order[start : start + pool]
        part = part[np.lexsort(-table[part].T[::-1])]
        order[start : start + pool] = part  # in place of the pool's examples
        sizes += _batch_sizes(table[part].astype(np.int64), batch_tokens)
    shuffled = np.arange(len(sizes)) if epoch is None else torch.randperm(len(sizes), generator=generator).numpy()
    return Plan(order, np.fromiter(accumulate(sizes), dtype=np.int64, count=len(sizes)), shuffled)


def plan_even(count: int, size: int, seed: int = 0, epoch: int | None = None) -> Plan:
    """Plan batches of examples of equal cost: shuffled by (seed, epoch), as equal in size as possible.

    Args:
        count: Number of examples.
        size: Most examples of a batch.
        seed: Seed of the run.
        epoch: Number of the pass; None to keep the order of the examples.
    """
    order = np.arange(count)
    if epoch is not None:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(count, generator=generator).numpy()
    batches = math.ceil(count / size)
    ends = np.arange(1, batches + 1) * count // max(1, batches)
    return Plan(order, ends.astype(np.int64), np.arange(batches))


def plan_batches(costs: ArrayLike, batch_tokens: int, chosen: ArrayLike | None = None) -> list[list[int]]:
    """The batches of `plan_pass` sorted by length, as lists."""
    return list(plan_pass(costs, batch_tokens, chosen=chosen))


B = TypeVar("B")


def to_device(batch: B, device: torch.device) -> B:
    """The batch on a device, by `sent`."""
    return _changed(batch, lambda tensor: sent(tensor, device))  # type: ignore[no-any-return]


def pin(batch: B) -> B:
    """The batch in pinned memory, which a GPU can read directly."""
    return _changed(batch, Tensor.pin_memory)  # type: ignore[no-any-return]


def _changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A value with its tensors changed, those in dataclasses, dicts and tuples too; the same object if none was."""
    if isinstance(value, Tensor):
        return change(value)
    if is_dataclass(value):
        parts: dict[Any, Any] = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, dict):
        parts = value
    elif isinstance(value, tuple) and any(isinstance(part, Tensor) for part in value):
        parts = dict(enumerate(value))
    else:
        return value
    new = {name: _changed(part, change) for name, part in parts.items()}
    if all(part is parts[name] for name, part in new.items()):
        return value
    if isinstance(value, tuple):
        return tuple(new.values())
    return new if isinstance(value, dict) else replace(value, **new)
