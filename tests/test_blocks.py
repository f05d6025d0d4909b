"""Token streams and their batches: every token is a target once a pass, borders move, rows go on where they stopped."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.config import TokenizerConfig
from heed.data.kinds.documents import Document
from heed.data.tokens import END, PADDING, START
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.contracts import Draw
from heed.tasks.inputs.stream import TokenStream, blocks, contiguous
from heed.training.device import divided

relaxed = settings(deadline=None, max_examples=60)
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
