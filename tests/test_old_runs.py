"""Runs that earlier versions have written: they load, predict and score the same, and resume where they stopped.

tests/fixtures/runs-1 is the folder of one run format; tools/make_fixtures.py says how it was made.
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import heed
from heed.cli import main

FIXTURES = Path(__file__).parent / "fixtures"
CASES = [path.parent.relative_to(FIXTURES).as_posix() for path in sorted(FIXTURES.glob("*/*/expected.json"))]
CHECKPOINT = 6
"""The update of the checkpoint in each unfinished run."""


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A copy of a case's folder, its configurations pointing into it."""
    home = Path(shutil.copytree(FIXTURES / request.param, tmp_path / Path(request.param).name))
    for run in ("finished", "unfinished"):
        sums = json.loads((home / run / "checksums.json").read_text())
        for path in (home / run / name for name in ("config.yaml", ".config.yaml", "data.json")):
            if path.exists():
                data = path.read_text().replace("/runs/", f"{tmp_path}/").encode()
                path.write_bytes(data)
                if path.name in sums:
                    sums[path.name] = {"bytes": len(data), "blake2b": hashlib.blake2b(data, digest_size=20).hexdigest()}
        (home / run / "checksums.json").write_text(json.dumps(sums))
    return home


def expected(home):
    return json.loads((home / "expected.json").read_text())


def predictions(home, run, inputs):
    if home.name == "table":
        made = run.predict_file(home / "data" / "test.csv")
        return [{"label": p.label, "probabilities": p.probabilities} for p in made]
    if home.name == "series":
        return run.predict_file(home / "data" / "series.csv").tolist()
    made = run.predict(inputs)
    if home.name == "classification":
        return [{"label": p.label, "probabilities": p.probabilities} for p in made]
    if home.name == "tagging":
        return [{"words": list(p.words), "tags": list(p.tags)} for p in made]
    return [{"text": p.text, "score": p.score} for p in made]


def close(value, tolerance=1e-5):
    """As JSON holds it, numbers that are not whole to a tolerance."""
    if isinstance(value, dict):
        return {key: close(one, tolerance) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [close(one, tolerance) for one in value]
    return pytest.approx(value, rel=tolerance, abs=tolerance) if isinstance(value, float) else value


def without_intervals(value):
    """Scores without what resampling draws, and without the versions of libraries."""
    if isinstance(value, dict):
        return {key: without_intervals(one) for key, one in value.items() if key not in ("low", "high", "signature")}
    return [without_intervals(one) for one in value] if isinstance(value, list | tuple) else value


def run_command(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code in (0, None)


def test_every_task_has_an_old_run():
    assert {Path(case).name.split("-")[0] for case in CASES} == {
        "translation",
        "classification",
        "tagging",
        "table",
        "series",
    }


def test_an_old_run_predicts_and_scores_as_it_did(case):
    run, before = heed.load(case / "finished"), expected(case)
    assert predictions(case, run, before["inputs"]) == close(before["predictions"])
    scores = json.loads(json.dumps(run.evaluate("test")))
    assert without_intervals(scores) == close(without_intervals(before["scores"]))
    assert scores.keys() == before["scores"].keys()


@pytest.mark.parametrize("name", ["finished", "unfinished"])
def test_check_finds_an_old_run_whole(case, name):
    state = heed.check_run(case / name)
    assert state.whole, str(state)
    assert "model.safetensors" in " ".join(state.files)
    run_command("check", case / name)


def test_an_old_run_resumes_as_if_it_had_never_stopped(case, capsys):
    run_command("train", case / "unfinished", "--resume")
    said = capsys.readouterr().err
    assert f"resumed at update {CHECKPOINT} " in said
    assert "starting pass" not in said and "changed since" not in said
    events = [json.loads(line) for line in (case / "unfinished" / "metrics.jsonl").read_text().splitlines()]
    before = expected(case)["events"]
    assert [(event["event"], event["step"]) for event in events] == [(old["event"], old["step"]) for old in before]
    for event, old in zip(events, before, strict=True):
        assert {key: event[key] for key in old} == {key: close(value, 1e-4) for key, value in old.items()}
    assert heed.check_run(case / "unfinished").whole
