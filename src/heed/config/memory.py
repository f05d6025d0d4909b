"""The `data` section of a run whose data was passed in Python: a record of the data, not its place."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Self

from pydantic import Field, model_validator

from heed.config.sections import Section


class HeldSplit(Section):
    """The record of the data passed in Python for one split."""

    examples: int = Field(ge=0)
    """Number of examples."""
    content: str
    """Hash of the examples in their order, by which a resumed run recognises them."""


class InMemory(Section):
    """The part of a `data` section that records data passed in Python; the data itself is not kept."""

    memory: dict[str, HeldSplit]
    """By split, the number of examples passed in Python and a hash of them; written by `heed.train`."""
    imported: str | None = None
    """Name of the checkpoint that the run was imported from, written by `heed import`; such a run has no data."""
    train: list[str] = ["train"]  # noqa: RUF012  # pydantic copies it
    """Not a file here: the name of the split."""
    valid: list[str] | int | None = None
    """Not files here: the name of the split, or the number of examples to hold out."""
    test: list[str] | int | None = None
    """Not files here: the name of the split."""

    @model_validator(mode="after")
    def _of_no_file(self) -> Self:
        for field in ("format", "separator", "stream", "encoding"):
            kind = type(self).model_fields.get(field)
            if kind is not None and (value := getattr(self, field)) != kind.default:
                raise ValueError(
                    f"data.{field} is {value!r}, which applies to files, but the data was passed in Python; leave it "
                    "out"
                )
        return self

    @property
    def name(self) -> str:
        """Name of the data."""
        return "memory" if self.imported is None else PurePath(self.imported).name

    @property
    def missing(self) -> str:
        """Error message for a command that needs the data, which was not passed."""
        if self.imported is not None:
            return (
                f"this run was imported from {self.imported} and has no data; to score it, give files: heed evaluate "
                "RUN FILE; to train it further, start a run from it: heed train TASK FILE --from RUN"
            )
        held = ", ".join(f"{name} {split.examples:,}" for name, split in self.memory.items())
        return (
            f"the data was passed in Python{f' (examples: {held})' if held else ''} and is not stored in the run "
            "folder; to score the run, give files (heed evaluate RUN FILE) or examples (run.evaluate(examples)); to "
            "resume it, pass the same data to heed.train in Python, with out= and resume=True"
        )


def is_memory(value: Any) -> bool:
    """True if a `data` section, as values or checked, is of data passed in Python."""
    return isinstance(value, InMemory) or (isinstance(value, dict) and "memory" in value)
