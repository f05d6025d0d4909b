"""Word alignments: their files and scores, those learned from pairs, and the links that `heed align` prints."""

import gzip
import json
import math
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call as command
from contract import forced_batch
from heed.config import TokenizerConfig
from heed.data.batch import TokenPair
from heed.data.examples import Link, Pair
from heed.data.findings import Findings
from heed.data.kinds.pairs import OUT_OF_RANGE, WordLink, checked, linked, read_links, word_spans, written_links
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.evaluation.labels import alignment_measures
from heed.evaluation.significance import intervals
from heed.tasks.heads.alignment import AttentionPlace, alignment_scores, usual_place, word_weights
from heed.tasks.inputs import supervision as aligner
from heed.tasks.inputs.supervision import rows_of

DATA = Path(os.environ.get("HEED_DATA", "no-such-folder"))


class Gold(NamedTuple):
    source: int
    target: int
    sure: bool = True


def scores(links, gold):
    return {measure.name: measure.score() for measure in alignment_measures(links, gold)}


def test_error_rate_precision_and_recall_of_a_pair_worked_by_hand():
    gold = [[Gold(0, 0), Gold(1, 1), Gold(2, 2, sure=False), Gold(2, 3, sure=False)]]
    # Of three links one is sure and one possible; one of two sure links is missed.
    found = scores([[(0, 0), (2, 3), (3, 1)]], gold)
    assert found == pytest.approx(
        {"aer": 1 - (1 + 2) / (3 + 2), "alignment_precision": 2 / 3, "alignment_recall": 1 / 2}
    )
    assert scores([[(0, 0), (1, 1)]], gold)["aer"] == 0
    # A possible link is neither asked for nor wrong, a link named twice counts once, and pairs are summed.
    assert scores([[(0, 0), (1, 1), (2, 2), (2, 2)], [(5, 5)]], [*gold, []])["aer"] == pytest.approx(
        1 - (2 + 3) / (4 + 2)
    )


def test_alignments_have_intervals_over_pairs():
    gold = [[Gold(0, 0)]] * 40
    error, *_ = intervals(alignment_measures([[(0, 0)]] * 30 + [[(0, 1)]] * 10, gold))
    assert 0.1 < error.low < error.value < error.high < 0.5 and error.value == 0.25


def test_unequal_numbers_are_refused():
    with pytest.raises(DataError, match="2 alignments but 1 gold alignments; give as many of both"):
        alignment_measures([[], []], [[]])


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in file]


def links_of(path, reverse=False):
    cells = [[tuple(map(int, link.split("-"))) for link in line] for line in lines(path)]
    return [[(j, i) for i, j in line] if reverse else line for line in cells]


def gold_of(name):
    links = [[(link.replace("p", "-").split("-"), "-" in link) for link in line] for line in lines(name)]
    return [[Gold(int(i) - 1, int(j) - 1, sure) for (i, j), sure in line] for line in links]


PUBLISHED = {
    "enfr": {
        "fastalign": (16.39, 15.89, 10.48, 12.09, 11.17, 19.52),
        "giza": (7.99, 9.75, 5.94, 6.16, 7.56, 9.86),
        "awesome": 4.07,
    },
    "roen": {
        "fastalign": (33.80, 35.55, 32.08, 32.20, 34.33, 34.94),
        "giza": (28.71, 32.22, 27.92, 26.40, 30.70, 30.26),
        "awesome": 20.75,
    },
    "jaen": {"awesome": 37.36},
    "zhen": {"awesome": 13.31},
}
WAYS = ("", "reverse.", "grow-diagonal.", "grow-diagonal-final.", "intersection.", "union.")


@pytest.mark.skipif(not DATA.is_dir(), reason="HEED_DATA names no folder with the corpora")
@pytest.mark.parametrize("pair", PUBLISHED)
def test_published_aligners_score_what_was_published(pair):
    folder = DATA / "alignment" / pair
    gold, outputs = gold_of(folder / f"{pair}.gold.gz"), folder / "system_outputs"
    published = dict(PUBLISHED[pair])
    expected = {f"{pair}.awesome-align.out.gz": published.pop("awesome")}
    for system, values in published.items():
        names = [f"{system}.test.{pair}.{way}talp.gz" for way in WAYS]
        expected |= dict(zip(names, values, strict=True))
    found = {
        name: round(100 * scores(links_of(outputs / name, "reverse" in name), gold)["aer"], 2) for name in expected
    }
    assert found == expected
    assert len(found) == len(list(outputs.iterdir())), "every output is scored"


# --- the alignment of pairs


def align_tokens(pairs):
    return aligner.align_tokens([pair.source for pair in pairs], [pair.target for pair in pairs])


def plain_alignment(pairs, apart=2, together=4, null=0.2, smoothing=0.01):
    """Model 1 with a prior on the diagonal, both ways with the product of posteriors, one token at a time."""
    size = {"s": 1 + max(w for p in pairs for w in p.source), "t": 1 + max(w for p in pairs for w in p.target)}
    prob = {"t": defaultdict(lambda: 1 / size["t"]), "s": defaultdict(lambda: 1 / size["s"])}  # (given, explained)
    nothing = {side: [1 / size[side]] * size[side] for side in "ts"}

    def posterior(side, explained, givens, place):  # place: of the explained one, between 0 and 1
        decay = [math.exp(-sharpness * abs(place - (j + 0.5) / len(givens))) for j in range(len(givens))]
        terms = [prob[side][g, explained] * d / sum(decay) for g, d in zip(givens, decay, strict=True)]
        total = sum(terms) + nothing[side][explained] * null / (1 - null)
        return [term / total for term in terms]

    sharpness = 0.0
    for iteration in range(apart + together):
        counts = {side: defaultdict(float) for side in "ts"}
        far, weight, distances = 0.0, 0.0, []
        left = {side: [smoothing / size[side]] * size[side] for side in "ts"}
        links = []
        for pair in pairs:
            num_targets, num_sources = len(pair.target), len(pair.source)
            forward = [posterior("t", y, pair.source, (i + 0.5) / num_targets) for i, y in enumerate(pair.target)]
            backward = [posterior("s", x, pair.target, (j + 0.5) / num_sources) for j, x in enumerate(pair.source)]
            cells = [
                [(f, backward[j][i], f * backward[j][i]) for j, f in enumerate(row)] for i, row in enumerate(forward)
            ]
            links.append([[math.sqrt(both) for *_, both in row] for row in cells])
            own = {"t": 0, "s": 1} if iteration < apart else {"t": 2, "s": 2}
            for i, y in enumerate(pair.target):
                for j, x in enumerate(pair.source):
                    distances.append(abs((i + 0.5) / num_targets - (j + 0.5) / num_sources))
                    far, weight = far + cells[i][j][2] * distances[-1], weight + cells[i][j][2]
                    counts["t"][x, y] += cells[i][j][own["t"]]
                    counts["s"][y, x] += cells[i][j][own["s"]]
                left["t"][y] += max(0, 1 - sum(cell[own["t"]] for cell in cells[i]))
            for j, x in enumerate(pair.source):
                left["s"][x] += max(0, 1 - sum(row[j][own["s"]] for row in cells))
        for side in "ts":
            totals = defaultdict(float)
            for (given, _), count in counts[side].items():
                totals[given] += count
            for (given, explained), count in counts[side].items():
                prob[side][given, explained] = (count + smoothing / size[side]) / (totals[given] + smoothing)
            nothing[side] = [count / sum(left[side]) for count in left[side]]
        if iteration >= apart - 1:
            sharpness = max(0.0, weight / far - len(distances) / sum(distances))
    return links


def random_pairs(count, seed, num_words=6):
    chance = random.Random(seed)
    draw = lambda: [chance.randrange(4, 4 + num_words) for _ in range(chance.randrange(1, 5))]  # noqa: E731
    return [TokenPair(draw(), draw()) for _ in range(count)]


def test_links_are_those_of_the_models_written_out():
    pairs = random_pairs(12, seed=3)
    for links, expected in zip(align_tokens(pairs), plain_alignment(pairs), strict=True):
        assert_close(links, torch.tensor(expected), rtol=1e-6, atol=1e-7)


def test_a_pair_with_an_empty_side_has_no_links():
    more = align_tokens([*random_pairs(8, seed=1), TokenPair([], [4]), TokenPair([5], [])])
    assert [tuple(links.shape) for links in more[-2:]] == [(1, 0), (0, 1)]
    assert all(links.isfinite().all() for links in more)
    assert [tuple(links.shape) for links in align_tokens([TokenPair([], [])])] == [(0, 0)]


# --- Word alignments in files: what is read, what is refused, links as spans of characters and as rows over tokens


SOURCE, TARGET = "Main ghar ja raha hoon", "I am going home"
PAIR = Pair(SOURCE, TARGET, origin="my.hi:4")


def write(tmp_path, text, name="my.links"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_each_line_is_an_entry_and_blank_ones_stay(tmp_path):
    path = write(tmp_path, "0-0 4-1\n\n2p2\t3p2 1-3\n \n")
    assert read_links(path) == [
        [WordLink(0, 0), WordLink(4, 1)],
        [],
        [WordLink(2, 2, False), WordLink(3, 2, False), WordLink(1, 3)],
        [],
    ]


def test_packed_files_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "my.links.gz"
    path.write_bytes(gzip.compress(b"0-0\r\n\r\n1-1\r\n"))
    assert read_links(path) == [[(0, 0, True)], [], [(1, 1, True)]]


def test_a_link_that_stands_there_twice_is_one_and_sure_if_once_sure(tmp_path):
    assert read_links(write(tmp_path, "0-0 0-0 1p1 1-1 2-2 2p2\n")) == [[(0, 0, True), (1, 1, True), (2, 2, True)]]


@pytest.mark.parametrize(
    "written", ["3", "3-", "a-b", "0-0,1-1", "1--2", "-1-2", "1-2-3", "1:2", "\u0663-1", "1-2:0.5"]
)
def test_anything_else_is_named_with_file_line_and_value(tmp_path, written):
    path = write(tmp_path, f"0-0\n\n1-1 {written}\n")
    with pytest.raises(DataError) as error:
        read_links(path)
    assert str(error.value).startswith(f"'{path}' line 3 contains {written!r}, expected links between words, separated")


def test_bad_lines_may_be_left_out_and_stay_as_lines(tmp_path):
    findings = Findings("skip")
    assert read_links(write(tmp_path, "0-0\nx\n1-1\n"), findings=findings) == [[(0, 0, True)], [], [(1, 1, True)]]
    assert [(found.what, found.count, found.places) for found in findings.found] == [("not a link, left out", 1, ["2"])]


def test_links_are_written_as_they_are_read(tmp_path):
    links = [WordLink(0, 0), WordLink(2, 1, False)]
    assert written_links(links) == "0-0 2p1"
    assert read_links(write(tmp_path, written_links(links) + "\n")) == [links]


def test_words_are_what_blanks_separate_marks_included():
    assert word_spans(" Don't,\tplease go! ") == [(1, 7), (8, 14), (15, 18)]
    assert word_spans("") == []


def test_links_become_spans_of_characters():
    pair = linked(PAIR, [WordLink(4, 1), WordLink(2, 2), WordLink(3, 2)])
    said = [(pair.target[slice(*link.target)], pair.source[slice(*link.source)]) for link in pair.links]
    assert said == [("am", "hoon"), ("going", "ja"), ("going", "raha")]
    assert linked(PAIR, []).links == () and (pair.source, pair.origin) == (PAIR.source, PAIR.origin)
    assert isinstance(pair.links[0], Link)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (WordLink(5, 0), r"'my.links' line 4: link 5-0 names source word 5, but the source \(my.hi:4\) has 5 words, "
         r"counted from 0: 'Main ghar ja raha hoon'; if the file counts words from 1, subtract 1 from every"),
        (WordLink(0, 7), r"link 0-7 names target word 7, but the target \(my.hi:4\) has 4 words, counted from 0: "
         r"'I am going home'; data.bad_lines=skip"),
    ],
)  # fmt: skip
def test_a_link_out_of_range_is_named(link, message):
    with pytest.raises(DataError, match=message):
        checked([WordLink(0, 0), link], PAIR, "my.links", 4, Findings())


def test_links_out_of_range_may_be_left_out_and_counted():
    findings = Findings("skip")
    links = [WordLink(0, 0), WordLink(5, 0), WordLink(1, 3), WordLink(9, 9)]
    assert checked(links, PAIR, "my.links", 4, findings) == [WordLink(0, 0), WordLink(1, 3)]
    (found,) = findings.found
    assert (found.what, found.where, found.count) == (f"{OUT_OF_RANGE}, left out", "my.links", 2)
    assert checked([WordLink(0, 0)], Pair("", "a"), "my.links", 1, findings) == []


# --- links as rows of attention weights


LINKS = [WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3)]
LINKED = linked(Pair(SOURCE, TARGET), LINKS)
BY_WORD = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0]])


def rows_with(pair):
    tokenizer = TextTokenizer.train([pair.source, pair.target], TokenizerConfig(kind="word", min_count=1))
    return rows_of(pair.links, tokenizer.encode(pair.source).spans, tokenizer.encode(pair.target).spans)


def test_words_look_where_they_are_linked():
    assert_close(rows_with(LINKED), BY_WORD)


def test_a_token_without_a_link_has_a_row_of_zeros():
    rows = rows_with(linked(Pair(SOURCE, TARGET), [WordLink(1, 3)]))
    assert_close(rows[:3], torch.zeros(3, 5))
    assert_close(rows[3], BY_WORD[3])


def test_a_link_to_text_that_no_token_holds_says_nothing():
    pair = Pair("a b", "c", links=(Link((0, 1), (2, 3)), Link((0, 1), (0, 1))))
    assert_close(rows_of(pair.links, [(0, 1)], [(0, 1)]), torch.ones(1, 1))
    assert_close(rows_of(pair.links[:1], [(0, 1)], [(0, 1)]), torch.zeros(1, 1))


def test_texts_without_tokens():
    spans = [(0, 1), (2, 3)]
    for sources, targets in ((0, 2), (2, 0), (0, 0)):
        assert rows_of(LINKED.links, spans[:sources], spans[:targets]).shape == (targets, sources)
    assert_close(rows_of((), spans, spans), torch.zeros(2, 2))


# --- `heed align`: links between the words of given pairs and their scores; and links of what is written


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
