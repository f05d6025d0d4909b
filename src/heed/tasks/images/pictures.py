"""The pictures of a run: their splits with a reader of their pixels, and the form in which a model reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heed.data.examples import Picture, label_order
from heed.data.pictures.sizing import Sizing, settled_size
from heed.data.pictures.source import Pixels
from heed.data.pictures.store import PictureStore
from heed.data.pictures.stored import PictureForm
from heed.data.read.pictures import class_names
from heed.data.store.pictures import open_pictures
from heed.data.store.splits import Splits
from heed.errors import ConfigError, DataError, nearest
from heed.tasks.base.contents import advice


@dataclass
class PictureSplits(Splits[Picture]):
    """Splits of pictures; `pixels` reads them."""

    pixels: Pixels = field(default_factory=Pixels)


def open_picture_splits(data: Any, given: Mapping[str, Sequence[Picture]] | None) -> PictureSplits:
    """Read every split of a `data` section, or take the given pictures.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    pixels = Pixels.of(data, given)
    splits = open_pictures(data, pixels, given, advice)
    return PictureSplits(**vars(splits), pixels=pixels)


def ordered_classes(data: Any, found: Collection[str]) -> list[str]:
    """The classes of a run in order: as in `data.classes`, otherwise by name, numbers by value.

    Raises:
        DataError: A class that was found is not in the list.
    """
    names = class_names(data)
    if names is None:
        return label_order(found)
    if unknown := [label for label in label_order(found) if label not in names]:
        raise DataError(
            f"data.classes names {', '.join(names)}, but there are pictures of '{unknown[0]}'"
            f"{nearest(unknown[0], names)}"
        )
    return names


def form_of(
    data: Any, train: Sequence[Picture], pixels: Pixels, parent: PictureForm | None
) -> tuple[PictureForm, PictureStore]:
    """The form of pictures of a new run, from the `data` section or the training pictures; and these, sized.

    A run that starts from a parent's weights uses the parent's size, channels and normalisation unless the section
    sets them, since the weights were trained for them.
    """
    if parent is None or data.channels not in ("auto", parent.sizing.channels):
        facts = pixels.facts([picture.place for picture in train])
        channels = data.channels if data.channels != "auto" else max(one.channels for one in facts)
        height, width = settled_size([(one.height, one.width) for one in facts])
        sizing = Sizing(height, width, channels, data.crop)
    else:
        sizing = parent.sizing
        if "crop" in data.model_fields_set:
            sizing = Sizing(sizing.height, sizing.width, sizing.channels, data.crop, sizing.resample)
    if data.size != "auto":
        height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
        if (height, width) != (sizing.height, sizing.width):
            sizing = Sizing(height, width, sizing.channels, sizing.crop, sizing.resample)
    store = PictureStore(pixels, [picture.place for picture in train], sizing, data.in_memory)
    if parent is not None and len(parent.normalisation.mean) == sizing.channels:
        return PictureForm(sizing, parent.normalisation), store
    return PictureForm(sizing, store.normalisation()), store


def check_classes(task: Any) -> None:
    """Refuse to predict with a model imported without a classifier.

    Raises:
        ConfigError: The model has no classes.
    """
    if not task.labels:
        raise ConfigError(
            f"the model has no classes: it was imported from {task.config.data.name}, which has no classifier; "
            "train a classifier from it: heed train images FOLDER --from RUN"
        )
