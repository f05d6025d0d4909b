"""Layers, heads and mechanisms of a Transformer are looked at one by one, together, or as a mean."""

import json

import pytest
import torch
from torch.testing import assert_close

from commands import failing, output_of
from contract import data_of, forced_batch
from heed.config import ModelSection, TokenizerConfig
from heed.errors import ConfigError
from heed.tasks.translation import TASK, TranslationConfig, TranslationTraining, look_at
from heed.watch.looks import Choice
from heed.watch.trace import trace

SOURCE, TARGET = "31415", "314"


@pytest.fixture(scope="module")
def both():
    data = data_of("translation", name="copy", train=30, valid=5, test=5, length=(3, 6))
    section = ModelSection(name="transformer", size="tiny", d_model=8, num_heads=2, num_layers=3, d_ff=8)
    training = TranslationTraining(steps=1)
    config = TranslationConfig(data=data, tokenizer=TokenizerConfig(), model=section, training=training)
    torch.manual_seed(1)
    task = TASK.prepare(config)
    return task, task.build_model().eval()


def look(both, *choice, **options):
    return look_at(*both, SOURCE, target=TARGET, choice=Choice(*choice), **options)


def weights_seen(both):
    task, model = both
    batch = forced_batch(task, SOURCE, task.input.target_tokenizer.encode(TARGET).ids)
    with torch.no_grad(), trace(model) as seen:
        model(batch.source, batch.source_mask, batch.target)
    return seen


def test_by_default_the_last_layer_and_the_mean_of_its_heads(both):
    shown, seen = look(both), weights_seen(both)
    assert [(m.mechanism, m.layer, m.head) for m in shown.maps] == [
        ("encoder", 2, None),
        ("decoder", 2, None),
        ("cross", 2, None),
    ]
    for one in shown.maps:
        assert_close(one.weights, seen.maps(one.mechanism, 2).weights[0].mean(0))
        assert one.scores is None  # no softmax of any scores gives a mean of weights
    assert "shown: the last layer, the mean of 2 heads; change with --layer, --head and --mechanism" in shown.notes


def test_one_head_of_one_layer(both):
    shown, seen = look(both, "decoder", 1, 1), weights_seen(both)
    (one,) = shown.maps
    assert (one.mechanism, one.layer, one.head) == ("decoder", 1, 1)
    assert_close(one.weights, seen.maps("decoder", 1).weights[0, 1])
    assert_close(torch.softmax(one.scores.masked_fill(~one.mask, -torch.inf), -1), one.weights)


def test_frames_hold_a_row_of_each_map_and_the_states_of_each_block(both):
    shown = look(both, None, 0, 1)
    encoder, decoder, cross = shown.maps
    for i, frame in enumerate(shown.encoder):
        assert list(frame.states) == ["layer 0", "layer 1", "layer 2"]
        (step,) = frame.attention
        assert torch.equal(step.weights, encoder.weights[i]) and step.mask is None
    seen = weights_seen(both)
    for t, frame in enumerate(shown.decoder):
        first, second = frame.attention
        assert torch.equal(first.weights, decoder.weights[t]) and first.mask.sum() == t + 1
        assert torch.equal(second.weights, cross.weights[t])
        assert_close(second.context, seen.maps("cross", 0).context[0, 1, t])
        assert_close(frame.state, seen.tensors("states")[-1][0, t])  # of the last block


def test_what_the_model_has_not_is_refused(both):
    with pytest.raises(ConfigError, match="no 'words' attention: this model has encoder, decoder, cross"):
        look(both, "words")
    with pytest.raises(ConfigError, match="has 3 layers of encoder attention, 3 layers of decoder attention"):
        look(both, None, 3)
    with pytest.raises(ConfigError, match="no head 2: there are 2 heads, counted from 0"):
        look(both, "cross", 0, 2)
    with pytest.raises(ConfigError, match="no head 1: there is 1 head, counted from 0"):
        Choice(head=1).heads(1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"head": "0"}, "head is '0'; give a whole number, 'mean' or 'all'"),
        ({"layer": 1.5}, "layer is 1.5; give a whole number, 'all'"),
        ({"layer": "last"}, "layer is 'last'"),
        ({"head": True}, "head is True"),
    ],
)
def test_a_head_or_layer_of_another_type_is_refused_in_words(both, asked, message):
    with pytest.raises(ConfigError, match=message):
        Choice(**asked)


def test_from_the_command_line(tmp_path, capsys):
    fields = ["model.name=transformer", "model.d_model=8", "model.num_heads=2", "model.d_ff=8", "training.steps=2"]
    (tmp_path / "c.yaml").write_text("task: translation\ndata: {name: copy, train: 40, valid: 5, test: 5}\n")
    output_of(capsys, "train", tmp_path / "c.yaml", *fields, "--out", tmp_path / "run")
    options = ["--mechanism", "cross", "--layer", "all", "--head", "0", "--as", "json"]
    maps = json.loads(output_of(capsys, "look", tmp_path / "run", "314", *options))["maps"]
    assert [(m["mechanism"], m["layer"], m["head"]) for m in maps] == [("cross", 0, 0), ("cross", 1, 0)]
    said = failing(capsys, "look", tmp_path / "run", "314", "--layer", "top")
    assert "--layer is 'top'; give a number or all" in said
