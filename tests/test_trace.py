"""Looking inside: it changes nothing, costs nothing when off, and shows what the model really did."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import heed
from contract import assert_close_in_scale, gradients_of
from heed.attention import Rows, watch
from heed.attention.modules import Attends
from heed.errors import ConfigError, ShapeError
from heed.generation import SearchOptions, generate
from heed.models.attention_lm import AttentionLM
from heed.models.bahdanau import Bahdanau
from heed.models.base import DecoderBody
from heed.models.bert import Bert
from heed.models.gpt import GPT
from heed.models.transformer import Transformer
from heed.models.vit import Vit
from heed.watch.edits import Block, Force, Keep, Permute, Scale, Uniform, ZeroHead
from heed.watch.maps import Axis, Map
from heed.watch.records import SelfCheckError
from heed.watch.trace import ObserveError
from test_models import VARIANTS, every_body, in_turn, make_config, make_model

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
CELLS = ["rnn", "lstm", "gru", "gru_notes"]
every_variant = pytest.mark.parametrize(("body", "config"), VARIANTS)
every_cell = pytest.mark.parametrize("cell", CELLS)


def bahdanau(seed=0, sharp=4.0, **fields):
    """A small model whose attention is far from uniform."""
    model = make_model(Bahdanau, make_config(Bahdanau, **fields), seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "score" in name or name.startswith(("encoder", "initial", "cell")):
                parameter *= sharp
    return model


def attention_lm(seed=0, sharp=4.0, **fields):
    model = make_model(AttentionLM, make_config(AttentionLM, **{"num_heads": 4, **fields}), seed)
    with torch.no_grad():
        for layer in model.layers:
            layer.w_query.weight *= sharp
    return model


def forward(model, args):
    """Hidden states and, of a decoder, logits; of an encoder, whose head is the task's, the states twice."""
    hidden = model(**args)
    return hidden, model.logits(hidden) if isinstance(model, DecoderBody) else hidden


def attends(model):
    return any(isinstance(module, Attends) for module in model.modules())


def in_steps(model, args, cuts, rows=None):
    """The written sequence read in pieces that end at `cuts`."""
    source = {name: value for name, value in args.items() if name not in ("target", "tokens")}
    tokens = args.get("target", args.get("tokens"))
    state = model.start(model.encode(**source) if source else None, Rows.repeat(len(tokens)) if rows is None else rows)
    pieces, start = [], 0
    for end in cuts:
        hidden, state = model.step(tokens[:, start:end], state)
        pieces.append(hidden)
        start = end
    return torch.cat(pieces, dim=1)


def watched_maps(model, args, *edits, **asked):
    with torch.no_grad(), heed.trace(model, edits=edits) as seen:
        model(**args)
    return seen.maps(**asked)


# --- nothing changes


@pytest.mark.parametrize(("body", "config", "train"), in_turn(VARIANTS, False, True))
def test_watched_outputs_have_the_same_bits(body, config, train):
    if train and body in (Bert, Vit):
        return  # computed in another form unwatched, see below
    model = make_model(body, config.model_copy(update={"dropout": 0.3})).train(train)
    args = body.example(config, 1)
    torch.manual_seed(5)
    plain = forward(model, args)
    torch.manual_seed(5)
    with heed.trace(model) as seen:
        watched = forward(model, args)
    assert bool(seen.attention_records) == attends(model)
    assert seen.tensor_records or not isinstance(model, DecoderBody)  # logits; others may offer states
    for a, b in zip(plain, watched, strict=True):
        if body is Vit:  # its last block computes the class token alone where nobody watches
            assert_close(a, b)
        else:
            assert torch.equal(a, b)
    if train:  # the seed matters, so dropout was really there
        torch.manual_seed(6)
        assert not torch.equal(plain[0], model(**args))


@pytest.mark.parametrize(("body", "config"), [v for v in VARIANTS if v.values[0] in (Bert, Vit)])
def test_models_that_train_in_another_form_give_the_same_watched_to_rounding(body, config):
    """Texts laid end to end; in the last block the class token alone."""
    model, args = make_model(body, config.model_copy(update={"dropout": 0.0})).train(), body.example(config, 1)
    plain = model(**args)
    with heed.trace(model):
        watched = model(**args)
    inside = args.get("mask", ...)
    assert_close(watched[inside], plain[inside])


@every_variant
def test_watched_gradients_are_the_same(body, config):
    """To the bit, but for a block of gpt or vit: trained as one function where nobody watches, its rounding differs."""

    def gradients(watching):
        model = make_model(body, config)
        with heed.trace(model, grad=True) if watching else nullcontext():
            forward(model, body.example(config, 1))[1].square().sum().backward()
        return gradients_of(model)

    plain, watched = gradients(False), gradients(True)
    assert any(gradient.any() for gradient in plain.values()) and plain.keys() == watched.keys()
    if body in (GPT, Vit):
        assert_close_in_scale(watched, plain, 1e-4)
    else:
        assert not [name for name, gradient in plain.items() if not torch.equal(gradient, watched[name])]


def test_nothing_is_watched_outside_the_block():
    model = bahdanau()
    args = Bahdanau.example(model.config, 1)
    with heed.trace(model) as seen:
        forward(model, args)
    counts = len(seen.attention_records), len(seen.gate_records), len(seen.tensor_records)
    assert all(counts)
    forward(model, args)
    assert counts == (len(seen.attention_records), len(seen.gate_records), len(seen.tensor_records))


def test_only_the_watched_model_is_recorded():
    model, other = attention_lm(), attention_lm(seed=1)
    args = AttentionLM.example(model.config, 1)
    other_args = AttentionLM.example(model.config, 2)
    with torch.no_grad(), heed.trace(model, edits=[Uniform()]) as seen:
        model(**args)
        watched = forward(other, other_args)
    assert {record.mechanism for record in seen.attention_records} == {"decoder"}
    assert len(seen.attention_records) == model.config.num_layers
    assert not seen.tensors("logits")
    with torch.no_grad():
        assert torch.equal(watched[0], other(**other_args))  # nor is it edited


# --- what is shown is what was done


@every_variant
def test_maps_are_distributions_that_reproduce_the_context(body, config):
    model = make_model(body, config)
    args = body.example(config, 1)
    with torch.no_grad(), heed.trace(model) as seen:
        model(**args)
    assert bool(seen.mechanisms()) == attends(model)
    for mechanism, layer in seen.mechanisms():
        maps = seen.maps(mechanism, layer)
        assert_close(maps.weights.sum(-1), torch.ones(maps.weights.shape[:-1]), **CLOSE)
        assert not maps.weights[~maps.mask].any()
        assert torch.equal(
            maps.weights.masked_fill(~maps.mask, 0),
            torch.softmax(maps.scores.masked_fill(~maps.mask, -torch.inf), -1),
        )
        # The last call has all keys, also of a tape that grows step by step.
        record = [r for r in seen.attention_records if (r.mechanism, r.layer) == (mechanism, layer)][-1]
        value = record.value if record.source_of is None else record.value[record.source_of]
        assert_close(maps.weights @ value, maps.context, **CLOSE)


@pytest.mark.parametrize("tampered", ["projected", "prepared", "value", "context"])
@pytest.mark.parametrize("make", [bahdanau, attention_lm])
def test_a_tampered_record_is_never_shown(make, tampered):
    model = make()
    with torch.no_grad(), heed.trace(model) as seen:
        model(**type(model).example(model.config, 1))
    record = seen.attention_records[-1]
    changed = getattr(record, tampered).clone()
    changed[0, 0, -1] += torch.linspace(-1, 1, changed.shape[-1])  # one vector of one row
    seen.attention_records[-1] = replace(record, **{tampered: changed})
    with pytest.raises(SelfCheckError, match="please report"):
        seen.maps()
    seen.attention_records[-1] = record
    seen.maps()


@every_cell
def test_a_tampered_gate_record_is_never_shown(cell):
    model = bahdanau(cell=cell)
    with torch.no_grad(), heed.trace(model) as seen:
        model(**Bahdanau.example(model.config, 1))
    seen.gates()
    record = seen.gate_records[0]
    weights = {**record.weights, "w_hh": record.weights["w_hh"] * 1.05}
    seen.gate_records[0] = replace(record, weights=weights)
    with pytest.raises(SelfCheckError, match=record.name):
        seen.gates()


def test_sharp_attention_is_no_false_alarm():
    model = attention_lm(sharp=200.0)
    maps = watched_maps(model, {"tokens": torch.randint(4, 11, (4, 40))}, layer=0)
    assert maps.scores[maps.mask].abs().max() > 40
    assert maps.weights[:, :, 20:].max(-1).values.mean() > 0.9


@pytest.mark.parametrize("cell", [*CELLS, None])
def test_a_record_does_not_read_live_parameters(cell):
    scores = dict(zip(CELLS, ["additive", "concat", "general", "key_query"], strict=True))
    model = bahdanau(score=scores[cell], cell=cell) if cell else attention_lm()
    args = type(model).example(model.config, 1)

    def shown():
        found = {
            f"{m} {n} {k}": getattr(seen.maps(m, n), k) for m, n in seen.mechanisms() for k in ("weights", "scores")
        }
        found |= {f"{cell} {gate}": value for cell, gates in seen.gates().items() for gate, value in gates.items()}
        return {name: value.clone() for name, value in found.items()}

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    with heed.trace(model) as seen:
        loss = forward(model, args)[1].square().sum()
    before = shown()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    after = shown()
    assert before
    for name, value in before.items():
        assert torch.equal(value, after[name]), name


def test_training_mode_shows_weights_before_dropout():
    config = make_config(Bahdanau, dropout=0.5)
    model = make_model(Bahdanau, config).train()
    with torch.no_grad(), heed.trace(model) as seen:
        model(**Bahdanau.example(config, 1))
    weights = seen.maps().weights
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), **CLOSE)


# --- steps


@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5), (1, 4)], ids=["one", "several"])
@pytest.mark.parametrize("cell", [*CELLS, None])
def test_steps_put_together_are_the_full_pass(cell, cuts):
    model = bahdanau(cell=cell) if cell else attention_lm()
    args = type(model).example(model.config, 1)
    length = len(args.get("target", args.get("tokens"))[0])
    with torch.no_grad():
        with heed.trace(model) as full:
            model(**args)
        with heed.trace(model) as stepped:
            in_steps(model, args, (*cuts, length))
    for mechanism, layer in full.mechanisms():
        for name in ("weights", "context", "mask"):
            expected = getattr(full.maps(mechanism, layer), name)
            assert_close(getattr(stepped.maps(mechanism, layer), name), expected, **CLOSE)
    gates, expected = stepped.gates(), full.gates()
    assert gates.keys() == expected.keys()
    for net, values in expected.items():
        for gate, value in values.items():
            assert_close(gates[net][gate], value, **CLOSE)


def test_two_passes_are_not_taken_for_one():
    model = bahdanau()
    first, last = (Bahdanau.example(model.config, seed) for seed in (1, 2))
    with torch.no_grad(), heed.trace(model) as seen:
        model(**first)
        model(**last)
    assert torch.equal(seen.maps().weights, watched_maps(model, last).weights)
    decoder = [gates["hidden"] for name, gates in seen.gates().items() if not name.startswith("encoder")]
    assert [h.shape[1] for h in decoder] == [6]


# --- gates


@every_cell
def test_gates_of_the_backward_net_lie_in_text_order(cell):
    model = bahdanau(cell=cell)
    args = Bahdanau.example(model.config, 1)
    with torch.no_grad(), heed.trace(model) as seen:
        model(**args)
        embedded = model.source_embedding(args["source"])
    net = model.encoder.backward_cells[0]
    gates = seen.gates()["encoder.backward_cells.0"]
    for b, length in enumerate(args["source_mask"].sum(1).tolist()):
        state = net.zero_state(embedded[:1])
        for position in range(length - 1, -1, -1):
            x = embedded[b : b + 1, position]
            with torch.no_grad():
                state = net.readable_step(x, state)
            assert_close(gates["hidden"][b, position], state[0][0], **CLOSE)


@every_cell
def test_the_states_shown_for_the_decoder_are_those_it_had(cell):
    model = bahdanau(cell=cell)
    args = Bahdanau.example(model.config, 1)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden, logits = forward(model, args)
    assert_close(seen.gates()["cell"]["hidden"], hidden[..., : model.config.d_hidden], **CLOSE)
    assert torch.equal(seen.tensors("logits")[0], logits)


# --- losses on attention


def test_a_loss_on_the_weights_reaches_encoder_and_attention():
    model = bahdanau()
    with heed.trace(model, grad=True) as seen:
        model(**Bahdanau.example(model.config, 1))
    seen.maps().weights[..., 0].log().sum().backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder.", "attention.")):
            assert parameter.grad is not None and parameter.grad.any(), name
        if name.startswith("output"):
            assert parameter.grad is None


def test_without_grad_what_is_seen_holds_no_graph():
    model = bahdanau()
    with heed.trace(model) as seen:
        forward(model, Bahdanau.example(model.config, 1))
    maps = seen.maps()
    assert not (maps.weights.requires_grad or maps.scores.requires_grad or maps.context.requires_grad)
    assert not any(value.requires_grad for gates in seen.gates().values() for value in gates.values())
    assert not seen.tensors("logits")[0].requires_grad


# --- refusals


def test_a_second_trace_is_refused_and_leaves_the_first_alone():
    model = bahdanau()
    with heed.trace(model) as seen:
        for second in (heed.trace(attention_lm()), heed.edit(model, Keep())):
            with pytest.raises(ObserveError, match="already open"), second:
                raise AssertionError("entered")
        model(**Bahdanau.example(model.config, 1))
    assert seen.attention_records


def test_questions_that_cannot_be_answered_name_what_was_seen():
    both = nn.ModuleList([bahdanau(), attention_lm()])
    with heed.trace(both) as seen:
        with pytest.raises(ObserveError, match=r"no attention was recorded; run a model with attention"):
            seen.maps()
        for model in both:
            model(**type(model).example(model.config, 1))
    listing = "recorded: cross layer 0, decoder layer 0, decoder layer 1"
    for asked, problem in [
        ({}, "several attentions were recorded; choose one with mechanism="),
        ({"mechanism": "encoder"}, "no 'encoder' attention"),
        ({"mechanism": "decoder", "layer": 5}, "no layer 5"),
        ({"mechanism": "decoder", "layer": -3}, "no layer -3"),
    ]:
        with pytest.raises(ObserveError) as error:
            seen.maps(**asked)
        assert problem in str(error.value) and listing in str(error.value)


def axis(length, name="source"):
    return Axis(name, "character", tuple("abcdefghijkl"[:length]))


def test_axes_cut_a_map_to_the_sequences_and_longer_ones_are_refused():
    model = bahdanau()
    maps = watched_maps(model, Bahdanau.example(model.config, 1))
    shown = maps.map(axis(6, "target"), axis(4), entry=1)  # 4 real tokens of 7
    assert_close(shown.weights.sum(-1), torch.ones(6), **CLOSE)
    assert torch.equal(shown.weights, maps.weights[1, 0, :, :4])
    for query, key in [(axis(7), axis(7)), (axis(6), axis(8))]:
        with pytest.raises(ShapeError, match="characters"):
            maps.map(query, key)


def test_a_map_whose_axes_do_not_fit_is_refused():
    for shape in [(2, 3), (3, 3), (3, 2, 1), (2,)]:
        with pytest.raises(ShapeError) as error:
            Map("cross", 0, 0, axis(3, "target"), axis(2), torch.rand(shape))
        assert str(shape) in str(error.value) and "3 characters (target)" in str(error.value)
    Map("cross", 0, 0, axis(3, "target"), axis(2), torch.rand(3, 2))


# --- compiled models


@pytest.fixture
def counting_backend():
    """A compiler's back end that counts how many graphs ran, and needs no C compiler."""
    pytest.importorskip("torch._dynamo")

    def backend(graph, inputs):
        def run(*args):
            backend.runs += 1
            return graph.forward(*args)

        return run

    backend.runs = 0
    torch.compiler.reset()
    yield backend
    torch.compiler.reset()


class Compilable(nn.Module):
    """Attention between two layers: what the compiler would swallow whole."""

    def __init__(self):
        super().__init__()
        self.inner = attention_lm().layers[0]

    def forward(self, x):
        return self.inner(x.sin(), causal=True).cos()


def compilable(backend):
    """A model, the same compiled, and an input."""
    model = Compilable().eval()
    return model, torch.compile(model, backend=backend), torch.randn(2, 5, 24)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_runs_eagerly_inside_and_compiled_outside(as_installed, counting_backend):
    model, compiled, x = compilable(counting_backend)
    with torch.no_grad():
        expected = compiled(x)
        runs = counting_backend.runs
        assert runs
        with heed.trace(compiled) as seen:
            watched = compiled(x)
        assert counting_backend.runs == runs
        assert torch.equal(watched, model(x))
        assert seen.maps("decoder").weights.shape == (2, 4, 5, 5)
        compiled(x)
        assert counting_backend.runs > runs
        assert_close(watched, expected, **CLOSE)


@pytest.mark.filterwarnings("ignore")
def test_traces_that_overlap_in_two_threads_leave_a_model_compiled(as_installed, counting_backend):
    model, compiled, x = compilable(counting_backend)
    with torch.no_grad():
        compiled(x)
        runs = counting_backend.runs
        with ThreadPoolExecutor(1) as other, ExitStack() as block:
            first = other.submit(heed.trace(model).__enter__).result()
            seen = block.enter_context(heed.trace(compiled))
            other.submit(first.__exit__, None, None, None).result()
            compiled(x)
        assert counting_backend.runs == runs and seen.attention_records and not first.attention_records
        compiled(x)
        assert counting_backend.runs > runs


# --- edits


@every_body
def test_a_null_edit_changes_nothing(body):
    config = make_config(body)
    model = make_model(body, config)
    args = body.example(config, 1)
    if not attends(model):
        with pytest.raises(ConfigError, match="changes nothing: the model has no attention"):
            heed.edit(model, Keep())
        return
    with torch.no_grad():
        plain = forward(model, args)
        with heed.edit(model, Keep()) as seen:
            edited = forward(model, args)
        with heed.edit(model, Scale(factor=1.0)):  # any other edit runs on the same path
            scaled = forward(model, args)
    for a, b, c in zip(plain, edited, scaled, strict=True):
        assert_close(b, a, rtol=0, atol=1e-5)
        assert torch.equal(b, c)
    assert not seen.attention_records and not seen.gate_records and not seen.tensor_records


def test_a_forced_position_looks_where_it_is_told():
    model = bahdanau()
    args = Bahdanau.example(model.config, 1)
    row = (0.0, 0.25, 0.75, 0.0)
    plain, edited = watched_maps(model, args), watched_maps(model, args, Force("cross", position=2, weights=row))
    expected = torch.tensor([*row, 0.0, 0.0, 0.0]).expand(3, 1, 7)
    assert torch.equal(edited.weights[:, :, 2], expected)
    assert_close(edited.weights[:, :, :2], plain.weights[:, :, :2], **CLOSE)  # the past does not know
    assert not torch.allclose(edited.weights[:, :, 3:], plain.weights[:, :, 3:], atol=1e-4)  # the future does


SEVERAL = [
    Force(position=3, weights=(0.0, 1.0)),
    Uniform(),
    Uniform(rows=(1, 3)),
    Permute(),
    Block(keys=(0,)),
    Keep(),
]


@pytest.mark.parametrize("edit", SEVERAL, ids=str)
@pytest.mark.parametrize("make", [bahdanau, attention_lm])
def test_an_edit_is_the_same_in_steps_and_in_a_full_pass(make, edit):
    model = make()
    args = type(model).example(model.config, 1)
    length = len(args.get("target", args.get("tokens"))[0])
    with torch.no_grad(), heed.edit(model, edit):
        full = model(**args)
        for cuts in [tuple(range(1, length + 1)), (2, length)]:
            assert_close(in_steps(model, args, cuts), full, **CLOSE)


def test_an_edit_is_the_same_for_several_rows_per_source():
    model = bahdanau()
    args = Bahdanau.example(model.config, 1)
    source_of = torch.tensor([0, 0, 1, 1, 2, 2])
    target = torch.randint(4, 11, (6, 5), generator=torch.Generator().manual_seed(3))
    force = Force("cross", position=2, weights=(0.5, 0.0, 0.5))
    with torch.no_grad(), heed.edit(model, force):
        stepped = in_steps(model, {**args, "target": target}, (1, 2, 3, 5), Rows.repeat(3, 2))
        full = model(args["source"][source_of], args["source_mask"][source_of], target)
    assert_close(stepped, full, **CLOSE)
    with torch.no_grad():
        assert not torch.allclose(full, model(args["source"][source_of], args["source_mask"][source_of], target))


@pytest.mark.parametrize(
    "edit",
    [Uniform("encoder"), Uniform("cross", 1), ZeroHead(head=1), ZeroHead(head=-1), Keep("cross", 0, 3)],
    ids=str,
)
def test_an_edit_that_fits_nothing_names_what_the_model_has(edit):
    for opened in (lambda: heed.edit(bahdanau(), edit), lambda: heed.trace(bahdanau(), edits=[edit])):
        with pytest.raises(ConfigError, match=r"changes nothing: the model has cross layer 0 \(1 head\)"):
            opened()


def test_forcing_a_look_at_padding_or_at_the_future_is_refused_in_steps_and_full_pass():
    model = attention_lm()
    args = AttentionLM.example(model.config, 1)
    force = Force(layer=0, position=3, weights=(0.0,) * 4 + (1.0,))  # key 4 lies ahead of position 3
    with pytest.raises(ConfigError, match="future"), heed.edit(model, force):
        model(**args)
    with pytest.raises(ConfigError, match="5 weights were given for 4 keys"), heed.edit(model, force):
        in_steps(model, args, range(1, 8))
    model = bahdanau()
    args = {name: value[1:2] for name, value in Bahdanau.example(model.config, 1).items()}  # 4 tokens, 3 padding
    with (
        pytest.raises(ConfigError, match="padding"),
        heed.edit(model, Force(position=1, weights=(0.0,) * 4 + (1.0,))),
    ):
        model(**args)


def test_padding_does_not_change_what_an_edit_does():
    model = bahdanau()
    args = Bahdanau.example(model.config, 1)
    for edit in (Uniform(), Force(position=1, weights=(0.2, 0.3, 0.0, 0.5))):
        with torch.no_grad(), heed.edit(model, edit):
            together = model(**args)
            for b, length in enumerate(args["source_mask"].sum(1).tolist()):
                cut = slice(b, b + 1), slice(0, length)
                alone = model(args["source"][cut], args["source_mask"][cut], args["target"][b : b + 1])
                assert_close(together[b : b + 1], alone, **CLOSE)


def test_in_a_batch_no_row_is_forced_to_look_at_padding():
    model = bahdanau()
    args = Bahdanau.example(model.config, 1)  # sources of 7, 4 and 5 tokens
    row = torch.tensor([0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.0])
    weights = watched_maps(model, args, Force(position=1, weights=tuple(row[:6].tolist()))).weights[:, 0, 1]
    assert torch.equal(weights, row * args["source_mask"])


@pytest.mark.parametrize("make", [bahdanau, lambda: transformer(2)], ids=["bahdanau", "transformer"])
def test_steps_whose_rows_were_reordered_are_refused(make):
    model = make()
    inputs = type(model).example(model.config, 1)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad(), heed.trace(model) as seen:
        memory = model.encode(inputs["source"], inputs["source_mask"])
        _, state = model.step(inputs["target"][:, :2], model.start(memory, Rows.repeat(3)))
        model.step(inputs["target"][order, 2:3], state.select(order))
    for mechanism, layer in seen.mechanisms():
        if mechanism == "encoder":
            continue
        with pytest.raises(ObserveError, match=f"steps of {mechanism} attention have other rows from one step to"):
            seen.maps(mechanism, layer)


@pytest.mark.parametrize("make", [bahdanau, lambda: transformer(2)], ids=["bahdanau", "transformer"])
def test_the_steps_of_a_greedy_search_are_one_map(make):
    model = make()
    inputs = type(model).example(model.config, 1)
    inputs.pop("target")
    options = SearchOptions(max_length=4, end_token=-1)
    with torch.no_grad(), heed.trace(model) as seen:
        written = generate(model, model.encode(**inputs), torch.full((3, 1), 2), options).hypotheses
    for mechanism, layer in [one for one in seen.mechanisms() if one[0] != "encoder"]:
        maps = seen.maps(mechanism, layer)
        target = torch.tensor([[2, *one.tokens[:-1]] for (one,) in written])
        whole = watched_maps(model, {**inputs, "target": target}, mechanism=mechanism, layer=layer)
        assert_close(maps.weights, whole.weights, **CLOSE)


# --- an edit that nothing came to


@pytest.mark.parametrize("opened", [heed.edit, lambda model, edit: heed.trace(model, edits=[edit])])
def test_an_edit_that_no_call_came_to_is_an_error(opened):
    model = bahdanau()
    inputs = Bahdanau.example(model.config, 1)  # targets of 6 tokens
    far = Force("cross", position=99, weights=(1.0,))
    with (
        pytest.raises(ConfigError, match=r"99.* changed nothing: queries were at positions 0 to 5"),
        opened(model, far),
    ):
        model(**inputs)
    with (
        pytest.raises(ConfigError, match="changed nothing: none of the attention that it names was called"),
        opened(model, Uniform("cross")),
    ):
        model.encode(inputs["source"], inputs["source_mask"])
    with pytest.raises(ZeroDivisionError), opened(model, far):  # what went wrong first is what is said
        model(**inputs)
        1 / 0  # noqa: B018
    assert watch.observer.current is None
    with torch.no_grad(), heed.edit(model, Force("cross", position=5, weights=(1.0,))), heed.trace(model) as seen:
        model(**inputs)  # a trace inside counts, and sees the edited model
    assert bool((seen.maps("cross").weights[:, :, 5, 0] == 1).all())


# --- only what is asked for


def transformer(num_layers=3):
    return make_model(Transformer, make_config(Transformer, num_layers=num_layers))


@pytest.mark.parametrize("layer", [0, 1, -1, -3])
def test_a_filtered_trace_records_one_layer_of_one_mechanism_and_nothing_else(layer):
    model = transformer()
    args = Transformer.example(model.config, 1)
    with torch.no_grad(), heed.trace(model, mechanism="cross", layer=layer) as seen:
        model(**args)
    assert seen.mechanisms() == [("cross", layer % 3)]
    assert len(seen.attention_records) == 1 and not seen.gate_records and not seen.tensor_records
    assert_close(seen.maps().weights, watched_maps(model, args, mechanism="cross", layer=layer).weights)
    with torch.no_grad(), heed.trace(model, mechanism="encoder") as seen:
        model(**args)
    assert seen.mechanisms() == [("encoder", i) for i in range(3)]


@pytest.mark.parametrize("asked", [{"mechanism": "corss"}, {"mechanism": "cross", "layer": 3}, {"layer": -4}])
def test_a_filter_that_fits_nothing_is_refused_with_what_there_is(asked):
    with pytest.raises(ConfigError, match=r"cannot record .*attention.*: the model has encoder layer 0"):
        heed.trace(transformer(), **asked)


@every_variant
def test_the_weights_alone_are_those_of_the_maps_with_their_gradient(body, config):
    model = make_model(body, config)
    if not attends(model):
        return
    args = body.example(config, 1)
    with heed.trace(model, grad=True) as seen:
        model(**args)
    for mechanism, layer in seen.mechanisms():
        weights = seen.weights(mechanism, layer)
        assert_close(weights, seen.maps(mechanism, layer).weights, rtol=1e-5, atol=1e-6)
        slope = torch.linspace(-1, 1, weights.numel()).view(weights.shape)
        watched = [p for p in model.parameters() if p.requires_grad]
        both = [
            torch.autograd.grad((w * slope).sum(), watched, retain_graph=True, allow_unused=True)
            for w in (weights, seen.maps(mechanism, layer).weights)
        ]
        assert any(g is not None and g.any() for g in both[0])
        for one, other in zip(*both, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_close(one, other, rtol=1e-4, atol=1e-5)
