"""Texts as people have them: numbers beside them, labels in columns of 0 and 1, other formats, scripts without blanks."""

import pandas
import pytest
from datasets import Dataset

from heed.config import Columns
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.readers import HubTable, hold
from heed.errors import DataError

ENGLISH = ("Hi there.", "Let's go!", "What is this?", "I see a dog.", "Go home now.", "She left.")
SPANISH = ("Hola a todos.", "\u00a1Vamos!", "\u00bfQu\u00e9 es esto?", "Veo un perro.", "Vete a casa.", "Se fue.")
PAIRS = list(zip(ENGLISH, SPANISH, strict=True))


def rows_of(*columns):
    """Rows with these columns: "en", "es", "id" (whole numbers), "lang", "score" or "name" (distinct texts)."""
    made = {
        "en": ENGLISH, "es": SPANISH, "lang": ["eng"] * 6, "name": [f"user{n} at home" for n in range(6)],
        "id": [str(1000 + 7 * n) for n in range(6)], "score": [f"0.{n}1" for n in range(6)],
    }  # fmt: skip
    return [list(row) for row in zip(*(made[name] for name in columns), strict=True)]


def read_pairs(path, text, **columns):
    path.write_text(text, encoding="utf-8")
    findings = Findings()
    pairs = list(pair_reader(Columns(**columns)).read([path], findings))
    return [(one.source, one.target) for one in pairs], findings


ARRANGED = [
    (("id", "en", "id", "es"), 1, 3),
    (("id", "en", "es"), 1, 2),
    (("en", "id", "es"), 0, 2),
    (("id", "lang", "en", "id", "lang", "es"), 2, 5),
    (("score", "en", "es"), 1, 2),
]


@pytest.mark.parametrize(("columns", "source", "target"), ARRANGED)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_numbers_beside_pairs_are_no_texts(tmp_path, columns, source, target, name):
    between = "," if name == "a.csv" else "\t"
    text = "".join(between.join(row) + "\n" for row in rows_of(*columns))
    pairs, findings = read_pairs(tmp_path / name, text)
    assert pairs == PAIRS
    number = "0.01, 0.11, 0.21, ..." if "score" in columns else "1000, 1007, 1014, ..."
    where = f"column {columns.index('score' if 'score' in columns else 'id')} contains numbers ({number})"
    assert findings.remarks == [f"columns: source is {source}, target is {target}; {where}"]
    turned, findings = read_pairs(tmp_path / name, text, source=target)
    assert turned[0][0] == PAIRS[0][1]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_numbers_beside_named_columns_are_no_texts(tmp_path, name):
    between = "," if name == "a.csv" else "\t"
    rows = [["id", "english", "spanish"], *rows_of("id", "en", "es")]
    pairs, findings = read_pairs(tmp_path / name, "".join(between.join(row) + "\n" for row in rows))
    assert pairs == PAIRS
    assert "columns: source is 'english', target is 'spanish'" in findings.remarks


def test_numbers_beside_more_texts_than_two_are_refused_with_the_columns(tmp_path):
    text = "".join("\t".join(row) + "\n" for row in rows_of("id", "en", "es", "name"))
    with pytest.raises(DataError) as raised:
        read_pairs(tmp_path / "a.tsv", text)
    assert (
        "column 0 contains numbers (1000, 1007, 1014, ...); set data.columns.source and data.columns.target to the "
        "columns of the texts, of 0 '1000, ...', 1 'Hi there., ...', 2 'Hola a todos., ...', 3 'user0 at home, ...'"
    ) in str(raised.value)
    assert read_pairs(tmp_path / "a.tsv", text, source=1, target=2)[0] == PAIRS
    assert read_pairs(tmp_path / "a.tsv", text, source=3, target=1)[0][0] == ("user0 at home", "Hi there.")


def test_numbers_as_a_side_are_read_and_said(tmp_path):
    pairs, findings = read_pairs(tmp_path / "a.tsv", "1\tone\n2\ttwo\n3\tthree\n")
    assert pairs[0] == ("1", "one")
    assert findings.remarks == ["warning: column 0 contains numbers (1, 2, 3), read as texts"]
    assert read_pairs(tmp_path / "a.tsv", "12\t21\n23\t32\n")[1].remarks == []
    assert read_pairs(tmp_path / "a.tsv", "I have 3.\t1\tTengo 3.\n")[0] == [("I have 3.", "Tengo 3.")]


def named(columns):
    names = [f"{name}{n}" for n, name in enumerate(columns)]
    return {name: column for name, column in zip(names, map(list, zip(*rows_of(*columns), strict=True)), strict=True)}


@pytest.mark.parametrize(("columns", "source", "target"), ARRANGED)
@pytest.mark.parametrize("form", ["frame", "dict", "dicts", "tuples", "whole numbers"])
def test_numbers_beside_pairs_in_python_are_no_texts(columns, source, target, form):
    data = named(columns)
    if form == "frame":
        data = pandas.DataFrame(data).astype({name: float for name in data if name[:2] in ("id", "sc")})
    elif form == "dicts":
        data = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    elif form == "tuples":
        data = list(zip(*data.values(), strict=True))
    elif form == "whole numbers":
        data = {name: list(map(float, column)) if name[:2] in ("id", "sc") else column for name, column in data.items()}
    findings = Findings()
    held = hold(data, "train", pair_reader(), ("source", "target"), findings)
    assert [(one.source, one.target) for one in held] == PAIRS
    assert len(findings.remarks) == 1


@pytest.mark.parametrize(("columns", "source", "target"), [one for one in ARRANGED if "lang" not in one[0]])
def test_numbers_beside_pairs_of_the_hub_are_no_texts(columns, source, target):
    findings = Findings()
    table = HubTable("pairs", "train", Dataset.from_dict(named(columns)), findings)
    reader = pair_reader()
    assert [(one.source, one.target) for one in reader.of_table(table)] == PAIRS
    names = list(named(columns))
    assert findings.remarks == [f"columns: source is '{names[source]}', target is '{names[target]}'"]
