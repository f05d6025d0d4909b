"""Notes that name options: worded for the command line, or for Python."""

from __future__ import annotations

from collections.abc import Sequence


class Hint(str):
    """A note that names options, worded for the command line: "shown: ...; change with --layer and --head"."""

    options: tuple[str, ...]
    said: str

    def __new__(cls, said: str, *options: str) -> Hint:
        """The note, of what is shown and the options that change it."""
        hint = super().__new__(cls, f"{said}; change with {_listed([f'--{name}' for name in options])}")
        hint.said, hint.options = said, options
        return hint

    @property
    def in_python(self) -> str:
        """The note with the arguments of a method: "shown: ...; change with layer= and head="."""
        return f"{self.said}; change with {_listed([f'{name}=' for name in self.options])}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def worded(note: str, in_python: bool) -> str:
    """A note for where it is shown."""
    return note.in_python if in_python and isinstance(note, Hint) else str(note)
