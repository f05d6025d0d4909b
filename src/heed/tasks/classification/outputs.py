"""Written labels: `label TAB probability` a line; several candidates, sorted, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.config.data import LabelledData
from heed.data.read.findings import Findings
from heed.data.read.inputs import input_texts
from heed.data.read.sentences import without_breaks
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.outputs import TextOutputs, Written, one_line, units

if TYPE_CHECKING:
    from heed.tasks.classification.run import Labeller


class ClassificationOutputs(TextOutputs):
    """`label TAB probability` a line; with --nbest that many labels, `probability TAB label`; sorted, the text too."""

    run: Labeller

    def __init__(self, run: Labeller, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self.unit = units(run.task.tokenizer.unit)

    def inputs(self, path: Path) -> tuple[list[str], str] | None:
        """The texts of a file as those that were trained on."""
        data, labels = self.run.task.config.data, self.run.task.labels
        trained = data.train if isinstance(data, LabelledData) else ()
        return input_texts(path, data.columns.text, ("text",), Findings.of(data, strict=True), labels, trained)

    def unknown_in(self, text: str) -> Sequence[str]:
        """The pieces of a text that training never saw."""
        return self.run.task.tokenizer.unknown_in(without_breaks(text))  # as the model reads it

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's label."""
        for text, prediction in zip(texts, self.run.predict(texts), strict=True):
            yield Written(self._lines(text, prediction), prediction.uncertainty)

    def _lines(self, text: str, prediction: LabelPrediction) -> tuple[str, ...]:
        if self.options["json"]:
            values = {
                "text": text,
                "label": list(prediction.labels) if self.run.task.config.data.several_labels else prediction.label,
                "probability": round(prediction.probability, 6),
                "probabilities": {label: round(p, 6) for label, p in prediction.probabilities.items()},
            }
            return (json.dumps(values, ensure_ascii=False),)
        if self.options["sort"]:
            return ("\t".join([f"{prediction.uncertainty:.4f}", prediction.label, one_line(text)]),)
        if self.options["nbest"] > 1:
            ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[: self.options["nbest"]]
            return tuple(f"{probability:.4f}\t{label}" for label, probability in ranked) or ("",)
        return (f"{prediction.label}\t{prediction.probability:.4f}" if prediction.probabilities else "",)

    def answer(self, text: str) -> str:
        """The label and the probabilities."""
        return self.run.predict(text).summary()
