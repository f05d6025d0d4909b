"""Lists of predictions and reports that print for readers and convert to data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from heed.errors import ConfigError

P = TypeVar("P")
_SHOWN = 10
"""Number of predictions in the `repr` of a list."""


class Predictions(list[P]):
    """A run's predictions for several inputs, in their order."""

    def __init__(self, predictions: Iterable[P], numbered: str = "") -> None:
        """`numbered`: the data-frame column with the number of the input, for inputs with several rows."""
        super().__init__(predictions)
        self._numbered = numbered

    def to_frame(self) -> Any:
        """Convert to a pandas data frame: a row for each input; with tags, a row for each word.

        Raises:
            ConfigError: The library pandas is not installed.
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
    """The report of some examples: plain values, with a `repr` for readers."""

    def __init__(self, values: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]]) -> None:
        """`lines` returns the lines that the `repr` shows of the values."""
        super().__init__(values)
        self._lines = lines

    def __repr__(self) -> str:
        count = self["examples"]
        return "\n".join([f"<scores of {count:,} example{'' if count == 1 else 's'}", *self._lines(self)]) + ">"


def data_frame(rows: Any, **options: Any) -> Any:
    """A pandas data frame.

    Raises:
        ConfigError: The library pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        hint = "install it: pip install 'heed-attention[pandas]'"
        raise ConfigError(f"to_frame needs the package pandas; {hint}") from None
    return pandas.DataFrame(rows, **options)


def short(text: str, most: int = 60) -> str:
    """A text in quotes, cut at the end if it is long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else line[: most - 3] + "...")
