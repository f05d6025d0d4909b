"""Links between the words of given pairs, from the attention of one run or of two runs in opposite directions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from heed.data.examples import Pair
from heed.data.read.links import WordLink
from heed.errors import ConfigError
from heed.evaluation.alignment import Cell, Symmetrization, alignment_measures, symmetrize
from heed.evaluation.measures import Measure
from heed.tasks.translation.word_weights import Array, Place, State, layers_of, num_heads_of, usual_place, word_weights

if TYPE_CHECKING:
    from heed.tasks.translation.run import Translator

Gold = Sequence[Sequence[WordLink]]
_AGREE_ON = 500
"""Most pairs on which two runs choose the layers that agree best."""


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


class Alignments(Sequence[WordAlignment]):
    """The links of several pairs.

    Attributes:
        report: The places that links were read from and, with gold links, their scores, as plain values.
        notes: The same as lines for people.
    """

    def __init__(self, each: Sequence[WordAlignment], report: dict[str, Any], notes: Sequence[str]) -> None:
        self._each, self.report, self.notes = tuple(each), report, tuple(notes)

    def __len__(self) -> int:
        return len(self._each)

    @overload
    def __getitem__(self, index: int) -> WordAlignment: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[WordAlignment]: ...

    def __getitem__(self, index: int | slice) -> WordAlignment | Sequence[WordAlignment]:
        return self._each[index]

    @property
    def links(self) -> list[list[Cell]]:
        """The links of each pair."""
        return [list(one.links) for one in self]

    def __str__(self) -> str:
        return "\n".join(map(str, self))


@dataclass
class Direction:
    """One run that aligns: each target word is linked to the source word with the largest attention weight.

    Attributes:
        run: A single run, or the member of an ensemble whose attention is used.
        swapped: True if the run's targets are the sources of the pairs.
        layer: The layer that the user asked for, negative from the end; None for any.
        head: The head that the user asked for, from 0, or "mean"; None for any.
        state: The state that the user asked for; None for the default.
        place: The layer, heads and state that links are read from.
    """

    run: Translator
    swapped: bool = False
    layer: int | None = None
    head: int | Literal["mean"] | None = None
    state: State | None = None
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        usual = usual_place(self.run.task, self.run.model)
        layer = usual.layer if self.layer is None else self._layers()[0]
        self._heads(num_heads_of(self.run.model, layer))  # refuses a head that does not exist, before links are read
        heads = usual.heads if self.head is None else None if self.head == "mean" else (self.head,)
        self.place = Place(layer, heads, usual.state if self.state is None else self.state)

    def _layers(self) -> list[int]:
        layers = layers_of(self.run.model, self.run.config.model.name)
        if self.layer is None:
            return layers
        if not -len(layers) <= self.layer < len(layers):
            have = "1 layer attends" if len(layers) == 1 else f"{len(layers)} layers attend"
            raise ConfigError(f"no layer {self.layer}: {have} to the source in '{self.run.folder}', counted from 0")
        return [layers[self.layer]]

    def _heads(self, num_heads: int) -> list[tuple[int, ...] | None]:
        """The heads to choose from, the mean of all first."""
        if self.head is None:
            return [None, *((head,) for head in range(num_heads if num_heads > 1 else 0))]
        if self.head != "mean" and not 0 <= self.head < num_heads:
            are = "is 1 head" if num_heads == 1 else f"are {num_heads} heads"
            raise ConfigError(f"no head {self.head}: there {are} in '{self.run.folder}', counted from 0")
        return [None if self.head == "mean" else (self.head,)]

    def candidates(self, pairs: Sequence[Pair]) -> dict[Place, list[list[Cell]]]:
        """The links of pairs at every place that the user's options allow, the default place first."""
        found: dict[Place, list[list[Cell]]] = {}
        layers = self._layers()
        for n, weights in self._weights(pairs, layers):
            for at, heads in ((at, heads) for at in range(len(layers)) for heads in self._heads(weights.shape[1])):
                place = Place(layers[at], heads, self.place.state)
                cells = found.setdefault(place, [[] for _ in pairs])
                cells[n] = [cell for cell, _ in self._best(_read(weights[at], heads))]
        return dict(sorted(found.items(), key=lambda item: item[0] != self.place))

    def align(self, pairs: Sequence[Pair]) -> list[dict[Cell, float]]:
        """Each pair's links with their weights, read from `place`."""
        found: list[dict[Cell, float]] = [{} for _ in pairs]
        for n, weights in self._weights(pairs, [self.place.layer]):
            if self.place.heads is not None:
                self._heads(weights.shape[1])
            found[n] = dict(self._best(_read(weights[0], self.place.heads)))
        return found

    def written(self, source: str, ids: Sequence[int]) -> list[Cell]:
        """The links of a source with the tokens `ids` that the run wrote."""
        one = word_weights(
            self.run.task, self.run.model, [Pair(source, "")], [self.place.layer], self.place.state, [ids]
        )
        return [cell for _, weights in one for cell, _ in self._best(_read(weights[0], self.place.heads))]

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """The mean log-probability of each pair's target tokens under the run, in nats."""
        task = self.run.task
        nll, _, tokens = task.forced_scores(self.run.model, task.encode_pairs(self._turned(pairs)))
        return [-loss / count for loss, count in zip(nll, tokens, strict=True)]

    def _turned(self, pairs: Sequence[Pair]) -> list[Pair]:
        sides = ((pair.source.strip(), pair.target.strip()) for pair in pairs)
        return [Pair(target, source) if self.swapped else Pair(source, target) for source, target in sides]

    def _weights(self, pairs: Sequence[Pair], layers: list[int]) -> Iterable[tuple[int, Array]]:
        return word_weights(self.run.task, self.run.model, self._turned(pairs), layers, self.place.state)

    def _best(self, weights: Array) -> list[tuple[Cell, float]]:
        """For each written word, the link with the largest weight; `weights` are (written, read)."""
        best = weights.argmax(1).tolist()
        cells = [((j, i) if self.swapped else (i, j), float(weights[j, i])) for j, i in enumerate(best)]
        return [(cell, weight) for cell, weight in cells if weight > 0]


def _read(weights: Array, heads: tuple[int, ...] | None) -> Array:
    """The mean of heads, `(heads, ...)` to `(...)`."""
    mean: Array = (weights if heads is None else weights[list(heads)]).mean(0)
    return mean


class Aligner:
    """Word aligner for pairs.

    Attributes:
        report: The places that links are read from and their scores, as plain values
            (`heed.tasks.translation.gold.settle`).
        notes: The same for people.

    Args:
        run: A run from the sources of pairs to their targets.
        reverse: A run from the targets to the sources.
        how: Symmetrization of both directions into one alignment; "gdfa" by default.
        options: `layer`, `head` and `state` of both (see `Direction`).

    Raises:
        ConfigError: A run does not attend to its source, or lacks the layer; or `how` is given without `reverse`.
    """

    def __init__(
        self,
        run: Translator,
        reverse: Translator | None = None,
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
        self.how: Symmetrization = how or "gdfa"
        symmetrize([], [], self.how)  # refuses unknown names
        self.directions = [Direction(run.attending, **options)]
        if reverse is not None:
            self.directions.append(Direction(reverse.attending, swapped=True, **options))

    @property
    def places(self) -> list[Place]:
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
        forward, reverse = (
            {place: cells for place, cells in one.candidates(some).items() if place.heads == one.place.heads}
            for one in self.directions
        )
        both = [(one, other) for one in forward for other in reverse]
        if len(both) > 1:
            chosen = min(both, key=lambda places: _disagreement(forward[places[0]], reverse[places[1]]))
            for direction, place in zip(self.directions, chosen, strict=True):
                direction.place = place
        return len(both)

    def choose(self, pairs: Sequence[Pair], gold: Gold) -> int:
        """Choose, for each direction, the place whose links have the lowest alignment error.

        Returns:
            The number of places to choose from, in all directions together.
        """
        count = 0
        for direction in self.directions:
            candidates = direction.candidates(pairs)
            count += len(candidates)
            if len(candidates) > 1:
                errors = {place: alignment_measures(cells, gold)[0].score() for place, cells in candidates.items()}
                direction.place = min(errors, key=lambda place: errors[place])
        return count

    def measures(self, pairs: Sequence[Pair], gold: Gold) -> list[Measure]:
        """Error, precision and recall of the links of pairs."""
        return alignment_measures([one.links for one in self.align(pairs)], gold)


def _disagreement(forward: Sequence[Iterable[Cell]], reverse: Sequence[Iterable[Cell]]) -> float:
    """The alignment error of one direction against the other."""
    same = links = 0
    for one, other in zip(map(set, forward), map(set, reverse), strict=True):
        same, links = same + len(one & other), links + len(one) + len(other)
    return 1 - 2 * same / max(1, links)
