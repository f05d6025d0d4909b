"""Batches: every example once and every token once a pass, within the budget, in a known order, and made ahead."""

import itertools
import json
import threading
import time
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import collate_pairs
from heed.config import TokenizerConfig
from heed.data.batch import TokenPair, pad_rows, pad_shifted, plan_pass, positions_in_groups
from heed.data.kinds.documents import Document
from heed.data.tokens import END, OWN, PADDING, START
from heed.data.tokens.tokenizer import TextTokenizer
from heed.layers.ragged import length_groups
from heed.runs.train import train_config
from heed.tasks.contracts import Batch, Draw
from heed.tasks.inputs.stream import TokenStream, blocks, contiguous
from heed.training.batches import Feed, draws
from heed.training.cost import Cost
from heed.training.device import divided
from heed.training.progress import Quiet
from reporters import Stopper
from resuming import translation

pair_lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=120)
budgets = st.integers(1, 400)
epochs = st.one_of(st.none(), st.integers(0, 5))
relaxed = settings(deadline=None, max_examples=60)


def plan_batches(*args):
    return list(plan_pass(*args))


def padded_size(batch, costs):
    return len(batch) * sum(max(costs[i][side] for i in batch) for side in (0, 1))


@relaxed
@given(pair_lengths, budgets, st.integers(0, 3), epochs)
def test_every_index_is_in_exactly_one_batch(costs, budget, seed, epoch):
    batches = plan_batches(costs, budget, seed, epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(costs)))
    assert all(batches)


@relaxed
@given(pair_lengths, budgets, st.integers(0, 3), epochs)
def test_a_batch_stays_within_the_budget_unless_it_is_one_example(costs, budget, seed, epoch):
    for batch in plan_batches(costs, budget, seed, epoch):
        assert len(batch) == 1 or padded_size(batch, costs) <= budget


@relaxed
@given(pair_lengths, budgets)
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
    pair_lengths = torch.tensor([[9, 0, 4], [5, 1, 2], [0, 0, 3]])
    groups = length_groups([length for length in pair_lengths.flatten().tolist() if length])
    assert len(groups) == 4  # 9 5, 4 3, 2, 1: each length is more than half of the longest of its group
    mask = torch.arange(9) < pair_lengths.unsqueeze(-1)
    assert positions_in_groups(mask) == 2 * 9 + 2 * 4 + 2 + 1
    assert positions_in_groups(mask[:0]) == 1


# --- Token streams and their batches: every token is a target once a pass, borders move, rows go on where they
# stopped


lengths = st.lists(st.integers(1, 30), min_size=1, max_size=12)
contexts, sizes, seeds = st.integers(1, 17), st.integers(1, 60), st.integers(0, 99)


def stream_of(counts, end_token=True):
    """Documents of so many tokens, numbered from 10 over all; the last of each is END where there are end tokens."""
    starts = np.cumsum([0, *counts])
    ids = np.arange(10, 10 + starts[-1], dtype=np.uint16)
    if end_token:
        ids[starts[1:] - 1] = END
    return TokenStream(ids, starts.astype(np.int64), end_token)


def test_a_stream_is_the_tokens_of_each_document_and_its_end():
    tokenizer = TextTokenizer.train_characters(["abc \n"])
    stream = TokenStream.of([Document("ab"), Document("c a\n"), Document("b")], tokenizer, True)
    assert stream.starts.tolist() == [0, 3, 8, 10] and stream.num_documents == 3 and len(stream) == 10
    assert [tokenizer.decode(stream.document(n)) for n in range(3)] == ["ab", "c a\n", "b"]
    assert stream.ids[stream.starts[1:] - 1].tolist() == [END] * 3
    assert stream.document_at(np.array([0, 2, 3, 9])).tolist() == [0, 0, 1, 2]
    joined = TokenStream.of([Document("ab"), Document("c")], tokenizer, False)
    assert tokenizer.decode(joined.ids) == "abc" and joined.starts.tolist() == [0, 2, 3]


@pytest.mark.parametrize("kind", ["char", "byte", "word", "bpe", "byte_bpe", "unigram"])
def test_a_stream_of_many_texts_has_the_tokens_of_each(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path))
    verse = "To be, or not to be: that is the question\n  Whether 'tis nobler in the mind\n\nTo suffer 🍕 größer\n"
    texts = [verse * 3, "", verse * 900 + " ", "b"]
    tokenizer = TextTokenizer.train(
        texts, TokenizerConfig(kind=kind, vocab_size=300, normalization="none", min_count=1), exact=True
    )
    stream = TokenStream.of([Document(text) for text in texts], tokenizer, True)
    assert [stream.document(n)[:-1].tolist() for n in range(4)] == tokenizer.encode_all(texts)
    again = TokenStream.of([Document(text) for text in texts], tokenizer, True)
    assert np.array_equal(again.ids, stream.ids) and np.array_equal(again.starts, stream.starts)
    assert [tokenizer.decode(stream.document(n)) for n in range(4)] == texts
    assert stream.ids.dtype == np.uint16
    monkeypatch.setattr(TextTokenizer, "vocab_size", 70_000)
    assert TokenStream.of([Document("b")], tokenizer, True).ids.dtype == np.int32


# Blocks


@relaxed
@given(lengths, contexts, sizes, seeds, st.booleans())
def test_every_token_is_a_target_once_a_pass(counts, context, batch_tokens, seed, mask):
    stream = stream_of(counts)
    made = blocks(stream, context, END, batch_tokens, Draw(seed, 3), apart=mask)
    before = np.concatenate([[END], stream.ids[:-1]])
    seen = []
    for indices in made.batches:
        assert 1 <= len(indices) <= max(1, batch_tokens // context)
        assert made.positions(indices) == len(indices) * min(context, len(stream))
        batch = made.collate(indices)
        tokens, labels, mask = batch.inputs["tokens"], batch.targets["labels"], batch.targets["mask"]
        places = np.concatenate(
            [np.arange(max(0, i), min(i + context, len(stream))) for i in indices]
        )  # of the targets, row by row
        assert labels[mask].tolist() == stream.ids[places].tolist()
        assert tokens[mask].tolist() == before[places].tolist()
        assert (tokens[~mask] == PADDING).all() and (labels[~mask] == PADDING).all()
        assert batch.num_targets == mask.sum() and batch.indices == indices
        assert batch.padding_share == pytest.approx(1 - batch.num_targets / mask.numel())
        seen += places.tolist()
    assert sorted(seen) == list(range(len(stream)))


@relaxed
@given(lengths, contexts, sizes, seeds)
def test_a_batch_says_where_documents_begin_if_one_does(counts, context, batch_tokens, seed):
    stream = stream_of(counts)
    made = blocks(stream, context, END, batch_tokens, Draw(seed, 0))
    for indices in made.batches:
        batch = made.collate(indices)
        owners = [stream.document_at(np.arange(max(0, i), min(i + context, len(stream)))) for i in indices]
        if all(own[0] == own[-1] for own in owners):
            assert "documents" not in batch.inputs
            continue
        documents = batch.inputs["documents"]
        assert documents.shape == batch.inputs["tokens"].shape
        for row, own in enumerate(owners):
            assert documents[row][batch.targets["mask"][row]].tolist() == (own - own[0]).tolist()
            assert (documents[row].diff() >= 0).all()
    running = blocks(stream, context, END, 9, Draw(0, 0), apart=False)
    assert all("documents" not in running.collate(pieces).inputs for pieces in running.batches)


def test_without_end_tokens_documents_run_on():
    inputs = blocks(stream_of([3, 2], end_token=False), 5, START, 5, Draw(0, 0)).collate([0]).inputs
    assert inputs["tokens"].tolist() == [[START, 10, 11, 12, 13]] and "documents" not in inputs


def test_borders_and_order_are_drawn_by_seed_and_pass():
    stream = stream_of([1_000])

    def plan(seed, epoch):
        return blocks(stream, 10, END, 40, Draw(seed, epoch)).batches

    plans = {(seed, epoch): list(plan(seed, epoch)) for seed in (1, 2) for epoch in range(6)}
    assert list(plan(1, 4)) == plans[1, 4] and repr(plan(1, 4)) == repr(plan(1, 4))
    assert len({str(plan) for plan in plans.values()}) == len(plans)
    assert len({repr(plan(*key)) for key in plans}) == len(plans)
    offsets = {min(i for batch in plan for i in batch) % 10 for plan in plans.values()}
    assert len(offsets) > 3
    order = [i for batch in plans[1, 0] for i in batch]
    assert order != sorted(order)


# Streams


@relaxed
@given(lengths, contexts, sizes)
def test_rows_go_on_where_the_chunk_before_stopped(counts, context, batch_tokens):
    stream = stream_of(counts)
    made = contiguous(stream, context, END, batch_tokens)
    rows = len(made.batches[0])
    assert 1 <= rows <= max(1, batch_tokens // context)
    targets = [[] for _ in range(rows)]
    read = [[] for _ in range(rows)]
    for chunk, indices in enumerate(made.batches):
        assert indices == [chunk * rows + row for row in range(rows)]
        assert made.positions(indices) == rows * min(context, len(stream))
        batch = made.collate(indices)
        assert batch.continued == (tuple(range(rows)), not chunk)
        assert "documents" not in batch.inputs and batch.inputs["tokens"].shape[1] <= context
        for row, real in enumerate(batch.targets["mask"]):
            targets[row] += batch.targets["labels"][row][real].tolist()
            read[row] += batch.inputs["tokens"][row][real].tolist()
            assert not (real.int().diff() > 0).any()  # padding is at the end
    assert [*chain.from_iterable(targets)] == stream.ids.tolist()
    assert [*chain.from_iterable(read)] == [END, *stream.ids[:-1].tolist()]
    assert max(map(len, targets)) - min(map(len, targets)) <= 1
    assert all(own[1:] == labels[:-1] for own, labels in zip(read, targets, strict=True))


def test_rows_may_be_read_apart():
    stream = stream_of([100])
    made = contiguous(stream, 8, END, 32)
    indices = made.batches[2]
    whole = made.collate(indices)
    for parts in (divided(indices, 2), [indices[0::2], indices[1::2]]):
        for part in parts:
            own = made.collate(part)
            rows = [indices.index(i) for i in part]
            assert torch.equal(own.inputs["tokens"], whole.inputs["tokens"][rows])
            assert torch.equal(own.targets["labels"], whole.targets["labels"][rows])


def test_a_short_text_has_fewer_rows():
    batches = contiguous(stream_of([20]), 8, END, 800).batches
    assert len(batches) == 2 and len(batches[0]) == 2
    assert len(contiguous(stream_of([3]), 8, END, 800).batches) == 1


# --- Batches made ahead: the same ones in the same order, errors as they are, no thread left


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "heed-batches"]


@pytest.fixture(autouse=True)
def none_left():
    yield
    assert not threads()


def test_items_come_in_order_and_then_their_end():
    feed = Feed(iter(range(50)))
    assert list(itertools.islice(feed, 50)) == list(range(50))
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(feed)
    feed.close()


def test_an_error_comes_as_it_is_where_its_item_would():
    def items():
        yield from range(3)
        raise OSError("train.de cannot be read")

    feed = Feed(items())
    assert [next(feed) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match=r"train\.de cannot be read"):
        next(feed)
    feed.close()


def test_no_more_than_two_items_are_ahead():
    made = []
    feed = Feed(made.append(n) or n for n in itertools.count())
    assert next(feed) == 0
    time.sleep(0.05)
    assert len(made) <= 1 + 2 + 1  # taken, ahead, and one that the taking made room for
    feed.close()


def config(**training):
    return translation(tokenizer={"kind": "bpe", "vocab_size": 60}, **training)


@pytest.fixture
def always_ahead(monkeypatch):
    monkeypatch.setattr("heed.training.loop.draws", lambda *given, **named: Feed(draws(*given, **named)))


def test_a_run_is_the_same_whoever_makes_its_batches_and_wherever_it_was_stopped(tmp_path, request):
    train_config(config(accumulate=2), tmp_path / "plain", Quiet())
    request.getfixturevalue("always_ahead")
    train_config(config(accumulate=2), tmp_path / "ahead", Quiet())
    assert train_config(config(accumulate=2), tmp_path / "stopped", Stopper(3))[0] is None
    train_config(config(accumulate=2), tmp_path / "stopped", Quiet(), resume=True)
    plain, *others = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "ahead", "stopped")]
    assert others == [plain, plain]


def test_an_error_of_the_data_ends_the_run_with_its_message(tmp_path, always_ahead, monkeypatch):
    def broken(*given, **named):
        raise OSError("texts.bin cannot be read")

    made = config()
    monkeypatch.setattr("heed.training.loop.Trainer.predict_cost", lambda self, work: Cost(0, 0.0, 0.0, 0, 1, 1))
    monkeypatch.setattr("heed.tasks.inputs.pairs.Pairs._batch", broken)
    with pytest.raises(OSError, match=r"texts\.bin cannot be read"):
        train_config(made, tmp_path / "run", Quiet())


def test_the_time_that_updates_waited_is_in_report_and_metrics(tmp_path):
    run, _ = train_config(config(), tmp_path / "run", Quiet())
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["event"] == "update"]
    share = sum(line["waited"] for line in updates) / sum(line["seconds"] for line in updates)
    assert 0 < share < 1
    assert run.report["training"]["waiting_share"] == pytest.approx(share, abs=1e-4)


def test_every_tensor_of_a_batch_is_pinned_and_moved(monkeypatch):
    source, mask = pad_rows([[5, 6], [5]])
    read, labels, read_mask = pad_shifted([[7], [7, 8]], OWN)
    forced = {"target": read, "groups": (read_mask, 3)}
    batch = Batch([0, 1], {"source": source, "mask": mask}, 5, forced, {"labels": labels})
    assert batch.to(torch.device("cpu")) is batch and batch.padding_share == 0.25
    away = batch.to(torch.device("meta"))
    assert len(tensors_of(batch)) == 5 and all(tensor.device.type == "meta" for tensor in tensors_of(away))
    assert away.indices == [0, 1] and away.num_targets == 5 and away.forced["groups"][1] == 3
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    for before, after in zip(tensors_of(batch), tensors_of(batch.pin()), strict=True):
        assert after is not before and torch.equal(after, before)


def tensors_of(batch):
    values = [*batch.inputs.values(), *batch.forced.values(), *batch.targets.values()]
    return [
        one for value in values for one in (value if isinstance(value, tuple) else (value,)) if torch.is_tensor(one)
    ]
