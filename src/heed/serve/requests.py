"""The bodies of requests, checked by pydantic; the options are those of the commands. OpenAPI is written from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from heed.errors import DataError
from heed.serve.served import CHARACTERS, PAIR, flags_of, shown
from heed.tasks.base import Flag

INPUTS = 1_000
"""Most inputs of a request."""
FORMATS = {
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
}


def _whole(value: Any) -> Any:
    """To JSON, 14.0 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Body(BaseModel):
    """Base of bodies: nothing is converted, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OfRun(Body):
    """A request to a run."""

    run: Whole = Field(0, ge=0, description="Number of the run, from 0 (GET /v1/runs).")


class Predict(OfRun):
    """`heed predict`: one input, or several."""

    input: Any = Field(None, description="One input: a text; for some runs a list of turns, or an object.")
    inputs: list[Any] = Field([], max_length=INPUTS, description="Several inputs, in place of `input`.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of `heed predict` for the run's task.")


class Write(OfRun):
    """An output while it is being written."""

    input: Any
    options: dict[str, Any] = Field(default_factory=dict)


class Asked(OfRun):
    """A look."""

    input: Any
    steps: bool = False
    mechanism: str | None = Field(None, max_length=100)
    layer: Whole | Literal["all"] | None = None
    head: Whole | Literal["mean", "all"] | None = None
    overview: bool | None = None
    sort: str | None = Field(None, max_length=100)
    edits: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
    options: dict[str, Any] = Field(default_factory=dict)

    def chosen(self) -> dict[str, Any]:
        """What was chosen, as keywords of `run.look`; what was not keeps its default."""
        return {
            name: value
            for name, value in self.model_dump(exclude={"run"}, exclude_none=True).items()
            if value or name in ("layer", "head", "options")
        } | {"input": self.input}


class Cell(Body):
    """One weight of a look."""

    look: Asked
    map: str = Field(max_length=1_000, description="Title of a map.")
    row: Whole = Field(ge=0)
    column: Whole = Field(ge=0)


class Save(Body):
    """A look in a format."""

    look: Asked
    format: Literal["html", "svg", "png", "json"]


_TEXT = {"type": "string", "maxLength": CHARACTERS, "pattern": r"[^\s\x1c-\x1f\x85]"}  # what Python strips
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_INPUT: dict[str, dict[str, Any]] = {
    "text": _TEXT,
    "pair": {"type": "object", "properties": dict.fromkeys(PAIR, _TEXT), "required": [*PAIR]},
    "turns": {"type": "array", "items": _TEXT, "minItems": 1},
    "picture": {"type": "string", "contentEncoding": "base64"},
    "row": {"type": "object", "additionalProperties": {"type": "number"}},
    "columns": {"type": "object", "additionalProperties": _NUMBERS},
}
"""The schema of each kind of input."""


@cache
def options_model(task: str, command: str) -> type[Body]:
    """The options of a command for a task."""
    fields: dict[str, Any] = {flag.word: _field(flag) for flag in flags_of(task, command)}
    return create_model(f"{command}_{task}", __base__=Body, **fields)


def _field(flag: Flag) -> Any:
    kind: Any = Literal[flag.type] if isinstance(flag.type, tuple) else flag.type
    about: dict[str, Any] = {"description": flag.help}
    if flag.type is str:
        kind = Annotated[str, Field(max_length=CHARACTERS)]
    if flag.least is not None or flag.most is not None:
        kind = Annotated[kind, Field(ge=flag.least, le=flag.most)]
    if flag.type is int:  # after the limits: of another order, pydantic's schema lacks them
        kind = Annotated[kind, BeforeValidator(_whole)]
    if flag.several:
        kind, about["max_length"] = list[kind], 1_000
    return kind | None, Field(None, **about)


def checked_options(options: Mapping[str, Any], task: str, command: str) -> dict[str, Any]:
    """The options of a request.

    Raises:
        DataError: One is unknown or has a wrong value; the message begins with its field.
    """
    made = checked(options_model(task, command), options, ("options",)).model_dump(exclude_none=True)
    several = {flag.word for flag in flags_of(task, command) if flag.several}
    return {name: tuple(value) if name in several else value for name, value in made.items() if value is not False}


def checked(kind: type[Body], values: Any, before: Sequence[str] = ()) -> Any:
    """A body from values of JSON.

    Raises:
        DataError: A field is missing, unknown or wrong; the message has the field, the value and what is expected.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [*before, *(str(part) for part in first["loc"])]
        place = [part for part in place if not (part.startswith(("literal[", "function-")) or part in ("int", "str"))]
        has = "" if first["type"] in ("missing", "extra_forbidden") else f" is {shown(first['input'])}"
        raise DataError(f"{'.'.join(place) or 'the body'}{has}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


def openapi(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The interface for programs in OpenAPI 3.1; runs are given by their facts, without "input" where not known yet."""
    predict = Predict.model_json_schema()
    tasks = dict.fromkeys(run["task"] for run in runs)
    models = [options_model(task, "predict").model_json_schema() for task in tasks]
    pairs = ["pair"] * any("next" in model["properties"] for model in models)
    kinds = [kind for kind in dict.fromkeys((*(run.get("input") for run in runs), *pairs)) if kind]
    inputs: dict[str, Any] = {"anyOf": [_INPUT[kind] for kind in kinds]} if kinds else {}
    predict["properties"]["run"]["maximum"] = len(runs) - 1
    predict["properties"]["input"] |= inputs
    predict["properties"]["inputs"] = {"type": "array", "items": inputs, "maxItems": INPUTS}
    predict["properties"]["options"] |= {"anyOf": models}
    predict["oneOf"] = [{"required": ["input"]}, {"required": ["inputs"]}]
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string", "description": "What is wrong, with the field and its value."}},
    }
    failed = {
        "400": "The body is not JSON, or a field is wrong.",
        "401": "The token is missing or wrong.",
        "403": "The Host or Origin is not one of this server.",
        "408": "The body did not arrive in time.",
        "413": "The body is too long.",
        "415": "The body is not application/json.",
        "500": "An error in heed; see the server's output.",
        "503": "Too much waits already: come back after Retry-After seconds.",
        "504": "The answer took too long.",
    }
    content = {"application/json": {"schema": error}}
    errors = {code: {"description": reason, "content": content} for code, reason in failed.items()}

    def operation(summary: str, answer: Mapping[str, Any], *required: str, **more: Any) -> dict[str, Any]:
        schema = {"type": "object", **({"required": required} if required else {}), "properties": answer}
        good = {"description": "OK", "content": {"application/json": {"schema": schema}}}
        return {"summary": summary, "responses": {"200": good, **errors}, **more}

    outputs = {"output": {}, "outputs": {"type": "array"}}
    listed = {"runs": {"type": "array", "items": {"type": "object"}}}
    body = {"required": True, "content": {"application/json": {"schema": predict}}}
    asked = operation("Predictions for one input or several", outputs, requestBody=body)
    health = operation("Whether the server answers; needs no token", {"status": {"const": "ok"}}, "status", security=[])
    return {
        "openapi": "3.1.0",
        "info": {"title": "heed", "version": version("heed-attention"), "description": "Predictions of trained runs."},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
        "paths": {
            "/v1/predict": {"post": asked},
            "/v1/runs": {"get": operation("The runs, their inputs and options", listed, "runs")},
            "/v1/health": {"get": health},
        },
    }
