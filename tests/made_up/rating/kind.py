"""A rating beside a text, in CSV, TSV, JSON lines or Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heed.data.columns import Column, Facts, is_float
from heed.data.examples import VALUE, Example, Role
from heed.data.readers import Reader, table_reader
from heed.data.tables import Field, Row, Table


@dataclass(frozen=True, slots=True)
class Rated(Example):
    """A text and its rating."""

    unit, groups = "text", "text"  # its name in messages; equal texts stay in one split
    roles: ClassVar = {"text": Role("text"), "rating": VALUE}
    text: str
    rating: float
    origin: str = field(default="", compare=False)


def rating_reader(data: Any) -> Reader[Rated]:
    """The reader for a `data` section: its columns are given, have usual names, or are the only two."""
    fields = Field("text", data.columns.text), Field("rating", data.columns.rating, ("rating", "stars", "score"))

    def recognise(facts: Sequence[Facts], known: Mapping[str, Column]) -> dict[str, int | str] | str:
        able = {"text" if one.is_text else "rating": one.name for one in facts}
        return able if len(facts) == len(able) == 2 else "which column is which is unclear"

    def choose(table: Table, again: bool) -> str:
        return table.choose(fields, recognise, again=again, least=1)

    def rated(row: Row) -> Rated:
        if not is_float(str(rating := 0 if row.blank else row.value("rating"))):
            raise row.bad("no rating", f"{row.table.at(row, 'rating')} is {rating!r}, expected a number")
        return Rated(row.text("text"), float(rating), row.origin)

    return table_reader(Rated, choose, rated, Table.open)
