"""States of another text, against passes computed by hand; the logit lens, against transformers; grids."""

import json

import pytest
import torch

import heed
from heed.attention import Rows
from heed.errors import ConfigError, ShapeError
from heed.layers import pack_states
from heed.models.base import Memory
from heed.show.shown import ShownLook
from heed.tasks import tasks_with
from heed.watch.looks import Look
from heed.watch.maps import Axis, Map
from heed.watch.patching import Patching, sites_of
from heed.watch.trace import trace
from test_conformance import usable
from test_look_imported import gpt2, imported

TEXT, OTHER = "one two three four", "one five three six"
WITHOUT_STATES = {"bag", "cnn", "mlp", "attention_only"}


def every_model():
    for name in tasks_with("patch"):
        yield from (pytest.param(name, model, id=f"{name}-{model}") for model, _ in usable(name))


@pytest.mark.parametrize(("name", "model"), [*every_model()])
def test_all_states_of_a_layer_give_the_score_of_the_other_text_and_none_that_of_the_text(name, model, untrained):
    run = untrained(name, model)
    if model in WITHOUT_STATES:
        with pytest.raises(ConfigError, match=f"model {model} has no states of single tokens"):
            run.patch(TEXT, OTHER)
        return
    asked = run.looks.contrast(run.task, run.model, TEXT, OTHER)
    if name == "tagging":  # an untrained one gives both texts the same tags
        asked = {"target": f"{run.head.labels[0]}:1", "rather_than": None}
    grid = run.patch(TEXT, OTHER, **{name: asked[name] for name in ("target", "rather_than") if name in asked})
    own, there = (run.looks.explain(run.task, run.model, text, **asked) for text in (TEXT, OTHER))
    length = sum(map(len, own.around)) + len(own.scored.tokens)
    tokens = [one.scored.tokens.unsqueeze(0) for one in (own, there)]
    with torch.no_grad(), trace(run.model) as seen:
        wanted = there.scored.of_tokens(tokens[1])
    of_source = ("encoder", "layers") if hasattr(run.model, "encode") else ""
    sites = [site for site in sites_of(seen, length) if site.name.startswith(of_source)]
    layers = sorted({site.layer for site in sites})
    assert grid.maps[0].query.labels[1:] == tuple(f"layer {number}" for number in layers)
    for number in layers:
        for every, expected in ((True, wanted), (False, own.scored.of_tokens(tokens[0]))):
            if every and getattr(run.model, "lexical", None):
                continue  # the vectors of the words reach this decoder beside the states
            places = torch.full((1, length), every)
            with Patching(run.model, [site for site in sites if site.layer == number], places):
                torch.testing.assert_close(own.scored.of_tokens(tokens[0]), expected, rtol=1e-4, atol=1e-5)


def test_the_row_of_words_is_the_text_with_one_word_replaced(untrained):
    run = untrained("classification", "encoder")
    grid = run.patch(TEXT, OTHER, target="a")
    texts = [TEXT, OTHER, "one five three four", "one two three six"]
    text, other, *replaced = (run.attribute(one, method="grad", target="a").of.score for one in texts)
    shares = [(score - text) / (other - text) for score in replaced]
    assert grid.maps[0].weights[0].tolist() == pytest.approx([0.0, shares[0], 0.0, shares[1]], abs=1e-3)
    assert grid.maps[0].key.labels == ("one", "two/five", "three", "four/six")
    score, *notes = grid.look.notes
    assert ("a small difference: shares of it say little about the model" in notes) == (abs(other - text) < 0.05)
    assert score == f"score: the logit of 'a'; {text:.4f} of the text, {other:.4f} of the other"


def test_a_patched_block_is_one_whose_output_was_replaced(untrained):
    run = untrained("classification", "bert")
    grid = run.patch(TEXT, OTHER, target="a")
    assert grid.maps[0].key.labels == ("<s>", "one", "two/five", "three", "four/six", "</s>")
    block, kept = run.model.body.blocks[0], []
    of = run.looks.explain
    own, there = (of(run.task, run.model, text, "a").scored for text in (TEXT, OTHER))
    handle = block.register_forward_hook(lambda *given: kept.append(given[-1].clone()))
    scores = [float(one.of_tokens(one.tokens.unsqueeze(0))) for one in (own, there)]
    handle.remove()

    def replaced(module, given, output):
        output = output.clone()
        output[:, 2] = kept[1][:, 2]
        return output

    handle = block.register_forward_hook(replaced)
    with trace(run.model):  # so that every position of the last block is computed, as in a patched pass
        score = float(own.of_tokens(own.tokens.unsqueeze(0)))
    handle.remove()
    assert float(grid.maps[0].weights[1, 2]) == pytest.approx((score - scores[0]) / (scores[1] - scores[0]), abs=1e-4)


@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn", "gru_notes"])
def test_a_patched_recurrent_state_is_carried_on(cell, untrained):
    run = untrained("translation", "seq2seq", cell=cell)
    model, (encoder,) = run.model, run.model.encoder.forward_cells
    output = run.predict(OTHER)
    grid = run.patch(TEXT, OTHER)
    tokens = [run.input.source_tokenizer.encode(text).ids for text in (TEXT, OTHER)]
    ids = [
        run.input.first_token(tokens[1]),
        *output.ids,
        *([run.input.target_tokenizer.special.end] * output.finished),
    ]

    @torch.no_grad()
    def score(source, state_at=None):
        states, state = [], encoder.zero_state(model.source_embedding.weight[:1])
        for n, token in enumerate(source):
            state = encoder.readable_step(model.source_embedding.weight[[token]], state)
            state = state if state_at is None or n != state_at[0] else state_at[1]
            states.append(state)
        memory = Memory((), pack_states(model.bridge([[state]])))
        hidden, _ = model.step(torch.tensor([ids[:-1]]), model.start(memory, Rows.repeat(1)))
        log_probs = torch.log_softmax(model.logits(hidden)[0], -1)
        return float(log_probs.gather(1, torch.tensor(ids[1:]).unsqueeze(1)).sum()), states

    (text, _), (other, states) = score(tokens[0]), score(tokens[1])
    for n in range(4):
        patched, _ = score(tokens[0], (n, states[n]))
        assert float(grid.maps[0].weights[1, n]) == pytest.approx((patched - text) / (other - text), abs=5e-3)
    # The decoder has nothing but the last state.
    assert float(grid.maps[0].weights[1, 3]) == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("backward", [False, True])
def test_each_direction_carries_a_state_its_own_way(backward, untrained):
    run = untrained("tagging", "rnn", bidirectional=False, backward=backward)
    tag = run.head.labels[0]
    shares = run.patch("one two three four", "five five five five", target=f"{tag}:1").maps[0].weights[1].tolist()
    assert shares[1] == pytest.approx(1.0, abs=5e-3)
    unread = shares[:1] if backward else shares[2:]
    assert unread == pytest.approx([0.0] * len(unread), abs=1e-3) and abs(shares[2 if backward else 0]) > 1e-3


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        ("one two three", {}, "the text has 4 tokens and the other 3; states are exchanged position by position"),
        ("one two three four", {}, "the scores are equal, so no share can be computed; choose another with --for"),
        (OTHER, {"target": "c"}, "this run has no label 'c'"),
    ],
)
def test_what_cannot_be_patched_is_said(other, options, message, untrained):
    run = untrained("classification", "rnn")
    with pytest.raises(ConfigError) as refused:
        run.patch(TEXT, other, **options)
    assert message in str(refused.value)


def test_the_n_grams_beside_a_network_have_no_part_in_the_shares(untrained):
    run = untrained("classification", "rnn", ngrams=1)
    grid = run.patch(TEXT, OTHER, target="a")
    assert "scored without the n-grams beside the network" in grid.look.notes
    alone = run.attribute(TEXT, method="grad", target="a", ngrams=False).of.score
    assert f"{alone:.4f} of the text" in grid.look.notes[0]


def test_grids_stand_alone_and_take_edits(untrained):
    run = untrained("classification", "encoder")
    with pytest.raises(ConfigError, match="--rather-than needs --for"):
        run.patch(TEXT, OTHER, rather_than="a")
    with pytest.raises(ConfigError, match=r"`lens` is not available for classification; it is for"):
        run.lens(TEXT)
    plain, edited = (run.patch(TEXT, OTHER, target="a", edits=edits) for edits in ([], [heed.Uniform()]))
    assert not torch.allclose(plain.maps[0].weights, edited.maps[0].weights)


# Lens -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "model"), [("language_modelling", "gpt"), ("language_modelling", "attention_lm"),
                                             ("translation", "transformer")])  # fmt: skip
def test_the_last_row_of_the_lens_is_the_output_of_the_model(task, model, untrained):
    run = untrained(task, model)
    grid = run.lens(TEXT)
    read, axis, name = run.looks.lens(run.task, run.model, TEXT)
    with trace(run.model):  # unwatched, a single token is read by another form, which agrees to rounding
        best = torch.softmax(read()[0].float(), -1).max(-1)
    assert torch.equal(grid.maps[0].weights[-1], best.values) and grid.maps[0].key == axis
    assert grid.maps[0].tokens[-1] == tuple(map(name, best.indices.tolist()))
    with pytest.raises(ConfigError, match="this model has none"):
        untrained(task, "rnn").lens(TEXT)


def test_each_row_of_the_lens_of_an_imported_gpt2_is_its_last_norm_and_output_after_that_block(tmp_path):
    run, model = imported(tmp_path, gpt2, "LMHeadModel")
    grid = run.lens("the man went")
    ids = torch.tensor([run.input.prompt_tokens(run.input.tokenizer.encode("the man went").ids, min_tokens=2)])
    with torch.no_grad():
        states = model(ids, output_hidden_states=True).hidden_states
        logits = [model.lm_head(model.transformer.ln_f(states[1])), model(ids).logits]
    for row, one in zip(grid.maps[0].weights, logits, strict=True):
        torch.testing.assert_close(row, one[0].softmax(-1).max(-1).values, rtol=1e-4, atol=1e-5)


# Drawing ----------------------------------------------------------------------------------------------------------


def grid_of(values, tokens=None, labels=("a<b", "\u0627\u0628")):
    axes = Axis("layers", "layer", tuple(f"layer {n}" for n in range(len(values)))), Axis("text", "word", labels)
    if tokens is None:
        grid = Map("states", 0, None, *axes, torch.tensor(values), name="shares", unit="share", signed=True)
    else:
        grid = Map(
            *("next tokens", 0, None),
            *axes,
            torch.tensor(values),
            name="next tokens",
            unit="probability",
            tokens=tokens,
        )
    return ShownLook(Look("title", "x", "", (grid,), (), (), names=("text", "")), steps=False)


def test_a_grid_is_drawn_in_every_format(tmp_path):
    grid = grid_of([[0.5, -0.25], [1.0, 0.0]], labels=("a<b", "cd"))
    lines = grid.text(60).splitlines()
    assert [line.split() for line in lines[-5:-2]] == [
        ["a<b", "cd"], ["layer", "0", "\u2593+0.50", "\u2592-0.25"], ["layer", "1", "\u2588+1.00", "\u00b70.00"],
    ]  # fmt: skip
    assert "\x1b[48;2" in grid.text(60, color=True)
    assert json.loads(grid.json())["maps"][0]["weights"] == [[0.5, -0.25], [1.0, 0.0]]
    page, drawing = grid.html(), grid.svg()
    assert 'class="b2"' in page and "a&lt;b" in page and "a&lt;b" in drawing and "layer 1 -&gt; text cd 0.00" in drawing
    grid.save(tmp_path / "grid.png")
    assert (tmp_path / "grid.png").read_bytes()[:4] == b"\x89PNG"


def test_a_grid_of_tokens_shows_each_with_its_number_and_lists_those_without_a_fixed_width():
    grid = grid_of([[0.5, 0.25]], tokens=(("the", "\u0643"),))
    assert [line for line in grid.text().splitlines() if "0.50" in line] == ["  layer 0  0.50  the"]
    assert json.loads(grid.json())["maps"][0]["tokens"] == [["the", "\u0643"]]
    assert "the 0.50" in grid.svg() and ">the 0.50</td>" in grid.html()
    for tokens in ((("word",) * 30,), None):
        wide = grid_of([[0.1] * 30], tokens=tokens, labels=("w",) * 30).text(60)
        assert max(len(line) for line in wide.splitlines()[:-1]) <= 60 and wide.count("layer 0") > 1


def test_a_grid_of_tokens_has_one_in_each_cell():
    with pytest.raises(ShapeError, match="not one token for each of the 1 x 2 cells"):
        grid_of([[0.5, 0.25]], tokens=(("the",),))
