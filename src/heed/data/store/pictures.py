"""Pictures by purpose: those of files, of the Hub, in memory, and embedded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heed.config import OwnData
from heed.config.pictures import DigitPictures, EmbeddedPictures, ShapePictures
from heed.data.embedded import handwriting, shapes
from heed.data.embedded.generated import Split
from heed.data.examples import Picture
from heed.data.pictures.source import Arrays, Pixels
from heed.data.read.contents import Advice, no_advice
from heed.data.read.pictures import picture_reader
from heed.data.store.splits import Splits, drawn_splits, open_splits


def open_pictures(
    data: Any, pixels: Pixels, given: Mapping[str, Sequence[Picture]] | None = None, advice: Advice = no_advice
) -> Splits[Picture]:
    """Read every split of a `data` section of pictures.

    Args:
        data: The section.
        pixels: Gets to know where the pictures are (`Pixels.of(data, given)`).
        given: Examples handed over in Python, by split (`heed.data.read.picture_memory`).
        advice: Names commands for files that hold no pictures.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if isinstance(data, DigitPictures):
        drawn, images = handwriting.draw_digits(_sizes(data), data.seed)
        pixels.add(handwriting.NAME, Arrays(images))
        return drawn_splits({**drawn}, data.name, "pictures")
    if isinstance(data, ShapePictures):
        sides = (32, 32) if data.size == "auto" else data.size
        drawn, images = shapes.draw_shapes(
            _sizes(data),
            data.seed,
            size=(sides, sides) if isinstance(sides, int) else sides,
            distance=data.distance,
            kinds=data.kinds,
            colours=data.colours,
            noise=data.noise,
        )
        pixels.add(shapes.NAME, Arrays(images))
        return drawn_splits({**drawn}, data.name, "pictures")
    assert isinstance(data, OwnData) and not isinstance(data, EmbeddedPictures), f"no source of {data!r}"
    return open_splits(data, picture_reader(data, pixels, advice), given)


def _sizes(data: EmbeddedPictures) -> dict[Split, int]:
    return {"train": data.train, "valid": data.valid, "test": data.test}
