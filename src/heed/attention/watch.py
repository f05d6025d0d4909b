"""Where attention is watched from: one slot, empty unless somebody looks.

Modules ask `if watch.slot is not None` once per call and hand over what they already have. They never compute anything
for the observer, so a watched pass runs the same kernels and gives the same bits. The exceptions agree to rounding
(about 1e-6): a stack of Transformer blocks that writes token by token on a CPU goes through its blocks while it is
watched, which takes about 1.5 times as long; so do `gpt`, `bert` and `vit` in training, and the last block of `vit`,
which otherwise computes its class token alone. `bert` and `vit` then compute padding and patches too, and so draw other
dropout masks. Only an edit changes what is computed: it takes the readable path, because it must replace the weights.

`heed.observe.trace` is what stands in the slot.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from heed.attention.keys import Keys, Rows
from heed.attention.scores import Score


@runtime_checkable  # so that tests can check signatures that mention it
class WatchedEdit(Protocol):
    """A change of the weights inside an attention call."""

    def __call__(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """New weights from those after the softmax, `(rows, heads, query, key)`.

        `allowed` is broadcastable to the weights, True = may attend, or None; `positions` are the absolute ones of the
        queries, `(rows, query)`. Column k stands for the key at absolute position k.
        """


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one call to an attention module computed, by reference.

    The weights are None where the call never had them whole; they can be recomputed. An edit and the readable path have
    them.
    """

    projected: Tensor  # (rows, heads, query, d), the queries as the score wants them
    keys: Keys
    rows: Rows | None  # which entry of `keys` each row looked at
    causal: bool  # whether the future was masked
    offset: int | Tensor  # absolute position of the first query, one number or one per row
    context: Tensor  # (rows, heads, query, d_value), the result
    weights: Tensor | None  # (rows, heads, query, key), before dropout
    dropout: float  # probability with which weights were dropped in this call
    score: Score  # the module's; a watcher copies from it what it needs
    key_offset: int | Tensor = 0  # absolute position of the first key, one number or one per row
    seen: Tensor | None = None  # (rows, key), the keys of its entry that each row may look at; None for all
    scores: Tensor | None = None  # as the weights, before a softmax over all keys, where query and key do not give them


@dataclass(frozen=True, eq=False)
class RecurrentCall:
    """What one run of a recurrent cell over a sequence computed, by reference, in the order in which it ran.

    States are hidden `(batch, d_hidden)` and, for an LSTM, cell. `started` is given, with a length, where steps do not
    start from the state after the step before (a network that reads a summary of its past in its place).
    """

    cell: str  # "rnn", "lstm", "gru" or "gru_notes"
    weights: dict[str, Tensor]  # the cell's parameters by name, live: a watcher copies them
    inputs: Tensor  # (batch, length, d_input)
    hidden: Tensor  # (batch, length, d_hidden), the state after each position
    initial: tuple[Tensor, ...]  # before the first position
    final: tuple[Tensor, ...]  # after the last position
    order: Tensor | None  # (batch, length), position in the text of each step; None for the natural order
    mask: Tensor | None  # (batch, length), True inside each sequence, in running order
    started: tuple[Tensor, ...] | None = None


class Watcher(Protocol):
    """What may stand in the slot."""

    def edits(self, module: nn.Module) -> list[WatchedEdit]:
        """The edits that apply to a module; empty for none."""

    def attention(self, module: nn.Module, call: AttentionCall) -> None:
        """An attention module was called."""

    def recurrence(self, module: nn.Module, call: RecurrentCall) -> None:
        """A recurrent cell ran over a sequence."""

    def tensor(self, module: nn.Module, kind: str, value: Tensor) -> None:
        """A module offers a tensor worth seeing ("state", "logits")."""


slot: Watcher | None = None
"""The observer, or None. One per process."""
