"""Comparing runs: one table on shared examples, honest about what it covers; training what is missing, resumably."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import heed
from commands import call, compare_here
from heed.comparison import jobs
from heed.comparison.entries import Entry
from heed.comparison.results import Resampling, p_text, results_of
from heed.comparison.training import plan_runs, split_models
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Outcomes, share
from heed.show.shown import map_to_text
from heed.tasks import check_config
from heed.training.progress import Quiet, TerminalReporter
from test_draw import Page

SETTINGS = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 150, "valid": 20, "test": 30},
    "model": {"name": "bahdanau", "d_embedding": 16, "d_hidden": 16, "d_attention": 16},
    "training": {"steps": 4, "batch_tokens": 200, "threads": 1, "device": "cpu"},
    "generation": {"max_length": 9},
    "evaluation": {"bootstrap": 20},
}
WORDS = {"ein": "a", "Hund": "dog", "sieht": "sees", "die": "the", "Katze": "cat", "und": "and", "läuft": "runs"}


def trained(folder, **settings):
    values = yaml.safe_load(yaml.safe_dump(SETTINGS))
    for name, value in settings.items():
        section, _, key = name.partition("__")
        if key:
            values[section][key] = value
        else:
            values[section] = value
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(yaml.safe_dump(values))
    return heed.train(path, out=folder, quiet=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def gru(folder):
    return trained(folder / "gru-seed1")


@pytest.fixture(scope="module")
def gru_again(folder):
    return trained(folder / "gru-seed2", training__seed=2)


@pytest.fixture(scope="module")
def rnn(folder):
    return trained(folder / "rnn", model__cell="rnn")


@pytest.fixture(scope="module")
def own(folder):
    """Two runs on a small file of sentences, with a test set; the second cuts words otherwise."""
    lines = []
    for i in range(150):
        words = [list(WORDS)[(i * k + k) % len(WORDS)] for k in range(1, 3 + i % 5)]
        lines.append(" ".join(words) + "\t" + " ".join(WORDS[word] for word in words) + "\n")
    for name, part in (("train", lines[:100]), ("valid", lines[100:120]), ("test", lines[120:])):
        (folder / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    data = {name: str(folder / f"{name}.tsv") for name in ("train", "valid", "test")}
    made = []
    for kind in ("char", "word"):
        values = {**SETTINGS, "data": data, "tokenizer": {"kind": kind, "min_count": 1}}
        values["generation"] = {"max_length": 20}
        path = folder / f"{kind}.yaml"
        path.write_text(yaml.safe_dump(values))
        made.append(heed.train(path, out=folder / kind, quiet=True))
    return made


@pytest.fixture(scope="module")
def three(gru, gru_again, rnn):
    return heed.compare([gru, rnn, gru_again], resamples=200)


# --- what is compared


def test_scores_are_those_of_evaluate(gru, rnn):
    comparison = heed.compare([gru, str(rnn.folder)], resamples=100)
    for row, run in zip(comparison.rows, (gru, rnn), strict=True):
        report = run.evaluate("test")
        for name in ("exact_match", "token_accuracy", "alignment_error"):
            assert row[name] == pytest.approx(report[name]["value"])
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert [row["run"] for row in comparison.rows] == ["gru-seed1", "rnn"]
    assert comparison.split == "test" and len(comparison.examples) == 30
    assert sum(bucket.examples for bucket in comparison.buckets) == 30 and comparison.length_unit == "characters"
    covered = [n for bucket in comparison.buckets for n in range(bucket.first, bucket.last + 1)]
    assert covered == sorted(set(covered))


def test_texts_are_scored_by_sacrebleu_and_per_token_scores_need_the_same_tokens(own):
    comparison = heed.compare(own, resamples=100)
    for row, run in zip(comparison.rows, own, strict=True):
        report = run.evaluate("test")
        for name in ("chrf", "bleu", "ter"):
            assert row[name] == pytest.approx(report[name]["value"])
        assert row["exact_match"] == pytest.approx(report["exact_match"]["value"])
        assert "token_accuracy" not in row
    assert comparison.length_unit == "characters"  # their tokens differ
    text = comparison.text()
    assert "The runs use different tokens" in text
    assert "chrF: " in text and "version:" in text.replace("\n", "")


def test_models_of_every_kind_stand_side_by_side(folder, gru):
    """A model without attention has no alignment to be wrong, and one with several heads has one map."""
    plain, again = (
        trained(
            folder / f"plain-{seed}", model={"name": "seq2seq", "d_embedding": 8, "d_hidden": 8}, training__seed=seed
        )
        for seed in (1, 2)
    )
    heads = {"name": "transformer", "d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 2}
    comparison = heed.compare([plain, gru, trained(folder / "heads", model=heads), again], resamples=50)
    first, second, _ = comparison.rows
    assert first["alignment_error"] is None and first["alignment_error_p_best"] is None
    assert 0 <= second["alignment_error"] <= 1 and second["alignment_error_best"] != "plain"
    page = comparison.to_html(sentences=3)
    count = page.count("<article>")
    assert page.count("This model does not attend to the source while it writes") == count
    assert page.count("Mean of 2 heads.</p>") == count and page.count('class="map"') == 2 * count
    assert "nan" not in page + comparison.text() + comparison.to_latex() + comparison.to_csv() + comparison.to_json()


def test_costs_are_those_of_the_reports(gru, rnn):
    comparison = heed.compare([gru, rnn], resamples=20)
    for row, run in zip(comparison.rows, (gru, rnn), strict=True):
        assert row["parameters"] == run.report["parameters"]
        assert row["updates"] == 4
        assert row["training_tokens_per_second"] == run.report["training"]["target_tokens_per_second"]
        assert row["peak_memory_mib"] == run.report["training"]["peak_memory_mib"]
        assert row["training_minutes"] == pytest.approx(run.report["training"]["seconds"] / 60)
        assert row["examples_per_second"] > 0 and row["tokens_per_second"] > 0


def test_a_comparison_repeats_and_leaves_the_session_as_it_was(gru, rnn):
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    one, other = (heed.compare([gru, rnn], resamples=20, seed=4, threads=2).rows for _ in range(2))
    for row, again in zip(one, other, strict=True):
        assert [row[k] == again[k] for k in row if not k.endswith("per_second")].count(False) == 0
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)


# --- seeds


def test_runs_that_differ_in_their_seed_are_one_row(three, gru, gru_again):
    assert [row["run"] for row in three.rows] == ["gru", "rnn"]
    row = three.rows[0]
    both = [run.evaluate("test")["token_accuracy"]["value"] for run in (gru, gru_again)]
    assert row["token_accuracy"] == pytest.approx(sum(both) / 2)
    assert (row["token_accuracy_min"], row["token_accuracy_max"]) == pytest.approx((min(both), max(both)))
    assert row["token_accuracy_sd"] == pytest.approx(abs(both[0] - both[1]) / 2**0.5)
    assert row["seeds"] == "1 2"
    text = " ".join(three.text().split())
    assert "means over seeds (gru: seeds 1 2; rnn: seeds 1)" in text
    assert "Intervals: 95 %, over seeds and examples together" in text
    assert "another seed of the same model may differ by more" in text and "(one seed)" in text
    for one in three.rows:
        assert one["token_accuracy_p_best"] is None and one["token_accuracy_p_baseline"] is None
    worse = three.rows[1 - three.best("token_accuracy")]
    assert worse["token_accuracy_minus_best_low"] <= worse["token_accuracy_minus_best_high"]  # over examples


def outcomes_of(*accuracies):
    """The outcomes of some seeds on 1,000 examples, most of which are right or wrong in all of them."""
    right = [(np.arange(1000) < 1000 * accuracy).astype(float) for accuracy in accuracies]
    return [Outcomes(("",) * 1000, (share("accuracy", "accuracy", one),)) for one in right]


def test_a_difference_within_the_spread_of_the_seeds_is_not_significant():
    def p(*rows):
        results, _ = results_of({i: outcomes_of(*row) for i, row in enumerate(rows)}, [], None, Resampling(200, 1))
        return next(one.p for result in results.values() for one in result.against["accuracy"])

    assert p([0.72, 0.76], [0.74, 0.78]) > 0.3  # the seeds of a row differ by twice the difference of the rows
    assert np.isnan(p([0.74], [0.76]))
    assert p([0.720, 0.724, 0.728], [0.780, 0.784, 0.788]) < 0.01
    assert np.isnan(p([0.74], [0.76], [0.5, 0.5]))


def test_seeds_alone_are_compared_with_each_other(gru, gru_again):
    assert [row["run"] for row in heed.compare([gru, gru_again], resamples=20).rows] == ["gru-seed1", "gru-seed2"]


# --- significance


def test_differences_are_against_the_best_and_the_baseline(gru, gru_again, rnn, folder):
    wide = trained(folder / "wide", model__d_hidden=24)
    comparison = heed.compare([gru, rnn, wide], baseline="rnn", resamples=300)
    rows = {row["run"]: row for row in comparison.rows}
    for name in ("exact_match", "token_accuracy", "alignment_error"):
        values = {run: row[name] for run, row in rows.items()}
        best = (min if name == "alignment_error" else max)(values, key=values.get)
        assert {row[f"{name}_best"] for row in rows.values()} == {best}
        assert {row[f"{name}_baseline"] for row in rows.values()} == {"rnn"}
        assert rows[best][f"{name}_p_best"] is None and rows["rnn"][f"{name}_p_baseline"] is None
        for run, row in rows.items():
            for what, other in (("best", best), ("baseline", "rnn")):
                if run != other:
                    assert row[f"{name}_minus_{what}"] == pytest.approx(values[run] - values[other])
                    assert row[f"{name}_minus_{what}_low"] <= row[f"{name}_minus_{what}_high"]
                assert row[f"{name}_p_{what}"] is None  # one seed each
    titles = [table.title for table in comparison.tables()]
    assert "difference from the best" in titles and "difference from rnn" in titles
    for text in (comparison.text(1_000), comparison.to_html(2), comparison.to_latex()):
        assert "Each row has one seed: another seed of the same model may differ by more" in text
        assert "] p " not in text
    (cells, *_) = csv.DictReader(comparison.to_csv().splitlines())
    assert cells["token_accuracy_p_baseline"] == "" != cells["token_accuracy_minus_baseline_low"]
    assert json.loads(comparison.to_json())["rows"][0]["token_accuracy_p_baseline"] is None


def test_rows_with_seeds_have_p_values_corrected_for_their_number(gru, gru_again, folder):
    small = [trained(folder / f"small-{seed}", model__d_hidden=8, training__seed=seed) for seed in (1, 2)]
    entries = [Entry("a", (gru, gru_again)), Entry("b", tuple(small)), Entry("c", (gru_again, small[0]))]
    comparison = heed.compare(entries, baseline="a", resamples=100)
    text = comparison.text(1_000)
    assert re.search(r"\] p (< )?[01]\.\d{4}", text)
    assert "corrected by Holm's method for all pairs of rows of a column" in text
    for row in comparison.rows:
        assert (row["token_accuracy_p_best"] is None) == (row["token_accuracy_best"] == row["run"])
        assert row["token_accuracy_p_best"] is None or 0 < row["token_accuracy_p_best"] <= 1
        assert 0 <= row["token_accuracy_low"] <= row["token_accuracy"] <= row["token_accuracy_high"] <= 1


def test_p_values_are_never_shown_as_zero():
    assert [p_text(p) for p in (0.0, 0.00009, 0.0002, 1.0)] == ["< 0.0001", "< 0.0001", "0.0002", "1.0000"]


def test_seeds_that_were_trained_unevenly_are_marked(folder, gru_again, rnn):
    longer = trained(folder / "longer", training__steps=8)
    longer.config = gru_again.config.model_copy(update={"training": rnn.config.training})  # as under one time budget
    text = " ".join(heed.compare([gru_again, longer, rnn], resamples=20).text(200).split())
    assert "trained for very different numbers of updates (4, 8)" in text


# --- rows that were not trained enough


def trained_for(run, updates, **training):
    """The run again, as if trained under a time budget for some updates, unless `training` says otherwise."""
    again = heed.load(run.folder)
    chosen = again.config.training.model_copy(update={"steps": training.pop("steps", None), "minutes": 1.0})
    again.config = again.config.model_copy(update={"training": chosen})
    again.report = {**run.report, "training": {**run.report["training"], "updates": updates, **training}}
    return again


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"updates": 10}, "10 of about 1,000 updates"),
        ({"updates": 1000}, None),
        ({"updates": 10, "passes": 30}, None),
        ({"updates": 63, "passes": 30, "warmup_updates": 100}, "63 updates, all of them warm-up"),
        ({"updates": 10, "steps": 10}, None),
        ({"updates": 10, "steps": 10, "warmup_updates": 10}, "10 updates, all of them warm-up"),
    ],
)
def test_a_budget_too_small_for_a_model_is_marked(gru, rnn, training, said):
    again = trained_for(rnn, **training)
    assert Entry("rnn", (again,)).shortfall == (said or "")
    again.report["training"] |= {"passes": None}  # imported
    assert Entry("rnn", (again,)).shortfall == ""


def test_a_model_from_another_run_needs_fewer_updates(rnn):
    again = trained_for(rnn, 100)
    started = again.config.model.model_copy(update={"from_": "runs/parent"})
    again.task.config = again.config.model_copy(update={"model": started})
    assert Entry("rnn", (again,)).shortfall == ""
    assert Entry("rnn", (trained_for(rnn, 100),)).shortfall != ""


def test_a_row_that_was_not_trained_enough_is_marked_everywhere_and_tested_nowhere(gru, gru_again, rnn):
    runs = {"gru-seed1": gru, "gru-seed2": gru_again, "rnn": rnn}
    entries = [Entry(name, (run,)) for name, run in runs.items()]
    best = heed.compare(entries, resamples=20).rows[0]["token_accuracy_best"]
    runs[best] = trained_for(runs[best], 10)
    comparison = heed.compare([Entry(name, (run,)) for name, run in runs.items()], baseline=best, resamples=50)
    rows = {row["run"]: row for row in comparison.rows}
    marked = rows.pop(best)
    assert marked["not_trained_enough"] == "10 of about 1,000 updates"
    assert not any(key.endswith(("_p_best", "_p_baseline")) and value is not None for key, value in marked.items())
    for row in rows.values():
        assert row["not_trained_enough"] is None and row["token_accuracy_p_baseline"] is None
        assert row["token_accuracy_best"] != best
    assert sum(row["token_accuracy_minus_best"] is not None for row in rows.values()) == 1
    remark = f"so in no test and never the best: {best} (10 of about 1,000 updates)"
    label = f"{best} (not trained enough)"
    for written in (comparison.text(1_000), comparison.to_html(2)):
        assert remark in written and label in written
    assert (
        any(remark in note for note in json.loads(comparison.to_json())["notes"])
        and "10 of about 1,000" in comparison.to_csv()
    )
    latex = comparison.to_latex()
    assert f"\n{best}$^\\dagger$ & " in latex and "$^\\dagger$Not trained enough to be compared.}" in latex
    assert not any("textbf" in line for line in latex.splitlines() if line.startswith(best))
    assert "difference from" not in heed.compare(
        [Entry("a", (runs[best],)), Entry("b", (rnn if best != "rnn" else gru,))], resamples=20
    ).text(1_000)


# --- what is written


def test_json_holds_every_output(three, gru):
    content = json.loads(three.to_json())
    assert content["rows"] == json.loads(json.dumps(three.rows))
    assert len(content["examples"]) == 30
    first = content["examples"][0]
    assert first["outputs"]["gru"][0] == gru.predict(first["source"]).text
    assert len(first["outputs"]["gru"]) == 2 and len(first["outputs"]["rnn"]) == 1


def test_latex_is_a_table_for_a_paper_with_the_rest_in_comments(three):
    latex = three.to_latex()
    comments = [line for line in latex.splitlines() if line.startswith("%")]
    assert latex.count("\\begin{table}") == latex.count("\\end{table}") == 1
    for part in ("\\toprule", "\\midrule", "\\bottomrule", "exact match \\% $\\uparrow$", "error \\% $\\downarrow$"):
        assert part in latex
    caption = re.search(r"\\caption\{(.*)\}", latex)[1]
    assert caption.startswith("Scores on 30 test examples, with the standard deviation over 1 to 2 seeds. ")
    assert len(caption.split()) <= 60
    body = [line for line in latex.splitlines() if line.endswith("\\\\")]
    for line in body:
        assert not re.search(r"(?<!\\)[%#_]|^\[", line)
    row = three.rows[0]
    low, high = (100 * row[f"token_accuracy_{end}"] for end in ("low", "high"))
    assert f" & [{low:.1f}, {high:.1f}] & " in latex and "The columns of 95 \\% intervals can be left out" in latex
    assert f"{100 * row['token_accuracy']:.1f} $\\pm$ {100 * row['token_accuracy_sd']:.1f}" in latex
    bold = [three.is_best(measure.name, n) for n in (0, 1) for measure in three.measures]
    assert latex.count("\\textbf{") == sum(bold) >= 3
    for line in three.text(10_000).splitlines():
        assert f"% {line}".rstrip() in comments
    for block in latex.split("\\begin{tabular}")[1:]:
        columns = len(re.match(r"\{(l r*)\}".replace(" ", ""), block)[1])
        rows = [line for line in block.split("\\end{tabular}")[0].splitlines() if line.endswith("\\\\")]
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}


def test_the_page_is_self_contained_and_shows_every_model(three, own):
    for comparison in (three, heed.compare(own, resamples=20)):
        text = comparison.to_html(sentences=6)
        attributes = [named for _, named in Page(text).elements]
        assert not any({"src", "href", "action"} & named.keys() for named in attributes)
        ids = [named["id"] for named in attributes if "id" in named]
        assert len(ids) == len(set(ids))
        assert "default-src 'none'" in text and not re.search(r"(url\(|@import|https?:)", text)
        assert text.count("<article>") <= 6
        assert text.count("<details>") == text.count("<article>") * len(comparison.entries)
        assert text.count('class="map"') == text.count("<details>")  # both models look at their source
        assert "Sentences drawn at random" in text
        differ = any(len(set(runs[0].measures[0].each()[i] for runs in comparison.outcomes)) > 1 for i in range(30))
        assert ("Sentences on which the models differ most" in text) == differ
        assert text == comparison.to_html(sentences=6)


def test_the_sentences_that_differ_are_those_with_the_largest_spread(own):
    comparison = heed.compare(own, resamples=20)
    drawn, different = comparison.chosen(9)
    assert len(drawn) == 6 and not set(drawn) & set(different)
    first, second = (runs[0].measures[0].each() for runs in comparison.outcomes)
    spread = abs(first - second)
    left_out = set(range(len(spread))) - set(drawn) - set(different)
    assert min(spread[i] for i in different) >= max(spread[i] for i in left_out)


# --- the command on runs


def test_compare_prints_plain_tables_into_a_pipe_and_writes_files(call, gru, rnn):
    code, out, err = call("compare", gru.folder, rnn.folder, "--resamples", 50, "--out", "made", "--sentences", 3)
    assert code == 0 and "\x1b" not in out
    for part in ("scores on 30 test examples", "difference from the best", "exact match %", "parameters", "Intervals"):
        assert part in out
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert sorted(os.listdir("made")) == ["compare.csv", "compare.html", "compare.json", "compare.tex"]
    assert "wrote made/compare.html" in err
    assert "wrote" not in call("compare", gru.folder, rnn.folder, "--resamples", 50)[2]


def test_compare_as_json(call, gru, rnn):
    code, out, _ = call("compare", gru.folder, rnn.folder, "--resamples", 50, "--json", "--beam", 2, "--threads", 1)
    assert code == 0
    content = json.loads(out)
    assert content["conditions"]["beam_size"] == 2
    assert [row["run"] for row in content["rows"]] == ["gru-seed1", "rnn"]


def test_without_a_test_set_the_validation_set_is_compared(own, folder):
    runs = []
    for name, cell in (("a", "gru"), ("b", "rnn")):
        data = {"train": str(folder / "train.tsv"), "valid": str(folder / "valid.tsv")}
        path = folder / f"no-test-{name}.yaml"
        path.write_text(yaml.safe_dump({**SETTINGS, "data": data, "model": {**SETTINGS["model"], "cell": cell}}))
        runs.append(heed.train(path, out=folder / f"no-test-{name}", quiet=True))
    comparison = heed.compare(runs, resamples=20)
    assert comparison.split == "valid" and len(comparison.examples) == 20
    assert "selected on this set, so its scores are optimistic" in comparison.text()
    with pytest.raises(ConfigError, match=r"no-test-a' has no test set \(it has valid\)"):
        heed.compare([own[0], runs[0]], resamples=20)


def test_runs_on_other_examples_are_refused(folder, gru, rnn, own):
    other = trained(folder / "other", data__seed=2)
    fewer = trained(folder / "fewer", data__test=10)
    with pytest.raises(
        DataError, match=r"test sets of '.*gru-seed1' and '.*other' differ: example 1 is '\d+' and '\d+'"
    ):
        heed.compare([gru, rnn, other])
    with pytest.raises(DataError, match="differ: 30 examples and 10; only runs with the same examples"):
        heed.compare([gru, fewer])


def test_what_cannot_be_compared_is_refused(call, gru, rnn):
    for words, message in [
        ([gru.folder], "1 run was given; a comparison takes two or more"),
        ([gru.folder, gru.folder], "gru-seed1' was given twice"),
        ([gru.folder, "nowhere"], "no run folder 'nowhere'"),
        ([gru.folder, rnn.folder, "--baseline", "rn"], "baseline 'rn' is not one of the runs; did you mean 'rnn'"),
        ([gru.folder, rnn.folder, "--split", "unseen"], "has no unseen set"),
        ([gru.folder, rnn.folder, "--minutes", 3], "training.minutes is for training, but these runs are already"),
        ([gru.folder, rnn.folder, "--seeds", 3], "--seeds is for training"),
        ([gru.folder, rnn.folder, "--open"], "--open shows the page that --out DIR writes"),
        ([gru.folder, rnn.folder, "--device", "cuda:77"], "device is 'cuda:77'"),
    ]:
        code, out, err = call("compare", *words)
        assert code == 2 and out == "" and "Traceback" not in err
        assert re.search(message, err.splitlines()[-1]), err


# --- choosing models


def planned(models, seeds=1, sizes=(), **training):
    base = check_config({**SETTINGS, "training": {**SETTINGS["training"], **training}}, "test")
    return plan_runs(base, split_models(models), seeds, sizes)


def test_models_may_carry_fields():
    runs = planned("bahdanau,bahdanau:cell=lstm:d_hidden=8:training.betas=[0.8, 0.9]:generation.beam_size=3")
    assert runs[0].label == "bahdanau"
    first, second = (run.config for run in runs)
    assert first.model.model_extra == {}
    assert second.model.model_extra == {"cell": "lstm", "d_hidden": 8}
    assert second.training.betas == (0.8, 0.9) and second.generation.beam_size == 3
    assert first.data == second.data and first.training.steps == second.training.steps


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("", "name the models to compare"),
        ("bahdanau,bahdanau:cell", "'cell' in 'bahdanau:cell' is not field=value"),
        ("bahdanau,bahdanau:data.test=9", "'data.test' in .* must be the same for all"),
        ("bahdanau,bahdanau:training.rate=9", "unknown field 'training.rate'"),
    ],
)
def test_what_models_may_not_be(models, message):
    with pytest.raises(ConfigError, match=message):
        planned(models)


# --- training what is missing


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "copy.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return path


COMMON = ["training.steps=2", "--resamples", "20", "--sentences", "2"]
TINY = ":d_embedding=8:d_hidden=8:d_attention=8"


def made_at(folder):
    return {path.parent.name: path.stat().st_mtime_ns for path in Path(folder).glob("*/model.safetensors")}


@pytest.mark.usefixtures("compared_here")
def test_compare_trains_what_is_missing_and_nothing_else(call, config):
    code, out, err = call("compare", config, "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=rnn", *COMMON)
    assert code == 0, err
    assert "0 of 2 runs exist; 2 to train" in err
    assert "scores on 30 test examples" in out and f"bahdanau{TINY}:cell=rnn" in out
    before = made_at("runs/compare-copy")
    assert len(before) == 2 and os.path.exists("runs/compare-copy/compare.html")
    more = ["compare", config, "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=lstm"]
    code, out, err = call(*more, *COMMON)
    assert "1 of 2 runs exist; 1 to train" in err
    assert f"bahdanau{TINY}:cell=lstm" in out and "cell=rnn" not in out
    after = made_at("runs/compare-copy")
    assert len(after) == 3 and before.items() <= after.items()
    # without training, the folder stands for all its runs
    code, out, err = call("compare", "runs/compare-copy", "--resamples", 20)
    assert code == 0 and "cell=rnn" in out and "cell=lstm" in out and "to train" not in err
    code, out, err = call(*more, "training.steps=3")
    assert code == 2 and "was planned with training.steps 2, but now training.steps is 3; give another --out" in err
    os.remove(f"runs/compare-copy/{min(after)}/model.safetensors")
    code, out, err = call("compare", "runs/compare-copy")
    assert code == 2 and "although training has finished: the file was removed" in err


def test_an_unbuildable_model_is_found_before_anything_trains(call, config):
    code, _, err = call("compare", config, "--models", "bahdanau,bahdanau:d_hiden=3", *COMMON)
    assert code == 2 and "unknown field 'model.d_hiden'" in err and not os.path.exists("runs")


def test_a_folder_of_something_else_is_left_alone(call, config, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    code, _, err = call("compare", config, "--models", "bahdanau,bahdanau:cell=rnn", "--out", "full", *COMMON)
    assert code == 2 and "'full' exists and is not a comparison" in err
    assert os.listdir("full") == ["letter.txt"]


def begun(words, home):
    """A process of the command."""
    words = [sys.executable, "-m", "heed", *words]
    return subprocess.Popen(words, cwd=home, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def stopped(process):
    """What the command says after an interruption."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and out == "" and "Traceback" not in err, err
    assert err.strip().endswith("interrupted; saved. Resume with the same command")


def interrupted(words, home, count):
    """Interrupt a comparison while so many of its runs train; its folder."""
    process = begun(words, home)
    folders = home / "runs" / "compare-copy"
    deadline = time.monotonic() + 120
    while len(list(folders.glob("*/metrics.jsonl"))) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stopped(process)
    return folders


@pytest.mark.usefixtures("compared_here")
def test_an_interrupted_comparison_goes_on(call, config, tmp_path):
    words = ["compare", str(config), "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=rnn", "--resamples", "20"]
    words += ["training.steps=200", "training.validate_every=200", "--sentences", "0"]
    folders = interrupted(words, tmp_path, 1)
    assert not any(folders.glob("*/model.safetensors"))
    code, _, err = call(*words)
    assert code == 0 and re.search(r"resumed at update \d+", err)
    assert len(made_at("runs/compare-copy")) == 2


def test_runs_trained_side_by_side_equal_those_trained_one_after_the_other(call, config, monkeypatch):
    words = ["compare", str(config), "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=rnn", *COMMON]
    with monkeypatch.context() as patched:
        compare_here(patched, TerminalReporter)
        code, _, err = call(*words, "--out", "one")
        assert code == 0, err
    code, _, err = call(*words, "--out", "two", "--jobs", "2")
    assert code == 0 and err.count(": finished") == 2, err
    assert made_at("one").keys() == made_at("two").keys() and len(made_at("two")) == 2
    for name in made_at("one"):
        first, second = (load_file(Path(folder) / name / "model.safetensors") for folder in ("one", "two"))
        assert all(torch.equal(first[key], second[key]) for key in first)
    outputs = [json.loads((Path(folder) / "compare.json").read_text())["examples"] for folder in ("one", "two")]
    assert outputs[0] == outputs[1]


def test_side_by_side_an_interruption_and_a_failure_stop_all(call, config, tmp_path):
    words = ["compare", str(config), "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=rnn", "--resamples", "20"]
    words += ["training.steps=3000", "training.validate_every=1000", "--sentences", "0", "--jobs", "2"]
    folders = interrupted(words, tmp_path, 2)
    assert len(list(folders.glob("*/checkpoints/step-*"))) >= 2 and not any(folders.glob("*/model.safetensors"))
    bad = f"bahdanau{TINY}:training.learning_rate=1e38:training.optimizer=sgd:training.clip=null"
    bad += ":training.warmup=0:training.schedule=constant"
    words[3] = f"bahdanau{TINY},{bad}"
    code, _, err = call(*words, "--out", "bad")
    assert code == 3 and re.search(r"heed: bahdanau\S+learning_rate=1e38\S*: the .* at update", err.splitlines()[-1])
    assert not any((tmp_path / "bad").glob("*/model.safetensors"))


def test_side_by_side_ctrl_c_twice_while_runs_begin_is_told_in_one_line(config, tmp_path):
    words = ["compare", str(config), "--models", f"bahdanau{TINY},bahdanau{TINY}:cell=rnn", "training.steps=3000"]
    process = begun([*words, "--jobs", "2"], tmp_path)
    while "2 of 2" not in process.stderr.readline():
        pass
    time.sleep(0.7)  # the processes of the runs still import modules
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    stopped(process)


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_that_ends_in_the_moment_of_ctrl_c_is_the_last(count, monkeypatch, tmp_path):
    begun, told = [], []

    class Ends:
        def __init__(self, planned, path, quiet, slot, gpu):
            begun.append(path.name)
            self.planned, self.slot = planned, slot

        def has_ended(self):
            if self.slot == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return self.slot == 0 or bool(told)

        result, stop = lambda self: True, lambda self: told.append(self.slot)

    monkeypatch.setattr(jobs, "Job", Ends)
    words = [f"bahdanau{TINY}", f"bahdanau{TINY}:cell=rnn", f"bahdanau{TINY}:cell=lstm"]
    planned = plan_runs(check_config(SETTINGS, "test"), words, 1)
    assert not jobs.train_all(tmp_path, planned, Quiet(), count)
    assert begun == [planned.name for planned in planned[:count]]
    assert told == [1] * (count - 1)  # once


def test_side_by_side_each_run_sees_one_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    places = (("auto", 0), ("cuda", 1), ("auto", 2), ("cpu", 1), ("cuda:1", 0))
    seen = [jobs.one_gpu(device, slot).get("CUDA_VISIBLE_DEVICES") for device, slot in places]
    assert seen == ["0", "1", "0", None, None]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert jobs.one_gpu("auto", 1) == {"CUDA_VISIBLE_DEVICES": "7"}


def test_one_text_shows_the_attention_of_every_run(gru, folder, tmp_path, capsys):
    plain = trained(folder / "none", model={"name": "seq2seq", "d_embedding": 8, "d_hidden": 8})
    text = "".join(gru.examples("test")[0].source)
    made = heed.compare([gru, plain], resamples=5, look=text)
    own = gru.look(text)
    drawn = made.text()
    (row,) = [one for one in own.maps if one.mechanism == "cross"]
    assert map_to_text(row) in drawn and drawn.index("gru-seed1: ") < drawn.index("none: ")
    assert drawn.rstrip().endswith("No attention: every output token sees the source only through this one vector.")
    first, second = json.loads(made.to_json())["looks"]
    assert first["run"] == "gru-seed1" and np.allclose(first["maps"][0]["weights"], row.weights, atol=1e-6)
    assert second["run"] == "none" and second["maps"] == []
    made.save(tmp_path, sentences=2)
    page = (tmp_path / "compare.html").read_text()
    section = page[page.index("One text in every model") : page.index("Sentences drawn at random")]
    assert section.count("<details open>") == 2 and section.count('role="grid"') == 1
    assert len(set(re.findall(r'id="map-(\d+)"', page))) == len(re.findall(r'id="map-(\d+)"', page))
    code, out, _ = call(capsys, "compare", gru.folder, plain.folder, "--resamples", "5", "--look", text)
    assert code == 0 and map_to_text(row, width=10_000) in out
    assert "One text" not in heed.compare([gru, plain], resamples=5).to_html(0)
    assert made.save(tmp_path / "one.svg", theme="dark", width="85mm") == [tmp_path / "one.svg"]
    picture = (tmp_path / "one.svg").read_text()
    assert 'class="figure dark"' in picture and 'width="85mm"' in picture and "layer 0, head 0, of gru-seed1" in picture
    words = ["compare", gru.folder, plain.folder, "--resamples", "5", "--look", text]
    code, _, err = call(capsys, *words, "--out", tmp_path / "one.png", "--scale", "1", "--theme", "dark")
    assert code == 0 and (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG"), err
    code, _, err = call(capsys, *words, "--out", tmp_path / "version-1.2", "--theme", "dark")
    assert code == 0 and 'class="figure dark"' in (tmp_path / "version-1.2" / "compare.svg").read_text()
    code, _, err = call(
        capsys, "compare", "translation", "data.name=dates", "--models", "bahdanau", "--out", tmp_path / "new.png"
    )
    assert code == 2 and "new.png' must be a folder, for the runs" in err


def test_a_text_for_runs_that_read_none_is_refused(small_run):
    runs = [small_run("table", seed) for seed in (1, 2)]
    with pytest.raises(ConfigError, match="--look takes a text, and runs of table read none"):
        heed.compare(runs, look="a text", split="valid")
