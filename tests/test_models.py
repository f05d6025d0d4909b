"""What every model promises, held against each file in `heed/models` without naming one.

A new model is tested by these the moment its file exists.
"""

from collections import Counter
from typing import Literal, get_args, get_origin

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model
from torch.testing import assert_close

from heed.attention import SCORES, Rows
from heed.attention.modules import Attends
from heed.errors import ConfigError
from heed.kernels import vocabulary_loss
from heed.models.base import (
    DecoderBody,
    ImageEncoder,
    LanguageModel,
    PairDecoder,
    RowEncoder,
    SeriesEncoder,
    TextEncoder,
    TokenEncoder,
    TurnDecoder,
)
from heed.registry import list_models
from heed.watch.trace import trace

VOCAB_SIZE = 11
WIDTH = 24  # divisible by 1, 2, 3, 4, 6, 8 heads
PICTURE = {"num_channels": 3, "height": 16, "width": 8}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def find_bodies():
    """Every body by its name, and by its interface too where a file has several."""
    names = Counter(name for name, _ in list_models())
    return {name if names[name] == 1 else f"{name}-{body.interface}": body for name, body in list_models()}


BODIES = find_bodies()


def make_config(body, **fields):
    """Size "tiny", narrower still, without dropout, on a vocabulary of 11 or small pictures."""
    values = {**body.config_class.sizes["tiny"], **(PICTURE if issubclass(body, ImageEncoder) else {})}
    for name, field in body.config_class.model_fields.items():
        if name.endswith("vocab_size"):
            values[name] = VOCAB_SIZE
        elif name == "num_columns":
            values[name] = 5
        elif name == "num_speakers":
            values[name] = 3
        elif name.startswith("d_") and values.get(name, field.default) is not None:
            values[name] = min(values.get(name, field.default), WIDTH)
        elif name == "dropout":
            values[name] = 0.0
    return body.config_class(**{**values, **fields})


def make_model(body, config, seed=0):
    torch.manual_seed(seed)
    return body(config).eval()


def choices_of(body):
    """Each choice (cell, score, ...) of a model, with the values other than the one it has in `make_config(body)`."""
    plain = make_config(body)
    for name, field in body.config_class.model_fields.items():
        if get_origin(field.annotation) is Literal:
            values = get_args(field.annotation)
        elif field.annotation is bool:
            values = (True, False)
        elif name == "score":
            values = tuple(SCORES)
        elif name == "num_layers":
            values = (1, 2)
        elif name.startswith("d_") and field.default is None:
            values = (WIDTH,)  # an optional layer
        else:
            continue
        yield name, [value for value in values if value != getattr(plain, name)]


def variant(body, changes):
    """The configuration with some choices changed; None if they do not go together."""
    for more in ({}, {"bidirectional": False}):  # a choice for one direction only
        try:
            config = make_config(body, **changes, **more)
            body(config)
        except (ValidationError, ConfigError, TypeError):
            continue
        return config
    return None


def find_variants():
    """Every model as it comes, then with every other value of its choices, several changed at once if they fit."""
    for name, body in BODIES.items():
        yield pytest.param(body, make_config(body), id=name)
        choices = dict(choices_of(body))
        while any(choices.values()):
            changes = {}
            for field, values in choices.items():
                fits = next((value for value in values if variant(body, {**changes, field: value})), None)
                if fits is not None:
                    changes[field] = fits
                    values.remove(fits)
            if not changes:  # left: dot products of unequal widths, a form that sizes replace
                assert {field for field in choices if choices[field]} <= {"score", "form"}
                break
            yield pytest.param(body, variant(body, changes), id=f"{name}-" + "-".join(map(str, changes.values())))


VARIANTS = list(find_variants())
every_body = pytest.mark.parametrize("body", [pytest.param(b, id=n) for n, b in BODIES.items()])
every_variant = pytest.mark.parametrize(("body", "config"), VARIANTS)


def variants_of(*kinds):
    """The variants of bodies of these classes."""
    return [v for v in VARIANTS if issubclass(v.values[0], kinds)]


def in_turn(variants, *ways):
    """Every body as it comes in every way; each of its other variants in one way, in turn."""
    first = {v.values[0]: v for v in reversed(variants)}
    return [
        pytest.param(*v.values, way, id=f"{v.id}-{way}")
        for n, v in enumerate(variants)
        for way in (ways if v is first[v.values[0]] else [ways[n % len(ways)]])
    ]


every_decoder = pytest.mark.parametrize(("body", "config"), variants_of(DecoderBody))
every_image_encoder = pytest.mark.parametrize(("body", "config"), variants_of(ImageEncoder))
every_pair_decoder = pytest.mark.parametrize(("body", "config"), variants_of(PairDecoder))


def decoders(name, *ways, kinds=(DecoderBody,)):
    return pytest.mark.parametrize(("body", "config", name), in_turn(variants_of(*kinds), *ways))


def written(body):
    """The argument of `forward` that a decoder reads from left to right."""
    return "tokens" if issubclass(body, LanguageModel) else "target"


def start(model, args, rows=None):
    """The state before the first token."""
    if isinstance(model, TurnDecoder):
        read = {name: value for name, value in args.items() if name not in PER_RESPONSE}
        return model.start(model.encode(**read), Rows(args["conversation"], len(args["turns"])), args["read"])
    sources = {name: value for name, value in args.items() if name != written(type(model))}
    rows = Rows.repeat(len(args[written(type(model))])) if rows is None else rows
    return model.start(model.encode(**sources) if sources else None, rows)


PER_RESPONSE = ("target", "conversation", "read")
"""Arguments of a turn decoder with an entry for each response; the others are the conversations."""


def take(args, rows):
    own = PER_RESPONSE if "conversation" in args else args
    return {name: value[rows] if name in own else value for name, value in args.items()}


def other_tokens(tokens):
    """The same shape, another ordinary token (4 .. 10) at every position."""
    return 4 + (tokens - 4 + 1) % (VOCAB_SIZE - 4)


STRUCTURE = ("turns", "conversation", "read")
"""Arguments of a turn decoder that are numbers of something; `tests/test_hred.py` holds what they mean."""


# --- every model


@every_variant
def test_padding_never_changes_an_output(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    masks = {name: value for name, value in args.items() if name.endswith("_mask") or name == "mask"}
    if not masks:
        reads_no_padding = issubclass(body, LanguageModel | RowEncoder | SeriesEncoder | ImageEncoder)
        assert reads_no_padding, "a model that reads padding needs a mask"
        return
    garbage = dict(args)
    for name, mask in masks.items():
        assert not mask.all(), "the example must be ragged"
        tokens = name.removesuffix("_mask") if name != "mask" else "tokens"
        inside = args[tokens].masked_fill(~mask, 5)
        garbage[tokens] = torch.cat([inside, torch.full_like(inside[:, :3], 6)], dim=1)
        garbage[name] = torch.cat([mask, torch.zeros_like(mask[:, :3])], dim=1)
    expected = model(**args)
    outputs = model(**garbage)[:, : expected.shape[1]]
    if issubclass(body, TokenEncoder):  # outputs stand beside the inputs
        (mask,) = masks.values()
        outputs, expected = outputs[mask], expected[mask]
    assert_close(outputs, expected, **CLOSE)


@every_variant
def test_a_batch_of_one_is_a_batch_of_many(body, config):
    model, args = make_model(body, config), body.example(config, 1)
    together = model(**args)
    for i in range(len(together)):
        assert_close(model(**take(args, [i])), together[i : i + 1], **CLOSE)


@every_variant
def test_inputs_matter(body, config):
    model, args = make_model(body, config), body.example(config, 1)
    expected = model(**args)
    for name, tokens in args.items():
        if tokens.dtype == torch.long and name not in STRUCTURE:
            mask = args.get(f"{name}_mask", torch.ones_like(tokens, dtype=torch.bool))
            other = (tokens + 1) % config.num_speakers if name == "speakers" else other_tokens(tokens)
            changed = torch.where(mask, other, tokens)
            assert ((model(**{**args, name: changed}) - expected).abs() > 1e-6).flatten(1).any(1).all(), name


@every_variant
def test_saved_and_loaded_weights_give_the_same_outputs(body, config, tmp_path):
    model, args = make_model(body, config), body.example(config, 0)
    save_model(model, str(tmp_path / "model.safetensors"))
    other = make_model(body, config, seed=1)
    assert not torch.equal(other(**args), model(**args))
    load_model(other, str(tmp_path / "model.safetensors"))
    assert torch.equal(other(**args), model(**args))


@every_variant
def test_a_configuration_survives_being_written(body, config):
    assert body.config_class(**config.model_dump()) == config
    assert body.config_class.model_validate_json(config.model_dump_json()) == config


@every_body
def test_a_configuration_is_documented_and_sized(body):
    fields = body.config_class.model_fields
    assert not [name for name, field in fields.items() if not field.description]
    assert set(body.config_class.sizes) >= {"tiny", "small", "base"}
    assert body.config_class.sizes["base"] == {}, "the defaults are the paper's base"
    from_data = {
        name: 5 for name in fields if name.endswith("vocab_size") or name in {"num_columns", "num_speakers", *PICTURE}
    }
    for size in body.config_class.sizes.values():
        body.config_class(**from_data, **size)  # refuses what it does not know


# --- encoders


UNFELT = ("w_key.bias", "convolution.bias")
"""Parameters that change no result."""


@pytest.mark.parametrize(("body", "config"), variants_of(TokenEncoder, TextEncoder, ImageEncoder))
def test_three_inputs_are_told_apart_and_every_parameter_learns(body, config):
    model, args = make_model(body, config).train(), body.example(config, 0)
    output = torch.nn.Linear(model.d_output, 3)
    learned = [*(p for p in model.parameters() if p.requires_grad), *output.parameters()]
    optimizer = torch.optim.Adam(learned, lr=0.003 if issubclass(body, ImageEncoder) else 0.01)
    for _ in range(100):
        vectors = model(**args)
        if issubclass(body, TokenEncoder):
            pooled = args["mask"].float() / args["mask"].sum(-1, keepdim=True).clamp_min(1)
            first = model.last(vectors, args["mask"]) if body.framed else 0.0  # through its own pooling layer
            vectors = first + (vectors * pooled.unsqueeze(-1)).sum(1)  # the mean over the real tokens
        loss = torch.nn.functional.cross_entropy(output(vectors), torch.arange(3))
        optimizer.zero_grad()
        loss.backward()
        if loss < 0.05:
            break
        optimizer.step()
    assert loss < 0.05
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not name.endswith(UNFELT):
            assert parameter.grad.isfinite().all() and parameter.grad.any(), name


# --- encoders of pictures


@every_image_encoder
def test_the_last_map_has_a_place_for_each_part_of_a_picture(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    features = model.features(**args)
    rows, columns = features.shape[2:]
    assert model(**args).shape == (3, model.d_output)
    assert rows == 2 * columns or rows == columns == 1  # as the pictures are


@every_image_encoder
def test_a_place_of_the_last_map_depends_on_its_receptive_field(body, config):
    model, pixels = make_model(body, config), body.example(config, 0)["pixels"].requires_grad_()
    features = model.features(pixels)
    weights = torch.linspace(-1, 1, features.shape[1])  # a plain sum of what a layer norm gives is a constant
    (features[:, :, 0, 0] * weights).sum().backward()
    seen = (pixels.grad != 0).any(0).any(0).nonzero()
    reach = model.receptive_field()
    if reach is None:
        assert len(seen) == config.height * config.width
    else:
        _, _, bottom, right = model.receptive.box(0, 0)
        assert bottom - model.receptive.start == reach
        assert seen.amax(0).tolist() == [min(bottom, config.height) - 1, min(right, config.width) - 1]


# --- decoders


@every_decoder
def test_every_parameter_gets_a_gradient_and_logits_are_the_output_layer(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    hidden, targets = model(**args)[:, :-1], args[written(body)][:, 1:]
    assert_close(model.logits(hidden), model.output(hidden))
    assert model.logits(hidden).shape == (*targets.shape, VOCAB_SIZE)
    vocabulary_loss(hidden.flatten(0, 1), model.output, targets.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


@every_decoder
def test_the_future_never_changes_the_past(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    tokens = args[written(body)]
    expected = model(**args)
    for t in range(1, tokens.shape[1]):
        changed = torch.cat([tokens[:, :t], other_tokens(tokens[:, t:])], dim=1)
        outputs = model(**{**args, written(body): changed})
        assert_close(outputs[:, :t], expected[:, :t], **CLOSE)
        assert ((outputs - expected)[:, t].abs() > 1e-6).any(-1).all()


@decoders("chunk", 1, 6, kinds=(PairDecoder,))
def test_alignment_costs_a_pair_of_every_source_and_target_token_or_nothing(body, config, chunk):
    model, args = make_model(body, config), take(body.example(config, 0), [0])
    m, n = args["source"].shape[1], args["target"].shape[1]
    assert args["source_mask"].all()
    with trace(model) as seen:
        state = start(model, args)
        for part in args["target"].split(chunk, dim=1):
            _, state = model.step(part, state)
    pairs = Counter()
    for record in seen.attention_records:
        if record.mechanism == "cross":
            queries, keys = record.projected.shape[2], record.prepared.shape[2]
            assert keys == m
            pairs[record.layer] += queries * keys
    crosses = {part.layer for part in model.modules() if isinstance(part, Attends) and part.mechanism == "cross"}
    assert pairs == dict.fromkeys(crosses, m * n)


@decoders("chunk", 1, 2, 3)
def test_steps_are_the_full_pass(body, config, chunk):
    model, args = make_model(body, config), body.example(config, 0)
    state, outputs = start(model, args), []
    for part in args[written(body)].split(chunk, dim=1):
        hidden, state = model.step(part, state)
        outputs.append(hidden)
    assert_close(torch.cat(outputs, dim=1), model(**args), **CLOSE)


@decoders("picks", [0, 1, 2], [2, 0, 2, 1])
def test_prompts_of_unequal_length_continue_where_each_ends(body, config, picks):
    model, args = make_model(body, config), body.example(config, 0)
    tokens, expected = args[written(body)], model(**args)
    lengths = torch.tensor([1, 4, 2])
    inside = torch.arange(4) < lengths.unsqueeze(1)
    prompt = torch.where(inside, tokens[:, :4], torch.full_like(tokens[:, :4], 10))
    hidden, state = model.step(prompt, start(model, args), lengths)
    assert_close(hidden[inside], expected[:, :4][inside], **CLOSE)
    row = torch.tensor(picks)
    state, lengths = state.select(row), lengths[row]
    for later in range(tokens.shape[1] - 4):  # each row's own next token
        hidden, state = model.step(tokens[row, lengths + later].unsqueeze(1), state)
        assert_close(hidden[:, 0], expected[row, lengths + later], **CLOSE)


@decoders("picks", [2, 0, 1], [1, 1, 0, 1], [2], [0, 2])
def test_selected_rows_continue_their_own_sequences(body, config, picks):
    model, args = make_model(body, config), body.example(config, 0)
    tokens, rows, expected = args[written(body)], torch.tensor(picks), model(**args)
    _, state = model.step(tokens[:, :3], start(model, args))
    state = state.select(rows)
    for t in range(3, tokens.shape[1]):
        hidden, state = model.step(tokens[rows, t : t + 1], state)
        assert_close(hidden[:, 0], expected[rows, t], **CLOSE)
        if t == 3:  # once more, in reverse
            back = torch.arange(len(rows) - 1, -1, -1)
            rows, state = rows[back], state.select(back)


@every_pair_decoder
def test_rows_that_share_a_source_are_copies_of_it(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    source_of = torch.tensor([0, 2, 0, 1, 2, 0])
    target = args["target"][torch.tensor([0, 1, 2, 2, 0, 1])]
    expected = model(**{**take(args, source_of), "target": target})
    state = start(model, args, Rows(source_of, 3))
    outputs = []
    for part in target.split(2, dim=1):
        hidden, state = model.step(part, state)
        outputs.append(hidden)
    assert_close(torch.cat(outputs, dim=1), expected, **CLOSE)
    # and when a source has no row left
    state = start(model, args, Rows(source_of, 3)).select(torch.tensor([5, 1]))
    assert_close(model.step(target[[5, 1]], state)[0], expected[[5, 1]], **CLOSE)


@every_pair_decoder
def test_a_selected_memory_is_that_of_the_selected_sources(body, config):
    model, args = make_model(body, config), body.example(config, 0)
    sources = {name: value for name, value in args.items() if name != "target"}
    picks = torch.tensor([2, 0])
    memory = model.encode(**sources).select(picks)
    hidden, _ = model.step(args["target"][picks], model.start(memory, Rows.repeat(2)))
    assert_close(hidden, model(**take(args, picks)), **CLOSE)


@every_body
def test_one_batch_is_learned_by_heart(body):
    if not issubclass(body, DecoderBody):
        return
    config = make_config(body)
    model, args = make_model(body, config).train(), body.example(config, 0)
    tokens = args[written(body)]
    tokens[:, 0] = torch.tensor([4, 5, 6])  # so that a language model can tell the rows apart
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    targets = tokens[:, 1:].flatten()
    for _ in range(300):
        loss = vocabulary_loss(model(**args)[:, :-1].flatten(0, 1), model.output, targets) / len(targets)
        if loss < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    predicted = model.logits(model(**args)[:, :-1]).argmax(-1).flatten()
    assert loss < 0.05 and torch.equal(predicted, targets)


# --- dropout


def dropouts(model):
    """Everything in a model that drops: the module and the attribute with its probability."""
    for name, module in model.named_modules():
        for attribute in ("p", "dropout"):
            if isinstance(getattr(module, attribute, None), float):
                yield name, module, attribute


DROPPING = {"dropout", "attention_dropout", "token_dropout"}
WEIGHTS_NEVER_DROPPED = {"HAN", "LSTMN", "SelfRNN", "LstmnLanguageModel", "LstmnSeries", "SelfRnnLanguageModel"}
"""Bodies that drop vectors only, by a module called dropout, and never an attention's weights."""


@every_body
def test_every_dropout_of_a_model_drops(body):
    fields = body.config_class.model_fields
    layers = {"num_layers": 2} if "num_layers" in fields else {}
    model = make_model(body, make_config(body, **layers, **dict.fromkeys(DROPPING & fields.keys(), 0.5))).train()
    whole = body.__name__ in WEIGHTS_NEVER_DROPPED
    found = [one for one in dropouts(model) if one[0] == "dropout" or not whole]
    assert found and all(getattr(module, attribute) == 0.5 for _, module, attribute in found)
    inputs = body.example(model.config, 0)

    def draws():
        results = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            results.append(model(**inputs))
        return torch.equal(*results)

    for _, module, attribute in found:
        setattr(module, attribute, 0.0)
    assert draws()
    for name, module, attribute in found:
        setattr(module, attribute, 0.5)
        assert not draws(), f"{name or 'the model'} drops nothing"
        setattr(module, attribute, 0.0)
    for _, module, attribute in found:
        setattr(module, attribute, 0.5)
    model.eval()
    assert draws(), "something is dropped outside training"


@pytest.mark.parametrize("name", ["transformer", "encoder"])
def test_every_block_drops_after_each_sublayer_and_in_each_attention(name):
    body = BODIES[name]
    model = make_model(body, make_config(body, num_layers=3, dropout=0.5, attention_dropout=0.25))
    blocks = [[*model.encoder], [*model.decoder]] if name == "transformer" else [[*model.blocks]]
    for stack, attentions in zip(blocks, (1, 2), strict=False):
        for block in stack:
            # after each attention, after the feed-forward net and inside it; and in each attention
            assert sorted(getattr(*pair[1:]) for pair in dropouts(block)) == [0.25] * attentions + [0.5] * (
                attentions + 2
            )
