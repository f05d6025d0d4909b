"""What people's labelled files get wrong, from the command line: each case has one clear outcome."""

import random

import pytest

import commands
import heed

FILLER = "the of and film story it was we saw plot".split()
COMMON = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 10, "model.size": "tiny"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    rng = random.Random(1)
    for name, count in (("train", 60), ("valid", 10)):
        texts = [" ".join(rng.choices(FILLER, k=5)) + (" great." if n % 2 else " awful.") for n in range(count)]
        lines = [f"{'pos' if n % 2 else 'neg'} {text}\n" for n, text in enumerate(texts)]
        (folder / f"{name}.txt").write_text("".join(lines))
        rows = ["".join(f"{w}\t{'B-x' if w in ('film', 'plot') else 'O'}\n" for w in text.split()) for text in texts]
        (folder / f"{name}.conll").write_text("\n".join(rows))
    return folder


def trained(folder, task, out, **settings):
    ending = "txt" if task == "classification" else "conll"
    return heed.train(
        task, train=folder / f"train.{ending}", valid=folder / f"valid.{ending}", steps=2, out=out,
        settings=COMMON | settings, quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def han(folder):
    return trained(folder, "classification", folder / "han", **{"model.name": "han"})


@pytest.fixture(scope="module")
def tagger(folder):
    return trained(folder, "tagging", folder / "tagger")


def call(capsys, *words):
    code, out, err = commands.call(capsys, *words)
    assert "Traceback" not in err
    return code, out, err


def test_an_unknown_label_at_test_time_is_named_with_its_line(folder, han, capsys, tmp_path):
    (tmp_path / "test.txt").write_text("pos a film\nneutral a plot\n")
    code, out, err = call(capsys, "evaluate", han.folder, tmp_path / "test.txt")
    assert (code, out) == (2, "")
    assert "test.txt:2: label 'neutral' was never seen in training; valid: neg, pos" in err
    words = ["train", "classification", folder / "train.txt", "--test", tmp_path / "test.txt", "--out", tmp_path / "r"]
    code, _, err = call(capsys, *words, "training.steps=1")
    assert code == 2 and "test.txt:2: label 'neutral'" in err and not (tmp_path / "r").exists()  # before any training


def test_an_unknown_type_of_entity_at_test_time_counts_as_missed_and_is_listed(tagger, capsys, tmp_path):
    (tmp_path / "test.conll").write_text("the\tO\nfilm\tB-y\n")
    code, out, _ = call(capsys, "evaluate", tagger.folder, tmp_path / "test.conll")
    assert code == 0 and "never seen in training, so never predicted: B-y" in out


def test_ragged_columns_are_named_with_their_line(folder, tagger, capsys, tmp_path):
    (tmp_path / "ragged.conll").write_text("the\tO\nfilm\tNN\tB-x\n")
    said = r"ragged.conll' line 2 has 3 columns ('film\tNN\tB-x'), but the lines before it have 2"
    for words in (["evaluate", tagger.folder], ["train", "tagging"]):
        code, _, err = call(capsys, *words, tmp_path / "ragged.conll")
        assert code == 2 and said in err


def test_an_illegal_tag_sequence_is_read_as_scorers_read_it_and_told(folder, capsys, tmp_path):
    text = (folder / "train.conll").read_text() + "\nold\tO\nplot\tI-x\nfilm\tB-x\n"
    (tmp_path / "illegal.conll").write_text(text)
    code, out, _ = call(capsys, "check", "tagging", tmp_path / "illegal.conll")
    line = text.count("\n") - 2
    assert code == 0
    told = next(row for row in out.splitlines() if "tags that BIO does not allow, read as in seqeval" in row)
    assert told.endswith(f"1 sentence ({line})"), told


@pytest.mark.parametrize("text", ["", "   ", "<br /><br />", "<br />"])
def test_an_empty_document_has_no_label(han, capsys, text):
    prediction = han.predict(["great film.", text])[1]
    assert prediction.label == "" and prediction.probabilities == {} and prediction.uncertainty == 1.0
    code, out, _ = call(capsys, "predict", han.folder, "great film.", text)
    assert code == 0 and out.splitlines()[1] == ""
    code, _, err = call(capsys, "look", han.folder, text)
    assert code == 2 and "the text is blank" in err


def test_an_empty_document_of_a_file_is_left_out_and_counted(folder, capsys, tmp_path):
    (tmp_path / "some.csv").write_text('text,label\n"a film",pos\n" ",neg\n"<br />",neg\n"a plot",neg\n"we saw",pos\n')
    code, out, _ = call(capsys, "check", "classification", tmp_path / "some.csv", "--valid", folder / "valid.txt")
    assert code == 0 and "train: 3 of 5 texts kept, 2 left out: blank" in out


def test_one_class_is_nothing_to_tell_apart(capsys, tmp_path):
    (tmp_path / "one.txt").write_text("".join(f"pos film {n}\n" for n in range(30)))
    code, _, err = call(capsys, "train", "classification", tmp_path / "one.txt", "--out", tmp_path / "r")
    assert code == 2 and "every training example has the label 'pos'; training needs at least two different" in err
    (tmp_path / "one.conll").write_text("".join(f"{n}\tO\nfilm\tO\n\n" for n in range(30)))
    code, _, err = call(capsys, "train", "tagging", tmp_path / "one.conll", "--out", tmp_path / "r")
    assert code == 2 and "every training example has the label 'O'; training needs at least two different labels" in err
    assert not (tmp_path / "r").exists()


LONG = " ".join(["we saw the film and it was great."] * 6_250)
"""50,000 words."""


def test_a_document_of_50000_words_is_read_up_to_a_length_and_told(folder, han, tmp_path, capsys):
    assert han.predict(LONG).label in ("neg", "pos")
    notes = han.look(LONG).look.notes
    assert any("only the first 1000 tokens are read (data.max_length); 55250 more are not" in note for note in notes)
    (tmp_path / "long.txt").write_text(f"pos {LONG}\nneg {LONG.replace('.', '')}\n")
    code, out, _ = call(capsys, "evaluate", han.folder, tmp_path / "long.txt")
    assert code == 0 and "2 texts are longer than data.max_length; the rest was not read" in out
    code, _, err = call(
        capsys, "train", "classification", folder / "train.txt", "--test", tmp_path / "long.txt", "--model", "mlp",
        "--out", tmp_path / "mlp", "training.steps=1", "training.threads=1", "training.device=cpu",
    )  # fmt: skip
    assert code == 2 and "is longer than the window of mlp (50 tokens); set data.max_length=50" in err


def test_a_sentence_of_50000_words_is_tagged_whole_and_not_trained_on(folder, tagger, tmp_path, capsys):
    prediction = tagger.predict(LONG)
    assert len(prediction.tags) == 56_250
    rows = "".join(f"{word}\tO\n" for word in LONG.split())
    (tmp_path / "long.conll").write_text((folder / "train.conll").read_text() + "\n" + rows)
    code, out, _ = call(capsys, "check", "tagging", tmp_path / "long.conll", "--valid", folder / "valid.conll")
    assert code == 0 and "1 left out: longer than data.max_length 500 tokens" in out
