"""An answer of a model that can be recomputed, and the effect of other weights on it, as data and as lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from heed.watch.attribution import LEFT_OUT

PROBABLE = "choice of tokens"
"""The compared part of a forced output, or of one from beam search: the most probable tokens."""
_MAX_INPUTS, _LOGITS = 64, 2**24
"""Maximum number of inputs of one pass, and rough number of logits that are computed together."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A model's answer to an input, with a pass that recomputes the distributions of its outputs."""

    model: nn.Module
    tokens: Tensor  # `(L,)`, the input
    # from tokens `(N, L)`, `LEFT_OUT` for those left out, and the mechanism whose weights are replaced ("" for none) to
    # logits `(N, outputs, classes)`
    logits: Callable[[Tensor, str], Tensor]
    named: Callable[[int, int], str]  # an output with a class, for people: 'token 21 "mayo"'
    classes: Sequence[int] | None = None  # the answer; None for the most probable
    words: Sequence[range] = ()  # the tokens of each word of the input
    # what is compared, for people: "output", or the known part of it
    compared: str = "output"

    @cached_property
    def _plain(self) -> Tensor:
        """The logits without an intervention, `(outputs, classes)`, under the edits that are in place at first."""
        self.model.eval()
        with torch.no_grad():
            return self.logits(self.tokens.unsqueeze(0), "")[0].float()

    @cached_property
    def best(self) -> Tensor:
        """The most probable class of each output, `(outputs,)`."""
        return self._plain.argmax(-1)

    @cached_property
    def chosen(self) -> Tensor:
        """The class of each output that was answered, `(outputs,)`."""
        return self.best if self.classes is None else torch.tensor(self.classes, dtype=torch.long).to(self.best)

    @cached_property
    def whole(self) -> Tensor:
        """The probability of each, `(outputs,)`."""
        return torch.softmax(self._plain, -1).gather(1, self.chosen.unsqueeze(1)).squeeze(1).double().cpu()

    @property
    def at_once(self) -> int:
        """Inputs that are read in one pass."""
        return max(1, min(_MAX_INPUTS, _LOGITS // max(1, self._plain.numel())))

    @torch.no_grad()
    def probabilities(self, tokens: Tensor, mechanism: str = "") -> tuple[Tensor, Tensor]:
        """The probability of the answer, and the most probable class, of each output: both `(N, outputs)`."""
        logits = self.logits(tokens, mechanism).float()
        answered = self.chosen.expand(len(tokens), -1).unsqueeze(2)
        return torch.softmax(logits, -1).gather(2, answered).squeeze(2).double().cpu(), logits.argmax(-1).cpu()

    def change(self, probabilities: Tensor, best: Tensor) -> Change:
        """The change in one pass; both arguments are `(outputs,)`."""
        at = int((probabilities - self.whole).abs().argmax())
        differing = (best != self.best.cpu()).nonzero().flatten().tolist()
        instead = self.named(differing[0], int(best[differing[0]])) if differing else ""
        output = self.named(at, int(self.chosen[at]))
        return Change(output, float(self.whole[at]), float(probabilities[at]), instead)

    @cached_property
    def without(self) -> Tensor:
        """The probability of each output without each word, `(words, outputs)`."""
        rows = self.tokens.repeat(len(self.words), 1)
        for row, word in zip(rows, self.words, strict=True):
            row[[*word]] = LEFT_OUT
        return torch.cat([self.probabilities(some)[0] for some in rows.split(self.at_once)])


@dataclass(frozen=True, eq=False)
class NumberAnswer(Answer):
    """One number in place of a distribution: `logits` are numbers `(N, 1, 1)`, and what changes is their value."""

    compared: str = ""

    @cached_property
    def best(self) -> Tensor:
        return torch.zeros(1, dtype=torch.long)

    @cached_property
    def whole(self) -> Tensor:
        """The number, `(1,)`."""
        return self._plain[:, 0].double().cpu()

    @torch.no_grad()
    def probabilities(self, tokens: Tensor, mechanism: str = "") -> tuple[Tensor, Tensor]:
        """The number of each input, `(N, 1)`, and zeros."""
        numbers = self.logits(tokens, mechanism)[:, :, 0].double().cpu()
        return numbers, torch.zeros_like(numbers, dtype=torch.long)

    def change(self, probabilities: Tensor, best: Tensor) -> Change:
        return Change(self.named(0, 0), float(self.whole[0]), float(probabilities[0]))


@dataclass(frozen=True)
class Change:
    """The largest change of the probability of an answer over its outputs, or of a number, under one intervention."""

    output: str  # where it is largest
    before: float
    after: float
    instead: str = ""  # of the first output that has another most probable class, that class; "" for the same output

    @property
    def size(self) -> float:
        """The change, without its sign."""
        return abs(self.after - self.before)

    def line(self, form: str) -> str:
        """The change, for people; `form` is the format of the numbers."""
        return f"{self.output}: {self.before:{form}} -> {self.after:{form}}"


@dataclass(frozen=True)
class Effect:
    """The effect on the output of replacing the weights of one map."""

    equal: Change
    key: Change  # the largest over the keys that were tried
    on: str  # that key
    others: int  # keys with which the output is another one
    tried: int
    keys: int
    compared: str = "output"  # as in `Answer`; "" for a number, where only the change is printed

    @property
    def still(self) -> bool:
        """True if the output stayed the same under each intervention that was tried."""
        return bool(self.compared) and not self.equal.instead and not self.others

    @property
    def lines(self) -> list[str]:
        """Each intervention and its result, for people."""
        tried = f"{'' if self.tried == self.keys else f'the {self.tried} most attended of '}{self.keys} keys"
        form = ".2f" if self.compared else ".4g"
        largest = f"at most {self.key.size:{form}} (on {self.on}; {self.key.line(form)})"
        if not self.compared:
            return [
                f"equal weights: {self.equal.line(form)}",
                f"all weight on one of {tried}: a change of {largest}",
            ]
        equal = f"{self.equal.instead} instead" if self.equal.instead else f"the same {self.compared}"
        other = f"another {self.compared} with {self.others}" if self.others else f"the same {self.compared} with each"
        return [
            f"equal weights: {equal} ({self.equal.line(form)})",
            f"all weight on one key: {other} of {tried}, {largest}",
            *([f"grey: the same {self.compared} under all of these weights"] if self.still else []),
        ]
