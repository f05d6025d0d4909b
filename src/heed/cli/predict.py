"""`heed predict`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import heed
from heed.cli.app import read_lines
from heed.cli.terminal import interactive
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.run import Run
from heed.tasks.translation import Prediction

__all__ = ["PredictOptions", "ask", "run_predict"]

_TOGETHER = 2_000
"""Lines read, decoded and written at a time, so that output flows."""


@dataclass(frozen=True)
class PredictOptions:
    """The options of the command, as typed."""

    nbest: int
    beam: int | None
    sample: bool
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    prefix: str
    align: bool
    as_json: bool

    def sampling(self) -> SamplingOptions | None:
        """How to draw, or None.

        Raises:
            ConfigError: An option of sampling was given without --sample, or with a value that cannot be.
        """
        if self.sample:
            if self.beam is not None:
                raise ConfigError(f"--beam {self.beam} searches and --sample draws; give one of them")
            return SamplingOptions(self.temperature, self.top_k, self.top_p, self.seed)
        given = {"temperature": (self.temperature, 1.0), "top-k": (self.top_k, None), "top-p": (self.top_p, None)}
        for name, (value, default) in {**given, "seed": (self.seed, 1)}.items():
            if value != default:
                raise ConfigError(f"--{name} {value} is about drawing outputs, so it needs --sample")
        return None


def run_predict(
    names: list[str], texts: list[str], given: Path | None, out: Path | None, options: PredictOptions
) -> None:
    """Write one output (or `nbest`) per text, in the order of the input, blank lines included.

    Several runs write together.
    """
    if texts and given is not None:
        raise ConfigError("give either texts or --input, not both")
    if options.beam is not None and options.nbest > options.beam:
        raise ConfigError(f"--nbest {options.nbest} needs a --beam of at least {options.nbest}, not {options.beam}")
    options.sampling()
    run = heed.load(names[0]) if len(names) == 1 else heed.ensemble(names)
    if options.align and not run.model.aligns:
        raise ConfigError(f"model '{run.config.model.name}' has no attention, so there is nothing for --align to show")
    if not texts and given is None and interactive():
        ask(run)
        return
    unknown: Counter[str] = Counter()
    if given is not None and given.is_dir():
        _folder(run, given, out, options, unknown)
    else:
        lines = texts or read_lines(given)
        if out is not None and given is not None and out.exists() and out.samefile(given):
            raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
        with nullcontext(sys.stdout) if out is None else _open(out) as file:
            _write(run, lines, options, file, unknown)
    if unknown:
        listing = ", ".join(f"{piece!r} ({count})" for piece, count in unknown.most_common(10))
        what = {"character": "characters", "word": "words"}.get(run.task.source_tokenizer.unit, "pieces")
        print(f"heed: {unknown.total()} {what} were never seen in training: {listing}", file=sys.stderr)


def _open(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write '{path}': {error.strerror}") from None


def ask(run: Run) -> None:
    """Translate what a person types until an empty line or the end of input."""
    print("Type a text; an empty line ends.")
    while True:
        try:
            text = input("> ")
        except EOFError:
            print()
            return
        if not text.strip():
            return
        best = run.predict(text)
        print(f"{best.text}    (log-probability {best.log_prob:.3f})")
        if unknown := run.task.source_tokenizer.unknown_in(text):
            print(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")


def _folder(run: Run, given: Path, out: Path | None, options: PredictOptions, unknown: Counter[str]) -> None:
    """Each file of a folder to a file of the same name in another folder."""
    if out is None:
        raise ConfigError(f"'{given}' is a folder; name the folder for the outputs with --out")
    entries = sorted(given.iterdir())
    files = [path for path in entries if path.is_file() and not path.name.startswith(".")]
    if not files:
        raise ConfigError(f"no file in folder '{given}'")
    if out.resolve() == given.resolve():
        raise ConfigError(f"--out '{out}' is the folder of the input; its files would be overwritten")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make folder '{out}': {error.strerror}") from None
    if left := [path.name for path in entries if path not in files]:
        print(f"heed: left out, hidden or no file: {', '.join(left)}", file=sys.stderr)
    for path in files:
        lines = read_lines(path)
        with _open(out / path.name) as file:
            _write(run, lines, options, file, unknown)
        print(f"wrote {out / path.name}", file=sys.stderr)


def _write(run: Run, lines: list[str], options: PredictOptions, file: TextIO, unknown: Counter[str]) -> None:
    for start in range(0, len(lines), _TOGETHER):
        chunk = lines[start : start + _TOGETHER]
        results = run.candidates(
            chunk,
            num_best=options.nbest,
            beam_size=options.beam,
            sampling=options.sampling(),
            prefix=options.prefix,
        )
        for line, candidates in zip(chunk, results, strict=True):
            unknown.update(run.task.source_tokenizer.unknown_in(line))
            for text in _shown(run, line, candidates, options):
                file.write(text + "\n")
        file.flush()


def _shown(run: Run, source: str, candidates: list[Prediction], options: PredictOptions) -> Iterator[str]:
    for candidate in candidates:
        links = run.align(source, candidate) if options.align else None
        if options.as_json:
            yield _json(source, candidate, links)
            continue
        columns = [_one_line(candidate.text)]
        if options.nbest > 1:
            columns.insert(0, f"{candidate.score:.4f}")
        if links is not None:
            columns.append(" ".join(f"{i}-{j}" for i, j in links))
        yield "\t".join(columns)


def _one_line(text: str) -> str:
    """A text without the line breaks and tabs that a model may have learned: a line in is a line out."""
    return text.translate({ord(c): " " for c in "\n\r\t"})


def _json(source: str, candidate: Prediction, links: list[tuple[int, int]] | None) -> str:
    values = {
        "source": source,
        "text": candidate.text,
        "score": round(candidate.score, 6),
        "log_prob": round(candidate.log_prob, 6),
        "tokens": candidate.tokens,
        "token_probs": [round(p, 6) for p in candidate.token_probs],
        "finished": candidate.finished,
    }
    if links is not None:
        values["alignment"] = links
    return json.dumps(values, ensure_ascii=False)
