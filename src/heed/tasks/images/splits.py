"""Splits of pictures: from files, the Hub, memory, or embedded data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from heed.config import HubSection, OwnData
from heed.config.data import InMemory
from heed.config.pictures import DigitPictures
from heed.data.embedded.pictures import DIGITS, draw_digits
from heed.data.examples import Picture
from heed.data.kinds.contents import Advice, no_advice
from heed.data.kinds.pictures import picture_reader
from heed.data.pictures.files import Listing
from heed.data.pictures.store import Pixels
from heed.data.splits import Splits, drawn_splits, open_splits
from heed.errors import DataError


def open_pictures(
    data: Any, pixels: Pixels, given: Mapping[str, Sequence[Picture]] | None = None, advice: Advice = no_advice
) -> Splits[Picture]:
    """Read every split of a `data` section of pictures.

    Args:
        data: The section.
        pixels: Records the places of the pictures (`Pixels.of(data, given)`).
        given: Examples passed in Python, by split (`heed.data.kinds.pictures`).
        advice: Names commands for files without pictures.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if isinstance(data, DigitPictures):
        drawn, images = draw_digits({"train": data.train, "valid": data.valid, "test": data.test}, data.seed)
        pixels.sources[DIGITS] = images
        return drawn_splits({str(name): some for name, some in drawn.items()}, data.name, "pictures")
    assert isinstance(data, OwnData), f"no source of {data!r}"
    remarks: list[str] = []
    if given is None and not isinstance(data, InMemory | HubSection):
        data, remarks = with_sets(data)
    reader = picture_reader(data, pixels, advice)
    # `in_memory` bounds megabytes of pixels here; the examples themselves are small.
    splits = open_splits(data.model_copy(update={"in_memory": None}), reader, given)
    splits.remarks = [*remarks, *splits.remarks]
    return splits


D = TypeVar("D", bound=OwnData)


def with_sets(data: D) -> tuple[D, list[str]]:
    """The section with the folder of each split, if a folder contains several; remarks that say so.

    Raises:
        DataError: A folder given for a split contains only other splits.
    """
    update: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for field in ("train", "valid", "test"):
        given = getattr(data, field)
        for path in given if isinstance(given, list) else ():
            sets = sets_in(path)
            if sets and field not in sets:
                raise DataError(
                    f"data.{field}: '{path}' contains {' and '.join(sets)} but not {field}; give a folder that does"
                )
            update.setdefault(field, []).append(sets.get(field, str(path)))
            if field == "train":
                found = {**sets, **found}
    remarks = []
    for split in ("valid", "test"):
        if getattr(data, split) is None and split in found:
            update[split] = [found[split]]
            remarks.append(f"data.{split} is {found[split]}")
    return data.model_copy(update=update), remarks


def sets_in(path: str) -> dict[str, str]:
    """Split -> its folder or file, if a folder contains a training set and others; else empty."""
    return Listing(path).splits() if os.path.isdir(path) else {}
