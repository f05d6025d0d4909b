"""The text of `--help`: the usage lines of a command, then its options in groups."""

from __future__ import annotations

from typing import Any, ClassVar

from typer import Option
from typer.core import TyperCommand

_REST = "Other options"
_WIDEST = 24
"""Longest option name, in characters, that shares a line with its help text."""


class HelpCommand(TyperCommand):
    """A command whose help has several usage lines and a list for each group of options.

    The group of an option is its `rich_help_panel`.
    """

    usages: ClassVar[tuple[str, ...]] = ()
    """Arguments between the name of the command and its options, one text for each usage line."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage lines."""
        for number, usage in enumerate(self.usages or ("",)):
            formatter.write_usage(ctx.command_path, f"{usage} [OPTIONS]".strip(), None if number == 0 else " " * 7)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, all in the same two columns."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                groups["Arguments"].append((param.metavar or param.name or "", param.help))  # type: ignore[attr-defined]
            elif (record := param.get_help_record(ctx)) is not None:
                name, text = record
                text = text.replace("[x>=", "[at least ").replace("; x>=", ", at least ")
                groups.setdefault(getattr(param, "rich_help_panel", None) or _REST, []).append((name, text))
        rest = groups.pop(_REST)  # the last of all, with --help in it
        groups[_REST if any(group != "Arguments" for group in groups) else "Options"] = rest
        names = [name for rows in groups.values() for name, _ in rows]
        width = max((len(name) for name in names if len(name) <= _WIDEST), default=0)
        for group, rows in groups.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows], col_max=width)


def called(*usages: str) -> type[HelpCommand]:
    """The class of a command with these usage lines."""
    return type("CalledCommand", (HelpCommand,), {"usages": usages})


def option(*words: str, complete: Any = None, **given: Any) -> Any:
    """A `typer.Option`: words that begin with a dash are its names, the other word is its group in the help."""
    names = [word for word in words if word.startswith("-")]
    group = next((word for word in words if not word.startswith("-")), None)
    return Option(*names, rich_help_panel=group, autocompletion=complete, **given)
