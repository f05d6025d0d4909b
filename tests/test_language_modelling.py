"""Language modelling: what is trained on, what is scored, and that both are the same whatever the way there."""

import json
import math
import random
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import heed
from contract import batch_of, config_of, loss_of, task_and_model
from heed.data.kinds.documents import Document
from heed.data.tokens import END, OWN, START
from heed.data.tokens.tokenizer import Encoded, TextTokenizer
from heed.errors import ConfigError, DataError
from heed.models.base import LanguageModel, TextConfig
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.tasks.heads.token_scores import TokenScores, Units, outcomes_of, score_ids, score_texts
from heed.tasks.inputs.stream import num_tokens
from heed.tasks.language_modelling import Trigram
from heed.training.batches import CarriedRows
from heed.training.progress import Quiet

WORDS = "the a red old big cat dog man sees likes and with of house tree".split()
MODELS = {
    "gpt": {"d_model": 16, "num_heads": 2, "num_layers": 2, "dropout": 0.0},
    "attention_lm": {"d_model": 16, "num_heads": 2, "num_layers": 2},
    "rnn": {"d_embedding": 12, "d_hidden": 12, "cell": "lstm", "num_layers": 2, "dropout": 0.2},
    "lstmn": {"d_embedding": 8, "d_hidden": 8, "d_attention": 8, "tape": 6, "dropout": 0.0},
    "self_rnn": {"d_embedding": 8, "d_hidden": 8, "dropout": 0.0},
}
CARRIES = ["rnn", "lstmn", "self_rnn"]


def sentences(count, seed=1):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))).capitalize() + "." for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "book.txt").write_text("\n".join(sentences(120)) + "\n")
    (folder / "other.txt").write_text("\n".join(sentences(40, seed=2)) + "\n")
    documents = [" ".join(sentences(2 + n % 3, seed=n)) for n in range(60)]
    (folder / "all.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents[:50]))
    (folder / "valid.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents[50:]))
    (folder / "blank.txt").write_text("\n \n")
    return folder


def configured(folder, model="gpt", file="book.txt", data=None, fields=None, **sections):
    given = {"train": str(folder / file), "context": 16, **(data or {})}
    training = {"batch_tokens": 64, "learning_rate": 0.01, **sections.pop("training", {})}
    sections["model"] = {"name": model, "size": "tiny", **MODELS[model], **(fields or {})}
    return config_of("language_modelling", given, training=training, **sections)


def prepared(folder, model="gpt", **given):
    return task_and_model(configured(folder, model, **given))


def trained(folder, out, steps, resume=False, **given):
    config = configured(folder, **given)
    training = config.training.model_copy(update={"steps": steps})
    return train_config(config.model_copy(update={"training": training}), out, Quiet(), resume=resume)[0]


def weights(run):
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


# --- runs


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_a_model_is_trained_and_scores_every_token_of_a_file(model, folder, tmp_path):
    run = trained(folder, tmp_path / "run", 2, model=model, data={"test": str(folder / "other.txt")})
    opened = heed.load(tmp_path / "run")
    text = (folder / "other.txt").read_text()
    assert run.report["data"]["test"]["tokens"] == len(text)  # without the end token
    for report in (run.report["scores"]["test"], opened.score(opened.read([folder / "other.txt"]))):
        assert report["tokens"] == report["characters"] == report["bytes"] == len(text)
        assert report["words"] == len(text.split()) and report["end_tokens"] == 1 and report["unknown_tokens"] == 0
        assert sum(part["tokens"] for part in report["by_place"]) == len(text)
        assert report["bits_per_byte"]["value"] == pytest.approx(report["loss"]["value"] / math.log(2))
        assert report["bits_per_byte"]["low"] < report["bits_per_byte"]["value"] < report["bits_per_byte"]["high"]
    assert run.report["scores"]["test"] == json.loads(json.dumps(opened.evaluate("test")))
    scores = opened.evaluate("valid")
    assert opened.task.validate(opened.model) == {
        "loss": scores["loss"]["value"],
        "bits_per_byte": pytest.approx(scores["bits_per_byte"]["value"]),
    }
    shown = "\n".join(run.head.report(run.report["scores"]["test"]))
    assert f"{len(text):,} tokens, {len(text.split()):,} words" in shown and "pieces of 1,000 characters" in shown
    assert shown in (tmp_path / "run" / "README.md").read_text()


def test_nothing_but_files_is_needed(folder):
    values = {"task": "language_modelling", "data": {"train": [str(folder)]}}
    task = task_class("language_modelling").prepare(check_config(values, "test"))
    assert (task.config.model.name, task.config.model.size, task.config.tokenizer.kind) == ("gpt", "tiny", "char")
    assert task.config.model.max_length == task.input.context == 256
    assert task.config.model.positions == "rotary"  # a learned table needs more text


def test_a_run_resumed_within_a_document_has_the_same_weights(folder, tmp_path):
    given = {"model": "rnn", "training": {"micro_batches": 2, "validate_every": 3, "schedule": "constant"}}
    whole = trained(folder, tmp_path / "whole", 7, **given)
    assert len(whole.task.train_batches(0)) > 7  # in the middle of the one document
    trained(folder, tmp_path / "half", 3, **given)
    resumed = trained(folder, tmp_path / "half", 7, resume=True, **given)
    assert_same(weights(resumed), weights(whole))


# --- carried state


@pytest.mark.parametrize("model", CARRIES)
def test_the_loss_of_batches_with_carried_state_is_that_of_one_long_pass(model, folder):
    task, net = prepared(folder, model)
    plan, rows = task.train_batches(0), 4
    with torch.no_grad():
        net.train()
        for module in net.modules():
            if hasattr(module, "p"):
                module.p = 0.0
        losses = [float(task.loss(net, task.collate(plan[n]), 0.0)) for n in range(3)]
        batches = [task.collate(plan[n]) for n in range(3)]
        tokens = torch.cat([batch.inputs["tokens"] for batch in batches], dim=1)
        labels = torch.cat([batch.targets["labels"] for batch in batches], dim=1)
        hidden = net(tokens)
    assert tokens.shape == (rows, 48) and torch.equal(tokens[:, 1:], labels[:, :-1])
    logits = net.output(hidden).detach()
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    assert sum(losses) == pytest.approx(float(expected), rel=1e-5)


def test_each_row_goes_on_from_its_own_state_however_the_batch_is_divided(folder):
    task, net = prepared(folder, "rnn", fields={"dropout": 0.0})
    plan = task.train_batches(0)
    net.train()

    def read(parts_of, through_tensors=False):
        carried, found = CarriedRows(), []
        for n in range(3):
            hidden = {}
            for part in parts_of(plan[n], n):
                batch = task.collate(part)
                for row, states in zip(part, task.head.states(net, batch, carried), strict=True):
                    hidden[row] = states.detach()
            found.append(torch.stack([hidden[row] for row in plan[n]]))
            if through_tensors:
                carried = CarriedRows(carried.tensors())
        return torch.stack(found)

    whole = read(lambda indices, n: [indices])
    halves = read(lambda indices, n: [indices[:2], indices[2:]], through_tensors=True)
    mixed = read(lambda indices, n: [indices[:1], indices[1:]] if n % 2 else [indices[::2], indices[1::2]])
    torch.testing.assert_close(halves, whole)
    torch.testing.assert_close(mixed, whole)
    alone = torch.stack([net(task.collate(plan[2]).inputs["tokens"])])
    assert not torch.allclose(alone[0], whole[2], atol=1e-4)  # a state that was lost would show


def test_a_new_pass_begins_without_state_and_scoring_leaves_it_alone(folder):
    task, net = prepared(folder, "rnn")
    plan = task.train_batches(0)
    net.train()
    first = task.loss(net, task.collate(plan[0]), 0.0)
    kept = task.carried()
    net.eval()
    task.validate(net)
    assert_same(task.carried(), kept)
    again = loss_of(task, net, task.collate(plan[0]))
    task.carry({})
    assert not task.carried() and again == loss_of(task, net, task.collate(plan[0]))
    assert first.requires_grad


# --- scores


class Steady(LanguageModel):
    """A model whose next token depends on the last one only, given as a table of probabilities."""

    config_class = TextConfig

    def __init__(self, table):
        super().__init__(TextConfig(vocab_size=len(table)))
        self.table = nn.Parameter(torch.tensor(table, dtype=torch.float64).log(), requires_grad=False)
        self.output = nn.Identity()

    def start(self, memory, rows):
        return None

    def step(self, tokens, state, lengths=None):
        return self.table[tokens], state


def test_bits_per_byte_do_not_depend_on_how_a_text_is_cut():
    letters = "abc\u00e9"
    rng = np.random.default_rng(3)
    chances = rng.dirichlet(np.ones(4), size=5)  # row 4: the first letter of a document
    single = np.zeros((8, 8))
    single[4:, 4:], single[START, 4:] = chances[:4], chances[4]
    single[:3, 4] += single[:3].sum(1) == 0
    single[END, 4] = 1.0
    pairs = [a + b for a in letters for b in letters]
    merged = np.zeros((20, 20))
    before = {4 + n: letters.index(pair[1]) for n, pair in enumerate(pairs)} | {START: 4}
    for token in range(20):
        row = before.get(token, 0)
        merged[token, 4:] = [
            chances[row, letters.index(a)] * chances[letters.index(a), letters.index(b)] for a, b in pairs
        ]
    texts = ["".join(rng.choice(list(letters), size=2 * n)) for n in (700, 5, 1)]

    def encode(size):
        def cut(text):
            parts = [(n, n + size) for n in range(0, len(text), size)]
            known = letters if size == 1 else pairs
            return Encoded([4 + list(known).index(text[a:b]) for a, b in parts], parts)

        return SimpleNamespace(encode=cut, special=OWN)

    units = Units.of([Document(text) for text in texts])
    found = []
    for table, size in ((single, 1), (merged, 2)):
        task = SimpleNamespace(tokenizer=encode(size), context=32, first_token=START, end_token=False)
        scores = score_texts(task, Steady(table), texts)
        outcomes = outcomes_of(units, scores)
        found.append({measure.name: measure for measure in outcomes.measures + outcomes.further})
    one, two = found
    assert len(units) == 4 and units.are_pieces
    for name in ("bits_per_byte", "bits_per_character", "word_perplexity"):
        assert one[name].score() == pytest.approx(two[name].score(), abs=1e-9), name
    assert one["bits_per_byte"].score() < one["bits_per_character"].score()  # one letter has two bytes
    np.testing.assert_allclose(one["bits_per_byte"].each(), two["bits_per_byte"].each(), atol=1e-9)
    assert one["perplexity"].score() == pytest.approx(2 ** one["bits_per_character"].score())
    assert two["perplexity"].score() == pytest.approx(one["perplexity"].score() ** 2)
    path = [4, *map(letters.index, texts[0])]
    expected = -sum(math.log2(chances[a, b]) for a, b in pairwise(path))
    own = outcomes_of(Units.of([Document(texts[0])]), [scores[0]]).measures[0]
    assert own.score() == pytest.approx(expected / len(texts[0].encode()), abs=1e-9)


@pytest.mark.parametrize("stride", [1, 8, 16, None])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40, 48])
def test_every_token_is_scored_once_from_enough_before_it(stride, length, folder):
    task, net = prepared(folder)
    rng = np.random.default_rng(length)
    ids = rng.integers(4, task.input.tokenizer.vocab_size, size=length)
    (scores,) = score_ids(task.input, net, [ids], stride)
    step = stride or 16
    assert len(scores.log_probs) == length and (scores.log_probs < 0).all()
    seen = scores.seen.tolist()
    assert seen[:16] == list(range(1, min(length, 16) + 1))
    assert all(16 - step < n <= 16 for n in seen[16:])
    for place in range(length):  # each from the window that it says
        window = [END, *ids][place + 1 - seen[place] : place + 1]
        with torch.no_grad():
            logits = net.logits(net(torch.tensor([window])))[0, -1]
        expected = float(torch.log_softmax(logits, -1)[ids[place]])
        assert scores.log_probs[place] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_texts_scored_together_have_the_scores_of_each_alone(model, folder):
    task, net = prepared(folder, model)
    texts = ["The old dog.", "", "A", (folder / "other.txt").read_text()[:130], "cat and dog"]
    together = score_texts(task.input, net, texts, 4)
    for text, scores in zip(texts, together, strict=True):
        (alone,) = score_texts(task.input, net, [text], 4)
        assert [text[a:b] for a, b in scores.spans] == list(text)
        np.testing.assert_allclose(scores.log_probs, alone.log_probs, atol=1e-5)
        np.testing.assert_allclose(scores.end.log_probs, alone.end.log_probs, atol=1e-5)


def test_unknown_tokens_and_changed_texts_are_named(folder, tmp_path):
    run = trained(folder, tmp_path / "run", 1, tokenizer={"lowercase": True})
    report = run.score([Document("The c\u00e4t!")])
    assert report["unknown_tokens"] == 2 and report["changed_documents"] == 1
    shown = "\n".join(run.head.report(report))
    assert "2 tokens are unknown to the tokenizer" in shown and "lower-cased" in shown


def test_intervals_are_over_documents_where_there_are_enough(folder, tmp_path):
    run = trained(folder, tmp_path / "run", 1, file="all.jsonl", data={"test": str(folder / "all.jsonl")})
    report = run.report["scores"]["test"]
    assert report["intervals_over"] == {"what": "documents", "count": 50} and report["end_tokens"] == 50
    few = run.score(run.read([folder / "valid.jsonl"]))
    assert few["intervals_over"]["what"] == "pieces of 1,000 characters" and few["examples"] == 10


def test_words_characters_and_bytes_of_pieces_are_those_of_the_whole():
    text = "w\u00f6rd " * 450 + "x" * 1_500 + "\n"
    units = Units.of([Document(text), Document("one two")])
    assert len(units) == 5 and "".join(units.texts) == text + "one two"
    assert units.sizes.sum(0).tolist() == [453, len(text) + 7, len(text.encode()) + 7]


def test_the_trigram_baseline_is_a_distribution_that_counts_make():
    ids = np.random.default_rng(1).integers(0, 5, size=400)
    model = Trigram(ids, 6)
    for before in ([], [2], [0, 1], [5, 5], [1, 5, 3]):
        chances = [math.exp(model.log_probs(np.array([*before, token]), 0)[-1]) for token in range(6)]
        assert sum(chances) == pytest.approx(1.0)
    (pairs,) = np.where((ids[:-2] == 0) & (ids[1:-1] == 1))
    singles = [(np.sum(ids == c) + 1) / 406 for c in range(6)]
    after = ids[1:][ids[:-1] == 1]
    two = [(np.sum(after == c) + 5 * singles[c]) / (len(after) + 5) for c in range(6)]
    expected = [(np.sum(ids[pairs + 2] == c) + 5 * two[c]) / (len(pairs) + 5) for c in range(6)]
    found = [math.exp(model.log_probs(np.array([0, 1, c]), 3)[-1]) for c in range(6)]
    np.testing.assert_allclose(found, expected)


def test_scores_stand_beside_those_of_a_trigram(folder, tmp_path):
    run = trained(folder, tmp_path / "run", 1, data={"test": str(folder / "other.txt")})
    found = run.report["scores"]["test"]["baselines"]["trigram"]
    assert found["bits_per_byte"]["value"] < run.report["scores"]["test"]["bits_per_byte"]["value"]


# --- documents


@pytest.mark.parametrize("model", ["gpt", "attention_lm"])
def test_documents_that_share_a_row_are_each_as_if_alone(model, folder):
    task, net = prepared(folder, model, file="all.jsonl", data={"context": 64, "valid": 5})
    batches = [batch_of(task, indices) for indices in task.train_batches(0)]
    assert any("documents" in batch.inputs for batch in batches)
    stream, loss = task.encoded("train"), 0.0
    packed, pieces = sum(loss_of(task, net, batch) for batch in batches), []
    for batch in batches:
        tokens, labels = batch.inputs["tokens"], batch.targets["labels"]
        documents = batch.inputs.get("documents", torch.zeros_like(labels))
        for row, real in enumerate(batch.targets["mask"]):
            owners = documents[row]
            for owner in owners[real].unique():
                own = real & (owners == owner)
                with torch.no_grad():
                    logits = net.logits(net(tokens[row][own].unsqueeze(0)))[0]
                loss += float(nn.functional.cross_entropy(logits, labels[row][own], reduction="sum"))
                pieces.append(int(own.sum()))
    assert packed == pytest.approx(loss, rel=1e-5)
    assert sum(pieces) == len(stream) and len(pieces) > len(batches)
    running, _ = prepared(folder, model, file="all.jsonl", data={"context": 64, "valid": 5, "documents": "run_on"})
    assert sum(loss_of(running, net, batch_of(running, i)) for i in running.train_batches(0)) != pytest.approx(packed)


@pytest.mark.parametrize("model", ["gpt", "rnn"])
def test_corpora_on_disk_train_as_those_in_memory(model, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    valid = {"valid": str(folder / "valid.jsonl")}
    given = {"model": model, "file": "all.jsonl", "tokenizer": {"kind": "char"}, "training": {"validate_every": 20}}
    held = trained(folder, tmp_path / "held", 4, data=valid, **given)
    stored = trained(folder, tmp_path / "disk", 4, data={**valid, "in_memory": 0}, **given)
    assert_same(weights(stored), weights(held))
    assert stored.report["scores"]["valid"] == held.report["scores"]["valid"]
    assert stored.report["data"]["train"]["tokens"] == held.report["data"]["train"]["tokens"]


# --- from another run


def child(folder, parent, file="new.txt", tokenizer=None, data=None, **fields):
    """A task that starts from a parent, its model, and what it began with."""
    data = {"train": str(folder / file), "context": 16, **(data or {})}
    values = {"task": "language_modelling", "data": data, "model": {"from": str(parent.folder), **fields}}
    task = task_class("language_modelling").prepare(check_config({**values, "tokenizer": tokenizer or {}}, "test"))
    torch.manual_seed(1)
    model = task.build_model()
    return task, model, task.start(model)["parent"]


@pytest.fixture
def parent(folder, tmp_path):
    (tmp_path / "new.txt").write_text("The \u00f6ld dog! " * 40)
    return trained(folder, tmp_path / "parent", 2)


def test_a_run_goes_on_with_another_text_and_its_parent_s_tokenizer(parent, tmp_path):
    task, model, taken = child(tmp_path, parent)
    assert task.input.tokenizer.text == parent.input.tokenizer.text
    unknown = "72 tokens of the new text (15.38%) are unknown to this tokenizer, 2 different ones: '\u00f6' (36), "
    assert unknown in task.notes
    assert taken.tokens["embedding.weight"] == (parent.input.tokenizer.vocab_size,) * 2
    assert_same(model.state_dict(), parent.model.state_dict())


def test_a_parent_s_tokenizer_is_extended(parent, tmp_path):
    task, model, taken = child(tmp_path, parent, tokenizer={"extend": True})
    known = parent.input.tokenizer.vocab_size
    assert task.input.tokenizer.tokens == [*parent.input.tokenizer.tokens, "!", "\u00f6"]
    assert taken.tokens["embedding.weight"] == (known, known + 2)
    own, theirs = model.state_dict(), parent.model.state_dict()
    assert torch.equal(own["embedding.weight"][:known], theirs["embedding.weight"])
    assert torch.equal(own["blocks.0.feed_forward.inner.weight"], theirs["blocks.0.feed_forward.inner.weight"])


def test_a_longer_context_keeps_the_places_that_the_parent_knows(parent, folder, tmp_path):
    parent = trained(folder, tmp_path / "places", 1, fields={"positions": "learned"})
    task, model, taken = child(tmp_path, parent, data={"context": 24})
    assert task.config.model.max_length == 24 and taken.tokens["positions.table.weight"] == (16, 24)
    own, theirs = model.state_dict(), parent.model.state_dict()
    assert torch.equal(own["positions.table.weight"][:16], theirs["positions.table.weight"])


# --- comparison


def test_runs_with_different_tokens_are_compared_per_byte(folder, tmp_path):
    one = trained(folder, tmp_path / "char", 2)
    two = trained(folder, tmp_path / "byte", 2, tokenizer={"kind": "byte"})
    alike = trained(folder, tmp_path / "rnn", 2, model="rnn")
    comparison = heed.compare([one, two], resamples=20)
    assert [measure.name for measure in comparison.measures] == ["bits_per_byte", "word_perplexity"]
    assert "The runs split text into different tokens" in comparison.text()
    assert len(comparison.examples) == len(comparison.outcomes[0][0].outputs)
    assert "perplexity" in [measure.name for measure in heed.compare([one, alike], resamples=20).measures]
    for row, run in zip(comparison.rows, (one, two), strict=True):
        assert row["bits_per_byte"] == run.evaluate("valid")["bits_per_byte"]["value"]
    assert comparison.examiner.units.are_pieces and comparison.buckets == ()  # pieces of 1,000 characters and one rest
    assert not any("length" in name for name in comparison.rows[0])
    comparison.save(tmp_path / "page", sentences=2)
    assert "surprisal of each token" in (tmp_path / "page" / "compare.html").read_text()


# --- errors


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"evaluation": {"stride": 17}}, "evaluation.stride is 17, more than data.context 16"),
        ({"fields": {"bidirectional": True}}, "model.bidirectional is true, but a language model predicts the next"),
        ({"fields": {"max_length": 8}}, "model.max_length is 8, but the data has 16"),
        ({"tokenizer": {"extend": True}}, "tokenizer.extend is true, but there is no tokenizer"),
        ({"data": {"separator": "--", "format": "lines"}}, "data.separator is '--'"),
        ({"data": {"hub": "a/b", "train": ["train"], "format": "jsonl"}}, "format is 'jsonl', which applies to files"),
    ],
)
def test_settings_that_cannot_be_are_refused(sections, message, folder):
    with pytest.raises(ConfigError, match=message):
        prepared(folder, **sections)


def test_a_file_without_text_is_refused(folder):
    with pytest.raises(DataError, match="no training documents left"):
        prepared(folder, file="blank.txt")


def test_the_tokenizer_is_chosen_by_the_amount_of_text():
    assert num_tokens(10_000) == 1_000 and num_tokens(10**12) == 32_000
    assert TextTokenizer.train_characters(["ab"]).vocab_size == 6


def test_the_loss_by_place_begins_at_the_first_place():
    spans = np.array([[n, n + 1] for n in range(5)], dtype=np.int32)
    seen = np.arange(1, 6, dtype=np.int32)
    scores = TokenScores(-np.arange(1.0, 6.0), None, seen, np.full(5, 9), spans, None, unknown_token=1)
    found = outcomes_of(Units.of([Document("abcde")]), [scores]).details["by_place"]
    ranges = [(part["first"], part["last"], part["tokens"], part["loss"]) for part in found]
    assert ranges == [(0, 0, 1, 1.0), (1, 1, 1, 2.0), (2, 3, 2, 3.5), (4, 4, 1, 5.0)]
