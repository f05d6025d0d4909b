"""Batches: every example once, within the budget, little padding, in an order given by (seed, epoch)."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import collate_pairs
from heed.data.batch import TokenPair, plan_pass, positions_in_groups
from heed.data.tokens import END, PADDING, START
from heed.layers.ragged import length_groups

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=120)
budgets = st.integers(1, 400)
epochs = st.one_of(st.none(), st.integers(0, 5))
relaxed = settings(deadline=None, max_examples=60)


def plan_batches(*args):
    return list(plan_pass(*args))


def padded_size(batch, costs):
    return len(batch) * sum(max(costs[i][side] for i in batch) for side in (0, 1))


@relaxed
@given(lengths, budgets, st.integers(0, 3), epochs)
def test_every_index_is_in_exactly_one_batch(costs, budget, seed, epoch):
    batches = plan_batches(costs, budget, seed, epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(costs)))
    assert all(batches)


@relaxed
@given(lengths, budgets, st.integers(0, 3), epochs)
def test_a_batch_stays_within_the_budget_unless_it_is_one_example(costs, budget, seed, epoch):
    for batch in plan_batches(costs, budget, seed, epoch):
        assert len(batch) == 1 or padded_size(batch, costs) <= budget


@relaxed
@given(lengths, budgets)
def test_batches_are_as_large_as_the_budget_allows(costs, budget):
    # sorted by length: the first example of each batch would not have fitted into the one before
    batches = plan_batches(costs, budget)
    for before, after in itertools.pairwise(batches):
        assert padded_size([*before, after[0]], costs) > budget


def ragged(count=2000, longest=30, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, longest, (count, 2), generator=generator)
    return [(int(a) + 1, int(b)) for a, b in sizes.tolist()]


def test_the_order_depends_on_seed_and_epoch_only():
    costs = ragged()
    torch.manual_seed(1)
    first = plan_batches(costs, 500, 3, 2)
    torch.manual_seed(2)
    torch.rand(3)
    assert plan_batches(costs, 500, 3, 2) == first
    others = [plan_batches(costs, 500, *which) for which in [(3, 0), (3, 1), (3, 3), (2, 2), (4, 2), (2, 3)]]
    assert all(other != first for other in others)
    assert len({str(other) for other in others}) == len(others)


def test_planning_leaves_the_random_state_alone():
    state = torch.get_rng_state()
    plan_batches(ragged(), 500, 3, 2)
    assert torch.equal(torch.get_rng_state(), state)


def test_neighbours_change_from_epoch_to_epoch():
    def pairs(epoch):
        return {frozenset(p) for b in plan_batches(costs, 200, 1, epoch) for p in itertools.pairwise(b)}

    costs = ragged()
    assert len(pairs(0) & pairs(1)) < 0.5 * len(pairs(0))


def test_lengths_come_in_no_order():
    costs = ragged(4000)
    means = [sum(sum(costs[i]) for i in b) / len(b) for b in plan_batches(costs, 500, 1, 0)]
    half = len(means) // 2
    first, second = sum(means[:half]) / half, sum(means[half:]) / (len(means) - half)
    assert abs(first - second) < 0.2 * (max(means) - min(means))


def padding(costs, batches):
    return 1 - sum(map(sum, costs)) / sum(padded_size(batch, costs) for batch in batches)


def test_there_is_little_padding():
    # source and target of similar length, as in real pairs
    costs = [(max(1, b + a % 3), b) for a, b in ragged(20_000)]
    by_chance = [list(range(i, i + 33)) for i in range(0, len(costs) - 33, 33)]
    assert padding([costs[i] for b in by_chance for i in b], by_chance) > 0.4
    assert padding(costs, plan_batches(costs, 1_000, 1, 0)) < 0.1
    assert padding(costs, plan_batches(costs, 1_000)) < 0.05


# --- tensors


def test_a_batch_by_hand():
    pairs = [TokenPair([7, 8, 9], [5]), TokenPair([6], [4, 5, 6]), TokenPair([9, 9], [])]
    batch = collate_pairs(pairs, [1, 0])
    assert batch.source.tolist() == [[6, PADDING, PADDING], [7, 8, 9]]
    assert batch.source_mask.tolist() == [[True, False, False], [True, True, True]]
    assert batch.target.tolist() == [[START, 4, 5, 6], [START, 5, PADDING, PADDING]]
    assert batch.labels.tolist() == [[4, 5, 6, END], [5, END, PADDING, PADDING]]
    assert batch.target_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.target_mask.sum() == 6


def test_an_empty_source_still_has_a_width():
    batch = collate_pairs([TokenPair([], [])], [0])
    assert batch.source.shape == (1, 1) and not batch.source_mask.any()
    assert batch.target.tolist() == [[START]] and batch.labels.tolist() == [[END]]


tokens = st.lists(st.integers(4, 20), max_size=12)


@relaxed
@given(st.lists(st.builds(TokenPair, tokens, tokens), min_size=1, max_size=8))
def test_a_batch_holds_the_pairs_and_nothing_else(pairs):
    batch = collate_pairs(pairs, list(range(len(pairs))))
    for row, pair in enumerate(pairs):
        assert batch.source[row][batch.source_mask[row]].tolist() == pair.source
        assert batch.target[row][batch.target_mask[row]].tolist() == [START, *pair.target]
        assert batch.labels[row][batch.target_mask[row]].tolist() == [*pair.target, END]
    assert (batch.source[~batch.source_mask] == PADDING).all()
    assert (batch.labels[~batch.target_mask] == PADDING).all()
    cost = [pair.cost for pair in pairs]
    assert batch.target.shape[1] == max(c[0] for c in cost)  # what the budget counts is what is made
    assert batch.source.shape[1] == max(1, *(c[1] for c in cost), 1)


def test_positions_are_counted_as_rows_are_grouped():
    lengths = torch.tensor([[9, 0, 4], [5, 1, 2], [0, 0, 3]])
    groups = length_groups([length for length in lengths.flatten().tolist() if length])
    assert len(groups) == 4  # 9 5, 4 3, 2, 1: each length is more than half of the longest of its group
    mask = torch.arange(9) < lengths.unsqueeze(-1)
    assert positions_in_groups(mask) == 2 * 9 + 2 * 4 + 2 + 1
    assert positions_in_groups(mask[:0]) == 1
