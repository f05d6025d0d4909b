"""What models read: framed texts, sources between a start and an end token, tokens and positions as vectors."""

import json
import math
import random

import pytest
import torch
from torch.testing import assert_close

import contract
import heed
import reference as ref
from contract import forced_batch
from heed.data.examples import Pair
from heed.data.tokens import END, START
from heed.errors import ConfigError, ShapeError
from heed.layers import LearnedPositions, SinusoidalPositions, TokenEmbedding
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training.progress import Quiet

SMALL = {"name": "bert", "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 2, "max_length": 12, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, words = tmp_path_factory.mktemp("framed"), "one two three four five six".split()
    texts = [[words[n % 6], words[n % 5], words[n % 4]] for n in range(40)]
    (folder / "texts.txt").write_text("".join(f"{'ab'[n % 2]} {' '.join(text)}\n" for n, text in enumerate(texts)))
    lines = ["".join(f"{word} {'B-x' if word == 'one' else 'O'}\n" for word in text) for text in texts]
    (folder / "tags.conll").write_text("\n".join(lines))
    return folder


def config_of(folder, task, file, tokenizer=None, **model):
    data, tokenizer = {"train": str(folder / file), "valid": 8}, tokenizer or {"kind": "word", "min_count": 1}
    return contract.config_of(task, data, tokenizer=tokenizer, model={**SMALL, **model}, training={"steps": 2})


def made(folder, task, file, tokenizer=None, **model):
    return contract.task_and_model(config_of(folder, task, file, tokenizer, **model), seed=1)


@pytest.mark.parametrize("pooling", ["auto", "last", "first", "attention"])
def test_a_classifier_gives_framed_texts_to_its_body(folder, pooling):
    task, model = made(folder, "classification", "texts.txt", pooling=pooling)
    given = []
    model.body.register_forward_hook(lambda module, inputs, hidden: given.append((*inputs, hidden)))
    logits = model(**task.batch_of(["one two", "", "six five four"]).inputs)
    tokens, mask, hidden = given[0]
    assert tokens[1].tolist() == [START, END, 0, 0, 0] and tokens[0].tolist()[::3] == [START, END]
    assert mask.sum(1).tolist() == [4, 2, 5]
    if pooling == "auto":
        assert task.config.model.model_extra["pooling"] == "mean"
    if pooling == "last":
        torch.testing.assert_close(logits, model.output(torch.tanh(model.body.pooler(hidden[:, 0]))))
    if pooling == "first":
        torch.testing.assert_close(logits, model.output(hidden[:, 0]))


def test_a_start_token_is_not_put_before_it_twice(folder):
    with pytest.raises(ConfigError, match=r"model.pooling is cls, but model bert already reads a start token"):
        made(folder, "classification", "texts.txt", pooling="cls")


def test_a_text_longer_than_the_positions_is_cut_and_counted(folder):
    task, model = made(folder, "classification", "texts.txt", max_length=4)
    encoded = task.input.encode_texts(["one two three four"])
    assert len(task.input.tokens_of(encoded[0])) == 2
    assert "32 texts are longer than the model's 2 tokens; the rest is not read" in task.notes
    assert task.answers(model, encoded)[0].shape == (2,)


def test_a_look_at_a_classifier_shows_the_frame(folder):
    config = config_of(folder, "classification", "texts.txt", pooling="last")
    run = train_config(config, folder / "classifier", Quiet())[0]
    look = run.look("one zebra").look
    start, end = run.tokenizer.token(START), run.tokenizer.token(END)
    (seen,) = look.maps
    assert seen.key.labels == seen.query.labels == (start, "one", "?zebra", end)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(4))
    assert look.shadings[0].title.startswith(f"Attention of {start} in encoder layer 1")


def test_a_tagger_takes_the_states_of_the_words_and_not_of_the_frame(folder):
    task, model = made(folder, "tagging", "tags.conll")
    given = []
    model.body.register_forward_hook(lambda module, inputs, hidden: given.append((*inputs, hidden)))
    states = model(**task.batch_of([["one", "two"], ["six", "five", "four"]]).inputs)
    tokens, mask, _, hidden = given[0]
    assert tokens[0].tolist()[::3] == [START, END] and mask.sum(1).tolist() == [4, 5]
    torch.testing.assert_close(states[0, :2], hidden[0, 1:3])
    torch.testing.assert_close(states[1], hidden[1, 1:4])


def test_the_state_of_a_word_is_the_mean_or_that_of_its_first_token(folder):
    tokenizer = {"kind": "char"}
    words = [["one", "six"], ["four"]]
    states, hidden = {}, None
    for word in ("mean", "first"):
        task, model = made(folder, "tagging", "tags.conll", tokenizer, word=word)
        given = []
        model.body.register_forward_hook(lambda module, inputs, hidden, given=given: given.append(hidden))
        states[word] = model(**task.batch_of(words).inputs)
        hidden = given[0][:, 1:]
    (first, second), (other,) = (list(map(len, one)) for one in task.input.tokenizer.encode_words(words))
    torch.testing.assert_close(states["first"][0], hidden[0, [0, first]])
    torch.testing.assert_close(states["first"][1, 0], hidden[1, 0])
    torch.testing.assert_close(states["mean"][0, 1], hidden[0, first : first + second].mean(0))
    torch.testing.assert_close(states["mean"][1, 0], hidden[1, :other].mean(0))


def test_a_sentence_longer_than_the_positions_is_tagged_in_pieces(folder):
    task, model = made(folder, "tagging", "tags.conll")
    words = "one two three four five six one two three four five six".split()
    states = model(**task.batch_of([words, ["one"]]).inputs)
    for part in (slice(0, 10), slice(10, 12)):
        alone = model(**task.batch_of([words[part]]).inputs)
        torch.testing.assert_close(states[0, part], alone[0])
    assert len(task.answers(model, task.input.encode([task.input.example_of(words)]))[0].tags) == 12


def test_a_look_at_a_tagger_shows_the_frame(folder):
    config = config_of(folder, "tagging", "tags.conll", characters="cnn")
    run = train_config(config, folder / "tagger", Quiet())[0]
    look = run.look("one two").look
    start, end = run.tokenizer.token(START), run.tokenizer.token(END)
    assert look.maps[0].key.labels == (start, "one", "two", end) and look.shadings[0].axis.labels == ("one", "two")
    with pytest.raises(ConfigError, match=r"the text has 11 tokens, but model bert reads 10 at a time"):
        run.look(" ".join(["one"] * 11))


def test_a_delay_does_not_apply_to_a_body_that_sees_the_whole_text(folder):
    with pytest.raises(ConfigError, match=r"model.delay is 1, but model bert sees the whole text; remove model.delay"):
        made(folder, "tagging", "tags.conll", delay=1)


# --- Sources between a start and an end token: what a translation model reads, and what people see of it


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


# --- Learned positions: what is trained on keeps within what positions have room for


UNIGRAM = {"kind": "unigram", "vocab_size": 200}


def sentences(count, words=(3, 12)):
    draw = random.Random(1)
    parts = ["the", "cat", "sa", "mo", "house", "walk", "ing", "un", "grün", "lan", "tern", "er", "ly"]
    known = ["".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(150)]
    return [" ".join(draw.choices(known, k=draw.randint(*words))) for _ in range(count)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "train.tsv"
    path.write_text(
        "".join(f"{one}\t{other}\n" for one, other in zip(sentences(400), sentences(400)[::-1], strict=True))
    )
    return path


def prepared(file, tokenizer=UNIGRAM, data=None, training=None, task="translation", **model):
    values = {
        "task": task,
        "data": {"train": str(file), "valid": 20, **(data or {})},
        "tokenizer": tokenizer,
        "model": {"name": "transformer", "size": "tiny", "num_layers": 1, **model},
        "training": {"steps": 4, "batch_tokens": 400, "threads": 1, "device": "cpu", **(training or {})},
    }
    return task_class(task).prepare(check_config(values, "test"))


def test_learned_positions_bound_what_is_trained_on(file):
    fields = {"positions": "learned", "max_length": 48}
    task = prepared(file, **fields)
    for indices in task.train_batches(0):
        batch = task.collate(indices)
        assert max(batch.inputs["source"].shape[1], batch.forced["target"].shape[1]) <= 48
    assert task.config.generation.max_length <= 48
    letters = {"kind": "char"}
    whole = prepared(file, letters)
    short = sum(max(map(len, pair.texts)) < 50 for pair in whole.splits.examples["train"])
    held_out = {"valid": str(file.with_name("valid.tsv"))}
    file.with_name("valid.tsv").write_text("the cat sat\tthe mat\n")
    few = prepared(file, letters, held_out, positions="learned", max_length=50)
    assert 0 < short < 380
    assert few.splits.counts["train"].filtered["longer than the 49 tokens that model.max_length has positions for"] > 20
    assert max(len(pair.target) for pair in few.encoded("train")) <= 49


def test_held_out_pairs_that_no_position_is_left_for_are_said_before_training(file, tmp_path):
    (tmp_path / "valid.tsv").write_text("the cat sat\tthe mat\n" + "housey" * 50 + "\tthe cat\n")
    fields = {"positions": "learned", "max_length": 80}
    with pytest.raises(ConfigError) as error:
        prepared(file, {"kind": "char"}, {"valid": str(tmp_path / "valid.tsv")}, **fields)
    said = str(error.value)
    assert said.startswith("model.max_length is 80, the number of learned positions, but a text of valid needs 300")
    assert said.endswith("set model.max_length=300, or model.positions=sinusoidal")
    with pytest.raises(ConfigError, match=r"generation.max_length is 500, but .* 400 learned positions"):
        values = {"generation": {"max_length": 500}, "data": {"name": "copy", "train": 50, "valid": 5, "test": 5}}
        values["model"] = {"name": "transformer", "size": "tiny", "positions": "learned", "max_length": 400}
        task_class("translation").prepare(check_config(values, "test"))


def test_a_run_with_few_learned_positions_trains_scores_and_predicts(tmp_path, file):
    """Every output is written to its end by an untrained model, which is where positions ran out."""
    (tmp_path / "test.tsv").write_text("".join(file.read_text().splitlines(keepends=True)[:40]))
    values = {
        "data": {"train": str(file), "valid": 20, "test": str(tmp_path / "test.tsv")},
        "tokenizer": {"kind": "unigram", "vocab_size": 200},
        "model": {"name": "transformer", "size": "tiny", "num_layers": 1, "positions": "learned", "max_length": 80},
        "training": {"steps": 2, "batch_tokens": 400, "threads": 1, "device": "cpu"},
        "evaluation": {"bootstrap": 10},
    }
    (tmp_path / "c.yaml").write_text(json.dumps(values))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    assert run.config.generation.max_length <= 80
    assert "test" in run.report["scores"]


def test_a_tagger_and_a_classifier_read_a_long_text_with_few_learned_positions(tmp_path):
    lines = [f"word{n % 7} O\nAnn B-per\n" for n in range(60)] + ["x O\n" * 30]
    (tmp_path / "tags.conll").write_text("\n".join(lines))
    (tmp_path / "texts.tsv").write_text("".join(f"{'ab'[n % 2]}\tgood film {'very ' * (n % 20)}\n" for n in range(60)))
    for task, data in (("tagging", "tags.conll"), ("classification", "texts.tsv")):
        values = {
            "task": task,
            "data": {"train": str(tmp_path / data), "valid": 10},
            "model": {"name": "encoder", "size": "tiny", "num_layers": 1, "positions": "learned", "max_length": 12},
            "training": {"steps": 2, "batch_tokens": 200, "threads": 1, "device": "cpu"},
            "evaluation": {"bootstrap": 10},
        }
        (tmp_path / "c.yaml").write_text(json.dumps(values))
        run = heed.train(tmp_path / "c.yaml", out=tmp_path / task, quiet=True)
        assert run.predict("Ann saw a film " * 20) is not None


# --- Tokens and positions as vectors


@pytest.mark.parametrize("d", [1, 2, 6, 7])
def test_sinusoids_are_the_reference_also_for_odd_widths(d):
    table = SinusoidalPositions(d)(torch.arange(50).unsqueeze(0))
    assert_close(table[0].double(), torch.from_numpy(ref.sinusoidal(50, d)), rtol=0, atol=1e-5)


def test_a_position_beyond_the_table_is_refused():
    layer = LearnedPositions(4, 6)
    assert layer(torch.tensor([[3]])).shape == (1, 1, 6)
    with pytest.raises(ShapeError, match=r"length 5 does not fit 4 learned positions; raise max_length, .*sinusoidal"):
        layer(torch.tensor([[0, 1], [3, 4]]))


def test_the_padding_vector_is_zero_and_stays_zero():
    torch.manual_seed(0)
    embedding = TokenEmbedding(5, 3, padding_token=0)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([[0, 1, 2]])).sum().backward()
    optimizer.step()
    assert not embedding.weight[0].any()
    assert (embedding.weight[1:3] != before[1:3]).all()


def test_a_vector_has_length_about_one_whatever_the_width():
    torch.manual_seed(0)
    for d in (8, 512):
        squares = TokenEmbedding(500, d).weight.detach().square().sum(-1)
        # a mean of 500 chi-squared variables / d: expectation 1, standard deviation sqrt(2 / d / 500)
        assert abs(squares.mean() - 1) < 5 * math.sqrt(2 / d / 500)
