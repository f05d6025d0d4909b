"""Opens what a configuration's `data` section names, as splits of pairs: own files, a data set, embedded data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heed.config import DatesData, DigitsData, FilesData, GrammarData
from heed.data.embedded.dates import LANGUAGES, DateSource
from heed.data.embedded.digits import DigitSource
from heed.data.examples import Pair
from heed.data.read.pairs import pair_reader
from heed.data.store.extra import open_extra
from heed.data.store.splits import Splits, open_splits


def open_pairs(
    data: DatesData | DigitsData | GrammarData | FilesData, given: Mapping[str, Sequence[Pair]] | None = None
) -> Splits[Pair]:
    """Read or generate the examples; `given` ones take the place of files.

    Raises:
        DataError: A value of the section that the data cannot satisfy; the message names it.
    """
    if isinstance(data, FilesData):
        reader = pair_reader(data.train, data.columns, "data.columns", "data.train")
        extra = [(one, pair_reader(one.files, one.columns, "data.extra columns", "files")) for one in data.extra]
        read = open_splits(data, reader, given)
        read.extra, remarks = open_extra(extra, data, read.examples)
        read.remarks += remarks
        return read
    sizes = {"train": data.train, "valid": data.valid, "test": data.test}
    if isinstance(data, DigitsData):
        digits = DigitSource(kind=data.name, length=data.length, seed=data.seed)
        drawn = {split: digits.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
        return Splits(dict(drawn), made=f"{data.name} digits: {_listing(sizes)}")
    if isinstance(data, GrammarData):
        from heed.data.embedded.grammar.source import GrammarSource  # its words take a while to load

        grammar = GrammarSource(data.language, data.seed)
        drawn = {split: grammar.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
        return Splits(dict(drawn), made=f"grammar, English to {data.language}: {_listing(sizes)}")
    dates = DateSource(
        languages=LANGUAGES if data.languages is None else data.languages,
        unseen=data.unseen,
        styles=data.styles,
        joined=data.joined,
        years=data.years,
        seed=data.seed,
    )
    if dates.unseen:
        sizes["unseen"] = data.test
    drawn = {split: dates.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
    return Splits(dict(drawn), made=f"dates: {_listing(sizes)}\n{dates.counts}")


def _listing(sizes: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sizes.items())
