"""What an output does under other weights, as data and as lines: `heed.observe.interventions` computes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

PROBABLE = "choice of tokens"
"""What is known to be the same of an output that was given, or found by beam search: the most probable tokens."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a model answered to an input, with a pass that computes the distributions of its outputs again."""

    model: nn.Module
    tokens: Tensor  # `(L,)`, the input
    # from tokens `(N, L)`, `LEFT_OUT` for those left out, and the mechanism whose weights are replaced ("" for none) to
    # logits `(N, outputs, classes)`
    logits: Callable[[Tensor, str], Tensor]
    named: Callable[[int, int], str]  # an output with a class, for people: 'token 21 "mayo"'
    classes: Sequence[int] | None = None  # what was answered; None for the most probable
    words: Sequence[range] = ()  # the tokens of each word of the input
    axis: str = ""  # name of the axes of maps on which these words stand
    before: int = 0  # positions on that axis before the first token
    each: bool = False  # each word has an output, which is left aside where the word is left out
    # what stays the same where no output has another most probable class: "output", or what is known of it
    said: str = "output"

    @torch.no_grad()
    def probabilities(self, tokens: Tensor, chosen: Tensor, mechanism: str = "") -> tuple[Tensor, Tensor]:
        """The probability of `chosen` `(outputs,)`, and the most probable class of each output, both `(N, outputs)`."""
        logits = self.logits(tokens, mechanism).float()
        best = logits.argmax(-1)
        own = chosen.unsqueeze(0).expand_as(best).unsqueeze(2)
        return torch.softmax(logits, -1).gather(2, own).squeeze(2).double().cpu(), best.cpu()


@dataclass(frozen=True)
class Change:
    """The largest change of the probability of an answer over its outputs, under one intervention."""

    output: str  # where it is largest
    before: float
    after: float
    instead: str = ""  # of the first output that has another most probable class, that class; "" for the same output

    @property
    def size(self) -> float:
        """The change, without its sign."""
        return abs(self.after - self.before)

    def __str__(self) -> str:
        return f"{self.output}: {self.before:.2f} -> {self.after:.2f}"


@dataclass(frozen=True)
class LeftOut:
    """The most attended word of a map beside the word whose deletion changes the answer most."""

    attended: str
    weight: float  # mean over the rows
    change: float  # of the probability, without the word
    rank: int  # of that change, from 1
    words: int
    largest: str
    largest_change: float
    together: float  # without the three most attended

    def __str__(self) -> str:
        return (
            f"words left out: without the most attended, {self.attended} ({self.weight:.2f}), the change is "
            f"{self.change:.2f}, rank {self.rank} of {self.words}; without {self.largest} {self.largest_change:.2f}; "
            f"without the three most attended {self.together:.2f}"
        )


@dataclass(frozen=True)
class Effect:
    """What the output does when the weights of one map are replaced."""

    equal: Change
    key: Change  # the largest over the keys that were tried
    on: str  # that key
    others: int  # keys with which the output is another one
    tried: int
    keys: int
    said: str = "output"  # what is the same, or another one: see `Answer.said`
    words: LeftOut | None = None

    @property
    def still(self) -> bool:
        """True if the output stayed the same under each intervention that was tried."""
        return not self.equal.instead and not self.others

    @property
    def lines(self) -> list[str]:
        """What was done and what came out, for people."""
        equal = f"{self.equal.instead} instead" if self.equal.instead else f"the same {self.said}"
        tried = f"{'' if self.tried == self.keys else f'the {self.tried} most attended of '}{self.keys} keys"
        other = f"another {self.said} with {self.others}" if self.others else f"the same {self.said} with each"
        most = f"at most {self.key.size:.2f} (on {self.on}; {self.key})"
        return [
            f"equal weights: {equal} ({self.equal})",
            f"all weight on one key: {other} of {tried}, {most}",
            *([f"grey: the same {self.said} under all of these weights"] if self.still else []),
            *([] if self.words is None else [str(self.words)]),
        ]
