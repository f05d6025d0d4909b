"""How a run reads pictures, kept in its folder as `pictures.json`: size, channels, crop, mean and deviation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from heed.data.pictures.decode import Array
from heed.data.pictures.normalisation import Normalisation
from heed.data.pictures.sizing import Sizing
from heed.errors import RunError
from heed.storage.disk import write_whole

FILE = "pictures.json"


@dataclass(frozen=True)
class PictureForm:
    """From a decoded picture to what a model reads: sizing, then normalisation."""

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
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            mean, deviation = (tuple(map(float, values.pop(name))) for name in ("mean", "deviation"))
            form = cls(Sizing(**values), Normalisation(mean, deviation))
            if not len(mean) == len(deviation) == form.sizing.channels:
                raise ValueError(f"{form.sizing.channels} channels, but {len(mean)} means, {len(deviation)} deviations")
            return form
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"cannot read {path}: {error}") from None
