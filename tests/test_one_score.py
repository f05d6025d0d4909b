"""`heed evaluate`, `heed compare` and validation score the same outputs alike to the last digit, intervals included."""

import json
import shutil

import pytest

import heed
from heed.comparison.results import Resampling, results_of


@pytest.fixture
def run(case):
    return heed.load(case / "finished")


def same(score, value):
    """Whether an entry of a report has these numbers, whole or, where a report has no interval, the value alone."""
    return (
        (score == value["value"]) if not isinstance(score, dict) else all(score.get(key) == value[key] for key in value)
    )


def test_evaluate_and_compare_give_the_same_numbers(run, tmp_path):
    report = json.loads(json.dumps(run.evaluate("test")))
    if run.can("examiner"):
        shutil.copytree(run.folder, tmp_path / "again")
        comparison = heed.compare([run, tmp_path / "again"])
        for row in comparison.rows:
            for name in (measure.name for measure in comparison.measures):
                found = {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
                assert same(report[name], found), name
        # The main score by length too, where lengths are counted alike.
        main, (row, _) = comparison.measures[0].name, comparison.rows
        for bucket in report.get("by_source_length", []):
            at = f"{main}_length_{bucket['first']}_{bucket['last']}"
            assert same(bucket[main], {"value": row[at], "low": row[f"{at}_low"], "high": row[f"{at}_high"]})
        return
    outcomes = run.outcomes(run.examples("test"))
    resampling = Resampling(run.config.evaluation.bootstrap, 1)
    result = results_of({0: [outcomes]}, [1] * len(outcomes.outputs), 0, resampling)[0][0]
    assert result.scores
    for name, score in result.scores.items():
        if "columns" in report:  # of a series: "sold_mae"
            column, kind = name.rsplit("_", 1)
            entry = report["columns"][column]["model"][kind]
        else:
            entry = report[name]
        assert same(entry, {"value": score.value, "low": score.low, "high": score.high}), name


def test_validation_and_evaluation_give_the_same_numbers(run):
    validated, report = run.task.validate(run.model), run.evaluate("valid")
    shared = set(validated) & set(report)
    if run.config.task == "translation" and run.config.generation.beam_size > 1:
        shared -= {"bleu", "chrf", "exact_match"}  # validation searches greedily
    assert shared or run.config.task == "series"  # whose report has no loss
    for name in shared:
        assert report[name]["value"] == validated[name], name


def test_resamples_are_the_run_s_own_unless_they_are_given(run, tmp_path):
    if not run.can("examiner"):
        return
    shutil.copytree(run.folder, tmp_path / "again")
    pair = [run, tmp_path / "again"]
    assert heed.compare(pair).resampling == Resampling(run.config.evaluation.bootstrap, 1)
    assert heed.compare(pair, resamples=30, seed=2).resampling == Resampling(30, 2)
