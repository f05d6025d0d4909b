"""Data passed in Python: data frames, lists and dicts for every task, and what the run folder says of them."""

import inspect
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import heed
from heed.cli import main
from heed.data.findings import Findings
from heed.errors import ConfigError, DataError, HeedError
from heed.runs import train as training
from heed.tasks import check_config, task_class
from heed.training.progress import Quiet
from pages import page, run_blocks
from reporters import Killed

SMALL = {
    "training.threads": 1,
    "training.device": "cpu",
    "training.warmup": 0,
    "training.validate_every": 2,
    "evaluation.bootstrap": 10,
    "model.d_hidden": 8,
}
TINY = {"size": "tiny"}
WORDS = SMALL | {"model.d_embedding": 8}
TEXTS = [(f"{word} film {i}", label) for i in range(12) for word, label in (("good", "pos"), ("bad", "neg"))]
PAIRS = [(f"{a} {b}", f"{b} {a}") for a in "abcdef" for b in "uvwxyz"]
SENTENCES = [(["Ada", "saw", "Turing"], ["B-PER", "O", "B-PER"]), (["in", "Paris"], ["O", "B-LOC"])] * 8
DOCUMENTS = ["the cat sat on the mat.", "a dog ran.", "the dog sat."] * 8
ROWS = {"a": [float(n) for n in range(20)], "b": [n % 3 for n in range(20)], "label": ["x", "y"] * 10}
SERIES = {"x": [float(n % 5) for n in range(40)], "y": [float(n % 3) for n in range(40)]}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(task, data, *, settings=WORDS, **others):
    return heed.train(task, train=data, settings=settings, steps=2, quiet=True, **others)


def classifier(data=TEXTS, **others):
    return train("classification", data, model="rnn", **others)


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """A classifier with a test set, for tests that only read it."""
    return classifier(test=TEXTS[:6], out=tmp_path_factory.mktemp("classified") / "run")


# --- the forms that data may have


def forms(rows, *names):
    """The same rows in every form."""
    pandas = pytest.importorskip("pandas")
    columns = [list(column) for column in zip(*rows, strict=True)]
    return {
        "tuples": rows,
        "lists": [list(row) for row in rows],
        "dicts": [dict(zip(names, row, strict=True)) for row in rows],
        "columns": dict(zip(names, columns, strict=True)),
        "pair": tuple(columns),
        "series": tuple(pandas.Series(column) for column in columns),
        "frame": pandas.DataFrame(rows, columns=names),
        "other index": pandas.DataFrame(rows, columns=names, index=range(100, 100 + len(rows))),
        "more columns": pandas.DataFrame(rows, columns=names).assign(more=1),
        "generator": (row for row in rows),
    }


def held(task, data, name="train", **settings):
    """The examples that a task makes of data."""
    values = {"task": task, "data": {"memory": {}, **settings}}
    return task_class(task).read_data(data, name, check_config(values, "the test"), Findings())


def fields(examples):
    return [(one.keys, one.origin) for one in examples]


@pytest.mark.parametrize(
    ("task", "rows", "names"),
    [
        ("classification", TEXTS, ("text", "label")),
        ("translation", PAIRS, ("source", "target")),
        ("tagging", SENTENCES, ("words", "tags")),
    ],
)
def test_every_form_gives_the_same_examples(task, rows, names):
    first = fields(held(task, rows))
    assert len(first) == len(rows) and [origin for _, origin in first[:2]] == ["train[0]", "train[1]"]
    for form, data in forms(rows, *names).items():
        assert fields(held(task, data)) == first, form


def test_columns_are_found_by_setting_by_name_and_by_content():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TEXTS, columns=["review", "stars"])
    first = fields(held("classification", TEXTS))
    assert fields(held("classification", frame)) == first  # stars repeat, reviews do not
    assert fields(held("classification", frame[["stars", "review"]])) == first
    wide = frame.assign(user="u")
    assert fields(held("classification", wide)) == first
    wide = frame.assign(answer=frame["review"] + " is that so", user="u")
    assert fields(held("classification", wide, columns={"text": "review", "label": "stars"})) == first
    assert fields(held("classification", wide, columns={"text": 0, "label": 1})) == first
    wide = wide.rename(columns={"review": "first"})
    message = (
        r"train: 'first' and 'answer' both contain texts; .*"
        r'settings={"data.columns.text": NAME} and settings={"data.columns.label": NAME} choose from '
        r"'first' \(good film 0, bad film 0, .*\), 'stars' \(pos, neg\), 'answer' \(.*\), 'user' \(u\)"
    )
    with pytest.raises(DataError, match=message):
        held("classification", wide)
    wide = wide.rename(columns={"first": "review"})
    message = r"the labels hardly repeat \(such as 'good film 0'\), but the texts do \(such as 'pos'\)"
    with pytest.raises(DataError, match=message):
        held("classification", [(label, text) for text, label in TEXTS])
    with pytest.raises(DataError, match="train has no column 'reviw'; did you mean 'review'"):
        held("classification", wide, columns={"text": "reviw"})
    findings = Findings()
    task_class("classification").read_data(frame, "train", _config("classification"), findings)
    assert findings.remarks == ["columns: text is 'review', label is 'stars'"]  # as of a file


def _config(task):
    return check_config({"task": task, "data": {"memory": {}}}, "the test")


def test_labels_are_texts_whatever_their_type():
    numbers = held("classification", [("a", 1), ("b", 2.0), ("c", np.int64(3)), ("d", True), ("e", "5")])
    assert [one.labels for one in numbers] == [("1",), ("2",), ("3",), ("true",), ("5",)]
    several = held("classification", [("a", ["x", "y"]), ("b", None), ("c", "x,y")], several_labels=True)
    assert [one.labels for one in several] == [("x", "y"), (), ("x", "y")]


def test_tags_come_as_bio_and_words_with_tags_may_stand_together():
    together = [[("Ada", "I-PER"), ("slept", "O")], [("in", "O"), ("Paris", "I-LOC")]]
    assert [one.tags for one in held("tagging", together)] == [("B-PER", "O"), ("O", "B-LOC")]
    plain = held("tagging", [(["a", "b"], ["DET", "NOUN"])])
    assert plain[0].tags == ("DET", "NOUN")


def test_numbers_of_frames_dicts_arrays_and_pairs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    first = held("table", frame)
    assert first.columns == ("a", "b") and first.labels == tuple(ROWS["label"]) and first.origin(3) == "train[3]"
    for data in (ROWS, frame.to_dict("records"), (frame[["a", "b"]], frame["label"])):
        again = held("table", data)
        assert again.columns == first.columns and again.labels == first.labels
        assert again.cells.equals(first.cells)
    values = frame[["a", "b"]].to_numpy()
    assert held("table", (values, ROWS["label"])).columns == ("0", "1")
    (one,) = held("series", frame[["a", "b"]].assign(day=pandas.date_range("2024-01-01", periods=len(frame))))
    assert one.columns == ("a", "b")  # a column of dates is none of numbers
    assert [part.columns for part in held("series", [values, values])] == [("0", "1")] * 2
    assert held("series", [1, 2, 3])[0].columns == ("value",) and held("series", frame["a"])[0].columns == ("a",)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("classification", 5, r"train is the number 5, expected a data frame, a list of \(text, label\), or a dict of"),
        ("classification", [], "train is empty"),
        ("classification", ["a", "b"], r"train\[0\] is the text 'a', expected \(text, label\)"),
        ("classification", [("a", "x"), ("b",)], r"train\[1\] has 1 value \(\('b',\)\), expected \(text, label\)"),
        ("classification", [("a", "x"), (float("nan"), "y")], r"train\[1\]: the text is missing \(nan\), expected te"),
        ("classification", [("a", "x"), ("b", None)], r"train\[1\]: the label is missing"),
        ("classification", [("a", "x"), ("b", " ")], r"train\[1\]: the label has no label; data.several_labels=true"),
        ("classification", [("a", "x"), ("b\0", "y")], r"train\[1\]: the text contains a NUL character"),
        ("classification", [("a", "x"), ("b", {"y": 1})], r"train\[1\]: the label is the dict {'y': 1}, expected a"),
        ("classification", {"text": ["a"], "label": []}, "train: the columns differ in length: 'text' has 1, 'label'"),
        ("classification", (["a", "b"], ["x"]), "train: the columns differ in length: 'text' has 2, 'label' has 1"),
        ("classification", [{"text": "a", "label": "x"}, {"text": "b", "lable": "x"}],
         r"train\[1\] has no field 'label'; did you mean 'lable'"),
        ("tagging", [(["a"], ["O", "O"])], r"train\[0\] has 1 word and 2 tags; each word needs one tag"),
        ("tagging", [("a b", "O O")], r"train\[0\]: the words are the text 'a b', expected a list of texts, one"),
        ("tagging", [(["a", 3], ["O", "O"])], r"train\[0\]: word 1 is the number 3, expected text"),
        ("tagging", [(["a"], ["B-X"]), (["b"], ["FOO"])], r"train\[1\]: tag 0: 'FOO' is not an entity tag"),
        ("table", {"a": [[1], 2], "label": ["x", "y"]}, r"train\[0\], column 'a' is the list \[1\], expected a"),
        ("table", {"a": [1, float("inf")], "label": ["x", "y"]}, r"train\[1\], column 'a': 'inf' is not a finite"),
        ("table", {"a": [1], "lable": ["x"]},
         r"train: no column is called label, labels, class, .*NAME} chooses from 'a' \(1\), 'lable' \(x\)"),
        ("table", [(1, "x")], r"train has no column names; give a data frame, a dict of columns or \(rows, l"),
        ("table", ([[1.0], [2.0]], ["x"]), "train has 2 rows and 1 label"),
        ("series", [[1, 2], [3]], r"train\[1\] has 1 value"),
        ("language_modelling", ["a", 5], r"train\[1\]: the text is the number 5, expected text"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_with_its_place(task, data, message):
    with pytest.raises(DataError, match=message):
        held(task, data)


def test_bad_lines_are_left_out_and_counted_where_the_settings_say_so():
    run = classifier([*TEXTS, (None, "pos"), ("", "pos")], settings=WORDS | {"data.bad_lines": "skip"}, valid=4)
    assert "26" in run.task.notes and "not text, left out: 1 line (train[24])" in run.task.notes
    assert "1 blank" in run.task.notes.replace("blank 1", "1 blank") or "blank" in run.task.notes


# --- training and what follows


CASES = {
    "classification": (TEXTS, WORDS, "good film", {"label", "probability", "P(neg)", "P(pos)"}),
    "translation": (PAIRS, WORDS | {"model.d_attention": 8}, "a u", {"text", "score", "log_prob", "finished"}),
    "tagging": (SENTENCES, WORDS, "Ada saw", {"sentence", "word", "start", "end", "tag", "probability"}),
    "language_modelling": (DOCUMENTS, {k: v for k, v in SMALL.items() if k != "model.d_hidden"} | {"data.context": 16},
                           "the", {"prompt", "text", "log_prob", "finished"}),
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_a_run_in_memory_predicts_evaluates_and_is_opened_again(task):
    data, settings, text, columns = CASES[task]
    named = {"translation": "bahdanau", "language_modelling": "attention_lm"}
    run = train(task, data, valid=data[:4], test=data[:6], settings=settings, size="tiny", model=named.get(task, "rnn"))
    report = run.report["scores"]["test"]
    assert report["examples"] == 6 and run.evaluate()["examples"] == 6
    section = (run.folder / "config.yaml").read_text()
    assert f"train:\n      examples: {len(data)}\n      content: " in section and "good film" not in section
    again = heed.load(run.folder)
    both = again.predict([text, text])
    assert len(both) == 2 and repr(both[0]) == repr(run.predict(text)) and "\n" not in repr(both[0])
    main_measure = run.config.evaluation.select_by
    name = "bits_per_byte" if main_measure == "loss" else main_measure
    assert again.evaluate(data[:6])[name]["value"] == pytest.approx(report[name]["value"])
    if task != "language_modelling":  # whose frame would be of several texts' continuations, tested below
        pytest.importorskip("pandas")
        assert set(both.to_frame().columns) == columns


def test_a_stored_split_that_was_in_memory_says_what_to_give_instead(capsys):
    run = classifier(test=TEXTS[:5])
    message = (
        r"the data was passed in Python \(examples: train 24, test 5\) and is not stored in the run folder; to "
        r"score the run, give files \(heed evaluate RUN FILE\) or examples \(run.evaluate\(examples\)\); to resume it, "
        r"pass the same data to heed.train in Python, with out= and resume=True"
    )
    with pytest.raises(DataError, match=message):
        heed.load(run.folder).evaluate()
    assert code_of(["evaluate", str(run.folder)]) == 2
    assert "heed: the data was passed in Python" in " ".join(capsys.readouterr().err.split())
    Path("test.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in TEXTS))
    assert code_of(["evaluate", str(run.folder), "test.tsv"]) == 0
    assert "test.tsv: 24 texts" in capsys.readouterr().out
    assert heed.load(run.folder).evaluate(Path("test.tsv"))["examples"] == 24


def code_of(words):
    with pytest.raises(SystemExit) as end:
        main(words)
    return end.value.code


class KilledAtFour(Quiet):
    def say(self, message):
        if message.startswith("update 4 "):
            raise Killed


def test_a_run_in_memory_is_resumed_with_the_same_data_only(monkeypatch, capsys):
    def run(data=TEXTS, **others):
        settings = WORDS | {"training.save_minutes": 100}
        return heed.train(
            "classification", train=data, model="rnn", size="tiny", settings=settings, steps=8, quiet=True, **others
        )

    whole = run(out="whole")
    with monkeypatch.context() as patched:
        patched.setattr(training, "Quiet", KilledAtFour)
        with pytest.raises(Killed):
            run(out="half")
    message = r"the run in half cannot be resumed with this data \({}\); pass the same data, in the same order"
    for data, what in (
        (TEXTS[:-1], "data.memory.train.examples: 24 -> 23"),
        (TEXTS[::-1], r"data.memory.train.content: \w+ -> \w+"),
    ):
        with pytest.raises(ConfigError, match=message.format(what)):
            run(data, out="half", resume=True)
    with pytest.raises(ConfigError, match=message.format("data.memory.test: None -> .*")):
        run(out="half", resume=True, test=TEXTS[:2])
    assert code_of(["train", "half", "--resume"]) == 2
    assert "to resume it, pass the same data to heed.train in Python" in " ".join(capsys.readouterr().err.split())
    resumed = run(out="half", resume=True)
    files = [Path(folder) / "model.safetensors" for folder in ("whole", "half")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert resumed.predict("good film 1") == whole.predict("good film 1")


def test_series_and_tables_in_memory():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(SERIES)
    run = train("series", frame, test=6, settings=SMALL | {"data.window": 4, "data.horizon": 3})
    rows = run.predict(frame)
    assert rows.shape == (3, 2) and list(rows.to_frame().columns) == ["x", "y"]
    assert (run.predict(frame[["y", "x"]]) == rows).all() and (run.predict(frame.to_numpy()) == rows).all()
    assert run.evaluate(frame)["examples"] == 12
    with pytest.raises(DataError, match="series has 1 column, expected x, y"):
        run.predict(["a"])
    with pytest.raises(DataError, match=r"series\[0\], column 'y': 'a' is not a number"):
        run.predict([[1, "a"]])
    table = train("table", ROWS, valid=5, test=ROWS, settings=SMALL)
    frame = pandas.DataFrame(ROWS)
    labels = [one.label for one in table.predict(frame)]
    assert labels == [one.label for one in table.predict(frame[["b", "a"]])]
    assert labels == [one.label for one in table.predict(frame[["a", "b"]].to_numpy())]
    assert table.predict({"a": 1.0, "b": 2}).label in "xy" and len(table.predict(frame).to_frame()) == 20
    reports = [table.evaluate((frame[["b", "a"]], frame["label"])), table.evaluate(ROWS), table.evaluate()]
    assert reports[0] == reports[1] and reports[0]["accuracy"] == reports[2]["accuracy"]
    with pytest.raises(DataError, match="rows has 1 column, expected a, b"):
        table.predict([[1.0]])


def test_a_list_of_strings_is_files_where_it_names_some_and_texts_where_it_does_not():
    with pytest.raises(DataError, match=r"no file '.*nofile\.txt'"):
        heed.train("language_modelling", train=["nofile.txt"])
    with pytest.raises(DataError, match=r"no file '.*/a\.tsv'"):
        train("classification", ["a.tsv", "b.tsv"])
    Path("one.txt").write_text("a b c d e f g\n" * 30)
    run = train("language_modelling", ["one.txt"], settings=CASES["language_modelling"][1], model="attention_lm")
    assert run.config.data.origin == "files"


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"valid": "x.tsv"}, "train is data in memory, but there is valid='x.tsv'; pass all splits as data"),
        ({"data": "planted"}, "train is data in memory, but there is data='planted'"),
        ({"valid": 0.1}, "valid is 0.1, expected files, data or a whole number of examples"),
        ({"settings": {"data.format": "csv"}}, "data.format is 'csv', which applies to files, but the data was passed"),
        ({"minutes": "ten"}, "training.minutes is 'ten', but must be a number"),
        ({"minute": 3}, "train has no keyword 'minute'; did you mean 'minutes'"),
        ({"learning_rate": 3}, "no keyword 'learning_rate'; it is a field of the configuration: "
         "settings={'training.learning_rate': ...}"),
        ({"colour": 3}, "train has no keyword 'colour'; valid: "),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_say_what_would(others, message):
    with pytest.raises(HeedError, match=message):
        heed.train("classification", train=TEXTS, **others)


def test_an_unknown_keyword_is_a_type_error_and_the_signature_stays():
    with pytest.raises(TypeError, match="did you mean 'minutes'"):
        heed.train("classification", train=TEXTS, minute=1)
    assert {"train", "valid", "test", "resume"} <= set(inspect.signature(heed.train).parameters)


# --- predictions and what prints


def test_predict_names_the_keyword_that_is_nearest(classified):
    run = train("translation", PAIRS, valid=4, model="bahdanau", size="tiny", settings=CASES["translation"][1])
    with pytest.raises(TypeError, match="predict has no keyword 'beam_sizes'; did you mean 'beam_size'"):
        run.predict("a u", beam_sizes=3)
    assert run.predict("a u", beam_size=2, num_best=2, max_length=3).ids is not None
    with pytest.raises(TypeError, match="predict has no keyword 'beam_size'; this task has no options"):
        classified.predict("good film", beam_size=3)


def test_predictions_of_lists_series_and_frames_are_the_same(classified):
    pandas, run = pytest.importorskip("pandas"), classified
    texts = ["good film", "bad film", ""]
    first = run.predict(texts)
    assert isinstance(first, list) and first[0] == run.predict("good film")
    for given in (np.array(texts), pandas.Series(texts), pandas.DataFrame({"text": texts}), tuple(texts)):
        assert run.predict(given) == first
    frame = first.to_frame()
    assert list(frame["label"]) == [one.label for one in first] and frame["label"][2] == ""
    for given, message in (
        (5, "texts is the number 5, expected a data frame, a list of texts, or a dict"),
        (["a", None], r"texts\[1\]: the text is missing \(None\), expected text"),
        (
            pandas.DataFrame({"a": texts, "b": texts}),
            r"texts has no column 'text'.*; its columns are 'a', 'b'; give one column",
        ),
        ({"good film": 1}, "texts is the dict"),
    ):
        with pytest.raises(DataError, match=message):
            run.predict(given)
    assert run.predict([]) == []


def test_what_python_shows_is_short(classified):
    run = classified
    many = run.predict(["good film"] * 500)
    assert repr(many).count("\n") == 10 and repr(many).endswith("... and 490 more]")
    assert repr(many[0]).startswith("<") and len(repr(many[0])) < 20
    scores = run.evaluate()
    assert "accuracy" in repr(scores) and "errors" not in repr(scores) and json.loads(json.dumps(scores)) == scores
    assert pickle.loads(pickle.dumps(scores)) == scores
    shown = run.look("good film")
    assert len(repr(shown)) < 100 and "tensor" not in repr(shown.maps)


def test_parts_of_heed_are_there_without_a_further_import():
    assert heed.lessons.run_lesson("lion").checks
    assert heed.generation.SamplingOptions
    with pytest.raises(AttributeError, match="module 'heed' has no attribute 'trian'; did you mean 'train'"):
        _ = heed.trian


def test_the_page_about_python_runs(monkeypatch):
    pytest.importorskip("pandas")
    import heed.sklearn

    real = heed.train
    settings = {"training.threads": 1, "training.validate_every": 2, "evaluation.bootstrap": 10}

    def quick(task, **given):
        kept = {name: value for name, value in given.items() if name not in ("minutes", "steps", "quiet", "settings")}
        more = {"data.window": 8} if task == "series" else {}
        return real(task, **kept, steps=2, quiet=True, settings=settings | more, **({} if kept.get("size") else TINY))

    monkeypatch.setattr(heed, "train", quick, raising=False)
    monkeypatch.setattr(heed.sklearn, "train", quick)
    names = run_blocks(page("docs/python.md"))
    assert names["run"].predict("what a film").label in ("pos", "neg")
    with pytest.raises(DataError) as refused:
        held("classification", [{"review": "a", "label": "x"}] * 17 + [{"review": float("nan"), "label": "x"}])
    assert str(refused.value) in page("docs/python.md")
