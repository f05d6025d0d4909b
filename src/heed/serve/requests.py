"""The bodies of requests and the inputs in them, checked by pydantic; the options are those of the commands."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    TypeAdapter,
    ValidationError,
    create_model,
)

from heed.data.pictures import decode
from heed.errors import DataError
from heed.storage.files import problem_of
from heed.tasks import spec_of
from heed.tasks.base import Flag

CHARACTERS = 2_000
"""Maximum number of characters of a text."""
PICTURE = 8 * 2**20
"""Maximum number of bytes of a picture."""
_ELSEWHERE = {"json", "columns", "sort", "engine"}
"""Options of the commands that concern files, or output other than JSON."""


class Body(BaseModel):
    """Base of bodies: nothing is converted, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class OfRun(Body):
    """A request to a run."""

    run: int = Field(0, ge=0)  # its number, from 0


class Write(OfRun):
    """An output while it is being written."""

    input: Any
    options: dict[str, Any] = {}


class Predict(Write):
    """`heed predict`: one input, or several."""

    input: Any = None
    inputs: list[Any] = Field([], max_length=1_000)


class LookAt(Write):
    """A look."""

    steps: bool = False
    mechanism: str | None = Field(None, max_length=100)
    layer: int | Literal["all"] | None = None
    head: int | Literal["mean", "all"] | None = None
    overview: bool | None = None
    sort: str | None = Field(None, max_length=100)
    edits: list[dict[str, Any]] = Field([], max_length=100)


class Save(Body):
    """A look in a format."""

    look: LookAt
    format: Literal["html", "svg", "png", "json"]


class Cell(Body):
    """One weight of a look."""

    look: LookAt
    map: str = Field(max_length=1_000)  # its title
    row: int = Field(ge=0)
    column: int = Field(ge=0)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is blank")
    return text


def _pixels(text: str) -> Any:
    data = base64.b64decode(text, validate=True)
    pixels = decode.decode(data)
    return pixels if pixels.dtype == np.uint8 else data  # a run scales more bits by its own levels


_Text = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(_not_blank)]
_Pair = Annotated[dict[Literal["text", "second"], _Text], Field(min_length=2)]
_Base64 = Annotated[str, Field(max_length=PICTURE * 4 // 3 + 4), AfterValidator(_pixels)]
_SOME = Field(min_length=1)
_KINDS: dict[str, tuple[Any, str]] = {
    "text": (_Text, "a text"),
    "pair": (_Pair, "an object with the texts text and second"),
    "turns": (Annotated[list[_Text], _SOME], "a list of texts, the turns"),
    "picture": (_Base64, "a picture in base64"),
    "row": (Annotated[dict[str, FiniteFloat], _SOME], "an object with a number for each column"),
    "columns": (Annotated[dict[str, list[FiniteFloat]], _SOME], "an object with a list of numbers for each column"),
}
"""The type of each kind of input, and its description for people."""


def read_input(kind: str, value: Any, place: str) -> Any:
    """An input as `look` takes it.

    Raises:
        DataError: It is of another kind, or too long; the message begins with `place`.
    """
    kind = "pair" if kind == "text" and isinstance(value, dict) else kind  # pretraining reads both
    type_, expected = _KINDS[kind]
    try:
        read = checked(type_, value, place)
    except DataError as error:
        raise DataError(f"{error} (expected: {expected})") from None
    return (read["text"], read["second"]) if kind == "pair" else read


def flags_of(task: str, command: str) -> list[Flag]:
    """The options of a command that a request may have; none of them names a file."""
    flags = spec_of(task).flags_of(command)
    return [flag for flag in flags if flag.metavar != "FILE" and flag.name not in _ELSEWHERE]


def _field(flag: Flag) -> Any:
    kind: Any = Literal[flag.type] if isinstance(flag.type, tuple) else flag.type
    if flag.type is str:
        kind = Annotated[str, Field(max_length=CHARACTERS)]
    elif flag.least is not None or flag.most is not None:
        kind = Annotated[kind, Field(ge=flag.least, le=flag.most)]
    return (Annotated[list[kind], Field(max_length=1_000)] if flag.several else kind) | None, None


@cache
def _options_model(task: str, command: str) -> type[Body]:
    return create_model(task, __base__=Body, **{flag.word: _field(flag) for flag in flags_of(task, command)})


def checked_options(options: Mapping[str, Any], task: str, command: str) -> dict[str, Any]:
    """The options of a request.

    Raises:
        DataError: One is unknown or has a wrong value; the message begins with its field.
    """
    values = checked(_options_model(task, command), options, "options").model_dump(exclude_none=True)
    return {name: tuple(v) if type(v) is list else v for name, v in values.items() if v is not False}


def checked(kind: Any, values: Any, place: str = "") -> Any:
    """A body, or a part of it at a place, from JSON as bytes or from values of JSON.

    Raises:
        DataError: A field is missing, unknown or wrong; the message has the field, the value and what is expected.
    """
    try:
        adapter = TypeAdapter(kind)
        read = adapter.validate_json if isinstance(values, bytes) else adapter.validate_python
        return read(values, strict=True)
    except ValidationError as error:
        raise DataError(problem_of(error, place)) from None
