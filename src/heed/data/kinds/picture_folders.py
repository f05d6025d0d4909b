"""Folders of pictures, on disk or in an archive: their files and the class of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heed.data.findings import Findings
from heed.data.pictures.files import SPLITS, archive_in, is_archive, is_hidden, is_idx, is_picture, split_in
from heed.data.pictures.source import Pixels
from heed.errors import DataError

Parts = tuple[str, ...]
"""A path inside a folder or an archive, part by part."""


@dataclass
class Listing:
    """The files in a folder, or in a folder of an archive, by name, without hidden ones.

    Attributes:
        path: The path that was given.
        prefix: Beginning of every place in it, with a separator at the end.
        files: Paths of the files inside it, sorted.
        empty: Folders without entries.
        problem: Why an archive ends too soon, or "".
    """

    path: str
    prefix: str
    files: list[Parts]
    empty: list[Parts] = field(default_factory=list)
    problem: str = ""

    @classmethod
    def of(cls, path: str, pixels: Pixels) -> Listing:
        """List a folder, an archive, or a folder in an archive such as "photos.zip!train".

        Raises:
            DataError: The path is missing or cannot be read.
        """
        if not os.path.isdir(path):
            archive, inside = archive_in(path) or (path, "")
            return cls._of_archive(path, archive, inside.strip("/"), pixels)
        files: list[Parts] = []
        empty: list[Parts] = []
        for parts, is_empty in _walk(Path(path), (), set()):
            (empty if is_empty else files).append(parts)
        return cls(path, f"{path.rstrip('/')}/", sorted(files), sorted(empty))

    @classmethod
    def _of_archive(cls, path: str, archive: str, inside: str, pixels: Pixels) -> Listing:
        opened = pixels.archive(archive)
        start = f"{inside}/" if inside else ""
        names = [name[len(start) :] for name in opened.names if name.startswith(start)]
        if inside and not names:
            tops = sorted({name.split("/")[0] for name in opened.names if "/" in name})
            raise DataError(f"'{archive}' has no folder '{inside}'; its folders: {', '.join(tops[:8]) or 'none'}")
        files = sorted(parts for name in names if not is_hidden(parts := tuple(name.split("/"))))
        return cls(path, f"{archive}!{start}", files, problem=opened.problem)

    @property
    def pictures(self) -> list[Parts]:
        """The files with names of pictures; all files if there are none."""
        return [parts for parts in self.files if is_picture(parts[-1])] or self.files

    @property
    def root(self) -> Parts:
        """The folder of the class folders: the outermost with several entries, or whose folders contain pictures."""
        root: Parts = ()
        inside = self.pictures
        while inside and all(len(parts) > len(root) + 2 for parts in inside):
            if len({parts[len(root)] for parts in inside}) > 1:
                break
            root = inside[0][: len(root) + 1]
        return root

    def place(self, parts: Parts) -> str:
        """The place of a file."""
        return self.prefix + "/".join(parts)

    def splits(self) -> dict[str, str]:
        """Split -> its folder, if there are folders such as train and test with class folders in them.

        Empty without a training folder or without another one.
        """
        root = self.root
        depth = len(root) + 1
        below = [parts for parts in self.pictures if parts[: len(root)] == root and len(parts) > depth]
        tops = sorted({parts[len(root)] for parts in below if len(parts) > depth + 1})
        found = {SPLITS[top.lower()]: top for top in tops if top.lower() in SPLITS}
        others = {parts[len(root)] for parts in below} - {top for top in tops if top.lower() in SPLITS}
        if "train" not in found or len(found) < 2 or any(top.lower() not in SPLITS for top in others):
            return {}
        return {split: self.prefix + "/".join((*root, top)) for split, top in found.items()}


def _walk(folder: Path, inside: Parts, above: set[tuple[int, int]]) -> Iterator[tuple[Parts, bool]]:
    """The files below a folder, following links, with False; and empty folders, with True."""
    try:
        stat = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot read folder '{folder}': {error.strerror or error}") from None
    identity = (stat.st_dev, stat.st_ino)
    if identity in above:  # a link to an enclosing folder
        return
    shown = [entry for entry in entries if not is_hidden((entry.name,))]
    if not shown and inside:
        yield inside, True
    for entry in shown:
        parts = (*inside, entry.name)
        if entry.is_dir():
            yield from _walk(Path(entry.path), parts, above | {identity})
        else:
            yield parts, False


def bundles(path: str) -> dict[str, str]:
    """Split -> its idx file of pictures or archive, in a folder of such files; else empty."""
    if not os.path.isdir(path):
        return {}
    files = sorted(entry.path for entry in os.scandir(path) if entry.is_file() and not is_hidden((entry.name,)))
    found: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file)
        if is_archive(file) or ("label" not in name and "idx1" not in name and is_idx(Path(file))):
            split = split_in(name) or ""
            if split in found:  # several files for the same split
                return {}
            found[split] = file
    return found


@dataclass(frozen=True)
class Entry:
    """A file to read as a picture: its class, its place, and its name in messages, inside the given path."""

    label: str
    place: str
    name: str


def entries_of(listing: Listing, findings: Findings) -> list[Entry]:
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
    entries = [Entry(parts[len(root)], listing.place(parts), "/".join(parts[len(root) :])) for parts in within]
    deeper = next((parts for parts in within if len(parts) > len(root) + 2), None)
    if deeper is not None:
        folder, label = "/".join(deeper[len(root) : -1]), deeper[len(root)]
        findings.remark(f"pictures in subfolders belong to the class of the outer folder: {folder} is class '{label}'")
    note_spellings([entry.label for entry in entries], listing.path, findings)
    known = {entry.label for entry in entries}
    for parts in listing.empty:
        if len(parts) == len(root) + 1 and parts[: len(root)] == root and parts[-1] not in known:
            findings.note("class folder without a picture", listing.path, parts[-1], unit="folder", warning=True)
    return entries


def note_spellings(labels: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of classes whose names differ only in case, spaces or underscores."""
    alike: dict[str, dict[str, int]] = {}
    for label in labels:
        same = alike.setdefault(" ".join(label.casefold().replace("_", " ").split()), {})
        same[label] = same.get(label, 0) + 1
    for names in alike.values():
        if len(names) > 1:
            shown = " and ".join(f"'{name}' ({count:,})" for name, count in sorted(names.items()))
            what = f"class names that differ only in spelling are read as different classes: {shown}"
            for name in sorted(names):
                findings.note(what, where, name, unit="class name", warning=True)


def _no_classes(listing: Listing) -> str:
    pictures = [parts for parts in listing.files if is_picture(parts[-1])]
    tables = [parts[-1] for parts in listing.files if len(parts) == 1 and Path(parts[-1]).suffix in (".csv", ".tsv")]
    if not listing.files:
        return f"'{listing.path}' is empty; expected a folder for each class, with its pictures"
    if tables and not listing.prefix.endswith("!"):
        table = f"{listing.prefix}{tables[0]}"
        return f"'{listing.path}' has no class folders but contains a table; to read it, give {table}"
    count, unit = (len(pictures), "picture") if pictures else (len(listing.files), "file")
    held = f"{count:,} {unit}{'s' if count != 1 else ''}"
    return (
        f"'{listing.path}' contains {held} and no folders; expected a folder for each class, or a table (.csv) of "
        "paths and labels"
    )
