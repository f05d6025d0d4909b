"""Verdicts on the attention of runs that read texts: on the maps of one text, and their shares over many.

A task says, by `judged`, which rows of which maps belong to a text; `observe/verdict.py` has the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from heed.data.examples import evenly, is_blank
from heed.evaluation.measures import share
from heed.evaluation.significance import shown
from heed.observe.attribution import LEFT_OUT
from heed.observe.edits import Edit, Permute, Uniform
from heed.observe.looks import Choice
from heed.observe.trace import Trace, edit
from heed.observe.verdict import VERDICTS, Row, Values, Verdict, judge
from heed.tasks import capability
from heed.tasks.base.beside import PERMUTED_WEIGHTS, other_of
from heed.tasks.base.run import Run
from heed.threads import sparing

MOST = 500
"""Most texts over which shares of verdicts are counted."""
PERMUTED = 20
"""Passes with permuted weights."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows of one map of one input, with what its outputs lose without each key."""

    mechanism: str
    layer: int
    head: int | None  # None for the mean of all
    rows: list[Row]
    keys: list[Sequence[int]]  # for each row, the numbers of the parts of the input that its keys are
    uniform: float | None  # change of the output's probability under uniform weights, of several outputs the mean
    permuted: Callable[[], float]  # the same under permuted weights, the mean over `PERMUTED` passes
    together: Callable[[list[list[int]]], Values]  # see `judge`; of the keys of the first row
    unit: str  # what one key is

    @property
    def name(self) -> str:
        """The map, for display."""
        return f"{self.mechanism} layer {self.layer}" + ("" if self.head is None else f" head {self.head}")

    @property
    def verdict(self) -> Verdict:
        """The verdict on this map."""
        return judge(self.rows, self.together, self.uniform, unit=self.unit)


def odds_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-odds of given labels `(T,)` among all, from logits `(N, T, vocab_size)`, `(N, T)` in float64."""
    own = torch.log_softmax(logits.float(), -1).gather(2, labels.expand(len(logits), -1).unsqueeze(2))
    own = own.squeeze(2).double()
    return own - torch.log(-torch.expm1(own.clamp_max(-1e-12)))


def label_odds(logits: Tensor, number: int, own: Tensor, sigmoid: bool) -> Tensor:
    """The log-odds of a label `(N,)` from logits `(N, outputs)`; `own` is its logit, all there is with a sigmoid."""
    return own if sigmoid else own - torch.cat([logits[:, :number], logits[:, number + 1 :]], dim=1).logsumexp(1)


class Looked(NamedTuple):
    """One row of a map: the weights of its keys, the numbers of these parts, and the output that it belongs to."""

    weights: Tensor  # (keys,)
    keys: Sequence[int]
    output: int | None = 0  # None: all outputs together


@dataclass(frozen=True, eq=False)
class Deletions:
    """An input whose parts are left out one by one, and what each output of the model then loses."""

    model: nn.Module
    tokens: Tensor  # (L,)
    parts: Sequence[range]  # of the tokens: words, sentences
    # from tokens `(N, L)`, `LEFT_OUT` for those left out, to the log-odds of each output, `(N, outputs)`
    log_odds: Callable[[Tensor], Tensor]
    at_once: int = 64  # inputs that are read in one pass
    unit: str = "word"  # what one part is

    @torch.no_grad()
    def _read(self, tokens: Tensor) -> Tensor:
        self.model.eval()
        return torch.cat([self.log_odds(some).double().cpu() for some in tokens.split(self.at_once)])

    @cached_property
    def whole(self) -> Tensor:
        """The log-odds of each output, `(outputs,)`."""
        return self._read(self.tokens.unsqueeze(0))[0]

    @cached_property
    def each(self) -> Tensor:
        """The log-odds without each part, `(parts, outputs)`."""
        return self.without([[number] for number in range(len(self.parts))])

    def without(self, several: Sequence[Sequence[int]]) -> Tensor:
        """The log-odds without several parts, `(len(several), outputs)`."""
        tokens = self.tokens.repeat(len(several), 1)
        for row, numbers in enumerate(several):
            for number in numbers:
                tokens[row, self.parts[number].start : self.parts[number].stop] = LEFT_OUT
        return self._read(tokens)

    def _changes(self, left: Tensor, output: int | None) -> Tensor:
        """Changes of probabilities `(N,)`, without their sign; the largest of all outputs if none is given."""
        changes = (left.sigmoid() - self.whole.sigmoid()).abs()
        return changes.amax(1) if output is None else changes[:, output]

    def judged(self, mechanism: str, layer: int, rows: Iterable[Looked], head: int | None = None) -> Judged:
        """Judge rows of one attention."""
        looked = list(rows)
        found, outputs = [], sorted({row.output for row in looked if row.output is not None}) or slice(None)
        for weights, keys, output in looked:
            left = self.each[list(keys)]
            falls = (self.whole - left).abs()
            effects = falls.mean(1) if output is None else falls[:, output]
            values = (one.double().cpu().numpy() for one in (weights, effects, self._changes(left, output)))
            found.append(Row(*values))

        def changed(*edits: Edit) -> float:
            with edit(self.model, *edits):
                changes = (self._read(self.tokens.unsqueeze(0))[0].sigmoid() - self.whole.sigmoid()).abs()[outputs]
            return float(changes.mean()) if changes.numel() else 0.0

        def permuted() -> float:
            each = (changed(Permute(mechanism, layer, head, seed=seed)) for seed in range(1, PERMUTED + 1))
            return sum(each) / PERMUTED

        def together(several: list[list[int]]) -> Values:
            first = looked[0]
            left = self.without([[first.keys[key] for key in some] for some in several])
            values: Values = self._changes(left, first.output).numpy()
            return values

        uniform = changed(Uniform(mechanism, layer, head)) if looked else None
        return Judged(
            mechanism, layer, head, found, [row.keys for row in looked], uniform, permuted, together, self.unit
        )

    def judged_positions(
        self, seen: Trace, choice: Choice, start: int = 0, skipped: Collection[int] = ()
    ) -> Iterator[Judged]:
        """Judge maps over one text, of which each part has an output: the row behind it, over the other parts.

        The part itself is no key, since it reaches its output without attention too. A tape ("self") is read before
        the state of a position is computed, so the row behind that is the one before; what is looked up after the last
        token is not used.

        Args:
            seen: A trace of a pass over this text.
            choice: The maps to judge.
            start: Number of positions before the text.
            skipped: Parts that are no keys.
        """
        places = [range(start + part.start, start + part.stop) for part in self.parts]
        for mechanism, layer in choice.layers(seen.mechanisms()):
            maps = seen.maps(mechanism, layer, entries=[0])
            every, back = maps.weights[0].double(), int(mechanism == "self")
            allowed = maps.mask[0].expand_as(every).any(0)
            for head in choice.heads(len(every)):
                weights, rows = every.mean(0) if head is None else every[head], []
                for n in range(min(len(self.parts), len(self.whole))):
                    lines = [place - back for place in places[n] if back <= place < back + len(weights)]
                    row, may = weights[lines].mean(0), allowed[lines].any(0)
                    keys = [
                        key
                        for key, place in enumerate(places)
                        if key != n and key not in skipped and place.stop <= len(row) and may[place.start].item()
                    ]
                    if lines and len(keys) > 1:
                        sums = row.cumsum(0).tolist()
                        ends = ((places[key].stop - 1, places[key].start - 1) for key in keys)
                        shares = [sums[last] - (sums[before] if before >= 0 else 0.0) for last, before in ends]
                        rows.append(Looked(torch.tensor(shares, dtype=torch.float64), keys, n))
                yield self.judged(mechanism, layer, rows, head if len(every) > 1 else None)


class Judges:
    """The methods `verdicts` and `verdict_shares` of runs with attention."""

    task: Any
    model: Any
    judged: ClassVar[Callable[..., list[Judged]]]
    """The task's function `(task, model, text, choice)`."""

    @sparing()
    def verdicts(
        self,
        text: Any,
        *,
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
        beside: str | Run[Any, Any] | None = None,
    ) -> dict[str, Verdict]:
        """Whether each map of a text goes with what the model uses, by its name.

        Args:
            text: As of `look`.
            mechanism: As of `look`.
            layer: As of `look`.
            head: As of `look`.
            beside: Also the verdict on the same map of another network, as of `look`; "permuted": also the change of
                the output under permuted weights, the mean over 20 passes.

        Raises:
            ConfigError: The text is blank, the model lacks that attention, or there is no such `beside`.
        """
        run: Any = capability(self, "verdicts")
        other = None if beside in (None, PERMUTED_WEIGHTS) else other_of(run, beside)
        given = run.readable(text), Choice(mechanism, layer, head)
        found = {one.name: one for one in type(self).judged(self.task, self.model, *given)}
        verdicts = {name: one.verdict for name, one in found.items()}
        if beside == PERMUTED_WEIGHTS:
            said = {
                name: f"permuted weights change it by {one.permuted():.3f} (mean of {PERMUTED} passes)"
                for name, one in found.items()
            }
        elif other is not None:
            judged = type(other.run).judged(other.run.task, other.run.model, other.run.readable(text), given[1])
            said = {one.name: f"{other.said}: {one.verdict.line}" for one in judged}
        else:
            return verdicts
        return {name: replace(one, beside=said.get(name, "")) for name, one in verdicts.items()}

    def verdict_notes(self, given: Any, beside: str | Run[Any, Any] | None, **choice: Any) -> list[str]:
        """The verdicts on the maps of one look as lines."""
        found = capability(self, "verdicts").verdicts(given, beside=beside, **choice)
        lines = [f"verdict on {name}: {one.line}" for name, one in found.items()]
        return lines or ["no verdict: none of the chosen maps can be judged"]

    @sparing()
    def verdict_shares(self, texts: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """The shares of the verdicts over inputs of looks, at most 500 evenly chosen, for each attention's last layer.

        For each: `share` and interval of each verdict, and of texts whose output does `not depend` on the weights; and
        the verdict on all inputs together, `pooled`, which judges short texts too.
        """
        run: Any = capability(self, "verdicts")
        each: dict[str, list[Judged]] = {}
        filled = [text for text in texts if not (isinstance(text, str) and is_blank(text))]
        for text in evenly(filled, MOST):
            for one in type(self).judged(self.task, self.model, run.readable(text), Choice()):
                each.setdefault(one.name, []).append(one)
        return {name: _shares(found) for name, found in each.items()}


def _shares(found: Sequence[Judged]) -> dict[str, Any]:
    verdicts = [one.verdict for one in found]
    measures = [share(word, word, [one.word == word for one in verdicts]) for word in VERDICTS]
    measures.append(share("not depend", "output does not depend on it", [one.depends is False for one in verdicts]))
    pooled = judge([row for one in found for row in one.rows], unit=found[0].unit)
    return {"texts": len(found), **shown(measures), "pooled": {"verdict": pooled.word, "why": pooled.why}}


def verdict_lines(shares: dict[str, dict[str, Any]]) -> list[str]:
    """Shares of verdicts for people."""
    lines = []
    for name, found in shares.items():
        lines.append(f"verdicts on {name}, {found['texts']:,} inputs:")
        for word in (*VERDICTS, "not depend"):
            one = found[word]
            label = "output does not depend on it" if word == "not depend" else word
            lines.append(f"  {label:<32} {one['value']:7.2%}  [{one['low']:.2%}, {one['high']:.2%}]")
        lines.append(f"  all inputs together: {found['pooled']['verdict']} ({found['pooled']['why']})")
    return lines
