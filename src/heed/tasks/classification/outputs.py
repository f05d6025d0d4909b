"""Output of predicted labels: lines `label TAB probability`; several candidates, sorted, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.config.data import LabelledData
from heed.data.read.findings import Findings
from heed.data.read.incoming import Numbered
from heed.data.read.inputs import input_texts
from heed.data.read.two_texts import BETWEEN, pair_lines, parted
from heed.errors import ConfigError
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.outputs import TextOutputs, Written, in_line, one_line, units
from heed.tasks.classification.texts import split_texts
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.classification.run import Labeller


class ClassificationOutputs(TextOutputs):
    """Lines `label TAB probability`; with --nbest, lines `probability TAB label`; with --sort, also the text."""

    run: Labeller

    def __init__(self, run: Labeller, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self.unit = units(run.task.tokenizer.unit)

    def arguments(self, texts: list[str]) -> list[str]:
        """The inputs: for a run that reads pairs, taken two by two, or each two texts separated by a tab."""
        return self.run.typed(texts)

    def check(self, text: str, place: str) -> None:
        """Refuse a single text if the run reads pairs."""
        if self.run.task.pairs and text.strip() and BETWEEN not in text:
            raise ConfigError(f"{place} is {text[:60]!r}, but this run reads pairs: two texts separated by a tab")

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The texts of a file in the format of the training files."""
        data, labels = self.run.task.config.data, self.run.task.labels
        if self.run.task.pairs:
            return pair_lines(path, (data.columns.text, data.columns.second), findings)
        trained = data.train if isinstance(data, LabelledData) else ()
        return input_texts(path, data.columns.text, ("text",), findings, labels, trained)

    def unknown_in(self, text: str) -> Sequence[str]:
        """The pieces of a text that training never saw."""
        parts = split_texts(text, self.run.task.config.data)  # as the model reads it
        return [piece for part in parts for piece in self.run.task.tokenizer.unknown_in(part)]

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's label."""
        for text, prediction in zip(texts, self.run.predictions(texts), strict=True):
            yield Written(self._lines(text, prediction), prediction.uncertainty)

    def _lines(self, text: str, prediction: LabelPrediction) -> tuple[str, ...]:
        if self.options["json"]:
            values = {
                "text": list(parted(text)) if self.run.task.pairs else text,
                "label": list(prediction.labels) if self.run.task.config.data.several_labels else prediction.label,
                "probability": round(prediction.probability, 6),
                "probabilities": {label: round(p, 6) for label, p in prediction.probabilities.items()},
            }
            return (to_json(values),)
        if self.options["sort"]:
            return ("\t".join([f"{prediction.uncertainty:.4f}", in_line(prediction.label), one_line(text)]),)
        if self.options["nbest"] > 1:
            ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[: self.options["nbest"]]
            return tuple(f"{probability:.4f}\t{in_line(label)}" for label, probability in ranked) or ("",)
        return (f"{in_line(prediction.label)}\t{prediction.probability:.4f}" if prediction.probabilities else "",)

    def answer(self, text: str) -> str:
        """The label and the probabilities."""
        return self.run.predictions([text])[0].summary()
