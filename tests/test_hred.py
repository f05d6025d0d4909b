"""The hierarchical encoder-decoder is its equations, with copied weights, and reads every utterance once."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
import reference as ref
from equations import TIGHT, array, sharpened, step_of
from heed.attention import Rows
from heed.generation import SearchOptions, generate
from heed.models.hred import HRED, HREDConfig

LENGTHS = [3, 9, 1, 4, 2]  # words of each utterance
TURNS = torch.tensor([[3, 0, 1, 4], [2, -1, -1, -1]])
SPEAKERS = torch.tensor([1, 0, 2, 0, 1])
CONVERSATION = torch.tensor([0, 1, 0, 0, 1, 0])
READ = torch.tensor([2, 1, 4, 1, 0, 2])
ATTENTION = [(False, False), (False, True), (True, False), (True, True)]  # words, turns
every_attention = pytest.mark.parametrize(("words", "turns"), ATTENTION, ids=["none", "turns", "words", "both"])


def batch():
    mask = torch.arange(9) < torch.tensor(LENGTHS).unsqueeze(1)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, 11, mask.shape, generator=generator).masked_fill(~mask, 0)
    target = torch.randint(4, 11, (6, 7), generator=generator)
    said = {"tokens": tokens, "mask": mask, "turns": TURNS, "speakers": SPEAKERS}
    return said, {"target": target, "conversation": CONVERSATION, "read": READ}


def make(words=True, turns=True, sharp=3.0, **fields):
    torch.manual_seed(0)
    widths = {"d_embedding": 4, "d_hidden": 3, "d_context": 5, "d_attention": 6}
    attention = {"word_attention": words, "turn_attention": turns}
    return sharpened(
        HRED(HREDConfig(vocab_size=11, num_speakers=3, **widths, **attention, **fields)).double().eval(), sharp
    )


# --- the equations


def run(cell, xs, first=None):
    """States `(length, d)` of one cell."""
    state = np.zeros(cell.d_hidden) if first is None else first
    if cell.cell == "lstm":
        state = (state, np.zeros(cell.d_hidden))
    states, step = [], step_of(cell)
    for x in xs:
        state = step(x, state)
        states.append(state[0] if cell.cell == "lstm" else state)
    return np.stack(states)


def look(module, query, keys):
    """Weights of one query by the score that the model has."""
    matrix = array(module.score.w_key.weight)
    return ref.softmax_row([ref.general(query, key, matrix) for key in keys])


def by_hand(model, said, row, rest):
    """Hidden states, and weights over turns and over words, of one response."""
    embedding = array(model.embedding.weight)
    own = [int(u) for u in said["turns"][rest["conversation"][row]] if u >= 0][: int(rest["read"][row])]
    of_words, dialogue, vectors = [], [], []
    for u in own:
        xs = embedding[said["tokens"][u, : LENGTHS[u]].numpy()]
        there = run(model.words.forward_cells[0], xs)
        back = run(model.words.backward_cells[0], xs[::-1])[::-1]
        of_words.append(np.concatenate([there, back], axis=1))
        vectors.append(np.concatenate([there[-1], back[0]]) + array(model.speaker.weight)[SPEAKERS[u]])
    if own:
        dialogue = run(model.turns.forward_cells[0], vectors)
    context = dialogue[-1] if own else np.zeros(5)
    s_0 = np.tanh(array(model.initial[0].weight) @ context + array(model.initial[0].bias))
    words = embedding[rest["target"][row].numpy()]
    states = run(model.decoder.forward_cells[0], [np.concatenate([x, context]) for x in words], s_0)
    hidden, turn_maps, word_maps = [], [], []
    for s in states:
        seen, shares = [s], None
        if model.turn_attention is not None:
            shares = look(model.turn_attention, s, dialogue) if own else []
            turn_maps.append(shares)
            seen.append(sum((b * c for b, c in zip(shares, dialogue, strict=True)), np.zeros(5)))
        if model.word_attention is not None:
            if shares is None:
                laid = np.concatenate(of_words) if own else []
                weights = look(model.word_attention, s, laid) if own else []
            else:
                inside = [b * look(model.word_attention, s, h) for b, h in zip(shares, of_words, strict=True)]
                laid, weights = (np.concatenate(of_words), np.concatenate(inside)) if own else ([], [])
            word_maps.append(weights)
            seen.append(sum((a * h for a, h in zip(weights, laid, strict=True)), np.zeros(6)))
        hidden.append(np.concatenate(seen))
    return np.stack(hidden), turn_maps, word_maps


@pytest.mark.parametrize(
    ("words", "turns", "cell"),
    [(False, False, "rnn"), (False, True, "lstm"), (True, False, "gru"), (True, True, "lstm")],
)
def test_words_turns_and_decoder_are_the_equations(words, turns, cell):
    model, (said, rest) = make(words, turns, cell=cell), batch()
    with torch.no_grad(), heed.trace(model) as seen:
        outputs = model(**said, **rest)
    for row in range(len(outputs)):
        hidden, turn_maps, word_maps = by_hand(model, said, row, rest)
        assert_close(outputs[row], torch.from_numpy(hidden), **TIGHT)
        for mechanism, maps in (("turns", turn_maps), ("words", word_maps)):
            for t, weights in enumerate(maps):
                drawn = seen.maps(mechanism).weights[row, 0, t]
                assert_close(drawn[: len(weights)], torch.tensor(weights, dtype=torch.double), **TIGHT)
                assert not drawn[len(weights) :].any()


def test_a_readout_sees_the_word_before_as_well():
    model, (said, rest) = make(d_readout=4), batch()
    seen, words = by_hand(model, said, 2, rest)[0], array(model.embedding.weight)[rest["target"][2].numpy()]
    read = np.concatenate([seen, words], axis=1) @ array(model.readout.weight).T + array(model.readout.bias)
    assert_close(model(**said, **rest)[2], torch.from_numpy(np.tanh(read)), **TIGHT)


# --- who reads what, and how often


def count_words_read(model, monkeypatch):
    """Numbers of utterances in each run of the net over the words."""
    runs, forward = [], model.words.forward

    def counted(inputs, mask=None, initial=None):
        runs.append(mask.sum(1).tolist())
        return forward(inputs, mask, initial)

    monkeypatch.setattr(model.words, "forward", counted)
    return runs


@every_attention
def test_every_utterance_is_read_once_however_many_responses_look_back_at_it(words, turns, monkeypatch):
    model, (said, rest) = make(words, turns), batch()
    runs = count_words_read(model, monkeypatch)
    model(**said, **rest)
    read = [length for group in runs for length in group]
    assert sorted(read) == sorted(LENGTHS)  # five turns, five encodings, six responses
    assert all(2 * min(group) > max(group) for group in runs), "a short utterance was read as long as a long one"


@every_attention
def test_later_turns_never_change_a_response(words, turns):
    model, (said, rest) = make(words, turns), batch()
    before = model(**said, **rest)
    for turn, utterance in enumerate(TURNS[0].tolist()):
        tokens = said["tokens"].clone()
        tokens[utterance] = torch.where(said["mask"][utterance], 4 + (tokens[utterance] - 3) % 7, 0)
        who = SPEAKERS.clone()
        who[utterance] = (who[utterance] + 1) % 3
        after = model(**{**said, "tokens": tokens, "speakers": who}, **rest)
        changed = (after != before).flatten(1).any(1)
        assert torch.equal(changed, (CONVERSATION == 0) & (READ > turn))


@every_attention
def test_a_conversation_is_read_alike_alone_and_beside_others(words, turns):
    model, (said, rest) = make(words, turns), batch()
    together = model(**said, **rest)
    for row in range(len(together)):
        own = TURNS[CONVERSATION[row], : int(READ[row])]
        own = own if len(own) else torch.tensor([-1])
        picked = own[own >= 0]
        width = max([LENGTHS[u] for u in picked.tolist()], default=1)
        alone = {
            "tokens": said["tokens"][picked, :width],
            "mask": said["mask"][picked, :width],
            "turns": torch.where(own >= 0, torch.arange(len(own)), -1).unsqueeze(0),
            "speakers": SPEAKERS[picked],
        }
        state = model.start(model.encode(**alone), Rows.repeat(1))  # all turns read
        hidden, _ = model.step(rest["target"][row : row + 1], state)
        assert_close(hidden[0], together[row], **TIGHT)


@every_attention
def test_responses_of_unequal_length_are_written_as_they_would_be_alone(words, turns):
    model, (said, rest) = make(words, turns), batch()
    lengths = torch.tensor([7, 1, 3, 2, 7, 1])
    inside = torch.arange(7) < lengths.unsqueeze(1)
    whole = model(**said, **rest)
    ragged = model(**said, **{**rest, "target": rest["target"] * inside})
    assert_close(ragged[inside], whole[inside], **TIGHT)
    with heed.trace(model):  # watched, all are written together
        watched = model(**said, **{**rest, "target": rest["target"] * inside})
    assert_close(watched[inside], whole[inside], **TIGHT)


# --- writing, watching, editing


def written(model, said, **options):
    with torch.no_grad():
        prompt = torch.tensor([[1], [1]])
        return generate(model, model.encode(**said), prompt, SearchOptions(end_token=2, max_length=5, **options))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_it_writes_for_each_conversation_after_all_its_turns(beam_size):
    model, (said, _) = make(), batch()
    out = written(model, said, beam_size=beam_size, num_best=beam_size)
    assert [len(found) for found in out.hypotheses] == [beam_size] * 2
    for row, found in enumerate(out.hypotheses):
        for hypothesis in found:
            target = torch.tensor([[1, *hypothesis.tokens]])
            own = {"target": target, "conversation": torch.tensor([row]), "read": torch.tensor([[4, 1][row]])}
            log_probs = torch.log_softmax(model.logits(model(**said, **own)), dim=-1)[0]
            scored = [log_probs[t, token].item() for t, token in enumerate(hypothesis.tokens)]
            assert scored == pytest.approx(list(hypothesis.log_probs[: len(scored)]), abs=1e-6)


def test_the_maps_of_what_was_written_step_by_step_are_those_of_the_whole():
    model, (said, _) = make(), batch()
    with heed.trace(model) as seen:
        (first, *_), _ = written(model, said, beam_size=1).hypotheses
    maps = {mechanism: seen.maps(mechanism) for mechanism in ("words", "turns")}
    tokens = torch.tensor([[1, *first.tokens]])
    own = {"target": tokens, "conversation": torch.tensor([0]), "read": torch.tensor([4])}
    with heed.trace(model) as whole:
        model(**said, **own)
    for mechanism, steps in maps.items():
        length = min(steps.weights.shape[2], tokens.shape[1])
        assert length >= 2
        expected = whole.maps(mechanism).weights[0, :, :length]
        assert_close(steps.weights[0, :, :length, : expected.shape[-1]], expected, rtol=0, atol=1e-6)


def test_scores_far_apart_between_turns_still_share_each_turns_weight():
    model, (said, rest) = make(sharp=40.0), batch()
    with torch.no_grad(), heed.trace(model.float()) as seen:
        model(**said, **rest)
    weights = seen.maps("words").weights
    has_turns = (READ > 0).float()
    assert_close(weights[:, 0].sum(-1), has_turns.unsqueeze(1).expand(-1, 7))


def test_a_batch_without_any_turn_is_answered_from_nothing():
    model = make()
    nothing = torch.zeros(0, 1, dtype=torch.long)
    state = model.start(model.encode(nothing, nothing.bool(), torch.tensor([[-1]]), nothing[:, 0]), Rows.repeat(1))
    hidden, _ = model.step(torch.tensor([[1, 4]]), state)
    said, rest = batch()
    first = {"target": torch.tensor([[1, 4]]), "conversation": torch.tensor([1]), "read": torch.tensor([0])}
    assert_close(hidden, model(**said, **first), **TIGHT)
    assert rest["read"][4] == 0 and hidden.isfinite().all()


def test_a_memory_of_selected_conversations_is_theirs():
    model, (said, rest) = make(), batch()
    memory = model.encode(**said).select(torch.tensor([1, 0]))
    state = model.start(memory, Rows(1 - CONVERSATION, 2), READ)
    assert_close(model.step(rest["target"], state)[0], model(**said, **rest), **TIGHT)
    assert replace(memory).summary is not None
