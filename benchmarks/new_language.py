"""A new language from a parent of four, without a Hub: chrF of 1,500 pairs fine-tuned and from nothing, equal minutes.

    HEED_DATA=../shared/data python benchmarks/new_language.py FOLDER [--parent-minutes 60] [--minutes 4]

The parent is a Transformer in M2M's form (a language token before source and target, sinusoids of fairseq, shared
embeddings), trained on German, Spanish and French into English and English into German. Its child translates Hindi,
whose script the parent has never seen, into English: with all of the parent's tokens and with those only that the
Hindi and English texts need, each with a new language token. Sentences of the Hindi validation and test sets are in no
training set. A parent that stands in FOLDER is used again.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
from pathlib import Path

from machine import print_machine

import heed
from heed import folder as folders
from heed.config import write_config
from heed.runs.checkpoints import trimmed_run
from heed.training.weights import save_weights

PAIRS, VALID, TEST, PARENT_PAIRS = 1_500, 200, 600, 40_000
ENGLISH, GERMAN, SPANISH, FRENCH, HINDI = "eng_Latn", "deu_Latn", "spa_Latn", "fra_Latn", "hin_Deva"
Pairs = list[tuple[str, str]]


def tatoeba(language: str) -> Pairs:
    """English sentences and their translations."""
    text = gzip.open(Path(os.environ["HEED_DATA"], f"tatoeba/{language}.txt.gz"), "rt", encoding="utf-8").read()
    return [(row[0], row[1]) for row in (line.split("\t") for line in text.splitlines())]


def multi30k() -> Pairs:
    folder = Path(os.environ["HEED_DATA"], "multi30k")
    sides = (
        gzip.open(folder / f"train.{side}.gz", "rt", encoding="utf-8").read().splitlines() for side in ("en", "fr")
    )
    return [*zip(*sides, strict=True)]


def write(name: str, pairs: Pairs) -> None:
    """Write `name.eng` and `name.other`."""
    for place, side in enumerate(("eng", "other")):
        Path(f"{name}.{side}").write_text("".join(f"{pair[place]}\n" for pair in pairs), encoding="utf-8")


def write_texts() -> None:
    draw = random.Random(1)
    hindi: dict[str, list[str]] = {}
    for english, other in tatoeba("hin"):
        hindi.setdefault(english, []).append(other)
    sentences = sorted(hindi)
    draw.shuffle(sentences)
    parts = sentences[:TEST], sentences[TEST : TEST + VALID], sentences[TEST + VALID :]
    for name, part in zip(("test", "valid", "train"), parts, strict=True):
        pairs = [(english, other) for english in part for other in hindi[english][: 1 if name != "train" else None]]
        write(f"hin-{name}", pairs[:PAIRS])
    held_out = {*parts[0], *parts[1]}
    for name, pairs in ("deu", tatoeba("deu")), ("spa", tatoeba("spa")), ("fra", multi30k()):
        usable = [pair for pair in pairs if pair[0] not in held_out]
        chosen = draw.sample(usable, min(len(usable), PARENT_PAIRS + 400))
        write(f"{name}-train", chosen[400:])
        write(f"{name}-valid", chosen[:400])


def translate(train: str, valid: str, minutes: float, out: str, **more: object) -> heed.Run:
    """A run from `other` to English."""
    data = {"train": (f"{train}.other", f"{train}.eng"), "valid": (f"{valid}.other", f"{valid}.eng")}
    return heed.train("translation", **data, minutes=minutes, out=out, seed=1, **more)  # type: ignore[arg-type]


def train_parent(minutes: float) -> None:
    form = {"source_frame": "language", "target_frame": "language", "positions": "fairseq", "norm": "pre"}
    form |= {"output_bias": False, "shared_embeddings": True, "tied_output": True, "scaled_embeddings": True}
    extra = [
        {"files": ["spa-train.other", "spa-train.eng"], "source_language": SPANISH, "target_language": ENGLISH},
        {"files": ["fra-train.other", "fra-train.eng"], "source_language": FRENCH, "target_language": ENGLISH},
        {"files": ["deu-train.eng", "deu-train.other"], "source_language": ENGLISH, "target_language": GERMAN,
         "weight": 0.5},
    ]  # fmt: skip
    languages = {"data.source_language": GERMAN, "data.target_language": ENGLISH, "data.extra": extra}
    sizes = {"model.num_layers": 3, "model.d_model": 256, "model.num_heads": 4, "model.d_ff": 1024}
    settings = {**languages, **sizes, **{f"model.{name}": value for name, value in form.items()}}
    settings |= {"tokenizer.kind": "bpe", "tokenizer.shared": True, "tokenizer.vocab_size": 8_000}
    translate("deu-train", "deu-valid", minutes, "parent", model="transformer", settings=settings)


def trim(run: heed.Run, out: str) -> None:
    """The same run with only the tokens that the Hindi pairs need."""
    texts = [Path(f"hin-train.{side}").read_text(encoding="utf-8").splitlines() for side in ("eng", "other")]
    smaller = trimmed_run(run, [[*texts[0], *texts[1]]])
    with folders.create_whole(out, smaller.config, 0) as (_, part):
        smaller.task.save(part)
        save_weights(smaller.model, part / folders.WEIGHTS)
        write_config(smaller.config, part / folders.CONFIG)
        folders.write_report(part, run.report)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("new_language"))
    parser.add_argument("--parent-minutes", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=4.0)
    options = parser.parse_args()
    print_machine()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    if not Path("parent/report.json").exists():
        write_texts()
        train_parent(options.parent_minutes)
    if not Path("small").exists():
        trim(heed.load("parent"), "small")
    drop = {"data.overlap": "drop"}
    like = {"data.source_language": HINDI, "data.target_language": ENGLISH, "model.like": "mean"}
    rows = list[tuple[str, heed.Run]]()
    for title, parent in ("from nothing", None), ("fine-tuned", "parent"), ("trimmed", "small"):
        settings = drop if parent is None else drop | like | {"tokenizer.from": parent}
        test, out = ("hin-test.other", "hin-test.eng"), title.replace(" ", "-")
        run = translate("hin-train", "hin-valid", options.minutes, out, parent=parent, settings=settings, test=test)
        rows.append((title, run))
    for title, run in rows:
        report = run.report
        scores = {name: report["scores"]["test"][name] for name in ("chrf", "bleu")}
        texts = (f"{name} {s['value']:5.1f} [{s['low']:.1f}, {s['high']:.1f}]" for name, s in scores.items())
        print(f"{title:14} {report['parameters']:>10,} parameters {report['training']['updates']:>6,} updates", *texts)


if __name__ == "__main__":
    main()
