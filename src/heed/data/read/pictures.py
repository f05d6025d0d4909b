"""Readers of labelled pictures; errors name the file.

| given | read as |
|---|---|
| a folder | a folder for each class in it, with pictures at any depth; hidden files are left out |
| .zip, .tar, .tar.gz, ... | the same, in an archive; `photos.zip!train` is a folder in it |
| .csv, .tsv | a path and a label in each row (`heed.data.read.picture_tables`) |
| idx, gzipped or not | pictures; their labels are in the next file, or the one with "labels" for "images" in its name |

Every picture is decoded once while it is read, so that a damaged one is found before training begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.examples import Picture
from heed.data.pictures.decode import PictureError, PictureFacts
from heed.data.pictures.idx import is_idx, labels_beside, read_idx
from heed.data.pictures.names import archive_in, is_archive, is_picture
from heed.data.pictures.source import Arrays, Pixels, digest_of
from heed.data.read.contents import Advice, content_of, no_advice
from heed.data.read.findings import BadLine, Findings
from heed.data.read.head import Head, is_table
from heed.data.read.picture_folders import Entry, Listing, bundles, entries_of, note_spellings
from heed.data.read.picture_hub import hub_pictures
from heed.data.read.picture_tables import table_entries
from heed.data.read.reader import Reader
from heed.errors import DataError, suggest

_EXPECTED = "expected a folder with a folder for each class, an archive of such folders, a table (.csv) or an idx file"


def picture_reader(data: Any, pixels: Pixels, advice: Advice = no_advice) -> Reader[Picture]:
    """The reader of labelled pictures; `data` is a section of pictures, `pixels` records their places."""
    reading = _Reading(pixels, advice, data.columns, class_names(data))

    def of_split(hub: Any, split: str, findings: Findings) -> Iterator[Picture]:
        return hub_pictures(hub, split, data.columns, pixels, findings)

    return Reader(Picture, reading.files, of_split=of_split, again=False)


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
    """Reading of one run's files: places of pixels, column settings and known classes."""

    def __init__(self, pixels: Pixels, advice: Advice, columns: Any, classes: list[str] | None) -> None:
        self.pixels, self.advice, self.columns, self.classes = pixels, advice, columns, classes

    def files(self, files: Sequence[str], findings: Findings) -> Iterator[Picture]:
        """The pictures of some files, in turn; an idx file of labels belongs to the file before it."""
        rest = list(files)
        while rest:
            path = rest.pop(0)
            if not Path(path).exists() and archive_in(path) is None:
                raise DataError(f"no file '{path}'")
            if Path(path).is_dir() or is_archive(path) or archive_in(path) is not None:
                yield from self._folders(path, findings)
            elif is_table(Path(path)):
                entries = table_entries(Path(path), self.columns, findings, self.advice)
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
        held = {} if is_archive(path) else bundles(path)
        listing = Listing.of(path, self.pixels)
        if held and not any(is_picture(parts[-1]) for parts in listing.files):
            if len(held) > 1:
                raise DataError(f"'{path}' contains several sets; give only one: {', '.join(sorted(held.values()))}")
            yield from self.files(list(held.values()), findings)
            return
        if splits := listing.splits():
            raise DataError(f"'{path}' contains several sets; give only one: {', '.join(sorted(splits.values()))}")
        if listing.problem:
            count = len(listing.files)
            message = f"'{path}' is cut off or damaged after {count:,} files: {listing.problem}"
            findings.cut_off(Path(path), count, message)
        entries = entries_of(listing, findings)
        if not any(is_picture(entry.place) for entry in entries):
            self._refuse_texts(entries, path)
        yield from self._examined(entries, path, findings)

    def _refuse_texts(self, entries: Sequence[Entry], path: str) -> None:
        """Refuse a folder whose files have no names of pictures and cannot be decoded."""
        errors = []
        for entry in entries[:8]:
            try:
                self.pixels.decode(entry.place)
                return
            except PictureError as error:
                errors.append(f"'{entry.place}' {error}")
        raise DataError(f"'{path}' contains no pictures: {errors[0]}; {_EXPECTED}{self.advice('labelled', Path(path))}")

    def _examined(self, entries: Iterable[Entry], path: str, findings: Findings) -> Iterator[Picture]:
        """The pictures that can be decoded; other files are bad lines."""

        def one(entry: Entry) -> tuple[Entry, str, PictureFacts | PictureError]:
            try:
                data = self.pixels.get(entry.place)
                facts = self.pixels.examine(entry.place, data)
            except PictureError as error:
                return entry, "", error
            return entry, digest_of(data), facts

        for entry, digest, facts in self.pixels.each(one, entries):
            if isinstance(facts, PictureError):
                message = f"'{entry.place}' {facts}"
                bad: BadLine | None = findings.bad(facts.rule, path, entry.name, message, things="pictures")
            else:
                bad = self._unknown(entry.label, f"'{entry.place}'", path, entry.name, findings)
                for note in facts.notes:
                    findings.note(note, path, entry.name, unit="picture")
            if bad is not None:
                findings.leave_out(bad.rule)
            else:
                yield Picture(digest, entry.label, entry.place, entry.name)

    def _unknown(self, label: str, what: str, path: str, place: str, findings: Findings) -> BadLine | None:
        """A bad line if `data.classes` does not list the class."""
        if self.classes is None or label in self.classes:
            return None
        message = f"{what} is of class '{label}', which is not in data.classes{suggest(label, self.classes)}"
        return findings.bad("unknown class", path, place, message, things="pictures")

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
        note_spellings(names, path, findings)
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
    return Path(path).is_file() and is_idx(Path(path)) and read_idx(Path(path)).ndim == 1
