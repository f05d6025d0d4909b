"""Where attention is watched from: one slot, empty unless somebody looks.

Modules ask `if watch.slot is not None` once per call and hand over what they already have. They never compute
anything for the observer, so a watched pass runs the same kernels and gives the same bits. Only an edit changes
what is computed: it takes the readable path, because it must replace the weights.

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
        """New weights.

        Args:
            weights: `(rows, heads, query, key)` after the softmax.
            allowed: Broadcastable to the weights, True = may attend, or None.
            positions: `(rows, query)`, absolute position of each query in the sequence.
        """
        ...


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one call to an attention module computed, by reference.

    Attributes:
        projected: `(rows, heads, query, d)`, the queries as the score wants them.
        keys: What was looked at.
        rows: Which entry of `keys` each row looked at.
        causal: Whether the future was masked.
        offset: Absolute position of the first query, one number or one per row.
        context: `(rows, heads, query, d_value)`, the result.
        weights: `(rows, heads, query, key)` before dropout where the call has them whole (an edit replaced them, or the
            readable path ran); else None (they can be recomputed).
        dropout: Probability with which weights were dropped in this call.
        score: The module's score; a watcher copies from it what it needs.
    """

    projected: Tensor
    keys: Keys
    rows: Rows | None
    causal: bool
    offset: int | Tensor
    context: Tensor
    weights: Tensor | None
    dropout: float
    score: Score


@dataclass(frozen=True, eq=False)
class RecurrentCall:
    """What one run of a recurrent cell over a sequence computed, by reference, in the order in which it ran.

    Attributes:
        cell: "rnn", "lstm", "gru" or "gru_notes".
        weights: The cell's parameters by name, live: a watcher copies them.
        inputs: `(batch, length, d_input)`.
        hidden: `(batch, length, d_hidden)`, the state after each position.
        initial: The state before the first position: hidden `(batch, d_hidden)` and, for an LSTM, cell.
        final: The state after the last position.
        order: `(batch, length)`, the position in the text at which each step stood (a backward net runs from
            the end), or None for the natural order.
        mask: `(batch, length)`, True inside each sequence, in running order; or None.
        started: What each step started from, as `initial` with a length, where that is not the state after the step
            before (a network that reads a summary of its past in its place); else None.
    """

    cell: str
    weights: dict[str, Tensor]
    inputs: Tensor
    hidden: Tensor
    initial: tuple[Tensor, ...]
    final: tuple[Tensor, ...]
    order: Tensor | None
    mask: Tensor | None
    started: tuple[Tensor, ...] | None = None


class Watcher(Protocol):
    """What may stand in the slot."""

    def edits(self, module: nn.Module) -> list[WatchedEdit]:
        """The edits that apply to a module; empty for none."""
        ...

    def attention(self, module: nn.Module, call: AttentionCall) -> None:
        """An attention module was called."""
        ...

    def recurrence(self, module: nn.Module, call: RecurrentCall) -> None:
        """A recurrent cell ran over a sequence."""
        ...

    def tensor(self, module: nn.Module, kind: str, value: Tensor) -> None:
        """A module offers a tensor worth seeing ("state", "logits")."""
        ...


slot: Watcher | None = None
"""The observer, or None. One per process."""
