"""Sentences that a look prints about what was found, with the check behind each.

`CHECKS` is the list: a pattern that one sentence must match as a whole, and the check that makes it true of each look
that says it. A pattern that no look says fails the test.
"""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from contract import forced_batch
from heed.attention import AttentionPooling, Rows
from heed.watch.edits import Force
from heed.watch.looks import Choice
from heed.watch.maps import best_spans, key_units
from heed.watch.trace import edit
from look_cases import Case, all_cases

CHECKS: list[tuple[str, Callable[..., None]]] = []


def says(pattern):
    """The check that follows is behind each sentence of the pattern."""
    return lambda check: CHECKS.append((pattern, check)) or check


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return all_cases(tmp_path_factory.mktemp("looks"))


# What helps to check ------------------------------------------------------------------------------------------


def batch_of(case: Case):
    return case.task.batch_of([case.text.strip()])


def hidden(case: Case, *edits) -> torch.Tensor:
    """The states that the body gives for the tokens, `(tokens, d)`, of labels and tags."""
    with torch.no_grad(), edit(case.model, *edits):
        if case.is_label:
            return case.model.body(**batch_of(case).inputs)[0]
        words = [[label.lstrip("?") for label in case.look.shadings[0].axis.labels]]
        return case.model(**case.task.batch_of(words).inputs)[0]


def probability(case: Case, label: str, text: str) -> float:
    (row,) = case.task.answers(case.model, case.task.input.encode_texts([text]))
    return float(row[case.task.head.labels.index(label)])


def moved(before: torch.Tensor, after: torch.Tensor) -> list[bool]:
    return [bool((a - b).abs().max() > 1e-6) for a, b in zip(before, after, strict=True)]


def first_only(position: int, count: int) -> Force:
    return Force("self", position=position, weights=[1.0] + [0.0] * (count - 1))


# Titles and captions of maps ----------------------------------------------------------------------------------


@says(r"(\w+) attention, layer (\d+)(?:, head (\d+))?")
def is_that_attention(case, one, mechanism, layer, head):
    assert (one.mechanism, one.layer) == (mechanism, int(layer)) and one.head == (None if head is None else int(head))
    choice = Choice(mechanism, int(layer), "mean" if head is None else int(head))
    if case.task.config.task != "language_modelling":  # whose looks take layer and head by name
        assert_close(next(m for m in case.again(choice=choice).maps if m.mechanism == mechanism).weights, one.weights)


@says(r"(sentence )?(forward|backward) network, layer (\d+): gates over the (text|rows)")
def gates_are_shares_and_states_are_sizes(case, one, sentences, direction, layer, over):
    assert one.key.name == over
    assert one.unit == "value" and one.query.labels[-1] == "state"
    assert one.query.labels[:-1] in (("input", "forget", "output"), ("reset", "update"))
    assert ((one.weights[:-1] > 0) & (one.weights[:-1] < 1)).all() and (one.weights[-1] >= 0).all()


@says(r"Mean over the units of each gate; state: mean size of the state's units.")
def the_state_row_is_a_mean_size(case, one):
    if one.mechanism not in ("forward", "backward") or not case.look.encoder or len(case.look.encoder) != len(one.key):
        return  # networks over sentences have no frames; test_classification checks them
    names = [f"{one.mechanism} layer {one.layer}", one.mechanism]
    sizes = [next(frame.states[n] for n in names if n in frame.states).abs().mean() for frame in case.look.encoder]
    assert_close(one.weights[-1], torch.stack(sizes), rtol=1e-4, atol=1e-5)


@says(r"Row i: where (?:word|character|source position) i looked\.")
@says(r"Row t: where the model looked to write output t\.")
@says(r"Row t: where the pass that wrote output t looked, among the tokens read until then: the start token and .*")
def rows_reproduce_the_contexts(case, one):
    """Each row's weights sum up the values that the model summed up; the trace's self-check compares the contexts."""
    rows = one.weights.sum(1)
    assert_close(rows, torch.ones(len(rows)), rtol=0, atol=1e-5)
    if one.mechanism == "decoder":  # nobody looks ahead
        assert one.mask is not None and not one.mask.triu(1).any() and not one.weights.triu(1).any()
    if one.mechanism == "encoder" and hasattr(case.task, "classify"):
        count = len(one.query)
        for i in range(count):  # the last layer's row i makes state i and no other
            force = Force("encoder", one.layer, position=i, weights=[1.0] + [0.0] * (count - 1))
            if case.model.has_cls:
                continue
            assert moved(hidden(case), hidden(case, force)) == [n == i for n in range(count)]


def predictions_moved(case, map, t, keys):
    """Which predictions after each token of a text change, if row `t` looks at its first key only."""
    looks = [
        case.again("I love the", given=True, layer=map.layer, edits=edits).look
        for edits in ([], [Force(map.mechanism, map.layer, position=t, weights=[1.0] + [0.0] * (keys - 1))])
    ]
    plain, forced = (torch.tensor([[p for _, p in frame.top] for frame in look.decoder]) for look in looks)
    return moved(plain, forced)


@says(r"Row t: where the pass that read token t and predicted token t \+ 1 looked, among the tokens .*\.")
def counts_in_the_next_prediction(case, one):
    rows_reproduce_the_contexts(case, one)
    last, recurrent = one.layer == max(map.layer for map in case.look.maps), one.mechanism == "self"
    for t in range(2, 5):
        changed = predictions_moved(case, one, t, t if recurrent else t + 1)
        assert last and changed == [n >= t if recurrent else n == t for n in range(len(changed))]
    assert recurrent == ("none and no row" in one.caption)


@says(r"Row t: where the model looked after the pass that read token t; .* counts in the prediction of token t \+ 2\.")
def counts_in_the_prediction_after_the_next(case, one):
    for t in range(2, 5):
        changed = predictions_moved(case, one, t, t + 1)
        assert changed == [n > t for n in range(len(changed))]


@says(r"The result is used when reading word t \+ 1; that of the last row is not used\.")
def enters_one_word_later(case, one):
    if "summed over" in one.caption:
        return  # of subwords; rows here are tokens
    plain, count = hidden(case), len(one.query)
    for t in range(1, count):
        assert moved(plain, hidden(case, first_only(t, t + 1))) == [n > t for n in range(count)]


@says(r"Row t: where the network looked when it read word t, among those before it\.")
def looks_at_earlier_words_at_once(case, one):
    assert torch.equal(one.mask, torch.ones_like(one.mask).tril(-1))
    plain, count = hidden(case), len(one.query)
    for t in range(2, count):
        assert moved(plain, hidden(case, first_only(t, t))) == [n >= t for n in range(count)]


# Shadings -----------------------------------------------------------------------------------------------------


@says(
    r"Pooling attention: the share of each word in the text's vector"
    r"(?:, mean of (\d+) learned vectors)?"
)
def the_shares_make_the_vector(case, shading, several):
    (pooling,) = [m for m in case.model.modules() if isinstance(m, AttentionPooling)]
    given, made = [], []
    hook = pooling.register_forward_hook(
        lambda _, args, result: [given.append(args[0][0]), made.append(result[0])] and None
    )
    with torch.no_grad():
        case.model(**batch_of(case).inputs)
    hook.remove()
    assert sum(shading.weights) == pytest.approx(1, abs=1e-5)
    vectors = made[0].view(int(several or 1), -1)
    assert len(vectors) == len(pooling.query)
    if len(given[0]) == len(shading.weights):  # of subwords the shares are sums over a word
        assert_close(torch.tensor(shading.weights) @ given[0], vectors.mean(0), rtol=1e-4, atol=1e-5)


@says(r"Contribution of each word: drop in the probability of '(\w+)' when the word is left out")
def leaving_a_word_out_does_that(case, shading, label):
    assert label == case.look.target
    words = [name.lstrip("?") for name in shading.axis.labels]
    if len(words) < len(case.text.split()):
        return  # cut at the largest length
    if case.task.input.hierarchical:  # a text without a full stop has other sentences, so tokens are left out
        (encoded,) = case.task.input.encode_texts([case.text])
        falls = []
        for number, sentence in enumerate(encoded.sentences):
            for i in range(len(sentence)):
                left = [*encoded.sentences]
                left[number] = sentence[:i] + sentence[i + 1 :]
                batch = case.task.input.collate([replace(encoded, sentences=left)], [0], None)
                with torch.no_grad():
                    (row,) = case.task.head.decode(case.model, case.model(**batch.inputs), batch)
                falls.append(probability(case, label, case.text) - float(row[case.task.head.labels.index(label)]))
        assert shading.weights == pytest.approx(tuple(falls), abs=1e-5)
        return
    for i, fall in enumerate(shading.weights):
        text = " ".join(words[:i] + words[i + 1 :]).replace(" .", ".")
        assert fall == pytest.approx(probability(case, label, case.text) - probability(case, label, text), abs=1e-5)


@says(
    r"The (\d+) n-grams with the largest contributions to the score of '(\w)' "
    r"\(minus the mean score of all labels\), through the filters that are largest on them"
)
def ngrams_add_up_to_the_score(case, shading, count, label):
    assert len(shading.weights) == int(count) <= 12
    with torch.no_grad():
        scores = case.model(**batch_of(case).inputs)[0]
    number = case.task.head.labels.index(label)
    score = float(scores[number] - scores.mean())
    bias = case.model.output.bias.detach()
    filters = sum(int(re.search(r"of (\d+) filter", said)[1]) for said in shading.others)
    assert filters == sum(bank.out_channels for bank in case.model.body.filters), "all n-grams are shown here"
    offset = float(bias[number] - bias.mean())
    assert sum(shading.weights) + offset == pytest.approx(score, abs=1e-5)


# Notes --------------------------------------------------------------------------------------------------------


@says(r"(?:\w+ [01]\.\d{3}  )+\w+ [01]\.\d{3}")
def probabilities_of_labels(case, _, *, sentence):
    for label, value in (part.split() for part in sentence.split("  ")):
        assert probability(case, label, case.text) == pytest.approx(float(value), abs=6e-4)


@says(
    r"score of '(\w)' \(minus the mean score of all labels\): n-grams ([+-][\d.]+), network ([+-][\d.]+), "
    r"together ([+-][\d.]+)"
)
def the_parts_of_a_score_add_up(case, _, label, linear, network, together):
    number, batch = case.task.head.labels.index(label), batch_of(case)
    with torch.no_grad():
        (scores,) = case.model(**batch.inputs)
    assert float(scores[number] - scores.mean()) == pytest.approx(float(together), abs=6e-5)
    logits = case.model.ngram_scale.item() * batch.inputs["ngrams"][0]
    assert logits[number] - logits.mean() == pytest.approx(float(linear), abs=6e-5)
    assert float(linear) + float(network) == pytest.approx(float(together), abs=2e-4)


@says(r"only the first (\d+) tokens are read \(data\.max_length\); (\d+) more are not")
def what_is_cut_changes_nothing(case, _, read, left):
    tokens = case.task.input.tokenizer.encode(case.text).ids
    assert len(tokens) == int(read) + int(left)
    words = case.text.split()
    assert probability(case, "a", case.text) == probability(case, "a", " ".join(words[:-1]) + " story.")


@says(r"never seen in training: (.*); read as the unknown token(?: by the network, not by the n-grams)?, marked \?")
def unseen_words_are_read_alike(case, _, words):
    for word in words.split():
        if getattr(case.model, "ngram_scale", None) is not None:
            assert f"?{word}" in case.look.shadings[-1].axis.labels
        elif case.is_label and word.isalpha():
            other = case.text.replace(word, "Qqq")
            assert_close(case.again(other).shadings[0].weights, case.look.shadings[0].weights)
            assert f"?{word}" in case.look.shadings[-1].axis.labels
        elif hasattr(case.task.input, "source_tokenizer"):
            assert case.again(case.text.replace(word, "q")).target == case.look.target
            assert f"?{word}" in case.look.maps[-1].key.labels


@says(r"entity: (\d+)-(\d+) (\w+) ([\d.]+) (.*)")
def an_entity_is_where_it_says(case, _, start, end, kind, value, text):
    assert case.text[int(start) : int(end)] == text
    (shading,) = case.look.shadings
    found = [math.prod(shading.weights[s.start : s.stop]) for s in shading.spans if s.label == kind]
    assert any(one == pytest.approx(float(value), abs=6e-4) for one in found)


@says(
    r"output: (given, not )?generated by the model(, cut off at the maximum length)?; "
    r"probability (\S+), log-probability (\S+)"
)
def the_output_has_that_probability(case, _, given, cut, value, log):
    assert float(value) == pytest.approx(math.exp(float(log)), rel=1e-2)
    tokens = case.task.input.target_tokenizer
    if given:
        batch = forced_batch(case.task, case.text, tokens.encode(case.look.target).ids)
        with torch.no_grad():
            hidden = case.model(batch.source, batch.source_mask, batch.target)
            log_probs = torch.log_softmax(case.model.logits(hidden)[0], -1)
        assert float(log_probs.gather(1, batch.labels[0].unsqueeze(1)).sum()) == pytest.approx(float(log), rel=1e-3)
    else:
        best = case.task.head.translate(case.task, case.model, [case.text])[0][0]
        assert best.text == case.look.target and best.finished == (cut is None)


@says(
    r"(?P<what>output|text): log-probability (?P<log>\S+?)(?P<part> of the tokens shown)?"
    r"(?:; generated by the model(?P<cut>, cut off after (?P<limit>\d+) tokens?)?)?"
    r"(?:; longer than the context: only the last (?P<last>\d+) tokens are shown, read in one pass)?"
)
def a_text_has_that_probability(case, _, what, log, part, cut, limit, last):
    look = case.look
    shading = next((s for s in look.shadings if ("generated" in s.title) == (what == "output")), None)
    bits = sum(shading.weights) if shading is not None else 0.0
    if what == "output" and cut is None:  # the end token counts, which is not shaded
        bits += -math.log2(dict(look.decoder[-1].top)["end"]) if "end" in dict(look.decoder[-1].top) else math.nan
    if not math.isnan(bits):
        assert -bits * math.log(2) == pytest.approx(float(log), rel=1e-3)
    assert (limit is None) == (cut is None) and (part is None) == (last is None)
    if last is not None:
        assert len(look.maps[0].query) == int(last) < len(case.text) + 1


@says(r"read: rows (\d+) to (\d+) \(data\.window (\d+)\)")
def rows_before_the_window_change_nothing(case, _, first, last, window):
    assert int(last) - int(first) + 1 == int(window) == len(case.look.encoder) < len(case.text.values)
    other = case.text.values.copy()
    other[: int(first) - 1] += 5
    assert case.again(replace(case.text, values=other)).target == case.look.target
    other[int(first) - 1] += 5
    assert case.again(replace(case.text, values=other)).target != case.look.target


# Steps, and what stands around drawings -----------------------------------------------------------------------


@says(r"The encoder reads the source token by token; then the decoder .* one token a step: it updates its state, .*")
@says(r"No attention: every output token sees the source only through this one vector\.")
def another_source_with_that_vector_writes_the_same(case, _):
    model, task = case.model, case.task
    batch, other = forced_batch(task, case.text, [5, 6]), forced_batch(task, "99", [5, 6])
    with torch.no_grad():
        memory, strange = (model.encode(b.source, b.source_mask) for b in (batch, other))
        given = type(memory)(strange.keys, memory.summary)
        hidden = [model.step(batch.target, model.start(m, Rows.repeat(1)))[0] for m in (memory, given, strange)]
    assert torch.equal(hidden[0], hidden[1]) and not torch.equal(hidden[0], hidden[2])


@says(r"share: the part of each (\w+)'s weight on that span; the mean if several rows are joined")
def a_share_is_a_sum(case, _, kind):
    for one in case.attention:
        units = key_units(one.key)
        for row, span in zip(one.weights.double().tolist(), best_spans(one), strict=True):
            assert span is None or span.share == pytest.approx(max(sum(row[a:b]) for a, b in units))


def test_what_a_look_says_holds(cases):
    said = set()
    for name, case in cases.items():
        for sentence, source in case.sentences().items():
            found = [(n, check, match) for n, (p, check) in enumerate(CHECKS) if (match := re.fullmatch(p, sentence))]
            for number, check, match in found:
                said.add(number)
                more = {"sentence": sentence} if "sentence" in inspect.signature(check).parameters else {}
                try:
                    check(case, source, *([] if more else match.groups()), **more)
                except AssertionError as error:
                    raise AssertionError(f"{name} says {sentence!r}") from error
    unsaid = [pattern for number, (pattern, _) in enumerate(CHECKS) if number not in said]
    assert unsaid == []
