"""What runs of translation do with alignments: `align`, and scores against gold links."""

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
    """The part of a run that links the words of sources and targets."""

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
        """What aligns pairs such as these; see `align`."""
        back = None if reverse is None else reverse.attending
        aligner = Aligner(self.attending, back, symmetrize, layer=layer, head=head, state=state)
        notes: list[str] = []
        if isinstance(gold, str | Path):
            gold, notes = read_gold(gold, pairs, gold_base)
        if back is not None:
            turned = [(pair.target, pair.source) for pair in pairs]
            notes += remarks_by_tokens(back.task, turned, f"for the run that translates back, '{back.folder}'")
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

        A word is what blanks separate. Each target word is linked to the source word that it looks at most; of what a
        model of characters wrote (a `Prediction`), every character counts as a word.

        Args:
            source: A text, or several.
            target: A text, or what the run wrote; or several texts.
            options: `reverse`, a run that translates back, and `symmetrize`, how both directions become one
                ("intersection", "union", "gd" or "gdfa", the default); `layer`, `head` (a number or "mean") and `state`
                ("read" or "written"), where links are read; `gold`, a file in Pharaoh format or links, by which layer
                and head are chosen on every second pair, and `gold_base`, 1 where it counts words from 1; `scores`,
                whether each pair is to have one.

        Returns:
            Of one pair (source word, target word), counted from 0. Of several a `WordAlignment` each, with `links`,
            `weights` and `score`, and the `report` of all.

        Raises:
            ConfigError: The model does not attend to the source (of a `Prediction` there are no links then).
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

        Links are read where they are read unless somebody chooses, so that no gold link decides about it.

        Returns:
            `aer`, `alignment_precision`, `alignment_recall`, `alignment_place`; and what there is to say of the file.
        """
        links, notes = read_gold(gold, pairs, base)
        aligner = Aligner(self.attending)
        scores = shown(aligner.measures(pairs, links), self.config.evaluation.bootstrap)
        return {**scores, "alignment_place": aligner.places[0].values()}, notes
