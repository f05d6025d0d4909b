"""A model without attention is looked at, scored and run like any other; what it cannot show, it says."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from torch.testing import assert_close

import heed
from contract import data_of, forced_batch
from heed.attention import Rows
from heed.cli import main
from heed.config import ModelSection, TokenizerConfig
from heed.data.tokens import UNKNOWN
from heed.runs.card import scores_text
from heed.show.shown import ShownLook
from heed.tasks.run import Run
from heed.tasks.translation import TASK, TranslationConfig, TranslationTraining, look_at
from heed.watch.maps import FIXED_VECTOR

SOURCE = "31415"
SVG = "{http://www.w3.org/2000/svg}"


def make_run(name, tokenizer=None, **fields):
    """An untrained model on digit strings to copy."""
    data = data_of("translation", name="copy", train=30, valid=5, test=5, length=(3, 6))
    section = ModelSection(name=name, size="tiny", d_embedding=8, d_hidden=8, **fields)
    tokenizer = tokenizer or TokenizerConfig()
    config = TranslationConfig(data=data, tokenizer=tokenizer, model=section, training=TranslationTraining(steps=1))
    torch.manual_seed(1)
    task = TASK.prepare(config)
    return Run(None, task.config, task, task.build_model().eval(), {})


def look_of(run, **options):
    return ShownLook(look_at(run.task, run.model, SOURCE, title="a model", **options), steps=True)


FORMS = [
    ("seq2seq", {}),
    ("seq2seq", {"summary": "start", "cell": "lstm", "num_layers": 2}),
    ("seq2seq", {"bidirectional": True}),
    ("rnn", {}),
    ("rnn", {"cell": "lstm", "num_layers": 2}),
]
every_form = pytest.mark.parametrize(
    "run", [pytest.param(form, id="-".join([form[0], *map(str, form[1].values())])) for form in FORMS], indirect=True
)


@pytest.fixture
def run(request):
    name, fields = request.param
    return make_run(name, **fields)


@every_form
def test_a_look_shows_the_one_vector_that_every_output_reads(run):
    look = look_of(run, target="314").look
    batch = forced_batch(run.task, SOURCE, run.input.target_tokenizer.encode("314").ids)
    with torch.no_grad():
        memory = run.model.encode(batch.source, batch.source_mask)
    assert look.maps == ()
    assert torch.equal(look.summary, memory.summary[0])
    assert [frame.token for frame in look.encoder] == list(SOURCE)
    assert [frame.token for frame in look.decoder] == ["3", "1", "4", "end"]
    assert all(frame.attention == () for frame in look.decoder)


@every_form
def test_frames_are_the_states_of_reading_and_of_writing(run):
    look = look_of(run, target="314").look
    config, layers = run.model.config, run.model.config.num_layers
    directions = ["forward", "backward"] if getattr(config, "bidirectional", False) else ["forward"]
    names = [f"{d} layer {i}" if layers > 1 else d for i in range(layers) for d in directions]
    assert all(list(frame.states) == names for frame in look.encoder)
    assert all(frame.gates for frame in look.encoder)
    if directions == ["forward"]:  # the summary is the last state that reading left, layer by layer
        packed = look.summary.chunk(layers * (2 if config.cell == "lstm" else 1))[:: 2 if config.cell == "lstm" else 1]
        for part, name in zip(packed, names, strict=True):
            assert_close(look.encoder[-1].states[name], part)
    batch = forced_batch(run.task, SOURCE, run.input.target_tokenizer.encode("314").ids)
    with torch.no_grad():
        memory = run.model.encode(batch.source, batch.source_mask)
        hidden, _ = run.model.step(batch.target, run.model.start(memory, Rows.repeat(1)))
    for frame, expected in zip(look.decoder, hidden[0], strict=True):
        assert_close(frame.state, expected[: config.d_hidden])


@every_form
def test_every_drawing_shows_the_vector_in_place_of_a_map(run):
    shown = look_of(run)
    size = len(shown.look.summary)
    text = shown.text()
    assert FIXED_VECTOR in text and f"({size} in all)" in text
    assert text.count("the fixed vector, the same at every step") == len(shown.look.decoder)
    page = shown.html()
    assert FIXED_VECTOR in page and f"{size} units" in page and "scores the source" not in page
    assert page.count("source (the same at every step)") == len(shown.look.decoder)
    cells = ElementTree.fromstring(shown.svg()).findall(f"{SVG}rect/{SVG}title")
    values = [float(cell.text.split()[-1]) for cell in cells if not cell.text.endswith("masked")]
    assert values == pytest.approx(shown.look.summary.tolist(), abs=5e-4)
    content = json.loads(shown.json())
    assert content["maps"] == []
    assert content["summary"] == pytest.approx(shown.look.summary.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_a_model_that_attends_shows_maps_and_no_vector(name):
    shown = look_of(make_run(name))
    assert len(shown.maps) == 1 and shown.look.summary is None
    assert FIXED_VECTOR not in shown.text() + shown.html()
    assert json.loads(shown.json())["summary"] is None


@pytest.mark.parametrize("name", ["seq2seq", "rnn", "luong"])
def test_the_report_says_that_nothing_attends(name):
    run = make_run(name)
    report = run.evaluate()
    text = scores_text(run, {"test": report})
    if name == "luong":
        assert "alignment" not in report and "alignment_error" in report and "no attention" not in text
    else:
        assert "alignment_error" not in report and report["alignment"] == "no attention"
        assert re.search(r"^  alignment error +no attention$", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau"])
def test_an_unknown_word_is_written_only_where_attention_can_replace_it(name):
    run = make_run(name, TokenizerConfig(kind="word", min_count=1))
    assert run.head.replaces_unknown
    with torch.no_grad():
        run.model.output.weight.zero_()
        run.model.output.bias.zero_()[UNKNOWN] = 9.0  # it would write nothing else
    written = run.task.head.translate(run.task, run.model, [SOURCE], max_length=3)[0][0].ids
    assert (UNKNOWN in written) == (name == "bahdanau")


def test_alignments_of_a_model_without_attention_are_refused_in_one_line(tmp_path, capsys):
    settings = {"model.d_hidden": 8, "data.train": 30, "data.valid": 5, "data.test": 5, "training.threads": 1}
    run = heed.train(
        "translation", data="copy", model="rnn", steps=1, out=tmp_path / "run", quiet=True, settings=settings
    )
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.folder), "314", "--align"])
    out, err = capsys.readouterr()
    assert ended.value.code and not out
    assert err == "heed: model 'rnn' has no attention, so --align cannot link words; omit --align\n"
    assert run.align("314", run.predict("314")) == []
