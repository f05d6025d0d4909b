"""Sources between a start and an end token: what a translation model reads, and what people see of it."""

import pytest

import heed
from contract import forced_batch
from heed.data.examples import Pair
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError

FIELDS = {
    "data.length": [2, 5],
    "data.train": 60,
    "data.valid": 6,
    "data.test": 6,
    "model.name": "transformer",
    "model.size": "tiny",
    "model.d_model": 8,
    "model.d_ff": 8,
    "model.num_heads": 2,
    "training.threads": 1,
}


def train(kind, out):
    settings = FIELDS | {"model.source_frame": kind}
    return heed.train("translation", data="copy", steps=2, out=out, settings=settings, quiet=True)


AROUND = {"none": ([], []), "end": ([], [END]), "both": ([START], [END])}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {kind: train(kind, folder / kind) for kind in AROUND}


@pytest.mark.parametrize("kind", AROUND)
def test_every_source_is_framed_in_training_and_in_use(runs, kind):
    run = runs[kind]
    before, after = AROUND[kind]
    plain = run.input.source_tokenizer.encode("1 2 3").ids
    task = run.task
    assert task.input.encode([Pair("1 2 3", "1")])[0].source == [*before, *plain, *after]
    assert forced_batch(task, "1 2 3", [4]).source[0].tolist() == [*before, *plain, *after]
    assert all(row.source[: len(before)] == before for row in task.encoded("train")[:5])
    assert all(row.source[len(row.source) - len(after) :] == after for row in task.encoded("train")[:5])
    read = []
    encode = run.model.encode
    run.model.encode = lambda source, mask: (read.append(source.tolist()), encode(source, mask))[1]
    run.predict("1 2 3")
    del run.model.encode
    assert read == [[[*before, *plain, *after]]]


@pytest.mark.parametrize("kind", AROUND)
def test_looks_name_the_frame_and_links_count_words_alone(runs, kind):
    run = runs[kind]
    look = run.look("12", target="21").look
    cross = next(m for m in look.maps if m.mechanism == "cross")
    named = {"none": [], "end": ["end"], "both": ["start", "end"]}[kind]
    assert [label for label in cross.key.labels if label in ("start", "end")] == named
    prediction = run.predict("12", max_length=3)
    assert all(0 <= source < 2 for source, _ in run.align("12", prediction))
    assert "alignment_error" in run.report["scores"]["test"]


def test_another_frame_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"source_frame is 'start'.*'none', 'end', 'both' or 'language'"):
        train("start", tmp_path / "run")
