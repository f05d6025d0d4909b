"""Causal tracing and the logit lens of runs that read texts: which states carry what an output needs.

A task says by `explain` which score is meant and by `contrast` which one distinguishes two texts;
`observe/patching.py` puts states in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.models.base import PairDecoder
from heed.observe.looks import Look
from heed.observe.maps import Axis, Map, SignedMap, Tokens, plural
from heed.observe.patching import Patching, after_each_block, sites_of
from heed.observe.shown import ShownLook
from heed.observe.trace import trace
from heed.tasks import capability
from heed.tasks.base.attributing import Explained
from heed.threads import sparing

_LEAST, _SMALL = 1e-4, 0.05
"""Smallest difference of two scores of which shares are computed, and the one below which a note calls it small."""
_PATCHED = (
    "Share of the difference that comes back when the states of one layer, at one position, are those of the other "
    "text (0: the score stays; 1: it is that of the other text); all that follows is computed anew. First row: the "
    "tokens themselves are replaced."
)
_LENS = (
    "The most probable next token, and its probability, if each block were the last: the model's own last "
    "normalisation and output layer read the state after it. The last row is the model's output."
)


class HasPatching:
    """The method `patch` of runs that read texts."""

    task: Any
    model: Any
    explain: ClassVar[Callable[..., Explained]]
    contrast: ClassVar[Callable[..., dict[str, Any]]]
    """The task's function `(task, model, text, other)`: the options of `explain` for the score that tells the two
    apart."""

    @sparing()
    def patch(self, text: Any, other: Any, *, target: str | None = None, rather_than: str | None = None) -> ShownLook:
        """Put states of another text in place of those of a text, at each layer and word in turn.

        Args:
            text: The text.
            other: A text of as many tokens, whose states are taken.
            target: The score, as for `attribute`; by default that of the label, tag or next token of `other` minus that
                of `text`, or the log-probability of the output for `other`.
            rather_than: As for `attribute`.

        Returns:
            A look with one map, a row for each layer and a column for each word: its `weights` are the recovered
            shares of the difference of the scores.

        Raises:
            ConfigError: The texts have different numbers of tokens, or nearly equal scores; or the model has no states
                of its tokens.
        """
        run: Any = capability(self, "patch")
        text, other = run.readable(text), run.readable(other)
        if rather_than is not None and target is None:
            raise ConfigError("--rather-than needs --for, the score that it is compared with")
        asked = self.contrast(self.task, self.model, text, other)
        if target is not None:
            asked |= {"target": target, "rather_than": rather_than}
        own, there = (self.explain(self.task, self.model, one, **asked) for one in (text, other))
        _check_lengths(own, there)
        scored, tokens, words = own.scored, own.scored.tokens, own.words
        first, last = own.around
        length = len(first) + len(tokens) + len(last)
        device = tokens.device
        with torch.no_grad(), trace(self.model) as seen:
            score_there = float(there.scored.of_tokens(there.scored.tokens.unsqueeze(0)))
            if isinstance(self.model, PairDecoder):  # only states of the source have its positions
                seen.tensor_records.clear()
                seen.gate_records.clear()
                read = there.scored.tokens.unsqueeze(0)
                self.model.encode(read, torch.ones_like(read, dtype=torch.bool))
        layers: dict[int, list[Any]] = {}
        for site in sites_of(seen, length):
            layers.setdefault(site.layer, []).append(site)
        if not layers:
            raise ConfigError(
                f"model {self.task.config.model.name} has no states of single tokens that could be put in; recurrent "
                "networks and Transformers over a whole text have them, hierarchical ones over one sentence"
            )
        spans = [range(n, n + 1) for n in range(len(first))]
        spans += [range(len(first) + one.start, len(first) + one.stop) for one in words.tokens]
        spans += [range(n, n + 1) for n in range(length - len(last), length)]
        places = torch.zeros(len(spans), length, dtype=torch.bool, device=device)
        for row, span in enumerate(spans):
            places[row, span.start : span.stop] = True
        inside = places[:, len(first) : len(first) + len(tokens)]
        rows = [scored.of_tokens(torch.where(inside, there.scored.tokens, tokens))]
        same = tokens.expand(len(spans), -1)
        for _, sites in sorted(layers.items()):
            parts = zip(same.split(scored.at_once), places.split(scored.at_once), strict=True)
            scores = []
            for some, at in parts:
                with Patching(self.model, sites, at):
                    scores.append(scored.of_tokens(some))
            rows.append(torch.cat(scores))
        score = float(scored.of_tokens(tokens.unsqueeze(0)))
        notes = [f"score: {own.name}; {score:.4f} of the text, {score_there:.4f} of the other", *own.notes]
        if abs(score_there - score) < _LEAST:
            raise ConfigError(
                f"{notes[0]}: the scores are equal, so no share can be computed; choose another with --for"
            )
        if abs(score_there - score) < _SMALL:
            notes.append("a small difference: shares of it say little about the model")
        shares = (torch.stack(rows).double().cpu() - score) / (score_there - score)
        pairs = zip(words.axis.labels, there.words.axis.labels, strict=True)
        labels = (*first, *(one if one == another else f"{one}/{another}" for one, another in pairs), *last)
        unit = plural(words.axis.kind)
        patched = Axis("layers", "layer", (unit, *(f"layer {number}" for number in sorted(layers))))
        columns = Axis("text", words.axis.kind, labels)
        name = f"activation patching: {own.name}"
        grid = SignedMap("states", 0, None, patched, columns, shares, caption=_PATCHED, name=name, quantity="share")
        return _grid(f"{run.title}: activation patching, states from another text", grid, notes, str(text), str(other))


def _grid(title: str, grid: Map, notes: Sequence[str], text: str, other: str = "") -> ShownLook:
    """A look with nothing but a map of layers and positions."""
    names = "text", "other" if other else ""
    return ShownLook(Look(title, text, other, (grid,), (), (), tuple(notes), names=names), steps=False)


def _check_lengths(own: Explained, there: Explained) -> None:
    counts = [len(one.scored.tokens) for one in (own, there)]
    if counts[0] != counts[1]:
        raise ConfigError(
            f"the text has {counts[0]} tokens and the other {counts[1]}; states are exchanged position by position, so "
            "the numbers must be equal"
        )
    for n, (one, another) in enumerate(zip(own.words.tokens, there.words.tokens, strict=False)):
        if one != another:
            raise ConfigError(
                f"word {n + 1} of the text, {own.words.axis.labels[n]!r}, has {len(one)} tokens, but "
                f"{there.words.axis.labels[n]!r} of the other has {len(another)}; states are exchanged word by word"
            )


class HasLens:
    """The method `lens` of runs whose decoder consists of blocks."""

    task: Any
    model: Any
    lens_reads: ClassVar[Callable[..., tuple[Callable[[], Tensor], Axis, Callable[[int], str]]]]
    """The task's function `(task, model, text)`: a pass that gives logits `(1, length, vocab_size)`, the tokens that it
    reads, and the name of a token."""

    @sparing()
    def lens(self, text: Any) -> ShownLook:
        """The logit lens: the most probable token after each block of the decoder, at each position.

        Raises:
            ConfigError: The model has no decoder blocks.
        """
        run: Any = capability(self, "lens")
        self.model.eval()
        read, axis, name = self.lens_reads(self.task, self.model, run.readable(text))
        best = [torch.softmax(logits[0].float(), -1).max(-1) for logits in after_each_block(self.model, read)]
        blocks = tuple(f"block {number}" for number in range(len(best)))
        values, tokens = torch.stack([one.values for one in best]).cpu(), [one.indices.tolist() for one in best]
        named = tuple(tuple(map(name, row)) for row in tokens)
        rows = Axis("blocks", "block", blocks)
        grid = Tokens("next tokens", 0, None, rows, axis, values, caption=_LENS, tokens=named)
        return _grid(f"{run.title}: logit lens", grid, (), text if isinstance(text, str) else " ".join(text))
