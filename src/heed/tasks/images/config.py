"""The configuration of images."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from heed.config.data import OWN, Only, Source, Sources, generated, section
from heed.config.sections import (
    AugmentSection,
    DataPath,
    EvaluationConfig,
    ModelSection,
    RunConfig,
    Section,
    TrainingConfig,
)

_LARGEST = 4_096
"""Most pixels of one side."""


def _sides(value: object) -> object:
    """Check a size and return it unchanged; one error message covers all its forms."""
    sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
    if value != "auto" and not all(type(side) is int and 0 < side <= _LARGEST for side in sides):
        raise ValueError(
            f"data.size is {value!r}, expected pixels of each side such as 64, [height, width] such as [48, 64], each "
            f"at most {_LARGEST:,}, or auto"
        )
    return value


PictureSize = Annotated[int | tuple[int, int] | Literal["auto"], BeforeValidator(_sides)]
"""Pixels of each side, or [height, width], or auto."""


class Pictures(Source):
    """Pictures with labels: a folder for each class, a table, or idx files (`heed.data.kinds.pictures`)."""

    labelled: ClassVar = True

    train: list[DataPath] = Field(min_length=1)
    """Training pictures: folders with a folder for each class, tables of paths and labels (.csv, .tsv), or idx files
    (.gz or not), relative to the configuration. A folder with train and test inside gives both sets. Of a data set of
    the Hub its split, or a part of it such as train[:1000]; of embedded data the number of examples."""
    columns: Annotated[Any, Only(OWN)] = section("path", "label")
    """Columns of picture and label in a table.

    - path: Column of the picture: a number from 0 or a name. In a file it has paths; by default the column "path",
      "file", "filename" or "image", or the one with names of pictures.
    - label: Column of the label: a number from 0 or a name; by default the column "label" or "class".
    """
    folder: Annotated[DataPath | None, Only(OWN)] = None
    """Folder of the pictures that tables name, by default that of each table (in Python the current one). A name may
    lack its ending, as an id."""
    classes: Annotated[list[str] | DataPath | None, Only(OWN)] = None
    """The classes in order, or a file with one class a line; with idx files the names of labels 0, 1, ... By default in
    alphabetical order, numbers by value."""
    target: Literal["auto", "classes", "number"] = "classes"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""
    size: PictureSize = "auto"
    """Pixels of the picture that the model sees: of each side, or [height, width]. auto is the size of the training
    pictures if all have the same, else a square of 32 to 224 by their median; smaller, down to a shorter side of 32,
    where fewer than 1,000 updates would fit into the time budget."""
    crop: Literal["centre", "pad", "squash"] = "centre"
    """Treatment of a picture of another shape: centre crops the longer side at both ends, pad adds margins to the
    shorter side, squash changes the proportions."""
    channels: Literal["auto", 1, 3] = "auto"
    """1 reads pictures as grey, 3 as red, green and blue; auto is 1 if all training pictures are grey."""
    in_memory: int = Field(2_000, ge=0)
    """Megabytes of resized pictures to keep in memory; in larger sets each picture is read when it is needed."""
    workers: Annotated[int, Field(ge=0)] | Literal["auto"] = "auto"
    """Threads that read and decode pictures; auto is as many as help, 0 is only the main thread. Results do not depend
    on it."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """Weight of each class in the loss: balanced is inverse to the class's share, or a weight per class (1 if none is
    given)."""
    max_pixels: int = Field(100_000_000, gt=0)
    """A picture with more pixels than this is bad: a file of some kilobytes can declare a size that fills memory."""

    @model_validator(mode="after")
    def _folder_of_tables(self) -> Self:
        files = [file for part in (self.train, self.valid, self.test) if isinstance(part, list) for file in part]
        is_table = any(".csv" in file or ".tsv" in file for file in files)
        if self.folder is not None and self.origin == "files" and not is_table:
            raise ValueError(
                f"data.folder is for the files that a table (.csv, .tsv) names, but there is none in {files}"
            )
        return self

    @model_validator(mode="after")
    def _that_many(self) -> Self:
        sizes: Any = self.train, self.valid, self.test
        if self.origin == "digits" and (wanted := sum(sizes)) > 1_797:
            raise ValueError(
                f"data.train, data.valid and data.test are {' + '.join(f'{size:,}' for size in sizes)} = {wanted:,}, "
                "but there are 1,797 digits"
            )
        return self


class ImagesModelSection(ModelSection):
    """Which image model; all other fields are the model's and the head's own (`heed models NAME` lists them)."""

    name: str = "cnn"
    """File in `heed/models`."""


class ImagesHead(Section):
    """Head that maps a picture's vector to labels; its fields are in the `model` section, with the model's own."""

    head: Literal["softmax", "sigmoid"] = "softmax"
    """softmax has one output for each label; sigmoid has one for two classes, the probability of the second."""


class ImagesTraining(TrainingConfig):
    """Settings of the training."""

    batch_size: int = Field(64, gt=0)
    """Number of pictures in a batch."""
    batch_tokens: int = Field(2_000, gt=0)
    """Not used: pictures are counted by batch_size."""
    learning_rate: float = Field(0.002, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.05, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""

    @model_validator(mode="before")
    @classmethod
    def _budget(cls, values: Any) -> Any:
        return values  # the default budget depends on the data (`tasks.images.defaults`)

    @field_validator("batch_tokens")
    @classmethod
    def _no_tokens(cls, value: int) -> int:
        if value != cls.model_fields["batch_tokens"].default:
            raise ValueError(
                f"training.batch_tokens is {value:,}, but pictures have no tokens; training.batch_size counts the "
                "pictures of a batch"
            )
        return value


class ImagesEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, then loss among equals, or loss if the
    label is a number."""


class ImagesConfig(RunConfig):
    """The configuration of a run over pictures."""

    task: Literal["images"] = "images"
    """What is learned."""
    data: Annotated[Pictures, Sources(Pictures, hub=True, digits=generated(1_297, 100, 400))]
    """Where the pictures come from."""
    augment: AugmentSection = AugmentSection()
    """Random changes of training pictures, drawn again in each pass."""
    model: ImagesModelSection = ImagesModelSection()
    """Which model."""
    training: ImagesTraining = ImagesTraining()
    """How it is trained."""
    evaluation: ImagesEvaluation = ImagesEvaluation()
    """How it is scored."""
