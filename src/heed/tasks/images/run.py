"""Runs over pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from heed.data.examples import Picture
from heed.data.pictures.decode import PictureError
from heed.data.pictures.source import Pixels
from heed.data.read.findings import Findings
from heed.data.read.memory import column_names
from heed.data.read.picture_memory import hold_pictures, pictures_of
from heed.data.read.pictures import picture_reader
from heed.errors import ConfigError, DataError, UnknownKeywordError
from heed.evaluation.measures import Outcomes, share
from heed.tasks.base.labels import LabelPrediction, outcomes_of
from heed.tasks.base.predictions import Predictions
from heed.tasks.base.run import Run, part
from heed.tasks.images.files import places_of
from heed.tasks.images.look import LooksAtPictures
from heed.tasks.images.model import PictureClassifier
from heed.tasks.images.nearest import NearestPicture
from heed.tasks.images.outputs import PictureOutputs
from heed.tasks.images.page import errors_page
from heed.tasks.images.pictures import check_classes
from heed.tasks.images.report import TOP, TOP_NAME, picture_body, picture_errors
from heed.tasks.images.task import Images

_TOGETHER = 256
"""Pictures decoded and kept in memory together, in addition to a batch."""
NOTHING = LabelPrediction("", (), 0.0, {})
"""The prediction for a picture that cannot be read."""


class PictureLabeller(Run[Images, PictureClassifier]):
    """Base class of runs and ensembles: labels of pictures, and their scores."""

    task_class = Images
    body = staticmethod(picture_body)
    errors = staticmethod(picture_errors)

    def predict(self, pictures: Any, **options: Any) -> Any:
        """The label of a picture, or of each of several, as `Predictions`.

        Args:
            pictures: A file's name, a Pillow image, an array `(height, width)` or `(height, width, channels)`; for
                several pictures, a list of these, an array with one more axis, a folder, or a data frame with a column
                "path".
            **options: Not supported; any keyword is refused.

        Raises:
            DataError: A picture cannot be read; the message says which and why.
        """
        if options:
            raise UnknownKeywordError(f"predict has no keyword '{next(iter(options))}'; this task has no options")
        several = _several(pictures)
        pixels = Pixels.of(self.config.data)
        examples = pictures_of([pictures] if several is None else several, pixels)
        made = [self.task.prediction(row) for row in self.probabilities(examples, pixels)]
        return made[0] if several is None else Predictions(made)

    def predict_files(self, places: Sequence[str]) -> tuple[list[LabelPrediction], list[str]]:
        """The label of the picture at each place (`NOTHING` if it cannot be read), and the reading errors in order."""
        made: list[LabelPrediction] = []
        problems: list[str] = []
        for start in range(0, len(places), _TOGETHER):
            arrays = list(self.task.access.pixels.each(self._decoded, places[start : start + _TOGETHER]))
            problems += [one for one in arrays if isinstance(one, str)]
            read = [i for i, one in enumerate(arrays) if not isinstance(one, str)]
            labelled = iter(self.probabilities_of([arrays[i] for i in read])) if read else iter(())
            made += [NOTHING if isinstance(one, str) else self.task.prediction(next(labelled)) for one in arrays]
        return made, problems

    def _decoded(self, place: str) -> Any:
        """The pixels at a place, or the error message if they cannot be read."""
        try:
            return self.task.access.pixels.decode(place)
        except DataError as error:
            return f"'{place}' {error}" if isinstance(error, PictureError) else str(error)

    def probabilities_of(self, arrays: Sequence[Any]) -> Tensor:
        """The probability of each label of decoded pictures, `(pictures, labels)`."""
        check_classes(self.task)
        return self.task.probabilities(self.task.logits(self.model, self.task.form.sized(arrays)))

    def probabilities(self, examples: Sequence[Picture], pixels: Pixels | None = None) -> Tensor:
        """The probability of each label of examples, read by `pixels`, `(pictures, labels)`."""
        check_classes(self.task)
        return self.task.probabilities(self.task.logits(self.model, self.task.access.some(examples, pixels)))

    def read(self, files: Sequence[str | Path]) -> Sequence[Picture]:
        """Labelled pictures from files in the format of the run's own."""
        findings = Findings.of(self.task.config.data, strict=True)
        reader = picture_reader(self.task.config.data, self.task.access.pixels)
        found = list(reader.read([str(file) for file in files], findings))
        self.reading = findings.lines()
        return found

    def held(self, data: Any) -> Sequence[Picture]:
        """Pictures passed in Python, in the forms that `heed.train` accepts."""
        held = hold_pictures(data, "examples", self.config.data, Findings.of(self.config.data, strict=True))
        self.task.access.know(held.sources)
        return held

    def outcomes(
        self,
        examples: Sequence[Picture],
        outputs: Sequence[LabelPrediction] | None = None,
        labels: Sequence[str] | None = None,
    ) -> Outcomes:
        """Label and score pictures; errors are sorted by confidence, highest first. `labels` defaults to the run's own.

        Raises:
            ConfigError: There are no pictures.
            DataError: A label is missing from the training set, or a picture cannot be read.
        """
        if not examples:
            raise ConfigError("there are no pictures to score")
        check_classes(self.task)
        if labels is None:
            labels = self.task.labels
            self.task.targets_of(examples)  # refuses labels missing from the training set
        if outputs is None:
            outputs = [self.task.prediction(row) for row in self.probabilities(examples)]
        made = outcomes_of(
            outputs,
            [(example.label,) for example in examples],
            labels,
            False,
            lambda i: (examples[i].origin, examples[i].place),
        )
        made.details["errors"] = [
            {("picture" if key == "text" else key): value for key, value in error.items()}
            for error in made.details["errors"]
        ]
        if len(labels) <= TOP or not outputs[0].probabilities:
            return made
        found = [example.label in most(output) for example, output in zip(examples, outputs, strict=True)]
        top = share(TOP_NAME, f"top-{TOP} accuracy", [float(one) for one in found])
        return replace(made, measures=(made.measures[0], top, *made.measures[1:]))

    def errors_page(self, errors: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """An HTML page of the wrong pictures of reports, most confident first."""
        return errors_page(self.task, errors, f"Errors of {self.title}")

    def baselines(self, examples: Sequence[Picture]) -> Mapping[str, Outcomes]:
        """Nearest neighbour: the label of the training picture with the nearest pixels."""
        if self._nearest is None or not examples:
            return {}
        store = self.task.access.some(examples)
        said = [one for part in store.parts() for one in self._nearest.predict(part)]
        made = self.outcomes(examples, said)
        kept = tuple(m for m in made.measures if m.name in ("accuracy", "macro_f1"))
        return {self._nearest.name: replace(made, measures=kept, further=())}

    @cached_property
    def _nearest(self) -> NearestPicture | None:
        known = self.known()
        if known is None:
            return None
        return NearestPicture(self.task.sized("train"), [picture.label for picture in known])

    def outputs(self, options: Mapping[str, Any]) -> PictureOutputs:
        """The writer of predictions."""
        return PictureOutputs(self, options)


class ImagesRun(LooksAtPictures, PictureLabeller):
    """A trained picture classifier."""

    examiner, ensemble = part("comparison"), part("ensemble")

    @property
    def uses(self) -> Sequence[str]:
        """Commands for this run; without classes, only `look` and training from it."""
        return (
            super().uses if self.task.labels else ("heed look {run} PICTURE", "heed train images FOLDER --from {run}")
        )


def most(prediction: LabelPrediction) -> set[str]:
    """The most probable labels of a prediction, counted by top-5 accuracy."""
    ranked = sorted(prediction.probabilities, key=lambda label: -prediction.probabilities[label])
    return set(ranked[:TOP])


def _several(pictures: Any) -> Sequence[Any] | None:
    """The pictures as a sequence if several are given; None for a single picture."""
    if isinstance(pictures, str | Path):
        return places_of([str(pictures)]) if Path(pictures).is_dir() else None
    if isinstance(pictures, list | tuple):
        return pictures
    if (names := column_names(pictures)) is not None:
        column = next((name for name in ("path", "image", "picture", "file") if name in names), None)
        if column is None:
            raise ConfigError(
                f"the data frame has no column 'path' or 'image'; its columns are {', '.join(map(str, names))}"
            )
        return list(pictures[column])
    shape = getattr(pictures, "shape", None)
    if shape is not None and (len(shape) == 4 or (len(shape) == 3 and shape[-1] not in (1, 3, 4))):
        return list(pictures)
    return None
