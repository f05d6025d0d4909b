"""What every stage of a lesson is built from: the file, and attention with and without its weights."""

from __future__ import annotations

from dataclasses import dataclass

from heed.attention import Score
from heed.errors import ConfigError
from heed.lessons.arithmetic import Inputs, Numbers, compute, divisor, inputs, score_for
from heed.lessons.places import find
from heed.lessons.schema import LessonFile

_RULES = {"query_width": "sqrt(d_k)", "model_width": "sqrt(d_model)", "rows": "sqrt(rows)", "none": ""}


@dataclass(frozen=True)
class Bench:
    """The basis of all stages: the file, and attention over all rows with and without its weights.

    Attributes:
        where: Name of the file in messages.
        tokens: One per row.
        given: The rows, projected.
        unlearned: Attention with q = k = v = x and no scale.
        rule: Text of the divisor of the scores: "sqrt(d_k)"; empty for none.
        chosen: The row that single rows are shown for.
        asked: Whether the reader chose it.
    """

    where: str
    file: LessonFile
    tokens: tuple[str, ...]
    given: Inputs
    score: Score
    learned: Numbers
    unlearned: Numbers
    rule: str
    chosen: int
    asked: bool

    @property
    def scale(self) -> str:
        """The rule with its value: "sqrt(d_k) = 1.732"."""
        number = not isinstance(self.file.scale, str)
        return self.rule if number or not self.rule else f"{self.rule} = {divisor(self.score):.3f}"

    def named_score(self, scale: str | float) -> Score:
        """The score of another scale on the same rows."""
        d_model, d_query = self.given.x.shape[-1], self.given.query.shape[-1]
        return score_for(scale, d_model=d_model, d_query=d_query, rows=len(self.tokens))

    def over(self, product: str) -> str:
        """A product as the equation writes it: with the scale, where there is one."""
        return f"{product} / {self.rule}" if self.rule else product


def make_bench(file: LessonFile, where: str, row: int | str | None) -> Bench:
    """Compute attention over all rows; by default single rows are shown for the first that has something to weigh.

    Raises:
        ConfigError: There is no such row, or the numbers overflow.
    """
    tokens, given = tuple(file.tokens), inputs(file)
    chosen = find(row, tokens, f"{where}: --row") if row is not None else _telling_row(given)
    sizes = {"d_model": given.x.shape[-1], "d_query": given.query.shape[-1], "rows": len(tokens)}
    score = score_for(file.scale, **sizes)
    unlearned = compute(given.unlearned(), score_for("none", **sizes))
    learned = compute(given, score)
    for numbers in (unlearned, learned):
        if not bool(numbers.scores.isfinite().all() & numbers.context.isfinite().all()):
            raise ConfigError(f"{where}: a score is too large for a number; make the input or the weights smaller")
    rule = _RULES.get(file.scale, file.scale) if isinstance(file.scale, str) else f"{file.scale:g}"
    return Bench(where, file, tokens, given, score, learned, unlearned, rule, chosen, row is not None)


def _telling_row(given: Inputs) -> int:
    """The first row whose query is not zero and that may attend to several keys."""
    telling = given.query.any(dim=-1)
    if given.mask is not None:
        telling = telling & (given.mask.sum(dim=-1) > 1)
    return int(telling.double().argmax())
