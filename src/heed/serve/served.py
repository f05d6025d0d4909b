"""The runs that are served: what they take, what they can do, and their answers as plain values."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heed import folder
from heed.data.pictures import decode
from heed.errors import ConfigError, DataError, HeedError, HeedWarning, RunError
from heed.runs.loading import load
from heed.show.document import Shown
from heed.show.shown import ShownLook
from heed.storage.files import CHECKSUMS
from heed.tasks import CAPABILITIES, DEFAULT, options_of, spec_of
from heed.tasks.base import Flag
from heed.tasks.base.curves import curves_of
from heed.tasks.base.predictions import TextOutputs
from heed.tasks.run import Run

CHARACTERS = 2_000
"""Most characters of an input."""
PAIR = "text", "second"
"""The fields of a pair of texts."""
PICTURE = 8 * 2**20
"""Most bytes of a picture."""
_KEPT = 8
"""Looks that are kept, so that saving one or opening a number of it does not compute it again."""
_ELSEWHERE = {"json", "csv", "columns", "sort", "engine"}
"""Options of the commands that concern files, or output other than JSON."""


def flags_of(task: str, command: str) -> list[Flag]:
    """The options of a command that a request may have; none of them names a file."""
    flags = spec_of(task).flags_of(command)
    return [flag for flag in flags if flag.metavar != "FILE" and flag.name not in _ELSEWHERE]


class Served:
    """A run of the server; its model is used by the worker's thread alone."""

    def __init__(self, name: str, path: Path, force: bool = False, device: str = "auto") -> None:
        self._packed = path if os.path.isfile(path) else None
        self.name, self.path, self._force, self._device = name, folder.find(path, folder.State.BEGUN), force, device
        self.task: str = folder.read_settings(self.path)[0].get("task", DEFAULT)
        self._run: Run | None = None
        self._opened: object = None  # checksums and checkpoints of the run that was opened
        self._looks: dict[str, Shown] = {}  # the last ones
        self.others: list[Served] = []  # all runs of the server; `run-N` of `beside` is one of them

    # What it is ------------------------------------------------------------------------------------------------------

    @property
    def training(self) -> bool:
        """True if the run has not finished."""
        return folder.state_of(self.path) is not folder.State.FINISHED

    def run(self) -> Run:
        """The run, opened again if its folder or zip file has changed; of a run in training, the best weights so far.

        Raises:
            RunError: It has no weights yet, is damaged, was removed, or was replaced by a run of another task.
        """
        if self._packed is not None:
            self.path = folder.find(self._packed)
        seal = self.path / CHECKSUMS
        written = self.path, folder.state_of(self.path), self.newest(), seal.read_bytes() if seal.is_file() else b""
        if self._run is None or self._opened != written:
            with warnings.catch_warnings(action="ignore", category=HeedWarning):  # they are in `so_far`
                run = load(self.path, force=self._force, device=self._device)
            if run.config.task != self.task:
                raise RunError(
                    f"'{self._packed or self.path}' was replaced by a run of {run.config.task}, and the server was "
                    f"started with a run of {self.task}: start the server again"
                )
            self._run, self._opened = run, written
            self.__dict__.pop("kind", None)
            self._looks.clear()
        return self._run

    def newest(self) -> list[str]:
        """The checkpoints of a run that has not finished."""
        return sorted(path.name for path in self.path.glob("checkpoints/step-*")) if self.training else []

    def facts(self) -> dict[str, Any]:
        """What a client must know to ask, or why it cannot ask yet; opens the run."""
        known = {"name": self.name, "task": self.task, "training": self.training}
        try:
            run: Any = self.run()
        except HeedError as error:
            return {**known, "error": str(error)}
        outputs = self._outputs({})
        return {
            **known,
            "title": run.title,
            "summary": spec_of(self.task).summary,
            "model": run.config.model.name,
            "input": self.kind,
            "columns": [*run.task.axes()["columns"]] if self.kind in ("row", "columns") else [],
            "can": [name for name in CAPABILITIES if run.can(name)],
            "streams": outputs is not None and outputs.streams,
            "options": {
                command: [_fact(flag) for flag in flags_of(self.task, command)] for command in ("predict", "look")
            },
            "note": run.so_far,
        }

    @cached_property
    def kind(self) -> str:
        """Kind of the input: text, pair, turns, picture, row or columns."""
        kind = spec_of(self.task).input
        return "pair" if kind == "text" and getattr(self.run().task, "pairs", False) else kind

    # Inputs ----------------------------------------------------------------------------------------------------------

    def read(self, value: Any, where: str = "input") -> Any:
        """An input as `look` takes it.

        Raises:
            DataError: It is of another kind, or too long; the message begins with `where`.
        """
        kind = self.kind
        if kind == "text" and not isinstance(value, dict):  # pretraining reads both
            return _text(value, where)
        if kind == "picture":
            return _picture(value, where)
        if kind == "turns":
            value = [value] if isinstance(value, str) else value
            _expect(isinstance(value, list) and value, value, where, "a list of turns, the first one first")
            return _texts({f"{where}[{n}]": text for n, text in enumerate(value)}, where)
        if kind in ("text", "pair"):
            fields = dict(zip(PAIR, value, strict=False)) if isinstance(value, list) and len(value) == 2 else value
            good = isinstance(fields, dict) and {*fields} == {*PAIR}
            _expect(good, value, where, "an object with the fields text and second")
            return tuple(_texts({f"{where}.{name}": fields[name] for name in PAIR}, where))
        numbers = "a number" if kind == "row" else "a list of numbers"
        _expect(isinstance(value, dict) and value, value, where, f"an object: {numbers} for each column")
        for name, column in value.items():
            every = column if kind == "columns" else [column]
            good = isinstance(every, list) and all(type(number) in (int, float) for number in every)
            _expect(good, column, f"{where}.{name}", numbers)
        return value

    # Answers ---------------------------------------------------------------------------------------------------------

    def _options(self, command: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a command, by keyword, with their defaults."""
        flags = flags_of(self.task, command)
        return options_of(self.task, command, {flag.name: options[flag.word] for flag in flags if flag.word in options})

    def _outputs(self, options: Mapping[str, Any], as_json: bool = False) -> TextOutputs | None:
        """The writer of `heed predict`; None for tasks whose inputs are no texts."""
        run: Any = self.run()
        if self.kind in ("picture", "row", "columns"):
            return None
        outputs = run.outputs({**self._options("predict", options), "json": as_json})
        assert isinstance(outputs, TextOutputs)
        return outputs

    def predict(self, inputs: list[Any], options: Mapping[str, Any]) -> list[Any]:
        """The predictions for inputs as `read` returns them, as values of JSON.

        Raises:
            HeedError: An option or an input cannot be used.
        """
        outputs = self._outputs(options, as_json=True)
        if outputs is None:
            run: Any = self.run()
            if self.kind == "columns":
                return [np.asarray(run.predict(columns, **options)).tolist() for columns in inputs]
            return [prediction.as_json() for prediction in run.predict(inputs, **options)]
        texts = [_line(outputs, text) for text in inputs]
        outputs.expect(texts, None)
        return [_json_of(written) for written in outputs.write(texts)]

    def write(self, text: Any, options: Mapping[str, Any]) -> Iterator[str]:
        """An output while it is being written; all at once where the search does not write from left to right.

        Raises:
            HeedError: An option or the input cannot be used.
        """
        outputs = self._outputs(options)
        if outputs is None:
            raise ConfigError(f"a run of {self.task} writes no text")
        text = _line(outputs, text)
        outputs.expect([text], None)
        if outputs.streams:
            yield from outputs.grow(text)
        else:
            yield from ("\n".join(written.lines) for written in outputs.write([text]))

    def look(self, asked: Mapping[str, Any]) -> Shown:
        """A look as a request describes it; the last ones are kept.

        Raises:
            HeedError: An option or the input cannot be used.
        """
        run: Any = self.run()
        for name in ("steps", "overview", "sort") if self.kind == "picture" else ():
            if asked.get(name):
                raise ConfigError(f"{name}: looks at texts and series have it, those at pictures do not")
        options = self._options("look", asked["options"])
        opened, beside = [], [*options.get("beside", ())]
        for n, name in enumerate(beside):
            number = re.fullmatch(r"run-(\d{1,3})", name)
            if number and int(number[1]) < len(self.others):
                other = self.others[int(number[1])]
                beside[n] = other.run()
                opened.append(str(other._opened))
        if beside:
            options["beside"] = beside
        key = json.dumps([asked, opened], sort_keys=True)
        look = self._looks.pop(key, None)
        if look is None:
            chosen = {name: value for name, value in asked.items() if name not in ("input", "options")}
            look = run.look(self.read(asked["input"]), **chosen, **options)
        self._looks[key] = look
        while len(self._looks) > _KEPT:
            del self._looks[next(iter(self._looks))]
        return look

    def number(self, asked: Mapping[str, Any], map: str, row: int, column: int) -> dict[str, Any]:
        """One weight of a look: what it came from, as a page, as NumPy, and the edits that would set it.

        Raises:
            ConfigError: There is no such map, row or column.
        """
        look = self.look(asked)
        if not isinstance(look, ShownLook):
            raise ConfigError("the weights of this look cannot be opened")
        opened = look.number(row, column, map=map)
        edit = look.setting(row, column, opened.weight, map=map)
        return {
            "head": opened.opened.head,
            "weight": opened.weight,
            "html": opened.html(),
            "numpy": opened.numpy(),
            "edit": None if edit is None else json.loads(str(edit)),
        }

    def saved(self, asked: Mapping[str, Any], form: str) -> bytes:
        """A look in a format."""
        drawn = getattr(self.look(asked), form)()
        return drawn if isinstance(drawn, bytes) else str(drawn).encode()

    def curves(self) -> str:
        """The curves of training as a page.

        Raises:
            RunError: Nothing was logged yet.
        """
        return curves_of(self.path, force=self._force).html()

    def logged(self) -> object:
        """What changes when more is logged."""
        with suppress(OSError):
            return [(path.name, path.stat().st_size) for path in sorted(self.path.glob("*.jsonl"))]
        return None


def _line(outputs: TextOutputs, text: Any) -> Any:
    """An input of a run of texts, as a line of a file; turns are one line."""
    return outputs.read(outputs.run.input.typed(text)[0] if isinstance(text, list) else text, "input")


def _json_of(written: Any) -> Any:
    if written.problem:
        raise DataError(written.problem)
    values = [json.loads(line) for line in written.lines]
    return values[0] if len(values) == 1 else values


def _fact(flag: Flag) -> dict[str, Any]:
    kind = "choice" if isinstance(flag.type, tuple) else flag.type.__name__
    limits = {"default": flag.default, "several": flag.several, "least": flag.least, "most": flag.most}
    choices = {"choices": list(flag.type)} if isinstance(flag.type, tuple) else {}
    return {"name": flag.word, "type": kind, "help": flag.help, **limits, **choices}


def shown(value: Any) -> str:
    """A value in a message."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _expect(good: Any, value: Any, where: str, expected: str) -> None:
    if not good:
        raise DataError(f"{where} is {shown(value)}, expected {expected}")


def _texts(values: Mapping[str, Any], where: str) -> list[str]:
    """Several texts by their places, together as long as an input may be."""
    texts = [_text(value, place) for place, value in values.items()]
    _text("".join(texts), where)
    return texts


def _text(value: Any, where: str) -> str:
    _expect(isinstance(value, str), value, where, "a text")
    if len(value) > CHARACTERS:
        raise DataError(f"{where} has {len(value):,} characters, expected at most {CHARACTERS:,}")
    if not value.strip():
        raise DataError(f"{where} is blank")
    if re.search("[\ud800-\udfff]", value):
        raise DataError(f"{where} has half a character (a surrogate without its other half)")
    return str(value)


def _picture(value: Any, where: str) -> Any:
    _expect(isinstance(value, str), value, where, "a picture in base64")
    if len(value) > PICTURE * 4 // 3 + 4:
        raise DataError(f"{where} has about {len(value) * 3 // 4:,} bytes, expected at most {PICTURE:,}")
    try:
        data = base64.b64decode(value, validate=True)
        pixels = decode.decode(data)
        return pixels if pixels.dtype == np.uint8 else data  # a run scales more bits by its own levels
    except (binascii.Error, ValueError) as error:
        what = str(error) if isinstance(error, DataError) else "this is not base64"
        raise DataError(f"{where}: {what}") from None


def open_runs(names: list[str], force: bool = False, device: str = "auto") -> list[Served]:
    """The runs to serve, in order; their models stay on the device.

    Raises:
        RunError: One cannot be found or opened; one that has just begun to train is opened when asked for.
    """
    known = ("last", folder.EXAMPLE)
    paths = [folder.find(name, folder.State.BEGUN) if name in known else Path(name) for name in names]
    short = [paths[n].name if name in known else Path(name).absolute().name for n, name in enumerate(names)]
    shown = short if len({*short}) == len(short) else names
    runs = [Served(name, path, force, device) for name, path in zip(shown, paths, strict=True)]
    for served in runs:
        served.others = runs
        if not served.training or served.newest():
            served.run()
    return runs
