"""Tagging from columns to entities, scores and looks, on toy sentences that are learned in seconds."""

import html
import json
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.data.batch import distinct_words, to_device
from heed.data.kinds.tagged import may_follow
from heed.data.tokens import UNKNOWN
from heed.errors import ConfigError, DataError
from heed.layers import AffixFeatures, CharacterFeatures
from heed.tasks import check_config, task_class
from heed.tasks.base.attributing import table_of
from heed.tasks.base.report import error_lines
from heed.tasks.inputs.words import affixes_of
from heed.tasks.tagging import tag_columns
from small_runs import SMALL as SMALL_RUNS

NAMES, PLACES, FILLER = ["Ann", "Bob", "Cy"], ["Rome", "Oslo"], "we met in with and then saw the old".split()
TRAINING = {"steps": 60, "batch_tokens": 200, "threads": 1, "device": "cpu", "learning_rate": 0.01}
SMALL = {"d_embedding": 16, "d_hidden": 12, "dropout": 0.0, "cell": "gru"}


def toy_lines(count, seed):
    """Names of one or two words, places of one, filler between."""
    rng = random.Random(seed)
    sentences = []
    for _ in range(count):
        rows = []
        for _ in range(rng.randint(2, 5)):
            rows += [(word, "O") for word in rng.choices(FILLER, k=rng.randint(0, 2))]
            if rng.random() < 0.5:
                words = rng.sample(NAMES, rng.randint(1, 2))
                rows += [(word, "I-per" if i else "B-per") for i, word in enumerate(words)]
            else:
                rows.append((rng.choice(PLACES), "B-loc"))
            rows.append((rng.choice(FILLER), "O"))
        sentences.append("".join(f"{word}\t{tag}\n" for word, tag in rows))
    return "\n".join(sentences)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, count, seed in (("train", 120, 1), ("valid", 30, 2), ("test", 40, 3)):
        (folder / f"{name}.conll").write_text(toy_lines(count, seed))
    return folder


def settings(files, tokenizer=None, **model):
    return {
        "task": "tagging",
        "data": {name: str(files / f"{name}.conll") for name in ("train", "valid", "test")},
        "tokenizer": tokenizer or {},
        "model": {"name": "rnn", **SMALL, **model},
        "training": TRAINING,
        "evaluation": {"bootstrap": 50},
    }


def prepare(values):
    return task_class("tagging").prepare(check_config(values, "test"))


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "c.yaml").write_text(json.dumps(settings(files, characters="cnn")))
    return heed.train(folder / "c.yaml", out=folder / "run", quiet=True)


def test_entities_are_learned_and_found_in_raw_text_at_their_places(run):
    assert run.report["scores"]["test"]["entity_f1"]["value"] > 0.95
    text = "then  we saw Bob Ann  in Oslo with"
    found = [(e.label, text[e.start : e.end]) for e in run.predict(text).entities]
    assert found == [("per", "Bob Ann"), ("loc", "Oslo")]
    assert all(0 < e.probability <= 1 for e in run.predict(text).entities)
    assert run.predict(" ").entities == ()


@pytest.mark.parametrize("characters", ["none", "cnn", "affixes"])
@pytest.mark.parametrize("kind", ["word", "bpe", "char"])
def test_words_are_scored_whatever_the_tokens_and_the_padding(files, kind, characters):
    size = {"vocab_size": 34} if kind == "bpe" else {}  # too small for whole words
    task = prepare(settings(files, {"kind": kind, **size}, characters=characters))
    torch.manual_seed(0)
    model = task.build_model().eval()
    encoded = task.encoded("train")[:4]
    batch = task.collate([0, 1, 2, 3])
    assert (batch.inputs["word_of"] is None) == (kind == "word")
    together = model(**batch.inputs)
    assert together.shape[:2] == batch.targets["tags"].shape
    for i, sentence in enumerate(encoded):
        alone = model(**task.input.collate([sentence], [0], None).inputs)
        torch.testing.assert_close(together[i, : len(sentence.words)], alone[0], rtol=1e-4, atol=1e-5)
    task.loss(model, batch, 0.0).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_the_state_of_a_word_is_the_mean_of_its_tokens(files):
    task = prepare(settings(files, {"kind": "char"}))
    model = task.build_model().eval()
    inputs = task.batch_of([["Ann", "in"]]).inputs
    states = model.body(inputs["tokens"], inputs["mask"])[0]
    expected = torch.stack([states[:3].mean(0), states[3:5].mean(0)])
    torch.testing.assert_close(model(**inputs)[0], expected)


def test_character_features_are_the_largest_of_a_convolution():
    torch.manual_seed(0)
    layer = CharacterFeatures(10, 4, 5)
    words = [[[4, 5, 6], [7], []], [[7], [4, 5, 6, 8, 9, 4, 5, 6, 8, 9, 4, 5]]]
    given = distinct_words(words)
    features = layer(given.groups, given.place)
    assert features.shape == (2, 3, 5)
    table, weight, bias = (t.detach().numpy() for t in (layer.embedding.weight, *layer.filters.parameters()))
    for row, column, word in ((0, 0, [4, 5, 6]), (0, 1, [7]), (1, 0, [7]), (1, 1, words[1][1])):
        padded = np.concatenate([np.zeros((1, 4)), table[word], np.zeros((1, 4))])
        windows = [np.einsum("fci,ic->f", weight, padded[i : i + 3]) + bias for i in range(len(word))]
        np.testing.assert_allclose(features[row, column].detach().numpy(), np.max(windows, axis=0), atol=1e-6)
    assert not features[0, 2].any() and not features[1, 2].any()


def test_affixes_of_words_by_hand():
    expected = ["m-", "mc-", "mcd-", "-s", "-ds", "-lds", "-alds", "=mcdonalds", "shape XxXx"]
    assert affixes_of("McDonalds") == expected
    assert affixes_of("U2") == ["u-", "u2-", "-2", "-u2", "=u2", "shape X9"]
    assert affixes_of("") == ["=", "shape "]


def test_affix_features_are_the_sum_of_embeddings():
    features = AffixFeatures(9, 3)
    words = distinct_words([[[4, 5, 6], [4]], [[7]]])
    rows = features.embedding.weight
    found = features(words.groups, words.place)
    torch.testing.assert_close(found[0], torch.stack([rows[4] + rows[5] + rows[6], rows[4]]))
    torch.testing.assert_close(found[1], torch.stack([rows[7], torch.zeros(3)]))
    none = distinct_words([[], []])  # texts without words
    assert not features(none.groups, none.place).any()


def suffixed(count, seed):
    """Words of random letters; those that end in "-ine" are drugs."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        for ending, tag in rng.choices((("ine", "B-drug"), ("ist", "O"), ("ed", "O")), k=4):
            rows.append(f"{''.join(rng.choices('abcdefghklmnoprstu', k=5))}{ending}\t{tag}")
        rows.append("")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("head", ["softmax", "crf"])
@pytest.mark.parametrize(
    "model", [{}, {"name": "encoder", "d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16, "dropout": 0.0}]
)
def test_words_never_seen_are_tagged_by_their_endings_by_default(tmp_path, head, model):
    for name, count, seed in (("train", 80, 1), ("valid", 20, 2), ("test", 40, 3)):
        (tmp_path / f"{name}.conll").write_text(suffixed(count, seed))
    values = settings(tmp_path, head=head)
    values["model"] = {"head": head, **(model or values["model"])}
    (tmp_path / "c.yaml").write_text(json.dumps(values))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    assert run.config.model.model_extra["characters"] == "affixes"
    assert run.report["scores"]["test"]["entity_f1"]["value"] > 0.95
    assert [e.text for e in run.predict("qqqist qqqine qqqed").entities] == ["qqqine"]


def test_only_new_word_models_read_affixes_and_leave_words_out(files, run):
    def of(values):
        extra = prepare(values).config.model.model_extra
        return extra["characters"], extra["word_dropout"]

    assert of(settings(files)) == ("affixes", 0.1)
    assert of(settings(files, word_dropout=0.3)) == ("affixes", 0.3)
    assert of(settings(files, {"kind": "bpe", "vocab_size": 60})) == ("none", 0.0)
    assert of(settings(files, characters="none")) == ("none", 0.0)
    child = settings(files)
    child["model"] = {"from": str(run.folder)}
    assert of(child)[0] == "cnn"  # as its parent


def test_words_are_left_out_in_training_only(files):
    task = prepare(settings(files, word_dropout=0.5))
    model = task.build_model()
    inputs, seen = task.collate(list(range(20))).inputs, []
    model.body.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model.eval()(**inputs)
    model.train()(**inputs)
    assert torch.equal(seen[0], inputs["tokens"])
    changed = seen[1] != inputs["tokens"]
    assert (seen[1][changed] == UNKNOWN).all() and not changed[~inputs["mask"]].any()
    assert 0.4 < changed[inputs["mask"]].float().mean() < 0.6


def test_each_distinct_word_is_read_once_and_a_long_one_widens_no_other():
    longest = [4 + n % 20 for n in range(1_000)]
    words = [[[4, 5, 6], [7, 8], [4, 5, 6]] * 5 for _ in range(100)] + [[longest, [7, 8]]]
    given = distinct_words(words)
    assert sorted(tuple(group.shape) for group in given.groups) == [(1, 1_000), (2, 3)]
    assert given.place.shape == (101, 15) and given.place[100, 1] == given.place[0, 1]
    moved = to_device(given, torch.device("cpu"))
    assert all(torch.equal(one, other) for one, other in zip(given.groups, moved.groups, strict=True))


def test_no_batch_has_more_characters_than_its_positions_allow(files, tmp_path):
    """32 characters count as a position, so that words of any length fit the memory that batches are planned for."""
    lines = [f"w{n} O\nAnn B-per\n" for n in range(300)]
    lines += [f"{'x' * 990}{n:03} O\n" for n in range(40)]
    (tmp_path / "long.conll").write_text("\n".join(lines))
    values = settings(files, characters="cnn")
    (tmp_path / "short.conll").write_text("we O\nAnn B-per\n")
    values["data"] = {"train": str(tmp_path / "long.conll"), "valid": str(tmp_path / "short.conll")}
    values["training"] = {**TRAINING, "batch_tokens": 100}
    task = prepare(values)
    encoded = task.encoded("train")
    for indices in task.train_batches(0):
        batch = task.collate(indices)
        assert sum(group.numel() for group in batch.inputs["characters"].groups) <= max(2 * 32 * 100, 993)
        assert task.work(indices) <= 100
    plain = prepare({**values, "model": {**values["model"], "characters": "none"}})
    assert max(map(len, plain.train_batches(0))) > 40 and len(encoded) == 340


def test_a_look_shows_tags_probabilities_and_gates(run):
    assert not run.look("we met Ann in Rome").maps  # gates only when asked for
    shown = run.look("we met Ann in Rome", steps=True, gates=True)
    (shading,) = shown.look.shadings
    assert shading.tags == ("O", "O", "B-per", "O", "B-loc")
    assert {trace.mechanism for trace in shown.maps} == {"forward", "backward"}
    assert "B-per" in shown.text() and "encoder step 5 of 5" in shown.text()
    assert [(span.start, span.stop, span.label) for span in shading.spans] == [(2, 3, "per"), (4, 5, "loc")]
    assert "<bdi>Rome</bdi> <small>loc</small>" in shown.html()
    assert "Word by word: the model's state and the mean of each gate." in html.unescape(shown.html())
    assert "B-loc" in shown.svg() and json.loads(shown.json())["shadings"][0]["tags"][2] == "B-per"


def test_a_crf_learns_and_never_writes_an_illegal_tag(files, tmp_path):
    (tmp_path / "c.yaml").write_text(json.dumps(settings(files, head="crf")))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    assert run.report["scores"]["test"]["entity_f1"]["value"] > 0.95
    (prediction,) = run.predict([["then", "Ann", "in", "Rome"]])
    assert prediction.tags == ("O", "B-per", "O", "B-loc") and all(0 < p <= 1 for p in prediction.probabilities)
    torch.manual_seed(0)
    untrained = run.task.build_model()
    torch.nn.init.normal_(untrained.head.output.weight, std=5.0)
    for answer in run.task.answers(untrained, run.task.encoded("test")):
        tags = [run.head.labels[tag] for tag in answer.tags]
        assert all(may_follow(before, tag) for before, tag in pairwise([None, *tags]))


def test_a_crf_takes_plain_tags_as_they_are_and_no_label_smoothing(files):
    values = settings(files, head="crf")
    values["data"]["scheme"] = "plain"
    assert prepare(values).build_model().head.crf.may_follow.all()
    values["training"] = {**TRAINING, "label_smoothing": 0.1}
    with pytest.raises(ConfigError, match=r"label_smoothing does not apply to model.head crf"):
        prepare(values)


def test_columns_are_written_again_with_the_predicted_tags(run, tmp_path):
    path = tmp_path / "in.conll"
    path.write_text("# id 1\nwe\tO\nAnn\tO\n\nin\tO\nOslo\tB-per\n")
    assert tag_columns(run, path) == ["# id 1", "we\tO", "Ann\tB-per", "", "in\tO", "Oslo\tB-loc"]
    path.write_text("we\nAnn\n")
    assert tag_columns(run, path) == ["we\tO", "Ann\tB-per"]


def test_tags_that_mark_no_entities(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join("the DET\ncat NOUN\nsits VERB\n" for _ in range(20)))
    values = {"train": str(tmp_path / "a.txt"), "valid": str(tmp_path / "a.txt"), "test": str(tmp_path / "a.txt")}
    config = {"task": "tagging", "data": values, "model": {"name": "rnn", **SMALL}, "training": TRAINING}
    (tmp_path / "c.yaml").write_text(json.dumps(config))
    run = heed.train(tmp_path / "c.yaml", out=tmp_path / "run", quiet=True)
    report = run.report["scores"]["test"]
    assert report["accuracy"]["value"] == 1.0 and "entity_f1" not in report
    assert run.predict("the cat sits").summary() == "the/DET cat/NOUN sits/VERB"
    assert "scores are of single words, not of whole entities" in run.task.splits.summary
    errors = {"errors": [{"count": 2, "true": "DET", "predicted": "NOUN"}]}
    assert error_lines(errors, 5) == ["most frequent errors:", "       2  DET predicted as NOUN"]
    config["evaluation"] = {"select_by": "entity_f1"}
    with pytest.raises(ConfigError, match="the tags mark no entities"):
        prepare(config)


def test_a_type_that_training_never_saw_counts_as_missed(run, tmp_path):
    path = tmp_path / "new.conll"
    path.write_text("we\tO\nAnn\tB-animal\n")
    report = run.score(run.read([path]))
    assert report["entity_f1"]["value"] == 0.0 and report["never_seen"] == ["B-animal"]


def test_validation_tags_that_training_never_saw_are_named(files, tmp_path):
    values = settings(files)
    (tmp_path / "v.conll").write_text("we\tO\nAnn\tB-animal\n")
    values["data"]["valid"] = str(tmp_path / "v.conll")
    with pytest.raises(DataError, match=r"v.conll:1: label 'B-animal' was never seen in training"):
        prepare(values)


def test_an_unknown_head_is_named(files):
    with pytest.raises(ConfigError, match=r"model.head is 'softmaxx'; did you mean 'softmax'\?"):
        prepare(settings(files, head="softmaxx"))


def test_commands(run, capsys, tmp_path):
    code, out, _ = call(capsys, "predict", run.folder, "we met Ann Bob in Rome")
    assert code == 0 and [part.split()[:2] for part in out.strip().split("\t")] == [["7-14", "per"], ["18-22", "loc"]]
    _, out, _ = call(capsys, "predict", run.folder, "we met Ann", "--json")
    assert json.loads(out)["entities"][0]["text"] == "Ann"
    _, out, _ = call(capsys, "predict", run.folder, "we met Ann", "zzz Oslo Bobby", "then", "--sort", "uncertainty")
    assert out.splitlines()[0].split("\t")[1] == "zzz Oslo Bobby"  # words that training never saw
    path = tmp_path / "in.conll"
    path.write_text("Ann\tO\n")
    _, out, _ = call(capsys, "predict", run.folder, "--columns", "--input", path)
    assert out == "Ann\tB-per\n"
    code, out, _ = call(capsys, "evaluate", run.folder, path, "--errors", "2")
    assert code == 0 and "spurious: per" in out and "{Ann}" in out


def test_a_type_that_only_begins_in_training_may_go_on_elsewhere(files):
    work = prepare(settings(files))
    assert "I-loc" not in {tag for sentence in work.splits.examples["train"] for tag in sentence.tags}
    assert work.head.labels == ("B-loc", "B-per", "I-loc", "I-per", "O") and work.head.select == "entity_f1"


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("characters", ["cnn", "affixes"])
def test_leaving_a_word_out_leaves_its_characters_out_too(kind, characters, data, tmp_path):
    """The embeddings of words are zeros here, so every tag comes from the characters."""
    small = SMALL_RUNS["tagging"]
    small = replace(small, settings={**small.settings, "tokenizer.kind": kind, "model.characters": characters})
    run = small.untrained(data, tmp_path, "rnn", {})
    task, text = run.task, "one two three"
    with torch.no_grad():
        run.model.get_parameter(table_of(run.model)).zero_()
        run.model.head.output.weight.mul_(20.0)

    def score(left_out):
        (encoded,) = task.input.encode([task.input.example_of(text)])
        if left_out is not None:
            encoded.words[left_out] = [task.input.tokenizer.special.unseen] * len(encoded.words[left_out])
            encoded.characters[left_out] = []
        hidden = run.model(**task.input.collate([encoded], [0], None).inputs)
        return run.model.head.output(hidden)[0, 1, 0].item()

    found = run.attribute(text, method="loo", target=f"{task.head.labels[0]}:1")
    assert found.values == pytest.approx([score(None) - score(n) for n in range(3)], abs=1e-5)
    assert abs(found.values[1]) > 0.1
    held = "held fixed: the features of each word's characters"
    without = "a word that is left out is read as the unknown token without characters, since each word has a tag"
    assert found.notes[1:] == (without,)
    assert run.attribute(text, method="ig").notes[1:] == (held,)
    replaced = run.attribute(text, method="loo", without="unknown", target=f"{task.head.labels[0]}:1")
    assert replaced.notes[1:] == (held,) and replaced.values == (0.0, 0.0, 0.0)
    assert without not in run.patch(text, "one three three", target=task.head.labels[0]).look.notes


def test_a_tagger_of_words_alone_holds_nothing_fixed(data, tmp_path):
    run = SMALL_RUNS["tagging"].untrained(data, tmp_path, "rnn", {"characters": "none"})
    assert run.attribute("one two", method="ig").notes[1:] == ()
    (said,) = run.attribute("one two", method="loo").notes[1:]
    assert said == "a word that is left out is read as the unknown token, since each word has a tag"
