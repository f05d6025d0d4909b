"""Explaining a score of a text: attributions of words, activation patching, the logit lens, the beam search.

A task says by `explain` which score is attributed to which words, and by `contrast` which one distinguishes two texts;
`watch/attribution.py` and `watch/patching.py` compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, suggest, whole_number
from heed.generation import Candidate
from heed.models.base import PairDecoder
from heed.show.beams import BeamNode, Beams, ShownBeams
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
from heed.watch.maps import Axis, Map, plural
from heed.watch.patching import Patching, after_each_block, sites_of
from heed.watch.trace import edit, trace

REPLACED = ("deleted", "unknown", "mean")
"""Treatments of a word in leave-one-out."""


@dataclass(frozen=True, eq=False)
class Explained:
    """A score of a model, and the words that it is attributed to."""

    scored: Scored
    words: Words  # of the tokens of `scored`
    name: str  # of the score: "the logit of 'pos'"
    notes: tuple[str, ...] = ()  # on what is held fixed
    around: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # names of tokens that the model adds before and after
    deleting: tuple[str, ...] = ()  # the notes if words are deleted, where they differ


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
    """The name of the parameter with the embeddings of the tokens that a model reads first: those of its source."""
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


_MIN_DIFFERENCE, _SMALL = 1e-4, 0.05
"""Smallest difference of two scores whose shares are computed, and the limit below which a note calls it small."""
_PATCHED = (
    "Share of the difference that comes back when the states of one layer, at one position, are those of the other "
    "text (0: the score stays; 1: it is that of the other text); all that follows is computed anew. First row: the "
    "tokens themselves are replaced."
)
_LENS = (
    "The most probable next token, and its probability, if each block were the last: the model's own last "
    "normalisation and output layer read the state after it. The last row is the model's output."
)


@sparing()
def patch(
    run: Any,
    text: Any,
    other: Any,
    *,
    target: str | None = None,
    rather_than: str | None = None,
    edits: Sequence[Given] = (),
) -> ShownLook:
    """Put states of another text in place of those of a text, at each layer and word in turn.

    Args:
        run: A run that reads texts.
        text: The text.
        other: A text of as many tokens, whose states are taken.
        target: The score, as for `attribute`; by default that of the label, tag or next token of `other` minus that of
            `text`, or the log-probability of the output for `other`.
        rather_than: As for `attribute`.
        edits: Changes to the attention weights in all passes (`heed.watch.edits`).

    Returns:
        A look with one map, a row for each layer and a column for each word: its `weights` are the recovered shares of
        the difference of the scores.

    Raises:
        ConfigError: The texts have different numbers of tokens, or nearly equal scores; or the model has no states of
            its tokens.
    """
    capability(run, "patch")
    text, other = run.readable(text), run.readable(other)
    if rather_than is not None and target is None:
        raise ConfigError("--rather-than needs --for, the score that it is compared with")
    with edit(run.model, *edits_of(edits)):
        target_options = run.looks.contrast(run.task, run.model, text, other)
        if target is not None:
            target_options |= {"target": target, "rather_than": rather_than}
        both = [run.looks.explain(run.task, run.model, read, **target_options) for read in (text, other)]
        _check_lengths(*both)
        scores = _patched_scores(run, *both)
    explained = both[0]
    notes = [f"score: {explained.name}; {scores.text:.4f} of the text, {scores.other:.4f} of the other"]
    notes += explained.notes
    difference = scores.other - scores.text
    if abs(difference) < _MIN_DIFFERENCE:
        raise ConfigError(f"{notes[0]}: the scores are equal, so no share can be computed; choose another with --for")
    if abs(difference) < _SMALL:
        notes.append("a small difference: shares of it say little about the model")
    first, last = explained.around
    words, pairs = explained.words.axis, zip(*(each.words.axis.labels for each in both), strict=True)
    labels = (*first, *(a if a == b else f"{a}/{b}" for a, b in pairs), *last)
    rows = Axis("layers", "layer", (plural(words.kind), *(f"layer {number}" for number in scores.layers)))
    grid = Map(
        "states",
        0,
        None,
        rows,
        Axis("text", words.kind, labels),
        (scores.patched - scores.text) / difference,
        caption=_PATCHED,
        name=f"activation patching: {explained.name}",
        unit="share",
        signed=True,
    )
    title = f"{run.title}: activation patching, states from another text"
    return _grid(title, grid, [*notes, *notes_on((), edits_of(edits))], text_line(run, text), text_line(run, other))


class _Scores(NamedTuple):
    """The scores of two texts, and of the first with states of the second."""

    text: float
    other: float
    layers: list[int]
    patched: Tensor  # `(1 + layers, positions)`: with the tokens of each position replaced, then the states of a layer


def _patched_scores(run: Any, explained: Explained, other: Explained) -> _Scores:
    scored, tokens, others = explained.scored, explained.scored.tokens, other.scored.tokens
    before, after = map(len, explained.around)
    length, device = before + len(tokens) + after, tokens.device
    with torch.no_grad(), trace(run.model) as seen:
        score_there = float(other.scored.of_tokens(others.unsqueeze(0)))
        if isinstance(run.model, PairDecoder):  # only states of the source have its positions
            seen.tensor_records.clear()
            seen.gate_records.clear()
            read = others.unsqueeze(0)
            run.model.encode(read, torch.ones_like(read, dtype=torch.bool))
    layers: dict[int, list[Any]] = {}
    for site in sites_of(seen, length):
        layers.setdefault(site.layer, []).append(site)
    if not layers:
        raise ConfigError(
            f"model {run.task.config.model.name} has no states of single tokens that could be put in; recurrent "
            "networks and Transformers over a whole text have them, hierarchical ones over one sentence"
        )
    spans = [range(n, n + 1) for n in range(before)]
    spans += [range(before + word.start, before + word.stop) for word in explained.words.tokens]
    spans += [range(n, n + 1) for n in range(length - after, length)]
    places = torch.zeros(len(spans), length, dtype=torch.bool, device=device)
    for row, span in enumerate(spans):
        places[row, span.start : span.stop] = True
    rows = [scored.of_tokens(torch.where(places[:, before : before + len(tokens)], others, tokens))]
    same = tokens.expand(len(spans), -1)
    for _, sites in sorted(layers.items()):
        scores = []
        for rows_of_batch, at in zip(same.split(scored.at_once), places.split(scored.at_once), strict=True):
            with Patching(run.model, sites, at):
                scores.append(scored.of_tokens(rows_of_batch))
        rows.append(torch.cat(scores))
    score = float(scored.of_tokens(tokens.unsqueeze(0)))
    return _Scores(score, score_there, sorted(layers), torch.stack(rows).double().cpu())


@sparing()
def lens(run: Any, text: Any, *, edits: Sequence[Given] = ()) -> ShownLook:
    """The logit lens: the most probable token after each block of the decoder, at each position.

    Args:
        run: A run whose decoder consists of blocks.
        text: The text.
        edits: Changes to the attention weights (`heed.watch.edits`).

    Raises:
        ConfigError: The model has no decoder blocks.
    """
    capability(run, "lens")
    run.model.eval()
    text = run.readable(text)
    with edit(run.model, *edits_of(edits)):
        read, axis, name = run.looks.lens(run.task, run.model, text)
        best = [torch.softmax(logits[0].float(), -1).max(-1) for logits in after_each_block(run.model, read)]
    rows = Axis("blocks", "block", tuple(f"block {number}" for number in range(len(best))))
    named = tuple(tuple(map(name, block.indices.tolist())) for block in best)
    values = torch.stack([block.values for block in best]).cpu()
    parts = "next tokens", 0, None, rows, axis, values
    grid = Map(*parts, caption=_LENS, name="next tokens", unit="probability", tokens=named)
    return _grid(f"{run.title}: logit lens", grid, notes_on((), edits_of(edits)), text_line(run, text))


def _grid(title: str, grid: Map, notes: Sequence[str], text: str, other: str = "") -> ShownLook:
    """A look with nothing but a map of layers and positions."""
    names = "text", "other" if other else ""
    return ShownLook(Look(title, text, other, (grid,), (), (), tuple(notes), names=names), steps=False)


def _check_lengths(explained: Explained, other: Explained) -> None:
    counts = [len(each.scored.tokens) for each in (explained, other)]
    if counts[0] != counts[1]:
        raise ConfigError(
            f"the text has {counts[0]} tokens and the other {counts[1]}; states are exchanged position by position, so "
            "the numbers must be equal"
        )
    for n, (word, other_word) in enumerate(zip(explained.words.tokens, other.words.tokens, strict=False)):
        if word != other_word:
            raise ConfigError(
                f"word {n + 1} of the text, {explained.words.axis.labels[n]!r}, has {len(word)} tokens, but "
                f"{other.words.axis.labels[n]!r} of the other has {len(other_word)}; states are exchanged word by word"
            )


@sparing()
def beams(
    run: Any,
    text: Any,
    *,
    every: bool = False,
    beam_size: int | None = None,
    edits: Sequence[Given] = (),
    **options: Any,
) -> ShownBeams:
    """The beam search that writes the output for a text: its candidates with their probabilities and ranks.

    Args:
        run: A run that writes by beam search.
        text: The text.
        every: Show all that was ranked: also further outputs, rows whose continuations all left the beam, and
            candidates that never entered it. By default the best outputs are shown, as many as the beam has rows; JSON
            always has everything.
        beam_size: The configuration's by default.
        edits: Changes to the attention weights while it writes.
        options: For a response `speaker`, for a language model `length`.

    Raises:
        ConfigError: The search is greedy, so it has one path; or the text is blank.
    """
    capability(run, "beams")
    steps: list[list[Candidate]] = []
    generation = run.task.config.generation
    size = generation.beam_size if beam_size is None else beam_size
    if size == 1:
        raise ConfigError(
            "a beam search is shown by its candidates, and with a beam of 1 the search is greedy: one path; add --beam "
            "4, or see the next-best tokens of each step with heed look --steps"
        )
    with edit(run.model, *edits_of(edits)):
        options |= {"beam_size": size, "watch": lambda source, candidates: steps.append(candidates)}
        read = run.readable(text)
        source, output = text_line(run, read), run.candidates([read], **{**run.head.looked, **options})[0][0]
    tokenizer = [*run.task.tokenizers().values()][-1]
    nodes: list[BeamNode] = []
    rows = [-1]
    for step, candidates in enumerate(steps):
        first = len(nodes)
        for rank, node in enumerate(candidates, start=1):
            name = (tokenizer.token if node.token == tokenizer.special.end else tokenizer.piece)(node.token)
            fate = "continued" if node.fate == "kept" else node.fate
            nodes.append(BeamNode(step, rows[node.parent], name, node.log_prob, node.total, node.score, rank, fate))
        rows = [first + n for n, node in enumerate(candidates) if node.fate == "kept"]
    notes = tuple(notes_on((), edits_of(edits)))
    more = {"beam_size": size, "length_penalty": generation.length_penalty, "notes": notes}
    return ShownBeams(Beams.of(f"{run.title}: beam search", source, output.text, nodes, **more), every)
