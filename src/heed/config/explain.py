"""Error messages of a configuration that name the field, the value and the valid values."""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from heed.config.data import FilesData
from heed.errors import ConfigError, suggest

S = TypeVar("S", bound=BaseModel)


def check_section(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Build a section, with errors that name the field, the value and the valid values.

    Raises:
        ConfigError: All problems, one line each, after `where` (a file, "command line", "model").
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = [_explain(problem, kind) for problem in error.errors()]
        raise ConfigError(f"{where}: " + "; ".join(_merged(lines))) from None


def _merged(lines: list[str]) -> list[str]:
    """Join the problems of one value, since pydantic lists one for each type that a field may have."""
    rules: dict[str, list[str]] = {}
    for line in lines:
        start, mark, rule = line.partition(", but must be ")
        rules.setdefault(start + mark, []).append(rule)
    return [start + " or ".join(found) for start, found in rules.items()]


def _explain(problem: Any, kind: type[BaseModel]) -> str:
    loc, kinds = problem["loc"], _data_kinds(kind)
    # pydantic adds the chosen member of a union to the path, which users never wrote
    path = [
        part
        for n, part in enumerate(loc)
        if not (n == 1 and loc[0] == "data" and part in kinds) and not _MEMBER.fullmatch(str(part))
    ]
    name = ".".join(str(part) for part in path)
    if problem["type"] == "extra_forbidden":
        valid = _fields_at(kind, loc[:-1])
        owner = "" if len(path) > 1 else f" for {kind.__name__}"
        return f"unknown field '{name}'{owner}{suggest(str(path[-1]), valid)}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "missing":
        return f"field '{name}' is missing"
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        given = problem["input"].get("name") if isinstance(problem["input"], dict) else problem["input"]
        hint = suggest(str(given), [name for member in kinds.values() for name in _embedded_names(member)])
        return f"{name}.name is {given!r}{hint} (your own files go into {name}.train)"
    if problem["type"] == "model_type":
        first = next((one for one in ("name", "kind") if one in _fields_at(kind, loc)), None)
        example = f", such as {name}: {{{first}: {problem['input']}}}" if first else ""
        return f"{name} is {_written(problem['input'])}, but must be a section of fields{example}"
    return f"{name} is {_written(problem['input'])}{_expected(problem)}"


_MEMBER = re.compile(r"(literal|dict|list|tuple)\[.*\]|(constrained|function)-.*|int|float|str|bool")
"""Name that pydantic gives to a member of a union of plain types."""
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "string": "text",
    "model": "a section of fields",
}
_LISTS = ("list_type", "tuple_type")


def _written(value: Any) -> str:
    """A value as in YAML, where that differs from Python."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _expected(problem: Any) -> str:
    """The valid values, as a continuation of "NAME is VALUE"."""
    for kind, what in _KINDS.items():
        if problem["type"] in (f"{kind}_parsing", f"{kind}_type", f"{kind}_from_float"):
            return f", but must be {what}"
    if problem["type"] in _LISTS:
        given = problem["input"]
        return ", but must be a list" + (f", such as [{given}]" if isinstance(given, str) else "")
    if problem["type"] == "dict_type":
        return ", but must be a mapping, such as {name: value}"
    message = problem["msg"]
    subject, _, rule = message.partition(" should ")
    if subject in ("Input", "List", "Dictionary"):
        return f", but must {rule.partition(' after validation')[0]}"
    return f": {message[0].lower()}{message[1:]}"


def _data_kinds(kind: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The possible classes of a `data` section, by the tags of their union."""
    if "data" not in kind.model_fields:
        return {}
    members = [get_args(member) for member in get_args(kind.model_fields["data"].annotation)]
    return {tag.tag: member for member, *marks in members for tag in marks if isinstance(tag, Tag)}


def _embedded_names(kind: type[BaseModel]) -> tuple[str, ...]:
    """The names of embedded data of a class; none for files."""
    return get_args(kind.model_fields["name"].annotation) if "name" in kind.model_fields else ()


def _fields_at(kind: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Names of the fields of the section at a path."""
    kinds = _data_kinds(kind)
    for part in path:
        if part in kinds:
            kind = kinds[part]
        elif part in kind.model_fields:
            annotation = kind.model_fields[part].annotation
            while get_origin(annotation) in (list, UnionType):  # items of a list; a section that may be left out
                annotation = get_args(annotation)[0]
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                kind = annotation
    names = [field.alias or name for name, field in kind.model_fields.items()]
    return [*names, *(["name"] if kind is FilesData else [])]
