"""Ranking continuations and scoring texts: sums of recomputed log-probabilities, whatever the tokenizer."""

import math

import numpy as np
import pytest
import torch

from continuing import random_run, write_texts
from heed.data.tokens import END, START
from heed.errors import ConfigError
from heed.tasks import options_of
from heed.tasks.heads.continuing import join

PROMPT, CHOICES = "I love", ["pizza with my friend!", "the café", "a", "We see"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def recomputed(run, ids):
    """The log-probability of each token and its rank, each from one pass over all tokens before it."""
    first = END if run.input.end_token else START
    found = []
    for n, token in enumerate(ids):
        with torch.no_grad():
            hidden = run.model(torch.tensor([[first, *ids[:n]]]))
            logits = run.model.logits(hidden)[0, -1].double().numpy()
        log_probs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        found.append((log_probs[token], 1 + int((logits > logits[token]).sum())))
    return found


@pytest.mark.parametrize(
    ("model", "kind"),
    [("rnn", "char"), *(("attention_lm", kind) for kind in ("char", "byte", "byte_bpe", "bpe", "word"))],
)
def test_a_text_is_scored_token_by_token(file, model, kind):
    run = random_run(file, model, kind)
    text = "They eat the café, with my friend"
    scored, ids = run.score(text), run.input.tokenizer.encode(text).ids
    expected = recomputed(run, ids)
    assert np.allclose(scored.log_probs, [p for p, _ in expected], atol=1e-5)
    assert scored.ranks == tuple(rank for _, rank in expected)
    assert scored.log_prob == pytest.approx(sum(scored.log_probs)) and len(scored.tokens) == len(ids)
    assert sum(scored.bits) == pytest.approx(-scored.log_prob / math.log(2))
    assert scored.num_bytes == 34 and scored.bits_per_byte == pytest.approx(sum(scored.bits) / 34)
    assert scored.perplexity == pytest.approx(math.exp(-scored.log_prob / len(ids)))
    assert scored.end_log_prob == pytest.approx(recomputed(run, [*ids, END])[-1][0], abs=1e-5)
    assert scored.spans[-1][1] == len(text)


def test_an_empty_text_has_no_scores(file):
    scored = random_run(file).score("")
    assert scored.tokens == () and scored.log_prob == 0 and math.isnan(scored.bits_per_byte)


@pytest.mark.parametrize(
    ("kind", "end"), [("char", True), *((kind, False) for kind in ("char", "byte", "byte_bpe", "bpe", "word"))]
)
def test_totals_are_sums_of_the_scores_of_prompt_and_choice_as_one_text(file, kind, end):
    run = random_run(file, "attention_lm", kind)
    ranked = run.rank(PROMPT, CHOICES, end=end)
    assert sorted(one.place for one in ranked) == [0, 1, 2, 3]
    assert [one.log_prob for one in ranked] == sorted((one.log_prob for one in ranked), reverse=True)
    for one in ranked:
        assert one.choice == CHOICES[one.place]
        scored = run.score(f"{PROMPT} {one.choice}")
        counted = [p for p, (_, stop) in zip(scored.log_probs, scored.spans, strict=True) if stop > len(PROMPT)]
        counted += [scored.end_log_prob] if end else []
        assert one.log_prob == pytest.approx(sum(counted), abs=1e-5) and len(one.tokens) == len(counted)
        assert one.per_token == pytest.approx(one.log_prob / len(counted))
        assert one.num_bytes == len(f" {one.choice}".encode())  # no token of these spans the border
        assert one.per_byte == pytest.approx(one.log_prob / one.num_bytes)
    totals = np.array([one.log_prob for one in ranked])
    assert np.allclose([one.probability for one in ranked], np.exp(totals) / np.exp(totals).sum())


def test_without_a_prompt_a_choice_is_scored_as_a_text(file):
    run = random_run(file)
    for one in run.rank("", CHOICES):
        assert one.log_prob == pytest.approx(run.score(one.choice).log_prob)


def test_a_token_across_the_border_counts_as_a_whole(file):
    run = random_run(file, "attention_lm", "byte_bpe")
    assert run.score("I love pizza").spans[-1] == (6, 12)
    (spanning,), (after,) = run.rank("I love ", ["pizza"]), run.rank("I love", ["pizza"])
    assert spanning.tokens == after.tokens == ("\u2581pizza",) and spanning.num_bytes == 6
    assert spanning.log_prob == pytest.approx(after.log_prob)


@pytest.mark.parametrize(
    ("prompt", "choice", "text"),
    [
        ("I love", "pizza", "I love pizza"),
        ("I love ", "pizza", "I love pizza"),
        ("I love", " pizza", "I love pizza"),
        ("I love\n", "pizza", "I love\npizza"),
        ("", "pizza", "pizza"),
        ("我爱吃", "披萨", "我爱吃披萨"),
        ("我说\uff0c", "披萨", "我说\uff0c披萨"),
        ("나는", "먹는다", "나는 먹는다"),
        ("I love", "披萨", "I love 披萨"),
    ],
)
def test_a_blank_is_added_where_neither_side_has_one(prompt, choice, text):
    assert join(prompt, choice) == text


def test_beyond_the_context_tokens_are_scored_from_most_of_it(file):
    run = random_run(file, "attention_lm", "char", 16)
    prompt = "We see cold water with my friend! I love"
    ranked = {one.choice: one for one in run.rank(prompt, CHOICES)}
    for choice in CHOICES:
        ids = run.input.tokenizer.encode(f"{prompt} {choice}").ids
        for place, log_prob in zip(range(len(prompt), len(ids)), ranked[choice].log_probs, strict=True):
            start = -(-max(0, place + 1 - 16) // 4) * 4  # windows advance by a quarter of the context
            with torch.no_grad():
                hidden = run.model(torch.tensor([ids[start - 1 : place]]))
                expected = torch.log_softmax(run.model.logits(hidden)[0, -1].double(), -1)[ids[place]]
            assert log_prob == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ([], "there are no choices to rank"),
        (["a", " \n"], r"choice 2 is blank: ' \\n'"),
        (["a", "b", "a"], "choice 'a' occurs twice"),
        ("pizza", r"rank takes several choices; for one, write \['pizza'\]"),
    ],
)
def test_choices_that_cannot_be_ranked_are_refused(file, choices, message):
    with pytest.raises(ConfigError, match=message):
        random_run(file).rank("I love", choices)


def test_an_end_token_counts_only_where_documents_have_one(file):
    run = random_run(file, end_token=False)
    assert run.score("I love").end_log_prob is None and len(run.rank("I", ["love"])) == 1
    with pytest.raises(ConfigError, match=r"this run has no end token to count \(data.end_token is false\)"):
        run.rank("I", ["love"], end=True)


def test_unknown_pieces_of_choices_are_those_behind_the_prompt(file):
    """A word after a blank is another token than at the start of a text: alone, "the" would be unknown."""
    run = random_run(file, "attention_lm", "word")
    assert run.input.tokenizer.unknown_in("pizza") == ["pizza"] and not run.input.tokenizer.unknown_in("I love pizza")
    given = options_of("language_modelling", "predict", {"choice": ["pizza", "zzz"]})
    outputs = run.outputs(given)
    outputs.expect(["I love"], None)
    assert outputs.unknown_in("I love") == ["zzz"]
