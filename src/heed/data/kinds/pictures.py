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

from heed.data.columns import LABEL_NAMES, Column, Facts, label_of, shown
from heed.data.examples import Picture
from heed.data.findings import Findings
from heed.data.kinds.contents import Advice, content_of, no_advice
from heed.data.pictures.decode import PictureError, PictureFacts, from_array, from_pillow
from heed.data.pictures.files import ENDINGS, is_idx, is_picture, labels_beside, read_idx, refuse_archive
from heed.data.pictures.source import Arrays, Listing, Pixels, Source, bundles, bytes_of, picture_digest
from heed.data.readers import Held, HubSet, Reader
from heed.data.tables import CsvTable, Field, Head, HeldTable, HubTable, Row, described, has_items, is_table
from heed.data.text_files import ending_of
from heed.errors import DataError, suggest, whole_number


@dataclass(frozen=True)
class PictureFile:
    """A file to read as a picture: its class, its place, and its name in messages, inside the given path."""

    label: str
    place: str
    name: str


def entries_of(listing: Listing, findings: Findings) -> list[PictureFile]:
    """The files of a listing with the class of each: the name of its folder under the root.

    Raises:
        DataError: There are no class folders.
    """
    root = listing.root
    inside = [parts for parts in listing.files if parts[: len(root)] == root and len(parts) > len(root)]
    within = [parts for parts in inside if len(parts) > len(root) + 1]
    if not within:
        raise DataError(_no_classes(listing))
    if len(inside) > len(within):  # next to the class folders
        beside = [parts[-1] for parts in inside if len(parts) == len(root) + 1]
        for name in (one for one in beside if is_picture(one)):
            message = f"'{listing.place((*root, name))}' is next to the class folders; move it into one of them"
            bad = findings.bad("in no class folder", listing.path, name, message, things="pictures")
            findings.leave_out(bad.rule)
    entries = [PictureFile(parts[len(root)], listing.place(parts), "/".join(parts[len(root) :])) for parts in within]
    deeper = next((parts for parts in within if len(parts) > len(root) + 2), None)
    if deeper is not None:
        folder, label = "/".join(deeper[len(root) : -1]), deeper[len(root)]
        findings.remark(f"pictures in subfolders belong to the class of the outer folder: {folder} is class '{label}'")
    known = {entry.label for entry in entries}
    for parts in listing.empty:
        if len(parts) == len(root) + 1 and parts[: len(root)] == root and parts[-1] not in known:
            findings.note("class folder without a picture", listing.path, parts[-1], unit="folder", warning=True)
    return entries


def _no_classes(listing: Listing) -> str:
    pictures = [parts for parts in listing.files if is_picture(parts[-1])]
    tables = [parts[-1] for parts in listing.files if len(parts) == 1 and Path(parts[-1]).suffix in (".csv", ".tsv")]
    if not listing.files:
        return f"'{listing.path}' is empty; expected a folder for each class, with its pictures"
    if tables:
        table = f"{listing.prefix}{tables[0]}"
        return f"'{listing.path}' has no class folders but contains a table; to read it, give {table}"
    count, unit = (len(pictures), "picture") if pictures else (len(listing.files), "file")
    held = f"{count:,} {unit}{'s' if count != 1 else ''}"
    return (
        f"'{listing.path}' contains {held} and no folders; expected a folder for each class, or a table (.csv) of "
        "paths and labels"
    )


PATH_NAMES = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "img", "picture", "image_path")
"""Usual names of columns with paths of pictures."""


def files_named(cell: str, folder: str | Path) -> list[str]:
    r"""The files in a folder that a cell may name: of this name, with `\` as `/` if need be, else with an ending."""
    places = [os.path.join(folder, one) for one in (cell, cell.replace("\\", "/"))]
    able = [places[1] + ending for lower in sorted(ENDINGS) for ending in (lower, lower.upper())]
    exact = [one for one in places if os.path.isfile(one)][:1]
    return exact or list({os.stat(one).st_ino: one for one in able if os.path.isfile(one)}.values())


def picture_file(cell: str, folder: str | None, usual: str | Path = "", called: str = "the current folder") -> str:
    """The file that a cell names in `data.folder` or else in the usual folder, which messages call so.

    Raises:
        PictureError: There is no such file, or several have the name with an ending.
    """
    if "\0" in cell or any("\ud800" <= letter <= "\udfff" for letter in cell):
        raise PictureError("no file", f"names {cell!a:.60}, and no file can have this name")
    files = files_named(cell, usual if folder is None else folder)
    if len(files) > 1:
        raise PictureError("several files", f"names '{cell}', but there are {', '.join(files)}; add the right ending")
    if not files:
        where = f"{called}; data.folder sets another folder" if folder is None else f"data.folder, {folder}"
        what = f"there is no file '{os.path.join(usual if folder is None else folder, cell)}', also with no ending"
        what += f" such as .jpg added; paths are relative to {where}"
        raise PictureError("missing file", f"names '{cell}', but {what}")
    return files[0]


def table_entries(path: Path, data: Any, findings: Findings, advice: Advice) -> Iterator[PictureFile]:
    """The pictures named in the rows of a table, with paths relative to `data.folder` or else to the table's.

    Raises:
        DataError: The columns are unclear, or a line is bad and not skipped.
    """
    table = CsvTable(path, findings, "\t" if ending_of(path) == ".tsv" else ",")
    _choose(table, data.columns, advice, path.parent if data.folder is None else data.folder)
    if data.folder is not None:
        findings.remark(f"the pictures that {path.name} names are in '{data.folder}' (data.folder)")

    def entry(row: Row) -> PictureFile | None:
        if row.blank:
            return None
        cell, label = row.text("path").strip(), label_of(row.text("label")) or ""
        for name, value in (("path", cell), ("label", label)):
            if not value:
                raise row.bad(f"no {name}", f"{row.where} has no {name} in column {shown(table.columns[name])}")
        try:
            return PictureFile(label, picture_file(cell, data.folder, path.parent, "the table"), row.origin)
        except PictureError as error:
            raise row.bad(error.rule, f"{row.where} {error}") from None

    return table.made(entry)


def _choose(table: CsvTable, given: Any, advice: Advice, folder: str | Path) -> None:
    """Set the columns of path and label; recognised ones are remarked."""
    if not table.sample:
        raise DataError(f"'{table.path}' has no rows; expected a path and a label in each")
    first = [cell.strip() for cell in table.names]
    known = any(cell.casefold() in PATH_NAMES for cell in first)
    table.header = known or (len(table.sample) > 1 and not any(map(is_picture, first))) or None

    def recognise(facts: Sequence[Facts], columns: Mapping[str, Column]) -> dict[str, int | str] | str:
        named = [one for one in facts if str(one.name).strip().casefold() in PATH_NAMES]
        named += [one for one in facts if one.first and all(map(is_picture, one.first))]
        named += [one for one in facts if one.first and all(files_named(cell, folder) for cell in one.first)]
        path = next((one.name for one in named), None) if columns["path"] is None else columns["path"]
        if path is None:
            content = content_of(table.head)
            why, other = ("", "") if content is None else (f": {content.why}", advice(content.kind, table.path))
            what = "data.columns.path selects the column, by name or by number"
            raise DataError(f"{table.called}: no column contains picture paths{why}; {what}{other}")
        others = [one for one in facts if one.name != path]
        labels = [one for name in LABEL_NAMES for one in others if str(one.name).strip().casefold() == name][:1]
        able = (labels, others, [one for one in others if one.repeats])
        label = given.label if given.label is not None else next((one[0].name for one in able if len(one) == 1), None)
        return "the label column is unclear" if label is None else {"path": path, "label": label}

    fields = Field("path", given.path, PATH_NAMES), Field("label", given.label)
    if said := table.choose(fields, recognise, least=0):
        table.findings.remark(said)


_FORMS = "expected a path, an array, a Pillow image or the bytes of a file"


class HeldPictures(Held[Picture]):
    """Pictures passed in Python, and the `sources` of their pixels by name, for `Pixels.add`."""

    def __init__(self, examples: Iterable[Picture], findings: Findings, sources: Mapping[str, Source]) -> None:
        super().__init__(examples, findings)
        self.sources = dict(sources)


def hold_pictures(data: Any, split: str, section: Any, findings: Findings) -> HeldPictures:
    """Pictures with labels in one of the forms above; of the `data` section `columns`, `folder`, `max_pixels` are used.

    Raises:
        DataError: The data cannot be used; the message names the position, the value and what would be right.
    """
    given = section.columns
    table = HeldTable(_unstacked(data), split, ("picture", "label"), findings)
    of_path = Field("path", given.path, (*PATH_NAMES, "pixels", "data"))
    if said := table.choose([of_path, Field("label", given.label, LABEL_NAMES)]):
        findings.remark(said)
    columns = table.chosen()
    name = f"memory:{split}"
    held: list[Any] = []
    pixels = Pixels.of(section)

    def picture(row: tuple[int, tuple[Any, Any]]) -> Picture:
        value, label = row[1]
        where = f"{split}[{row[0]}]"
        try:
            if not (text := label_of(label)):
                wrong = f"{where} has the label {described(label)}, expected a name or a number"
                raise findings.bad("no label", "", where, wrong)
            if isinstance(value, str | PathLike):
                value = picture_file(os.path.expanduser(value), getattr(section, "folder", None))
            return _picture(value, text, where, name, held, pixels)
        except PictureError as error:
            named = f" ('{value}')" if isinstance(value, str | PathLike) and "names '" not in str(error) else ""
            raise findings.bad(error.rule, "", where, f"{where}{named} {error}", things="pictures") from None

    rows = enumerate(zip(_scaled(columns["path"]), columns["label"], strict=True))
    made = list(findings.usable(rows, picture))
    return HeldPictures(made, findings, {name: Arrays(held)})


def pictures_of(data: Any, pixels: Pixels) -> list[Picture]:
    """Pictures without labels, for prediction: one, or a list or an array of them.

    Raises:
        DataError: A picture cannot be read; the message names it, as in "pictures[3]".
    """
    single = isinstance(data, str | bytes | PathLike | Image.Image) or getattr(data, "ndim", 0) == 2
    values = [data] if single else list(data) if has_items(data) else None
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
        place = str(Path(os.path.expanduser(value)).absolute())
        data = pixels.get(place)
        pixels.examine(place, data)
        return Picture(picture_digest(data), label, place, where)
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
    return Picture(picture_digest(stored), label, f"{name}#{len(held) - 1}", where)


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
    shaped = ((i, np.asarray(value)) for i, value in enumerate(values) if hasattr(value, "shape"))
    largest = {i: float(one.max(initial=0)) for i, one in shaped if np.issubdtype(one.dtype, np.floating)}
    small = all(most <= 1 for most in largest.values())
    for i, value in enumerate(values):
        if i in largest:
            array = np.asarray(value, dtype=np.float64)
            whole = np.isfinite(array).all()
            yield np.rint(array * 255 if small else array).astype(np.int64) if whole else array
        else:
            yield value


class HubRows:
    """The pictures of one split of a data set, by row number, which the `datasets` library reads from its own files."""

    def __init__(self, table: Any, column: str) -> None:
        self._table, self._column = table, column

    def get(self, key: str) -> bytes:
        """The bytes of a row's picture."""
        return _bytes(self._table[whole_number(key)][self._column])


def hub_pictures(hub: HubSet, split: str, columns: Any, pixels: Pixels, findings: Findings) -> Iterator[Picture]:
    """The pictures of a split, or of "train[:1000]", with their labels; class numbers are converted to class names.

    Raises:
        DataError: There is no such split or column, or a row is bad and not skipped.
    """
    data = hub.table(split)
    features: Mapping[str, Any] = data.features
    images = sorted((n for n in features if _is_image(features[n])), key=lambda n: n.casefold() not in PATH_NAMES)
    if columns.path is None and not images:
        listed = ", ".join(features)
        raise DataError(f"data.columns.path: {hub.name} has no column of pictures; its columns: {listed}")
    classes = [name for name, one in features.items() if hasattr(one, "int2str")]
    labels = [known for label in LABEL_NAMES for known in features if known.casefold() == label]
    for image in images:  # the stored bytes, whose digest identifies a picture
        data = data.cast_column(image, type(features[image])(decode=False))
    table = HubTable(hub.name, split, data, findings)
    table.choose([Field("path", columns.path, images), Field("label", columns.label, classes[:1] or labels)])
    table.places()
    name = f"hub:{hub.name}:{split}"
    pixels.add(name, HubRows(data, str(table.columns["path"])))

    def picture(row: Row) -> Picture:
        if not (label := label_of(row.value("label"))):
            raise row.bad("no label", f"{row.where} has no label in column '{table.columns['label']}'", "pictures")
        place = f"{name}#{row.number - 1}"
        try:
            stored = _bytes(row.value("path"))
            pixels.examine(place, stored)
        except PictureError as error:
            raise row.bad(error.rule, f"{row.where} {error}", "pictures") from None
        return Picture(picture_digest(stored), label, place, row.origin)

    return table.made(picture)


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


_EXPECTED = "expected a folder with a folder for each class, a table (.csv) or an idx file"


def picture_reader(data: Any, pixels: Pixels, advice: Advice = no_advice) -> Reader[Picture]:
    """The reader of labelled pictures; `data` is a section of pictures, `pixels` records their places."""
    reading = _Reading(pixels, advice, data, class_names(data))

    def of_hub(hub: HubSet, split: str, findings: Findings) -> Iterator[Picture]:
        return hub_pictures(hub, split, data.columns, pixels, findings)

    return Reader(Picture, reading.files, of_hub=of_hub, again=False)


def class_names(data: Any) -> list[str] | None:
    """The classes that `data.classes` lists, in its order; None if it is not given.

    Raises:
        DataError: A name is repeated, or the file of names cannot be read.
    """
    classes = getattr(data, "classes", None)
    if isinstance(classes, str):
        try:
            lines = Path(classes).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"data.classes: cannot read '{classes}': {reason}; expected one class a line") from None
        classes = [line.strip() for line in lines if line.strip()]
    if classes is not None:
        for name in classes:
            if list(classes).count(name) > 1:
                raise DataError(f"data.classes names '{name}' twice")
    return None if classes is None else list(classes)


class _Reading:
    """Reading of one run's files: places of pixels, `data` section and known classes."""

    def __init__(self, pixels: Pixels, advice: Advice, data: Any, classes: list[str] | None) -> None:
        self.pixels, self.advice, self.data, self.classes = pixels, advice, data, classes

    def files(self, files: Sequence[str], findings: Findings) -> Iterator[Picture]:
        """The pictures of some files, in turn; an idx file of labels belongs to the file before it."""
        rest = list(files)
        while rest:
            path = rest.pop(0)
            if not os.path.exists(path):
                raise DataError(f"no file '{path}'")
            if os.path.isdir(path):
                yield from self._folders(path, findings)
                continue
            refuse_archive(path)
            if is_table(Path(path)):
                entries = table_entries(Path(path), self.data, findings, self.advice)
                yield from self._examined(entries, path, findings)
            elif is_idx(Path(path)):
                labels = rest.pop(0) if rest and _holds_labels(rest[0]) else None
                yield from self._idx(path, labels, findings)
            else:
                raise DataError(self._refusal(Path(path), findings))

    def _refusal(self, path: Path, findings: Findings) -> str:
        if is_picture(path.name):
            return f"'{path}' is one picture; {_EXPECTED}"
        head = Head.of(path, findings)
        content = content_of(head) if head.filled else None
        looks = "" if content is None else f": {content.why}"
        return f"'{path}' contains no pictures{looks}; {_EXPECTED}" + (
            "" if content is None else self.advice(content.kind, path)
        )

    def _folders(self, path: str, findings: Findings) -> Iterator[Picture]:
        held, listing = bundles(path), Listing.of(path)
        if held and not any(is_picture(parts[-1]) for parts in listing.files):
            if len(held) > 1:
                raise DataError(f"'{path}' contains several sets; give only one: {', '.join(sorted(held.values()))}")
            yield from self.files(list(held.values()), findings)
            return
        if splits := listing.splits():
            raise DataError(f"'{path}' contains several sets; give only one: {', '.join(sorted(splits.values()))}")
        entries = entries_of(listing, findings)
        if not any(is_picture(entry.place) for entry in entries):
            self._refuse_texts(entries, path)
        yield from self._examined(entries, path, findings)

    def _refuse_texts(self, entries: Sequence[PictureFile], path: str) -> None:
        """Refuse a folder whose files have no names of pictures and cannot be decoded."""
        errors = []
        for entry in entries[:8]:
            try:
                self.pixels.decode(entry.place)
                return
            except PictureError as error:
                errors.append(f"'{entry.place}' {error}")
        raise DataError(f"'{path}' contains no pictures: {errors[0]}; {_EXPECTED}{self.advice('labelled', Path(path))}")

    def _examined(self, entries: Iterable[PictureFile], path: str, findings: Findings) -> Iterator[Picture]:
        """The pictures that can be decoded; other files are bad lines."""

        def one(entry: PictureFile) -> tuple[PictureFile, str, PictureFacts | PictureError]:
            try:
                data = self.pixels.get(entry.place)
                facts = self.pixels.examine(entry.place, data)
            except PictureError as error:
                return entry, "", error
            return entry, picture_digest(data), facts

        def picture(examined: tuple[PictureFile, str, PictureFacts | PictureError]) -> Picture:
            entry, digest, facts = examined
            bad = partial(findings.bad, where=path, place=entry.name, things="pictures")
            if isinstance(facts, PictureError):
                raise bad(facts.rule, message=f"'{entry.place}' {facts}")
            if self.classes is not None and entry.label not in self.classes:
                what = f"is of class '{entry.label}', which is not in data.classes{suggest(entry.label, self.classes)}"
                raise bad("unknown class", message=f"'{entry.place}' {what}")
            for note in facts.notes:
                findings.note(note, path, entry.name, unit="picture")
            return Picture(digest, entry.label, entry.place, entry.name)

        return findings.usable(self.pixels.each(one, entries), picture)

    def _idx(self, path: str, beside: str | None, findings: Findings) -> Iterator[Picture]:
        """The pictures of an idx file; labels are numbers, or their names in `data.classes`."""
        images = read_idx(Path(path))
        if images.ndim == 1:
            raise DataError(f"'{path}' contains labels, not pictures; give the pictures first, then the labels")
        if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
            shape = " x ".join(map(str, images.shape))
            raise DataError(f"'{path}' contains {shape} bytes, expected pictures: number x height x width [x 3]")
        found = [Path(beside)] if beside else [one for one in labels_beside(Path(path)) if one.exists()]
        if not found:
            wanted = " or ".join(f"'{one.name}'" for one in labels_beside(Path(path))[:2])
            raise DataError(f"'{path}' has no file of labels next to it ({wanted}); give that file after it")
        labels = read_idx(found[0])
        if labels.ndim != 1 or len(labels) != len(images):
            raise DataError(
                f"'{found[0]}' has {len(labels):,} labels, and '{path}' {len(images):,} pictures; each needs one"
            )
        self.pixels.add(path, Arrays(images))
        names = self._names(labels, found[0])
        origin, head = Path(path).name, repr(images.shape[1:]).encode()
        flat = np.ascontiguousarray(images.reshape(len(images), -1))
        facts = PictureFacts(images.shape[1], images.shape[2], 1 if images.ndim == 3 else images.shape[3])
        self.pixels.note_all(path, facts)
        for i, (row, label) in enumerate(zip(flat, labels.tolist(), strict=True)):
            digest = hashlib.blake2b(head, digest_size=16)
            digest.update(row)
            yield Picture(digest.hexdigest(), names[label], f"{path}#{i}", f"{origin}#{i}")

    def _names(self, labels: NDArray[np.uint8], file: Path) -> list[str]:
        """The name of each class number."""
        most = int(labels.max(initial=0))
        if self.classes is None:
            return [str(number) for number in range(most + 1)]
        if most >= len(self.classes):
            where = int(np.argmax(labels >= len(self.classes)))
            raise DataError(
                f"'{file}' has the label {most} (the first one too large is at position {where}), but data.classes "
                f"names {len(self.classes)} classes, 0 to {len(self.classes) - 1}"
            )
        return self.classes


def _holds_labels(path: str) -> bool:
    return os.path.isfile(path) and is_idx(Path(path)) and read_idx(Path(path)).ndim == 1
