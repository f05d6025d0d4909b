"""Observation of attention: one slot for an observer in each thread, None unless a trace is active there.

Modules test `if watch.observer.current is not None` once per call and pass on tensors that they have. They compute
nothing for the observer, so a watched pass runs the same kernels and is bit-identical. The exceptions agree to rounding
(about 1e-6): while watched, a Transformer stack that generates on a CPU calls its blocks instead of functions that are
bound once per search (`Linear.bind`), which takes about 1.5 times as long; `bert` trains on padded texts, and so draws
other dropout masks; and the last block of `vit`, which otherwise computes its class token alone, computes all of them,
and so draws other masks.
Only two things change the result: an edit, which takes the readable path, where weights can be replaced; and a patch,
which puts other states in place of those of a block, or of a recurrent cell, which then runs step by step.

The observer is `heed.watch.trace`.
"""

from dataclasses import dataclass
from threading import local
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from heed.attention.keys import Keys, Scope
from heed.attention.scores import Score


@runtime_checkable  # so that tests can check signatures that mention it
class WatchedEdit(Protocol):
    """An edit of the weights within an attention call."""

    def __call__(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        """Return edited weights; `weights` are those after the softmax, `(rows, heads, query, key)`.

        `allowed` is broadcastable to the weights, True = may attend, or None; `positions`, `(rows, query)`, are the
        absolute positions of the queries. Column k belongs to the key at absolute position k.
        """


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Inputs and results of one call to an attention module, by reference.

    `weights` is None if the call did not compute them in this layout; the observer then recomputes them. After an edit
    they are always given.
    """

    projected: Tensor  # (rows, heads, query, d), the projected queries
    keys: Keys
    scope: Scope
    context: Tensor  # (rows, heads, query, d_value), the result
    weights: Tensor | None  # (rows, heads, query, key), before dropout
    dropout: float  # probability with which weights were dropped in this call
    score: Score  # the module's; an observer copies the parameters that it needs
    scores: Tensor | None = None  # shaped as the weights, before the softmax; None if `score` gives them
    output: Tensor | None = None  # (rows, query, d_output), projected, or the context if nothing is; None if not kept
    # for weights within parts: the part of each key, (rows, key), and the weight of each part, (rows, query, part)
    parts: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, eq=False)
class RecurrentCall:
    """Inputs and results of one run of a recurrent cell over a sequence, by reference, in processing order.

    States are hidden `(batch, d_hidden)` and, for an LSTM, cell. `started`, `(batch, length, d_hidden)` each, is given
    where steps do not start from the state after the previous step (a network that reads a summary of its past).
    """

    cell: str  # "rnn", "lstm", "gru" or "gru_notes"
    weights: dict[str, Tensor]  # the cell's parameters by name, live: an observer copies them
    inputs: Tensor  # (batch, length, d_input)
    hidden: Tensor  # (batch, length, d_hidden), the state after each position
    initial: tuple[Tensor, ...]  # before the first position
    final: tuple[Tensor, ...]  # after the last position
    order: Tensor | None  # (batch, length), position in the text of each step; None if left to right
    mask: Tensor | None  # (batch, length), True within each sequence, in processing order
    started: tuple[Tensor, ...] | None = None


class Watcher(Protocol):
    """Interface of an observer."""

    def edits(self, module: nn.Module) -> list[WatchedEdit]:
        """The edits that apply to a module; empty if there are none."""

    def attention(self, module: nn.Module, call: AttentionCall) -> None:
        """Called after each call of an attention module."""

    def recurrence(self, module: nn.Module, call: RecurrentCall) -> None:
        """Called after a recurrent cell has run over a sequence."""

    def tensor(self, module: nn.Module, kind: str, value: Tensor) -> Tensor:
        """Called with other tensors that a module offers for observation; `kind` names them ("states", "logits").

        Returns the tensor to go on with, which is the given one unless it is patched.
        """

    def patches(self, cell: nn.Module) -> bool:
        """True if states of a recurrent cell are patched, so that it must run step by step."""

    def state(self, cell: nn.Module, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Called after each step of a cell that runs step by step; returns the state to go on with."""


class _Observer(local):
    """The observer of the thread that asks, or None: what other threads predict meanwhile is not observed."""

    current: Watcher | None = None


observer = _Observer()


def offered(module: nn.Module, kind: str, value: Tensor) -> Tensor:
    """Offer a tensor to the observer, if there is one; returns the tensor to go on with."""
    return value if observer.current is None else observer.current.tensor(module, kind, value)
