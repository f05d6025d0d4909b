"""A run's sizing and normalisation of pictures, saved as `pictures.json`: size, channels, crop, mean, deviation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.normalisation import Normalisation
from heed.data.pictures.sizing import Sizing
from heed.storage.disk import write_whole
from heed.storage.files import damaged, read_object

FILE = "pictures.json"
_LARGEST = 1 << 14
"""Most pixels of a side."""


@dataclass(frozen=True)
class PictureForm:
    """Conversion of decoded pictures to model inputs: sizing, then normalisation."""

    sizing: Sizing
    normalisation: Normalisation

    def sized(self, pictures: Sequence[Array]) -> Array:
        """Decoded pictures of any size as one array `(batch, height, width, channels)`."""
        if not pictures:
            return np.empty((0, *self.sizing.shape), dtype=np.uint8)
        return np.stack([self.sizing.apply(picture) for picture in pictures])

    def tensor(self, pictures: Sequence[Array] | Array) -> Tensor:
        """Decoded pictures of any size, or sized ones, as normalised float32 `(batch, channels, height, width)`."""
        if isinstance(pictures, np.ndarray) and pictures.shape[1:] == self.sizing.shape:
            return self.normalisation.tensor(pictures)
        return self.normalisation.tensor(self.sized([*pictures]))

    def text(self) -> str:
        """As JSON."""
        values: dict[str, Any] = {**asdict(self.sizing), **asdict(self.normalisation)}
        return json.dumps(values, indent=1) + "\n"

    def save(self, folder: Path) -> None:
        """Write `pictures.json` into a run folder."""
        text = self.text()
        write_whole(folder / FILE, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read from the `pictures.json` of a run folder.

        Raises:
            RunError: The file is missing or damaged.
        """
        path = folder / FILE
        values = read_object(path)
        try:
            mean, deviation = (tuple(map(float, values.pop(name))) for name in ("mean", "deviation"))
            form = cls(
                TypeAdapter(Sizing).validate_json(json.dumps(values), strict=True), Normalisation(mean, deviation)
            )
            if unknown := values.keys() - asdict(form.sizing).keys():
                raise ValueError(f"it has an unknown field {min(unknown)!r}")
            sides = [side for side in (form.sizing.height, form.sizing.width, form.sizing.shorter) if side is not None]
            if not (0 < min(sides) <= max(sides) <= _LARGEST and form.sizing.channels in (1, 3)):
                raise ValueError(f"its pictures have {sides} pixels a side and {form.sizing.channels} channels")
            if not all(math.isfinite(one) for one in mean + deviation) or min(deviation, default=1.0) <= 0:
                raise ValueError("a mean is not finite, or a deviation is not above 0")
            if not len(mean) == len(deviation) == form.sizing.channels:
                raise ValueError(f"{form.sizing.channels} channels, but {len(mean)} means, {len(deviation)} deviations")
            return form
        except ValidationError as error:
            first = error.errors()[0]
            raise damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except KeyError as error:
            raise damaged(path, f"it has no {error}") from None
        except (ValueError, TypeError, OverflowError) as error:
            raise damaged(path, str(error)) from None
