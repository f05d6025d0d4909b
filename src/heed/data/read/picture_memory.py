"""Pictures passed in Python; errors name split and position, as in "train[17]".

| given | read as |
|---|---|
| a tuple (pictures, labels) | columns; the pictures as a list, or an array `(number, height, width[, channels])` |
| a list of tuples | one picture and its label each |
| a data frame, a dict of columns, a list of dicts | columns by name |

A picture is a path, an array or tensor (`heed.data.pictures.decode.from_array`), a Pillow image, or the bytes of a
file. Numbers in arrays are 0 to 1 in all pictures of a split, or 0 to 255 in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heed.data.examples import Picture
from heed.data.pictures.decode import PictureError, from_array, from_pillow
from heed.data.pictures.source import Arrays, Pixels, Source, digest_of
from heed.data.read.columns import LABEL_NAMES
from heed.data.read.findings import BadLine, Findings
from heed.data.read.memory import Held, Table, plain
from heed.data.read.picture_folders import note_spellings
from heed.data.read.picture_tables import PATH_NAMES
from heed.data.read.values import described
from heed.errors import DataError

_FORMS = "expected a path, an array, a Pillow image or the bytes of a file"


class HeldPictures(Held[Picture]):
    """Pictures passed in Python, and the `sources` of their pixels by name, for `Pixels.add`."""

    def __init__(self, examples: Iterable[Picture], findings: Findings, sources: Mapping[str, Source]) -> None:
        super().__init__(examples, findings)
        self.sources = dict(sources)


def hold_pictures(data: Any, split: str, section: Any, findings: Findings) -> HeldPictures:
    """The examples of one split.

    Args:
        data: Pictures with labels, in one of the forms above.
        split: Name of the data in messages.
        section: The `data` section, of which `columns`, `classes` and `max_pixels` are used.
        findings: Policy for pictures that cannot be used, and counts of them.

    Raises:
        DataError: The data cannot be used; the message names the position, the value and what would be right.
    """
    wanted = {"path": section.columns.path, "label": section.columns.label}
    table = Table.of(_unstacked(data), split, ("picture", "label"))
    columns, remark = table.choose(wanted, {"path": (*PATH_NAMES[1:], "pixels", "data"), "label": LABEL_NAMES[1:]})
    if remark:
        findings.remarks.append(remark.replace("is the path", "is the picture"))
    name = f"memory:{split}"
    labels = [_label(value, f"{split}[{i}]", findings) for i, value in enumerate(columns["label"])]
    note_spellings([one for one in labels if isinstance(one, str)], split, findings)
    held: list[Any] = []
    pixels = Pixels.of(section)

    def examples() -> Iterator[Picture]:
        for i, (value, label) in enumerate(zip(_scaled(columns["path"]), labels, strict=True)):
            where = f"{split}[{i}]"
            picture: Picture | BadLine
            if isinstance(label, BadLine):
                picture = label
            else:
                try:
                    picture = _picture(value, label, where, name, held, pixels)
                except PictureError as error:
                    named = f" ('{value}')" if isinstance(value, str | PathLike) else ""
                    picture = findings.bad(error.rule, "", where, f"{where}{named} {error}", things="pictures")
            if isinstance(picture, BadLine):
                findings.leave_out(picture.rule)
            else:
                yield picture

    made = list(examples())
    return HeldPictures(made, findings, {name: Arrays(held)})


def pictures_of(data: Any, pixels: Pixels) -> list[Picture]:
    """Pictures without labels, for prediction: one, or a list or an array of them.

    Raises:
        DataError: A picture cannot be read; the message names it, as in "pictures[3]".
    """
    single = isinstance(data, str | bytes | PathLike | Image.Image) or getattr(data, "ndim", 0) == 2
    values = [data] if single else list(data) if isinstance(data, Iterable) else None
    if values is None:
        raise DataError(f"pictures is {described(data)}, {_FORMS}, or a list of these")
    held: list[Any] = []
    name = f"memory:pictures:{id(held):x}"
    found = []
    for i, value in enumerate(_scaled(values)):
        try:
            found.append(_picture(value, "", f"pictures[{i}]", name, held, pixels))
        except PictureError as error:
            named = f" ('{value}')" if isinstance(value, str | PathLike) else ""
            raise DataError(f"pictures[{i}]{named} {error}") from None
    pixels.add(name, Arrays(held))
    return found


def _picture(value: Any, label: str, where: str, name: str, held: list[Any], pixels: Pixels) -> Picture:
    """One picture; its pixels are appended to `held`, unless it is a file."""
    if isinstance(value, Mapping) and {"bytes", "path"} <= value.keys():  # a data set's undecoded picture
        value = value["bytes"] if value["bytes"] is not None else value["path"]
    if isinstance(value, str | PathLike):
        place = str(Path(value).expanduser().absolute())
        data = pixels.get(place)
        pixels.examine(place, data)
        return Picture(digest_of(data), label, place, where)
    if isinstance(value, bytes | bytearray):
        stored: bytes | NDArray[np.uint8] = bytes(value)
        pixels.examine(where, stored)
    elif isinstance(value, Image.Image):
        stored = from_pillow(value)
    elif hasattr(value, "shape") or isinstance(value, list | tuple):
        stored = from_array(value)
    else:
        raise PictureError("not a picture", f"is {described(value)}, {_FORMS}")
    held.append(stored)
    return Picture(digest_of(stored), label, f"{name}#{len(held) - 1}", where)


def _unstacked(data: Any) -> Any:
    """The data with arrays of many pictures converted to lists of arrays."""

    def apart(column: Any) -> Any:
        return list(np.asarray(column)) if getattr(column, "ndim", 0) >= 3 else column

    if isinstance(data, tuple) and len(data) == 2:
        return apart(data[0]), data[1]
    if isinstance(data, Mapping):
        return {name: apart(column) for name, column in data.items()}
    return data


def _scaled(values: Sequence[Any]) -> Iterator[Any]:
    """The values, with float arrays from 0 to 1 scaled to 255 if all arrays are, since a single one may be dark."""
    floats = [i for i, value in enumerate(values) if _is_float(value)]
    small = bool(floats) and all(_most(values[i]) <= 1 for i in floats)
    chosen = set(floats)
    for i, value in enumerate(values):
        if i in chosen:
            array = np.asarray(value, dtype=np.float64)
            whole = np.isfinite(array).all()
            yield np.rint(array * 255 if small else array).astype(np.int64) if whole else array
        else:
            yield value


def _is_float(value: Any) -> bool:
    return hasattr(value, "shape") and np.issubdtype(np.asarray(value).dtype, np.floating)


def _most(value: Any) -> float:
    return float(np.asarray(value).max(initial=0))


def _label(value: Any, where: str, findings: Findings) -> str | BadLine:
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, str) and value.strip()):
        return str(value).strip()
    return findings.bad("no label", "", where, f"{where} has the label {described(value)}, expected a name or a number")
