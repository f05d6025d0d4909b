"""Values of any type given to `predict`, `evaluate` and `look`: an answer, or one line that names them."""

import datetime
import decimal
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from heed.cli.predict import Unseen
from heed.errors import HeedError
from small_runs import SMALL

pandas = pytest.importorskip("pandas")
ODD = {
    "None": None, "number": 5, "nan": float("nan"), "True": True, "bytes": b"x", "object": object(), "set": {"a", "b"},
    "Nones": [None], "numbers": [5], "many bytes": [b"x"], "dict": {"a": 1}, "dict of None": {"text": None},
    "dicts": [{"a": 1}], "empty dict": {}, "list": [], "tuple": (), "range": range(3), "function": len, "class": str,
    "path": Path("x.txt"), "empty lists": [[]], "word, number": [["a", 5]], "words, None": [["a"], None],
    "text, None": ["a", None], "0-d": np.array(3), "2-d": np.zeros((2, 2)), "objects": np.array([None, "a"], object),
    "3-d": np.zeros((2, 2, 2)), "tensor": torch.zeros(2), "series": pandas.Series([None, "a"]),
    "frame": pandas.DataFrame({"a": [1]}), "empty frame": pandas.DataFrame(), "date": datetime.date(2020, 1, 1),
    "decimal": decimal.Decimal("1"), "complex": 3j, "...": ..., "half a pair": ("a", None), "pairs": [("a", None)],
    "turns": {"turns": None}, "turns of None": {"turns": [None]}, "text as turns": {"turns": "a"},
    "error": ValueError("x"), "huge": 10**400, "huge numbers": [10**400], "nested": [[[["a"]]]],
}  # fmt: skip


def small(data, tmp_path, task):
    return SMALL[task].untrained(data, tmp_path / task, SMALL[task].model, {})


@pytest.mark.parametrize("task", SMALL)
def test_a_value_of_another_type_is_refused_in_one_line(data, tmp_path, task):
    run = small(data, tmp_path, task)
    failed = []
    for method in ("predict", "evaluate", "look"):
        if not hasattr(type(run), method):
            continue
        for name, value in {**ODD, "generator": (one for one in [None])}.items():
            try:
                with warnings.catch_warnings(action="ignore"):
                    getattr(run, method)(value)
            except HeedError as error:
                if len(str(error)) > 400 or "\n" in str(error):
                    failed.append(f"{method}({name}): {str(error)[:200]}")
            except Exception as error:
                failed.append(f"{method}({name}): {type(error).__name__} {error}")
    assert failed == []


def test_a_broken_picture_among_many_costs_no_other_its_label(data, tmp_path):
    run = small(data, tmp_path, "images")
    files = sorted((data / "photos").rglob("*.png"))
    (broken := tmp_path / "broken.png").write_bytes(b"not a picture")
    given = [*files[:7], broken, *map(str, files[7:])]
    with pytest.warns(UserWarning, match=r"1 picture of 13 cannot be read and have no label: .*broken\.png"):
        found = run.predict(given)
    expected = run.predict(files)
    assert [one.label for one in found] == [
        *[one.label for one in expected[:7]],
        "",
        *[one.label for one in expected[7:]],
    ]
    for given in (broken, [broken], [broken, tmp_path / "missing.png"]):
        with pytest.raises(HeedError, match="broken"):
            run.predict(given)
    with pytest.raises(HeedError, match="column 'picture' is the text '', expected a path"):
        run.predict("")


def test_the_name_of_a_file_is_not_taken_for_a_split(data, tmp_path):
    run = small(data, tmp_path, "translation")
    file = str(data / "pairs.tsv")
    assert run.evaluate(file) == run.evaluate([file]) == run.evaluate(Path(file))
    assert run.evaluate(file)["examples"] == 24
    for given, said in (
        ("dev.tsv", "no file 'dev.tsv'"),
        ("tests", "no split 'tests'"),
        ("a" * 10**5, "no split 'aaa"),
    ):
        with pytest.raises(HeedError, match=said) as raised:
            run.evaluate(given)
        assert len(str(raised.value)) < 200
    printed = str(run.evaluate(file)).splitlines()
    assert printed[0] == "scores of 24 examples" and not printed[-1].endswith(">")


@pytest.mark.parametrize("task", ["translation", "summarisation", "dialogue", "language_modelling", "pretraining"])
def test_predict_shows_its_options(data, tmp_path, task):
    run = small(data, tmp_path, task)
    shown = {name: one.default for name, one in inspect.signature(run.predict).parameters.items() if one.kind == 3}
    assert shown and "options" not in inspect.signature(run.predict).parameters
    text = "one [MASK]" if task == "pretraining" else "one two"
    assert run.predict(text, **shown) == run.predict(text)


def test_notices_of_unknown_text_are_bounded(data, tmp_path):
    words = ["x" * 10**6, *(f"y{n}" for n in range(1000))]
    unseen = Unseen()
    unseen.add(words)
    assert len(unseen.note("words")) < 1_000
    run = small(data, tmp_path, "classification")
    look = run.look(f"one {words[0]} {' '.join(words[1:40])}", contributions=False).look
    assert max(map(len, look.notes)) < 1_000
