"""The scripts of examples/data: heed reads what they write, each time the same, and no test example is trained on."""

import importlib
from itertools import islice

import pytest

from heed.cli import main
from heed.errors import DataError
from recall import KINDS, look_ups
from shapes import ARROWS, FIGURES, arrangements, draw_shapes

SIZES = ["--train=40", "--valid=8", "--test=12"]
READ = {
    "bookings": "dialogue FOLDER/train.jsonl --valid FOLDER/valid.jsonl --test FOLDER/test.jsonl data.respond=host",
    "notes": "summarisation FOLDER/train.jsonl --valid FOLDER/valid.jsonl --test FOLDER/test.jsonl",
    "recall": "classification FOLDER/train.txt --valid FOLDER/valid.txt --test FOLDER/test.txt",
    "shapes": "images FOLDER",
    "stories": "pretraining FOLDER/train.txt --valid FOLDER/valid.txt --test FOLDER/test.txt data.format=lines",
}


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def examples_in(files, split):
    """The lines of a split, or its pictures."""
    found = [data for name, data in files.items() if name.startswith(split)]
    return found if len(found) > 1 else found[0].splitlines()


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", READ)
def test_what_a_script_writes_is_read_and_repeats(name, tmp_path, capsys):
    script = importlib.import_module(name)
    for copy, seed in (("one", 1), ("again", 1), ("other", 2)):
        script.main([str(tmp_path / copy), *SIZES, f"--seed={seed}"])
    one, again, other = (files_in(tmp_path / copy) for copy in ("one", "again", "other"))
    assert one == again != other
    assert [len(examples_in(one, split)) for split in ("train", "valid", "test")] == [40, 8, 12]
    trained = {*examples_in(one, "train"), *examples_in(other, "train")}
    assert trained.isdisjoint({*examples_in(one, "test"), *examples_in(other, "test")})
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["check", *READ[name].replace("FOLDER", str(tmp_path / "one")).split()])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    assert "40" in out and "12" in out


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_every_kind_are_labelled(kind, tmp_path):
    importlib.import_module("recall").main([str(tmp_path), *SIZES, f"--kind={kind}"])
    lines = (tmp_path / "train.txt").read_text().splitlines()
    texts = {answer: text.split() for answer, _, text in (line.partition(" ") for line in lines)}
    for answer, words in texts.items():
        if kind == "delayed_recall":
            assert words[0] == answer and words[-1] == "?"
        elif kind == "adding":
            assert int(answer) == sum(int(word[1:]) for word in words if word[0] == "x")
        elif kind == "two_clauses":
            assert answer == f"{words[0]}-{words[-1]}"


def test_each_question_of_a_look_up_is_answered():
    for text, answer in islice(look_ups(3, 2, 1), 50):
        told, _, asked = text.partition(" ? ")
        words, questions = told.split(), asked.split()
        things = {words[i]: dict(zip(("colour", "shape"), words[i + 1 : i + 3], strict=True)) for i in (0, 3, 6)}
        assert answer == "-".join(things[questions[i + 1]][questions[i]] for i in (0, 2))
    with pytest.raises(DataError, match="9 questions about 2 things"):
        next(look_ups(2, 9, 1))


def test_the_label_of_a_picture_is_the_figure_that_the_arrow_points_at():
    for one in islice(arrangements("train", 1, (32, 24), 12, colours=False), 50):
        picture, named = one.drawn(32, 24) > 127, {marks: name for name, marks in (FIGURES | ARROWS).items()}
        windows = [picture[row : row + 5, column : column + 5] for row, column in one.corners]
        shown = [
            named[tuple("".join(".#"[pixel] for pixel in line) for line in window.astype(int))] for window in windows
        ]
        assert one.label == shown[1:][list(ARROWS).index(shown[0])]


def test_arrangements_of_training_pictures_are_in_no_other_split():
    shown = {
        split: {repr(one) for seed in (1, 2) for one in islice(arrangements(split, seed, (14, 14), 7, False), 300)}
        for split in ("train", "valid", "test")
    }
    assert not shown["train"] & (shown["valid"] | shown["test"])
    with pytest.raises(DataError, match="distance is 28 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes("train", 1, 1, distance=28)
