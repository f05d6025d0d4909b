"""Pictures of a data set of the Hugging Face Hub: a column of pictures and one of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heed.data.examples import Picture
from heed.data.pictures.decode import PictureError
from heed.data.pictures.source import Pixels, bytes_of, digest_of
from heed.data.read.columns import LABEL_NAMES
from heed.data.read.findings import Findings
from heed.data.read.hub import HubSet
from heed.data.read.picture_tables import PATH_NAMES
from heed.errors import DataError, suggest

_TOGETHER = 256


class HubRows:
    """The pictures of one split of a data set, by row number, which the `datasets` library reads from its own files."""

    def __init__(self, table: Any, column: str) -> None:
        self._table, self._column = table, column

    def get(self, key: str) -> bytes:
        """The bytes of a row's picture."""
        return _bytes(self._table[int(key)][self._column])


def hub_pictures(hub: HubSet, split: str, columns: Any, pixels: Pixels, findings: Findings) -> Iterator[Picture]:
    """The pictures of a split, or of "train[:1000]", with their labels; class numbers are converted to class names.

    Raises:
        DataError: There is no such split or column, or a row is bad and not skipped.
    """
    table = hub.table(split)
    features: Mapping[str, Any] = table.features
    of_picture = _column("path", columns.path, [n for n, one in features.items() if _is_image(one)], features, hub.name)
    others = [name for name in features if name != of_picture]
    classes = [name for name in others if hasattr(features[name], "int2str")]
    named = [known for known in LABEL_NAMES for name in others if name.casefold() == known]
    of_label = _column("label", columns.label, classes[:1] or named[:1] or others, features, hub.name)
    library = features[of_picture]
    if hasattr(library, "decode"):  # the stored bytes, whose digest identifies a picture
        table = table.cast_column(of_picture, type(library)(decode=False))
    name = f"hub:{hub.name}:{split}"
    pixels.add(name, HubRows(table, of_picture))
    label_of = getattr(features[of_label], "int2str", None)
    number = 0
    for chunk in table.select_columns([of_picture, of_label]).iter(_TOGETHER):
        for value, label in zip(chunk[of_picture], chunk[of_label], strict=True):
            where, place = f"{hub.name} split {split} row {number + 1}", f"{split}:{number + 1}"
            if label_of is not None:
                label = None if label in (None, -1) else label_of(label)
            if label is None or not str(label).strip():
                message = f"{where} has no label in column '{of_label}'"
                findings.leave_out(findings.bad("no label", hub.name, place, message, things="pictures").rule)
            else:
                try:
                    data = _bytes(value)
                    pixels.examine(f"{name}#{number}", data)
                    yield Picture(digest_of(data), str(label).strip(), f"{name}#{number}", f"{hub.name}:{place}")
                except PictureError as error:
                    bad = findings.bad(error.rule, hub.name, place, f"{where} {error}", things="pictures")
                    findings.leave_out(bad.rule)
            number += 1


def _bytes(value: Any) -> bytes:
    """The bytes of a cell, which the library gives as {"bytes", "path"}."""
    if isinstance(value, Mapping):
        if value.get("bytes") is not None:
            return bytes(value["bytes"])
        if value.get("path"):
            return bytes_of(Path(value["path"]))
    if isinstance(value, bytes):
        return value
    if value is None:
        raise PictureError("no picture", "has no picture")
    raise PictureError("not a picture", f"contains {type(value).__name__}, not a picture")


def _is_image(feature: Any) -> bool:
    return type(feature).__name__ == "Image"


def _column(field: str, given: Any, able: list[str], features: Mapping[str, Any], hub: str) -> str:
    """The column of a field: the given one, or the first or only one that qualifies."""
    if given is not None:
        if given not in features:
            raise DataError(f"data.columns.{field}: {hub} has no column '{given}'{suggest(str(given), features)}")
        return str(given)
    if field == "path":
        named = [name for name in able if name.casefold() in PATH_NAMES] or able
        if not named:
            listed = ", ".join(features)
            raise DataError(f"data.columns.path: {hub} has no column of pictures; its columns: {listed}")
        return named[0]
    if len(able) != 1:
        listed = ", ".join(able) or "there is no other"
        raise DataError(f"data.columns.label: the label column of {hub} is unclear ({listed})")
    return able[0]
