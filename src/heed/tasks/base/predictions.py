"""Predictions of several texts: a list that prints short and becomes a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from heed.errors import ConfigError

P = TypeVar("P")
_SHOWN = 10
"""Predictions of a list that its `repr` shows."""


class Predictions(list[P]):
    """What a run says of each of several inputs, in their order."""

    def __init__(self, predictions: Iterable[P], numbered: str = "") -> None:
        """`numbered`: the column of a data frame that counts the inputs, where each has several rows."""
        super().__init__(predictions)
        self._numbered = numbered

    def to_frame(self) -> Any:
        """As a data frame of pandas: a row for each input, of tags a row for each word.

        Raises:
            ConfigError: The library pandas is missing.
        """
        rows: list[dict[str, Any]] = []
        for number, one in enumerate(self):
            before = {self._numbered: number} if self._numbered else {}
            rows += [{**before, **row} for row in one.rows()]  # type: ignore[attr-defined]  # every prediction has them
        return data_frame(rows)

    def __repr__(self) -> str:
        lines = [repr(one) for one in self[:_SHOWN]]
        more = [f"... and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "[" + ",\n ".join([*lines, *more]) + "]"


class Scores(dict[str, Any]):
    """The report of some examples: plain values, which print as lines for people."""

    def __init__(self, values: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]]) -> None:
        """`lines` are what a person reads of the values."""
        super().__init__(values)
        self._lines = lines

    def __repr__(self) -> str:
        count = self["examples"]
        return "\n".join([f"<scores of {count:,} example{'' if count == 1 else 's'}", *self._lines(self)]) + ">"


def data_frame(rows: Any, **options: Any) -> Any:
    """A data frame of pandas.

    Raises:
        ConfigError: The library is missing.
    """
    try:
        import pandas
    except ImportError:
        hint = "install it: pip install 'heed-attention[pandas]'"
        raise ConfigError(f"to_frame needs the library pandas; {hint}") from None
    return pandas.DataFrame(rows, **options)


def short(text: str, most: int = 60) -> str:
    """A text in quotes, cut at the end where it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
