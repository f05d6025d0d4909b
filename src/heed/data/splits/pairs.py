"""The splits of pairs of a `data` section: own files, a data set of the Hub, or embedded data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heed.config import Columns, DatesData, DigitsData, FilesData, GrammarData, HubSection
from heed.data.embedded.generated import PairSource
from heed.data.embedded.pairs import LANGUAGES, DateSource, DigitSource
from heed.data.examples import Pair
from heed.data.kinds.contents import Advice, no_advice
from heed.data.kinds.pairs import SIDES, Names, pair_reader, shuffled_reader
from heed.data.readers import Reader
from heed.data.splits.splits import Splits, open_extra, open_splits
from heed.errors import DataError


def open_pairs(
    data: DatesData | DigitsData | GrammarData | FilesData,
    given: Mapping[str, Sequence[Pair]] | None = None,
    advice: Advice = no_advice,
    names: Names = SIDES,
) -> Splits[Pair]:
    """Read or generate the examples; `given` ones replace files, `advice` names commands for other kinds of files.

    `names` are usual names of the columns of both sides.

    Raises:
        DataError: The data cannot satisfy a value of the section; the message names it.
    """
    if isinstance(data, FilesData):
        if data.shuffle_source is not None and isinstance(data, HubSection):  # both sides are made from one column
            column = "text" if data.columns.target is None else data.columns.target
            data = data.model_copy(update={"columns": Columns(source=column, target=column)})
        reader = _reader(data, data.train, data.columns, "data.columns", "data.train", advice, names)
        called = "data.extra columns", "files"
        extra = [(one, _reader(data, one.files, one.columns, *called, advice, names)) for one in data.extra]
        read = open_splits(data, reader, given)
        read.extra, remarks = open_extra(extra, data, read.examples)
        read.remarks += remarks
        return read
    sizes = {"train": data.train, "valid": data.valid, "test": data.test}
    counts = ""
    source: PairSource
    if isinstance(data, DigitsData):
        source, what = DigitSource(kind=data.name, length=data.length, seed=data.seed), f"{data.name} digits"
    elif isinstance(data, GrammarData):
        from heed.data.embedded.grammar.source import GrammarSource  # its words take a while to load

        source = GrammarSource(data.language, data.seed, data.direction)
        sides = ("English", data.language) if data.direction == "from_english" else (data.language, "English")
        what = f"grammar, {sides[0]} to {sides[1]}"
    else:
        languages = LANGUAGES if data.languages is None else data.languages
        source = DateSource(languages, data.unseen, data.styles, data.joined, data.years, data.seed)
        what, counts = "dates", f"\n{source}"
        if source.unseen:
            sizes["unseen"] = data.test
    listing = ", ".join(f"{count} {name}" for name, count in sizes.items())
    drawn = {split: source.sample(split, count) for split, count in sizes.items()}
    return Splits({**drawn}, made=f"{what}: {listing}{counts}")


def _reader(
    data: FilesData,
    files: Sequence[str],
    columns: Columns,
    field: str,
    files_field: str,
    advice: Advice,
    names: Names,
) -> Reader[Any]:
    """The reader of pairs, or of sentences with shuffled words; `field` and `files_field` are named in messages."""
    if data.shuffle_source is not None:
        return shuffled_reader(columns, data.shuffle_seed)
    if len(files) == 2 and (columns.source is not None or columns.target is not None):
        raise DataError(
            f"{field} selects columns of one file, but {files_field} names two parallel files: {', '.join(files)}"
        )
    return pair_reader(columns, advice, names)
