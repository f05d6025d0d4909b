"""What `heed predict` writes of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from heed.data.findings import BadLine, Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.kinds.pictures import PATH_NAMES, files_named
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.predictions import TextOutputs, Written, in_line
from heed.tasks.heads.number import NumberPrediction
from heed.tasks.inputs.pictures import places_of
from heed.visible import to_json

_TOGETHER = 256
"""Pictures scored together."""
_LISTS = (".txt", ".csv", ".tsv", ".list")


class PictureOutputs(TextOutputs):
    """One line per picture; with --nbest, that many lines per picture, the most probable label first."""

    asks = "the name of a picture's file"
    takes_folders = True

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

    def write(self, texts: list[str]) -> Iterator[Written]:
        for at in range(0, len(texts), _TOGETHER):
            some = self.run.input.asked(texts[at : at + _TOGETHER], may_lack=True)
            for picture, one in zip(some, self.run.predict(some), strict=True):
                yield Written(self.lines(picture.origin, one), one.uncertainty, some.problem(picture))

    def lines(self, picture: str, prediction: LabelPrediction | NumberPrediction) -> tuple[str, ...]:  # type: ignore[override]
        name = in_line(picture)
        if self.options["json"]:
            label = {} if isinstance(prediction, NumberPrediction) else {"label": prediction.label or None}
            return (to_json({"picture": picture, **prediction.as_json(), **label}),)
        if isinstance(prediction, NumberPrediction):
            return (f"{name}\t{prediction.summary()}",)
        if self.options["sort"]:
            return prediction.lines(name, self.options)
        ranked = prediction.ranked[: self.options["nbest"]]
        return tuple(f"{name}\t{in_line(label)}\t{p:.4f}" for label, p in ranked) or (f"{name}\t\t",)

    def answer(self, text: str) -> str:
        some = self.run.input.asked([text], may_lack=True)
        (prediction,) = self.run.predict(some)
        return some.problem(some[0]) or str(prediction.summary())
