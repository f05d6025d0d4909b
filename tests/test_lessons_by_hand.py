"""Lessons without training: their numbers follow from those that they show, and are the library's."""

import re
from functools import cache

import numpy as np
import pytest
import torch

import heed
import reference
from heed.lessons import run_lesson
from heed.lessons.it import SENTENCES
from heed.lessons.logan import ANSWER, OUTPUTS, TURNS
from heed.models.hred import HRED, HREDConfig

worked = cache(run_lesson)


@pytest.fixture
def lesson(request):
    """The lesson that the test is named after."""
    return worked(re.match(r"test_(hindi|it|logan)_", request.node.name)[1])


@pytest.fixture
def shown(lesson):
    """Every tensor of the lesson as an array, by stage and name."""
    return {stage.name: {name: value.numpy() for name, value in stage.numbers.items()} for stage in lesson.stages}


# hindi: the notes' example of supervised attention, its three losses, and what follows from them.


TRUE = np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0]])
PREDICTED = np.array([0.1, 0.1, 0.35, 0.35, 0.1])


def test_hindi_the_losses_are_the_printed_ones_to_four_decimals(lesson):
    true = TRUE[2]
    on = true > 0
    by_hand = {
        ("cross-entropy", "loss"): -(true[on] * np.log(PREDICTED[on])).sum(),
        ("divergence", "divergence"): (true[on] * np.log(true[on] / PREDICTED[on])).sum(),
        ("squared", "loss"): ((true - PREDICTED) ** 2).mean(),
    }
    printed = [1.0498, 0.3567, 0.0150]
    for ((stage, name), value), shown in zip(by_hand.items(), printed, strict=True):
        assert float(lesson[stage][name]) == pytest.approx(value, abs=1e-12)
        assert round(value, 4) == shown and f"{shown:.4f}" in lesson.text(140)


def test_hindi_the_links_are_the_true_weights(lesson):
    np.testing.assert_array_equal(lesson["true"]["true"].numpy(), TRUE)
    assert "0-0 4-1 2-2 3-2 1-3" in lesson.text(140)
    free = lesson["free"]["true"].numpy()
    np.testing.assert_array_equal(free, TRUE * (np.arange(4) != 1)[:, None])


def test_hindi_steps_down_the_gradient_reach_the_entropy_of_the_links(lesson):
    scores, rows = np.log(PREDICTED), []
    for step in range(51):
        weights = np.exp(scores) / np.exp(scores).sum()
        if step in (0, 1, 2, 5, 10, 50):
            rows.append(weights)
        scores = scores - (weights - TRUE[2])
    np.testing.assert_allclose(lesson["gradient"]["weights"].numpy(), rows, atol=1e-12)
    losses = lesson["gradient"]["losses"].numpy()
    assert (np.diff(losses) < 0).all() and 0 < losses[-1] - np.log(2) < 0.05


def test_hindi_the_pieces_of_a_word_have_its_row(lesson):
    rows = lesson["pieces"]["rows"].numpy()
    sources, targets = [0, 1, 2, 3, 3, 4, 4], [0, 1, 2, 2, 3]  # the word of each piece
    for row, word in zip(rows, targets, strict=True):
        np.testing.assert_allclose([row[np.equal(sources, n)].sum() for n in range(5)], TRUE[word], atol=1e-7)


# it: every number by a slow reference, and what two heads and a second layer are needed for.


IT = 2


def by_loops(x, matrices, heads):
    """Weights of "it" in each head, and its contexts side by side, one vector pair at a time."""
    query, key, value = (x @ np.array(w) for w in matrices)
    size, weights, contexts = query.shape[1] // heads, [], []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        context, seen = reference.attend(
            query[:, part], key[:, part], value[:, part], None, lambda a, b: reference.dot(a, b) / size**0.5
        )
        weights.append(seen)
        contexts.append(context)
    return np.array(weights), np.concatenate(contexts, axis=1)


@pytest.mark.parametrize("last", SENTENCES)
def test_it_both_layers_agree_with_the_slow_reference(lesson, last):
    place, x = list(SENTENCES).index(last), lesson["words"][last].numpy()
    matrices = [lesson["projections"][name].tolist() for name in ("W_Q", "W_K", "W_V")]
    weights, contexts = by_loops(x, matrices, 2)
    np.testing.assert_allclose(lesson["heads"][last].numpy(), weights, atol=1e-12)
    np.testing.assert_allclose(lesson["concatenate"]["contexts"][place].numpy(), contexts[IT], atol=1e-12)
    states = x + contexts @ lesson["concatenate"]["W_O"].numpy()
    np.testing.assert_allclose(lesson["concatenate"]["states"][place].numpy(), states[IT], atol=1e-12)
    second = [lesson["second-layer"][name].tolist() for name in ("W_Q", "W_K", "W_K")]
    np.testing.assert_allclose(
        lesson["second-layer"]["weights"][place].numpy(), by_loops(states, second, 1)[0][0, IT], atol=1e-12
    )
    single = by_loops(x, matrices, 1)[0][0, IT]
    np.testing.assert_allclose(lesson["one-head"]["first"][place].numpy(), single, atol=1e-12)


def test_it_the_second_layer_finds_the_noun_and_two_heads_are_surer_than_one(lesson):
    tired, congested = lesson["second-layer"]["weights"].tolist()
    assert tired.index(max(tired)) == 0 and congested.index(max(congested)) == 1
    assert (round(max(tired), 3), round(max(congested), 3)) == (0.981, 0.981)
    assert lesson["one-head"]["second"].max(-1).values.tolist() == pytest.approx([0.926, 0.926], abs=5e-4)
    # the first layer prefers neither noun, in either head
    for last in SENTENCES:
        weights = lesson["heads"][last][:, IT]
        assert weights[:, 0].tolist() == weights[:, 1].tolist()


# logan: its numbers follow from those it shows, step by step in plain NumPy.


def _softmax(x):
    return np.exp(x) / np.exp(x).sum()


def _embedding(lesson, word):
    table = lesson["conversation"].tables[0]
    return table.values[table.rows.index(word)].numpy() if word in table.rows else np.zeros(4)


def _code(shown, word):
    """The signs of a written word: a quarter of what O has for the word that follows."""
    following = ANSWER[0] if word is None else ANSWER[ANSWER.index(word) + 1]
    return shown["decoder"]["O"][OUTPUTS.index(following), 4:7] / 4


def test_logan_states_of_words_and_turns_follow_from_the_embeddings(lesson, shown):
    d = np.zeros(4)
    for n, turn in enumerate(TURNS):
        h, states = np.zeros(4), []
        for word in turn.split():
            h = np.tanh(shown["words"]["U"] @ h + _embedding(lesson, word))
            states.append(h)
        d = np.tanh(shown["dialogue"]["V"] @ d + shown["dialogue"]["Z"] @ h)
        np.testing.assert_allclose(shown["words"][f"turn {n + 1}"], states, atol=1e-12)
        np.testing.assert_allclose(shown["utterances"]["utterances"][n], h, atol=1e-12)
        np.testing.assert_allclose(shown["dialogue"]["states"][n], d, atol=1e-12)


@pytest.mark.parametrize("stage", ["decoder", "response"])
def test_logan_the_decoder_follows_from_the_states_without_and_with_attention(shown, stage):
    """Both times the notes' answer is written; attention adds the context to what the scores are made of."""
    weights = {**shown["decoder"], "A": shown["turns"]["A"]}
    d = shown["dialogue"]["states"]
    h = [shown["words"][f"turn {n + 1}"] for n in range(3)]
    s, word, written = np.tanh(weights["D"] @ d[-1]), None, []
    for t in range(len(ANSWER)):
        s = np.tanh(weights["S"] @ s + weights["E"] @ _code(shown, word) + weights["D"] @ d[-1])
        np.testing.assert_allclose(shown["decoder"]["states"][t], s, atol=1e-12)
        c = np.zeros(4)
        if stage == "response":
            alpha = _softmax(np.array([s @ weights["A"] @ state for state in d]))
            np.testing.assert_allclose(shown["turns"]["weights"][t], alpha, atol=1e-12)
            for n, states in enumerate(h):
                beta = _softmax(np.array([s @ weights["A"] @ state for state in states]))
                np.testing.assert_allclose(shown["inside"][f"turn {n + 1}"][t], beta, atol=1e-12)
                c += alpha[n] * sum(share * state for share, state in zip(beta, states, strict=True))
            np.testing.assert_allclose(shown["response"]["contexts"][t], c, atol=1e-12)
        p = _softmax(weights["O"] @ np.concatenate([s, c]))
        np.testing.assert_allclose(shown[stage]["probabilities"][t], p, atol=1e-12)
        word = OUTPUTS[int(p.argmax())]
        written.append(word)
    assert tuple(written) == ANSWER


def test_logan_the_word_logan_has_most_weight_of_all_words(shown):
    both = [shown["turns"]["weights"][0, n] * shown["inside"][f"turn {n + 1}"][0] for n in range(3)]
    assert sum(part.sum() for part in both) == pytest.approx(1)
    words = " ".join(TURNS).split()
    assert words[int(np.concatenate(both).argmax())] == "Logan"


def test_logan_another_film_in_turn_2_changes_the_answer(lesson):
    assert lesson["other-film"].lines[0].endswith("Leonardo DiCaprio, of course.")
    assert lesson["response"].lines[0].endswith("Hugh Jackman, of course.")


def test_logan_what_was_said_long_ago_fades_without_attention_and_stays_with_it(shown):
    faded, without, attending = shown["distance"]["values"].T
    assert all(np.diff(faded) < 0) and all(np.diff(without) < 0)
    assert without[-1] < 0.6 and attending[-1] > 0.9


def test_logan_the_model_hred_with_the_same_weights_computes_the_same(lesson, shown):
    """The lesson's four and seven numbers are widths of seven here, the last three of a word state zero."""
    config = HREDConfig(
        **dict(vocab_size=40, num_speakers=1, d_embedding=7, d_hidden=7, d_context=4, cell="rnn"),
        **dict(bidirectional=False, word_attention=True, turn_attention=True),
    )
    model = HRED(config).double().eval()
    words = ["<start>", *dict.fromkeys([*" ".join(TURNS).split(), *ANSWER])]
    number = {word: n for n, word in enumerate(words)}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for word, n in number.items():
            model.embedding.weight[n, :4] = torch.from_numpy(_embedding(lesson, word))
        for before, word in zip((None, *ANSWER), ANSWER, strict=False):
            model.embedding.weight[number[before or "<start>"], 4:] = torch.from_numpy(_code(shown, before).copy())
            model.output.weight[number[word]] = _row(shown, word)
        weights = {name: value for stage in lesson.stages for name, value in stage.numbers.items() if len(name) == 1}
        cells = model.words.forward_cells[0], model.turns.forward_cells[0], model.decoder.forward_cells[0]
        cells[0].w_ih[:4, :4] = torch.eye(4)
        cells[0].w_hh[:4, :4] = weights["U"]
        cells[1].w_ih[:, :4] = weights["Z"]
        cells[1].w_hh[:] = weights["V"]
        cells[2].w_ih[:, 4:7], cells[2].w_ih[:, 7:] = weights["E"], weights["D"]
        cells[2].w_hh[:] = weights["S"]
        model.initial[0].weight[:] = weights["D"]
        model.turn_attention.score.w_key.weight[:] = weights["A"]
        model.word_attention.score.w_key.weight[:, :4] = weights["A"]
    turns = [[number[word] for word in turn.split()] for turn in TURNS]
    tokens = torch.tensor([ids + [0] * (8 - len(ids)) for ids in turns])
    mask = torch.arange(8) < torch.tensor([len(ids) for ids in turns]).unsqueeze(1)
    target = torch.tensor([[number[word] for word in ("<start>", *ANSWER[:-1])]])
    one = torch.tensor([0])
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(tokens, mask, torch.tensor([[0, 1, 2]]), torch.zeros(3).long(), target, one, torch.tensor([3]))
    np.testing.assert_allclose(seen.maps("turns").weights[0, 0], shown["turns"]["weights"], atol=1e-9)
    both = [shown["turns"]["weights"][:, n, None] * shown["inside"][f"turn {n + 1}"] for n in range(3)]
    np.testing.assert_allclose(seen.maps("words").weights[0, 0], np.concatenate(both, axis=1), atol=1e-9)
    written = [OUTPUTS.index(word) for word in ANSWER]
    logits = model.logits(hidden)[0][:, [number[word] for word in ANSWER]].detach()
    probabilities = shown["response"]["probabilities"][:, written]
    np.testing.assert_allclose(logits.softmax(-1), probabilities / probabilities.sum(1, keepdims=True), atol=1e-9)


def _row(shown, word):
    """The weights of a word on decoder state, context of the turns (none in the lesson) and context of the words."""
    row = torch.from_numpy(shown["decoder"]["O"][OUTPUTS.index(word)].copy())
    return torch.cat([row[:7], torch.zeros(4), row[7:], torch.zeros(3)])
