"""Memory and time of a translator of NLLB-600M's shape with random weights: import, trim, predict, three updates.

    HEED_DATA=../shared/data python benchmarks/large_translator.py FOLDER [--layers 12] [--threads 2]

Writes a checkpoint of 615 million parameters into FOLDER (2.5 GB; needs `transformers`), with a tokenizer learned from
Tatoeba and filled up to 256,206 tokens, and runs the commands of docs/tutorials/your-language.md on it, each in a
process of its own. Printed are seconds, peak resident memory, and for training the memory that heed predicted. Pages of
files that the system maps count as resident, though it can take them back.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch
from machine import print_machine
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TOKENS, SPECIAL = 256_206, ["<s>", "<pad>", "</s>", "<unk>"]
LANGUAGES = ["eng_Latn", "hin_Deva", "spa_Latn"]
PAIRS, HELD_OUT = 1_500, 100


def write_pairs(folder: Path) -> None:
    """Write `my.en`, `my.hi`, and validation files."""
    rows = gzip.open(Path(os.environ["HEED_DATA"]) / "tatoeba/hin.txt.gz", "rt", encoding="utf-8").read().splitlines()
    pairs = [row.split("\t")[:2] for row in rows][-PAIRS - HELD_OUT :]
    for name, part in (("my", pairs[:PAIRS]), ("valid", pairs[PAIRS:])):
        for side, language in enumerate(("en", "hi")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in part), encoding="utf-8")


def write_checkpoint(folder: Path, texts: list[Path], layers: int) -> None:
    """Write a checkpoint as `transformers` would."""
    import transformers

    learned = Tokenizer(models.BPE(unk_token="<unk>"))
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    learned.train(
        [*map(str, texts)], trainers.BpeTrainer(vocab_size=8_000, special_tokens=SPECIAL, show_progress=False)
    )
    state = json.loads(learned.to_str())["model"]
    vocabulary: dict[str, int] = state["vocab"]
    for n in range(TOKENS - len(vocabulary) - len(LANGUAGES) - 1):  # one is the mask
        vocabulary[f"\u2581filler{n}"] = len(vocabulary)
    tokenizer = transformers.NllbTokenizer(
        vocab=vocabulary, merges=[*map(tuple, state["merges"])], additional_special_tokens=LANGUAGES,
        src_lang=LANGUAGES[0], tgt_lang=LANGUAGES[1],
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer), d_model=1024, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=16, decoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096,
        decoder_start_token_id=2, max_position_embeddings=1024,
    )  # fmt: skip
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)


def run(*words: str) -> str:
    """Run a command of heed, print its time and peak memory, and return what it wrote."""
    start, log = time.perf_counter(), Path("log.txt")
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "heed", *words], stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    text, seconds = log.read_text(), time.perf_counter() - start
    name = " ".join(words)
    print(
        f"{seconds:6.0f} s  {usage.ru_maxrss / 2**20:5.1f} GiB  heed {name:.90}{'  FAILED' if status else ''}",
        flush=True,
    )
    if status:
        print(text[-2_000:])
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("large_translator"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print_machine()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    write_pairs(Path())
    if not Path("nllb/config.json").exists():
        write_checkpoint(Path("nllb"), [Path("my.en"), Path("my.hi")], options.layers)
    threads = f"training.threads={options.threads}"
    sides = "data.source_language=eng_Latn", "data.target_language=hin_Deva"
    run("import", "nllb", "--out", "whole")
    run("import", "nllb", "--out", "small", "--trim", "my.en", "my.hi")
    for parent in ("small", "whole"):
        run("predict", parent, "A small house.", "--to", "hin_Deva", "--source-language", "eng_Latn", "--length", "20")
        training = (
            "train",
            "translation",
            "my.en",
            "my.hi",
            "--valid",
            "valid.en,valid.hi",
            "--from",
            parent,
            *sides,
            threads,
        )
        plan = run(*training, "training.steps=3", "--dry-run")
        print("\n".join(re.findall(r"^(?:predicted.*|# training\.freeze.*)$", plan, re.MULTILINE)))
        run(
            *training,
            "training.steps=3",
            "evaluation.bootstrap=10",
            "generation.max_length=20",
            "--out",
            f"child-{parent}",
        )


if __name__ == "__main__":
    main()
