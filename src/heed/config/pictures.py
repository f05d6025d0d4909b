"""Configuration sections of pictures: files, columns, sizes, and random changes of training pictures."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from heed.config.data import EmbeddedLabels, HubSection, InMemory, LabelledData
from heed.config.sections import DataPath, Section


class AugmentSection(Section):
    """Random changes of training pictures (`heed.data.pictures.sizing`), in this order.

    By default, sets of at most 10,000 pictures are cropped, and mirrored unless a label looks like text. Random draws
    depend only on the seed, the pass and the picture.
    """

    flip: bool = False
    """Mirror half of the pictures, left to right; by default in sets of at most 10,000 whose labels name no characters,
    numbers or directions."""
    crop: int = Field(0, ge=0)
    """Add a black border of this many pixels and crop the result to the picture's size at a random place; 4 is usual
    for pictures of 32 x 32 pixels, 0 is none. By default an eighth of the shorter side in sets of at most 10,000, but
    none for models of patches (vit)."""

    @property
    def changes_pictures(self) -> bool:
        """True if training pictures are changed."""
        return self.flip or self.crop > 0


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


class PictureColumns(Section):
    """Columns of picture and label in a file of columns or in a data set of the Hub."""

    path: int | str | None = None
    """Column of the picture: a number from 0 or a name. In a file it has paths; by default the column "path",
    "file", "filename" or "image", or the one with names of pictures."""
    label: int | str | None = None
    """Column of the label: a number from 0 or a name; by default the column "label" or "class"."""


class PictureOptions(Section):
    """Options of data of pictures."""

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


class PictureData(PictureOptions, LabelledData):
    """Your own pictures: a folder for each class, a table, or idx files.

    The readers are in `heed.data.kinds.pictures`.
    """

    train: list[DataPath] = Field(min_length=1)
    """Training pictures: folders with a folder for each class, tables of paths and labels (.csv, .tsv), or idx files
    (.gz or not). A folder with train and test inside gives both sets. Relative to the configuration."""
    columns: PictureColumns = PictureColumns()
    """Columns of picture and label in a table."""
    folder: DataPath | None = None
    """Folder of the pictures that tables name, by default that of each table (in Python the current one). A name may
    lack its ending, as an id."""
    classes: list[str] | DataPath | None = None
    """The classes in order, or a file with one class a line; with idx files the names of labels 0, 1, ... By default in
    alphabetical order, numbers by value."""

    @model_validator(mode="after")
    def _folder_of_tables(self) -> Self:
        files = [one for part in (self.train, self.valid, self.test) if isinstance(part, list) for one in part]
        if self.folder is not None and type(self) is PictureData and not any(".csv" in f or ".tsv" in f for f in files):
            raise ValueError(
                f"data.folder is for the files that a table (.csv, .tsv) names, but there is none in {files}"
            )
        return self


class HubPictures(HubSection, PictureData):
    """Pictures with labels of a data set of the Hub; `columns` name its columns."""


class MemoryPictures(InMemory, PictureData):
    """Pictures with labels passed in Python; `columns` name those of a data frame."""


class DigitPictures(EmbeddedLabels, PictureOptions):
    """Embedded data: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels (`heed.data.embedded.pictures`)."""

    name: Literal["digits"] = "digits"
    """Which embedded data."""
    train: int = Field(1_297, gt=0)
    """Number of training examples."""
    valid: int = Field(100, gt=0)
    """Number of validation examples."""
    test: int = Field(400, gt=0)
    """Number of test examples."""

    @model_validator(mode="after")
    def _that_many(self) -> Self:
        if (wanted := self.train + self.valid + self.test) > 1_797:
            raise ValueError(
                f"data.train, data.valid and data.test are {self.train:,} + {self.valid:,} + {self.test:,} = "
                f"{wanted:,}, but there are 1,797 digits"
            )
        return self
