"""The text of `--help`: usage lines, then options in groups; and messages about wrong values of options."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from typer import BadParameter, Option
from typer.core import TyperCommand

from heed.errors import ConfigError

_REST = "Other options"
_WIDEST = 24
"""Longest option name, in characters, that shares a line with its help text."""


class HelpCommand(TyperCommand):
    """A command whose help has several usage lines and a list for each group of options.

    The group of an option is its `rich_help_panel`.
    """

    usages: ClassVar[tuple[str, ...]] = ()
    """Arguments between the name of the command and its options, one text for each usage line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            ConfigError: An option has a value that is no number or out of range, or not one of its choices.
        """
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except BadParameter as error:
            if (problem := self._problem(ctx, words, error.param)) is None:
                raise
            raise ConfigError(problem) from None

    def _problem(self, ctx: Any, words: list[str], param: Any) -> str | None:
        """Describe the wrong value of an option that is a number or has choices; None for other options and errors."""
        field = getattr(param, "name", None) or ""
        value = self.make_parser(ctx).parse_args(args=words)[0].get(field)
        kind, info = (*get_args(get_type_hints(self.callback, include_extras=True).get(field)), None, None)[:2]
        number = next((one for one in (int, float) if one in (kind, *get_args(kind))), None)
        choices = next((get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal), ())
        if not isinstance(value, str):
            return None
        name = max(param.opts, key=len)
        if choices:
            return f"{name} is '{value}', expected {' or '.join(', '.join(choices).rsplit(', ', 1))}"
        if number is None:
            return None
        try:
            given = number(value)
        except ValueError:
            example = f"whole number, such as {name} 1" if number is int else f"number, such as {name} 1 or {name} 0.5"
            return f"{name} is '{value}', expected a {example}"
        least, most = getattr(info, "min", None), getattr(info, "max", None)
        if least is None or (given >= least and (most is None or given <= most)):
            return None
        return f"{name} is {value}, expected {f'at least {least}' if most is None else f'{least} to {most}'}"

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
