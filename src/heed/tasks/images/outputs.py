"""Output of labels of pictures: lines `picture TAB label TAB probability`; several candidates, sorted, CSV or JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.read.findings import BadLine, Findings
from heed.data.read.incoming import Numbered
from heed.data.read.inputs import input_texts
from heed.errors import ConfigError
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.outputs import TextOutputs, Written, in_line, one_line
from heed.tasks.images.files import places_of
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.images.run import PictureLabeller

_LISTS = (".txt", ".csv", ".tsv", ".list")


class PictureOutputs(TextOutputs):
    """One line per picture; with --nbest, that many lines per picture, the most probable label first."""

    run: PictureLabeller
    asks = "the name of a picture's file"
    takes_folders = True

    def __init__(self, run: PictureLabeller, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if options["csv"] and options["json"]:
            raise ConfigError("--csv and --json are alternative output formats; give only one")

    def arguments(self, texts: list[str]) -> list[str]:
        """The pictures that files, folders, patterns and archives name."""
        return places_of(texts)

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The pictures of a folder, an archive, a list of names or a table with a column of them; or one picture."""
        if path.is_dir() or path.suffix.lower() not in _LISTS:
            places = places_of([str(path)])
            return enumerate(places, start=1), f"{len(places):,} picture{'s' * (len(places) != 1)} of '{path}'"
        data = self.run.task.config.data
        columns = getattr(data, "columns", None)
        column, names = getattr(columns, "path", None), ("path", "file", "filename", "image")
        found = input_texts(path, column, names, findings, self.run.task.labels)
        if found is None:
            return None
        # As in training, paths in a table are relative to the table.
        texts = (
            (number, one if isinstance(one, BadLine) or not one else str(path.parent / one)) for number, one in found[0]
        )
        return texts, found[1]

    def header(self) -> list[str]:
        """The header line of CSV; empty for other formats."""
        if not self.options["csv"]:
            return []
        if self.options["nbest"] > 1:
            return [_row(["picture", "rank", "label", "probability"])]
        return [_row(["picture", "label", "probability", *(f"P({label})" for label in self.run.task.labels)])]

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each picture's label; empty for pictures that cannot be read."""
        predictions, found = self.run.predict_files(texts)
        problems = iter(found)
        for text, prediction in zip(texts, predictions, strict=True):
            problem = "" if prediction.probabilities else next(problems)
            yield Written(self._lines(text, prediction), prediction.uncertainty, problem)

    def _lines(self, picture: str, prediction: LabelPrediction) -> tuple[str, ...]:
        most, name = self.options["nbest"], one_line(picture)
        ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[:most]
        known = bool(prediction.probabilities)
        if self.options["json"]:
            values = {
                "picture": picture,
                "label": prediction.label if known else None,
                "probability": round(prediction.probability, 6),
                "probabilities": {label: round(p, 6) for label, p in prediction.probabilities.items()},
            }
            return (to_json(values),)
        if self.options["csv"]:
            if most > 1:
                rows = [[picture, rank, label, f"{p:.6f}"] for rank, (label, p) in enumerate(ranked, start=1)]
                return tuple(map(_row, rows)) or (_row([picture, "", "", ""]),)
            each = [f"{prediction.probabilities[label]:.6f}" if known else "" for label in self.run.task.labels]
            return (_row([picture, prediction.label, f"{prediction.probability:.6f}" if known else "", *each]),)
        if self.options["sort"]:
            return ("\t".join([f"{prediction.uncertainty:.4f}", in_line(prediction.label), name]),)
        return tuple(f"{name}\t{in_line(label)}\t{p:.4f}" for label, p in ranked) or (f"{name}\t\t",)

    def answer(self, text: str) -> str:
        """The label and the probabilities."""
        predictions, problems = self.run.predict_files([text])
        return problems[0] if problems else predictions[0].summary()


def _row(values: Sequence[object]) -> str:
    """A row of CSV without its line end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(values)
    return text.getvalue()
