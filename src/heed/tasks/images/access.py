"""Access to a task's pictures: reading them from any source, and the sized pixels of each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heed.data.examples import Picture
from heed.data.pictures.sizing import Sizing
from heed.data.pictures.source import Pixels, Source
from heed.data.pictures.store import PictureStore
from heed.tasks.images.pictures import PictureSplits


class PictureAccess:
    """The pictures of one run.

    Attributes:
        pixels: Reads the pictures of open splits and of any file.
    """

    def __init__(self, data: Any, sizing: Sizing) -> None:
        self._data, self._sizing = data, sizing
        self.pixels = Pixels.of(data)
        self._sources: dict[str, Source] = {}  # of pictures passed in Python
        self._splits: Mapping[str, Sequence[Picture]] = {}
        self._stores: dict[str, PictureStore] = {}
        self._last: tuple[Sequence[Picture], PictureStore] | None = None

    def open(self, splits: PictureSplits) -> None:
        """Open the splits, so that their pictures can be read."""
        self._splits, self.pixels = splits.examples, splits.pixels
        self.know(self._sources)

    def know(self, sources: Mapping[str, Source]) -> None:
        """Add the sources of further pictures."""
        self._sources |= sources
        for name, source in sources.items():
            self.pixels.add(name, source)

    def keep(self, name: str, store: PictureStore) -> None:
        """Set the store of sized pictures of a split."""
        self._stores[name] = store

    def split(self, name: str) -> PictureStore:
        """The sized pictures of a split."""
        if name not in self._stores:
            self._stores[name] = self._store(self._splits[name], self.pixels)
        return self._stores[name]

    def some(self, pictures: Sequence[Picture], pixels: Pixels | None = None) -> PictureStore:
        """The sized pictures of some examples, read by `pixels`; the last request is cached."""
        for name, own in self._splits.items():
            if pictures is own:
                return self.split(name)
        if self._last is None or self._last[0] is not pictures:
            self._last = pictures, self._store(pictures, pixels or self.pixels)
        return self._last[1]

    def _store(self, pictures: Sequence[Picture], pixels: Pixels) -> PictureStore:
        return PictureStore(pixels, [picture.place for picture in pictures], self._sizing, self._data.in_memory)
