"""Kinds of examples as values, and kinds that are declared by the names of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any

from pydantic import Field as Option
from pydantic import create_model

from heed.config.data import Source, TextSource, section
from heed.data.columns import Column, Facts, is_float
from heed.data.examples import VALUE, Example, Role
from heed.data.readers import Reader, table_reader
from heed.data.splits import Splits
from heed.data.tables import Field, Row, Table


@dataclass(frozen=True)
class Kind:
    """A kind of example: its readers, the fields of its examples, and its configuration."""

    reader: Callable[[Any, Sequence[str] | None], Reader[Any]]
    """From a `data` section, and the labels that are known, to the reader of files, the Hub and Python."""
    fields: Callable[[Any], Sequence[str]]
    """The fields of an example that Python data has, in their order."""
    sides: Callable[[Any], Sequence[str]] = lambda data: ("text",)
    """The fields that the model reads, by the `data` section."""
    ask: Callable[[Sequence[str]], Any] | None = None
    """Makes an example without a truth of the texts that the model reads."""
    draw: Callable[[Any], Callable[[Any, int], Sequence[Any]]] | None = None
    """Generates as many examples of a split of embedded data."""
    open: Callable[[Any, Mapping[str, Sequence[Any]] | None], Splits[Any]] | None = None
    """Reads every split of a `data` section, or takes the given examples, if that is more than `open_splits`."""
    units: str = "texts"
    """Plural name of generated examples."""
    arranged: Callable[[Any], Any] = lambda data: data
    """Python data in one of the forms of `heed.data.readers`."""
    check: Callable[[Sequence[Any], str], None] = lambda examples, split: None
    """Refuses examples of a split whose columns are probably exchanged."""
    section: type[Source] = Source
    """The class of the `data` section, for a task without a configuration of its own."""
    example: type[Example] | None = None
    """The class of the examples, if it was declared by the names of its fields."""


def kind_of(unit: str, texts: Sequence[str], truth: Mapping[str, type], groups: str = "") -> Kind:
    """A kind of example in tables: CSV, TSV, JSON lines, Parquet, data sets of the Hub, Python.

    Args:
        unit: Name of an example in messages.
        texts: Names of its texts, one or two, in the order in which a model reads them; their usual columns have these
            names.
        truth: Names of the correct values and their types, `str` or `float`.
        groups: The text that groups examples: those with an equal one stay in one split. The first by default.
    """
    names = (*texts, *truth)
    roles = {name: Role(name) for name in texts} | {n: VALUE if t is float else Role() for n, t in truth.items()}
    declared: Any = [*((name, str) for name in texts), *((n, t, field(default=t())) for n, t in truth.items())]
    source = property(lambda self: "\t".join(self.texts))
    example_class = make_dataclass(
        unit.title(),
        [*declared, ("origin", str, field(default="", compare=False))],
        bases=(Example,),
        namespace={"unit": unit, "roles": roles, "groups": groups or texts[0], "source": source},
        frozen=True,
    )
    listed = "".join(
        f"\n\n- {name}: Column of the {name}: a number from 0 or a name; {name} by default." for name in names
    )
    columns = Option(section(*names), description=f"Columns of {', '.join(names)} in a file.{listed}")
    data = create_model(f"{unit.title()}Data", __base__=TextSource, __module__=__name__, columns=(Any, columns))

    def reader(options: Any, labels: Sequence[str] | None) -> Reader[Any]:
        fields = [Field(name, getattr(options.columns, name)) for name in names]

        def recognise(facts: Sequence[Facts], columns: Mapping[str, Column]) -> dict[str, int | str] | str:
            text_columns = [column.name for column in facts if column.is_text]
            other_columns = [column.name for column in facts if not column.is_text]
            if len(text_columns) == len(texts) == 1 and len(other_columns) == len(truth) == 1:
                return {texts[0]: text_columns[0], next(iter(truth)): other_columns[0]}
            return "which column is which is unclear"

        def choose(table: Table, again: bool) -> str:
            return table.choose(fields, recognise, trained=again, minimum_rows=1)

        def example(row: Row) -> Any:
            values: dict[str, Any] = {name: row.text(name) for name in texts}
            for name, of in truth.items():
                value = "0" if row.blank else str(row.value(name))
                if of is float and not is_float(value):
                    raise row.bad(f"no {name}", f"{row.table.at(row, name)} is {value!r}, expected a number")
                values[name] = of(value) if of is float else row.text(name)
            return example_class(**values, origin=row.origin)

        return table_reader(example_class, choose, example, Table.open)

    return Kind(
        reader,
        fields=lambda options: names,
        sides=lambda options: texts,
        ask=lambda values: example_class(*values),
        units=f"{unit}s",
        section=data,
        example=example_class,
    )
