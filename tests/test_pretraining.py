"""Pretraining: whole runs on stories and own files, filled masks, ranked words, pairs, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch

import heed
from commands import failing, output_of
from contract import batch_of, config_of, task_and_model, write_lines
from example_data import section
from heed.config import TokenizerConfig
from heed.data.kinds.documents import Document
from heed.data.tokens import END
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.serve.served import Served
from heed.tasks.pretraining import rows as cooccurrence
from heed.tasks.pretraining.masked import answers, by_document, outcomes_of
from heed.tasks.pretraining.rows import FOLLOWS_NOT, NO_QUESTION, Passages, Rows, draw_rows, fill_from_neighbours
from stories import draw_stories

SMALL = {"model.size": "tiny", "model.d_model": 32, "model.num_heads": 2, "model.d_ff": 64, "model.dropout": 0.0}
QUICK = {
    **SMALL,
    "training.threads": 1,
    "training.device": "cpu",
    "training.warmup": 5,
    "training.learning_rate": 0.005,
    "training.batch_tokens": 800,
    "evaluation.bootstrap": 20,
}
STORIES = section("stories", 400, 40, 60)
TEXTS = [story.text for story in draw_stories("train", 60, 3)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEED_CACHE", str(tmp_path_factory.mktemp("cache")))
        out = tmp_path_factory.mktemp("runs") / "run"
        settings = {**QUICK, "data.format": "lines", "data.max_length": 64, "training.validate_every": 40}
        return heed.train("pretraining", **STORIES, steps=80, settings=settings, out=out, quiet=True)


def small(data, **model):
    fields = {name.partition(".")[2]: value for name, value in SMALL.items()}
    return config_of("pretraining", data, model={**fields, **model}, training={"batch_tokens": 300})


def mean_of(hidden, mask):
    return torch.stack([states[real].mean(0) for states, real in zip(hidden, mask, strict=True)])


STORIES_DATA = {**section("stories", 40, 8, 8), "format": "lines", "max_length": 64}


# --- training


def test_masked_words_are_learned_and_both_losses_are_reported_apart(run):
    events = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    validations = [event for event in events if event["event"] == "validation"]
    assert validations[-1]["masked_loss"] < validations[0]["masked_loss"]
    assert validations[-1]["masked_loss"] < 0.75 * math.log(run.tokenizer.vocab_size)
    for event in validations:
        assert event["loss"] == pytest.approx(event["masked_loss"] + event["next_loss"])
    update = next(event for event in events if event["event"] == "update")
    assert update["loss"] == pytest.approx(update["loss.masked"] + update["loss.next"], rel=1e-4)
    assert update["loss.next"] == pytest.approx(0.69, abs=0.1)  # in nats per pair
    scores = run.report["scores"]["test"]
    assert {"masked_accuracy", "masked_loss", "next_accuracy", "next_loss"} <= set(scores)
    assert scores["examples"] == 60 and scores["pairs"] > 50 and scores["masked"] > 200
    lines = "\n".join(run.head.report(scores))
    assert "masked words right" in lines and "nats per pair" in lines
    assert set(scores["baselines"]) == {"word overlap and lengths"}
    assert scores["baselines"]["word overlap and lengths"]["next_accuracy"]["value"] > 0.5


def test_the_loss_is_the_cross_entropy_at_masked_places_and_of_pairs():
    task, model = task_and_model(small(STORIES_DATA))
    batch = batch_of(task, [0, 1, 2, 3, 4])
    with torch.no_grad():
        tokens, mask, asked_of = batch.inputs["tokens"], batch.inputs["mask"], batch.targets
        hidden = model.body(tokens, mask)
        logits = model.words(hidden).flatten(0, 1)[asked_of["places"]]
        words = torch.nn.functional.cross_entropy(logits, asked_of["words"], reduction="sum")
        asked = asked_of["order"] != NO_QUESTION
        order = model.order(model.body.pooled(mean_of(hidden, mask)))[asked]
        nats = torch.nn.functional.cross_entropy(order, asked_of["order"][asked], reduction="none")
        loss = task.loss(model, batch, 0.0)
    assert float(loss.parts["masked"]) == pytest.approx(float(words), rel=1e-4)
    # A pair counts as much as its masked words, and single texts leave their share to the pairs.
    masked = torch.bincount(asked_of["places"] // tokens.shape[1], minlength=5)
    rows = draw_rows(task.encoded("train"), task.input.cut, task.config.training.seed, 0)
    assert asked_of["pair_weight"] == pytest.approx(rows.lengths.sum() / rows.lengths[rows.labels >= 0].sum())
    expected = asked_of["pair_weight"] * float((nats * masked[asked]).sum())
    assert float(loss.parts["next"]) == pytest.approx(expected, rel=1e-4)
    assert batch.num_targets == len(asked_of["words"])


def test_the_loss_and_the_message_are_of_the_pass_of_the_batch():
    """A thread that makes batches ahead may have begun the next pass, with other rows and another weight of pairs."""
    task, model = task_and_model(small(STORIES_DATA))
    batch, model = batch_of(task, [0, 1, 2, 3, 4]), model.eval()
    with torch.no_grad():
        loss, said, size = task.loss(model, batch, 0.0), task.describe([0, 1], 0), task.work([0, 1])
        ahead = task.collate([0, 1, 2, 3, 4], 1)
        assert task.loss(model, ahead, 0.0).parts != task.loss(model, batch, 0.0).parts == loss.parts
    assert (task.describe([0, 1], 0), task.work([0, 1])) == (said, size)


@pytest.mark.parametrize(("off", "left"), [("next_sentence", "masked"), ("masked_words", "next")])
def test_either_part_can_be_switched_off(off, left):
    task, model = task_and_model(small(STORIES_DATA, **{off: False}))
    batch = batch_of(task, task.train_batches(0)[0])
    assert set(task.loss(model, batch, 0.0).parts) == {left}
    scores = task.validate(model)
    assert set(scores) == {"loss", f"{left}_accuracy", f"{left}_loss"} and scores["loss"] == scores[f"{left}_loss"]
    if off == "next_sentence":
        assert not hasattr(model, "order") or model.order is None
        assert ((batch.inputs["tokens"] == END).sum(1) == 1).all()  # texts one at a time
    else:
        assert batch.num_targets == len(batch.indices) and len(batch.targets["words"]) == 0


def test_texts_from_python_are_documents(tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    run = heed.train("pretraining", train=TEXTS, steps=2, settings=QUICK, out=tmp_path / "run", quiet=True)
    assert run.evaluate(TEXTS[:10])["examples"] == 10


# --- masks


def test_masks_are_filled_with_probabilities(run):
    filled = run.predict("The man went to the [MASK]. He [MASK] some roses.", most=7)
    assert len(filled.masks) == 2 and all(len(candidates) == 7 for candidates in filled.masks)
    for candidates in filled.masks:
        values = [one.probability for one in candidates]
        assert values == sorted(values, reverse=True) and 0 < sum(values) <= 1
        assert not {"[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]"} & {one.word for one in candidates}
    first, second = (candidates[0].word for candidates in filled.masks)
    assert filled.text == f"The man went to the {first}. He {second} some roses."
    rows = run.predict([filled.given]).to_frame()
    assert list(rows.columns) == ["text", "mask", "word", "probability"] and len(rows) == 10


def test_the_probability_is_that_of_the_vocabulary_at_the_mask(run):
    tokenizer = run.tokenizer
    ids = [2, *tokenizer.encode_masked("He went to the [MASK]."), 3]
    tokens = torch.tensor([ids])
    with torch.no_grad():
        hidden = run.model(tokens, torch.ones_like(tokens, dtype=torch.bool))
        expected = run.model.words(hidden)[0, ids.index(tokenizer.mask)].softmax(-1)
    ((best, *_),) = run.predict("He went to the [MASK].").masks
    (token,) = tokenizer.encode(best.word).ids
    assert best.probability == pytest.approx(float(expected[token]), rel=1e-4)


def test_words_are_ranked_and_several_pieces_are_scored_from_left_to_right(run):
    text, tokenizer = "He went to the [MASK].", run.tokenizer
    ranked = run.rank(text, ["store", "lake", "stor"])
    assert sum(one.probability for one in ranked) == pytest.approx(1)
    assert [one.log_prob for one in ranked] == sorted((one.log_prob for one in ranked), reverse=True)
    pieces = tokenizer.encode("stor").ids
    assert len(pieces) > 1
    mask, expected = tokenizer.mask, 0.0
    before, after = (tokenizer.encode(part).ids for part in ("He went to the", "."))
    for known in range(len(pieces)):
        row = [2, *before, *pieces[:known], *[mask] * (len(pieces) - known), *after, 3]
        tokens = torch.tensor([row])
        with torch.no_grad():
            scores = run.model.words(run.model(tokens, torch.ones_like(tokens, dtype=torch.bool)))
        expected += float(scores[0, row.index(mask)].log_softmax(-1)[pieces[known]])
    (several,) = (one for one in ranked if one.word == "stor")
    assert several.log_prob == pytest.approx(expected, rel=1e-4) and len(several.pieces) == len(pieces)


def test_of_a_long_text_the_part_around_the_masks_is_read(run):
    filled = run.predict(" ".join(["He paid the cashier."] * 40) + " He [MASK] home.")
    assert len(filled.masks) == 1 and filled.unread > 100


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.predict("no mask here"), r"has no \[MASK\]: 'no mask here'; write \[MASK\]"),
        (lambda run: run.rank("a [MASK] and a [MASK]", ["x"]), "ranked at one .* the text has 2"),
        (lambda run: run.rank("a [MASK]", ["milk", "milk"]), "'milk' occurs twice"),
        (lambda run: run.rank("a [MASK]", []), "no words to rank"),
        (lambda run: run.rank("a [MASK]", ["\u4f60"]), "'\u4f60' is unknown to the tokenizer"),
        (lambda run: run.follows([("He left.", " ")]), "the second text of a pair is blank"),
        (lambda run: run.predict("[MASK]" + " milk" * 200 + " [MASK]"), "the masks span"),
    ],
)
def test_what_cannot_be_filled_says_why(run, call, message):
    with pytest.raises(ConfigError, match=message):
        call(run)


# --- pairs


def test_pairs_get_the_probability_that_the_second_follows(run):
    pairs = [("The man went to the store.", "He bought milk."), ("He left.", "The water was cold. " * 40)]
    found = run.follows(pairs)
    assert all(0 < one.probability < 1 for one in found)
    assert found[0].unread == 0 < found[1].unread
    tokenizer = run.tokenizer
    a, b = (tokenizer.encode(text).ids for text in pairs[0])
    tokens = torch.tensor([[2, *a, 3, *b, 3]])
    mask = torch.ones_like(tokens, dtype=torch.bool)
    with torch.no_grad():
        expected = run.model.order(run.model.body.pooled(mean_of(run.model(tokens, mask), mask))).softmax(-1)[0, 0]
    assert found[0].probability == pytest.approx(float(expected), rel=1e-4)
    assert list(found.to_frame().columns) == ["text", "second", "follows", "probability"]
    served = Served("run", run.folder)
    asked = [served.read(dict(zip(("text", "second"), pair, strict=True))) for pair in pairs]
    answers = served.predict(asked, {"next": True})
    assert [(one["text"], one["second"]) for one in answers] == pairs
    assert [one["probability"] for one in answers] == pytest.approx([one.probability for one in found], abs=1e-5)
    assert served.predict(["He left.\tIt rained."], {"next": True})[0]["second"] == "It rained."
    with pytest.raises(ConfigError, match="input is a pair of texts, but this run reads single texts"):
        served.predict(asked, {})
    assert run.look(pairs[0]).look.second == pairs[0][1]


def test_the_question_may_be_answered_from_the_start_token():
    task, model = task_and_model(small(STORIES_DATA, pooling="last"))
    batch = batch_of(task, [0, 1, 2])
    with torch.no_grad():
        mask = batch.inputs["mask"]
        hidden = model.body(batch.inputs["tokens"], mask)
        expected = model.order(model.body.last(hidden, mask))
        torch.testing.assert_close(model.order_scores(hidden, mask), expected)
        assert not torch.allclose(expected, model.order(model.body.pooled(mean_of(hidden, mask))))


# --- embeddings to begin with


def words_of(texts):
    return TextTokenizer.train_to_read(texts, TokenizerConfig(kind="word"))


def test_embeddings_begin_as_factors_of_what_stands_near():
    texts = ["a b c a b d", "c d a", "e f e f e f"]
    documents = [Document(text) for text in texts]
    tokenizer = words_of(texts)
    passages = Passages.of(documents, tokenizer)
    size = tokenizer.vocab_size
    counts = np.zeros((size, size))  # pairs at most five apart, the nearer the heavier
    for text in texts:
        ids = tokenizer.encode(text).ids
        for i, one in enumerate(ids):
            for j, other in enumerate(ids):
                if i != j and abs(i - j) <= 5:
                    counts[one, other] += (6 - abs(i - j)) / 5
    each = counts.sum(1)
    context = each**0.75 / (each**0.75).sum()
    information = np.zeros_like(counts)
    for i, j in zip(*np.nonzero(counts), strict=True):
        information[i, j] = max(0.0, math.log(counts[i, j] / each[i] / context[j]))
    left, values, _ = np.linalg.svd(information)
    expected = left[:, :4] * np.sqrt(values[:4])
    torch.manual_seed(0)
    table = torch.nn.Embedding(size, 4)
    report = fill_from_neighbours(table, passages)
    used = np.flatnonzero(each)
    got = table.weight.detach().numpy()
    # The sign of each factor is free, and all are scaled together.
    scale = 0.1 / expected[used].std()
    np.testing.assert_allclose(np.abs(got[used]), np.abs(expected[used]) * scale, atol=1e-4)
    assert (report.tokens, report.filled, report.vocab_size) == (15, 6, size)
    assert table.weight.std(correction=0).item() == pytest.approx(0.1, rel=0.2)  # of the others too


def test_embeddings_from_neighbours_end_at_the_ends_of_documents_and_of_parts(monkeypatch):
    texts = [story.text for story in draw_stories("train", 40, 3)]
    tokenizer = words_of(texts)
    passages = Passages.of([Document(text) for text in texts], tokenizer)
    whole = cooccurrence._neighbours(passages.ids, passages.starts, tokenizer.vocab_size)
    monkeypatch.setattr(cooccurrence, "_TOGETHER", 37)
    parts = cooccurrence._neighbours(passages.ids, passages.starts, tokenizer.vocab_size)
    assert abs(whole - parts).max() < 1e-9
    alone = [Passages.of([Document(text)], tokenizer) for text in texts]
    each = [cooccurrence._neighbours(one.ids, one.starts, tokenizer.vocab_size) for one in alone]
    assert abs(whole - sum(each[1:], each[0])).max() < 1e-9


def test_fewer_words_than_the_width_leave_drawn_columns():
    tokenizer = words_of(["a b a b"])
    table = torch.nn.Embedding(tokenizer.vocab_size, 16)
    fill_from_neighbours(table, Passages.of([Document("a b a b")], tokenizer))
    assert bool(table.weight.isfinite().all()) and (table.weight.std(0) > 0).all()


def test_a_run_says_what_its_embeddings_began_with(run):
    report = json.loads((run.folder / "report.json").read_text())["embeddings"]
    assert report["filled"] > 50 and report["tokens"] > 1000


def test_drawn_embeddings_and_a_parent_take_nothing_from_the_text(run):
    drawn, _ = task_and_model(small(STORIES_DATA, first_embeddings="drawn"))
    assert drawn.start(drawn.build_model()) == {}
    child = small(STORIES_DATA)
    child = child.model_copy(update={"model": child.model.model_copy(update={"from_": str(run.folder)})})
    task = drawn.task.prepare(child)
    assert "embeddings" not in task.start(task.build_model())


# --- commands


def test_predict_writes_a_line_for_a_line(run, tmp_path, capsys):
    write_lines(tmp_path / "masked.txt", "The [MASK] left.", "", "He [MASK] the [MASK].")
    lines = output_of(capsys, "predict", run.folder, "--input", tmp_path / "masked.txt").splitlines()
    assert len(lines) == 3 and lines[1] == "" and lines[2].count("\t") == 2
    lines = output_of(capsys, "predict", run.folder, "The [MASK] left.", "--nbest", 3).splitlines()
    assert len(lines) == 3 and all(float(line.split("\t")[0]) > 0 for line in lines)
    lines = output_of(
        capsys, "predict", run.folder, "The [MASK] left.", "--choice", "man", "--choice", "boy"
    ).splitlines()
    assert lines[0].split() == ["probability", "log-prob", "pieces", "choice"] and len(lines) == 3
    (line,) = output_of(capsys, "predict", run.folder, "The [MASK] left.", "--json").splitlines()
    assert json.loads(line)["masks"][0][0]["probability"] > 0


def test_predict_next_takes_two_arguments_or_two_columns(run, tmp_path, capsys):
    (line,) = output_of(
        capsys, "predict", run.folder, "--next", "He went to the store.", "He bought milk."
    ).splitlines()
    answer, probability = line.split("\t")
    (found,) = run.follows([("He went to the store.", "He bought milk.")])
    assert (answer, float(probability)) == (found.answer, pytest.approx(found.probability, abs=1e-4))
    write_lines(tmp_path / "pairs.tsv", "He went out.\tIt was cold.", "", "He left.\tHe bought milk.")
    lines = output_of(capsys, "predict", run.folder, "--next", "--input", tmp_path / "pairs.tsv").splitlines()
    pairs = run.follows([("He went out.", "It was cold."), ("He left.", "He bought milk.")])
    assert lines == [pairs[0].summary(), "", pairs[1].summary()]


@pytest.mark.parametrize(
    ("arguments", "lines", "message"),
    [
        (["no mask"], None, "has no [MASK]: 'no mask'"),
        (["--next", "one text"], None, "--next reads pairs of texts, but 1 text was given; give two"),
        (["--next", "a", "b", "--choice", "c"], None, "--next reads pairs of texts and fills no mask"),
        (["The [MASK].", "--choice", "a", "--nbest", "2"], None, "--nbest does not apply"),
        (["--next"], ["a\tb", "alone"], "line 2 has 1 column, expected two texts with a tab between them"),
        ([], ["The [MASK].", "none"], "line 2 has no [MASK]: 'none'"),
    ],
)
def test_wrong_input_is_named(run, tmp_path, capsys, arguments, lines, message):
    given = []
    if lines is not None:
        given = ["--input", write_lines(tmp_path / "input.tsv", *lines)]
    assert message in failing(capsys, "predict", run.folder, *arguments, *given)


def test_a_look_names_special_tokens_and_fills_masks(run):
    look = run.look("The man went to the [MASK].", layer=0, head=1).look
    assert look.maps[0].query.labels == ("[CLS]", "the", "man", "went", "to", "the", "[MASK]", ".", "[SEP]")
    assert look.target == run.predict("The man went to the [MASK].").text
    pair = run.look("He left.", pair="It was cold.").look
    assert pair.maps[0].query.labels.count("[SEP]") == 2 and pair.target in ("follows", "does not follow")
    with pytest.raises(ConfigError, match="tokens, but the model reads at most 62 at once"):
        run.look("He left the store. " * 40)


def test_runs_are_compared_document_by_document(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    settings = {**QUICK, "data.format": "lines", "data.max_length": 64, "model.next_sentence": False}
    other = heed.train("pretraining", **STORIES, steps=2, settings=settings, out=tmp_path / "other", quiet=True)
    comparison = heed.compare([run, other], resamples=50)
    assert [measure.name for measure in comparison.measures] == ["masked_accuracy"]
    assert "single texts" in str(comparison)


# --- what is refused


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        (STORIES_DATA, {"name": "rnn"}, "reads? .*start and an end token|rnn"),
        (STORIES_DATA, {"masked_words": False, "next_sentence": False}, "both false; set one"),
        ({**STORIES_DATA, "max_length": 100}, {"max_length": 50}, "data.max_length is 100, but model.max_length is 50"),
        ({**STORIES_DATA, "mask_token_share": 0.9, "random_token_share": 0.2}, {}, "their sum must be at most 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(data, model, message):
    with pytest.raises((ConfigError, DataError), match=message):
        fields = {} if model.get("name") else model
        config = small(data, **fields) if fields or not model else config_of("pretraining", data, model=model)
        task_and_model(config)[0].train_batches(0)


def test_documents_of_one_sentence_make_no_pairs(tmp_path):
    lines = [text.split(".")[0] for text in TEXTS]
    config = small({"train": [write_lines(tmp_path / "lines.txt", *lines)], "format": "lines"})
    with pytest.raises(DataError, match=r"contain two sentences, .*data.separator.*model.next_sentence=false"):
        task_and_model(config)[0].train_batches(0)
    alone = small({"train": [str(tmp_path / "lines.txt")], "format": "lines"}, next_sentence=False)
    assert task_and_model(alone)[0].train_batches(0)


def test_one_document_has_no_text_that_does_not_follow(tmp_path):
    write_lines(tmp_path / "one.txt", *TEXTS)
    with pytest.raises(DataError, match=r"at least two documents.* but there is 1; .*data.separator"):
        heed.train("pretraining", train=tmp_path / "one.txt", steps=1, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


# --- scores


def test_scores_of_words_and_pairs_worked_out_by_hand():
    log_probs = np.log([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]])
    found = answers(log_probs, np.array([0, 1, 1]))
    assert found[:, 1:].tolist() == [[1, 1], [0, 1], [1, 1]]
    assert found[:, 0] == pytest.approx(-np.log([0.8, 0.2, 0.7]))
    outcomes = outcomes_of([[[8.0, 1, 4], [1.0, 2, 2]], [[1.0, 1, 2], [2.0, 0, 1]]])
    assert outcomes.outputs == ("1 of 4 masked words, 2 of 2 pairs", "1 of 2 masked words, 0 of 1 pairs")
    scores = {one.name: one.score() for one in (*outcomes.measures, *outcomes.further)}
    assert scores == pytest.approx(
        {"masked_accuracy": 1 / 3, "masked_loss": 1.5, "next_accuracy": 2 / 3, "next_loss": 1}
    )


def test_a_pair_counts_for_the_document_of_its_first_text():
    passages = Passages(np.zeros(8, np.int64), np.zeros(8, np.uint8), np.array([0, 4, 8]), np.zeros(1, np.uint8))
    places = [np.array(one) for one in ([0, 4], [2, 6], [6, 2], [8, 4], [FOLLOWS_NOT, FOLLOWS_NOT], [0, 1])]
    found = by_document(Rows(passages, *places, np.zeros(2, bool)), [[0.5, 1, 1], [2.0, 0, 1]])
    assert found.tolist() == [[[0, 0, 0], [0.5, 1, 1]], [[0, 0, 0], [2.0, 0, 1]]]


def test_pairs_are_scored_unmasked_and_in_rows_that_no_seed_changes():
    nats, first = [], []
    for seed, share in ((1, 0.15), (2, 0.6)):
        config = small({**STORIES_DATA, "mask_share": share})
        training = config.training.model_copy(update={"seed": seed})
        task, model = task_and_model(config.model_copy(update={"training": training}))
        passages = task.encoded("valid")
        units = task.input.scored_units(passages)
        nats.append(task.judged(model, units)[~units.masked, 0])
        first.append(units.first.tolist())
    assert nats[0] == pytest.approx(nats[1], rel=1e-5) and sum(nats[0]) > 0
    assert first[0] == first[1]
