"""Files as people have them: columns, separators and headers that nobody named, and files given to the wrong task."""

import csv
import io
import json
import random
import re
import shutil
from types import SimpleNamespace

import pytest

import heed
from contract import data_of
from heed import folder
from heed.cli import main
from heed.config import Columns
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.documents import document_reader
from heed.data.kinds.numbers import read_rows
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import text_reader
from heed.data.readers import hold
from heed.data.splits import open_splits
from heed.errors import ConfigError, DataError
from heed.tasks import check_config, suggest_task, task_class
from heed.tasks.inputs.few_pairs import open_pairs
from heed.tasks.tagging.task import TaggingOutputs

WORDS = "the film was slow but its end is a small joy for all who like the sea and old songs".split()
LABELS = ["very good", "good", "bad"]


def labelled(count=60, seed=1):
    """Texts of several words, each with one of three labels."""
    rng = random.Random(seed)
    return [(" ".join(rng.choices(WORDS, k=8)), LABELS[n % 3]) for n in range(count)]


def sentences(count=60, seed=2):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=7)).capitalize() + "." for _ in range(count)]


ROWS = labelled()
CONLL = "".join(f"{word}\t{'B-loc' if word == 'sea' else 'O'}\n" for word in WORDS) + "\n"
EXPECTED = [(text, (label,)) for text, label in ROWS]


def table(rows, separator=","):
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(rows)
    return text.getvalue()


def tabbed(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def read(folder, name, content, encoding="utf-8", form=None):
    path = folder / name
    path.write_bytes(content.encode(encoding))
    findings = Findings()
    reader = text_reader(form or data_of("classification"), advice=suggest_task)
    return [(one.text, one.labels) for one in reader.read([path], findings)], findings


def refused(folder, name, content, **form):
    with pytest.raises(DataError) as raised:
        read(folder, name, content, form=data_of("classification", **form))
    return str(raised.value)


NO_HEADER = "; the file has no header, so columns are counted from 0"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", tabbed(ROWS), "columns: text is 0, label is 1 (3 values)" + NO_HEADER),
        ("a.tsv", tabbed((b, a) for a, b in ROWS), "columns: text is 1, label is 0 (3 values)" + NO_HEADER),
        ("a.txt", tabbed(ROWS), "columns: text is 0, label is 1 (3 values)" + NO_HEADER),
        (
            "a.csv",
            table((n, *row) for n, row in enumerate(ROWS)),
            "columns: text is 1, label is 2 (3 values)" + NO_HEADER,
        ),
        (
            "a.csv",
            table([("id", "review", "stars"), *((n, *row) for n, row in enumerate(ROWS))]),
            "columns: text is 'review', label is 'stars' (3 values)",
        ),
        (
            "a.csv",
            "\ufeff" + table([("Texte", "Catégorie"), *ROWS], ";"),
            "columns separated by semicolons; columns: text is 'Texte', label is 'Catégorie' (3 values)",
        ),
        (
            "a.jsonl",
            "".join(json.dumps({"id": f"x{n}", "review": a, "stars": b}) + "\n" for n, (a, b) in enumerate(ROWS)),
            "fields: text is 'review', label is 'stars' (3 values)",
        ),
    ],
)
def test_columns_that_nobody_named_are_recognised_and_said_in_one_line(tmp_path, name, content, said):
    found, findings = read(tmp_path, name, content)
    assert found == EXPECTED
    assert findings.remarks == [said]


def test_an_export_of_excel_in_windows_1252_is_refused_with_its_encoding(tmp_path):
    content = table([("Texte", "Catégorie"), *((f"{text} café", label) for text, label in ROWS)], ";")
    with pytest.raises(DataError, match=r"line 1: byte 0xe9 .* it looks like Windows-1252"):
        read(tmp_path, "a.csv", content, "windows-1252")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "train"])
def test_lines_of_fasttext_are_read_whatever_the_ending(tmp_path, name):
    content = "".join(
        f"__label__{label.replace(' ', '_')}{' ' if n % 2 else chr(9)}{text}\n" for n, (text, label) in enumerate(ROWS)
    )
    found, _ = read(tmp_path, name, content)
    assert found == [(text, (label.replace(" ", "_"),)) for text, label in ROWS]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "".join(f"{label.split()[0]} {text}\n" for text, label in ROWS)),
        ("a.txt", "".join(f"{label.split()[0]}\t{text}\n" for text, label in ROWS)),
        ("a.csv", table([("text", "label", "other"), *((*row, row[1]) for row in ROWS)])),
        ("a.jsonl", "".join(json.dumps({"label": b, "text": a, "other": b}) + "\n" for a, b in ROWS)),
    ],
)
def test_what_was_read_before_keeps_its_reading_unsaid(tmp_path, name, content):
    found, findings = read(tmp_path, name, content)
    assert [text for text, _ in found] == [text for text, _ in ROWS]
    assert {label.split()[0] for _, (label,) in found} == {"very", "good", "bad"}
    assert findings.remarks == [] and findings.found == []


def test_columns_that_are_unclear_are_asked_for_with_the_field_to_give(tmp_path):
    rows = [(("a", "b")[n % 2], *row) for n, row in enumerate(ROWS)]
    message = refused(tmp_path, "a.csv", table(rows))
    assert "several columns could be the label: 0 (2 values: a, b), 2 (3 values: very good, good, bad)" in message
    assert "data.columns.label=0 chooses the first" in message and "the file has no header" in message
    found, _ = read(tmp_path, "a.csv", table(rows), form=data_of("classification", columns={"label": 2}))
    assert found == EXPECTED
    rows = [(label, text, other) for (text, label), (other, _) in zip(ROWS, labelled(seed=5), strict=True)]
    message = refused(tmp_path, "a.tsv", tabbed([("gold", "premise", "hypothesis"), *rows]))
    assert "'premise' and 'hypothesis' both contain texts; data.columns.text=premise chooses the first" in message


@pytest.mark.parametrize("form", ["a.csv", "a.jsonl", "python"])
def test_unclear_columns_are_listed_with_samples_and_the_option_whatever_holds_them(tmp_path, form):
    rows = [(text, f"{text} so", label) for text, label in ROWS]
    names = ("first", "second", "mood")
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    option = 'settings={"data.columns.text": NAME}' if form == "python" else "data.columns.text=NAME"
    with pytest.raises(DataError) as raised:
        if form == "python":
            hold(dicts, "train", text_reader(data_of("classification")), ("text", "label"), Findings())
        else:
            lines = "".join(json.dumps(one) + "\n" for one in dicts) if form == "a.jsonl" else table([names, *rows])
            read(tmp_path, form, lines)
    message = str(raised.value)
    assert "'first' and 'second' both contain texts" in message and f"; {option} and " in message
    assert "choose from 'first' (" in message and message.endswith("'mood' (very good, good, bad)")


def test_a_list_is_no_text_and_a_given_column_is_given_once(tmp_path):
    objects = [{"words": text.split(), "body": text, "stars": label} for text, label in ROWS]
    found, _ = read(tmp_path, "a.jsonl", "".join(json.dumps(one) + "\n" for one in objects))
    assert found == EXPECTED
    rows = [(label, text) for text, label in ROWS]
    found, _ = read(
        tmp_path, "b.csv", table([("text", "note"), *rows]), form=data_of("classification", columns={"label": "text"})
    )
    assert found == EXPECTED


def test_the_label_of_a_test_set_is_found_by_the_labels_of_the_training_set(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.csv"
    train.write_text(tabbed(ROWS), encoding="utf-8")
    test.write_text(table([("a", "good", "so it is"), ("b", "bad", "and it was")]), encoding="utf-8")
    data = data_of("classification", train=[str(train)], valid=9, test=[str(test)])
    splits = open_splits(data, text_reader(data_of("classification")))
    assert [(one.text, one.labels) for one in splits.examples["test"]] == [
        ("so it is", ("good",)),
        ("and it was", ("bad",)),
    ]
    assert "train: columns: text is 0, label is 1 (3 values)" + NO_HEADER in splits.remarks
    assert "test: columns: text is 2, label is 1 (2 values)" + NO_HEADER in splits.remarks


def test_labels_are_counted_and_one_that_is_most_of_the_texts_is_a_warning(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tabbed([("text", "label"), *((text, "ham") for text, _ in ROWS), *labelled(3, seed=8)]))
    values = {"task": "classification", "data": {"train": [str(path)], "valid": 6}}
    lines = task_class("classification").prepare(check_config(values, "test")).notes.splitlines()
    (counts,) = [line for line in lines if "by count" in line]
    assert counts.startswith("train: labels by count: ham 5") and "very good" in counts
    (warning,) = [line for line in lines if "macro F1" in line]
    assert re.fullmatch(
        r"warning: 9\d% of the training texts have the label 'ham': always predicting it would score as much; look "
        r"at macro F1 \(data.class_weights=balanced weighs labels equally\)",
        warning,
    )
    path.write_text(tabbed([("text", "label"), *ROWS]))
    assert "warning" not in task_class("classification").prepare(check_config(values, "test")).notes


def test_line_breaks_of_html_are_no_unknown_words(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tabbed([("text", "label"), *ROWS]))
    values = {"task": "classification", "data": {"train": [str(path)], "valid": 6}, "tokenizer": {"min_count": 1}}
    task = task_class("classification").prepare(check_config(values, "test"))
    assert list(task.input.unknown_in("the film<br />was <br> zebra")) == ["zebra"]


def small_classifier(folder, name, content):
    (folder / name).write_text(content)
    small = {"model.d_hidden": 8, "model.d_embedding": 8, "training.threads": 1, "training.device": "cpu"}
    small |= {"evaluation.bootstrap": 5, "tokenizer.min_count": 1}
    given = {"train": folder / name, "model": "rnn", "steps": 1, "out": folder / "run", "settings": small}
    heed.train("classification", **given, quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """A classifier trained on the recognised columns `descr` and `kind`."""
    return small_classifier(tmp_path_factory.mktemp("descr"), "a.csv", table([("descr", "kind"), *ROWS]))


def test_columns_that_were_recognised_are_stored_and_used(described, tmp_path, capsys):
    run = heed.load(described)
    assert (run.config.data.columns.text, run.config.data.columns.label) == ("descr", "kind")
    assert "text: descr" in (described / "config.yaml").read_text()
    rows = [(f"no such words as these in any of the texts {n}", text, label) for n, (text, label) in enumerate(ROWS)]
    (tmp_path / "b.csv").write_text(table([("remark", "descr", "kind"), *rows]))
    code, out, err = predict(capsys, described, "--input", tmp_path / "b.csv", "--json")
    assert code == 0 and "the text is 'descr'" in err
    assert [json.loads(line)["text"] for line in out.splitlines()] == [text for text, _ in ROWS]
    texts = [one.text for one in run.read([tmp_path / "b.csv"])]
    assert texts == [text for text, _ in ROWS]
    (tmp_path / "c.tsv").write_text(tabbed(ROWS))  # without these names
    assert [one.text for one in run.read([tmp_path / "c.tsv"])] == texts
    frame = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
    assert [one.text for one in run.read_data(frame)] == texts
    assert len(run.predict({"remark": texts, "descr": texts})) == 60


def test_a_table_without_the_columns_of_the_run_is_refused(described, tmp_path, capsys):
    run = heed.load(described)
    rows = [(text, "x", label) for text, label in ROWS]
    refusal = "has no {} '{}', which this run was trained on; its {}s: {}; rename the column that corresponds to it"
    for name, content in (
        ("a.csv", table([("remark", "other", "sort"), *rows])),
        ("few.csv", table([("remark", "other", "sort"), *rows[:2]])),
        ("a.tsv", tabbed([("remark", "other", "sort"), *rows])),
        (
            "a.jsonl",
            "".join(json.dumps(dict(zip(("remark", "other", "sort"), row, strict=True))) + "\n" for row in rows),
        ),
    ):
        (tmp_path / name).write_text(content)
        word = "field" if name.endswith("l") else "column"
        said = f"'{tmp_path / name}' " + refusal.format(word, "descr", word, "remark, other, sort")
        code, out, err = predict(capsys, described, "--input", tmp_path / name)
        assert (code, out, err) == (2, "", f"heed: {said}\n")
        with pytest.raises(DataError, match=re.escape(said)):
            run.read([tmp_path / name])
    # Only the column that is read is needed, and the usual name of a field will do.
    (tmp_path / "b.csv").write_text(table([("remark", "descr"), *(row[1::-1] for row in rows)]))
    assert predict(capsys, described, "--input", tmp_path / "b.csv")[0] == 0
    said = f"'{tmp_path / 'b.csv'}' " + refusal.format("column", "kind", "column", "remark, descr")
    with pytest.raises(DataError, match=re.escape(said)):
        run.read([tmp_path / "b.csv"])
    (tmp_path / "c.csv").write_text(table([("label", "x", "text"), *(row[::-1] for row in rows)]))
    assert [one.text for one in run.read([tmp_path / "c.csv"])] == [text for text, _ in ROWS]


def test_one_column_with_the_name_of_the_run_has_a_header(described, tmp_path, capsys):
    for name, lines in (
        ("a.csv", ["descr", '"good, slow"', "so it, is"]),
        ("a.tsv", ["descr", "good, slow", "so it, is"]),
    ):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        code, out, err = predict(capsys, described, "--input", tmp_path / name, "--json")
        assert code == 0 and "columns: the text is 'descr'" in err
        assert [json.loads(line)["text"] for line in out.splitlines()] == ["good, slow", "so it, is"]


def test_dicts_are_read_by_the_columns_of_the_run(described):
    run, texts = heed.load(described), [text for text, _ in ROWS[:3]]
    expected = run.predict(texts)
    assert run.predict([{"remark": "x", "descr": text} for text in texts]) == expected
    assert run.predict([{"text": text} for text in texts]) == expected
    for given, said in (
        (
            [{"remark": "x", "other": "y"}],
            r"texts has no column 'descr' \(or text\).*; its columns are 'remark', 'other'; give one column",
        ),
        ([{"descr": "x"}, {"remark": "y"}], r"texts\[1\] has no field 'descr'"),
        ([{"descr": "x"}, "y"], r"texts\[1\] is the text 'y', expected a dict with the fields 'descr'"),
        ([{"descr": 3}], r"texts\[0\]: column 'descr' is the number 3, expected text"),
    ):
        with pytest.raises(DataError, match=said):
            run.predict(given)


def test_a_run_without_stored_columns_still_opens(described, tmp_path, capsys):
    shutil.copytree(described, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if "text: descr" not in line and "label: kind" not in line))
    folder.record_files(tmp_path / "run")
    assert heed.load(tmp_path / "run").config.data.columns.text is None
    assert "60 " in evaluate(capsys, tmp_path / "run", described.parent / "a.csv")[0]


# --- pairs

PAIRS = list(zip(sentences(), sentences(seed=3), strict=True))


def pairs(folder, name, content, encoding="utf-8", **columns):
    (folder / name).write_bytes(content.encode(encoding))
    findings = Findings()
    found = pair_reader(Columns(**columns), suggest_task).read([folder / name], findings)
    return [(pair.source, pair.target) for pair in found], findings


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", table(PAIRS, ";"), "columns separated by semicolons"),
        (
            "a.jsonl",
            "".join(json.dumps({"id": n, "en": a, "fr": b}) + "\n" for n, (a, b) in enumerate(PAIRS)),
            "fields: source is 'en', target is 'fr'",
        ),
        (
            "a.jsonl",
            "".join(json.dumps({"translation": {"en": a, "fr": b}}) + "\n" for a, b in PAIRS),
            "fields: source is 'translation.en', target is 'translation.fr'",
        ),
    ],
)
def test_pairs_are_recognised_too(tmp_path, name, content, said):
    found, findings = pairs(tmp_path, name, content)
    assert found == PAIRS and findings.remarks == [said]


@pytest.mark.parametrize("names", [("en", "fr"), ("source", "target")])
def test_a_header_of_pairs_selects_the_columns_and_is_no_pair(tmp_path, names):
    for name, content in (("a.tsv", tabbed([names, *PAIRS])), ("a.csv", table([names, *PAIRS]))):
        found, findings = pairs(tmp_path, name, content)
        assert found == PAIRS
        assert findings.remarks == ([] if "source" in names else ["columns: source is 'en', target is 'fr'"])
    found, _ = pairs(tmp_path, "a.csv", table([("target", "source"), *PAIRS]))
    assert found == [pair[::-1] for pair in PAIRS]


def test_a_header_of_pairs_in_unknown_words_is_said_and_named_columns_leave_it_out(tmp_path):
    names = ("Anglais", "Deutsch")
    for name, content in (("a.tsv", tabbed([names, *PAIRS])), ("a.csv", table([names, *PAIRS]))):
        found, findings = pairs(tmp_path, name, content)
        assert found == [names, *PAIRS]  # it may be a pair
        assert findings.remarks == [
            f"warning: line 1 of {name} looks like a header (Anglais | Deutsch) but is read as an example; "
            "delete it, or give the columns by name"
        ]
        found, findings = pairs(tmp_path, name, content, source=names[0], target=names[1])
        assert found == PAIRS and not findings.remarks
    assert not pairs(tmp_path, "a.tsv", tabbed([("Go.", "Va !"), *PAIRS]))[1].remarks


def test_links_are_those_of_the_pairs_below_a_header(tmp_path):
    sizes = [n % 3 + 1 for n in range(30)]
    rows = [(" ".join(WORDS[:size]), " ".join(WORDS[-size:]) + f" {n}") for n, size in enumerate(sizes)]
    (tmp_path / "a.csv").write_text(table([("en", "fr"), *rows]))
    (tmp_path / "links").write_text("".join(f"{size - 1}-0\n" for size in sizes))  # to the last word of each source
    values = {
        "data": {"train": [str(tmp_path / "a.csv")], "valid": 5},
        "training": {"alignment": {"files": [str(tmp_path / "links")]}},
        "model": {"name": "bahdanau"},
    }
    heed_task = task_class("translation").prepare(check_config(values, "test"))
    assert "train: 20 links in 20 of 20 pairs (links)" in heed_task.splits.remarks


def test_labelled_texts_given_as_pairs_are_said_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, findings = pairs(tmp_path, "c.tsv", tabbed(ROWS))
    assert findings.remarks == [
        "warning: c.tsv: column 1 (very good, good, bad) repeats its values next to the texts of column 0, separated "
        "by tabs; read as pairs; train on it with: heed train classification c.tsv"
    ]
    for name, content, what, command in (
        (
            "f.txt",
            "".join(f"__label__{b.split()[-1]} {a}\n" for a, b in ROWS),
            "begin with __label__",
            "classification",
        ),
        ("l.txt", "".join(f"{b.split()[-1]} {a}\n" for a, b in ROWS), "begin with one of 2 words", "classification"),
        ("c.conll", CONLL * 3, "each line is a word and its tag", "tagging"),
        ("d.conll", CONLL.replace("\t", " ") * 3, "each line is a word and its tag", "tagging"),
    ):
        with pytest.raises(DataError) as raised:
            pairs(tmp_path, name, content)
        assert what in str(raised.value)
        assert str(raised.value).endswith(f"heed train {command} {name}")


def test_stored_corpora_are_recognised_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.csv").write_text(table([("en", "fr"), *PAIRS], ";"))
    for _ in range(2):
        splits = open_pairs(data_of("translation", train=[str(tmp_path / "a.csv")], in_memory=20, valid=5))
        assert splits.examples["train"][1] in [Pair(*pair) for pair in PAIRS]
        notes = splits.notes  # of the second one from the cache
        assert "train: columns separated by semicolons; columns: source is 'en', target is 'fr'" in notes
        assert splits.columns == {"source": "en", "target": "fr"}


# --- the columns of a run

OTHER = {word: f"{word[::-1]}oe" for word in WORDS}
SMALL = {"model.d_hidden": 8, "model.d_embedding": 8, "model.d_attention": 8, "model.d_readout": 8}
SMALL |= {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5, "generation.max_length": 8}


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """A run of one update from English to another language, its data beside it."""
    folder = tmp_path_factory.mktemp("sides")
    lines = [one.lower() for one in sentences(120, 4)]
    files = folder / "my.en", folder / "my.af"
    files[0].write_text("".join(f"{one}\n" for one in lines))
    files[1].write_text("".join(" ".join(OTHER[word] for word in one.strip(".").split()) + ".\n" for one in lines))
    heed.train("translation", train=files, model="bahdanau", steps=1, out=folder / "run", settings=SMALL, quiet=True)
    return folder


def evaluate(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *map(str, words)])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return out, err


def test_pairs_without_the_columns_of_the_run_are_refused(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(table([("word", "answer"), *PAIRS]))
    (tmp_path / "b.csv").write_text(table([("remark", "other"), *PAIRS]))
    (tmp_path / "c.csv").write_text(table(PAIRS))
    columns = {"data.columns.source": "answer", "data.columns.target": "word"}
    given = {"train": tmp_path / "a.csv", "model": "bahdanau", "steps": 1, "out": tmp_path / "run", "quiet": True}
    run = heed.train("translation", settings={**SMALL, **columns}, **given)
    said = f"'{tmp_path / 'b.csv'}' has no column 'answer', which this run was trained on; its columns: remark, other;"
    assert said in predict(capsys, tmp_path / "run", "--input", tmp_path / "b.csv")[2]
    with pytest.raises(DataError, match=re.escape(said)):
        run.read([tmp_path / "b.csv"])
    assert [pair.texts for pair in run.read([tmp_path / "c.csv"])] == PAIRS  # without a header as before
    assert predict(capsys, tmp_path / "run", "--input", tmp_path / "c.csv")[1].count("\n") == len(PAIRS)
    sources = [source for source, _ in PAIRS[:2]]
    assert run.predict([{"answer": source, "x": ""} for source in sources]) == run.predict(sources)


# --- numbers

FLOWERS = [(round(1 + 0.01 * n, 2), round(7 - 0.03 * n, 2), ("setosa", "virginica")[n % 2]) for n in range(40)]


def german(rows):
    return [[str(cell).replace(".", ",") for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        (table([("a", "b", "label"), *FLOWERS]), ("a", "b"), []),
        (table([("a", "b", "species"), *FLOWERS]), ("a", "b"), ["columns: label is 'species' (2 values)"]),
        (
            table([("a", "b", "label"), *german(FLOWERS)], ";"),
            ("a", "b"),
            ["columns separated by semicolons", "numbers have a decimal comma"],
        ),
    ],
)
def test_tables_are_recognised_too(tmp_path, content, columns, said):
    (tmp_path / "a.csv").write_text(content)
    numbers = read_rows(tmp_path / "a.csv", None, "label")
    assert numbers.columns == columns and list(numbers.said) == said
    assert numbers.cells.values.tolist() == [[a, b] for a, b, _ in FLOWERS]
    assert list(numbers.labels) == [label for _, _, label in FLOWERS]
    again = read_rows(tmp_path / "a.csv", numbers.columns, "label")
    assert again.cells.values.tolist() == numbers.cells.values.tolist()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "kind", "place"), "no column is called label, labels, class, target"),
        (("a", "b", "class", "place"), None),
        (
            ("a", "b", "class", "target"),
            "several columns could be the label: 'class' (2 values), 'target' (2 values); data.columns.label",
        ),
        (("1.5", "2.5", "x", "y"), "data.columns.label=NAME chooses from 0 (1.5, 1.0, 1.01, ...), 1 (2.5, "),
    ],
)
def test_a_label_of_a_table_without_a_usual_name_is_asked_for(tmp_path, names, message):
    (tmp_path / "a.csv").write_text(table([names, *((*row, row[2][:3]) for row in FLOWERS)]))
    if message is None:
        assert set(read_rows(tmp_path / "a.csv", None, "label").labels) == {"setosa", "virginica"}
        return
    with pytest.raises(DataError) as raised:
        read_rows(tmp_path / "a.csv", None, "label")
    assert message in str(raised.value)


def test_numbers_that_were_read_as_names_of_a_series_are_said(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{n},{n / 2}\n" for n in range(112, 150)))
    rows = read_rows(tmp_path / "a.csv", None)
    assert len(rows) == 37  # as ever
    assert rows.said == (
        "warning: line 1 contains only numbers (112, 56.0) and was read as column names; if the file has no "
        "header, add one",
    )


# --- texts to predict


def predict(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["predict", *map(str, words)])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


@pytest.fixture(scope="module")
def labeller(tmp_path_factory):
    return small_classifier(tmp_path_factory.mktemp("labels"), "a.tsv", tabbed(ROWS))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.tsv",
            tabbed((f"x{n}", *row) for n, row in enumerate(ROWS)),
            "the text is 1 (counted from 0); the file has no",
        ),
        ("a.csv", table([("review", "stars"), *ROWS]), "the text is 'review'"),
        ("a.csv", table([("a", "text"), *(row[::-1] for row in ROWS)], ";"), "the text is 'text'"),
        ("a.jsonl", "".join(json.dumps({"stars": b, "body": a}) + "\n" for a, b in ROWS), "the text is 'body'"),
    ],
)
def test_predict_reads_the_texts_of_a_table(labeller, tmp_path, capsys, name, content, said):
    (tmp_path / name).write_text(content)
    code, out, err = predict(capsys, labeller, "--input", tmp_path / name, "--json")
    assert code == 0 and said in err
    assert [json.loads(line)["text"] for line in out.splitlines()] == [text for text, _ in ROWS]
    out, err = evaluate(capsys, labeller, tmp_path / name)
    assert "60 " in out and err.startswith("heed: ")


def test_predict_keeps_plain_lines_whatever_the_ending(labeller, sides, tmp_path, capsys):
    for name, lines in (("a.csv", ["the film, slow", "a joy, small", "sea, old"]), ("b.tsv", ["the film", "a joy"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        for run, field in ((labeller, "text"), (sides / "run", "source")):
            code, out, err = predict(capsys, run, "--input", tmp_path / name, "--json")
            assert code == 0 and "column" not in err
            assert [json.loads(line)[field] for line in out.splitlines()] == lines


def test_predict_translates_the_sources_of_a_file_with_both_sides(sides, tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("the film was slow\tx y\nsongs\ty z\n")
    code, out, err = predict(capsys, sides / "run", "--input", tmp_path / "a.tsv", "--json")
    assert code == 0 and "heed: columns: the text is 0 (counted from 0); the file has no header" in err
    assert [json.loads(line)["source"] for line in out.splitlines()] == ["the film was slow", "songs"]


def test_words_with_tags_given_as_texts_to_tag_are_refused():
    outputs = TaggingOutputs(SimpleNamespace(), {})
    with pytest.raises(ConfigError, match=r"'a.conll': each line is a word and its tag .*; expected one text per line"):
        outputs.expect((CONLL * 3).splitlines(), "'a.conll'")
    outputs.expect(sentences(), "'a.txt'")
    with pytest.raises(ConfigError, match=r"'a.jsonl': each line is a JSON object; expected one text a line"):
        outputs.expect(['{"text": "Ann left"}', "", '{"text": "Bo came"}'], "'a.jsonl'")
    outputs.expect(['{"text": "Ann left"}', "Bo came"], "'a.txt'")


# --- documents


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", tabbed(ROWS), "columns: text is 0" + NO_HEADER),
        (
            "a.csv",
            table([("id", "review", "stars"), *((n, *row) for n, row in enumerate(ROWS))], ";"),
            "columns separated by semicolons; columns: text is 'review'",
        ),
        ("a.jsonl", "".join(json.dumps({"stars": b, "body": a}) + "\n" for a, b in ROWS), "fields: text is 'body'"),
    ],
)
def test_the_column_of_documents_is_recognised(tmp_path, name, content, said):
    (tmp_path / name).write_text(content, encoding="utf-8")
    findings, data = Findings(), data_of("language_modelling", train=[str(tmp_path / name)])
    documents = document_reader(data).read([str(tmp_path / name)], findings)
    assert [document.text for document in documents] == [text for text, _ in ROWS]
    assert findings.remarks == [said]


# --- the wrong task


def test_sentences_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = "".join(f"{one}\n" for one in sentences())
    message = refused(tmp_path, "my.en", content)
    assert "its lines are plain sentences, and their first words do not look like labels" in message
    assert "heed train language_modelling my.en, or heed train translation my.en TRANSLATIONS" in message
    assert message.endswith("data.format=lines uses the first words as labels anyway")
    assert len(read(tmp_path, "my.en", content, form=data_of("classification", format="lines"))[0]) == 60


def test_words_with_tags_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in (
        CONLL * 5,
        CONLL.replace("\t", " ") * 5,
        CONLL.replace("\t", " NN "),
        "-DOCSTART- O\n\n" + CONLL * 3,
    ):
        message = refused(tmp_path, "file.conll", content)
        assert "each line is a word and its tag (such as 'sea B-loc')" in message
        assert message.endswith("heed train tagging file.conll")


def test_pairs_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = list(zip(sentences(), sentences(seed=3), strict=True))
    for name, content in (("p.tsv", tabbed(pairs)), ("p.txt", tabbed(pairs)), ("p.csv", table(pairs, ";"))):
        message = refused(tmp_path, name, content)
        assert "columns 0 and 1 contain texts" in message
        assert f"train on it with: heed train translation {name}" in message


def test_conversations_are_not_taken_for_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "talks.jsonl"
    for turns in (["hello there", "good morning"], [{"who": "a", "says": "hello"}, {"who": "b", "says": "hi"}]):
        path.write_text("".join(json.dumps({"id": f"t{n}", "dialog": turns}) + "\n" for n in range(9)))
        with pytest.raises(DataError) as raised:
            list(pair_reader(advice=suggest_task).read([path], Findings()))
        assert "each line is a conversation (field 'dialog' is a list of turns)" in str(raised.value)
        assert str(raised.value).endswith("train on it with: heed train dialogue talks.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("my.en", "".join(f"{one}\n" for one in sentences()), "heed train language_modelling my.en"),
        ("p.tsv", tabbed(zip(sentences(), sentences(seed=3), strict=True)), "heed train translation p.tsv"),
        ("c.tsv", tabbed(ROWS), "heed train classification c.tsv"),
        ("f.txt", "".join(f"__label__{b.split()[-1]} {a}\n" for a, b in ROWS), "heed train classification f.txt"),
    ],
)
def test_texts_are_not_taken_for_words_with_tags(tmp_path, monkeypatch, name, content, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    for policy in ("error", "skip"):
        with pytest.raises(DataError) as raised:
            read_sentences([tmp_path / name], data_of("tagging"), Findings(policy), suggest_task)
        assert "; expected one word a line, with its tag in another column; train on it with: " in str(raised.value)
        assert command in str(raised.value)
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in WORDS))
    with pytest.raises(DataError, match="its lines have one column; expected one word a line, with its tag in another"):
        read_sentences([tmp_path / "words"], data_of("tagging"))


def test_a_header_of_words_with_tags_is_left_out_and_said(tmp_path):
    for content in ("Word\tTag\n" + CONLL, "token\tpos\n" + CONLL.replace("B-loc", "NOUN").replace("\tO", "\tX")):
        (tmp_path / "a.conll").write_text(content, encoding="utf-8")
        findings = Findings()
        (sentence,) = read_sentences([tmp_path / "a.conll"], data_of("tagging"), findings)
        assert list(sentence.words) == WORDS
        assert findings.found[0].what.startswith("a header (")
    (tmp_path / "a.conll").write_text("word\tO\n" + CONLL, encoding="utf-8")  # a word as any other
    (sentence,) = read_sentences([tmp_path / "a.conll"], data_of("tagging"))
    assert list(sentence.words) == ["word", *WORDS]


def test_a_header_that_is_read_as_a_text_is_said(tmp_path):
    _, findings = read(
        tmp_path, "a.txt", "label text\n" + "".join(f"{label.split()[0]} {text}\n" for text, label in ROWS)
    )
    assert findings.remarks == [
        "warning: line 1 of a.txt looks like a header (label | text) but is read as an example; delete it, or give the "
        "columns by name"
    ]
    _, findings = read(
        tmp_path,
        "a.tsv",
        tabbed([("text", "label"), *ROWS]),
        form=data_of("classification", columns={"text": 0, "label": 1}),
    )
    assert findings.remarks[0].startswith("warning: line 1 of a.tsv looks like a header (text | label)")
