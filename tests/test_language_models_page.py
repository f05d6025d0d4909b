"""The page on language models: the commands that train and score run, in order."""

import re
import shlex
from pathlib import Path

import pytest

from heed.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "language-models.md").read_text(encoding="utf-8")
SMALL = ["training.steps=2", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=5", "data.context=16"]
TINY = {
    "gpt": ["model.d_model=8", "model.num_heads=2", "model.num_layers=1", "training.batch_tokens=64"],
    "rnn": ["model.d_embedding=8", "model.d_hidden=8", "training.batch_tokens=64"],
}


def commands():
    trains_and_scores = PAGE.split("heed predict RUN")[0].rpartition("```sh")[0]
    for block in re.findall(r"```sh\n(.*?)```", trains_and_scores, flags=re.DOTALL):
        for line in block.splitlines():
            yield shlex.split(line, comments=True)[1:]


def test_the_commands_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_texts").mkdir()
    for n in range(30):
        (tmp_path / "my_texts" / f"{n}.txt").write_text(f"I love eating pizza with my friend {n}.\n" * 3)
    (tmp_path / "book.txt").write_text("".join(f"The old man of number {n} sees a house.\n" for n in range(40)))
    (tmp_path / "other.txt").write_text("A quick fox, quite new; it loves pizza!\n" * 40)
    for words in commands():
        if words[0] == "compare":  # of runs on the same documents
            words = [word.replace("book", "again") for word in words]
            main_ended(["train", "language_modelling", "my_texts/", "--out", "again", *SMALL, *TINY["gpt"]])
        more = [*SMALL, *([] if "--from" in words else TINY["rnn" if "rnn" in words else "gpt"])]
        main_ended([*words, *(more if words[0] == "train" else [])])
    shown = capsys.readouterr().out
    assert "bits per byte" in shown and "every token is scored once" in shown
    assert {"shelf", "book", "further"} <= {path.name for path in tmp_path.iterdir()}


def main_ended(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code, words
