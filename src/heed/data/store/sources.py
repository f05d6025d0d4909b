"""Opens what a configuration's `data` section names, as splits of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heed.config import DatesData, DigitsData, FilesData, GrammarData
from heed.data.embedded.dates import LANGUAGES, DateSource
from heed.data.embedded.digits import DigitSource
from heed.data.examples import Pair
from heed.data.read.counts import Counts
from heed.data.read.findings import Found, found_lines
from heed.data.store.extra import ExtraCorpus, open_extra
from heed.data.store.files import open_files
from heed.data.store.stream import PairStream, open_stream

__all__ = ["Splits", "open_pairs"]


@dataclass(frozen=True)
class Splits:
    """Examples by purpose.

    Attributes:
        pairs: "train", "valid", "test" and, where the data has one, "unseen".
        made: How examples were generated, for people.
        counts: What was kept and left out per split, for files.
        remarks: What a user should know (overlaps, how the validation set was made).
        extra: Further training corpora by name.
        stream: What "train" is the newest window of, where it is a stream.
    """

    pairs: dict[str, Sequence[Pair]]
    made: str = ""
    counts: dict[str, Counts] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    extra: dict[str, ExtraCorpus] = field(default_factory=dict)
    stream: PairStream | None = None

    @property
    def summary(self) -> str:
        """What was kept and left out, for people."""
        lines = [f"{name}: {count}" for name, count in (self.counts | self.extra).items()]
        return "\n".join([*([self.made] if self.made else []), *lines, *self.remarks])

    @property
    def found(self) -> dict[str, list[Found]]:
        """What was found amiss or worth saying, by split and corpus."""
        every = self.counts | {name: corpus.counts for name, corpus in self.extra.items()}
        return {name: counts.found for name, counts in every.items()}

    @property
    def notes(self) -> str:
        """What was kept, left out and found, for people, one line each."""
        found = [line for split, each in self.found.items() for line in found_lines(split, each)]
        return "\n".join([self.summary, *found])


def open_pairs(data: DatesData | DigitsData | GrammarData | FilesData) -> Splits:
    """Read or generate the examples.

    Raises:
        DataError: A value of the section that the data cannot satisfy; the message names it.
    """
    if isinstance(data, FilesData) and data.stream:
        stream, pairs, counts, remarks = open_stream(data)
        return Splits(pairs, counts=counts, remarks=tuple(remarks), stream=stream)
    if isinstance(data, FilesData):
        pairs, counts, remarks = open_files(data)
        extra, further = open_extra(data, pairs)
        return Splits(pairs, counts=counts, remarks=(*remarks, *further), extra=extra)
    sizes = {"train": data.train, "valid": data.valid, "test": data.test}
    if isinstance(data, DigitsData):
        digits = DigitSource(kind=data.name, length=data.length, seed=data.seed)
        drawn = {split: digits.sample(split, count) for split, count in sizes.items()}  # type: ignore[arg-type]
        return Splits(dict(drawn), f"{data.name} digits: {_listing(sizes)}")
    if isinstance(data, GrammarData):
        from heed.data.embedded.grammar.source import GrammarSource  # its words take a while to load

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
