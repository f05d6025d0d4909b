"""The first page for newcomers and the page on few pairs: their commands run, in order, and do what they say."""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

import heed
from heed.cli import main
from heed.tasks import check_config

PAGE = (Path(__file__).parent.parent / "docs" / "low-resource.md").read_text(encoding="utf-8")
SMALL = ["training.steps=2", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=5"]
SMALL_PAIRS = ["generation.max_length=8", "tokenizer.vocab_size=120"]
FIRST_STEPS = (Path(__file__).parent.parent / "docs" / "first-steps.md").read_text(encoding="utf-8")
TINY = "training.steps=2 training.threads=1 training.device=cpu evaluation.bootstrap=5 generation.max_length=12"
DATES = "data.train=40 data.valid=5 data.test=5"
MODEL = "model.d_embedding=8 model.d_hidden=8 model.d_attention=8"
NOUNS = ["cat", "dog", "house", "book", "friend", "apple"]


def called(words):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(words) if isinstance(words, str) else words)
    assert not ended.value.code, words


def sentences(count, language):
    return [f"{language} {NOUNS[n % 6]} {NOUNS[n // 6 % 6]} {n}" for n in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's files, and its commands run one after the other."""
    folder = tmp_path_factory.mktemp("page")
    corpora = {"my": 60, "dev": 8, "test": 5, "bible": 30, "big": 60, "law": 30}
    for name, count in corpora.items():
        for ending in ("en", "fr" if name == "big" else "yo"):
            lines = [f"{name} {line}" for line in sentences(count, ending)]
            (folder / f"{name}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    labels = [f"{'good' if n % 2 else 'bad'}\t{line}\n" for n, line in enumerate(sentences(40, "en"))]
    (folder / "reviews.tsv").write_text("label\ttext\n" + "".join(labels), encoding="utf-8")
    mono = [*sentences(20, "yo"), "", "  ", *sentences(5, "yo"), ""]
    (folder / "mono.yo").write_text("\n".join(mono) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line)[1:]
                small = SMALL if words[0] == "train" else []
                if words[:2] == ["train", "translation"]:
                    small = [*small, *SMALL_PAIRS]
                if words[0] == "train" and "--from" not in words:
                    small = [*small, "model.size=tiny"]
                called([*words, *small])
    return folder


def report(folder, run):
    return json.loads((folder / run / "report.json").read_text(encoding="utf-8"))


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")


def test_back_translations_stand_line_by_line_beside_the_text(folder):
    written, mono = lines(folder / "bt.en"), lines(folder / "mono.yo")
    assert len(written) == len(mono) == 29
    assert all(not text for text, line in zip(written, mono, strict=True) if not line.strip())
    counts = report(folder, "forth")["data"]["extra bt.en"]
    assert counts["read"] == 28 and counts["filtered"]["both sides blank"] == 3
    assert counts["examples"] + sum(counts["filtered"].values()) == 28
    assert (counts["weight"], counts["tag"]) == (1.0, "<bt>")
    assert "<bt>" in heed.load(folder / "forth").task.input.source_tokenizer.tags


def test_back_is_the_reverse_of_the_same_pairs(folder):
    back, forth = (heed.load(folder / name).task.splits.examples for name in ("back", "forth"))
    for split in ("train", "valid"):
        assert [(p.target, p.source) for p in back[split]] == [(p.source, p.target) for p in forth[split]]


def test_a_weighted_corpus_is_counted_in_its_run(folder):
    counts = report(folder, "mixed")["data"]["extra bible.en"]
    assert (counts["examples"], counts["weight"], counts["tag"]) == (30, 0.5, None)


def test_children_started_from_their_parents(folder):
    child, law = report(folder, "child")["parent"], report(folder, "law")["parent"]
    assert Path(child["run"]).name == "parent" and child["new"] == []
    assert child["tokens"]["source_embedding.weight"]["taken"] < child["tokens"]["source_embedding.weight"]["of"]
    assert all(tokens["taken"] == tokens["of"] for tokens in law["tokens"].values())


def test_a_classifier_took_the_encoder_of_the_translator(folder):
    taken = report(folder, "labels")["parent"]
    assert taken["whole"] and all(name.startswith("body.encoder.") for name in taken["whole"])
    assert not any(name.startswith("body.") for name in taken["new"])
    (tokens,) = taken["tokens"].values()
    assert tokens["taken"] == tokens["of"]


def test_the_ensemble_wrote_what_python_writes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    both = heed.ensemble(["one", "two"])
    expected = [prediction.text for prediction in both.predict(lines(folder / "test.en")[:-1])]
    assert lines(folder / "test.out") == [*expected, ""]


def test_the_configuration_is_valid():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    config = check_config(yaml.safe_load(block), "low-resource.md")
    assert [corpus.tag for corpus in config.data.extra] == [None, "<bt>"]


def test_the_commands_of_the_first_page_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, count in (("my", 60), ("test", 5)):
        for side in ("en", "yo"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"the {side} of {n}\n" for n in range(count)))
    (tmp_path / "new.en").write_text("a new text\nanother one\n")
    (tmp_path / "my.yaml").write_text(re.search(r"```yaml\n(.*?)```", FIRST_STEPS, flags=re.DOTALL)[1])
    ran = set()
    for block in re.findall(r"```sh\n(.*?)```", FIRST_STEPS, flags=re.DOTALL):
        for line in block.splitlines():
            command, _, out = line.removeprefix("heed ").partition(" > ")
            name = command.split()[0]
            capsys.readouterr()
            if name == "demo":  # the run that two minutes make, untrained
                called(f"train translation data.name=dates {TINY} {DATES} {MODEL}")
            elif name == "train":
                called(f"{command} {TINY} {DATES if 'yaml' in command else MODEL + ' tokenizer.vocab_size=60'}")
            elif name != "compare":  # its commands are tried in test_compare.py
                called(command)
            if out:
                Path(out).write_text(capsys.readouterr().out)
            ran.add(name)
    assert {"demo", "predict", "look", "evaluate", "check", "train", "align", "compare"} == ran
    assert "runs/dates-bahdanau-1" in FIRST_STEPS and (tmp_path / "runs/dates-bahdanau-1/model.safetensors").exists()
    assert (tmp_path / "look.html").exists() and len((tmp_path / "new.yo").read_text().splitlines()) == 2
    assert len((tmp_path / "my.links").read_text().splitlines()) == 60
