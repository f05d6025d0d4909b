"""Opens what a configuration's `data` section names, as splits of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heed.config import DatesData, DigitsData, FilesData, GrammarData
from heed.data.dates import LANGUAGES, DateSource
from heed.data.digits import DigitSource
from heed.data.examples import Pair
from heed.data.files import Counts, open_files
from heed.data.grammar.source import GrammarSource

__all__ = ["Splits", "open_pairs"]


@dataclass(frozen=True)
class Splits:
    """Examples by purpose.

    Attributes:
        pairs: "train", "valid", "test" and, where the data has one, "unseen".
        notes: What was kept and left out, for people.
        counts: The same as numbers, per split, for files.
        remarks: What a user should know (overlaps, how the validation set was made).
    """

    pairs: dict[str, Sequence[Pair]]
    notes: str
    counts: dict[str, Counts] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def open_pairs(data: DatesData | DigitsData | GrammarData | FilesData) -> Splits:
    """Read or generate the examples.

    Raises:
        DataError: A value of the section that the data cannot satisfy; the message names it.
    """
    if isinstance(data, FilesData):
        pairs, counts, remarks = open_files(data)
        lines = [f"{name}: {count}" for name, count in counts.items()]
        return Splits(pairs, "\n".join([*lines, *remarks]), counts, tuple(remarks))
    sizes = {"train": data.train, "valid": data.valid, "test": data.test}
    if isinstance(data, DigitsData):
        digits = DigitSource(kind=data.name, length=data.length, seed=data.seed)
        drawn = {split: digits.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
        return Splits(dict(drawn), f"{data.name} digits: {_listing(sizes)}")
    if isinstance(data, GrammarData):
        grammar = GrammarSource(data.language, data.seed)
        drawn = {split: grammar.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
        return Splits(dict(drawn), f"grammar, English to {data.language}: {_listing(sizes)}")
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
    return Splits(dict(drawn), f"dates: {_listing(sizes)}\n{dates.counts}")


def _listing(sizes: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sizes.items())
