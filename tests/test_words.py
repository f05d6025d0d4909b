"""Words: maps of subwords as maps of words, links between words, and unknown words replaced by what was looked at."""

from dataclasses import replace

import pytest
import torch

from contract import data_of
from heed.config import ModelSection, TokenizerConfig
from heed.data.tokens import UNKNOWN
from heed.tasks.heads.alignment import replace_unknown, unknown_words
from heed.tasks.run import Run
from heed.tasks.translation import TASK, TranslationConfig, TranslationTraining, look_at
from heed.tasks.work import Work
from heed.watch.edits import Force
from heed.watch.maps import MERGED, Axis, Map, merge_subwords
from heed.watch.records import AttentionRecord, SelfCheckError
from heed.watch.trace import edit

SOURCE = "the cats sat, (here)"
TARGET = "los gatos grises"


def axes(name, *labels):
    return Axis(name, "word", labels)


def test_merging_by_hand():
    """Parts of a source word are summed, parts of a written word averaged."""
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.3, 0.3, 0.2, 0.2]])
    mask = torch.tensor([[True, False, False, True], [False, False, False, True], [False, True, True, False]])
    whole = Map("cross", 1, 2, axes("t", *"abc"), axes("s", *"wxyz"), weights, weights.log(), mask, "Before.")
    query, key = axes("target", "ab", "c"), axes("source", "w", "xyz")
    merged = merge_subwords(whole, query, [range(0, 2), range(2, 3)], key, [range(0, 1), range(1, 4)])
    # (0.1 + 0.5) / 2 = 0.3 and (0.2 + 0.3 + 0.4 + 0.1 + 0.1 + 0.3) / 2 = 0.7
    assert torch.allclose(merged.weights, torch.tensor([[0.3, 0.7], [0.3, 0.7]]))
    assert merged.mask.tolist() == [[True, True], [False, True]]
    assert merged.scores is None
    assert (merged.mechanism, merged.layer, merged.head) == ("cross", 1, 2)
    assert (merged.query, merged.key) == (query, key)
    assert merged.caption == f"Before. {MERGED}"


def test_rows_still_sum_to_one():
    torch.manual_seed(1)
    weights = torch.softmax(torch.randn(7, 9), -1)
    whole = Map("cross", 0, None, axes("t", *"1234567"), axes("s", *"123456789"), weights)
    rows, columns = [range(0, 3), range(3, 4), range(4, 7)], [range(0, 1), range(1, 6), range(6, 8), range(8, 9)]
    merged = merge_subwords(whole, axes("t", *"abc"), rows, axes("s", *"wxyz"), columns)
    assert torch.allclose(merged.weights.sum(1), torch.ones(3))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            expected = weights[row.start : row.stop, column.start : column.stop].sum(1).mean()
            assert float(merged.weights[i, j]) == pytest.approx(float(expected), abs=1e-6)


# --- an untrained model, made to look where we say


def made(folder, kind, **tokenizer):
    path = folder / f"{kind}.tsv"
    words = ["the", "cats", "sat", "here", "dog", "runs"], ["los", "gatos", "grises", "el", "perro", "corre"]
    rows = [
        f"{SOURCE}\t{TARGET}",
        *(f"{a} {b} ({a}), \t{c} {d}" for a, c in zip(*words, strict=True) for b, d in zip(*words, strict=True)),
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    config = TranslationConfig(
        data=data_of("translation", train=[str(path)], valid=3),
        tokenizer=TokenizerConfig(kind=kind, min_count=1, **tokenizer),
        model=ModelSection(name="bahdanau", size="tiny", d_embedding=8, d_hidden=8, d_attention=8),
        training=TranslationTraining(steps=1),
    )
    torch.manual_seed(1)
    task = TASK.prepare(config)
    return task, task.build_model().eval()


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    return made(tmp_path_factory.mktemp("subwords"), "bpe", vocab_size=32)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return made(tmp_path_factory.mktemp("words"), "word")


def forced(rows):
    """Edits that make written token `row` look at source token `key` only."""
    return [Force("cross", position=row, weights=[0.0] * key + [1.0]) for row, key in rows.items()]


def test_every_character_that_was_written_is_linked_to_the_one_it_looked_at_most(tmp_path):
    task, model = made(tmp_path, "char")
    run = Run(tmp_path, task.config, task, model, {})
    written = task.head.translate(task, model, [SOURCE], max_length=3)[0][0]
    ids = tuple(task.input.target_tokenizer.encode("los").ids)
    with edit(model, *forced({0: 4, 1: 0, 2: 17})):
        assert run.align(f" {SOURCE} ", replace(written, ids=ids)) == [(4, 0), (0, 1), (17, 2)]
    assert run.align(SOURCE, replace(written, ids=())) == []


def test_characters_written_from_subwords_are_linked_to_words(tmp_path, subwords):
    of_subwords, of_characters = subwords[0], made(tmp_path, "char")[0]
    mixed = replace(
        of_subwords.input, tokenizers={**of_subwords.input.tokenizers, "target": of_characters.input.target_tokenizer}
    )
    task = Work(TASK, of_subwords.config, mixed, TASK.head, of_subwords.splits)
    model = task.build_model().eval()
    run = Run(tmp_path, task.config, task, model, {})
    ids = task.input.source_tokenizer.encode(SOURCE).ids
    words = task.input.source_tokenizer.words(ids)
    assert len(words) < len(ids)
    written = task.head.translate(task, model, [SOURCE], max_length=3)[0][0]
    letters = tuple(task.input.target_tokenizer.encode("lo").ids)
    with edit(model, *forced({0: words[-1].stop - 1, 1: words[1].stop - 1})):
        assert run.align(SOURCE, replace(written, ids=letters)) == [(len(words) - 1, 0), (1, 1)]


def test_words_are_not_copied_by_weights_that_are_not_the_models(words, monkeypatch):
    task, model = words
    scores = AttentionRecord.scores
    monkeypatch.setattr(AttentionRecord, "scores", lambda record, rows=None: -5 * scores(record, rows))
    with pytest.raises(SelfCheckError, match="please report"):
        unknown_words(task, model, "the Zebra sat", [UNKNOWN])


def test_an_unknown_word_is_replaced_by_the_source_word_it_looked_at(words):
    task, model = words
    source = "the Zebra sat, (here)"
    ids = [
        *task.input.target_tokenizer.encode("los").ids,
        UNKNOWN,
        *task.input.target_tokenizer.encode("grises").ids,
        UNKNOWN,
    ]
    # Tokens of the source: the, Zebra (unknown), sat, a comma, a blank, (, here, )
    with edit(model, *forced({0: 0, 1: 1, 2: 2, 3: 6})):
        instead = unknown_words(task, model, source, ids)
        prediction = task.head.translate(task, model, [source], max_length=1)[0][0]
        written = replace_unknown(task, model, source, replace(prediction, ids=tuple(ids)))
        known = unknown_words(task, model, "the cats sat, (here)", ids)
    assert instead == written.replaced == {1: "Zebra", 3: "Zebra"}  # the vocabulary has "here"
    assert written.text == "los Zebra grises Zebra"
    assert known == {1: "cats", 3: "here"}


def test_a_look_at_an_empty_output_and_at_unknown_characters(subwords):
    task, model = subwords
    look = look_at(task, model, "the \u4e00 cats", target="")
    assert look.maps[0].query.labels == ("end",)
    assert any("never seen in training: \u4e00" in note for note in look.notes)


def test_blanks_around_a_text_change_nothing(subwords, words):
    """They are no words; a word tokenizer would read them as unknown ones."""
    for task, model in (subwords, words):
        plain = task.head.translate(task, model, [SOURCE], max_length=8)[0][0]
        look = look_at(task, model, SOURCE)
        for text in (SOURCE + " ", f"  {SOURCE}\n", SOURCE + "\u3000"):
            assert task.head.translate(task, model, [text], max_length=8)[0][0] == plain
            spaced = look_at(task, model, text)
            assert spaced.target == look.target and spaced.notes == look.notes
            assert torch.equal(spaced.maps[0].weights, look.maps[0].weights)


def test_what_training_never_saw_is_shown_as_it_was_typed_and_marked(subwords, words):
    for task, model in (subwords, words):
        look = look_at(task, model, "the Z\u4e00bra sat", target="los \u4e00")
        (shown,) = look.maps
        assert shown.key.labels[1] == "?Z\u4e00bra" and shown.query.labels[1] == "?\u4e00"
        assert any(note.startswith("never seen in training: ") and note.endswith(", marked ?") for note in look.notes)
        assert not any("<unk>" in label for label in (*shown.key.labels, *shown.query.labels))
        assert any(frame.token.startswith("?") for frame in look.encoder) or task is words[0]
