"""The first page for newcomers: its commands run, in order."""

import re
import shlex
from pathlib import Path

import pytest

from heed.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "first-steps.md").read_text(encoding="utf-8")
SMALL = "training.steps=2 training.threads=1 training.device=cpu evaluation.bootstrap=5 generation.max_length=12"
DATES = "data.train=40 data.valid=5 data.test=5"
MODEL = "model.d_embedding=8 model.d_hidden=8 model.d_attention=8"


def run(command):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command))
    assert not ended.value.code, command


def test_the_commands_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, count in (("my", 60), ("test", 5)):
        for side in ("en", "yo"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"the {side} of {n}\n" for n in range(count)))
    (tmp_path / "new.en").write_text("a new text\nanother one\n")
    (tmp_path / "my.yaml").write_text(re.search(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    ran = set()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
        for line in block.splitlines():
            command, _, out = line.removeprefix("heed ").partition(" > ")
            name = command.split()[0]
            capsys.readouterr()
            if name == "demo":  # the run that two minutes make, untrained
                run(f"train translation data.name=dates {SMALL} {DATES} {MODEL}")
            elif name == "train":
                run(f"{command} {SMALL} {DATES if 'yaml' in command else MODEL + ' tokenizer.vocab_size=60'}")
            elif name != "compare":  # its commands are tried in test_compare.py
                run(command)
            if out:
                Path(out).write_text(capsys.readouterr().out)
            ran.add(name)
    assert {"demo", "predict", "look", "evaluate", "check", "train", "align", "compare"} == ran
    assert "runs/dates-bahdanau-1" in PAGE and (tmp_path / "runs/dates-bahdanau-1/model.safetensors").exists()
    assert (tmp_path / "look.html").exists() and len((tmp_path / "new.yo").read_text().splitlines()) == 2
    assert len((tmp_path / "my.links").read_text().splitlines()) == 60
