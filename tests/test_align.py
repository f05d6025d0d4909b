"""`heed align`: links between the words of given pairs, symmetrized and scored; and links of what is written."""

import json
import random

import numpy as np
import pytest
import torch

import heed
from commands import call as command
from contract import forced_batch
from heed.data.examples import Pair
from heed.data.kinds.links import read_links
from heed.errors import ConfigError, DataError
from heed.evaluation.alignment import symmetrize
from heed.tasks.translation.alignment import Aligner, AttentionPlace, Direction, usual_place, word_weights

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


def train(data, out, model, sides=("en", "yo"), **settings):
    fields = {"model.name": model, "model.size": "tiny", "training.threads": 1, "tokenizer.kind": "bpe"}
    fields |= {"tokenizer.vocab_size": 60, "data.valid": 5}
    files = [data / f"train.{side}" for side in sides]
    return heed.train("translation", train=files, steps=3, out=out, settings=fields | settings, quiet=True)


@pytest.fixture(scope="module")
def run(data):
    return train(data, data / "run", "transformer")


@pytest.fixture(scope="module")
def back(data):
    return train(data, data / "back", "transformer", ("yo", "en"))


@pytest.fixture(scope="module")
def pairs(data):
    sides = [(data / f"test.{side}").read_text().splitlines() for side in ("en", "yo")]
    return [Pair(*sides) for sides in zip(*sides, strict=True)]


def by_hand(run, pair, layer, head, state):
    """Weights of words, one character at a time: each token's share in the word that its characters are of."""
    task, run_model = run.task, run.model
    source, target = task.source_tokenizer.encode(pair.source), task.target_tokenizer.encode(pair.target)
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
    found = dict(word_weights(run.task, run.model, pairs, [0, 1], state))
    assert sorted(found) == list(range(len(pairs)))
    for n, pair in enumerate(pairs):
        for layer in (0, 1):
            np.testing.assert_allclose(found[n][layer].mean(0), by_hand(run, pair, layer, None, state), atol=1e-5)
            np.testing.assert_allclose(found[n][layer][1], by_hand(run, pair, layer, 1, state), atol=1e-5)


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


def test_both_directions_become_one_alignment(run, back, pairs):
    sources, targets = texts(pairs)
    options = {"layer": 1, "head": 0}
    forward = run.align(sources, targets, **options)
    reverse = [[(i, j) for j, i in line] for line in back.align(targets, sources, **options).links]
    for how in ("intersection", "gd"):
        both = run.align(sources, targets, reverse=back, symmetrize=how, scores=True, **options)
        assert both.links == symmetrize(forward.links, reverse, how)
    assert both[7].links == () and np.isnan(both[7].score)
    assert run.align(sources, targets, reverse=back, **options).links == both.links
    single = [run.align(sources, targets, scores=True)[0], back.align(targets, sources, scores=True)[0]]
    assert both[0].score == pytest.approx(np.mean([one.score for one in single]))
    nll, _, tokens = run.task.forced_scores(run.model, run.task.encode_pairs(pairs[:1]))
    assert single[0].score == pytest.approx(-nll[0] / tokens[0])
    weights = dict(zip(both[0].links, both[0].weights, strict=True))
    same = next(cell for cell in both[0].links if cell in forward[0].links and cell in reverse[0])
    expected = by_hand(run, pairs[0], 1, 0, "read")[same[1], same[0]]
    turned = by_hand(back, Pair(pairs[0].target, pairs[0].source), 1, 0, "read")[same]
    assert weights[same] == pytest.approx((expected + turned) / 2, abs=1e-5)


def test_of_two_directions_the_layers_with_the_most_common_links_are_chosen(run, back, pairs, monkeypatch):
    places = [AttentionPlace(layer, None, "read") for layer in (0, 1)]
    links = {False: ([[(0, 0), (1, 1)]], [[(0, 1), (1, 0)]]), True: ([[(0, 0), (2, 0)]], [[(0, 1), (1, 0)]])}
    monkeypatch.setattr(Direction, "candidates", lambda one, pairs: dict(zip(places, links[one.swapped], strict=True)))
    aligner = Aligner(run, pairs, reverse=back)
    assert [place["layer"] for place in aligner.report["places"]] == [1, 1] and "among 4 pairs" in aligner.notes[0]


def test_gold_links_score_every_pair_and_choose_nothing(run, pairs, data):
    sources, targets = texts(pairs)
    plain, other = run.align(sources, targets), run.align(sources, targets, layer=1, head=1)
    gold = data / "gold"
    gold.write_text("".join(" ".join(f"{i + 1}-{j + 1}" for i, j in line) + "\n" for line in other.links))
    found = run.align(sources, targets, gold=gold, gold_base=1)
    assert found.links == plain.links and found.report["places"] == plain.report["places"]
    assert found.report["test"]["pairs"] == 10 and found.report["test"]["aer"]["value"] > 0
    right = run.align(sources, targets, gold=gold, gold_base=1, layer=1, head=1)
    assert right.report["test"]["aer"]["value"] == 0 and right.notes[-1].startswith("10 pairs: AER 0.0% [")


def test_links_of_what_is_written_count_the_words_that_blanks_separate(run, capsys):
    text = "the cat sees the dog, now."
    prediction = run.predict(text, prefix="aja kan, dar al", max_length=30)
    links = run.align(text, prediction)
    assert links and all(i < len(text.split()) and j < len(prediction.text.split()) for i, j in links)
    assert [j for _, j in sorted(links, key=lambda cell: cell[1])] == list(range(len(prediction.text.split())))
    words = ("--length", "30", "--prefix", "aja kan, dar al", "--align")
    code, out, _ = command(capsys, "predict", run.folder, text, *words)
    assert code == 0
    written, shown = out.rstrip("\n").split("\t")
    assert written == prediction.text and sorted(shown.split()) == sorted(f"{i}-{j}" for i, j in links)


def test_the_command_writes_a_line_for_each_pair(run, back, data, pairs, capsys):
    files = [data / "test.en", data / "test.yo"]
    links = run.align(*texts(pairs)).links
    code, out, err = command(capsys, "align", run.folder, *files)
    assert code == 0 and out == "".join(" ".join(f"{i}-{j}" for i, j in line) + "\n" for line in links)
    assert f"{run.folder}: layer 0, mean of all heads, by the state that has read the word\n" in err
    command(capsys, "align", run.folder, *files, "--out", data / "out")
    assert (data / "out").read_text() == out and [
        [link[:2] for link in line] for line in read_links(data / "out")
    ] == links
    scored = command(capsys, "align", run.folder, *files, "--reverse", back.folder, "--scores")[1].splitlines()
    assert len(scored) == len(pairs) and scored[7] == ""
    score, first = scored[0].split("\t")
    assert float(score) < 0 and all(0 < float(link.split(":")[1]) <= 1 for link in first.split())
    code, _, err = command(capsys, "align", run.folder, *files, "--gold", data / "out")
    assert code == 0 and "10 pairs: AER 0.0% [0.0%, 0.0%], precision 100.0%" in err


def test_evaluate_scores_links_against_gold(run, data, capsys):
    files = [data / "test.en", data / "test.yo"]
    command(capsys, "align", run.folder, *files, "--out", data / "gold0")
    code, out, err = command(capsys, "evaluate", run.folder, *files, "--alignment", data / "gold0")
    assert code == 0, err
    assert "AER, lower is better   0.00%  [0.00%, 0.00%]" in out and "link recall          100.00%" in out
    code, out, err = command(capsys, "evaluate", run.folder, *files, "--alignment", data / "gold0", "--json")
    assert [report["task"] for report in json.loads(out).values()] == ["translation"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layer", "2"], "no layer 2: 2 layers attend to the source in"),
        (["--head", "9"], "no head 9: there are 4 heads in"),
        (["--head", "last"], "--head is 'last'; give a number or mean"),
        (
            ["--symmetrize", "gd"],
            "--symmetrize gd needs the links of both directions; give a run that translates in the",
        ),
        (["--gold-base", "1"], "--gold-base applies only with --gold; give both or neither"),
        (["--gold", "short"], "'short' has 2 lines, but there are 10 pairs; line N must have the links of pair N"),
        (
            ["--gold", "one"],
            "'one' has no link to a word 0, but 1 link to a word after the last (the first on line 1: 1-6)",
        ),
        (["--gold", "empty"], "'empty' has no links"),
    ],
)
def test_what_cannot_be_is_refused(run, data, words, message, capsys, monkeypatch):
    monkeypatch.chdir(data)
    (data / "short").write_text("0-0\n0-0\n")
    (data / "one").write_text("1-6\n" + 9 * "\n")
    (data / "empty").write_text(10 * "\n")
    code, out, err = command(capsys, "align", run.folder, "test.en", "test.yo", *words)
    assert code == 2 and out == "" and message in err and len(err.splitlines()) == 1


def test_gold_links_to_words_that_are_not_there_count_as_missed(run, data, pairs):
    after = f"0-{len(pairs[0].target.split())}"
    (data / "beyond").write_text(f"0-0 {after}\n" + 9 * "\n")
    found = run.align(*texts(pairs), gold=data / "beyond", layer=0, head=0)
    assert (
        f"'{data / 'beyond'}': 1 link names a word after the last one, the first on line 1: {after}" in found.notes[0]
    )
    assert found.report["test"]["alignment_recall"]["value"] <= 0.5


def test_a_model_without_attention_and_unequal_lists_are_refused(data, run):
    blind = train(data, data / "blind", "seq2seq")
    with pytest.raises(ConfigError, match="model 'seq2seq' has no attention to the source, so it cannot align words"):
        blind.align("the cat", "aja")
    with pytest.raises(ConfigError, match="2 sources and 1 target were given"):
        run.align(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="symmetrize is 'gd', which needs the links of both directions"):
        run.align(["a"], ["c"], symmetrize="gd")
    with pytest.raises(DataError, match="no file 'nowhere'"):
        run.align(["a"], ["c"], gold="nowhere")


def test_what_was_trained_with_links_is_read_where_they_were_trained(data):
    settings = {"training.alignment.automatic": True, "training.alignment.layer": 0, "training.alignment.heads": [1, 2]}
    run = train(data, data / "taught", "transformer", **settings)
    assert str(usual_place(run.task, run.model)) == "layer 0, mean of heads 1 and 2, by the state that writes the word"
    assert run.align(["the cat sees."], ["aja kan."], head="mean").report["places"][0]["heads"] == "mean"
