"""Comparison of runs over pictures: their labels, scores and maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from heed.data.examples import Picture
from heed.data.pictures.source import Pixels
from heed.observe.looks import Choice
from heed.observe.page import draw
from heed.observe.picture_drawing import laid_over, shape_within
from heed.tasks.base.comparison import LabelExaminer
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.images.look import Looking
from heed.tasks.images.page import SIDE, picture_tag

_MAP_NAMES = {"gradient": "Grad-CAM", "rollout": "attention rollout"}
"""Maps of each run on a page: the first for every model, so that they can be compared, the second for models with
attention."""


class ImagesExaminer(LabelExaminer[Any, Picture, LabelPrediction]):
    """Pictures, read by one of the runs for all of them."""

    kind = "pictures"

    @cached_property
    def pixels(self) -> Pixels:
        """Reads the pictures: the reader of the run that has its data open."""
        owners = [run for run in self.runs if run.task.is_open]
        return (owners or [*self.runs])[0].task.access.pixels  # type: ignore[no-any-return]

    def _lengths(self) -> tuple[list[int], str]:
        facts = self.pixels.facts([example.place for example in self.examples])
        return [min(one.height, one.width) for one in facts], "pixels (shorter side)"

    def predict(self, run: Any, examples: Sequence[Picture], beam_size: int | None) -> list[LabelPrediction]:
        return [run.task.prediction(row) for row in run.probabilities(examples, self.pixels)]

    def count_tokens(self, run: Any, outputs: Sequence[LabelPrediction]) -> int:
        return len(outputs)

    def source_html(self, index: int) -> Markup:
        example = self.examples[index]
        tag = picture_tag(np.asarray(self.pixels.read([example.place])[0]), example.origin)
        return draw("named", tag, example.origin, source="tasks/images/draw.html")

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        example = self.examples[index]
        picture = np.asarray(self.pixels.read([example.place])[0])
        look = Looking(run.task, run.model, picture, ())
        number = look.number_of(None)
        shape = shape_within((picture.shape[0], picture.shape[1]), SIDE)
        figures = []
        for name in ("gradient", *(["rollout"] if look.attention is not None else [])):
            one = look.maps(name, Choice(), None, number)[0]
            tag = picture_tag(laid_over(picture, one, shape), f"{one.title}, largest {one.largest:.3g}")
            figures.append((tag, _MAP_NAMES[name]))
        summary = run.task.prediction(look.probabilities).summary()
        return draw("outputs", summary, figures, source="tasks/images/draw.html")
