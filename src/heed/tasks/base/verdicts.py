"""Verdicts on the attention of runs that read texts: on the maps of one text, and their shares over many.

A task says, by `judged`, which rows of which maps belong to a text; `observe/verdict.py` has the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from heed.data.examples import evenly
from heed.evaluation.measures import share
from heed.evaluation.significance import shown
from heed.observe.attribution import LEFT_OUT, Scored, leave_one_out
from heed.observe.edits import Uniform
from heed.observe.looks import Choice
from heed.observe.trace import edit
from heed.observe.verdict import VERDICTS, Row, Values, Verdict, judge
from heed.tasks import capability
from heed.threads import sparing

MOST = 500
"""Most texts over which shares of verdicts are counted."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows of one map of one text, with what its output loses without each key."""

    mechanism: str
    layer: int
    rows: list[Row]
    uniform: float  # change of the output's probability under uniform weights
    together: Callable[[list[list[int]]], Values] | None = None  # see `judge`; of the keys of the first row

    @property
    def name(self) -> str:
        """The map, for display."""
        return f"{self.mechanism} layer {self.layer}"

    @property
    def verdict(self) -> Verdict:
        """The verdict on this map."""
        return judge(self.rows, self.together, self.uniform)


def judged_rows(scored: Scored, mechanism: str, layer: int, rows: Sequence[tuple[Tensor, Sequence[range]]]) -> Judged:
    """Judge rows of weights over parts of the input; the score is the output's log-odds.

    Each row has its weights, `(parts,)`, and the tokens of each part.
    """
    found, whole = [], scored.of_tokens(scored.tokens.unsqueeze(0)).double().cpu()
    for weights, parts in rows:
        left = leave_one_out(scored, parts)
        changes = (whole - left.values).sigmoid() - whole.sigmoid()
        values = (one.abs().double().cpu().numpy() for one in (weights, left.values, changes))
        found.append(Row(*values))

    def changed(tokens: Tensor) -> Values:
        change: Values = (scored.of_tokens(tokens).double().cpu().sigmoid() - whole.sigmoid()).numpy()
        return change

    def together(several: list[list[int]]) -> Values:
        tokens = scored.tokens.repeat(len(several), 1)
        for row, keys in enumerate(several):
            for key in keys:
                tokens[row, rows[0][1][key].start : rows[0][1][key].stop] = LEFT_OUT
        return changed(tokens)

    with edit(scored.model, Uniform(mechanism, layer)):
        uniform = float(np.abs(changed(scored.tokens.unsqueeze(0)))[0])
    return Judged(mechanism, layer, found, uniform, together)


class Judges:
    """The methods `verdicts` and `verdict_shares` of runs that read texts."""

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
    ) -> dict[str, Verdict]:
        """Whether each map of a text goes with what the model uses, by its name; arguments as of `look`.

        Raises:
            ConfigError: The text is blank, or the model lacks that attention.
        """
        run: Any = capability(self, "verdicts")
        found = type(self).judged(self.task, self.model, run.readable(text), Choice(mechanism, layer, head))
        return {one.name: one.verdict for one in found}

    @sparing()
    def verdict_shares(self, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The shares of the verdicts over texts, at most 500 evenly chosen, for each attention's last layer.

        For each: `share` and interval of each verdict, and of texts whose output does `not depend` on the weights; and
        the verdict on all texts together, `pooled`, which judges short texts too.
        """
        run: Any = capability(self, "verdicts")
        each: dict[str, list[Judged]] = {}
        for text in evenly([text for text in texts if text.strip()], MOST):
            for one in type(self).judged(self.task, self.model, run.readable(text), Choice()):
                each.setdefault(one.name, []).append(one)
        return {name: _shares(found) for name, found in each.items()}


def _shares(found: Sequence[Judged]) -> dict[str, Any]:
    verdicts = [one.verdict for one in found]
    measures = [share(word, word, [one.word == word for one in verdicts]) for word in VERDICTS]
    measures.append(share("not depend", "output does not depend on it", [not one.depends for one in verdicts]))
    pooled = judge([row for one in found for row in one.rows])
    return {"texts": len(found), **shown(measures), "pooled": {"verdict": pooled.word, "why": pooled.why}}


def verdict_lines(shares: dict[str, dict[str, Any]]) -> list[str]:
    """Shares of verdicts for people."""
    lines = []
    for name, found in shares.items():
        lines.append(f"verdicts on {name}, {found['texts']:,} texts:")
        for word in (*VERDICTS, "not depend"):
            one = found[word]
            label = "output does not depend on it" if word == "not depend" else word
            lines.append(f"  {label:<32} {one['value']:7.2%}  [{one['low']:.2%}, {one['high']:.2%}]")
        lines.append(f"  all texts together: {found['pooled']['verdict']} ({found['pooled']['why']})")
    return lines
