"""The steps of a model that reads turn by turn: its states at the words of each turn, and after the turn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.layers.groups import length_groups
from heed.observe.frames import EncoderFrame
from heed.observe.maps import Axis
from heed.observe.trace import Trace
from heed.tasks.base.looking import Network, Words


def turn_frames(
    seen: Trace, utterances: Sequence[Sequence[int]], tokens: Words, turns: Axis
) -> tuple[EncoderFrame, ...]:
    """A frame for each turn: the state at each of its tokens, the vector of the turn, the dialogue state after it.

    Args:
        seen: A trace of a pass over one conversation.
        utterances: The tokens of each turn.
        tokens: The tokens of all turns, concatenated, each turn a part of the axis.
        turns: The turns.
    """
    words, dialogue = _word_states(seen, [len(ids) for ids in utterances]), _dialogue(seen, len(utterances))
    frames = []
    for n, (part, (states, vector)) in enumerate(zip(tokens.axis.parts, words, strict=True)):
        labels = tokens.axis.labels[part.start : part.stop]
        held = {f"{i + 1} {label}": states[i] for i, label in enumerate(labels)}
        held |= {"turn": vector}
        held |= {f"dialogue{_number(net, dialogue)}": net.hidden[n] for net in dialogue}
        gates = {
            f"{name}{_number(net, dialogue)}": float(gate[n]) for net in dialogue for name, gate in net.gates.items()
        }
        text = ("" if tokens.axis.kind == "character" else " ").join(labels)
        frames.append(EncoderFrame(n, f"{turns.labels[n]}: {text}", held, gates))
    return tuple(frames)


def _number(net: Network, of: Sequence[Network]) -> str:
    return f" layer {net.layer}" if len(of) > 1 else ""


def _dialogue(seen: Trace, num_turns: int) -> list[Network]:
    """The layers of the network over the turns."""
    nets = []
    for name, gates in seen.gates().items():
        if name.startswith("turns.forward_cells."):
            rows = {gate: values[0, :num_turns] for gate, values in gates.items()}
            nets.append(Network.of("turns", int(name.rsplit(".", 1)[1]), "turns", rows))
    return nets


def _word_states(seen: Trace, lengths: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """For each turn, the last layer's states at its words, `(words, d)`, both directions, and the turn's vector."""
    both: list[list[Tensor]] = []
    for kind in ("forward", "backward"):
        names = [record.name for record in seen.gate_records if record.name.startswith(f"words.{kind}_cells.")]
        if not names:
            continue
        last = max(names, key=lambda name: int(name.rsplit(".", 1)[1]))
        calls = [record for record in seen.gate_records if record.name == last]
        states: list[Tensor] = [torch.empty(0)] * len(lengths)
        for rows, call in zip(length_groups(list(lengths)), calls, strict=True):
            hidden = call.gates()["hidden"]
            for row, number in enumerate(rows):
                states[number] = hidden[row, : lengths[number]]
        both.append(states)
    forward, *backward = both
    found = []
    for n, ahead in enumerate(forward):
        back = [one[n] for one in backward]
        vector = torch.cat([ahead[-1], *(states[0] for states in back)], dim=-1)
        found.append((torch.cat([ahead, *back], dim=-1), vector))
    return found
