"""The `data` section of a run whose data was handed over in Python: what it was, and not where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Self

from pydantic import Field, model_validator

from heed.config.sections import Section


class HeldSplit(Section):
    """What was handed over in Python for one split."""

    examples: int = Field(ge=0)
    """Number of examples."""
    content: str
    """Hash of the examples in their order, by which a resumed run recognises them."""


class InMemory(Section):
    """The part of a `data` section that says of data handed over in Python what it was: the data is not kept."""

    memory: dict[str, HeldSplit]
    """By split, how many examples were handed over in Python and a hash of them; `heed.train` writes it."""
    imported: str | None = None
    """Which checkpoint the run was imported from, as `heed import` writes it: such a run has no data of its own."""
    train: list[str] = ["train"]  # noqa: RUF012  # pydantic copies it
    """Not a file here: the name of the split."""
    valid: list[str] | int | None = None
    """Not files here: the name of the split, or how many examples to hold out."""
    test: list[str] | int | None = None
    """Not files here: the name of the split."""

    @model_validator(mode="after")
    def _of_no_file(self) -> Self:
        for field in ("format", "separator", "stream", "encoding"):
            kind = type(self).model_fields.get(field)
            if kind is not None and (value := getattr(self, field)) != kind.default:
                raise ValueError(
                    f"data.{field} is {value!r} and says how a file is read, but the data was handed over in Python; "
                    "leave it out"
                )
        return self

    @property
    def name(self) -> str:
        """What to call the data."""
        return "memory" if self.imported is None else PurePath(self.imported).name

    @property
    def missing(self) -> str:
        """What to say where the data is asked for and nobody handed it over."""
        if self.imported is not None:
            return (
                f"this run was imported from {self.imported} and has no data of its own; to score it, give files: heed "
                "evaluate RUN FILE; to train it on, start a run from it: heed train TASK FILE --from RUN"
            )
        held = ", ".join(f"{name}: {split.examples:,}" for name, split in self.memory.items())
        return (
            f"the data was handed over in Python{f' (examples of {held})' if held else ''} and is not kept in the run "
            "folder; to score the run, give files (heed evaluate RUN FILE) or examples (run.evaluate(examples)); to "
            "resume it, hand the same data to heed.train in Python, with out= and resume=True"
        )


def is_memory(value: Any) -> bool:
    """Whether a `data` section, as values or checked, is of data handed over in Python."""
    return isinstance(value, InMemory) or (isinstance(value, dict) and "memory" in value)


def memory_or(files: str) -> Callable[[Any], str]:
    """Tells which class a `data` section is: that of data handed over in Python, or of files."""
    return lambda value: "memory" if is_memory(value) else files
