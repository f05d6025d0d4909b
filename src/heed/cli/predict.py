"""`heed predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import heed
from heed.cli.app import read_lines
from heed.cli.terminal import interactive
from heed.errors import ConfigError
from heed.run import Run
from heed.tasks.translation import Prediction

__all__ = ["ask", "run_predict"]

_TOGETHER = 2_000
"""Lines read, decoded and written at a time, so that output flows."""


def run_predict(name: str, texts: list[str], file: Path | None, nbest: int, beam: int | None, as_json: bool) -> None:
    """Write one output (or `nbest`) per text, in the order of the input, blank lines included."""
    if texts and file is not None:
        raise ConfigError("give either texts or --input, not both")
    if beam is not None and nbest > beam:
        raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
    run = heed.load(name)
    if not texts and file is None and interactive():
        ask(run)
        return
    lines = texts or read_lines(file)
    unknown: dict[str, int] = {}
    for start in range(0, len(lines), _TOGETHER):
        chunk = lines[start : start + _TOGETHER]
        for line, candidates in zip(
            chunk, run.task.translate(run.model, chunk, num_best=nbest, beam_size=beam), strict=True
        ):
            for piece in run.task.source_tokenizer.unknown_in(line):
                unknown[piece] = unknown.get(piece, 0) + 1
            for candidate in candidates:
                print(_json(line, candidate) if as_json else _line(candidate, nbest))
        sys.stdout.flush()
    if unknown:
        most = sorted(unknown, key=lambda piece: (-unknown[piece], piece))[:10]
        listing = ", ".join(f"{piece!r} ({unknown[piece]})" for piece in most)
        print(f"heed: {sum(unknown.values())} characters were never seen in training: {listing}", file=sys.stderr)


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


def _line(candidate: Prediction, nbest: int) -> str:
    return candidate.text if nbest == 1 else f"{candidate.score:.4f}\t{candidate.text}"


def _json(source: str, candidate: Prediction) -> str:
    values = {
        "source": source,
        "text": candidate.text,
        "score": round(candidate.score, 6),
        "log_prob": round(candidate.log_prob, 6),
        "tokens": candidate.tokens,
        "token_probs": [round(p, 6) for p in candidate.token_probs],
        "finished": candidate.finished,
    }
    return json.dumps(values, ensure_ascii=False)
