"""Labelled texts from people's files: every format, every mistake named with file, line, field and value."""

import gzip
from collections import Counter
from itertools import compress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import data_of
from heed.data.corpus import hashes_in
from heed.data.examples import Text, label_order, split_sentences
from heed.data.findings import Findings
from heed.data.kinds.texts import text_reader
from heed.data.splits import hold_out, open_splits
from heed.errors import DataError


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def read(path, **form):
    return [
        (text.text, text.labels) for text in text_reader(data_of("classification", **form)).read([path], Findings())
    ]


GOOD = [("good, very good", ("pos",)), ("bad", ("neg",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'id,label,text\n1,pos,"good, very good"\n2,neg,bad\n'),
        ("a.tsv", "text\tlabel\ngood, very good\tpos\nbad\tneg\n"),
        ("a.jsonl", '{"text": "good, very good", "label": "pos"}\n{"label": "neg", "text": "bad"}\n'),
        ("a.txt", "pos good, very good\nneg bad\n"),
        ("a.train", "__label__pos good, very good\n__label__neg bad\n"),
    ],
)
def test_every_format_gives_the_same_texts(tmp_path, name, content):
    assert read(write(tmp_path / name, content)) == GOOD
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(packed) == GOOD


def test_a_folder_for_each_class(tmp_path):
    for label, text in (("pos", "good, very good"), ("neg", "bad")):
        (tmp_path / label).mkdir()
        write(tmp_path / label / "1.txt", text + "\n")
    write(tmp_path / "README", "no text")
    assert sorted(read(tmp_path)) == sorted(GOOD)
    (text, *_) = text_reader(data_of("classification")).read([tmp_path], Findings())
    assert text.origin == "neg/1.txt"


def test_columns_by_name_and_by_number_and_another_format_than_the_ending_says(tmp_path):
    path = write(tmp_path / "a.txt", "pos\tgood\nneg\tbad\n")
    assert read(path, format="tsv", columns={"text": 1, "label": 0}) == [("good", ("pos",)), ("bad", ("neg",))]
    path = write(tmp_path / "b.csv", "review,stars\nfine,3\n")
    assert read(path, columns={"text": "review", "label": "stars"}) == [("fine", ("3",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\nfirst,"a, b"\nsecond,\n'),
        ("a.jsonl", '{"text": "first", "label": ["a", "b"]}\n{"text": "second", "label": []}\n'),
        ("a.txt", "a,b first\n, second\n"),
        ("b.txt", "__label__a __label__b first\n"),
    ],
)
def test_several_labels(tmp_path, name, content):
    path = write(tmp_path / name, content)
    first, *rest = read(path, several_labels=True)
    assert first == ("first", ("a", "b"))
    assert all(labels == () for _, labels in rest)


def test_blank_lines_are_blank_texts(tmp_path):
    assert read(write(tmp_path / "a.txt", "pos good\n\nneg\n")) == [("good", ("pos",)), ("", ()), ("", ("neg",))]
    assert read(write(tmp_path / "a.csv", "text,label\ngood,pos\n\n")) == [("good", ("pos",)), ("", ())]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "label,texd\npos,x\n",
            r"a.csv' line 1 names no column 'text'; did you mean 'texd'\?.*data.columns.text",
        ),
        ("a.jsonl", '{"text": "x"}\n', r"a.jsonl' line 1 has no field 'label'"),
        ("a.csv", "note,grade\nx,pos\n", r"line 1 names no column 'text'; valid: grade, note; data.columns.text"),
        ("a.jsonl", '{"text": 3, "label": "a"}\n', r"line 1: field 'text' is the number 3, expected text"),
        ("a.jsonl", '{"text": "x", "label": ["a", "b"]}\n', r"field 'label' is a list, .*data.several_labels=true"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / name, content))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "note,grade\nx,pos\n", r"line 1 names no column 'grad'; did you mean 'grade'\?; data.columns.label"),
        ("a.jsonl", '{"note": "x", "grade": "pos"}\n', r"line 1 has no field 'grad'; did you mean 'grade'\?"),
    ],
)
def test_a_column_that_was_given_and_is_missing_is_named_before_a_usual_one(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / name, content), columns={"label": "grad"})


def test_an_empty_folder_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(DataError, match="has no folders in it; expected one for each class"):
        read(tmp_path)
    with pytest.raises(DataError, match="no file"):
        read(tmp_path / "none.csv")


# --- splits


def test_what_is_held_out_is_counted_and_equal_texts_stay_together(tmp_path):
    lines = [f"{i % 2} text {i % 100}\n" for i in range(200)] + ["1\n"]
    data = data_of("classification", train=[str(write(tmp_path / "a.txt", "".join(lines)))], valid=30)
    splits = open_splits(data, text_reader(data_of("classification")))
    train, valid = ({text.text for text in splits.examples[name]} for name in ("train", "valid"))
    assert not train & valid and len(splits.examples["valid"]) == 30
    assert len(splits.examples["train"]) + len(splits.examples["valid"]) == 200
    assert "1 left out: blank" in splits.notes
    assert "held out for validation by a hash of the text, with labels in the same shares" in splits.notes


@pytest.mark.parametrize(("number", "held"), [(20, 4), (100, 20), (400, 50), (880, 88), (3000, 200), (30_000, 1000)])
def test_few_texts_hold_out_few(tmp_path, number, held):
    data = data_of(
        "classification", train=[str(write(tmp_path / "a.txt", "".join(f"{i % 2} text {i}\n" for i in range(number))))]
    )
    assert len(open_splits(data, text_reader(data_of("classification"))).examples["valid"]) == held


def held(texts, wanted):
    return [*compress(texts, hold_out(texts, hashes_in(texts), wanted))]


some_texts = st.lists(
    st.builds(Text, st.sampled_from("abcdefgh"), st.lists(st.sampled_from("xyz"), max_size=2, unique=True).map(tuple)),
    min_size=2,
    max_size=30,
)


@settings(deadline=None, max_examples=200)
@given(some_texts, st.integers(1, 15), st.randoms())
def test_no_label_loses_all_its_training_texts_whatever_is_held_out(texts, wanted, rng):
    try:
        out = held(texts, wanted)
    except DataError as error:
        few = [len({t.text for t in texts if label in t.labels}) < 2 for label in "xyz"]
        assert len({t.text for t in texts}) == 1 or all(few) or len({*texts}) == len(texts), error
        return
    stay = Counter(texts) - Counter(out)
    assert out and {label for text in stay for label in text.labels} == {label for t in texts for label in t.labels}
    if {text.text for text in out} & {text.text for text in stay}:  # only where nothing else could be held out
        assert Counter(texts)[out[0]] > 1
    assert Counter(held(rng.sample(texts, len(texts)), wanted)) == Counter(out)


def test_labels_are_held_out_in_their_shares():
    texts = [Text(f"text {n}", ("rare" if n % 50 == 0 else "pos" if n % 5 else "neg",)) for n in range(1_000)]
    shares = Counter(label for text in held(texts, 200) for label in text.labels)
    assert shares == {"pos": 160, "neg": 36, "rare": 4}


@pytest.mark.parametrize("count", [50, 2])
def test_two_texts_again_and_again_lose_neither_label(tmp_path, count):
    file = write(tmp_path / "a.tsv", "text\tlabel\n" + "fine\tpos\ndull\tneg\n" * count)
    splits = open_splits(data_of("classification", train=[str(file)]), text_reader(data_of("classification")))
    assert Counter(text.labels[0] for text in splits.examples["train"]).keys() == {"pos", "neg"}
    assert len(splits.examples["valid"]) == max(1, count * 2 // 5)
    assert "held out for validation are copies of training texts" in splits.notes
    assert "is in the training set as well" not in splits.notes  # said once


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("fine\tpos\n" * 5 + "fine\tneg\n" * 5, "all 10 texts are equal; none can be held out for"),
        ("fine\tpos\ndull\tneg\n", "each label has only one of the 2 texts; none can be held out for validation; give"),
    ],
)
def test_sets_that_cannot_be_divided_are_refused_with_the_reason(tmp_path, lines, message):
    file = write(tmp_path / "a.tsv", f"text\tlabel\n{lines}")
    with pytest.raises(DataError, match=message):
        open_splits(data_of("classification", train=[str(file)]), text_reader(data_of("classification")))


def test_labels_are_ordered_by_value_and_by_letter():
    assert label_order(["10", "b", "9", "-1", "a", "9"]) == ["-1", "9", "10", "a", "b"]


# --- sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rains. We stay.", ["It rains.", "We stay."]),
        ('He said: "Go!" Then he left...  Why?', ['He said: "Go!"', "Then he left...", "Why?"]),
        ("One<br /><br />two\nthree", ["One", "two", "three"]),
        ("Dr. Who met J. Smith. Fine.", ["Dr. Who met J. Smith.", "Fine."]),
        ("It cost 3.50 euros. (Much!) and more", ["It cost 3.50 euros.", "(Much!) and more"]),
        ("今天很好。你呢。好", ["今天很好。", "你呢。", "好"]),
        ("यह एक है। वह दो है।", ["यह एक है।", "वह दो है।"]),
        (" \n<br/> ", []),
        ("no end", ["no end"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text, expected):
    assert [text[start:end] for start, end in split_sentences(text)] == expected


def test_a_separator_of_ones_own():
    text = "First. Still first || second ||  || third"
    assert [text[a:b] for a, b in split_sentences(text, "||")] == ["First. Still first", "second", "third"]
