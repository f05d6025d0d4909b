"""Word alignment by runs of translation: `align`, and scores against gold links."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from heed.config import RunConfig
from heed.data.examples import Pair
from heed.errors import ConfigError
from heed.evaluation.alignment import Cell, Symmetrization
from heed.evaluation.report import shown
from heed.tasks.base.report import counted
from heed.tasks.translation.aligning import Aligner, Alignments, Direction, Gold
from heed.tasks.translation.gold import read_gold, settle
from heed.tasks.translation.links import word_links
from heed.tasks.translation.sides import remarks_by_tokens
from heed.tasks.translation.word_weights import State
from heed.tasks.translation.writing import Prediction

if TYPE_CHECKING:
    from heed.tasks.translation.run import Translator


class AlignsWords:
    """The methods of a run that link the words of sources and targets."""

    config: RunConfig

    @property
    @abstractmethod
    def attending(self) -> Translator:
        """The run whose attention links words."""

    def aligner(
        self,
        pairs: Sequence[Pair],
        *,
        reverse: AlignsWords | None = None,
        symmetrize: Symmetrization | None = None,
        layer: int | None = None,
        head: int | Literal["mean"] | None = None,
        state: State | None = None,
        gold: str | Path | Gold | None = None,
        gold_base: Literal[0, 1] = 0,
    ) -> Aligner:
        """An aligner for pairs such as these; see `align`."""
        back = None if reverse is None else reverse.attending
        aligner = Aligner(self.attending, back, symmetrize, layer=layer, head=head, state=state)
        notes: list[str] = []
        if isinstance(gold, str | Path):
            gold, notes = read_gold(gold, pairs, gold_base)
        if back is not None:
            turned = [(pair.target, pair.source) for pair in pairs]
            notes += remarks_by_tokens(back.task, turned, f"for the reverse run '{back.folder}'")
        aligner.report, lines = settle(aligner, pairs, gold, self.config.evaluation.bootstrap)
        aligner.notes = [*notes, *lines]
        return aligner

    @overload
    def align(self, source: str, target: str | Prediction, **options: Any) -> list[Cell]: ...

    @overload
    def align(self, source: Sequence[str], target: Sequence[str], **options: Any) -> Alignments: ...

    def align(
        self, source: str | Sequence[str], target: str | Prediction | Sequence[str], **options: Any
    ) -> list[Cell] | Alignments:
        """Links between the words of a source and of a target, or of several.

        Words are separated by spaces. Each target word is linked to the source word with the largest attention weight;
        in a `Prediction` of a character model, every character counts as a word.

        Args:
            source: A text, or several.
            target: A text, or an output of the run; or several texts.
            options: `reverse`, a run in the opposite direction, and `symmetrize`, how both directions become one
                ("intersection", "union", "gd" or "gdfa", the default); `layer`, `head` (a number or "mean") and `state`
                ("read" or "written"), from which links are read; `gold`, a file in Pharaoh format or links, to choose
                layer and head on every second pair, and `gold_base`, 1 if it counts words from 1; `scores`: give each
                pair a score.

        Returns:
            For one pair, (source word, target word), counted from 0. For several, a `WordAlignment` each, with `links`,
            `weights` and `score`, and the `report` of all.

        Raises:
            ConfigError: The model does not attend to the source (a `Prediction` has no links then).
        """
        if isinstance(target, Prediction):
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

    def _links_of(self, source: str, prediction: Prediction) -> list[Cell]:
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

        Links are read from the default place, so no gold link influences the choice.

        Returns:
            `aer`, `alignment_precision`, `alignment_recall`, `alignment_place`; and remarks on the file.
        """
        links, notes = read_gold(gold, pairs, base)
        aligner = Aligner(self.attending)
        scores = shown(aligner.measures(pairs, links), self.config.evaluation.bootstrap)
        return {**scores, "alignment_place": aligner.places[0].values()}, notes
