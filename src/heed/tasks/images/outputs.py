"""What `heed predict` writes of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from heed.data.findings import BadLine, Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.kinds.pictures import PATH_NAMES, files_named
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.errors import ConfigError
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.predictions import TextOutputs, Written, csv_row, in_line
from heed.tasks.heads.number import NumberPrediction
from heed.tasks.inputs.pictures import places_of
from heed.tasks.run import Run
from heed.visible import to_json

_TOGETHER = 256
"""Pictures scored together."""
_LISTS = (".txt", ".csv", ".tsv", ".list")


class PictureOutputs(TextOutputs):
    """One line per picture; with --nbest, that many lines per picture, the most probable label first."""

    asks = "the name of a picture's file"
    takes_folders = True

    def __init__(self, run: Run, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if options["csv"] and options["json"]:
            raise ConfigError("--csv and --json are alternative output formats; give only one")

    def arguments(self, texts: list[str]) -> list[str]:
        return places_of(texts)

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        if os.path.isdir(path) or path.suffix.lower() not in _LISTS:
            places = places_of([str(path)])
            return enumerate(places, start=1), f"{len(places):,} picture{'s' * (len(places) != 1)} of '{path}'"
        data = self.run.config.data
        columns = getattr(data, "columns", None)
        field = Field("text", getattr(columns, "path", None), (*PATH_NAMES, "image_id", "id"))
        found = inputs_in(path, [field], findings, self.run.head.labels)
        if found is None:
            return None
        folder = getattr(data, "folder", None)

        def place(cell: str) -> str:  # as in training; what is missing is named when it is read
            files = files_named(cell, folder or path.parent)
            return files[0] if len(files) == 1 else os.path.join(folder or path.parent, cell)

        texts = ((number, one if isinstance(one, BadLine) or not one else place(one)) for number, one in found[0])
        return texts, found[1] + f", in '{folder}' (data.folder)" * (folder is not None)

    def header(self) -> list[str]:
        if not self.options["csv"]:
            return []
        if self.run.head.is_number:
            return [csv_row(["picture", "number"])]
        if self.options["nbest"] > 1:
            return [csv_row(["picture", "rank", "label", "probability"])]
        return [csv_row(["picture", "label", "probability", *(f"P({label})" for label in self.run.head.labels)])]

    def write(self, texts: list[str]) -> Iterator[Written]:
        for at in range(0, len(texts), _TOGETHER):
            some = self.run.input.asked(texts[at : at + _TOGETHER], may_lack=True)
            for picture, one in zip(some, self.run.predict(some), strict=True):
                yield Written(self.lines(picture.origin, one), one.uncertainty, some.problem(picture))

    def lines(self, picture: str, prediction: LabelPrediction | NumberPrediction) -> tuple[str, ...]:  # type: ignore[override]
        most, name = self.options["nbest"], in_line(picture)
        if isinstance(prediction, NumberPrediction):
            if self.options["json"]:
                return (to_json({"picture": picture, **prediction.as_json()}),)
            return (
                csv_row([picture, prediction.summary()]) if self.options["csv"] else f"{name}\t{prediction.summary()}",
            )
        ranked, known = prediction.ranked[:most], bool(prediction.probabilities)
        if self.options["json"]:
            return (to_json({"picture": picture, **prediction.as_json(), "label": prediction.label or None}),)
        if self.options["csv"]:
            if most > 1:
                rows = [[picture, rank, label, f"{p:.6f}"] for rank, (label, p) in enumerate(ranked, start=1)]
                return tuple(map(csv_row, rows)) or (csv_row([picture, "", "", ""]),)
            each = [f"{prediction.probabilities[label]:.6f}" if known else "" for label in self.run.head.labels]
            return (csv_row([picture, prediction.label, f"{prediction.probability:.6f}" if known else "", *each]),)
        if self.options["sort"]:
            return prediction.lines(name, self.options)
        return tuple(f"{name}\t{in_line(label)}\t{p:.4f}" for label, p in ranked) or (f"{name}\t\t",)

    def answer(self, text: str) -> str:
        some = self.run.input.asked([text], may_lack=True)
        (prediction,) = self.run.predict(some)
        return some.problem(some[0]) or str(prediction.summary())
