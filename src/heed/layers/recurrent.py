"""Recurrent layers over ragged batches, in one direction or both.

Sequences are padded, never packed: one kernel runs over the padded batch, and the backward direction flips each
sequence within its own length, so that padding is only read after the sequence. If no state depends on a context
(`seq2seq`, `rnn`, `luong` without input feeding), a teacher-forced target is one kernel call too.

Shapes: `(batch, length, d_input)` to `(batch, length, d_output)`; `d_output` is `d_hidden` for each direction.
"""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from heed.layers.cells import RecurrentCell, State, States
from heed.layers.dropout import Dropout
from heed.shapes import Bool, Float, Int


class Recurrent(nn.Module):
    """Recurrent layers over ragged batches, in one direction or both.

    Outputs at padding are zero, and padding does not affect other outputs. The backward direction reads each sequence
    from its own last position. The outputs of both directions are concatenated: `[forward ; backward]`.

    Source: Schuster and Paliwal 1997 for both directions; docs/systems.md, A3-A6.
    """

    def __init__(
        self,
        d_input: int,
        d_hidden: int,
        *,
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = False,
        backward: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """Build the layers, each reading the outputs of the previous one.

        `bidirectional` adds a network that reads from the end; `backward` builds only that one. Inputs of the second
        and later layers are dropped with probability `dropout`.
        """
        super().__init__()
        self.d_output = d_hidden * (2 if bidirectional else 1)
        widths = [d_input] + [self.d_output] * (num_layers - 1)

        def cells(wanted: bool) -> nn.ModuleList:
            return nn.ModuleList(RecurrentCell(width, d_hidden, cell) for width in widths if wanted)

        self.forward_cells = cells(bidirectional or not backward)
        self.backward_cells = cells(bidirectional or backward)
        self.num_layers = num_layers
        self.dropout = Dropout(dropout)

    def zero_states(self, like: Float[Tensor, "batch *any"]) -> States:
        """Zero states of every layer and direction for a batch, with the device and dtype of `like`."""
        directions = [cells for cells in (self.forward_cells, self.backward_cells) if cells]
        return [
            [cast(RecurrentCell, cells[i]).zero_state(like) for cells in directions] for i in range(self.num_layers)
        ]

    def forward(
        self,
        inputs: Float[Tensor, "batch length d_input"],
        mask: Bool[Tensor, "batch length"] | None = None,
        initial: States | None = None,
    ) -> tuple[Float[Tensor, "batch length d_output"], States]:
        """Run over whole sequences.

        Args:
            inputs: `(batch, length, d_input)`.
            mask: `(batch, length)`, True within each sequence, whose tokens come first; None if nothing is padded.
            initial: The state of each layer and direction before the first position, as returned by an earlier run;
                zeros by default.

        Returns:
            outputs `(batch, length, d_output)`, zero outside the mask; and per layer and direction the state after
            the last position of the sequence (for the backward direction: after its first).
        """
        flipped = _reversed_within(inputs, mask) if self.backward_cells else None
        finals: States = []
        for layer in range(self.num_layers):
            if layer:
                inputs = self.dropout(inputs)
            outputs: list[Tensor] = []
            finals.append([])
            for cells, order in ((self.forward_cells, None), (self.backward_cells, flipped)):
                if cells:
                    first = None if initial is None else initial[layer][len(outputs)]
                    states, final = _run(cells[layer], inputs, mask, order, first)
                    outputs.append(states)
                    finals[-1].append(final)
            joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            inputs = joined if mask is None else joined * mask.unsqueeze(-1)
        return inputs, finals


def _run(
    cell: nn.Module, inputs: Tensor, mask: Tensor | None, order: Tensor | None, initial: State | None
) -> tuple[Tensor, State]:
    """One cell over one batch, with positions permuted by `order` if given (which must be its own inverse).

    The final state of each row is that after its own last position.
    """
    assert isinstance(cell, RecurrentCell)
    inputs = inputs if order is None else _take(inputs, order)
    initial = cell.zero_state(inputs) if initial is None else initial
    if mask is None:
        hidden, final = cell.sequence(inputs, initial)
    else:
        hidden, final = _ragged(cell, inputs, mask.sum(1), initial)
    cell.observe(inputs, hidden, initial, final, order, mask)
    return hidden if order is None else _take(hidden, order), final


def _ragged(
    cell: RecurrentCell, inputs: Tensor, lengths: Int[Tensor, " batch"], initial: State
) -> tuple[Tensor, State]:
    """Run over all positions; the final state of an empty sequence is its initial one."""
    last = (lengths.clamp_min(1) - 1).unsqueeze(1)
    if cell.cell != "lstm":
        hidden, _ = cell.sequence(inputs, initial)
        return hidden, (torch.where(lengths.unsqueeze(1) > 0, _take(hidden, last).squeeze(1), initial[0]),)
    # The kernel returns an LSTM's cell state after its last input only, so split the run wherever a sequence ends.
    # Lengths within a batch are similar, so there are few splits; recomputing every gate would double the work.
    stops = sorted({*lengths.tolist(), inputs.shape[1]} - {0})
    parts, state, final = [], initial, initial
    for start, stop in pairwise([0, *stops]):
        part, state = cell.sequence(inputs[:, start:stop], state)
        parts.append(part)
        ends_here = (lengths == stop).unsqueeze(1)
        final = tuple(torch.where(ends_here, now, before) for now, before in zip(state, final, strict=True))
    return torch.cat(parts, dim=1), final


def _reversed_within(inputs: Tensor, mask: Tensor | None) -> Int[Tensor, "batch length"]:
    """Positions that flip each sequence within its length (3 of 5: 2 1 0 3 4); the permutation is its own inverse."""
    length = inputs.shape[1]
    position = torch.arange(length, device=inputs.device).expand(len(inputs), -1)
    if mask is None:
        return length - 1 - position
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)


def _take(x: Float[Tensor, "batch length d"], positions: Tensor) -> Float[Tensor, "batch taken d"]:
    """`x[b, positions[b, t]]`."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
