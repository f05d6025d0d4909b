"""Language models: what each promises beside test_models.py, and the equations and states of the recurrent ones."""

from unittest import mock

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, array, sharpened, step_of, weights_of, zeros_of
from heed import kernels
from heed.attention import Rows
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.kernels import plain
from heed.layers import SearchState
from heed.models.base import LanguageModel
from heed.models.lstmn import LSTMN, LSTMNConfig, LstmnLanguageModel, LstmnLanguageModelConfig
from heed.models.rnn import RnnLanguageModel, RnnLanguageModelConfig, RnnTranslator, RnnTranslatorConfig
from heed.models.self_rnn import SelfRNN, SelfRNNConfig, SelfRnnLanguageModel, SelfRnnLanguageModelConfig
from heed.registry import list_models
from heed.watch.edits import Force
from heed.watch.trace import edit, trace
from test_models import VOCAB_SIZE, in_turn, variants_of

END = 3
RAGGED = (5, 1, 9, 3)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}

every_language_model = pytest.mark.parametrize(("body", "config"), variants_of(LanguageModel))


def language_models(name, *ways):
    return pytest.mark.parametrize(("body", "config", name), in_turn(variants_of(LanguageModel), *ways))


def make_model(body, config, seed=0):
    """With weights so large that the probabilities of the tokens lie apart."""
    torch.manual_seed(seed)
    model = body(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(torch.randn_like(parameter), alpha=0.25)
    return model


def prompts(seed=0):
    """Left-aligned prompts of unequal length, their lengths, and each by itself."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, VOCAB_SIZE, (len(RAGGED), max(RAGGED)), generator=generator)
    alone = [tokens[n : n + 1, :length].clone() for n, length in enumerate(RAGGED)]
    lengths = torch.tensor(RAGGED)
    return tokens.masked_fill(torch.arange(max(RAGGED)) >= lengths.unsqueeze(1), 0), lengths, alone


def switched(fast):
    return torch.no_grad() if fast else kernels.plain()


@language_models("fast", True, False)
def test_what_is_written_is_what_every_prefix_read_anew_says(body, config, fast):
    model = make_model(body, config)
    options = SearchOptions(END, 12, min_length=12, forbidden=(0, 1, 2))
    for prompt in prompts()[2]:
        with switched(fast):
            (written,) = generate(model, None, prompt, options).hypotheses[0]
        tokens, log_probs = prompt, []
        for n in range(12):
            with torch.no_grad():
                scores = torch.log_softmax(model.logits(model(tokens)[:, -1]), dim=-1)
            scores[:, [0, 1, 2, END]] = -torch.inf
            best = scores.argmax(-1, keepdim=True)
            log_probs.append(float(scores.gather(1, best)))
            tokens = torch.cat([tokens, best], dim=1)
            assert written.tokens[n] == int(best)
        assert written.log_probs == pytest.approx(log_probs, abs=1e-5, rel=1e-5)


def same(one, other):
    assert [h.tokens for h in one] == [h.tokens for h in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-5, rel=1e-5)


@language_models("way", "greedy", "plain", "beam", "sampled")
def test_prompts_of_unequal_length_together_are_written_on_as_each_alone(body, config, way):
    model = make_model(body, config)
    together, lengths, alone = prompts()
    limits = (11, 6, 8, 12)  # some end before the others
    few = {"beam": {"beam_size": 3, "num_best": 3}, "sampled": {"num_best": 2}}.get(way, {})

    def write(prompt, limit, seeds, lengths=None):
        sampling = SamplingOptions(temperature=0.8, top_k=5, seed=seeds) if way == "sampled" else None
        options = SearchOptions(END, limit, min_length=2, forbidden=(0, 1, 2, END)[: 3 + (way != "beam")], **few)
        with switched(way in ("greedy", "beam")):
            return generate(model, None, prompt, options, lengths, sampling).hypotheses

    found = write(together, limits, (7, 8, 9, 10), lengths)
    assert way == "beam" or [len(group[0].tokens) for group in found] == [*limits]
    for n, prompt in enumerate(alone):
        same(found[n], write(prompt, (limits[n],), (7 + n,))[0])


@language_models("way", "greedy", "beam")
def test_prompts_read_in_groups_of_like_length_are_written_on_alike(monkeypatch, body, config, way):
    model = make_model(body, config)
    together, lengths, _ = prompts()
    options = SearchOptions(END, 7, min_length=2, forbidden=(0, 1, 2), beam_size=1 if way == "greedy" else 3)
    expected = generate(model, None, together, options, lengths).hypotheses
    monkeypatch.setattr("heed.layers.decoder_stack._PADDING", 1)
    for groups in (2, 4):
        monkeypatch.setattr("heed.layers.decoder_stack._GROUPS", groups)
        found = generate(model, None, together, options, lengths).hypotheses
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs)


@every_language_model
def test_beams_after_prompts_of_unequal_length_are_those_of_the_blocks(body, config):
    model = make_model(body, config)
    together, lengths, _ = prompts()
    with torch.no_grad():
        hidden, fast = model.step(together, model.start(None, Rows.repeat(4)), lengths)
        with kernels.plain():
            expected, plain = model.step(together, model.start(None, Rows.repeat(4)), lengths)
    inside = torch.arange(max(RAGGED)) < lengths.unsqueeze(1)
    assert_close(hidden[inside], expected[inside], **CLOSE)
    generator = torch.Generator().manual_seed(5)
    rows = torch.arange(4).repeat_interleave(3)
    for n in range(24):
        fast, plain = fast.select(rows), plain.select(rows)
        tokens = torch.randint(4, VOCAB_SIZE, (len(rows), 1), generator=generator)
        with torch.no_grad():
            hidden, fast = model.step(tokens, fast)
            with kernels.plain():
                expected, plain = model.step(tokens, plain)
        assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
        sources = [0, *range(len(rows) // 3)][1 if n % 6 else 2 :]  # every sixth time the first one leaves
        rows = torch.tensor(
            [3 * i + int(torch.randint(0, 3, (1,), generator=generator)) for i in sources for _ in "abc"]
        )
        if not len(rows):
            break
    if isinstance(fast, SearchState):  # and back
        tokens = torch.randint(4, VOCAB_SIZE, (len(plain.position), 2), generator=generator)
        assert_close(model.step(tokens, fast)[0], model.step(tokens, plain)[0], rtol=1e-4, atol=1e-5)


@language_models("fast", True, False)
def test_packed_documents_give_the_states_of_each_document_alone(body, config, fast):
    if body.carries:
        return
    model = make_model(body, config)
    lengths = [(5, 1, 6), (12,), (2, 10), (1, 1, 10)]
    documents = torch.tensor([[n for n, length in enumerate(row, 3) for _ in range(length)] for row in lengths])
    tokens = torch.randint(4, VOCAB_SIZE, documents.shape, generator=torch.Generator().manual_seed(1))
    with switched(fast):
        packed = model(tokens, documents)
        for row, parts in enumerate(lengths):
            states = [model(part.unsqueeze(0))[0] for part in tokens[row].split(parts)]
            assert_close(packed[row], torch.cat(states), **CLOSE)
    whole = torch.full_like(documents, 2)
    assert torch.equal(model(tokens, whole), model(tokens))


# --- Recurrent models are their equations; language models carry their state, in one pass, in steps, between batches


NUM_TOKENS, WIDTH = 13, 4
CELLS = ("rnn", "lstm", "gru", "gru_notes")
CARRYING = {
    f"{name} {fields}": (body, fields)
    for name, body in list_models()
    if issubclass(body, LanguageModel) and body.carries
    for fields in ([{"tape": 3}, {"tape": 1}, {"tape": None}] if "tape" in body.config_class.model_fields else [{}])
}
every_carrying = pytest.mark.parametrize("name", CARRYING)


def make(body, train=False, seed=0, **fields):
    """A narrow model in double precision, of weights that are far from even."""
    widths = {name: WIDTH for name in body.config_class.model_fields if name.startswith("d_")}
    torch.manual_seed(seed)
    model = body(body.config_class(vocab_size=NUM_TOKENS, **{**widths, "dropout": 0.0, **fields})).double()
    return sharpened(model).train(train)


def some_tokens(rows, length, seed=0):
    return torch.randint(4, NUM_TOKENS, (rows, length), generator=torch.Generator().manual_seed(seed))


def start(model, rows):
    return model.start(None, Rows.repeat(rows))


# --- equations


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("fields", [{}, {"tied_output": True}, {"tied_output": True, "d_hidden": 5}], ids=str)
def test_rnn_is_layers_of_its_cell_and_an_output_layer(cell, fields):
    model, tokens = make(RnnLanguageModel, cell=cell, num_layers=2, **fields), some_tokens(2, 6)
    logits = model.logits(model(tokens))
    table, matrix, bias = (array(p) for p in (model.embedding.weight, model.output.weight, model.output.bias))
    assert model.config.tied_output == (model.output.weight is model.embedding.weight)
    for row, words in enumerate(tokens):
        states = table[words.numpy()]
        for layer in model.layers.forward_cells:
            states, _ = ref.run_rnn(step_of(layer), states, zeros_of(layer))
        if "d_hidden" in fields:
            states = states @ array(model.projection.weight).T
        assert_close(logits[row], torch.from_numpy(states @ matrix.T + bias), **TIGHT)


@pytest.mark.parametrize("tape", [1, 3, None])
def test_lstmn_is_the_papers_equations_over_the_newest_tokens(tape):
    model, tokens = make(LstmnLanguageModel, tape=tape), some_tokens(2, 7)
    with torch.no_grad(), trace(model) as seen:
        logits = model.logits(model(tokens))
    maps, (gates,) = seen.maps("self"), seen.gates().values()
    score = model.attention.score
    pair = lambda q, k: ref.additive(q, k, array(score.w_query.weight), array(score.w_key.weight), None, array(score.v))  # noqa: E731
    for row, words in enumerate(tokens):
        xs = array(model.embedding.weight)[words.numpy()]
        states, weights = ref.lstmn(xs, WIDTH, pair, *weights_of(model.cell), size=tape)
        expected = states @ array(model.output.weight).T + array(model.output.bias)
        assert_close(logits[row], torch.from_numpy(expected), **TIGHT)
        assert_close(maps.weights[row, 0], torch.from_numpy(weights[1:, :-1]), **TIGHT)  # from the second token on
        assert_close(gates["hidden"][row], torch.from_numpy(states), **TIGHT)
        assert torch.equal(maps.mask[row, 0], torch.from_numpy(weights[1:, :-1] > 0))


@pytest.mark.parametrize("tape", [1, 3, None])
@pytest.mark.parametrize("cell", CELLS)
def test_self_rnn_is_the_notes_equations_over_the_newest_states(cell, tape):
    model, tokens = make(SelfRnnLanguageModel, tape=tape, cell=cell, score="key_query"), some_tokens(2, 7)
    with torch.no_grad(), trace(model) as seen:
        logits = model.logits(model(tokens))
    maps, score = seen.maps("self"), model.attention.score
    pair = lambda q, k: ref.key_query(q, k, array(score.w_query.weight), array(score.w_key.weight))  # noqa: E731
    layer = model.forward_cells[0]
    for row, words in enumerate(tokens):
        xs = array(model.embedding.weight)[words.numpy()]
        states, weights = ref.self_rnn(xs, zeros_of(layer), step_of(layer), pair, size=tape)
        expected = states @ array(model.output.weight).T + array(model.output.bias)
        assert_close(logits[row], torch.from_numpy(expected), **TIGHT)
        assert_close(maps.weights[row, 0], torch.from_numpy(weights), **TIGHT)


# --- the state


@every_carrying
@pytest.mark.parametrize("parts", [[4, 6], [1, 9], [2, 1, 3, 4]], ids=str)
def test_the_loss_with_the_state_carried_is_that_of_one_long_pass(name, parts):
    body, fields = CARRYING[name]
    model, stream = make(body, train=True, **fields), some_tokens(3, 11)
    tokens, labels = stream[:, :-1], stream[:, 1:]

    def loss(hidden, labels):
        return cross_entropy(model.logits(hidden).flatten(0, 1), labels.flatten(), reduction="sum")

    whole = loss(model(tokens), labels)
    state, losses = start(model, 3), []
    for part, wanted in zip(tokens.split(parts, 1), labels.split(parts, 1), strict=True):
        hidden, state = model.read(part, state)
        losses.append(loss(hidden, wanted))
        packed = model.pack(state)
        assert all(len(tensor) == 3 and not tensor.requires_grad for tensor in packed.values())
        state = model.unpack({key: tensor.clone() for key, tensor in packed.items()})
    assert_close(sum(losses), whole, rtol=1e-12, atol=0)


@every_carrying
def test_a_gradient_goes_through_a_whole_batch_and_not_into_the_one_before(name):
    body, fields = CARRYING[name]
    model = make(body, train=True, **fields)
    before, after = torch.tensor([[4, 5, 6]]), torch.tensor([[7, 8, 9, 10, 11]])
    _, state = model.read(before, start(model, 1))
    hidden, _ = model.read(after, model.unpack(model.pack(state)))
    hidden[:, -1].sum().backward()
    rows = model.embedding.weight.grad.abs().sum(1)
    assert (rows[7:12] > 0).all() and (rows[4:7] == 0).all()
    model.zero_grad()
    model(torch.cat([before, after], dim=1))[:, -1].sum().backward()
    assert (model.embedding.weight.grad.abs().sum(1)[4:12] > 0).all()


@every_carrying
def test_packed_rows_are_chosen_and_joined_as_rows(name):
    body, fields = CARRYING[name]
    model, tokens = make(body, **fields), some_tokens(3, 9)
    expected = model(tokens)
    _, state = model.read(tokens[:, :5], start(model, 3))
    packed = model.pack(state)
    chosen = model.unpack({key: torch.cat([tensor[2:], tensor[:1]]) for key, tensor in packed.items()})
    assert_close(model.read(tokens[[2, 0], 5:], chosen)[0], expected[[2, 0], 5:], **TIGHT)


@every_carrying
@pytest.mark.parametrize("grad", [False, True])
def test_prompts_longer_than_the_tape_go_on_as_if_alone_when_repeated(name, grad):
    body, fields = CARRYING[name]
    model, tokens = make(body, **fields), some_tokens(3, 12)
    lengths, picks = torch.tensor([7, 1, 4]), torch.tensor([2, 0, 1, 2, 2])
    with torch.set_grad_enabled(grad):
        expected = model(tokens)
        padded = torch.where(torch.arange(7) < lengths.unsqueeze(1), tokens[:, :7], 0)
        hidden, state = model.step(padded, start(model, 3), lengths)
        for row, length in enumerate(lengths):
            assert_close(hidden[row, :length], expected[row, :length], **TIGHT)
        state, lengths = state.select(picks), lengths[picks]
        for later in range(5):
            hidden, state = model.step(tokens[picks, lengths + later].unsqueeze(1), state)
            assert_close(hidden[:, 0], expected[picks, lengths + later], **TIGHT)


@every_carrying
def test_two_continuations_of_one_state_do_not_disturb_each_other(name):
    body, fields = CARRYING[name]
    model, tokens = make(body, **fields), some_tokens(2, 9)
    with torch.no_grad():
        _, state = model.step(tokens[:, :5], start(model, 2))
        _, state = model.step(tokens[:, 5:6], state)
        other, first = tokens.flip(0), model.step(tokens[:, 6:7], state)[1]
        hidden = model.step(other[:, 6:], state)[0]
        assert_close(hidden, model(torch.cat([tokens[:, :6], other[:, 6:]], dim=1))[:, 6:], **TIGHT)
        assert_close(model.step(tokens[:, 7:], first)[0], model(tokens)[:, 7:], **TIGHT)


@pytest.mark.parametrize("tape", [1, 3, 9, None])
@pytest.mark.parametrize("score", ["concat", "additive"])
def test_lstmn_in_one_call_is_lstmn_step_by_step_and_so_are_its_gradients(score, tape):
    model, tokens = make(LstmnLanguageModel, train=True, tape=tape, score=score, d_attention=3), some_tokens(3, 11)

    def run():
        model.zero_grad()
        first, state = model.read(tokens[:, :5], start(model, 3))  # and through the state of an earlier call
        second, state = model.read(tokens[:, 5:], state)
        last, _ = model.read(tokens[:, :2], state)
        hidden = torch.cat([first, second, last], dim=1)
        (hidden * torch.linspace(-1, 2, hidden.numel()).view_as(hidden)).sum().backward()
        return hidden, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    with plain():
        expected, gradients = run()
    with mock.patch("heed.models.lstmn.StepwiseRun", side_effect=AssertionError):
        hidden, found = run()
    assert_close(hidden, expected, **TIGHT)
    assert len(found) == len(gradients) == len(list(model.parameters())) - 2  # the output layer is not asked
    for one, other in zip(found, gradients, strict=True):
        assert_close(one, other, rtol=1e-10, atol=1e-12)


# --- dropout


@pytest.mark.parametrize("cell", CELLS)
def test_dropout_leaves_recurrent_connections_alone(cell):
    model = make(RnnLanguageModel, train=True, cell=cell, num_layers=2, dropout=0.5, d_hidden=16, d_embedding=16)
    tokens = some_tokens(2, 9)
    with torch.no_grad(), trace(model) as seen:
        output = model(tokens)
    first, second = seen.gate_records
    seen.gates()  # each state follows from the whole state before it: checked
    for read, given in (
        (first.inputs, model.embedding(tokens)),
        (second.inputs, first.hidden),
        (output, second.hidden),
    ):
        kept = read != 0
        assert 0.3 < kept.double().mean() < 0.7
        assert_close(read, torch.where(kept, 2 * given, 0.0), **TIGHT)


def test_base_is_the_medium_lstm_of_zaremba_and_large_the_large_one():
    config = RnnLanguageModelConfig(vocab_size=10_000)
    assert (config.cell, config.num_layers, config.d_embedding, config.d_hidden) == ("lstm", 2, 650, 650)
    assert config.dropout == 0.5 and not config.tied_output
    large = config.sizes["large"]
    assert (large["d_embedding"], large["d_hidden"], large["dropout"]) == (1500, 1500, 0.65)
    assert LstmnLanguageModelConfig(vocab_size=9).d_hidden == 300 == SelfRnnLanguageModelConfig(vocab_size=9).d_hidden


# --- looking


@pytest.mark.parametrize("tape", [1, 3, None])
@pytest.mark.parametrize("body", [LstmnLanguageModel, SelfRnnLanguageModel])
def test_maps_and_gates_of_steps_are_those_of_one_pass_at_absolute_positions(body, tape):
    model, tokens = make(body, tape=tape), some_tokens(2, 8)
    with torch.no_grad(), trace(model) as whole:
        model(tokens)
    with torch.no_grad(), trace(model) as stepped:
        _, state = model.step(tokens[:, :3], start(model, 2))
        for t in range(3, 8):
            _, state = model.step(tokens[:, t : t + 1], state)
    expected, found = whole.maps("self"), stepped.maps("self")
    for name in ("weights", "scores", "mask", "context"):
        assert_close(getattr(found, name), getattr(expected, name), **TIGHT)
    late = body is LstmnLanguageModel  # its first token has no earlier one to look at
    for query in range(7):
        seen = query + 1
        first = 0 if tape is None else max(0, seen - tape)
        assert expected.mask[:, 0, query, first:seen].all() and expected.mask[0, 0, query].sum() == seen - first
    assert expected.weights.shape == ((2, 1, 7, 7) if late else (2, 1, 8, 8))
    assert_close(whole.weights("self"), expected.weights, **TIGHT)
    (gates,), (others,) = whole.gates().values(), stepped.gates().values()
    for name in gates:
        assert_close(others[name], gates[name], **TIGHT)


@pytest.mark.parametrize("body", [LstmnLanguageModel, SelfRnnLanguageModel])
def test_an_edit_names_positions_of_the_text_and_not_places_on_the_tape(body):
    model, tokens = make(body, tape=3), some_tokens(1, 8)
    forced = Force(position=6, weights=[0, 0, 0, 0, 0, 1])  # the token before, of which the tape has three
    with torch.no_grad():
        with edit(model, forced):
            expected = model(tokens)
        with trace(model, edits=[forced]) as seen:
            _, state = model.step(tokens[:, :5], start(model, 1))
            parts = []
            for t in range(5, 8):
                hidden, state = model.step(tokens[:, t : t + 1], state)
                parts.append(hidden)
        assert_close(torch.cat(parts, dim=1), expected[:, 5:], **TIGHT)
        assert not torch.allclose(model(tokens)[:, 7], expected[:, 7])
    row = seen.maps("self").weights[0, 0, 6 - (body is LstmnLanguageModel)]
    assert row.argmax() == 5 and row[5] == 1


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_source_and_target_are_one_sequence(cell, num_layers):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": 4, "d_hidden": 3}
    model = RnnTranslator(RnnTranslatorConfig(**sizes, cell=cell, num_layers=num_layers)).double().eval()
    with torch.no_grad():
        hidden = model(SOURCE, MASK, TARGET)
        tables = [table.weight.numpy() for table in (model.source_embedding, model.target_embedding)]
    for b, length in enumerate(LENGTHS):
        sequence = np.concatenate([tables[0][SOURCE[b, :length].numpy()], tables[1][TARGET[b].numpy()]])
        for layer in model.layers.forward_cells:
            sequence, _ = ref.run_rnn(step_of(layer), sequence, zeros_of(layer))
        assert_close(hidden[b], torch.from_numpy(sequence[length:]), **TIGHT)


D = 3
SIZES = {"vocab_size": 11, "d_embedding": 4, "d_hidden": D, "d_attention": 5}


def encoder_of(body, config):
    torch.manual_seed(0)
    return sharpened(body(config).double().eval())


def score_of(score, name):
    w_query, w_key = array(score.w_query.weight), array(score.w_key.weight)
    if name == "key_query":
        return lambda q, k: ref.key_query(q, k, w_query, w_key)
    bias = None if score.w_key.bias is None else array(score.w_key.bias)
    return lambda q, k: ref.additive(q, k, w_query, w_key, bias, array(score.v))


@pytest.mark.parametrize("score", ["additive", "key_query"])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_self_rnn_is_the_notes_equations(cell, score):
    model = encoder_of(SelfRNN, SelfRNNConfig(**SIZES, cell=cell, score=score))
    with torch.no_grad(), trace(model) as seen:
        hidden = model(SOURCE, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T, T)
    layer = model.forward_cells[0]
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[SOURCE[b, :length].numpy()]
        states, expected = ref.self_rnn(xs, zeros_of(layer), step_of(layer), score_of(model.attention.score, score))
        assert_close(hidden[b, :length], torch.from_numpy(states), **TIGHT)
        assert_close(weights[b, :length, :length], torch.from_numpy(expected), **TIGHT)
    assert not weights.triu(1).any()


def test_lstmn_is_the_papers_equations():
    model = encoder_of(LSTMN, LSTMNConfig(**SIZES))
    with torch.no_grad(), trace(model) as seen:
        hidden = model(SOURCE, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T - 1, T - 1), from the second token on
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[SOURCE[b, :length].numpy()]
        score = score_of(model.attention.score, "concat")
        states, expected = ref.lstmn(xs, D, score, *weights_of(model.cell))
        assert_close(hidden[b, :length], torch.from_numpy(states), **TIGHT)
        assert_close(weights[b, : length - 1, : length - 1], torch.from_numpy(expected[1:, :-1]), **TIGHT)
