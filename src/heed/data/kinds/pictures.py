r"""Readers of labelled pictures; errors name the file, or split and position, as in "train[17]".

| given | read as |
|---|---|
| a folder | a folder for each class in it, with pictures at any depth; hidden files are left out |
| .csv, .tsv | a path and a label in each row; `data.folder` has the files, `\` is `/`, an ending may be left out |
| idx, gzipped or not | pictures; their labels are in the next file, or the one with "labels" for "images" in its name |
| a data set of the Hub | a column of pictures and one of labels |
| in Python: a tuple (pictures, labels) | the pictures as a list, or an array `(number, height, width[, channels])` |
| in Python: a list of tuples | one picture and its label each |
| in Python: a data frame, a dict of columns, a list of dicts | columns by name |

In Python, a picture is a path, an array or tensor (`heed.data.pictures.decode.from_array`), a Pillow image, or the
bytes of a file. Numbers in arrays are 0 to 1 in all pictures of a split, or 0 to 255 in all. Every picture is decoded
once while it is read, so that a damaged one is found before training begins.

The digits that come with heed are scikit-learn's, 8 x 8 grey pixels. Source: Alpaydin and Kaynak 1998, Optical
Recognition of Handwritten Digits, UCI Machine Learning Repository (its test set: 1,797 digits by 13 people).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heed.data.columns import ENDINGS, LABEL_NAMES, Column, Facts, is_picture, label_of, shown
from heed.data.embedded import SPLITS, Split
from heed.data.examples import Picture
from heed.data.findings import Findings
from heed.data.kinds.contents import Advice, content_of, no_advice
from heed.data.pictures.decode import PictureFacts, Pixels, from_array, from_pillow, picture_digest
from heed.data.pictures.files import (
    Listing,
    PictureError,
    is_hidden,
    is_idx,
    labels_beside,
    read_idx,
)
from heed.data.readers import PythonExamples, Reader
from heed.data.tables import (
    CsvTable,
    Field,
    Head,
    HubTable,
    PythonTable,
    Recognise,
    Row,
    Table,
    described,
    has_items,
    is_table,
)
from heed.data.text_files import ending_of, good_lines
from heed.errors import DataError, counted, suggest

PATH_NAMES = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "img", "picture", "image_path")
"""Usual names of columns with paths of pictures."""
_FORMS = "expected a path, an array, a Pillow image or the bytes of a file"
_CELLS = {"path": "a path", "label": "a name or a number"}
_EXPECTED = "expected a folder with a folder for each class, a table (.csv) or an idx file"


def files_named(cell: str, folder: str | Path) -> list[str]:
    r"""The files in a folder that a cell may name: of this name, with `\` as `/` if need be, else with an ending."""
    places = [os.path.join(folder, name) for name in (cell, cell.replace("\\", "/"))]
    with_endings = [places[1] + ending for lower in sorted(ENDINGS) for ending in (lower, lower.upper())]
    exact = [path for path in places if os.path.isfile(path)][:1]
    return exact or list({os.stat(path).st_ino: path for path in with_endings if os.path.isfile(path)}.values())


def _file_named(cell: str, folder: str | Path, relative: str) -> str:
    """The file in a folder that a cell names; messages end with what paths are `relative` to.

    Raises:
        PictureError: There is no such file, or several have the name with an ending.
    """
    if "\0" in cell or any("\ud800" <= letter <= "\udfff" for letter in cell):
        raise PictureError("no file", f"names {cell!a:.60}, and no file can have this name")
    files = files_named(cell, folder)
    if len(files) > 1:
        raise PictureError("several files", f"names '{cell}', but there are {', '.join(files)}; add the right ending")
    if not files:
        what = f"there is no file '{os.path.join(folder, cell)}', also with no ending such as .jpg added"
        raise PictureError("missing file", f"names '{cell}', but {what}; paths are relative to {relative}")
    return files[0]


def _path_or_data(value: Any, is_unit: bool) -> str | bytes | NDArray[Any]:
    """The path, the bytes of a file or the pixels that a value stands for; arrays as for `from_array`.

    Raises:
        PictureError: It is no picture.
    """
    if isinstance(value, Mapping) and {"bytes", "path"} <= value.keys():  # an undecoded picture of a data set
        value = value["bytes"] if value["bytes"] is not None else value["path"]
    if isinstance(value, str | PathLike):
        return os.path.expanduser(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Image.Image):
        return from_pillow(value)
    if hasattr(value, "shape") or isinstance(value, list | tuple):
        return from_array(value, is_unit if hasattr(value, "shape") else None)
    raise PictureError("no picture" if value is None else "not a picture", f"is {described(value)}, {_FORMS}")


def _are_unit(values: Iterable[Any]) -> bool:
    """True if no value in floating-point arrays is larger than 1: judged together, since a single one may be dark."""
    arrays = (np.asarray(value) for value in values if hasattr(value, "shape"))
    return all(array.max(initial=0) <= 1 for array in arrays if np.issubdtype(array.dtype, np.floating))


def pictures_of(data: Any, pixels: Pixels) -> list[Picture]:
    """Pictures without labels, for prediction: one, or a list or an array of them.

    Raises:
        DataError: A picture cannot be read; the message names it, as in "pictures[3]".
    """
    single = isinstance(data, str | bytes | PathLike | Image.Image) or getattr(data, "ndim", 0) == 2
    if not single and not has_items(data):
        raise DataError(f"pictures is {described(data)}, {_FORMS}, or a list of these")
    values = [data] if single else list(data)
    if not values:
        return []
    table = PythonTable({"picture": values}, "pictures", ("picture",), Findings(hint=False))
    table.columns = {"path": "picture"}
    return list(PictureReader(None, pixels).of_table(table))


class PythonPictures(PythonExamples[Picture]):
    """Pictures passed in Python, and the `sources` of their pixels (`Pixels.sources`)."""

    def __init__(self, examples: Iterable[Picture], findings: Findings, sources: Mapping[str, Any]) -> None:
        super().__init__(examples, findings)
        self.sources = sources


def pictures_from_python(data: Any, split: str, section: Any, findings: Findings) -> PythonPictures:
    """Pictures with labels in one of the forms above, read as a `data` section says.

    Raises:
        DataError: The data cannot be used; the message names the position, the value and what would be right.
    """
    pixels = Pixels.of(section)
    table = PythonTable(data, split, ("picture", "label"), findings)
    return PythonPictures(PictureReader(section, pixels).of_table(table), findings, pixels.sources)


class HubPictures:
    """The pictures of one split of a data set, which the `datasets` library reads from its own files."""

    def __init__(self, table: HubTable) -> None:
        self._data, self._column = table.data, str(table.columns["path"])

    def __getitem__(self, number: int) -> bytes:
        """The bytes of a row's picture."""
        stored = _path_or_data(self._data[number][self._column], False)
        assert isinstance(stored, bytes)
        return stored


def picture_reader(data: Any, pixels: Pixels, advice: Advice = no_advice) -> Reader[Picture]:
    """The reader of labelled pictures; `data` is a section of pictures, `pixels` records their places."""
    reader = PictureReader(data, pixels, advice)
    return Reader(Picture, reader.files, reader.of_table, again=False)


def class_names(data: Any) -> list[str] | None:
    """The classes that `data.classes` lists, in its order; None if it is not given.

    Raises:
        DataError: A name is repeated, or the file of names cannot be read.
    """
    classes: list[str] | str | None = getattr(data, "classes", None)
    if isinstance(classes, str):
        classes = [line.strip() for line in good_lines(Path(classes)) if line.strip()]
    for name in classes or ():
        if classes is not None and classes.count(name) > 1:
            raise DataError(f"data.classes names '{name}' twice")
    return classes


@dataclass
class _Entry:
    """A labelled picture to read."""

    label: str
    place: str  # of its pixels
    origin: str
    called: str  # in messages
    where: Path | str  # the file or folder that findings count it under
    data: bytes | NDArray[Any] | None = None  # by default read from its place


_Examined = tuple[_Entry, str, PictureFacts | PictureError]
"""An entry with the digest and the facts of its picture, or with the reason why it cannot be used."""


class PictureReader:
    """Reads the pictures of one run: by a `data` section, which has columns, folder and classes, into `pixels`."""

    def __init__(self, data: Any, pixels: Pixels, advice: Advice = no_advice) -> None:
        self.data, self.pixels, self.advice, self.classes = data, pixels, advice, class_names(data)

    def files(self, files: Sequence[str], findings: Findings) -> Iterator[Picture]:
        """The pictures of some files, in turn; an idx file of labels belongs to the file before it."""
        waiting = list(files)
        while waiting:
            name = waiting.pop(0)
            path = Path(name)
            if not os.path.exists(path):
                raise DataError(f"no file '{path}'")
            if os.path.isdir(path):
                yield from self._folder(name, findings)
                continue
            if is_table(path):
                yield from self.of_table(CsvTable(path, findings, "\t" if ending_of(path) == ".tsv" else ","))
            elif is_idx(path):
                holds_labels = waiting and is_idx(Path(waiting[0])) and read_idx(Path(waiting[0])).ndim == 1
                yield from self._idx(name, waiting.pop(0) if holds_labels else None)
            elif is_picture(path.name):
                raise DataError(f"'{path}' is one picture; {_EXPECTED}")
            else:
                looks, other = self._looks(Head.of(path, findings))
                raise DataError(f"'{path}' contains no pictures{looks}; {_EXPECTED}{other}")

    def _looks(self, head: Head) -> tuple[str, str]:
        """The probable content of a file without pictures, and the commands that can use it."""
        content = content_of(head) if head.filled else None
        return ("", "") if content is None else (f": {content.why}", self.advice(content.kind, head.path))

    def _folder(self, path: str, findings: Findings) -> Iterator[Picture]:
        """The pictures of a folder with a folder for each class, or with idx files of one set."""
        listing = Listing(path)
        if sets := listing.splits():
            raise DataError(f"'{path}' contains several sets; give only one: {', '.join(sorted(sets.values()))}")
        entries = _entries_of(listing, findings)
        if not any(is_picture(entry.place) for entry in entries):
            errors = [result for _, _, result in map(self._read, entries[:8])]
            if all(isinstance(error, PictureError) for error in errors):
                what = f"'{path}' contains no pictures: {entries[0].called} {errors[0]}"
                raise DataError(f"{what}; {_EXPECTED}{self.advice('labelled', Path(path))}")
        yield from self._examined(entries, findings)

    def of_table(self, table: Table) -> Iterator[Picture]:
        """The pictures of the rows of a table: of a file, of a data set of the Hub, or passed in Python.

        If its columns are set, they stay. Paths are relative to `data.folder`, else to the folder of the file, else to
        the current one; of pictures without labels, they are places.

        Raises:
            DataError: The columns are unclear, or a row is bad and not skipped.
        """
        findings, option = table.findings, getattr(self.data, "folder", None)
        is_file, folder, relative = isinstance(table, CsvTable), Path.cwd(), "the current folder"
        if is_file:
            folder, relative = Path(table.path).parent, "the table"
        relative += "; data.folder sets another folder"
        if option is not None:
            folder, relative = Path(option), f"data.folder, {option}"
        if not table.columns and (remark := self._choose(table, folder)):
            findings.remark(remark)
        if is_file and option is not None:
            findings.remark(f"the pictures that {Path(table.path).name} names are in '{option}' (data.folder)")
        is_labelled = "label" in table.columns
        pictures: dict[int, Any] = {}
        name, is_unit = "", False
        if isinstance(table, HubTable):
            name = f"hub:{table.path}:{table.split}"
            self.pixels.sources[name] = HubPictures(table)
        elif isinstance(table, PythonTable):
            name = f"memory:{table.split}" if is_labelled else f"memory:{id(pictures):x}"
            is_unit = _are_unit(table.chosen()["path"])
            self.pixels.sources[name] = pictures

        def entry(numbered: tuple[int, Row]) -> _Entry | None:
            number, row = numbered
            if row.blank:
                return None
            value, label = row.value("path"), (label_of(row.value("label")) or "") if is_labelled else ""
            try:
                for field, cell in zip(table.columns, (value, label), strict=False):
                    if isinstance(cell, str) and not cell.strip():
                        what = f"column {shown(table.columns[field])} is {described(row.value(field))}"
                        raise PictureError(f"no {field}", f"has no {field}: {what}, expected {_CELLS[field]}")
                data = _path_or_data(value, is_unit)
                if isinstance(data, str):
                    place = _file_named(data, folder, relative) if is_labelled else os.path.abspath(data)
                    return _Entry(label, place, row.origin, f"{row.where} ('{value}')", table.path)
            except PictureError as error:
                message = f"{row.where} {error}"
                raise findings.bad(error.rule, table.path, row.origin, message, things="pictures") from None
            if isinstance(table, PythonTable):
                pictures[number] = data
            return _Entry(label, f"{name}#{number}", row.origin, row.where, table.path, data)

        return self._examined(findings.usable(enumerate(table.rows()), entry), findings)

    def _choose(self, table: Table, folder: Path) -> str:
        """Set the columns of path and label; returns what is to be remarked on recognised ones."""
        options, paths, labels = self.data.columns, [*PATH_NAMES, "pixels", "data"], [*LABEL_NAMES]
        recognise: Recognise | None = None
        if isinstance(table, HubTable):
            paths = sorted(table.pictures, key=lambda name: name.casefold() not in PATH_NAMES)
            if options.path is None and not paths:
                listed = ", ".join(table.names)
                raise DataError(f"data.columns.path: {table.path} has no column of pictures; its columns: {listed}")
            labels = [name for label in LABEL_NAMES for name in table.names if name.casefold() == label]
            labels = table.classes[:1] or labels
        elif isinstance(table, CsvTable):
            if not table.sample:
                raise DataError(f"'{table.path}' has no rows; expected a path and a label in each")
            first = [cell.strip() for cell in table.names]
            is_named = any(cell.casefold() in PATH_NAMES for cell in first)
            table.header = is_named or (len(table.sample) > 1 and not any(map(is_picture, first))) or None
            paths, labels, recognise = [*PATH_NAMES], [], partial(self._recognise, table.head, folder)
        fields = Field("path", options.path, paths), Field("label", options.label, labels)
        return table.choose(fields, recognise, minimum_rows=0)

    def _recognise(
        self, head: Head, folder: Path, facts: Sequence[Facts], columns: Mapping[str, Column]
    ) -> dict[str, int | str] | str:
        """The columns of a file, by their names, by endings of pictures, and by files in the folder."""
        filled = [column for column in facts if column.first]
        candidates = [column for column in facts if str(column.name).strip().casefold() in PATH_NAMES]
        candidates += [column for column in filled if all(map(is_picture, column.first))]
        candidates += [column for column in filled if all(files_named(cell, folder) for cell in column.first)]
        path = next((column.name for column in candidates), None) if columns["path"] is None else columns["path"]
        if path is None:
            return "no column contains picture paths" + "".join(self._looks(head))
        others = [column for column in facts if column.name != path]
        usual = [column for name in LABEL_NAMES for column in others if str(column.name).strip().casefold() == name]
        choices = (usual[:1], others, [column for column in others if column.repeats])
        sure = next((some[0].name for some in choices if len(some) == 1), None)
        label = sure if columns["label"] is None else columns["label"]
        return "the label column is unclear" if label is None else {"path": path, "label": label}

    def _read(self, entry: _Entry) -> _Examined:
        """Decode the picture of an entry."""
        try:
            data = self.pixels.get(entry.place) if entry.data is None else entry.data
            facts = self.pixels.examine(entry.place, data)
            if self.classes is not None and entry.label not in self.classes:
                hint = suggest(entry.label, self.classes)
                what = f"is of class '{entry.label}', which is not in data.classes{hint}"
                raise PictureError("unknown class", what)
        except PictureError as error:
            return entry, "", error
        return entry, picture_digest(data), facts

    def _examined(self, entries: Iterable[_Entry], findings: Findings) -> Iterator[Picture]:
        """The pictures that can be decoded; others are bad lines."""

        def picture(read: _Examined) -> Picture:
            entry, digest, facts = read
            if isinstance(facts, PictureError):
                message = f"{entry.called} {facts}"
                raise findings.bad(facts.rule, entry.where, entry.origin, message, things="pictures")
            for note in facts.notes:
                findings.note(note, entry.where, entry.origin, unit="picture")
            return Picture(digest, entry.label, entry.place, entry.origin)

        return findings.usable(self.pixels.each(self._read, entries), picture)

    def _idx(self, path: str, label_file: str | None) -> Iterator[Picture]:
        """The pictures of an idx file; labels are numbers, or their names in `data.classes`."""
        images = read_idx(Path(path))
        if images.ndim == 1:
            raise DataError(f"'{path}' contains labels, not pictures; give the pictures first, then the labels")
        if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
            shape = " x ".join(map(str, images.shape))
            raise DataError(f"'{path}' contains {shape} bytes, expected pictures: number x height x width [x 3]")
        candidates = labels_beside(Path(path))
        existing = (candidate for candidate in candidates if candidate.exists())
        file = Path(label_file) if label_file else next(existing, None)
        if file is None:
            names = " or ".join(f"'{candidate.name}'" for candidate in candidates[:2])
            raise DataError(f"'{path}' has no file of labels next to it ({names}); give that file after it")
        labels = read_idx(file)
        if labels.ndim != 1 or len(labels) != len(images):
            counts = f"{len(labels):,} labels, and '{path}' {len(images):,} pictures"
            raise DataError(f"'{file}' has {counts}; each needs one")
        largest = int(labels.max(initial=0))
        classes = self.classes or [str(number) for number in range(largest + 1)]
        if largest >= len(classes):
            where = f"the first one too large is at position {int(np.argmax(labels >= len(classes)))}"
            listed = f"{len(classes)} classes, 0 to {len(classes) - 1}"
            raise DataError(f"'{file}' has the label {largest} ({where}), but data.classes names {listed}")
        self.pixels.sources[path] = images
        facts = PictureFacts(images.shape[1], images.shape[2], 1 if images.ndim == 3 else images.shape[3])
        origin = Path(path).name
        for i, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
            place = f"{path}#{i}"
            self.pixels.examined[place] = facts
            yield Picture(picture_digest(image), classes[label], place, f"{origin}#{i}")


def _entries_of(listing: Listing, findings: Findings) -> list[_Entry]:
    """The files of a folder, each of the class that the folder under the root is called.

    Raises:
        DataError: There are no class folders.
    """
    depth, top = len(listing.root), listing.place(listing.root)
    inside = [parts for parts in listing.files if parts[:depth] == listing.root and len(parts) > depth]
    within = [parts for parts in inside if len(parts) > depth + 1]
    if not within:
        tables = [listing.place(parts) for parts in listing.files if Path(parts[-1]).suffix in (".csv", ".tsv")]
        hint = f"; to read its table, give {tables[0]}" if tables else ", or a table (.csv) of paths and labels"
        has = f"{counted(len(listing.files), 'file')} and no folders; expected a folder for each class"
        raise DataError(f"'{listing.path}' contains {has}, with its pictures{hint}")
    for parts in inside:
        if len(parts) == depth + 1 and is_picture(parts[-1]):
            message = f"'{listing.place(parts)}' is next to the class folders; move it into one of them"
            bad = findings.bad("in no class folder", listing.path, parts[-1], message, things="pictures")
            findings.leave_out(bad.rule)
    entries = [
        _Entry(parts[depth], place, "/".join(parts[depth:]), f"'{place}'", listing.path)
        for parts, place in ((parts, listing.place(parts)) for parts in within)
    ]
    for name in sorted({*os.listdir(top)} - {entry.label for entry in entries}):
        if os.path.isdir(os.path.join(top, name)) and not is_hidden((name,)):
            findings.note("class folder without a picture", listing.path, name, unit="folder", warning=True)
    return entries


# Handwritten digits

DIGITS = "digits"


def handwritten() -> tuple[NDArray[np.uint8], list[str]]:
    """The pictures `(1797, 8, 8)`, with their 17 levels scaled to 0 .. 255, and their labels."""
    from sklearn.datasets import load_digits  # takes a second

    digits = load_digits()
    return np.rint(digits.images * (255 / 16)).astype(np.uint8), [str(int(label)) for label in digits.target]


def draw_digits(sizes: dict[Split, int], seed: int) -> tuple[dict[Split, list[Picture]], NDArray[np.uint8]]:
    """Digits for splits of these sizes, stratified by class, and the pixels of all digits.

    The seed decides the order; test digits are taken first, so that they depend only on their number.
    """
    images, labels = handwritten()
    examples = [
        Picture(picture_digest(image), label, f"{DIGITS}#{i}", f"{DIGITS}#{i}")
        for i, (image, label) in enumerate(zip(images, labels, strict=True))
    ]
    order = sorted(range(len(examples)), key=lambda i: hashlib.blake2b(f"{seed}:{i}".encode(), digest_size=8).digest())
    rank = dict.fromkeys(labels, 0)
    total = {label: labels.count(label) for label in rank}
    place: list[tuple[float, int]] = []  # example j of the m of a class is at (j + 1/2) / m
    for i in order:
        place.append(((rank[labels[i]] + 0.5) / total[labels[i]], i))
        rank[labels[i]] += 1
    spread = [i for _, i in sorted(place, key=lambda item: item[0])]
    drawn: dict[Split, list[Picture]] = {}
    for split in reversed(SPLITS):
        drawn[split], spread = [examples[i] for i in spread[: sizes[split]]], spread[sizes[split] :]
    return {split: drawn[split] for split in SPLITS}, images
