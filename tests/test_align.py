"""`heed align`: links between the words of given pairs and their scores; and links of what is written."""

import json
import random

import numpy as np
import pytest
import torch

import heed
from commands import call as command
from contract import forced_batch
from heed.data.examples import Pair
from heed.data.kinds.pairs import read_links
from heed.errors import ConfigError
from heed.tasks.heads.alignment import AttentionPlace, alignment_scores, usual_place, word_weights

NOUNS = {"cat": "aja", "dog": "kelb", "house": "dar", "garden": "bustan", "book": "kitab"}
VERBS = {"sees": "kan", "likes": "habb", "reads": "qara"}


def sentence(draw):
    one, other, verb = (draw.choice(sorted(words)) for words in (NOUNS, NOUNS, VERBS))
    return f"the {one} {verb} the {other}, now.", f"{NOUNS[one]} {VERBS[verb]}, {NOUNS[other]} al'an."


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(1)
    rows = [sentence(draw) for _ in range(60)]
    for side, name in enumerate(("en", "yo")):
        (folder / f"train.{name}").write_text("".join(row[side] + "\n" for row in rows))
        (folder / f"test.{name}").write_text("".join(row[side] + "\n" for row in [*rows[:7], ("", ""), *rows[7:9]]))
    return folder


def train(data, out, model, **settings):
    fields = {"model.name": model, "model.size": "tiny", "training.threads": 1, "tokenizer.kind": "bpe"}
    fields |= {"tokenizer.vocab_size": 60, "data.valid": 5}
    files = [data / f"train.{side}" for side in ("en", "yo")]
    return heed.train("translation", train=files, steps=3, out=out, settings=fields | settings, quiet=True)


@pytest.fixture(scope="module")
def run(data):
    return train(data, data / "run", "transformer")


@pytest.fixture(scope="module")
def pairs(data):
    sides = [(data / f"test.{side}").read_text().splitlines() for side in ("en", "yo")]
    return [Pair(*sides) for sides in zip(*sides, strict=True)]


def by_hand(run, pair, layer, head, state):
    """Weights of words, one character at a time: each token's share in the word that its characters are of."""
    task, run_model = run.task, run.model
    source, target = task.input.source_tokenizer.encode(pair.source), task.input.target_tokenizer.encode(pair.target)
    batch = forced_batch(task, pair.source, target.ids)
    with torch.no_grad(), heed.trace(run_model) as seen:
        run_model(batch.source, batch.source_mask, batch.target)
    weights = seen.maps("cross", layer).weights[0]
    rows = weights.mean(0) if head is None else weights[head]

    def word_of(text, span):
        (start, end) = span
        text = text[:end]
        return len(text.split()) - 1 if text[start:end].strip() else None

    owners = [
        [word_of(text, span) for span in spans]
        for text, spans in zip(pair.texts, (source.spans, target.spans), strict=True)
    ]
    found = np.zeros((len(pair.target.split()), len(pair.source.split())))
    for t, word in enumerate(owners[1]):
        for s, looked_at in enumerate(owners[0]):
            if word is not None and looked_at is not None:
                found[word, looked_at] += float(rows[t + (state == "read"), s]) / owners[1].count(word)
    return found


@pytest.mark.parametrize("state", ["read", "written"])
def test_the_weights_of_words_are_those_of_their_tokens(run, pairs, state):
    pairs = [pair for pair in pairs if pair.source]
    for layer in (0, 1):
        found = dict(word_weights(run.task, run.model, pairs, layer, state))
        assert sorted(found) == list(range(len(pairs)))
        for n, pair in enumerate(pairs):
            np.testing.assert_allclose(found[n].mean(0), by_hand(run, pair, layer, None, state), atol=1e-5)
            np.testing.assert_allclose(found[n][1], by_hand(run, pair, layer, 1, state), atol=1e-5)


def test_each_target_word_is_linked_to_the_source_word_it_looks_at_most(run, pairs):
    expected = by_hand(run, pairs[0], 1, 1, "written").argmax(1)
    links = run.align(pairs[0].source, pairs[0].target, layer=1, head=1, state="written")
    assert links == sorted((int(i), j) for j, i in enumerate(expected))
    assert run.align(pairs[0].source, pairs[0].target, layer=-1, head=1, state="written") == links


def test_a_transformer_is_read_where_it_has_read_the_word_and_a_recurrent_model_where_it_writes_it(run, data):
    assert str(usual_place(run.task, run.model)) == "layer 0, mean of all heads, by the state that has read the word"
    recurrent = train(data, data / "recurrent", "bahdanau")
    assert usual_place(recurrent.task, recurrent.model).state == "written"


def texts(pairs):
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def test_each_link_has_its_weight_and_a_pair_the_mean_log_probability_of_its_target(run, pairs):
    sources, targets = texts(pairs)
    found = run.align(sources, targets, scores=True, layer=1, head=0)
    assert found.links == run.align(sources, targets, layer=1, head=0).links
    assert found.place == AttentionPlace(1, (0,), "read")
    expected = by_hand(run, pairs[0], 1, 0, "read")
    assert found[0].weights == pytest.approx([expected[j, i] for i, j in found[0].links], abs=1e-5)
    nll, _, tokens = run.task.judged(run.model, run.input.encode(pairs[:1])).T
    assert found[0].score == pytest.approx(-nll[0] / tokens[0])
    assert found[7].links == () and np.isnan(found[7].score)


def test_links_of_what_is_written_count_the_words_that_blanks_separate(run):
    text = "the cat sees the dog, now."
    prediction = run.predict(text, prefix="aja kan, dar al", max_length=30)
    links = run.align(text, prediction)
    assert links and all(i < len(text.split()) and j < len(prediction.text.split()) for i, j in links)
    assert [j for _, j in sorted(links, key=lambda cell: cell[1])] == list(range(len(prediction.text.split())))


def test_the_command_writes_a_line_for_each_pair(run, data, pairs, capsys):
    files = [data / "test.en", data / "test.yo"]
    links = run.align(*texts(pairs)).links
    code, out, err = command(capsys, "align", run.folder, *files)
    assert code == 0 and out == "".join(" ".join(f"{i}-{j}" for i, j in line) + "\n" for line in links)
    assert f"{run.folder}: layer 0, mean of all heads, by the state that has read the word\n" in err
    command(capsys, "align", run.folder, *files, "--out", data / "out")
    assert (data / "out").read_text() == out and [
        [link[:2] for link in line] for line in read_links(data / "out")
    ] == links
    scored = command(capsys, "align", run.folder, *files, "--scores")[1].splitlines()
    assert len(scored) == len(pairs) and scored[7] == ""
    score, first = scored[0].split("\t")
    assert float(score) < 0 and all(0 < float(link.split(":")[1]) <= 1 for link in first.split())


def test_evaluate_scores_links_against_gold(run, data, capsys):
    files = [data / "test.en", data / "test.yo"]
    command(capsys, "align", run.folder, *files, "--out", data / "gold0")
    code, out, err = command(capsys, "evaluate", run.folder, *files, "--alignment", data / "gold0")
    assert code == 0, err
    assert "AER, lower is better   0.00%  [no interval]" in out and "link recall          100.00%" in out
    code, out, err = command(capsys, "evaluate", run.folder, *files, "--alignment", data / "gold0", "--json")
    assert [report["task"] for report in json.loads(out).values()] == ["translation"]


@pytest.mark.parametrize(
    ("command_words", "message"),
    [
        (["align", "--layer", "2"], "no layer 2: 2 layers attend to the source in"),
        (["align", "--head", "9"], "no head 9: there are 4 heads in"),
        (["align", "--head", "last"], "--head is 'last'; give a number or mean"),
        (["evaluate", "--alignment", "short"], "'short' has 2 lines, but there are 10 pairs; line N must have the"),
        (["evaluate", "--alignment", "one"], "'one' has no link to a word 0, but 1 link to a word after the last"),
        (["evaluate", "--alignment", "empty"], "'empty' has no links"),
        (["evaluate", "--alignment", "nowhere"], "no file 'nowhere'"),
    ],
)
def test_what_cannot_be_is_refused(run, data, command_words, message, capsys, monkeypatch):
    monkeypatch.chdir(data)
    (data / "short").write_text("0-0\n0-0\n")
    (data / "one").write_text("1-6\n" + 9 * "\n")
    (data / "empty").write_text(10 * "\n")
    name, *words = command_words
    code, out, err = command(capsys, name, run.folder, "test.en", "test.yo", *words)
    assert code == 2 and out == "" and message in err.splitlines()[-1]


def test_a_run_of_another_task_aligns_no_words(data, made_run, capsys):
    code, out, err = command(
        capsys, "align", made_run("classification") / "finished", data / "test.en", data / "test.yo"
    )
    assert code == 2 and out == "" and "`align` is not available for classification; it is for" in err


def test_gold_links_to_words_that_are_not_there_count_as_missed(run, data, pairs):
    after = f"0-{len(pairs[0].target.split())}"
    (data / "beyond").write_text(f"0-0 {after}\n" + 9 * "\n")
    scores, notes = alignment_scores(run, pairs, data / "beyond")
    assert f"'{data / 'beyond'}': 1 link names a word after the last one, the first on line 1: {after}" in notes[0]
    assert scores["alignment_recall"]["value"] <= 0.5


def test_a_model_without_attention_and_unequal_lists_are_refused(data, run):
    blind = train(data, data / "blind", "seq2seq")
    with pytest.raises(ConfigError, match="model 'seq2seq' has no attention to the source, so it cannot align words"):
        blind.align("the cat", "aja")
    with pytest.raises(ConfigError, match="2 sources and 1 target were given"):
        run.align(["a", "b"], ["c"])


def test_what_was_trained_with_links_is_read_where_they_were_trained(data):
    settings = {"training.alignment.automatic": True, "training.alignment.layer": 0, "training.alignment.heads": [1, 2]}
    run = train(data, data / "taught", "transformer", **settings)
    assert str(usual_place(run.task, run.model)) == "layer 0, mean of heads 1 and 2, by the state that writes the word"
    assert run.align(["the cat sees."], ["aja kan."], head="mean").place.heads is None
