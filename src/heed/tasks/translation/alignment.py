"""Links between the words of given pairs, from the attention of one run or of two in opposite directions.

`Gold` links score them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from heed.config import RunConfig
from heed.data.examples import Pair
from heed.data.kinds.links import WordLink, read_links
from heed.errors import ConfigError, DataError
from heed.evaluation.alignment import Cell, Symmetrization, alignment_measures, symmetrize
from heed.evaluation.significance import shown
from heed.models.base import PairDecoder
from heed.tasks.base.report import counted
from heed.tasks.base.writing import WrittenText
from heed.tasks.translation.task import Translation
from heed.tasks.translation.word_weights import (
    Array,
    AttentionPlace,
    State,
    layers_of,
    num_heads_of,
    usual_place,
    word_links,
    word_weights,
)

Gold = Sequence[Sequence[WordLink]]
_AGREE_ON = 500
"""Most pairs on which two runs choose the layers that agree best."""
_LABELS = {"aer": "AER", "alignment_precision": "precision", "alignment_recall": "recall"}


@dataclass(frozen=True)
class WordAlignment:
    """The links of one pair.

    Attributes:
        links: (source word, target word), sorted; words are separated by spaces and counted from 0.
        weights: The attention of each link; of two directions the mean.
        score: Mean log-probability of a target token in nats, of two directions the mean; NaN if it was not asked for
            or a side is blank. Pairs that are not translations of each other score low.
    """

    links: tuple[Cell, ...] = ()
    weights: tuple[float, ...] = ()
    score: float = math.nan

    def __str__(self) -> str:
        return " ".join(f"{i}-{j}" for i, j in self.links)

    def scored(self) -> str:
        """The score, a tab, and each link with its weight; "" if a side is blank."""
        links = " ".join(f"{i}-{j}:{weight:.4f}" for (i, j), weight in zip(self.links, self.weights, strict=True))
        return "" if math.isnan(self.score) else f"{self.score:.4f}\t{links}"


class Alignments(list[WordAlignment]):
    """The links of several pairs.

    Attributes:
        report: The places that links were read from and, with gold links, their scores, as plain values.
        notes: The same as lines for people.
    """

    def __init__(self, each: Iterable[WordAlignment], report: dict[str, Any], notes: Sequence[str]) -> None:
        super().__init__(each)
        self.report, self.notes = report, tuple(notes)

    @property
    def links(self) -> list[list[Cell]]:
        """The links of each pair."""
        return [list(one.links) for one in self]

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class Direction:
    """One run that aligns: each target word is linked to the source word with the largest attention weight.

    Args:
        run: A single run, or the member of an ensemble whose attention is used.
        swapped: True if the run's targets are the sources of the pairs.
        layer: The layer to read, negative from the end; None for the default (`usual_place`).
        head: The head to read, from 0, or "mean"; None for the default.
        state: The state to read; None for the default.

    Attributes:
        layers: The layers to choose from.
        place: The layer, heads and state that links are read from.
    """

    def __init__(
        self,
        run: AlignsWords,
        swapped: bool = False,
        *,
        layer: int | None = None,
        head: int | Literal["mean"] | None = None,
        state: State | None = None,
    ) -> None:
        self.run, self.swapped = run, swapped
        self.layers = layers_of(run.model, run.config.model.name)
        usual = usual_place(run.task, run.model)
        if layer is not None:
            if not -len(self.layers) <= layer < len(self.layers):
                have = "1 layer attends" if len(self.layers) == 1 else f"{len(self.layers)} layers attend"
                raise ConfigError(f"no layer {layer}: {have} to the source in '{run.folder}', counted from 0")
            self.layers = [self.layers[layer]]
        chosen = usual.layer if layer is None else self.layers[0]
        num_heads = num_heads_of(run.model, chosen)
        if isinstance(head, int) and not 0 <= head < num_heads:
            are = "is 1 head" if num_heads == 1 else f"are {num_heads} heads"
            raise ConfigError(f"no head {head}: there {are} in '{run.folder}', counted from 0")
        heads = usual.heads if head is None else None if head == "mean" else (head,)
        self.place = AttentionPlace(chosen, heads, usual.state if state is None else state)

    def candidates(self, pairs: Sequence[Pair]) -> dict[AttentionPlace, list[dict[Cell, float]]]:
        """The links of pairs in every layer to choose from, the default first."""
        layers = sorted(self.layers, key=lambda layer: layer != self.place.layer)
        found = self._links(self._turned(pairs), layers)
        return {replace(self.place, layer=layer): links for layer, links in zip(layers, found, strict=True)}

    def align(self, pairs: Sequence[Pair]) -> list[dict[Cell, float]]:
        """Each pair's links with their weights, read from `place`."""
        return self._links(self._turned(pairs), [self.place.layer])[0]

    def written(self, source: str, ids: Sequence[int]) -> list[Cell]:
        """The links of a source with the tokens `ids` that the run wrote."""
        return list(self._links([Pair(source, "")], [self.place.layer], [ids])[0][0])

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """The mean log-probability of each pair's target tokens under the run, in nats."""
        task = self.run.task
        nll, _, tokens = task.forced_scores(self.run.model, task.encode_pairs(self._turned(pairs)))
        return [-loss / count for loss, count in zip(nll, tokens, strict=True)]

    def _turned(self, pairs: Sequence[Pair]) -> list[Pair]:
        sides = ((pair.source.strip(), pair.target.strip()) for pair in pairs)
        return [Pair(target, source) if self.swapped else Pair(source, target) for source, target in sides]

    def _links(
        self, pairs: Sequence[Pair], layers: list[int], written: Sequence[Sequence[int]] | None = None
    ) -> list[list[dict[Cell, float]]]:
        """For each layer and pair, the link with the largest weight of each written word, with that weight."""
        found: list[list[dict[Cell, float]]] = [[{} for _ in pairs] for _ in layers]
        heads = slice(None) if self.place.heads is None else list(self.place.heads)
        for n, weights in word_weights(self.run.task, self.run.model, pairs, layers, self.place.state, written):
            for links, of_layer in zip(found, weights, strict=True):
                mean: Array = of_layer[heads].mean(0)  # (written, read)
                for j, i in enumerate(mean.argmax(1).tolist()):
                    if mean[j, i] > 0:
                        links[n][(j, i) if self.swapped else (i, j)] = float(mean[j, i])
        return found


class Aligner:
    """Word aligner for pairs.

    Args:
        run: A run from the sources of pairs to their targets.
        reverse: A run from the targets to the sources.
        how: Symmetrization of both directions into one alignment; "gd" by default.
        options: `layer`, `head` and `state` of both (see `Direction`).

    Attributes:
        report: The places that links are read from and, with gold links, their scores, as plain values.
        notes: The same for people.

    Raises:
        ConfigError: A run does not attend to its source, or lacks the layer; or `how` is given without `reverse`.
    """

    def __init__(
        self,
        run: AlignsWords,
        reverse: AlignsWords | None = None,
        how: Symmetrization | None = None,
        **options: Any,
    ) -> None:
        if how is not None and reverse is None:
            raise ConfigError(
                f"symmetrize is '{how}', which needs the links of both directions; give a run that translates in the "
                "opposite direction as reverse"
            )
        self.report: dict[str, Any] = {}
        self.notes: list[str] = []
        self.how: Symmetrization = how or "gd"
        symmetrize([], [], self.how)  # refuses unknown names
        self.directions = [Direction(run.attending, **options)]
        if reverse is not None:
            self.directions.append(Direction(reverse.attending, swapped=True, **options))

    @property
    def places(self) -> list[AttentionPlace]:
        """The places that links are read from, one for each direction."""
        return [direction.place for direction in self.directions]

    def align(self, pairs: Sequence[Pair], scores: bool = False) -> list[WordAlignment]:
        """The links of each pair; with `scores`, also its score."""
        each = [direction.align(pairs) for direction in self.directions]
        links = [sorted(found) for found in each[0]]
        if len(each) == 2:
            links = symmetrize(each[0], each[1], self.how)
        log_probs = [direction.log_probs(pairs) for direction in self.directions] if scores else []
        result = []
        for n, (cells, pair) in enumerate(zip(links, pairs, strict=True)):
            known = [[one[n][cell] for one in each if cell in one[n]] for cell in cells]
            weights = tuple(sum(values) / len(values) for values in known)
            blank = not pair.source.strip() or not pair.target.strip()
            score = math.nan if blank or not scores else float(np.mean([one[n] for one in log_probs]))
            result.append(WordAlignment(tuple(cells), weights, score))
        return result

    def agree(self, pairs: Sequence[Pair]) -> int:
        """Choose the layers whose links in both directions agree best, unless the user chose them.

        Source: Chen et al. 2020 (arXiv:2004.14837), the layers whose links in both directions have the lowest
        alignment error against one another. Heads stay as they are.

        Returns:
            The number of pairs of layers to choose from; 1 or less if there was no choice.
        """
        if len(self.directions) < 2:
            return 0
        some = [pair for pair in pairs if pair.source.strip() and pair.target.strip()][:_AGREE_ON]
        forward, reverse = (one.candidates(some) for one in self.directions)
        both = [(one, other) for one in forward for other in reverse]
        if len(both) > 1:
            chosen = min(both, key=lambda places: _disagreement(forward[places[0]], reverse[places[1]]))
            for direction, place in zip(self.directions, chosen, strict=True):
                direction.place = place
        return len(both)

    def scores(self, pairs: Sequence[Pair], gold: Gold, resamples: int) -> dict[str, Any]:
        """Error, precision and recall of the links of pairs, with intervals."""
        return shown(alignment_measures([one.links for one in self.align(pairs)], gold), resamples)


def _disagreement(forward: Sequence[Iterable[Cell]], reverse: Sequence[Iterable[Cell]]) -> float:
    """The alignment error of one direction against the other."""
    same = links = 0
    for one, other in zip(map(set, forward), map(set, reverse), strict=True):
        same, links = same + len(one & other), links + len(one) + len(other)
    return 1 - 2 * same / max(1, links)


def read_gold(path: str | Path, pairs: Sequence[Pair], base: Literal[0, 1] = 0) -> tuple[Gold, list[str]]:
    """The gold links of pairs.

    Links to words beyond the end of a text are kept: no aligner can find them, but published scores count them.

    Args:
        path: File in Pharaoh format, a line for each pair.
        pairs: The texts.
        base: Number of the first word in the file.

    Returns:
        The links, and remarks on them.

    Raises:
        DataError: The file has a different number of lines or no links, or counts words from 1 although `base` is 0.
    """
    gold = read_links(path, base=base)
    if len(gold) != len(pairs):
        raise DataError(
            f"'{path}' has {counted(len(gold), 'line')}, but there are {counted(len(pairs), 'pair')}; line N must have "
            "the links of pair N (a blank line if it has none)"
        )
    links = [link for line in gold for link in line]
    if not links:
        raise DataError(f"'{path}' has no links")
    beyond = [
        (number, link)
        for number, (line, pair) in enumerate(zip(gold, pairs, strict=True), start=1)
        for link in line
        if link.source >= len(pair.source.split()) or link.target >= len(pair.target.split())
    ]
    if not beyond:
        return gold, []
    number, first = beyond[0]
    where = f"the first on line {number}: {first.written(base)}"
    if base == 0 and not any(0 in link[:2] for link in links):
        raise DataError(
            f"'{path}' has no link to a word 0, but {counted(len(beyond), 'link')} to a word after the last ({where}); "
            "it seems to count words from 1 (use --gold-base 1 of `heed align`, --alignment-base 1 of `heed evaluate`)"
        )
    is_one = len(beyond) == 1
    what = f"{counted(len(beyond), 'link')} {'names' if is_one else 'name'} a word after the last one"
    return gold, [f"'{path}': {what}, {where}; {'it counts' if is_one else 'they count'} as missed"]


class AlignsWords:
    """The methods of a run that link the words of sources and targets."""

    folder: Path
    config: RunConfig
    task: Translation
    model: PairDecoder

    @property
    @abstractmethod
    def attending(self) -> AlignsWords:
        """The run whose attention links words."""

    def aligner(
        self,
        pairs: Sequence[Pair],
        *,
        reverse: AlignsWords | None = None,
        symmetrize: Symmetrization | None = None,
        gold: str | Path | Gold | None = None,
        gold_base: Literal[0, 1] = 0,
        **options: Any,
    ) -> Aligner:
        """An aligner for pairs such as these; see `align`."""
        aligner = Aligner(self.attending, None if reverse is None else reverse.attending, symmetrize, **options)
        if isinstance(gold, str | Path):
            gold, aligner.notes = read_gold(gold, pairs, gold_base)
        agreed = aligner.agree(pairs)
        why = f" (the layers that agree best, among {agreed} pairs of layers)" if agreed > 1 else ""
        aligner.report["places"] = [place.values() for place in aligner.places]
        aligner.notes += [f"{one.run.folder}: {one.place}{why}" for one in aligner.directions]
        if reverse is not None:
            aligner.report["symmetrize"] = aligner.how
            aligner.notes.append(f"links of both directions: {aligner.how}")
        if gold is not None:
            scores = aligner.scores(pairs, gold, self.config.evaluation.bootstrap)
            aligner.report["test"] = {"pairs": len(pairs), **scores}
            values = (
                f"{label} {scores[key]['value']:.1%} [{scores[key]['low']:.1%}, {scores[key]['high']:.1%}]"
                for key, label in _LABELS.items()
            )
            aligner.notes.append(f"{counted(len(pairs), 'pair')}: {', '.join(values)}")
        return aligner

    @overload
    def align(self, source: str, target: str | WrittenText, **options: Any) -> list[Cell]: ...

    @overload
    def align(self, source: Sequence[str], target: Sequence[str], **options: Any) -> Alignments: ...

    def align(
        self, source: str | Sequence[str], target: str | WrittenText | Sequence[str], **options: Any
    ) -> list[Cell] | Alignments:
        """Links between the words of a source and of a target, or of several.

        Words are separated by spaces. Each target word is linked to the source word with the largest attention weight;
        in a `WrittenText` of a character model, every character counts as a word.

        Args:
            source: A text, or several.
            target: A text, or an output of the run; or several texts.
            options: `reverse`, a run in the opposite direction, and `symmetrize`, how both directions become one
                ("intersection" or "gd", grow-diag, the default); `layer`, `head` (a number or "mean") and `state`
                ("read" or "written"), from which links are read; `gold`, a file in Pharaoh format or links, to score
                the links, and `gold_base`, 1 if it counts words from 1; `scores`: give each pair a score.

        Returns:
            For one pair, (source word, target word), counted from 0. For several, a `WordAlignment` each, with `links`,
            `weights` and `score`, and the `report` of all.

        Raises:
            ConfigError: The model does not attend to the source (a `WrittenText` has no links then).
        """
        if isinstance(target, WrittenText):
            return self._links_of(str(source).strip(), target)
        if isinstance(source, str) and isinstance(target, str):
            return list(self.align([source], [target], **options)[0].links)
        if isinstance(source, str) or isinstance(target, str):
            raise ConfigError("align takes two texts, or a list of sources and a list of targets")
        if len(source) != len(target):
            counts = f"{counted(len(source), 'source')} and {counted(len(target), 'target')}"
            raise ConfigError(f"{counts} were given; align takes a target for each source")
        pairs = [Pair(*sides) for sides in zip(source, target, strict=True)]
        scores = options.pop("scores", False)
        aligner = self.aligner(pairs, **options)
        return Alignments(aligner.align(pairs, scores), aligner.report, aligner.notes)

    def _links_of(self, source: str, prediction: WrittenText) -> list[Cell]:
        run = self.attending
        if not run.model.aligns:
            return []
        if run.task.target_tokenizer.unit == "character":
            return word_links(run.task, run.model, source, prediction.ids)[0]
        return Direction(run).written(source, prediction.ids)

    def alignment_scores(
        self, pairs: Sequence[Pair], gold: str | Path, base: Literal[0, 1] = 0
    ) -> tuple[dict[str, Any], list[str]]:
        """Error, precision and recall of the links of pairs against those of a file, for a report.

        Links are read from the default place.

        Returns:
            `aer`, `alignment_precision`, `alignment_recall`, `alignment_place`; and remarks on the file.
        """
        links, notes = read_gold(gold, pairs, base)
        aligner = Aligner(self.attending)
        scores = aligner.scores(pairs, links, self.config.evaluation.bootstrap)
        return {**scores, "alignment_place": aligner.places[0].values()}, notes
