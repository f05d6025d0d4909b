"""Rows of pretraining: what is masked, which texts make pairs, and that nothing but the texts tells which follow."""

import itertools
from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from heed.config import TokenizerConfig
from heed.config.data import Documents
from heed.data.kinds.documents import Document
from heed.data.tokens import END, OWN, PADDING, START, UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.pretraining.rows import (
    FOLLOWS,
    FOLLOWS_NOT,
    NO_QUESTION,
    PIECE,
    SENTENCE,
    WORD,
    Cut,
    Masking,
    Passages,
    Rows,
    collate_rows,
    draw_rows,
    mask_rows,
    plain_text,
)
from stories import draw_stories

STORIES = draw_stories("train", 600, 1)


@pytest.fixture(scope="module")
def tokenizer():
    section = TokenizerConfig(kind="wordpiece", vocab_size=300, lowercase=True)
    return TextTokenizer.train([story.text for story in STORIES], section, mask=True)


@pytest.fixture(scope="module")
def passages(tokenizer):
    return Passages.of(STORIES, tokenizer)


def texts_of(passages, tokenizer, rows, row):
    sides = (rows.first, rows.first_end), (rows.second, rows.second_end)
    return tuple(tokenizer.decode(passages.ids[a[row] : b[row]].tolist()) for a, b in sides)


# --- documents as tokens


def test_flags_say_where_pieces_words_and_sentences_begin(tokenizer):
    document = Document("He bought milk.  She\nslept. alone")
    passages = Passages.of([document, Document("Tom.")], tokenizer)
    pieces = [tokenizer.token(i) for i in passages.ids]

    def at(flag):
        starts = np.append(passages.begins(flag), len(passages))
        return ["".join(pieces[a:b]).replace("##", "") for a, b in itertools.pairwise(starts)]

    assert at(PIECE) == ["he", "bought", "milk", ".", "she", "slept", ".", "alone", "tom", "."]
    assert at(WORD) == ["he", "bought", "milk.", "she", "slept.", "alone", "tom."]
    assert at(SENTENCE) == ["heboughtmilk.", "she", "slept.alone", "tom."]
    assert passages.starts.tolist() == [0, passages.begins(SENTENCE)[3], len(passages)]


def test_a_text_is_read_with_one_blank_between_its_sentences():
    assert plain_text(" One here.<br />Two\n\nthree. ") == ("One here. Two three.", [0, 10, 14])
    assert plain_text(" \n") == ("", [])


def test_passages_of_many_documents_come_from_the_cache_as_they_were_made(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path))
    monkeypatch.setattr("heed.data.corpus._CACHED_CHARACTERS", 100)
    first, second = (Passages.of(STORIES[:20], tokenizer) for _ in range(2))
    monkeypatch.setattr("heed.data.corpus._CACHED_CHARACTERS", 1 << 30)
    made = Passages.of(STORIES[:20], tokenizer)
    for one in (first, second):
        assert (one.ids == made.ids).all() and (one.flags == made.flags).all() and (one.starts == made.starts).all()
    assert isinstance(second.ids, np.memmap)


# --- rows


@pytest.mark.parametrize("cut", [Cut(61), Cut(61, words=6), Cut(20), Cut(62, pairs=False)])
@pytest.mark.parametrize("epoch", [None, 0, 3])
def test_rows_hold_the_tokens_once_and_fit(passages, tokenizer, cut, epoch):
    rows = draw_rows(passages, cut, 1, epoch)
    sides = (rows.first_end - rows.first) + (rows.second_end - rows.second)
    assert sides.max() <= cut.length and (rows.first_end > rows.first).all()
    covered = Counter()
    for row in range(len(rows)):
        covered.update(range(rows.first[row], rows.first_end[row]))
        covered.update(range(rows.second[row], rows.second_end[row]))
    assert set(covered.values()) == {1}
    assert len(covered) > 0.99 * len(passages)  # of full rows that get a longer second text the first tokens are lost
    if not cut.pairs:
        assert (rows.labels == NO_QUESTION).all()


def test_half_of_the_pairs_follow_and_the_others_are_of_another_document(passages):
    rows = draw_rows(passages, Cut(61), 1, 0)
    counts = Counter(rows.labels.tolist())
    assert abs(counts[FOLLOWS] - counts[FOLLOWS_NOT]) <= 1 and counts[FOLLOWS] > 300
    follow = rows.labels == FOLLOWS
    assert (rows.first_end[follow] == rows.second[follow]).all()
    other = rows.labels == FOLLOWS_NOT
    assert (passages.document_at(rows.first[other]) != passages.document_at(rows.second[other])).all()


def test_with_words_each_side_has_as_many(tokenizer, passages):
    rows = draw_rows(passages, Cut(61, words=6), 1, None)
    for row in np.flatnonzero(rows.labels != NO_QUESTION)[:50]:
        texts = texts_of(passages, tokenizer, rows, row)
        assert [len(text.split()) for text in texts] == [6, 6]


def test_sides_that_are_too_long_are_cut_where_they_do_not_meet(tokenizer, passages):
    whole, short = (draw_rows(passages, Cut(length, words=6), 1, None) for length in (61, 8))
    pairs = np.flatnonzero(whole.labels == FOLLOWS)
    assert (whole.first_end[pairs] == short.first_end[pairs]).all()
    assert (short.first_end - short.first)[pairs].max() == 4 == (short.second_end - short.second)[pairs].max()


def test_rows_depend_on_seed_and_pass_only(passages):
    def same(a, b):
        return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("first", "second", "labels"))

    draw = [draw_rows(passages, Cut(61), *which) for which in ((1, 0), (1, 0), (1, 2), (2, 0))]
    assert same(draw[0], draw[1]) and not same(draw[0], draw[2]) and not same(draw[0], draw[3])
    assert same(draw_rows(passages, Cut(61), 1, None), draw_rows(passages, Cut(61), 2, None))


def test_over_two_passes_every_second_text_is_once_true_and_once_not(passages):
    seen = Counter()
    for epoch in (4, 5):
        rows = draw_rows(passages, Cut(61), 1, epoch)
        for row in np.flatnonzero(rows.labels != NO_QUESTION):
            seen[int(rows.second[row]), int(rows.second_end[row]), int(rows.labels[row])] += 1
    follows = {key[:2] for key in seen if key[2] == FOLLOWS}
    assert follows == {key[:2] for key in seen if key[2] == FOLLOWS_NOT}
    assert set(seen.values()) == {1}


def test_a_text_that_does_not_follow_is_about_as_long_as_the_one_that_would(passages):
    rows = draw_rows(passages, Cut(61), 1, 0)
    negative = np.flatnonzero(rows.labels == FOLLOWS_NOT)
    ends = {int(a): int(b) for a, b in zip(rows.second, rows.second_end, strict=True)}
    own = np.array([ends[int(rows.first_end[row])] - rows.first_end[row] for row in negative])
    given = (rows.second_end - rows.second)[negative]
    assert sorted(own) == sorted(given)
    assert np.abs(own - given).mean() < 0.5


@pytest.mark.parametrize("cut", [Cut(61), Cut(61, words=8)])
def test_neither_lengths_nor_the_second_text_give_the_answer_away(tokenizer, cut):
    passages = Passages.of(draw_stories("train", 4_000, 2), tokenizer)
    one = draw_rows(passages, cut, 1, 0)
    table, words, labels = [], [], []
    for row in np.flatnonzero(one.labels != NO_QUESTION):
        a, b = one.first_end[row] - one.first[row], one.second_end[row] - one.second[row]
        c, d = map(len, texts_of(passages, tokenizer, one, row))
        table.append([a, b, a - b, abs(a - b), a * b / 10, c, d, abs(c - d), c * d / 10])
        words.append(np.bincount(passages.ids[one.second[row] : one.second_end[row]], minlength=300))
        labels.append(one.labels[row])
    for features in (np.array(table, dtype=float), np.array(words, dtype=float)):
        features = (features - features.mean(0)) / (features.std(0) + 1e-9)
        accuracy = cross_val_score(LogisticRegression(max_iter=200), features, labels, cv=5).mean()
        assert abs(accuracy - 0.5) < 0.03


def test_few_documents_exchange_with_each_other_or_ask_nothing(tokenizer):
    two = Passages.of([Document("He bought milk. The milk was cheap."), Document("Tom went. He slept.")], tokenizer)
    labels = draw_rows(two, Cut(61), 1, None).labels
    assert sorted(labels.tolist()) in ([FOLLOWS, FOLLOWS_NOT], [NO_QUESTION, FOLLOWS])
    one = Passages.of([STORIES[0]], tokenizer)
    assert FOLLOWS_NOT not in draw_rows(one, Cut(20), 1, 0).labels


def test_a_sentence_longer_than_half_a_row_is_cut_between_words(tokenizer):
    long = Passages.of([Document(" ".join(["milk and bread"] * 20)), STORIES[0]], tokenizer)
    rows = draw_rows(long, Cut(17), 1, None)
    assert ((rows.first_end - rows.first) + (rows.second_end - rows.second)).max() <= 17
    assert (long.flags[rows.first] & PIECE).all() and (long.flags[rows.second[rows.labels >= 0]] & PIECE).all()


# --- masked words


def masking(share=0.15, as_mask=0.8, as_random=0.1, whole_words=False):
    shares = {"mask_share": share, "mask_token_share": as_mask, "random_token_share": as_random}
    return Masking(Documents.model_construct(**shares, whole_words=whole_words), 4, np.arange(5, 100))


def masked(tokens, how, seeds=(1, 0), rows=None, begins=None):
    candidates = tokens >= 5
    begins = np.ones(tokens.shape, bool) if begins is None else begins
    rows = np.arange(len(tokens)) if rows is None else rows
    return mask_rows(tokens, candidates, begins, how, seeds, rows)


def random_tokens(rows=200, length=100):
    return np.random.default_rng(0).integers(5, 100, (rows, length))


def test_fifteen_percent_are_chosen_of_which_most_are_masked_some_random_and_some_kept():
    tokens = random_tokens()
    read, chosen = masked(tokens, masking())
    assert (chosen.sum(1) == 15).all()
    assert (read[~chosen] == tokens[~chosen]).all()
    assert abs((read[chosen] == 4).mean() - 0.8) < 0.02
    changed = (read != 4) & (read != tokens) & chosen
    assert abs(changed.sum() / chosen.sum() - 0.1) < 0.02
    assert read[changed].min() >= 5 and len(np.unique(read[changed])) > 60
    assert abs(chosen.mean(0) - 0.15).max() < 0.1  # every place alike


def test_masks_depend_on_seed_pass_and_row_and_not_on_the_batch():
    tokens = random_tokens(4)
    whole = masked(tokens, masking())
    alone = masked(tokens[2:3, :90], masking(), rows=np.array([2]))
    wide = np.concatenate([tokens, np.zeros((4, 30), int)], axis=1)
    padded = masked(wide, masking())
    assert (padded[0][:, :100] == whole[0]).all() and not padded[1][:, 100:].any()
    assert (masked(tokens[2:3], masking(), rows=np.array([2]))[0] == whole[0][2]).all()
    assert alone[1].sum() == 14
    for seeds in ((1, 1), (2, 0)):
        assert (masked(tokens, masking(), seeds)[1] != whole[1]).any(1).all()


def test_whole_words_are_masked_together_and_no_more_tokens_than_asked():
    tokens = random_tokens()
    begins = np.random.default_rng(1).random(tokens.shape) < 0.6
    begins[:, 0] = True
    read, chosen = masked(tokens, masking(as_mask=1.0, as_random=0.0, whole_words=True), begins=begins)
    words = np.cumsum(begins, axis=1)
    for row in range(len(tokens)):
        inside = set(words[row][chosen[row]])
        assert inside and all(chosen[row][words[row] == word].all() for word in inside)
    assert chosen.sum(1).max() <= 15 and chosen.sum(1).mean() > 13
    assert (read[chosen] == 4).all()


def test_a_short_row_has_one_masked_word_and_an_empty_one_none():
    tokens = np.array([[2, 7, 3, 0], [2, 3, 0, 0]])
    read, chosen = masked(tokens, masking(as_mask=1.0, as_random=0.0))
    assert read.tolist() == [[2, 4, 3, 0], [2, 3, 0, 0]]
    for whole_words in (False, True):
        _, chosen = masked(tokens, masking(whole_words=whole_words))
        assert chosen.tolist() == [[False, True, False, False], [False] * 4]


# --- batches


def test_a_batch_is_framed_and_its_masked_words_are_what_stood_there(passages, tokenizer):
    rows = draw_rows(passages, Cut(61), 1, 0)
    how = Masking(Documents.model_construct(), tokenizer.mask, np.arange(5, tokenizer.vocab_size))
    pair, single = int(np.flatnonzero(rows.labels == FOLLOWS)[0]), int(np.flatnonzero(rows.labels == NO_QUESTION)[0])
    for double in (False, True):
        batch = collate_rows(rows.select([pair, single]), how, (1, 0), double, OWN)
        plain = collate_rows(rows.select([pair, single]), None, (1, 0), double, OWN)
        for row, one in enumerate((pair, single)):
            ids = [START, *passages.ids[rows.first[one] : rows.first_end[one]], END]
            if one == pair:
                ids += [*([END] * double), *passages.ids[rows.second[one] : rows.second_end[one]], END]
            assert plain.inputs["tokens"][row][plain.inputs["mask"][row]].tolist() == ids
            assert (plain.inputs["tokens"][row][~plain.inputs["mask"][row]] == PADDING).all()
        assert batch.targets["words"].tolist() == plain.inputs["tokens"].flatten()[batch.targets["places"]].tolist()
        assert batch.targets["order"].tolist() == [FOLLOWS, NO_QUESTION]
        assert batch.num_targets == len(batch.targets["words"]) > 0 and plain.num_targets == 1
        changed = (batch.inputs["tokens"] != plain.inputs["tokens"]).flatten()
        assert set(changed.nonzero().flatten().tolist()) <= set(batch.targets["places"].tolist())


def test_the_lengths_of_rows_are_those_of_batches(passages):
    rows = draw_rows(passages, Cut(61), 1, 0)
    batch = collate_rows(rows.select(range(40)), None, (1, 0), False, OWN)
    assert batch.inputs["mask"].sum(1).tolist() == rows.lengths[:40].tolist()


def test_unknown_words_are_never_to_be_predicted(tokenizer):
    flags = np.full(5, PIECE, np.uint8)
    passages = Passages(np.array([UNKNOWN, UNKNOWN, 7, UNKNOWN, 8]), flags, np.array([0, 5]), np.zeros(1, np.uint8))
    rows = Rows(passages, *(np.array([place]) for place in (0, 5, 5, 5, NO_QUESTION, 0)))
    how = Masking(Documents.model_construct(mask_share=1.0), tokenizer.mask, np.arange(5, tokenizer.vocab_size))
    assert collate_rows(rows, how, (1, 0), False, OWN).targets["words"].tolist() == [7, 8]
