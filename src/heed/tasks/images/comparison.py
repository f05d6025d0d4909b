"""Comparison of runs over pictures: their labels, scores and maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape

import numpy as np

from heed.data.examples import Picture, label_order
from heed.data.pictures.decode import Array
from heed.data.pictures.source import Pixels
from heed.evaluation.measures import Outcomes
from heed.observe.choice import Choice
from heed.observe.pictures.frames import PictureMap
from heed.observe.pictures.raster import laid_over, shape_within
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.images.maps import Looking
from heed.tasks.images.page import SIDE, picture_tag
from heed.tasks.images.run import ImagesRun

_MAP_NAMES = {"gradient": "Grad-CAM", "rollout": "attention rollout"}
"""Maps of each run on a page: the first for every model, so that they can be compared, the second for models with
attention."""


class ImagesExaminer(Examiner[ImagesRun, Picture, LabelPrediction]):
    """Compares the labels of pictures."""

    names = ("picture", "label")
    kind = "pictures"
    targets = "pictures"

    @classmethod
    def source_of(cls, example: Picture) -> str:
        """The name of the picture in messages."""
        return example.origin

    @classmethod
    def truth_of(cls, example: Picture) -> str:
        """Its label."""
        return example.label

    @cached_property
    def pixels(self) -> Pixels:
        """Reads the pictures: the reader of the run that has its data open."""
        owners = [run for run in self.runs if run.task.is_open]
        return (owners or [*self.runs])[0].task.access.pixels

    def _lengths(self) -> tuple[list[int], str]:
        facts = self.pixels.facts([example.place for example in self.examples])
        return [min(one.height, one.width) for one in facts], "pixels (shorter side)"

    def predict(self, run: ImagesRun, examples: Sequence[Picture], beam_size: int | None) -> list[LabelPrediction]:
        """The label of each picture."""
        return [run.task.prediction(row) for row in run.probabilities(examples, self.pixels)]

    def count_tokens(self, run: ImagesRun, outputs: Sequence[LabelPrediction]) -> int:
        """Pictures read."""
        return len(outputs)

    def outcomes(self, run: ImagesRun, outputs: Sequence[LabelPrediction]) -> Outcomes:
        """Accuracy, F1 and calibration, over the labels of all runs and of the examples."""
        found = [label for one in self.runs for label in one.task.labels]
        labels = label_order([*found, *(example.label for example in self.examples)])
        return run.outcomes(self.examples, outputs, labels)

    def source_html(self, index: int) -> str:
        """The picture and its name."""
        example = self.examples[index]
        tag = picture_tag(np.asarray(self.pixels.read([example.place])[0]), example.origin)
        return f'<dd>{tag}<span class="hint">{escape(example.origin)}</span></dd>'

    def drawing(self, run: ImagesRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """The most probable labels, and the run's maps."""
        example = self.examples[index]
        picture = np.asarray(self.pixels.read([example.place])[0])
        look = Looking(run.task, run.model, picture, ())
        number = look.number_of(None)
        names = ["gradient", *(["rollout"] if look.attention is not None else [])]
        maps = "".join(_figure(picture, look.maps(name, Choice(), None, number)[0], _MAP_NAMES[name]) for name in names)
        return f"<p>{escape(run.task.prediction(look.probabilities).summary())}</p>{maps}"


def _figure(picture: Array, one: PictureMap, name: str) -> str:
    """A map over the picture, with its title and largest value as the alternative text."""
    shape = shape_within((picture.shape[0], picture.shape[1]), SIDE)
    tag = picture_tag(laid_over(picture, one, shape), f"{one.title}, largest {one.largest:.3g}")
    caption = f'<figcaption class="hint">{escape(name)}</figcaption>'
    return f'<figure style="display:inline-block;margin:0 1rem 0 0">{tag}{caption}</figure>'
