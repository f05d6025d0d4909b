"""The CRF against the sum over, and the best of, all tag sequences."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from heed.data.kinds.tagged import may_follow
from heed.layers import LinearChainCRF

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
