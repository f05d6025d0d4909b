"""Tags and columns: every scheme reads as the same entities, every mistake is named; the CRF is its sums."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import reference as ref
from contract import data_of
from heed.config import TokenizerConfig
from heed.data.findings import Findings
from heed.data.kinds.tagged import (
    ColumnFile,
    by_sentence,
    entities,
    find_scheme,
    may_follow,
    read_sentences,
    write_tags,
)
from heed.data.tokens import split_words
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.evaluation.labels import entity_errors, tag_measures, tag_outcomes
from heed.evaluation.significance import summarise
from heed.layers import LinearChainCRF

SCHEMES = {"bio": "B-A I-A B-A O B-B O B-A", "iob1": "I-A I-A B-A O I-B O I-A", "bioes": "B-A E-A S-A O S-B O S-A"}
FOUND = [("A", 0, 2), ("A", 2, 3), ("B", 4, 5), ("A", 6, 7)]


def scores_of(true, predicted, *, plain=False, resamples):
    return summarise(tag_outcomes([""] * len(true), true, predicted, plain), resamples)


@pytest.mark.parametrize(("scheme", "tags"), SCHEMES.items())
def test_every_scheme_marks_the_same_entities(scheme, tags):
    assert entities(tags.split()) == FOUND
    assert write_tags(FOUND, 7, scheme) == tags.split()
    assert find_scheme([tags.split()]) == scheme


def test_only_an_i_is_held_to_what_comes_before_it():
    tags = ["O", "B-A", "I-A", "B-B", "I-B"]
    before_i = {("B-A", "I-A"), ("I-A", "I-A"), ("B-B", "I-B"), ("I-B", "I-B")}
    for before in (None, *tags):
        for tag in tags:
            assert may_follow(before, tag) == (not tag.startswith("I") or (before, tag) in before_i)


def test_bilou_is_bioes_under_other_letters_and_io_joins_neighbours():
    assert entities("B-A L-A U-A O U-B O U-A".split()) == FOUND
    assert entities("I-A I-A I-A O I-B".split()) == [("A", 0, 3), ("B", 4, 5)]
    assert find_scheme(["I-A I-A O I-B".split()]) == "io"
    assert find_scheme(["DET NOUN VERB".split()]) == "plain"
    often, rare = ["B-A I-A".split()] * 3, ["S-A".split(), "B-A E-A".split()]
    assert find_scheme([*rare, *often]) == "bio"  # in sentences, not in different sequences of tags


tags = st.lists(st.sampled_from(["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in "AB")]), max_size=12)


@settings(deadline=None)
@given(tags)
def test_entities_are_those_of_seqeval(sequence):
    from seqeval.metrics.sequence_labeling import get_entities

    assert entities(sequence) == [(kind, start, end + 1) for kind, start, end in get_entities(sequence)]


@settings(deadline=None)
@given(st.lists(st.tuples(tags, st.randoms()), min_size=1, max_size=5))
def test_entity_f1_is_that_of_seqeval(drawn):
    from seqeval.metrics import f1_score

    true = [sequence for sequence, _ in drawn]
    predicted = [random.sample(sequence, len(sequence)) for sequence, random in drawn]
    if any(entities(sequence) for sequence in (*true, *predicted)):
        expected = f1_score(true, predicted, zero_division=0)
        assert tag_measures(true, predicted, plain=False)[0].score() == expected
        assert scores_of(true, predicted, resamples=2)["entity_f1"]["value"] == expected


def test_scores_of_tags_worked_out_by_hand():
    true = ["B-A I-A O O B-B".split(), "B-A O".split()]
    predicted = ["B-A I-A O B-B B-B".split(), "O O".split()]
    report = scores_of(true, predicted, resamples=20)
    # 3 true, 3 predicted, 2 of them right (A at 0-2, B at 4-5)
    assert np.isclose(report["entity_f1"]["value"], 2 / 3)
    assert np.isclose(report["precision"], 2 / 3) and np.isclose(report["recall"], 2 / 3)
    assert report["accuracy"]["value"] == 5 / 7
    assert report["per_type"]["A"] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    nothing = scores_of([["O"]], [["O"]], resamples=2)
    assert nothing["per_type"] == {} and nothing["accuracy"]["value"] == 1.0
    plain = scores_of([["N", "V"]], [["N", "N"]], plain=True, resamples=2)
    assert plain["per_tag"]["V"]["recall"] == 0.0 and plain["per_tag"]["N"]["precision"] == 0.5


def test_precision_is_of_what_was_said_and_recall_of_what_was_there():
    true, predicted = ["B-A O B-B B-B".split()], ["B-A O O B-A".split()]
    scores = {one.name: one.score() for one in tag_measures(true, predicted, plain=False)}
    assert scores == pytest.approx({"entity_f1": 2 / 5, "precision": 1 / 2, "recall": 1 / 3, "accuracy": 1 / 2})


def test_errors_are_told_apart_and_shown_in_context():
    words = "He met Ann Lee in New York City today".split()
    true = "O O B-per I-per O B-loc I-loc I-loc O".split()
    predicted = "B-per O B-loc I-loc O B-loc I-loc O O".split()
    errors = entity_errors(true, predicted)
    assert [error.kind for error in errors] == ["spurious", "type", "span"]
    assert errors[2].context(words, around=1) == "in [{New York} City] today"
    assert [e.kind for e in entity_errors(["B-a"], ["O"])] == ["missed"]
    assert entity_errors(true, true) == []


# --- columns


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def read(path, findings=None, **fields):
    data = data_of("tagging", **fields)
    return read_sentences([path], data, findings)


def test_tabs_blanks_comments_and_documents(tmp_path):
    text = "# id = 1\n1\tAnn Lee\tB-per\t-\n2\tleft\tO\t-\n\n-DOCSTART-\t-\tO\t-\n\n# more\n3\t#\tO\t-\n"
    sentences = read(write(tmp_path / "a.conll", text), columns={"word": 1, "label": 2})
    assert [(s.words, s.tags) for s in sentences] == [(("Ann Lee", "left"), ("B-per", "O")), (("#",), ("O",))]
    assert sentences[0].origin == "a.conll:2"
    text = "-DOCSTART- -X- O\n\nAnn NNP B-per\n# SYM O\n\n"
    (sentence,) = read(write(tmp_path / "b.conll", text))
    assert sentence.words == ("Ann", "#") and sentence.tags == ("B-per", "O")


@pytest.mark.parametrize("scheme", ["iob1", "bioes"])
def test_other_schemes_come_as_bio_with_a_note(tmp_path, scheme):
    lines = "".join(f"w{i} {tag}\n" for i, tag in enumerate(SCHEMES[scheme].split()))
    findings = Findings()
    (sentence,) = read(write(tmp_path / "a.conll", lines), findings)
    assert list(sentence.tags) == SCHEMES["bio"].split()
    assert findings.remarks == [f"tags read as {scheme.upper()} and written as BIO"]


def test_an_illegal_sequence_is_read_as_seqeval_does_and_counted(tmp_path):
    findings = Findings()
    path = write(tmp_path / "a.conll", "a B-x\n\nb O\nc I-x\nd I-y\n\ne B-y\n")
    sentences = read(path, findings)
    assert [s.tags for s in sentences] == [("B-x",), ("O", "B-x", "B-y"), ("B-y",)]
    (found,) = findings.found
    assert str(found).startswith("tags that BIO does not allow, read as in seqeval (a new type begins an entity)")
    assert (found.where, found.count, found.unit, found.places) == (str(path), 1, "sentence", ["3"])


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        ("a\tO\nb\tO\tx\n", {}, r"a.conll' line 2 has 3 columns \('b\\tO\\tx'\), but the lines before it have 2"),
        ("a O\n", {"columns": {"word": 2}}, r"data.columns.word cannot be 2; data.columns.word=NAME chooses from 0"),
        ("a\tO\nb\t\n", {}, r"a.conll' line 2: the tag is empty"),
        ("\n\n", {}, r"a.conll' contains no word"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, content, fields, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / "a.conll", content), **fields)


def test_an_empty_word_is_kept_and_told(tmp_path):
    findings = Findings()
    (sentence,) = read(write(tmp_path / "a.conll", "a\tB-x\n\tO\n"), findings)
    assert sentence.words == ("a", "")
    assert list(map(str, findings.found)) == ["empty word, read as an unknown word: 1 line (2)"]


def test_every_line_of_a_file_is_known(tmp_path):
    file = ColumnFile(write(tmp_path / "a.conll", "# a comment here\na O\n\nb O\n"))
    assert [row.blank for row in file.rows()] == [True, False, True, False]
    assert [rows[0].number for rows in by_sentence(file)] == [2, 4]


# --- words of raw text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.50, isn't it?!", ["It", "'s", "3.50", ",", "is", "n't", "it", "?", "!"]),
        ("@ann see http://a.b/c?d=1, #fun...", ["@ann", "see", "http://a.b/c?d=1", ",", "#fun", "..."]),
        ("state-of-the-art U.S. O'Neil", ["state-of-the-art", "U.S.", "O'Neil"]),
        ("你好 हिन्दी cafe\u0301", ["你", "好", "हिन्दी", "cafe\u0301"]),
        ("  ", []),
    ],
)
def test_raw_text_is_cut_into_words_and_marks(text, words):
    assert [text[start:end] for start, end in split_words(text)] == words
    tokenizer = TextTokenizer.train_to_read([text] * 2, TokenizerConfig(kind="word", normalization="none"))
    assert tokenizer.encode(text).spans == split_words(text)
    assert [tokenizer.label(i) for i in tokenizer.encode(text).ids] == words


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_character_but_blanks_is_lost(text):
    spans = split_words(text)
    assert all(a < b for a, b in spans) and all(b <= c for (_, b), (c, _) in pairwise(spans))
    covered = {i for a, b in spans for i in range(a, b)}
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)


# --- the CRF against the sum over, and the best of, all tag sequences


TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]
LENGTHS = [4, 1, 3]
MASK = torch.arange(4) < torch.tensor(LENGTHS).unsqueeze(1)


def make(legal, seed=0):
    torch.manual_seed(seed)
    may_start = torch.tensor([not legal or may_follow(None, tag) for tag in TAGS])
    may = torch.tensor([[not legal or may_follow(before, tag) for tag in TAGS] for before in TAGS])
    crf = LinearChainCRF(may_start, may).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    emissions = 2 * torch.randn(3, 4, len(TAGS), dtype=torch.double)
    scores = []
    with torch.no_grad():
        start = crf.start.masked_fill(~may_start, -math.inf).numpy()
        transitions = crf.transitions.masked_fill(~may, -math.inf).numpy()
        for row, length in zip(emissions, LENGTHS, strict=True):
            scores.append(ref.crf_sequences(row[:length].numpy(), start, transitions, crf.end.numpy()))
    return crf, emissions, scores


@pytest.mark.parametrize("legal", [False, True])
def test_partition_score_and_marginals_are_those_of_all_sequences(legal):
    crf, emissions, scores = make(legal)
    log_z = crf.log_partition(emissions, MASK).detach()
    marginals = crf.marginals(emissions, MASK)
    for b, of_sequence in enumerate(scores):
        probabilities = {tags: math.exp(score) for tags, score in of_sequence.items()}
        total = math.fsum(probabilities.values())
        assert np.isclose(float(log_z[b]), math.log(total), rtol=0, atol=1e-9)
        expected = np.zeros((4, len(TAGS)))
        for tags, probability in probabilities.items():
            expected[range(len(tags)), tags] += probability / total
        np.testing.assert_allclose(marginals[b].numpy(), expected, rtol=0, atol=1e-9)
        tags, score = max(of_sequence.items(), key=lambda item: item[1])
        given = torch.zeros(3, 4, dtype=torch.long)
        given[b, : len(tags)] = torch.tensor(tags)
        assert np.isclose(float(crf.score(emissions, given, MASK)[b].detach()), score, rtol=0, atol=1e-9)


@pytest.mark.parametrize("legal", [False, True])
def test_viterbi_finds_the_best_of_all_sequences(legal):
    for seed in range(5):
        crf, emissions, scores = make(legal, seed)
        best = crf.best(emissions, MASK)
        for b, of_sequence in enumerate(scores):
            tags, _ = max(of_sequence.items(), key=lambda item: item[1])
            assert tuple(best[b, : LENGTHS[b]].tolist()) == tags
            assert not best[b, LENGTHS[b] :].any()


def test_an_illegal_sequence_has_no_probability_and_gradients_stay_finite():
    crf, emissions, scores = make(True)
    crf, emissions = crf.float(), emissions.float().requires_grad_()
    illegal = torch.tensor([[0, 2, 0, 0]] * 3)  # O I-a
    log_p = crf.score(emissions, illegal, MASK) - crf.log_partition(emissions, MASK)
    assert torch.exp(log_p)[0] == 0.0 and math.isinf(scores[0][0, 2, 0, 0])
    legal = torch.tensor([[0, 1, 2, 0]] * 3)
    (crf.log_partition(emissions, MASK) - crf.score(emissions, legal, MASK)).sum().backward()
    assert emissions.grad.isfinite().all() and not emissions.grad[~MASK].any()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in crf.parameters())


def test_without_transitions_it_is_a_softmax_of_each_word():
    emissions = torch.randn(3, 4, 5)
    crf = LinearChainCRF(torch.ones(5, dtype=torch.bool), torch.ones(5, 5, dtype=torch.bool))
    expected = torch.softmax(emissions, dim=-1) * MASK.unsqueeze(-1)
    assert_close(crf.marginals(emissions, MASK), expected, rtol=1e-4, atol=1e-5)
