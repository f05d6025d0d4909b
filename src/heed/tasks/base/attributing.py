"""Attributions of texts: what each word adds to a score, as numbers, a shading and a data frame.

A task says, by `explain`, which score is attributed to which words; `watch/attribution.py` computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, suggest, whole_number
from heed.show.shown import ShownLook
from heed.tasks import capability
from heed.tasks.base.looking import Words, notes_on, text_line
from heed.tasks.base.predictions import data_frame
from heed.threads import sparing
from heed.visible import visible
from heed.watch.attribution import LEFT_OUT, METHODS, Attribution, Scored, check_options, leave_one_out
from heed.watch.attribution import attribute as attribute_score
from heed.watch.edits import Given, edits_of
from heed.watch.looks import Look, Shading
from heed.watch.maps import Axis
from heed.watch.trace import edit

REPLACED = ("deleted", "unknown", "mean")
"""What leave-one-out does with a word."""


@dataclass(frozen=True, eq=False)
class Explained:
    """A score of a model, and the words that it is attributed to."""

    scored: Scored
    words: Words  # of the tokens of `scored`
    name: str  # of the score: "the logit of 'pos'"
    notes: tuple[str, ...] = ()  # what was held fixed
    around: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # names of tokens that the model adds before and after
    deleting: tuple[str, ...] = ()  # the notes where words are deleted, if they are others


class Attributed(ShownLook):
    """What each word of a text adds to a score, `values`; a notebook shows the shaded words, `print` the numbers, too.

    Attributes:
        axis: The words.
        values: A number for each: the sum over its tokens, or the fall of the score when it is left out.
        name: The score: "the logit of 'pos'".
        of: The numbers of the tokens, and how they were computed.
        notes: What was computed, and what was held fixed.
    """

    def __init__(self, title: str, text: str, axis: Axis, values: Sequence[float], name: str, of: Attribution) -> None:
        self.axis, self.values, self.name, self.of = axis, tuple(values), name, of
        super().__init__(Look(title, text, "", (), (), (), shadings=(self.shading,), names=("text", "")), steps=False)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.look.notes

    @property
    def shading(self) -> Shading:
        """The words, shaded by their numbers."""
        largest = max(map(abs, self.values), default=1.0) or 1.0
        title = f"{METHODS[self.of.method].capitalize()}: part of each {self.axis.kind} in {self.name}"
        signed = self.of.method != "grad"
        return Shading(title, self.axis, self.values, largest, signed=signed, panel="attribution")

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each word."""
        return data_frame({self.axis.kind: self.axis.labels, "value": self.values})

    def text(self, width: int = 100, color: bool = False) -> str:
        return "\n".join([super().text(width, color).rstrip("\n"), "", *self._rows()])

    def _rows(self) -> list[str]:
        """A line for each word."""
        words = [*map(visible, self.axis.labels)]
        longest = max(map(len, words), default=0)
        return [f"{word:{longest}}  {value:+.4f}" for word, value in zip(words, self.values, strict=True)]

    def __repr__(self) -> str:
        return "\n".join([f"{self.name}", *self._rows(), *self.notes])


@sparing()
def attribute(
    run: Any,
    text: Any,
    *,
    method: str = "ig",
    target: str | None = None,
    rather_than: str | None = None,
    baseline: str | None = None,
    steps: int | None = None,
    without: str | None = None,
    edits: Sequence[Given] = (),
    **options: Any,
) -> Attributed:
    """Attribute a score of one text to its words.

    Args:
        run: A run that reads texts.
        text: The text; if the run reads pairs, a tuple of two texts, as pretraining may; or a conversation.
        method: "ig" (integrated gradients), "grad", "gradxinput" or "loo" (leave-one-out).
        target: The score: a label; TAG:WORD for tags, the tag of a word (from 0); for models that write,
            TOKEN:POSITION, or TOKEN at its first place, of the output; for pretraining, WORD or WORD:MASK (masks are
            counted from 0), or for a pair "follows"; by default the predicted label, the first entity, the whole
            output, or the most probable word at the first mask.
        rather_than: Another label, tag or token: the score is the difference of the two.
        baseline: The vector that stands in for a word in "ig": "mean" (of all words, the default), "zero" or "unknown".
        steps: Steps of the integral; by default doubled until the error is at most 1 %, up to 400.
        without: What "loo" does with a word: it is "deleted" (the default), or replaced by the "unknown" token or the
            "mean".
        edits: Changes to the attention weights under which the score is computed (`heed.watch.edits`).
        options: For models that write, `output`, a given output instead of the model's own; for dialogue, `speaker`,
            the one who responds.

    Raises:
        ConfigError: The text is blank, the score is none of this model, or the method does not read an option.
    """
    capability(run, "attribute")
    check_options(method, {"baseline": baseline, "steps": steps, "without": without})
    without = without or "deleted"
    if without not in REPLACED:
        raise ConfigError(f"a word cannot be left out as {without!r}{suggest(without, REPLACED)}")
    read = run.readable(text)
    with edit(run.model, *edits_of(edits)):
        explained = run.looks.explain(run.task, run.model, read, target, rather_than, **options)
        words, notes = explained.words, explained.notes
        if method == "loo":
            notes = (without == "deleted" and explained.deleting) or notes
            of = leave_one_out(explained.scored, words.tokens, without)  # type: ignore[arg-type]
            values = of.values
        else:
            of = attribute_score(explained.scored, method, baseline=baseline or "mean", steps=steps)
            values = words.sum(of.values.unsqueeze(0))[0]
    attributed = Attributed(run.title, text_line(run, read), words.axis, values.tolist(), explained.name, of)
    attributed.look = replace(attributed.look, notes=(of.note, *notes, *notes_on((), edits_of(edits))))
    return attributed


def table_of(model: nn.Module) -> str:
    """The name of the parameter that has the vectors of the tokens that a model reads first: those of its source."""
    names = ("source_embedding", "inputs.embedding", "embedding")
    modules = dict(model.named_modules(remove_duplicate=False))
    return next(f"{prefix}{name}.weight" for prefix in ("", "body.") for name in names if f"{prefix}{name}" in modules)


def placed(target: str, names: Sequence[str] = ()) -> tuple[str, int | None]:
    """A target as typed, NAME:POSITION or NAME, as its name and position; a name may itself have a colon."""
    name, colon, place = target.rpartition(":")
    if target in names or not colon or not name or not (place.isascii() and place.isdecimal()):
        return target, None
    return name, whole_number(place)


def padded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens `(N, L)` without those left out, padded on the right with token 0, and their mask."""
    mask = rows != LEFT_OUT
    order = torch.argsort(~mask, dim=1, stable=True)
    length = max(1, int(mask.sum(1).max()))
    tokens, real = rows.gather(1, order)[:, :length], mask.gather(1, order)[:, :length]
    return tokens.where(real, 0), real


def chosen(name: str, names: Sequence[str], what: str) -> int:
    """The number of a name that a user typed.

    Raises:
        ConfigError: It is none of the names.
    """
    if name not in names:
        raise ConfigError(f"this run has no {what} {name!r}{suggest(name, names)}")
    return names.index(name)


def token_named(tokenizer: TextTokenizer, text: str) -> int:
    """The token with this text.

    Raises:
        ConfigError: The text is not one token.
    """
    ids = tokenizer.encode(text).ids
    if len(ids) != 1 or ids[0] == tokenizer.special.unknown:
        pieces = " ".join(map(tokenizer.label, ids))
        raise ConfigError(f"{text!r} is not one token of this run, but {pieces or 'none'}")
    return ids[0]
