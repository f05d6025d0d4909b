"""Looking at language models: one causal map of prompt and output, steps, surprisal, edits, for every model."""

import json
import math

import numpy as np
import pytest
import torch

import heed
from continuing import SMALL, random_run, write_texts
from heed.data.tokens import END, START
from heed.errors import ConfigError
from heed.watch.edits import Uniform, ZeroHead
from heed.watch.trace import edit

PROMPT = "I love the café"
every_model = pytest.mark.parametrize("model", list(SMALL))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def attention_maps(look):
    return [one for one in look.maps if one.is_distribution]


def numpy_maps(model, ids):
    """The weights of every layer and head by the paper's equation, from what each attention module is given."""
    maps, hooks = [], []

    def weights(module, args):
        x = args[0][0].double().numpy()
        d = module.d_head if hasattr(module, "d_head") else x.shape[1] // module.num_heads

        def heads(linear):
            y = x @ linear.weight.detach().double().numpy().T
            y += 0 if linear.bias is None else linear.bias.detach().double().numpy()
            return y.reshape(len(x), module.num_heads, d).transpose(1, 0, 2)

        scores = heads(module.w_query) @ heads(module.w_key).transpose(0, 2, 1) / math.sqrt(d)
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        maps.append(exp / exp.sum(-1, keepdims=True))

    for _, module in sorted(heed.watch.edits.attention_of(model).items(), key=lambda item: item[1].layer):
        hooks.append(module.register_forward_pre_hook(weights))
    with torch.no_grad():
        model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return maps


@pytest.mark.parametrize("model", ["attention_lm", "gpt"])
def test_maps_are_the_softmax_of_the_equation(file, model):
    run = random_run(file, model)
    look = run.look(PROMPT, length=7, layer="all", head="all").look
    written = run.predict(PROMPT, length=7)
    ids = [END, *run.input.tokenizer.encode(PROMPT).ids, *written.ids]
    expected = [head for layer in numpy_maps(run.model, ids) for head in layer]
    assert len(look.maps) == len(expected) == 4
    for one, weights in zip(look.maps, expected, strict=True):
        assert np.abs(one.weights.double().numpy() - weights).max() < 1e-6
    prompt, output = look.maps[0].key.parts
    assert (prompt.label, output.label, output.start) == ("prompt", "output", 1 + len(PROMPT))
    labels = ["end", *PROMPT, *(f"+{c}" for c in written.text)]
    assert all(list(axis.labels) == labels for one in look.maps for axis in (one.query, one.key))


@every_model
def test_one_pass_sees_what_the_steps_saw(file, model):
    run = random_run(file, model)
    shown = run.look(PROMPT, length=7, layer="all", head="all").look
    with heed.trace(run.model) as seen:
        written = run.predict(PROMPT, length=7)
    assert shown.target == written.text and shown.source == PROMPT
    count = 1 + len(PROMPT) + len(written.ids)
    for one in attention_maps(shown):
        steps = seen.maps(one.mechanism, one.layer).weights[0, one.head].double()
        # The steps never read the last token that was written, where the length cut the text off.
        whole = one.weights.double()[: len(steps), : steps.shape[1]]
        assert np.abs(steps.numpy() - whole.numpy()).max() < 1e-6
        assert len(one.query) >= count - 1 and (one.mask.sum(1) > 0).all()
        assert torch.allclose(one.weights.sum(1), torch.ones(len(one.query)), atol=1e-5)
        assert torch.equal(one.mask.sum(1), torch.arange(1, len(one.query) + 1))  # it grows by one token a row
    names = {one.mechanism for one in shown.maps}
    assert (
        names
        == {
            "attention_lm": {"decoder"},
            "gpt": {"decoder"},
            "rnn": {"forward"},
            "lstmn": {"self", "forward", "tape"},
            "self_rnn": {"self", "forward"},
        }[model]
    )


@every_model
def test_every_step_has_its_candidates_states_and_gates(file, model):
    run = random_run(file, model)
    shown = run.look(PROMPT, length=7, steps=True)
    written = run.predict(PROMPT, length=7)
    ids = [END, *run.input.tokenizer.encode(PROMPT).ids, *written.ids]
    with torch.no_grad():
        probabilities = torch.softmax(run.model.logits(run.model(torch.tensor([ids])))[0], -1)
    frames = shown.look.encoder + shown.look.decoder
    assert len(shown.look.encoder) == 1 + len(PROMPT) and len(shown.look.decoder) == len(written.tokens)
    # The last frame of the prompt and the first of the output tell of the same place.
    for place, frame in zip([*range(1 + len(PROMPT)), *range(len(PROMPT), len(ids))], frames, strict=False):
        best = probabilities[place].topk(5)
        assert [p for _, p in frame.top] == pytest.approx(best.values.tolist(), abs=1e-5)
        special = {START: "start", END: "end"}
        names = [special.get(i, run.input.tokenizer.token(i)) for i in best.indices.tolist()]
        assert [token for token, _ in frame.top] == names
        if model in ("rnn", "lstmn", "self_rnn"):
            assert frame.gates and all(0 < gate < 1 for gate in frame.gates.values())
        for step in frame.attention:
            assert float(step.weights.sum()) == pytest.approx(1, abs=1e-5) and len(step.key) <= place + 1
    for frame, token, log_prob in zip(shown.look.decoder, written.tokens, written.log_probs, strict=True):
        assert frame.token == ("end" if token == "</s>" else token)
        assert dict(frame.top).get(frame.token, 0) == pytest.approx(math.exp(log_prob), abs=1e-5)
    text = shown.text()
    assert f"prompt step 1 of {1 + len(PROMPT)}: reads end" in text
    assert f"output step 1 of {len(written.tokens)}: writes" in text
    assert "encoder" not in text and "decoder step" not in text


@every_model
def test_a_given_text_is_shaded_by_surprisal(file, model):
    run = random_run(file, model)
    shown = run.look(PROMPT, given=True, steps=True)
    (shading,), scored = shown.look.shadings, run.score(PROMPT)
    assert shading.weights == pytest.approx(scored.bits, abs=1e-4) and shading.axis.labels == tuple(PROMPT)
    assert shading.darkest == max(shading.weights)
    assert [int(other.split()[1].rstrip(",")) for other in shading.others] == list(scored.ranks)
    assert shown.target == "" and len(shown.look.decoder) == len(PROMPT) and not shown.look.encoder
    assert all("+" not in label for one in shown.maps for label in one.key.labels)
    assert "written" not in shown.text()
    page = shown.html()
    assert all(f">{c}<" in page for c in set(PROMPT) - {" "}) and "Surprisal" in page
    values = json.loads(shown.json())
    assert values["shadings"][0]["weights"] == pytest.approx(scored.bits, abs=1e-4)


def test_subwords_are_shown_as_they_are(file):
    run = random_run(file, "gpt", "byte_bpe")
    shown = run.look("I love the café", length=3)
    tokens = run.input.tokenizer.encode("I love the café").ids
    assert len(attention_maps(shown.look)[0].query) >= len(tokens) + 1
    assert shown.look.shadings[0].axis.labels[:2] == ("I", " love")
    assert "\u2423love" in shown.html() and "café" in shown.html()


def test_edits_hold_while_the_output_is_written(file):
    run = random_run(file)
    for change in (Uniform("decoder"), ZeroHead("decoder", 0, 1)):
        shown = run.look(PROMPT, length=12, edits=[change], layer=0, head="all").look
        with edit(run.model, change):
            assert shown.target == run.predict(PROMPT, length=12).text
        first, second = shown.maps
        rows = torch.arange(1, len(first.query) + 1)
        if isinstance(change, Uniform):
            assert torch.allclose(first.weights[:, 0], 1 / rows)
        else:
            assert second.weights.abs().max() == 0 and torch.allclose(first.weights.sum(1), torch.ones(len(rows)))
        assert any(note.startswith("edited: ") for note in shown.notes)
    with pytest.raises(ConfigError, match="the model has decoder layer 0"):
        run.look(PROMPT, edits=[Uniform("self")])


def test_beyond_the_context_the_last_window_is_shown(file):
    run = random_run(file, "attention_lm", "char", 12)
    shown = run.look(PROMPT, length=8).look
    (one,) = shown.maps
    assert len(one.query) == 12 and any("the last 12 tokens are shown" in note for note in shown.notes)
    assert shown.target == run.predict(PROMPT, length=8).text


def test_an_output_that_fills_the_context_is_shaded_alone(file):
    run = random_run(file, "attention_lm", "char", 8)
    look = run.look(PROMPT, length=20).look
    (shading,) = look.shadings
    assert shading.title == "Surprisal of the generated text in bits"
    assert len(shading.weights) == len(shading.axis) == 7


def test_what_there_is_not_is_refused(file):
    run = random_run(file, "rnn")
    with pytest.raises(ConfigError, match="no 'decoder' attention: this model has no attention"):
        run.look(PROMPT, mechanism="decoder")
    for chosen in ({"layer": 0}, {"head": 1}):
        with pytest.raises(ConfigError, match="this model has no attention, so --layer and --head do not apply"):
            run.look(PROMPT, **chosen)
    with pytest.raises(ConfigError, match="--words does not apply: the tokens of this model are characters"):
        random_run(file, "gpt", "char").look(PROMPT, words=True)
    with pytest.raises(ConfigError, match="--given writes nothing, so --length and --beam do not apply"):
        run.look(PROMPT, given=True, length=3)
    with pytest.raises(ConfigError, match="the text is blank"):
        run.look(" ")
    with pytest.raises(ConfigError, match="no head 7: there are 2"):
        random_run(file).look(PROMPT, head=7)
