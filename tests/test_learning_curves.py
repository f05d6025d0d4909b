"""Learning curves: nested parts of the training examples, models trained once on each, drawn with their intervals."""

import csv
import io
import json
import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import heed
from commands import call, compare_here
from contract import write_lines
from heed.comparison.training import plan_runs, read_sizes, split_models
from heed.config import read_config
from heed.data.examples import Sentence, Text
from heed.data.splits import drawing_order
from heed.errors import ConfigError
from heed.tasks import check_config, task_class
from heed.training.progress import Quiet

FIELDS = {"training.threads": 1, "training.warmup": 0, "tokenizer.min_count": 1, "evaluation.bootstrap": 50}
SMALL = ":d_embedding=8:d_hidden=8"
MODELS = [f"rnn{SMALL}", f"rnn{SMALL}:cell=gru"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learning")
    lines = [f"{'pos' if i % 3 else 'neg'}\t{'good' if i % 3 else 'bad'} w{i % 7} film" for i in range(90)]
    for name, part in (("train", lines[:60]), ("valid", lines[60:72]), ("test", lines[72:])):
        write_lines(folder / f"{name}.tsv", "label\ttext", *part)
    return folder


def asked(folder, **settings):
    """Keyword arguments of `heed.compare` for small runs."""
    files = {name: folder / f"{name}.tsv" for name in ("train", "valid", "test")}
    return {"steps": 6, "device": "cpu", "quiet": True, "settings": FIELDS | settings, "resamples": 50, **files}


@pytest.fixture(scope="module")
def here():
    """Runs train in this process, which is faster; returns the folders of those that were trained."""
    trained = []
    with pytest.MonkeyPatch.context() as patch:
        compare_here(patch, Quiet, trained)
        yield trained


@pytest.fixture(scope="module")
def curves(folder, here):
    made = heed.compare(
        "classification", models=MODELS, train_size=[10, 30, "all"], seeds=2, out=folder / "out", **asked(folder)
    )
    return made


# --- what is planned


def test_sizes_are_read_and_ordered():
    assert read_sizes("1000,100,all") == [100, 1000, None]
    assert read_sizes(["all", 30]) == [30, None] and read_sizes(7) == [7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("100,some", "'some' is not a number of training examples"),
        ("0", "'0' is not a number"),
        ("1.5", "'1.5' is not a number"),
        ("100,all,100", "names 100 twice"),
        ("", "'' is not a number"),
    ],
)
def test_what_a_size_may_not_be(given, message):
    with pytest.raises(ConfigError, match=f"train_size:? {message}"):
        read_sizes(given)


def planned(models, seeds=1, sizes=(), **sections):
    values = {"task": "classification", "data": {"train": ["a.tsv"]}, "training": {"steps": 3}, **sections}
    return plan_runs(check_config(values, "test"), split_models(models), seeds, sizes)


def test_seeds_are_outermost_and_sizes_rise():
    later = planned("rnn,cnn", 2, training={"steps": 3, "seed": 5})
    assert [run.name for run in later] == ["rnn-seed5", "cnn-seed5", "rnn-seed6", "cnn-seed6"]
    assert [run.config.training.seed for run in later] == [5, 5, 6, 6]
    runs = planned("rnn,cnn", 2, [10, None])
    first = ["rnn-n10-seed1", "cnn-n10-seed1", "rnn-seed1", "cnn-seed1"]
    assert [run.name for run in runs[:4]] == first and runs[4].name == "rnn-n10-seed2"
    assert [run.train_size for run in runs[:4]] == [10, 10, None, None]
    assert runs[0].config.training.seed == 1 and runs[4].config.training.seed == 2


def test_one_model_on_several_sizes_is_a_comparison_and_on_one_is_not():
    assert [run.name for run in planned("rnn", 1, [10, 20])] == ["rnn-n10-seed1", "rnn-n20-seed1"]
    with pytest.raises(ConfigError, match="a comparison takes two or more, or several train_size"):
        planned("rnn", 1, [10])
    with pytest.raises(ConfigError, match=r"train_size and training\.train_size=5 both set the number"):
        planned("rnn,cnn", 1, [10], training={"steps": 3, "train_size": 5})
    with pytest.raises(ConfigError, match=r"'training.train_size' in .* must be the same for all"):
        planned("rnn,cnn:training.train_size=5")


def test_what_the_user_left_open_stays_open():
    """Defaults that depend on the data or on a parent are chosen by the run, as `heed train` would."""
    config = planned("rnn,cnn")[0].config
    assert config.model.model_fields_set == {"name"}
    assert "learning_rate" not in config.training.model_fields_set
    sized = planned("rnn,cnn", model={"size": "tiny"})[0].config
    assert sized.model.size == "tiny"


def test_a_row_may_start_from_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain, named, alone, field = planned("rnn,rnn@runs/parent:d_hidden=8,@runs/parent,rnn:from=runs/parent")
    assert plain.config.model.from_ is None and plain.label == "rnn"
    assert named.config.model.from_ == str(tmp_path / "runs/parent") and named.config.model.name == "rnn"
    assert named.config.model.model_extra == {"d_hidden": 8}
    assert "name" not in alone.config.model.model_fields_set and alone.label == "@runs/parent"
    assert "size" not in named.config.model.model_fields_set  # else the parent's sizes would not be taken
    assert field.config.model.from_ == named.config.model.from_


def test_a_row_may_be_given_a_name():
    runs = planned("plain=rnn,wide = rnn:d_hidden=64,child=rnn@runs/a=b,cnn")
    assert [run.label for run in runs] == ["plain", "wide", "child", "cnn"]
    assert [run.name for run in runs] == ["plain-seed1", "wide-seed1", "child-seed1", "cnn-seed1"]
    assert runs[1].config.model.model_extra == {"d_hidden": 64}
    assert runs[2].config.model.from_.endswith("runs/a=b") and runs[0].config.model.name == "rnn"
    with pytest.raises(ConfigError, match="models names 'a' twice"):
        planned("a=rnn,a=cnn")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("rnn,rnn@last", "name the folder of the run that 'rnn@last' starts from"),
        ("rnn,rnn@", "name the folder of the run that 'rnn@' starts from"),
        ("rnn,:d_hidden=3", "':d_hidden=3' names no model"),
        ("rnn@a/b,rnn@a_b", "'rnn@a/b' and 'rnn@a_b' would share the folder"),
    ],
)
def test_what_a_row_may_not_be(models, message):
    with pytest.raises(ConfigError, match=message):
        planned(models)


# --- what comes of it


def test_every_model_has_a_point_for_every_size_and_the_scores_are_those_of_the_runs(curves, folder):
    assert curves.models == tuple(MODELS) and [size.label for size in curves.sizes] == ["10", "30", "60 (all)"]
    assert len(curves.rows) == 6 and curves.split == "test" and len(curves.examples) == 18
    for row in curves.rows:
        runs = [heed.load(path) for path in row["folders"].split()]
        scores = [run.evaluate("test")["accuracy"]["value"] for run in runs]
        assert row["accuracy"] == pytest.approx(sum(scores) / 2)
        assert (row["accuracy_min"], row["accuracy_max"]) == pytest.approx((min(scores), max(scores)))
        if row["accuracy_low"] is not None:
            assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
        counts = {run.report["data"]["train"]["examples"] for run in runs}
        assert counts == {row["train_examples"]} and row["seeds"] == "1 2"
        assert row["updates"] == 6
    assert {row["train_size"] for row in curves.rows} == {10, 30, "all"}


def test_subsets_are_nested_and_shared_by_the_models_of_a_seed(curves, folder):
    def texts(name):
        return {text.text + text.origin for text in heed.load(folder / "out" / name).task.splits.examples["train"]}

    first, second = (re.sub(r"[^\w.=+-]", "_", model) for model in MODELS)
    assert texts(f"{first}-n10-seed1") < texts(f"{first}-n30-seed1") < texts(f"{first}-seed1")
    assert texts(f"{first}-n10-seed1") == texts(f"{second}-n10-seed1") != texts(f"{first}-n10-seed2")


def test_differences_are_within_a_size(curves):
    for size in (10, 30, "all"):
        rows = [row for row in curves.rows if row["train_size"] == size]
        best = max(rows, key=lambda row: row["accuracy"])
        for row in rows:
            assert row["accuracy_best"] == best["run"] and row["accuracy_baseline"] == MODELS[0]
            if row is not best:
                assert row["accuracy_minus_best"] == pytest.approx(row["accuracy"] - best["accuracy"])
                assert 0 < row["accuracy_p_best"] <= 1


def test_the_text_draws_the_curves_and_says_what_the_sizes_are(curves):
    text = curves.text(100)
    lines = text.splitlines()
    assert "from left to right: training texts 10, 30, 60 (all)" in lines
    assert [line.split()[0].startswith("rnn") for line in lines if " -> " in line] == [True, True]
    assert not any("\u2800" <= letter <= "\u28ff" for letter in text)
    assert "scores by training texts, on 18 test examples" in text
    assert "means over 2 seeds" in text and "a smaller part is contained in a larger one" in text
    assert all(len(line) <= 100 for line in lines[:20])


def test_the_image_has_a_whisker_and_a_dot_for_each_point_and_names_every_model(curves):
    image = ElementTree.fromstring(curves.svg())
    kind = "{http://www.w3.org/2000/svg}"
    drawn = [one for one in image.findall(f"{kind}polyline") if one.get("points").count(" ") == 2]
    dots = [one for one in image.iter(f"{kind}circle") if one.find(f"{kind}title") is not None]
    seeds = [one for one in image.iter(f"{kind}circle") if one.get("fill-opacity")]
    assert len(drawn) == 2 and len(dots) == 6 and len(seeds) == 12
    words = " ".join(image.itertext())
    assert all(model in words for model in MODELS) and "60 (all)" in words and "Whiskers: 95 % intervals" in words


def test_files_hold_the_rows(curves, folder):
    read = list(csv.DictReader(io.StringIO(curves.to_csv())))
    assert [row["train_size"] for row in read] == ["10", "30", "all"] * 2
    assert [float(row["accuracy"]) for row in read] == pytest.approx([row["accuracy"] for row in curves.rows])
    content = json.loads(curves.to_json())
    assert content["rows"] == curves.rows and content["examples"] == 18
    latex = curves.to_latex()
    assert latex.count("\\begin{") == latex.count("\\end{") and latex.count("\\begin{table}") == 1
    page = curves.to_html()
    assert "<svg" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "Other scores" in page and "nan" not in page + latex + curves.to_csv()
    names = {path.name for path in (folder / "out").glob("compare.*")}
    assert names >= {f"compare.{ending}" for ending in ("html", "svg", "tex", "csv", "json")}
    assert curves._repr_html_().startswith("<") and "10, 30, 60 (all) training texts" in repr(curves)


def test_a_model_that_was_not_trained_on_a_size_is_left_out(curves):
    kept = [i for i, entry in enumerate(curves.entries) if (entry.label, entry.train_size) != (MODELS[1], 10)]
    parts = ("entries", "results", "outcomes", "speeds")
    fewer = replace(curves, **{name: tuple(getattr(curves, name)[i] for i in kept) for name in parts})
    assert len(fewer.rows) == 5
    assert [label for label, _ in fewer.tables()[0].rows if label.startswith(MODELS[1])] == [
        f"{MODELS[1]}, 30",
        f"{MODELS[1]}, 60 (all)",
    ]
    assert fewer.svg().count("<title>") == 5 and fewer.text() and fewer.to_latex()


def test_sizes_and_models_may_be_added_and_nothing_is_trained_twice(curves, folder, here):
    before = len(here)
    more = heed.compare(
        "classification", models=MODELS[:1], train_size="10,20,all", seeds=2, out=folder / "out", **asked(folder)
    )
    assert len(here) == before + 2 and all("-n20-" in name for name in here[before:])
    assert [size.examples for size in more.sizes] == [10, 20, 60]
    again = heed.compare(folder / "out", resamples=50, device="cpu")
    assert [size.examples for size in again.sizes] == [10, 20, 30, 60] and len(again.rows) == 7
    one = heed.compare(folder / "out", train_size=30, resamples=50, device="cpu")
    assert one.sizes == () and one.speeds[0] and [row["run"] for row in one.rows] == MODELS
    with pytest.raises(ConfigError, match="no run has size 99; sizes: 10, 20, 30, all"):
        heed.compare(folder / "out", train_size=99)


def test_a_size_beyond_the_data_is_found_before_anything_trains(folder, here):
    before = len(here)
    with pytest.raises(ConfigError, match=r"training\.train_size is 500, but there are 60 training texts"):
        heed.compare("classification", models=MODELS, train_size=[10, 500], out=folder / "none", **asked(folder))
    assert len(here) == before and not (folder / "none").exists()


def test_a_parent_is_a_row_of_its_own(folder, here, curves):
    parent = folder / "out" / (re.sub(r"[^\w.=+-]", "_", MODELS[0]) + "-seed1")
    made = heed.compare(
        "classification", models=[MODELS[0], f"@{parent}"], train_size=[10, 20], out=folder / "from", **asked(folder)
    )
    started = next(row for row in made.rows if row["run"].startswith("@"))
    report = heed.load(started["folders"]).report
    assert report["parent"]["run"].endswith(parent.name)
    assert heed.load(started["folders"]).config.model.model_extra["d_hidden"] == 8


def test_data_in_memory_and_what_is_no_task_are_refused(folder):
    with pytest.raises(ConfigError, match="train is data in memory, but each run trains in a separate process"):
        heed.compare("classification", models=["rnn", "cnn"], train=[("a good film", "pos")], steps=1)
    with pytest.raises(ConfigError, match="'clasification' is not a task, configuration or folder of a comparison"):
        heed.compare("clasification", models=["rnn", "cnn"], train="a.tsv")
    with pytest.raises(ConfigError, match="models is for training"):
        heed.compare([folder / "out"], models=["rnn"])
    for options, name in (
        ({"minutes": 1}, "training.minutes"),
        ({"seeds": 2}, "seeds"),
        ({"settings": {"training.steps": 1}}, "training.steps"),
        ({"jobs": 2}, "jobs"),
        ({"train": "a.tsv"}, "data.train"),
    ):
        for runs in ([folder / "out"], folder / "out"):
            with pytest.raises(ConfigError, match=f"^{name} is for training, but these runs"):
                heed.compare(runs, **options)
    with pytest.raises(ConfigError, match=r"out is for training; save the result with its method save\('page'\)"):
        heed.compare(folder / "out", out="page")


# --- the command


def test_the_command_draws_learning_curves(folder, here, curves, capsys, tmp_path):
    code, out, err = call(capsys, "compare", folder / "out", "--out", tmp_path / "page", "--resamples", 20)
    assert code == 0, err
    assert "scores by training texts, on 18 test examples" in out and (tmp_path / "page" / "compare.svg").exists()
    files = [folder / "train.tsv", "--valid", folder / "valid.tsv", "--test", folder / "test.tsv"]
    words = ["compare", "classification", *files, "--models", MODELS[0], "--out", tmp_path / "new"]
    fields = [f"{name}={value}" for name, value in {**FIELDS, "training.steps": 2}.items()]
    code, out, err = call(capsys, *words, "--train-size", "10,20", *fields, "--resamples", 20, "--device", "cpu")
    assert code == 0, err
    assert "0 of 2 runs exist; 2 to train" in err and "on 10 training examples" in err
    code, out, err = call(capsys, *words, "--train-size", "10,20", "model.cell=gru", *fields)
    assert code == 2 and "'model.cell=gru': give the fields of a model in --models: --models NAME:cell=gru" in err


# --- A part of the training examples, for learning curves: nested, by the seed, labels in the shares of the whole


SMALL_SETTINGS = {"model.d_embedding": 8, "model.d_hidden": 8, "training.threads": 1, "training.device": "cpu"}


@pytest.fixture(scope="module")
def subset_folder(tmp_path_factory):
    subset_folder = tmp_path_factory.mktemp("subset")
    lines = [f"{'pos' if i % 5 else 'neg'}\tword{i} {'good' if i % 5 else 'bad'} film" for i in range(200)]
    lines += ["rare\tthe only one", "rare\tand another"]
    write_lines(subset_folder / "train.tsv", "label\ttext", *lines)
    write_lines(subset_folder / "test.tsv", "label\ttext", "pos\ta good film", "neg\ta bad film", "rare\tthe only one")
    rows = ["x,y,label", *(f"{i},{i * i % 17},{'ab'[i % 2]}" for i in range(60))]
    write_lines(subset_folder / "rows.csv", *rows)
    return subset_folder


def prepared(subset_folder, task="classification", train="train.tsv", **training):
    values = {
        "task": task,
        "data": {"train": [str(subset_folder / train)], "valid": 20},
        "model": {"name": "bag"} if task == "classification" else {},
        "tokenizer": {"kind": "word", "min_count": 1} if task == "classification" else {},
        "training": {"steps": 2, **training},
    }
    if train.endswith(".tsv"):
        values["data"]["test"] = [str(subset_folder / "test.tsv")]
    return task_class(task).prepare(check_config(values, "test"))


def texts(counts):
    """Texts with labels, as many of each as counts say."""
    return [Text(f"text {n} of {label}", (label,)) for label, count in counts.items() for n in range(count)]


def test_smaller_subsets_are_parts_of_larger_ones_and_keep_the_shares_of_labels():
    examples = texts({"a": 700, "b": 250, "c": 50})
    order = drawing_order(examples, seed=3)
    assert sorted(order.tolist()) == list(range(1000))
    for size in (10, 57, 100, 333, 900):
        drawn = Counter(examples[i].labels[0] for i in order[:size])
        for label, share in (("a", 0.7), ("b", 0.25), ("c", 0.05)):
            assert abs(drawn[label] - share * size) <= 1


def test_rare_labels_take_their_turn_over_seeds():
    examples = texts({"a": 90, **{f"rare {n}": 1 for n in range(10)}})
    drawn = Counter(examples[i].labels[0] for seed in range(200) for i in drawing_order(examples, seed)[:10])
    assert 1700 < drawn["a"] < 1900  # of 2,000: a share of 0.9
    assert all(5 < drawn[f"rare {n}"] < 40 for n in range(10))


def test_the_subset_is_random_and_follows_from_the_seed_and_not_from_the_order_of_the_file():
    examples = texts({"a": 200, "b": 200})
    chosen = [{examples[i].text for i in drawing_order(examples, seed)[:100]} for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1]
    assert 5 < len(chosen[0] & chosen[2]) < 50
    turned = examples[::-1]
    assert {turned[i].text for i in drawing_order(turned, 1)[:100]} == chosen[0]
    places = np.array(sorted(drawing_order(examples, 1)[:100]))
    assert 30 < (places < 200).sum() < 70 and 60 < (places % 200).mean() < 140


def test_sentences_keep_the_share_of_those_with_an_entity():
    sentences = [Sentence((f"w{n}", "x"), ("B-place" if n % 4 == 0 else "O", "O")) for n in range(400)]
    order = drawing_order(sentences, 1)
    assert abs(sum(sentences[i].tags[0] == "B-place" for i in order[:40]) - 10) <= 1


def test_a_run_trains_on_the_subset_and_validates_and_tests_on_everything(subset_folder):
    whole, part = prepared(subset_folder), prepared(subset_folder, train_size=40)
    count = len(whole.splits.examples["train"])
    assert len(part.splits.examples["train"]) == 40 and len(part.splits.left_out) == count - 40
    for split in ("valid", "test"):
        assert part.splits.examples[split] == whole.splits.examples[split]
    both = [example.text for example in (*part.splits.examples["train"], *part.splits.left_out)]
    assert sorted(both) == sorted(example.text for example in whole.splits.examples["train"])
    # the vocabulary is that of the subset, the labels are those of the whole
    assert part.tokenizers()["tokens"].vocab_size < whole.tokenizers()["tokens"].vocab_size
    assert part.head.labels == whole.head.labels
    assert f"train: 40 of {count} texts, drawn at random by seed 1, with labels in the same shares" in part.notes
    assert f"{count - 40} left out: not drawn for training.train_size 40" in part.notes
    assert part.report_counts()["train"]["examples"] == 40
    assert prepared(subset_folder, train_size=count).splits.examples["train"] == whole.splits.examples["train"]
    other = prepared(subset_folder, train_size=40, seed=2)
    assert other.splits.examples["train"] != part.splits.examples["train"]


def test_rows_of_a_table_are_drawn_by_label(subset_folder):
    whole, part = (prepared(subset_folder, "table", "rows.csv", train_size=size) for size in (None, 10))
    of_whole, of_part = (Counter(row.label for row in task.splits.examples["train"]) for task in (whole, part))
    assert sum(of_part.values()) == 10
    assert all(abs(of_part[label] - count * 10 / of_whole.total()) <= 1 for label, count in of_whole.items())


def test_a_resumed_run_has_the_same_subset(subset_folder, tmp_path):
    settings = {**SMALL_SETTINGS, "training.train_size": 30, "tokenizer.min_count": 1}
    run = heed.train(
        "classification", train=subset_folder / "train.tsv", valid=20, model="rnn", steps=2, out=tmp_path / "run",
        settings=settings, quiet=True,
    )  # fmt: skip
    assert read_config(tmp_path / "run" / "config.yaml")["training"]["train_size"] == 30
    opened = heed.load(tmp_path / "run")
    assert opened.task.splits.examples["train"] == run.task.splits.examples["train"]
    assert run.report["data"]["train"]["examples"] == 30


def test_data_in_memory_and_generated_data_are_drawn_from_too(tmp_path):
    rows = [(f"word{i} {'good' if i % 2 else 'bad'}", "ab"[i % 2]) for i in range(60)]
    run = heed.train(
        "classification", train=rows, valid=10, model="rnn", steps=1, out=tmp_path / "memory", quiet=True,
        settings={**SMALL_SETTINGS, "training.train_size": 8},
    )  # fmt: skip
    assert Counter(text.labels for text in run.task.splits.examples["train"]) == {("a",): 4, ("b",): 4}
    run = heed.train(
        "translation", data="copy", model="bahdanau", steps=1, out=tmp_path / "copy", quiet=True,
        settings={**SMALL_SETTINGS, "training.train_size": 9, "data.train": 50, "data.valid": 5, "data.test": 5},
    )  # fmt: skip
    assert len(run.task.splits.examples["train"]) == 9


@pytest.mark.parametrize(
    ("task", "files", "settings", "message"),
    [
        ("classification", "train.tsv", {"training.train_size": 500}, "train_size is 500, but there are 182 training"),
        ("classification", "train.tsv", {"training.train_size": 0}, "training.train_size"),
        ("series", "rows.csv", {"training.train_size": 5}, "does not apply to series"),
    ],
)
def test_what_cannot_be_drawn_is_refused(subset_folder, task, files, settings, message):
    given = {"data.valid": 20, **settings} if task == "classification" else settings
    with pytest.raises(ConfigError, match=message):
        heed.train(task, train=str(subset_folder / files), steps=1, settings=given, quiet=True)
