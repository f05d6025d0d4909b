"""Looks read back from files that they were saved to: JSON and .npz; nothing in a file is executed."""

from __future__ import annotations

import io
import json
import math
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from heed.errors import HeedError, RunError
from heed.observe.beams import ShownBeams
from heed.observe.picture_drawing import ShownDistances, ShownPicture
from heed.observe.plain import Arrays
from heed.observe.shown import KeptShown, ShownLook
from heed.storage.files import read_bytes

_FORMS: dict[str, type[KeptShown]] = {one.form: one for one in (ShownLook, ShownPicture, ShownDistances, ShownBeams)}
_MOST = 1 << 30
"""Largest file, and largest sum of the arrays of one, in bytes."""


def load_look(path: str | Path) -> KeptShown:
    """The look that `save` or `heed look --out` wrote to a file of JSON or .npz: what `run.look` returned.

    From .npz every number is the same, from JSON rounded as docs/looking.md says. Only `number` needs more than a file
    has: the queries and keys of the pass.

    Raises:
        RunError: The file is missing, damaged, of another version, or not a look.
    """
    path = Path(path)
    data = read_bytes(path, _MOST, links=True)
    try:
        content, arrays = _unzipped(data) if data.startswith(b"PK") else (json.loads(data), None)
    except (BadZipFile, EOFError, KeyError, RecursionError, RuntimeError, ValueError, zlib.error) as error:
        raise RunError(f"'{path}' is neither a look as JSON nor as .npz, or is damaged: {error}") from None
    form = content.get("format") if isinstance(content, dict) else None
    if form not in [*_FORMS]:
        known = [one for one in _FORMS if str(form).rpartition("-")[0] == one.rpartition("-")[0]]
        if known:
            raise RunError(
                f"'{path}' has format {form}, but this heed reads {known[0]}; write it again: heed look --out"
            )
        raise RunError(f"'{path}' is not a look: its format is {form!r}, expected one of {', '.join(_FORMS)}")
    try:
        return _FORMS[form].read(content, arrays)
    except (AssertionError, HeedError, KeyError, OverflowError, TypeError, ValueError, zlib.error) as error:
        raise RunError(f"'{path}' is damaged: {error or 'its parts do not fit together'}; write it again") from None


def _unzipped(data: bytes) -> tuple[Any, Arrays]:
    with ZipFile(io.BytesIO(data)) as archive:
        if (size := sum(one.file_size for one in archive.infolist())) > _MOST:
            raise ValueError(f"its arrays have {size:,} bytes, more than {_MOST:,}")
        arrays = {name.removesuffix(".npy"): _array(name, archive.read(name)) for name in archive.namelist()}
    return json.loads(arrays.pop("look").astype(np.uint8).tobytes()), arrays


def _array(name: str, data: bytes) -> np.ndarray[Any, Any]:
    """The array of an .npy file; its header is not believed before its size is compared with that of the data."""
    file = io.BytesIO(data)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, columns, kind = read[np.lib.format.read_magic(file)](file)
    if kind.kind not in "fbiu" or math.prod(shape) * kind.itemsize != len(data) - file.tell():
        raise ValueError(f"array '{name}' has the type {kind} and shape {shape}, which do not fit its data")
    array = np.frombuffer(data, kind, offset=file.tell()).reshape(shape, order="F" if columns else "C")
    return array.astype(kind.newbyteorder("="))
