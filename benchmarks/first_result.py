"""What the defaults give a new user: small real sets, a few minutes, one thread, a quiet machine or a busy one.

HEED_DATA=DATA python benchmarks/first_result.py [--minutes 1,3] [--cases pairs,book] [--busy 1]

Each case is one `heed train` with no setting but the files and the minutes. A line gives the score on the test set, the
best baseline, the share of the budget that was used, and the updates.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import multiprocessing
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import print_machine

DATA = Path(os.environ.get("HEED_DATA", "../shared/data"))
ALL = 10**9


def lines_of(name: str) -> list[str]:
    """The lines of a compressed file of the data folder."""
    opened = lzma.open if name.endswith(".xz") else gzip.open
    with opened(DATA / name, "rt", encoding="utf-8") as file:
        return file.read().removesuffix("\n").split("\n")


@dataclass(frozen=True)
class Case:
    """A task and its files, made from real data.

    `make` writes the files into a folder, with that many training examples, and returns the arguments
    of `heed train` that name them.
    """

    name: str
    task: str
    score: str  # of the report
    make: Callable[[Path, int], list[str]]
    count: int = ALL  # training examples
    minutes: float | None = None  # budget of its bar


def written(folder: Path, name: str, lines: Sequence[str]) -> str:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def drawn(items: Sequence[Any], count: int) -> list[Any]:
    return [*items] if count >= len(items) else random.Random(0).sample([*items], count)


def tatoeba(folder: Path, count: int) -> list[str]:
    """Spanish and English sentences, 1,000 for testing."""
    pairs = ["\t".join(line.split("\t")[:2]) for line in lines_of("tatoeba/spa.txt.gz")]
    random.Random(0).shuffle(pairs)
    test, rest = pairs[:1_000], pairs[1_000:]
    train, held = written(folder, "train.tsv", drawn(rest, count)), written(folder, "test.tsv", test)
    return [train, "--test", held]


def multi30k(folder: Path, count: int) -> list[str]:
    pairs = [*zip(lines_of("multi30k/train.de.gz"), lines_of("multi30k/train.en.gz"), strict=True)]
    some = drawn(pairs, count)
    files = [written(folder, f"train.{side}", [pair[n] for pair in some]) for n, side in enumerate(("de", "en"))]
    for split, name in (("valid", "val"), ("test", "test_2016_flickr")):
        for side in ("de", "en"):
            files += [f"--{split}", str(DATA / f"multi30k/{name}.{side}.gz")]
    return files


def shakespeare(folder: Path, count: int) -> list[str]:
    text = "\n".join(lines_of("lm/tinyshakespeare/input.txt.gz"))
    cut = len(text) * 95 // 100
    train, test = written(folder, "train.txt", [text[: min(cut, count)]]), written(folder, "test.txt", [text[cut:]])
    return [train, "--test", test, "tokenizer.kind=char"]


def book(folder: Path, count: int) -> list[str]:
    """Wikipedia in place of a book, 2.4 million characters."""
    text = "\n".join(lines_of("lm/wikitext2_raw/wiki.valid.raw.gz") + lines_of("lm/wikitext2_raw/wiki.test.raw.gz"))
    cut = len(text) * 98 // 100
    train, test = written(folder, "train.txt", [text[: min(cut, count)]]), written(folder, "test.txt", [text[cut:]])
    return [train, "--test", test, "tokenizer.kind=char"]


def _tsv(line: str) -> str:
    label, _, text = line.partition(" ")
    return f"{text}\t{label}"


def sst(name: str) -> Callable[[Path, int], list[str]]:
    def make(folder: Path, count: int) -> list[str]:
        split = {part: [*map(_tsv, lines_of(f"sentiment/sst/stsa.{name}.{part}.gz"))] for part in ("train", "test")}
        train = written(folder, "train.tsv", drawn(split["train"], count))
        return [train, "--test", written(folder, "test.tsv", split["test"])]

    return make


def mr(folder: Path, count: int) -> list[str]:
    lines = [*map(_tsv, lines_of("sentiment/mr/rt-polarity.all.gz"))]
    random.Random(0).shuffle(lines)
    train, test = lines[1_000:], lines[:1_000]
    return [written(folder, "train.tsv", drawn(train, count)), "--test", written(folder, "test.tsv", test)]


def phrases(folder: Path, count: int) -> list[str]:
    """Phrases of one to five words, cut from MR."""
    rng, found = random.Random(1), {}
    for line in lines_of("sentiment/mr/rt-polarity.all.gz"):
        label, _, text = line.partition(" ")
        words, length = text.split(), rng.randint(1, 5)
        start = rng.randrange(max(1, len(words) - length))
        found[" ".join(words[start : start + length])] = label
    lines = [f"{text}\t{label}" for text, label in found.items()]
    rng.shuffle(lines)
    train = written(folder, "train.tsv", drawn(lines[1_000:], count))
    return [train, "--test", written(folder, "test.tsv", lines[:1_000])]


def acts(folder: Path, count: int) -> list[str]:
    """The act of each turn of daily dialogues."""
    base = "dialogue/xdailydialog/1k_part_data/dialogues_"
    lines = []
    for text, act in zip(lines_of(f"{base}text_En.txt.gz"), lines_of(f"{base}action.txt.gz"), strict=True):
        turns = [turn.strip() for turn in text.split("__eou__") if turn.strip()]
        lines += [f"{turn}\t{one}" for turn, one in zip(turns, act.split(), strict=False)]
    random.Random(0).shuffle(lines)
    train = written(folder, "train.tsv", drawn(lines[1_000:], count))
    return [train, "--test", written(folder, "test.tsv", lines[:1_000])]


def requests(folder: Path, count: int) -> list[str]:
    """The domain and the acts of a user's turn, 77 frequent labels of dialogues with a service."""
    turns: dict[str, dict[str, str]] = {}
    for split in ("train", "test"):
        each = turns[split] = {}
        for line in lines_of(f"dialogue/sgd/sgd.{split}.jsonl.gz"):
            dialogue = json.loads(line)
            if len(services := dialogue["services"]) == 1:
                domain = services[0].split("_")[0]
                said = [one for one in dialogue["turns"] if one["speaker"] == "USER"]
                each |= {one["utterance"]: f"{domain}/{'+'.join(one['acts'])}" for one in reversed(said)}
    counts, tested = (Counter(turns[split].values()) for split in ("train", "test"))
    labels = [label for label, number in counts.most_common() if number >= 60 and tested[label] >= 10][:77]
    rng, lines = random.Random(1), dict[str, list[str]]()
    for split, most in (("train", 130), ("test", 40)):
        of = {label: [text for text, own in turns[split].items() if own == label] for label in labels}
        some = [(text, label) for label in labels for text in rng.sample(of[label], min(len(of[label]), most))]
        lines[split] = [f"{text}\t{label}" for text, label in some]
    rng.shuffle(lines["train"])
    train = written(folder, "train.tsv", drawn(lines["train"], count))
    return [train, "--test", written(folder, "test.tsv", lines["test"])]


def imdb(folder: Path, count: int) -> list[str]:
    train, test = ([*lines_of(f"documents/imdb/imdb.{name}.tsv.xz")] for name in ("train", "test"))
    few = drawn(test[1:], 2_000)
    return [
        written(folder, "train.tsv", [train[0], *drawn(train[1:], count)]),
        "--test",
        written(folder, "test.tsv", [test[0], *few]),
    ]


def conll(train: str, test: str) -> Callable[[Path, int], list[str]]:
    def make(folder: Path, count: int) -> list[str]:
        sentences = "\n".join(lines_of(train)).split("\n\n")
        some = [f"{one}\n" for one in drawn(sentences, count)]
        return [written(folder, "train.conll", some), "--test", written(folder, "test.conll", lines_of(test))]

    return make


def photos(folder: Path, count: int) -> list[str]:
    """Pictures of four classes of CIFAR-10 in folders; 400 for testing."""
    for split, most in (("train", count // 4), ("test", 100)):
        taken: dict[str, int] = {}
        with tarfile.open(DATA / f"images/cifar10_jpg/cifar10_{split}.tar.gz") as archive:
            members = [m for m in archive.getmembers() if m.isfile()]
            random.Random(0).shuffle(members)
            for member in members:
                label = Path(member.name).parent.name
                if label in ("cat", "ship", "horse", "truck") and taken.get(label, 0) < most:
                    taken[label] = taken.get(label, 0) + 1
                    path = folder / split / label / Path(member.name).name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
    return [str(folder / "train"), "--test", str(folder / "test")]


def dialogue(folder: Path, count: int) -> list[str]:
    conversations = lines_of("dialogue/sgd/sgd.train.jsonl.gz")
    train = written(folder, "train.jsonl", drawn(conversations, count))
    return [train, "--test", written(folder, "test.jsonl", lines_of("dialogue/sgd/sgd.test.jsonl.gz")[:100])]


def subjects(folder: Path, count: int) -> list[str]:
    mails = lines_of("summarization/aeslc/aeslc.train.jsonl.gz")
    train = written(folder, "train.jsonl", drawn(mails, count))
    test = written(folder, "test.jsonl", lines_of("summarization/aeslc/aeslc.test.jsonl.gz")[:300])
    return [train, "--test", test, "data.columns.source=body", "data.columns.target=subject"]


CASES = [
    Case("pairs", "translation", "chrf", tatoeba, 3_000, 4),
    Case("multi30k", "translation", "bleu", multi30k, minutes=10),
    Case("shakespeare", "language_modelling", "bits_per_byte", shakespeare, minutes=8),
    Case("book", "language_modelling", "bits_per_byte", book, minutes=8),
    Case("sst2", "classification", "accuracy", sst("binary"), minutes=3),
    Case("sst1", "classification", "accuracy", sst("fine"), minutes=3),
    Case("mr", "classification", "accuracy", mr, minutes=3),
    Case("phrases", "classification", "accuracy", phrases, minutes=3),
    Case("acts", "classification", "accuracy", acts, minutes=3),
    Case("requests", "classification", "accuracy", requests, minutes=3),
    Case("imdb", "classification", "accuracy", imdb, 2_000, 3),
    Case(
        "wnut17",
        "tagging",
        "entity_f1",
        conll("ner/wnut17/wnut17train.conll.gz", "ner/wnut17/emerging.dev.conll.gz"),
        minutes=2,
    ),
    Case("btc", "tagging", "entity_f1", conll("ner/btc/g.conll.gz", "ner/btc/b.conll.gz"), minutes=2),
    Case("photos", "images", "accuracy", photos, 880, 3),
    Case("dialogue", "dialogue", "chrf", dialogue, 2_000, 4),
    Case("subjects", "summarisation", "rouge1", subjects, minutes=4),
]


def linear_baseline(folder: Path) -> float:
    """Accuracy of scikit-learn's TF-IDF and LinearSVC (C by cross-validation)."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    def read(name: str) -> tuple[list[str], list[str]]:
        lines = (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        header = lines[0].split("\t") if "label" in lines[0].split("\t") else None
        rows = [line.split("\t") for line in (lines[1:] if header else lines)]
        text, label = (header.index("text"), header.index("label")) if header else (0, 1)
        return [row[text] for row in rows], [row[label] for row in rows]

    (texts, labels), (held, true) = read("train.tsv"), read("test.tsv")
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), LinearSVC())
    search = GridSearchCV(model, {"linearsvc__C": [0.1, 0.3, 1, 3, 10]}, cv=5)
    return float(search.fit(texts, labels).score(held, true))


def _spin() -> None:
    while True:
        pass


def run(case: Case, minutes: float, work: Path) -> str:
    """Train a case with the defaults, as a user would; a line about its report."""
    folder = Path(tempfile.mkdtemp(dir=work))
    arguments = case.make(folder, case.count)
    out = folder / "run"
    command = [sys.executable, "-m", "heed", "train", case.task, *arguments, "--minutes", f"{minutes:g}"]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "training.seed=1", "--out", str(out)], capture_output=True, text=True, check=False, cwd=folder
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    scores, training = report["scores"]["test"], report["training"]
    one, share = scores[case.score], 100.0 if case.task in ("classification", "tagging", "images") else 1.0
    found = [
        values[case.score]["value"] * share for values in scores.get("baselines", {}).values() if case.score in values
    ]
    best = min if case.score == "bits_per_byte" else max
    if case.task == "classification":
        found.append(100.0 * linear_baseline(folder))
    baseline = f"{best(found):6.2f}" if found else "      "
    scored = f"{one['value'] * share:6.2f} [{one['low'] * share:.2f}, {one['high'] * share:.2f}]"
    warned = "  (warned)" if "expect little" in done.stdout + done.stderr else ""
    return (
        f"{case.name:12} {minutes:5.1f} min  {scored}  baseline {baseline}  used {seconds / (60.0 * minutes):4.0%}  "
        f"{training['updates']:6,} updates  {_size(out)}{warned}"
    )


def _size(out: Path) -> str:
    import yaml

    return str(yaml.safe_load((out / "config.yaml").read_text(encoding="utf-8"))["model"]["size"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", help="budgets, such as 1,3,10; by default that of each case's bar")
    parser.add_argument("--cases", help="names, such as pairs,book")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print_machine()
    others = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(options.busy)]
    for other in others:
        other.start()

    with tempfile.TemporaryDirectory() as work:
        names = options.cases.split(",") if options.cases else [case.name for case in CASES]
        for case in CASES:
            if case.name in names:
                budgets = map(float, options.minutes.split(",")) if options.minutes else [case.minutes or 3.0]
                for minutes in budgets:
                    print(run(case, minutes, Path(work)), flush=True)


if __name__ == "__main__":
    main()
