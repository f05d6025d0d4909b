"""The tokens of a look at a language model, and a frame for each token that was read or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heed.data.tokens.tokenizer import END, SPECIAL_TOKENS, START
from heed.observe.choice import View
from heed.observe.frames import DecoderFrame, EncoderFrame, Glance
from heed.observe.maps import Axis
from heed.observe.trace import Trace
from heed.tasks.base.looking import Network, Words
from heed.tasks.language_modelling.task import LanguageModelling

_TOP = 5
_MARK = "\u2581"
_SPECIAL = {END: "end", START: "start"}
"""Names of the boundary tokens of tokenizers trained here; imported tokenizers have other names."""
WRITTEN = "+"
"""Marks tokens that the model wrote."""


@dataclass(frozen=True)
class LookedAt:
    """The tokens of a look."""

    ids: list[int]  # in reading order, with the task's first token at the beginning
    labels: tuple[str, ...]  # one for each token
    first_written: int  # index of the first token that the model wrote; the number of tokens if it wrote none
    ended: bool  # True if the model then wrote an end token

    @property
    def axis(self) -> Axis:
        """The axis of all tokens; written tokens are marked."""
        return Axis("text", "token", tuple(self.marked))

    @property
    def marked(self) -> list[str]:
        """The labels, with `WRITTEN` before those of written tokens."""
        return [WRITTEN * (n >= self.first_written) + label for n, label in enumerate(self.labels)]


def _glances(views: Sequence[View], place: int, count: int) -> tuple[Glance, ...]:
    """Attention weights after reading token `place` of `count`, without the tokens after it."""
    glances = []
    for view in views:
        row = place - (count - len(view.map.query))
        if row >= 0:
            one, end = view.glance(row), min(place + 1, len(view.map.key))
            if one.mask is not None:
                end = min(end, int(one.mask.nonzero().max()) + 1)
            glances.append(
                replace(
                    one,
                    key=replace(one.key, labels=one.key.labels[:end]),
                    weights=one.weights[:end],
                    scores=None if one.scores is None else one.scores[:end],
                    mask=None if one.mask is None or bool(one.mask[:end].all()) else one.mask[:end],
                )
            )
    return tuple(glances)


def _top(task: LanguageModelling, logits: Tensor) -> tuple[tuple[str, float], ...]:
    """The most probable next tokens, from logits `(vocab_size,)`."""
    best = torch.softmax(logits, -1).topk(min(_TOP, len(logits)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple((label_of(task, token), probability) for token, probability in pairs)


def label_of(task: LanguageModelling, token: int) -> str:
    """The text of a token, including a space before it; boundary tokens by name."""
    own = task.tokenizer.token(token)
    if token in _SPECIAL and own == SPECIAL_TOKENS[token]:
        return _SPECIAL[token]
    return task.tokenizer.piece(token).replace(_MARK, " ")


def words_of(task: LanguageModelling, text: LookedAt) -> Words:
    """The words of a text, boundary tokens by name; a word of the prompt that the model continued is split in two."""
    groups = []
    for one in task.tokenizer.words(text.ids):
        if one.start < text.first_written < one.stop:
            groups += [range(one.start, text.first_written), range(text.first_written, one.stop)]
        else:
            groups.append(one)
    labels = []
    for group in groups:
        alone = len(group) == 1 and text.ids[group.start] < len(SPECIAL_TOKENS)
        label = text.labels[group.start] if alone else task.tokenizer.word_label(text.ids[group.start : group.stop])
        labels.append(WRITTEN * (group.start >= text.first_written) + label)
    return Words(Axis("text", "character" if task.tokenizer.unit == "character" else "word", tuple(labels)), groups)


def _states(seen: Trace, nets: Sequence[Network]) -> dict[str, Tensor]:
    """The states of each layer, `(tokens, d)`."""
    states = {net.label: net.hidden for net in nets}
    return states | {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}


def _gates(nets: Sequence[Network], place: int) -> dict[str, float]:
    return {f"{net.label} {gate}": float(net.gates[gate][place]) for net in nets for gate in net.gates}


def reading_frames(
    task: LanguageModelling,
    seen: Trace,
    nets: Sequence[Network],
    views: Sequence[View],
    text: LookedAt,
    logits: Tensor,
    count: int,
) -> tuple[EncoderFrame, ...]:
    """A frame for each of the first `count` tokens."""
    states = _states(seen, nets)
    return tuple(
        EncoderFrame(
            place,
            text.labels[place],
            {name: state[place] for name, state in states.items()},
            _gates(nets, place),
            _glances(views, place, len(text.ids)),
            _top(task, logits[place]),
        )
        for place in range(count)
    )


def writing_frames(
    task: LanguageModelling,
    seen: Trace,
    nets: Sequence[Network],
    views: Sequence[View],
    text: LookedAt,
    logits: Tensor,
    first: int,
) -> tuple[DecoderFrame, ...]:
    """A frame for each token from index `first` on, and for a written end token: how the token was chosen."""
    states = list(_states(seen, nets).values())
    tokens = [*text.labels[first:], *([label_of(task, END)] if text.ended else [])]
    frames = []
    for index, token in enumerate(tokens):
        place = first + index - 1  # of the token that was read last
        frames.append(
            DecoderFrame(
                index,
                text.labels[: place + 1],
                token,
                states[-1][place] if states else logits[place],
                _glances(views, place, len(text.ids)),
                _top(task, logits[place]),
                _gates(nets, place),
            )
        )
    return tuple(frames)
