"""Outputs, scores and messages on the files that people have: what is said is true of what was read and written."""

import errno
import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heed
from commands import call
from heed.comparison.entries import Entry
from heed.comparison.results import Resampling, results_of, score_text
from heed.errors import DiskError, HeedWarning
from heed.evaluation.labels import f1_measures
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.significance import shown
from heed.evaluation.text_scores import bleu_tokenizer, text_measure
from heed.serve.served import Served
from heed.show.shown import ShownLook
from heed.storage import disk
from heed.tasks.base.report import interval, points
from heed.tasks.heads.alignment import replace_unknown
from heed.tasks.translation import look_at
from heed.watch.edits import Force
from heed.watch.trace import edit

EARLIER = "an earlier version of it is unchanged"


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def write_file(path):
    disk.write_whole(path, full_disk)


def write_output(path):
    with disk.open_output(path):
        full_disk()


def write_folder(path):
    with disk.write_folder(path, checksums=False):
        full_disk()


def fail_after_renaming(path):
    """The folder's names cannot be flushed, after the new file has its name."""
    real = os.fsync

    def fsync(number):
        return full_disk() if os.path.isdir(f"/proc/self/fd/{number}") else real(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        disk.write_whole(path, lambda part: part.write_text("new"))


def old_file(path):
    path.write_text("old")


def old_folder(path):
    path.mkdir()
    (path / "file").write_text("old")


def dangling_link(path):
    path.symlink_to("elsewhere")


def nothing(path):
    pass


@pytest.mark.parametrize(
    ("before", "write", "is_kept"),
    [
        (nothing, write_file, False),
        (nothing, write_output, False),
        (nothing, write_folder, False),
        (nothing, fail_after_renaming, False),
        (dangling_link, write_file, False),
        (dangling_link, write_output, False),
        (Path.mkdir, write_folder, False),
        (old_file, fail_after_renaming, False),
        (old_file, write_file, True),
        (old_file, write_output, True),
        (old_folder, write_folder, True),
    ],
)
def test_an_earlier_version_is_mentioned_only_where_it_is_unchanged(tmp_path, before, write, is_kept):
    before(path := tmp_path / "output")
    with pytest.raises(DiskError, match=r"the disk is full: .*could not be written") as raised:
        write(path)
    assert (EARLIER in str(raised.value)) is is_kept
    assert not is_kept or "old" in (path if path.is_file() else path / "file").read_text()


def pairs(first):
    return "".join(f"{a}{first} {b}\t{b} {a}{first}\n" for a in "abcde" for b in "stuvwxyz")


TINY = ("model.d_embedding=8", "model.d_hidden=8", "--model", "rnn")


@pytest.mark.parametrize(
    ("files", "valid", "options"),
    [
        (["p.tsv"], [], "data.train=NEW/p.tsv"),
        (["p.tsv"], ["q.tsv"], "data.train=NEW/p.tsv data.valid=NEW/q.tsv"),
        (["p.tsv", "q.tsv"], ["r.tsv"], "'data.train=[NEW/p.tsv,NEW/q.tsv]' data.valid=NEW/r.tsv"),
    ],
)
def test_a_run_resumed_where_its_data_is_elsewhere_names_the_options(
    tmp_path, capsys, monkeypatch, files, valid, options
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    for number, name in enumerate([*files, *valid]):
        (tmp_path / "old" / name).write_text(pairs(number))
    places = [f"old/{name}" for name in files]
    words = ["translation", "--out", "run", "training.steps=1", *TINY, *(f"--valid=old/{name}" for name in valid)]
    assert call(capsys, "train", *words, f"data.train=[{','.join(places)}]")[0] == 0
    Path("old").rename("new")
    code, _, err = call(capsys, "train", "run", "--resume", "training.steps=2")
    command = f"train run --resume {options}"
    assert code == 2 and f"no file '{tmp_path / 'old' / 'p.tsv'}'; if it is elsewhere now" in err
    assert err.rstrip().endswith(f"heed {command}")
    assert call(capsys, *shlex.split(command.replace("NEW", "new")), "training.steps=2")[0] == 0


def bleu(outputs):
    return text_measure("bleu", outputs, ["the cat sat on the mat"] * len(outputs))


@pytest.mark.parametrize(
    ("measure", "low", "high"),
    [
        (share("accuracy", "accuracy", [1.0] * 100), 0.96378, 1.0),
        (share("accuracy", "accuracy", [0.0] * 100), 0.0, 0.03622),
        (share("token_accuracy", "token accuracy", [7.0] * 4, [7.0] * 4), 0.025**0.25, 1.0),
        (share("accuracy", "accuracy", [1.0]), 0.025, 1.0),
        (bleu(["the cat sat on the mat"] * 5), None, None),
        (bleu(["nothing"] * 5), None, None),
        (f1_measures(np.eye(2)[[0, 1] * 4] > 0, np.eye(2)[[0, 1] * 4] > 0)[1], None, None),
    ],
)
def test_scores_at_their_ends_have_an_interval_only_where_statistics_give_one(measure, low, high):
    report = shown([measure])[measure.name]
    found = [report.get("low"), report.get("high")]
    assert found == ([None, None] if low is None else pytest.approx([low, high], abs=1e-5))
    said = "no interval" if low is None else f"{low:.2%}, {high:.2%}"
    assert said in interval(report) and (said in points(report) or low is not None)
    results, _ = results_of({0: [Outcomes(("",) * len(measure), (measure,))]}, [], None, Resampling(100, 1))
    text = score_text(results[0].scores[measure.name], measure)
    assert text.endswith("[no interval]" if low is None else f"[{100 * low:.1f}, {100 * high:.1f}]")


def test_a_mean_over_seeds_that_are_all_perfect_has_the_exact_interval():
    perfect = share("accuracy", "accuracy", [1.0] * 100)
    runs = [Outcomes(("",) * 100, (one,)) for one in (perfect, perfect)]
    other = [Outcomes(("",) * 100, (one,)) for one in (perfect, share("accuracy", "accuracy", [0.0] * 100))]
    results, _ = results_of({0: runs, 1: other}, [], None, Resampling(100, 1))
    alike, unlike = results.values()
    assert score_text(alike.scores["accuracy"], perfect) == "100.0 sd 0.0 [96.4, 100.0]"
    assert score_text(unlike.scores["accuracy"], perfect) == "50.0 sd 70.7 [0.0, 100.0]"  # 50 +- 12.7 * 50, cut off


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A finished classifier; each test loads it again."""
    texts = [(f"{a} {b}", a) for a in ("good", "bad") for b in "abcdefghijklmnop"]
    settings = {"training.steps": 1, "model.d_embedding": 8, "model.d_hidden": 8}
    folder = tmp_path_factory.mktemp("labelled") / "run"
    return heed.train("classification", train=texts, model="rnn", out=folder, settings=settings, quiet=True).folder


@pytest.mark.parametrize(
    ("scores", "ended", "lacking"),
    [
        ([0.5, 0.8, 1.0, 1.0], "time budget used up", ""),  # perfect
        ([0.5, 0.8, 0.9, 0.95], "time budget used up", "746 of about 1,000 updates"),
        ([0.5] * 12, "time budget used up", "746 of about 1,000 updates"),  # only the loss falls: nothing is learnt yet
        ([0.5, 0.8, 0.9, *[0.8] * 9], "time budget used up", ""),  # best long before the end
        ([0.5, 0.9, 0.8], "time budget used up", "746 of about 1,000 updates"),  # too few validations to tell
        ([0.5, 0.8, 0.9], "ended early after 746 updates, because accuracy no longer improved", ""),
        ([0.5, 0.8, 0.9], "no better accuracy in 3 validations", ""),
    ],
)
def test_a_run_that_converged_was_trained_enough(labelled, monkeypatch, scores, ended, lacking):
    run = heed.load(labelled)
    training = run.config.training.model_copy(update={"steps": None, "minutes": 1.0})
    run.config = run.config.model_copy(update={"training": training})
    run.report["training"] |= {"updates": 746, "passes": 20, "ended": ended}
    monkeypatch.setattr("heed.comparison.entries.enough_updates", lambda task: 1_000)
    places = np.linspace(50, 746, len(scores)).astype(int).tolist()
    log = [
        {"event": "validation", "step": step, "loss": 1 - step / 1_000, "accuracy": score}
        for step, score in zip(places, scores, strict=True)
    ]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in log))
    assert Entry("run", (run,)).shortfall == lacking


@pytest.fixture(scope="module")
def meetings(tmp_path_factory):
    """A translator of words whose target and source vocabularies lack all names."""
    pairs = [(f"today I saw {word} here", f"hoy vi a {word.upper()} por aquí") for word in "abcdefghijkl" * 2]
    settings = {"training.steps": 1, "tokenizer.kind": "word", "model.d_embedding": 8, "model.d_hidden": 8}
    folder = tmp_path_factory.mktemp("meetings") / "run"
    return heed.train("translation", train=pairs, model="bahdanau", out=folder, settings=settings, quiet=True)


@pytest.mark.parametrize(
    ("source", "looked_at", "output"),
    [
        ("today I saw Amy here", [0, 0, 4], "hoy Amy Amy"),  # though it looked at common words
        ("today I saw Amy and Bob here", [0, 3, 5], "hoy Amy Bob"),
        ("today I saw Amy and Bob here", [0, 5, 3], "hoy Bob Amy"),  # each by itself
        ("today I saw a here", [0, 2, 3], "hoy saw a"),  # the vocabulary has all
    ],
)
def test_an_unknown_word_of_an_output_is_the_unknown_source_word(meetings, source, looked_at, output):
    task, model = meetings.task, meetings.model
    ids = (*task.input.target_tokenizer.encode("hoy").ids, *[task.input.target_tokenizer.special.unknown] * 2)
    written = replace(task.head.translate(task, model, [source], max_length=1)[0][0], ids=ids)
    forced = [Force("cross", position=row, weights=[0.0] * key + [1.0]) for row, key in enumerate(looked_at)]
    with edit(model, *forced):
        assert replace_unknown(task, model, source, written).text == output
        look = look_at(task, model, source, target=written)
    words = output.split()[1:]
    assert look.target == output and look.maps[0].query.labels == ("hoy", *(f"?{word}" for word in words), "end")
    said = f"unknown words of the output, replaced by source words and marked ?: {' '.join(dict.fromkeys(words))}"
    drawn = ShownLook(look, steps=False)
    assert said in look.notes and said in drawn.text(200) and f"?{words[0]}" in drawn.html()


@pytest.mark.parametrize(
    ("references", "mecab", "tokenizer"),
    [
        (["the cat sat", "今日は"], False, "13a"),
        (["今天天气很好。", "我们用 Python 写代码"], False, "zh"),
        (["今日はいい天気です", "私はテレビを見る"], False, "char"),
        (["今日はいい天気です", "私はテレビを見る"], True, "ja-mecab"),
        (["วันนี้อากาศดี", "ฉันชอบ tea"], True, "char"),
        (["ຂ້ອຍ", "ខ្ញុំ", "ကျွန်တော်"], False, "char"),
        (["오늘 날씨가 좋다", "сегодня хорошо"], False, "13a"),
        (["1 + 1 = 2"], False, "13a"),
        ([], False, "13a"),
    ],
)
def test_bleu_splits_the_script_of_the_training_references(monkeypatch, references, mecab, tokenizer):
    monkeypatch.setattr("heed.evaluation.text_scores.find_spec", lambda name: object() if mecab else None)
    assert bleu_tokenizer(references) == tokenizer


def test_bleu_of_chinese_is_said_kept_and_the_same_everywhere(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = [f"{a}今天{b}去{c}" for a in "我你他她" for b in "早晚不也" for c in "北京 上海 学校".split()]
    rows = [f"{one} x\t{one}" for one in sentences]
    Path("p.tsv").write_text("\n".join(rows[:40]))
    Path("t.tsv").write_text("\n".join(rows[40:]))
    words = ("p.tsv", "--test", "t.tsv", "--out", "run", "data.valid=8", "training.steps=1", *TINY)
    code, out, err = call(capsys, "train", "translation", *words)
    assert code == 0, err
    assert "BLEU: sacrebleu's tokenizer zh (evaluation.bleu_tokenize)" in out + err
    run = heed.load("run")
    assert run.config.evaluation.bleu_tokenize == "zh"
    perfect = [replace(one, text=pair.target) for pair in run.examples("test") for one in run.predict([pair.source])]
    assert run.outcomes(run.examples("test"), perfect).measure("bleu").score() > 99.9
    scores = run.report["scores"]["test"]
    assert "tok:zh" in scores["bleu"]["signature"]
    assert all("tok:zh" in one["bleu"]["signature"] for one in scores["baselines"].values())
    Path("q.tsv").write_text("a b\tthe cat\nc d\ta dog\n")
    code, out, err = call(capsys, "evaluate", "run", "q.tsv")
    assert code == 0 and "|tok:zh|" in out
    shutil.copytree("run", "old")
    settings = Path("old/config.yaml").read_text()
    Path("old/config.yaml").write_text(settings.replace("  bleu_tokenize: zh\n", ""))
    with pytest.warns(HeedWarning, match=r"config\.yaml is altered"):
        old = heed.load("old", force=True)
    assert "tok:13a" in old.outcomes(run.examples("test"), perfect).measure("bleu").note
    compared = heed.compare([old, run], resamples=20).text(1_000)
    assert "The runs tokenize differently for BLEU (13a, zh): it is of zh." in compared


LONG = " ".join(["good a"] * 20)


def test_what_a_classifier_does_not_read_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{word} {letter}\t{word}" for word in ("good", "bad") for letter in "abcdefghijklmnop"]
    Path("t.tsv").write_text("text\tlabel\n" + "\n".join(rows))
    words = ("t.tsv", "--out", "run", "data.max_length=10", "tokenizer.kind=word", "training.steps=1", *TINY)
    assert call(capsys, "train", "classification", *words)[0] == 0
    Path("in.txt").write_text(f"good a\n\n{LONG}\nbad b\n{LONG} b\n")
    code, out, err = call(capsys, "predict", "run", "--json", "--input", "in.txt")
    assert code == 0 and [json.loads(line).get("unread") for line in out.splitlines()] == [None, None, 30, None, 31]
    said = "2 inputs are longer than the model reads (data.max_length); tokens not read: "
    assert f"{said}30 of 'in.txt' line 3, 31 of 'in.txt' line 5" in err
    code, out, err = call(capsys, "predict", "run", LONG)
    assert "1 input is longer than the model reads (data.max_length); tokens not read: 30 of the text" in err
    assert "not read" not in call(capsys, "predict", "run", "good a")[2]
    run = heed.load("run")
    assert [one.unread for one in run.predict(["good a", LONG])] == [0, 30]
    served = Served("run", Path("run"), device="cpu")
    assert served.predict([LONG], {})[0]["unread"] == 30 and "unread" not in served.predict(["good a"], {})[0]


def test_what_a_summariser_does_not_read_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"document": f"{a} {b} {a}", "summary": a} for a in ("one", "two", "three") for b in "abcdefghijkl"]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("s.jsonl", "--out", "run", "data.max_source=10", "tokenizer.kind=word", "training.steps=1")
    assert call(capsys, "train", "summarisation", *words, *TINY)[0] == 0
    code, out, err = call(capsys, "predict", "run", "--json", LONG, "one a one")
    assert code == 0 and [json.loads(line).get("unread") for line in out.splitlines()] == [30, None]
    assert "1 input is longer than the model reads (data.max_source); tokens not read: 30 of text 1" in err
    assert heed.load("run").predict(LONG).unread == 30
