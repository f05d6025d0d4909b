"""What a look prints and writes: the check behind each sentence, the fields of its files, its claims."""

import ast
import base64
import html
import inspect
import json
import math
import re
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from contract import forced_batch
from heed.attention import AttentionPooling, Rows
from heed.errors import ConfigError
from heed.show.picture_drawing import ShownPicture
from heed.show.shown import ShownLook
from heed.tasks import task_names
from heed.watch.edits import Force
from heed.watch.looks import Choice, Look, Shading
from heed.watch.maps import Axis, Map, Part, best_spans, key_units
from heed.watch.pictures import Distances, PictureLook, PictureMap
from heed.watch.trace import edit
from look_cases import Case, all_cases
from pages import blocks, page
from small_runs import SMALL

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


# --- Looks in files: JSON has every field of a look, and NumPy takes the weights, as docs/looking.md shows


AXIS = Axis("text", "word", ("a", "b\ud800", "<c>"), (Part("one", 0, 1), Part("two", 1, 3)))


def kept(kind):
    """The fields that a file has."""
    return [one for one in fields(kind) if one.compare]


def filled(kind, seed=1):
    """A value of a type in which no field has its default."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return filled(next(one for one in inner if one is not type(None)), seed)
    if kind is Axis:
        return AXIS
    if kind in (Map, Shading, PictureMap, Distances):
        hints = get_type_hints(kind)
        made = {one.name: filled(hints[one.name], seed) for one in kept(kind)}
        torch.manual_seed(seed)
        if issubclass(kind, Map):
            mask = torch.tensor([[True, False, True]] * 3)
            scores = torch.randn(3, 3).masked_fill(~mask, -torch.inf)
            made |= {name: mask for name in made if torch.Tensor in (hints[name], *get_args(hints[name]))}
            made |= {"weights": scores.softmax(-1), "scores": scores}
            made |= {"tokens": (("a", "b", "c"),) * 3}
        elif kind is Shading:
            made |= {"weights": (0.5, 1e-7, float("inf")), "tags": ("X", "Y", "Z"), "others": ("", "o", "p")}
        else:
            made |= {"weights": torch.rand(2, 3)} if kind is PictureMap else {"values": torch.rand(2, 3)}
        return kind(**made)
    if kind is torch.Tensor:
        return torch.linspace(-1, 1, 5) / 3
    if origin is np.ndarray:
        return np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    if origin is tuple:
        items = [inner[0]] * 2 if inner[-1] is Ellipsis else inner
        return tuple(filled(one, seed + i) for i, one in enumerate(items))
    if origin is dict:
        return {name: filled(inner[1], seed) for name in ("x", "y.z")}
    if hasattr(kind, "_fields"):
        return kind(0.1, 0.2, 3.5, 4.5)
    if is_dataclass(kind):
        return kind(**{one.name: filled(get_type_hints(kind)[one.name], seed + i) for i, one in enumerate(kept(kind))})
    return {str: f"t{seed}", int: 3 + seed, float: seed + 1 / 3, bool: True}.get(kind, kind)


def assert_written(found, given, place="look"):
    """What JSON has of a value: numbers rounded, pixels and empty tensors packed."""
    if isinstance(given, torch.Tensor):
        given = given.numpy()
    if isinstance(given, np.ndarray):
        if given.dtype == np.uint8 or not given.size:
            unpacked = np.frombuffer(zlib.decompress(base64.b64decode(found["zlib"])), found["type"])
            found = unpacked.reshape(found["shape"])
        numbers = [-math.inf if one is None else one for one in np.array(found).flatten().tolist()]
        assert np.shape(found) == given.shape and np.allclose(numbers, given.flatten(), atol=6e-7, rtol=0), place
    elif is_dataclass(given):
        for one in kept(given):
            name = one.metadata.get("json", one.name)
            assert_written(found[name], getattr(given, one.name), f"{place}.{one.name}")
    elif isinstance(given, tuple):
        assert len(found) == len(given), place
        for i, (a, b) in enumerate(zip(found, given, strict=True)):
            assert_written(a, b, f"{place}.{i}")
    elif isinstance(given, dict):
        assert found.keys() == given.keys(), place
        for name in given:
            assert_written(found[name], given[name], f"{place}.{name}")
    elif isinstance(given, float):
        assert (float(found) == given) if math.isinf(given) else found == pytest.approx(given, rel=1e-5), place
    else:
        assert found == given, place


@pytest.mark.parametrize("kind", [Look, PictureLook])
def test_json_has_every_field_of_a_look(kind):
    look = filled(kind)
    for one in fields(kind):  # what has no value here would not be tested
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        value = getattr(look, one.name)
        assert not one.compare or isinstance(value, torch.Tensor | np.ndarray) or value != default, one.name
    if kind is Look:
        content = json.loads(ShownLook(look, True).json())
        assert (content["format"], content["shows_steps"]) == ("heed-look-5", True)
    else:
        content = json.loads(ShownPicture(look).json())
    assert_written(content, look)


def test_a_map_without_rows_and_one_without_columns_are_written():
    nothing, some = Axis("target", "word", ()), Axis("source", "word", ("a", "b"))
    maps = []
    for query, key in ((nothing, some), (some, nothing)):
        weights = torch.ones(len(query), len(key))
        maps.append(Map("cross", 0, None, query, key, weights, None, weights > 0))
    look = Look("t", "", "", tuple(maps), (), ())
    assert_written(json.loads(ShownLook(look, False).json()), look)


def test_numpy_saves_the_weights_of_a_look_as_the_page_shows(untrained, tmp_path, monkeypatch):
    (example,) = (block for block in blocks(page("docs/looking.md"), "python") if "savez" in block)
    run = untrained("translation", "transformer")
    monkeypatch.chdir(tmp_path)
    exec(example, {"run": run})
    look, saved = run.look("How are you?"), np.load("look.npz")
    assert sorted(saved) == sorted(one.title for one in look.maps) and len(look.maps) == 3
    for one in look.maps:
        assert saved[one.title].shape == (len(one.query), len(one.key))
        assert np.array_equal(saved[one.title], one.weights.numpy())
    assert Path("look.json").read_text() == look.json()


def test_a_data_frame_has_each_weight_that_is_not_masked_with_its_words():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    causal, axis = torch.ones(3, 3).tril().bool(), Axis("text", "word", ("a", "b", "c"))
    maps = (Map("encoder", 1, 0, axis, axis, weights, None, causal), Map("encoder", 1, None, axis, axis, weights))
    frame = ShownLook(Look("t", "a b c", "", maps, (), ()), False).to_frame()
    assert len(frame) == 6 + 9 and set(frame["mechanism"]) == {"encoder"} and set(frame["layer"]) == {1}
    row = frame[(frame["head"] == 0) & (frame["query"] == "c") & (frame["key"] == "b")]
    assert row[["query_position", "key_position"]].to_numpy().tolist() == [[2, 1]]
    assert row["weight"].item() == pytest.approx(0.3) and frame["head"].isna().sum() == 9
    sums = frame.groupby(["map", "query_position"])["weight"].sum()
    assert np.allclose(sums, 1) and len(ShownLook(Look("t", "a", "", (), (), ()), False).to_frame()) == 0


# --- What is said of maps: no output, help, page or example says that an answer follows from what was attended to


ROOT = Path(__file__).resolve().parent.parent
CLAIMS = re.compile(
    r"\b(?:rest(?:s|ed|ing)? (?:up)?on|(?:is|are|was|were) based (?:up)?on|rel(?:y|ies|ied|ying) (?:up)?on|"
    r"because (?:of|it|they|the model)(?: \w+){0,3} (?:attends?|attention|look(?:s|ed)?|weights?)|"
    r"(?:attends?|attention|look(?:s|ed)?|weights?)\b[^.;:]{0,60}\bbecause|"
    r"pays? (?:\w+ )?attention|focus(?:es|ed|ing)? on|"
    r"explains? (?:the|its|this|an?) (?:answer|label|output|prediction|decision)|"
    r"(?:score|map|attention|gradients?|weights?) (?:that )?explains?|"
    r"important (?:word|token|pixel|patch|head|part)|contributions? of (?:each|every|the) (?:patch|pixel)|"
    r"on which the (?:score|output|label) depends|"
    r"weights? (?:\w+ )?shows? (?:which|what|why)|shows? why|evidence for (?:the|its|this) (?:label|answer|output))",
    re.IGNORECASE,
)
WORDS = re.compile(r"\b(?:depend(?:s|ed)?|rest(?:s|ed)|because|verdicts?|supported|explain(?:s|ed)?)\b", re.IGNORECASE)
"""Words that say more than was computed, in a sentence about a map."""
MAPS = re.compile(r"\b(?:maps?|attention|attend(?:s|ed)?|(?<!font-)weights?|looked at)\b", re.IGNORECASE)
ALLOWED = {
    # nothing is said of attention or of an answer
    "Runs you can rely on.",
    # the order of the parts of a meaning, in data
    "most important part found in the",
    # the title over what was computed
    "Does the output depend on these weights?",
    # options that are gone
    "Verdicts on maps (`--verdict`, `run.verdicts`, `--beside permuted`, `heed lesson verdict`)",
    # of memory
    "because guided attention reads the activations of every block",
}
"""Sentences that a claim or one of the words may occur in, with the reason."""


def texts(docstrings=True):
    """Every text that a reader sees: pages, examples, and the strings of the code."""
    endings_in = {"docs": (".md",), "examples": (".yaml", ".py", ".md"), "src/heed": (".yaml", ".html", ".js")}
    for folder, endings in endings_in.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings:
                yield path, path.read_text("utf-8")
    yield from ((path, path.read_text("utf-8")) for path in (ROOT / "README.md", ROOT / "CHANGELOG.md"))
    for path in sorted((ROOT / "src" / "heed").rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        left_out = set() if docstrings else {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
                yield path, node.value


def plain(text):
    """A text without line breaks, list marks and targets of links."""
    return re.sub(r"\s+", " ", re.sub(r"\n[ \t]*(?:[#*-]+ |//)?", " ", re.sub(r"\]\([^)\s]*\)", "]", text)))


def words_of_maps(text, every=False):
    """The sentences with one of the words, of those about a map or of `every` sentence."""
    sentences = re.split(r"(?<=[.:;!?]) |\|", plain(text))
    found = [one for one in sentences if WORDS.search(one) and (every or MAPS.search(one))]
    return [one for one in found if not any(allowed.rstrip(".:") in one for allowed in ALLOWED)]


def claims(text):
    """The phrases of a text that claim what no map shows, each with its surroundings."""
    read = plain(text)
    found = (read[max(0, m.start() - 90) : m.end() + 90] for m in CLAIMS.finditer(read))
    return [around for around in found if not any(sentence in around for sentence in ALLOWED)]


def test_no_text_claims_that_an_answer_follows_from_a_map():
    found = [f"{path.relative_to(ROOT)}: ... {around} ..." for path, text in texts() for around in claims(text)]
    assert found == []


def test_no_text_about_maps_has_words_that_say_more_than_was_computed():
    """Verdicts on claims are those of rules, in docs/claims.md and examples/claims; docs/looking.md has none at all."""
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path, text in texts(docstrings=False)
        if "claims" not in path.relative_to(ROOT).as_posix()
        for sentence in words_of_maps(text, every=path.name == "looking.md")
    ]
    assert found == []


LOOKS = {
    "plain": {},
    "edited": {"edits": [{"edit": "uniform"}]},
    "beside": {"beside": "untrained"},
    "steps": {"steps": True},
    "attribution": {"attribution": "loo"},
}
"""Options of looks; those that a task does not have are left out."""
MODELS = {
    "translation": "transformer", "classification": "han", "tagging": "bert", "language_modelling": "lstmn",
    "pretraining": None, "dialogue": "transformer", "summarisation": None, "images": "vit",
}  # fmt: skip
"""A second model of each task that has looks."""


@pytest.mark.parametrize(("name", "other"), MODELS.items())
def test_no_look_has_these_words_in_any_form(name, other, untrained, data):
    looked = dict.fromkeys(LOOKS, 0)
    for model in {SMALL[name].model, other or SMALL[name].model}:
        run = untrained(name, model)
        read = SMALL[name].look[0].replace("DATA", str(data))
        read = {"dialogue": ["one two", "three four"], "pretraining": "one [MASK] two"}.get(name, read)
        for kind, options in LOOKS.items():
            if name == "images" and kind == "steps":
                continue
            try:
                look = run.look(read, **options)
            except ConfigError:
                continue
            looked[kind] += 1
            for form in (look.text(), re.sub(r"<[^>]*>", "\n", html.unescape(look.html())), look.json(), look.svg()):
                assert words_of_maps(form, every=True) == claims(form) == [], (model, kind)
    assert looked["plain"] and looked["beside"]


def test_every_task_with_looks_is_here():
    assert {name for name in task_names() if SMALL[name].look} == {*MODELS}


@pytest.mark.parametrize(
    "claim",
    [
        "The label rests on 'goal'.",
        "Its answer is based on the last word.",
        "It writes 'la' because it attends to 'house'.",
        "It attends to `house` when it writes `la`, because `la` takes its gender.",
        "The model pays close attention to the verb.",
        "The model focuses on the field.",
        "Label whose score gradients explain.",
        "the most important words of the text",
        "pixels on which the score depends",
        "Weights show which words a model uses.",
    ],
)
def test_claims_are_recognised(claim):
    assert claims(claim)
    assert words_of_maps("The label depends on these weights.") and words_of_maps("The map is supported: it holds.")
    assert not words_of_maps("It stopped, because the disk is full. The map has a row for each token.")
    assert not claims("Row t: where the model looked to write output t. Weights before dropout.")
