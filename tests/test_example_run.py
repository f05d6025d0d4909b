"""The run that comes with heed."""

from pathlib import Path

import pytest

import heed
from heed import folder
from heed.errors import HeedWarning, RunError


def test_the_run_that_comes_with_heed_answers_without_any_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(HeedWarning, match="'example' is the run that comes with heed: dates in 23 languages to ISO"):
        run = heed.load("example")
    dates = {"3 mars 2024": "2024-03-03", "sábado, 9 de mayo de 1998": "1998-05-09", "Dec 25, 1999": "1999-12-25"}
    assert {date: run.predict(date).text for date in dates} == dates
    look = run.look("3 mars 2024")
    assert [*look.maps]
    assert {path.name for path in run.folder.iterdir()}.isdisjoint({"metrics.jsonl", "checkpoints"})
    with pytest.raises(RunError, match=r"'example' has no metrics.jsonl, so it has no training curves; give a text"):
        run.curves()


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("example").mkdir()
    assert folder.find("example") == Path("example")


def test_without_runs_the_server_opens_it_and_last_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder.newest_or_example() == "example"
    with pytest.raises(RunError, match="train one, name its folder, or try the run that comes with heed: example"):
        heed.load()
    place = tmp_path / "runs" / "a"
    place.mkdir(parents=True)
    (place / "format.json").write_text("{}")
    assert folder.newest_or_example() == "last"
