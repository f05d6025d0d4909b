"""Supervised attention: links in files and in embedded data reach the loss, however texts are cut; what cannot be."""

import random

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
from contract import write_lines
from heed.config import TokenizerConfig
from heed.data.batch import TokenPair
from heed.data.findings import Findings
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.registry import body_class, list_models, model_config
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.tasks.inputs.few_pairs import FEW_PAIRS, PAIRS_A_MINUTE, few_reason, for_few_pairs
from heed.tasks.inputs.supervision import attention_loss, guides, rows_of
from heed.tasks.translation import TASK, AlignmentSection, TranslationConfig
from heed.training.contracts import Loss
from heed.training.progress import Quiet
from heed.watch.trace import trace

SOURCE, TARGET = "Main ghar ja raha hoon", "I am going home"
LINKS = "0-0 4-1 2-2 3-2 1-3"
TRUE = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0.0]])
SMALL = {"name": "bahdanau", "size": "tiny", "d_embedding": 8, "d_hidden": 8, "d_attention": 8}
ATTENDS = [name for name, body in list_models() if body.interface == "pair_decoder" and name not in ("seq2seq", "rnn")]


@pytest.fixture
def folder(tmp_path):
    """Pairs in two files, and their links: five of the notes' example, then a pair without any and one in part."""
    write_lines(tmp_path / "my.hi", *[SOURCE] * 5, "ghar ja", "Main hoon")
    write_lines(tmp_path / "my.en", *[TARGET] * 5, "home going", "I am")
    write_lines(tmp_path / "my.links", *[LINKS] * 5, "", "1-1")
    return tmp_path


def config(folder, alignment=None, **sections):
    sides = [str(folder / "my.hi"), str(folder / "my.en")]
    values = {
        "data": {"train": sides, "valid": sides},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": SMALL,
        "training": {"steps": 2, "threads": 1, "device": "cpu", "guided_attention": 0.0},
    }  # fmt: skip
    for name, section in sections.items():
        values[name] = section if name == "model" else values.get(name, {}) | section
    if alignment is not None:
        values["training"]["alignment"] = {"files": str(folder / "my.links")} | alignment
    return check_config({"task": "translation", **values}, "test")


def prepared(folder, alignment=None, **sections):
    return TASK.prepare(config(folder, {} if alignment is None else alignment, **sections))


def parts_by_word(rows, spans, text):
    """Rows over tokens as rows over the words of a text."""
    words = torch.zeros(rows.shape[0], len(text.split()))
    for column, (start, end) in enumerate(spans):
        if text[start:end].strip():
            words[:, len(text[:end].split()) - 1] += rows[:, column]
    return words


# --- the loss


@pytest.mark.parametrize("kind", ["cross_entropy", "mse"])
def test_padding_and_free_rows_add_nothing(kind):
    generator = torch.Generator().manual_seed(0)
    weights = torch.softmax(torch.randn(2, 4, 5, generator=generator), -1)
    weights[1, :, 3:] = 0
    alignment, mask = torch.zeros(2, 4, 5), torch.ones(2, 5, dtype=torch.bool)
    alignment[0], mask[1, 3:] = TRUE, False
    alignment[1, 0, 1] = 1
    by_hand = 0.0
    for true, seen, size in [*((TRUE[t], weights[0, t], 5) for t in range(4)), (alignment[1, 0], weights[1, 0], 3)]:
        a, p = true[:size].numpy(), seen[:size].numpy()
        by_hand += -(a * np.log(p)).sum() if kind == "cross_entropy" else ((a - p) ** 2).mean()
    assert float(attention_loss(weights, alignment, mask, kind)) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("kind", ["cross_entropy", "mse"])
def test_weights_of_zero_have_a_finite_gradient(kind):
    weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    attention_loss(weights, torch.tensor([[[1.0, 0.0]]]), torch.ones(1, 2, dtype=torch.bool), kind).backward()
    assert torch.isfinite(weights.grad).all()


# --- where to look


def test_links_of_a_file_are_where_words_look(folder):
    task = prepared(folder)
    batch = task.collate([0, 5, 6])
    assert_close(batch.targets["alignment"][0, :4, :5], TRUE)
    assert_close(batch.targets["alignment"][1], torch.zeros(5, 5))  # blank line
    assert_close(batch.targets["alignment"][2].nonzero(), torch.tensor([[1, 1]]))  # the other word and the end are free
    assert "train: 26 links in 6 of 7 pairs (my.links)" in task.notes
    assert "    links   Main-I  hoon-am  ja-going  raha-going  ghar-home\n" in task.overview()


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"kind": "char"},
        {"kind": "bpe", "vocab_size": 30},
        {"kind": "unigram", "vocab_size": 40},
        {"kind": "byte_bpe", "vocab_size": 265},
    ],
    ids=lambda config: "-".join(map(str, config.values())),
)
def test_links_hold_for_every_cut_of_a_text(folder, tokenizer):
    task = prepared(folder, tokenizer=tokenizer)
    task.train_batches(0)
    batch = task.collate([0], 0)
    assert batch.targets["alignment"].shape == (1, batch.forced["target"].shape[1], batch.inputs["source"].shape[1])
    sources, targets, texts = spans_of(task)
    assert len(sources) == batch.inputs["source"].shape[1] and len(targets) == batch.forced["target"].shape[1] - 1
    by_word = parts_by_word(batch.targets["alignment"][0, :-1], sources, texts[0])
    for row, (start, end) in zip(by_word, targets, strict=True):
        if texts[1][start:end].strip():
            assert_close(row, TRUE[len(texts[1][:end].split()) - 1])
        else:
            assert not row.any()


def spans_of(task):
    """The spans of the source's and the target's tokens of the first training pair, and its texts."""
    texts = task.splits.examples["train"][0].texts
    both = zip((task.input.source_tokenizer, task.input.target_tokenizer), texts, strict=True)
    return *(tokenizer.encode(text).spans for tokenizer, text in both), texts


def test_texts_that_normalisation_makes_shorter_keep_their_links(tmp_path):
    decomposed = "cafe\u0301 noir\u0302 vert"
    write_lines(tmp_path / "my.hi", *[decomposed] * 4)
    write_lines(tmp_path / "my.en", *["green black coffee"] * 4)
    write_lines(tmp_path / "my.links", *["0-2 1-1 2-0"] * 4)
    task = prepared(tmp_path, tokenizer={"kind": "bpe", "vocab_size": 30})
    task.train_batches(0)
    sources, targets, texts = spans_of(task)
    by_word = parts_by_word(task.collate([0]).targets["alignment"][0, :-1], sources, texts[0])
    words = [len(texts[1][:end].split()) - 1 for start, end in targets if texts[1][start:end].strip()]
    looked = [
        int(row.argmax()) for row, (start, end) in zip(by_word, targets, strict=True) if texts[1][start:end].strip()
    ]
    assert looked == [2 - word for word in words]


def test_possible_links_are_used_or_ignored(folder):
    write_lines(folder / "my.links", *["0-0 4-1 2-2 3p2"] * 5, "", "")
    used, ignored = (
        prepared(folder, {"possible": how}).collate([0]).targets["alignment"][0] for how in ("use", "ignore")
    )
    assert_close(used[2, :5], TRUE[2])
    assert_close(ignored[2, :5], torch.tensor([0, 0, 1.0, 0, 0]))


def test_what_is_held_out_left_out_or_not_drawn_shifts_no_links(tmp_path):
    """Pair n says `a{n} b{n}`, turned round where n is even; the links say so, too."""
    count = 60
    write_lines(tmp_path / "my.hi", *(f"a{n} b{n}" if n % 7 else "" for n in range(count)))
    write_lines(tmp_path / "my.en", *(f"B{n} A{n}" if n % 2 == 0 else f"A{n} B{n}" for n in range(count)))
    write_lines(
        tmp_path / "my.links", *("" if not n % 7 else "1-0 0-1" if n % 2 == 0 else "0-0 1-1" for n in range(count))
    )
    for data in ({"valid": 10}, {"valid": 10, "in_memory": 5}):
        task = prepared(tmp_path, data=data, training={"train_size": 25})
        assert len(task.input.training(task)) == 25
        for index in range(25):
            pair = task.input.training(task).examples_at([index])[0]
            turned = pair.target.startswith("B")
            expected = torch.tensor([[0.0, 1.0], [1.0, 0.0]]) if turned else torch.eye(2)
            assert_close(task.collate([index]).targets["alignment"][0, :2], expected)


@pytest.mark.parametrize("training", [{}, {"train_size": 10}])
def test_a_link_beyond_the_words_of_a_pair_that_is_not_trained_on_is_named_too(tmp_path, training):
    """Of pairs held out for validation, and of pairs that were not drawn."""
    write_lines(tmp_path / "my.hi", *(f"a{n} b{n}" for n in range(20)))
    write_lines(tmp_path / "my.en", *(f"A{n} B{n}" for n in range(20)))
    write_lines(tmp_path / "my.links", *["0-0"] * 20)
    splits = prepared(tmp_path, data={"valid": 5}, training=training).splits
    unused = splits.left_out if training else splits.examples["valid"]
    assert len(unused) == 5
    for pair in unused:
        line = int(pair.origin.rpartition(":")[2])
        write_lines(tmp_path / "my.links", *["0-0"] * (line - 1), "0-0 2-1", *["0-0"] * (20 - line))
        with pytest.raises(DataError, match=rf"my.links' line {line}: link 2-1 names source word 2, but the source"):
            prepared(tmp_path, data={"valid": 5}, training=training)
        skipping = prepared(tmp_path, data={"valid": 5, "bad_lines": "skip"}, training=training)
        assert f"my.links: link to a word that does not exist, left out: 1 link ({line})" in skipping.notes


def test_pairs_given_in_python_have_the_links_of_their_line(tmp_path):
    count = 30
    sides = [f"a{n} b{n}" for n in range(count)], [f"B{n} A{n}" if n % 2 else f"A{n} B{n}" for n in range(count)]
    write_lines(tmp_path / "my.links", *("0-1 1-0" if n % 2 else "0-0 1-1" for n in range(count)))
    values = {"task": "translation", "data": {"memory": {}, "valid": 6}, "model": SMALL, "tokenizer": {"kind": "word"}}
    alignment = {"files": str(tmp_path / "my.links")}
    made = check_config(values | {"training": {"steps": 1, "device": "cpu", "alignment": alignment}}, "test")
    pairs = list(zip(*sides, strict=True))
    task = TASK.prepare(made, {"train": TASK.read_data(pairs, "train", made, Findings())})
    assert "train: 48 links in 24 of 24 pairs (my.links)" in task.notes
    for index in range(24):
        (pair,) = task.input.training(task).examples_at([index])
        turned = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        expected = turned if pair.target.startswith("B") else torch.eye(2)
        assert_close(task.collate([index]).targets["alignment"][0, :2], expected)


def test_further_corpora_have_links_of_their_own_and_may_go_without(folder):
    write_lines(folder / "bt.tsv", "ghar\thome", "ja hoon\tam going")
    write_lines(folder / "bt.links", "0-0", "0-1 1-0")
    extra = {"extra": [{"files": str(folder / "bt.tsv"), "tag": "<bt>"}]}
    both = {"files": [str(folder / "my.links"), str(folder / "bt.links")]}
    task = prepared(folder, both, data=extra)
    alignment = task.collate([0, 8]).targets["alignment"]
    assert_close(alignment[0, :4, :5], TRUE)
    assert_close(alignment[1].nonzero(), torch.tensor([[0, 2], [1, 1]]))  # the tag stands before the source
    without = prepared(folder, data=extra).collate([0, 8]).targets["alignment"]
    assert_close(without[0], alignment[0])
    assert not without[1].any()


@pytest.mark.parametrize(("frame", "first"), [("none", 0), ("end", 0), ("both", 1)])
def test_the_frame_of_a_source_is_not_looked_at(folder, frame, first):
    task = prepared(folder, model={"name": "transformer", "size": "tiny", "source_frame": frame})
    batch = task.collate([0])
    assert_close(batch.targets["alignment"][0, :4, first : first + 5], TRUE)
    assert batch.targets["alignment"].sum() == 4


def test_embedded_data_knows_where_to_look():
    values = {"task": "translation", "data": {"name": "dates", "train": 20, "valid": 5, "test": 5}, "model": SMALL}
    task = TASK.prepare(check_config(values | {"training": {"steps": 1, "alignment": {"data": True}}}, "test"))
    batch, pair = task.collate([3]), task.splits.examples["train"][3]
    spans = [
        tokenizer.encode(text).spans for tokenizer, text in zip(task.tokenizers().values(), pair.texts, strict=True)
    ]
    assert_close(batch.targets["alignment"][0, :-1], rows_of(pair.links, *spans))
    for link in pair.links:
        year = batch.targets["alignment"][0, slice(*link.target)]
        assert (year.argmax(1) >= link.source[0]).all() and (year.argmax(1) < link.source[1]).all()


# --- in training


@pytest.mark.parametrize(("name", "loss"), [("bahdanau", "mse"), ("transformer", "cross_entropy")])
def test_a_model_learns_to_look_where_the_links_say(folder, name, loss):
    model_section = SMALL if name == "bahdanau" else {"name": name, "size": "tiny", "dropout": 0.0}
    task = prepared(folder, {"loss": loss, "weight": 5.0 if loss == "mse" else 2.0}, model=model_section)
    torch.manual_seed(1)
    model = task.build_model()
    batch = task.collate(list(range(5)))
    optimizer = torch.optim.Adam(model.parameters(), 0.005)  # at 0.02 some seeds and processors do not learn it
    for _ in range(160):
        optimizer.zero_grad()
        total = task.loss(model, batch, 0.0)
        assert isinstance(total, Loss) and set(total.parts) == {"text", "alignment"}
        (total.sum / batch.num_targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with trace(model) as seen:
        model(batch.inputs["source"], batch.inputs["source_mask"], batch.forced["target"])
    assert_close(seen.maps("cross").weights.mean(1)[0, :4], TRUE, atol=0.2, rtol=0)


def test_a_chosen_layer_and_heads_are_supervised_and_others_are_not(folder):
    small = {"name": "transformer", "size": "tiny", "num_layers": 2, "num_heads": 4, "d_model": 16, "dropout": 0.0}
    for fields, layer, heads in (
        ({"layer": 0, "heads": 1}, 0, [1]),
        ({"layer": -1, "heads": [0, 2]}, 1, [0, 2]),
        ({"layer": 1}, 1, [0, 1, 2, 3]),
    ):
        task = prepared(folder, fields, model=small)
        torch.manual_seed(0)
        model = task.build_model().eval()
        batch = task.collate([0, 6])
        with trace(model) as seen:
            model(batch.inputs["source"], batch.inputs["source_mask"], batch.forced["target"])
        weights = seen.maps("cross", layer).weights[:, heads].mean(1)
        expected = attention_loss(weights, batch.targets["alignment"], batch.inputs["source_mask"], "cross_entropy")
        assert_close(task.loss(model, batch, 0.0).parts["alignment"], expected, rtol=1e-4, atol=1e-5)


def test_scoring_knows_nothing_of_the_links(folder):
    plain, task = TASK.prepare(config(folder)), prepared(folder)
    torch.manual_seed(0)
    model = plain.build_model().eval()
    assert task.validate(model) == plain.validate(model)
    pairs = task.encoded("valid")
    assert (task.judged(model, pairs) == plain.judged(model, pairs)).all()


def test_a_run_names_both_losses_and_opens_without_its_links(folder):
    train_config(config(folder, {"weight": 0.5}), folder / "run", Quiet())
    logged = [
        line for line in (folder / "run" / "metrics.jsonl").read_text().splitlines() if '"loss.alignment"' in line
    ]
    assert len(logged) == 2 and all('"loss.text"' in line for line in logged)
    (folder / "my.links").unlink()
    again = heed.load(folder / "run")
    assert isinstance(again.predict([SOURCE])[0].text, str)
    assert again.task.config.training.alignment == AlignmentSection(files=[str(folder / "my.links")], weight=0.5)


# --- what cannot be


@pytest.mark.parametrize("lines", [6, 8])
def test_other_than_one_line_a_pair_is_an_error(folder, lines):
    write_lines(folder / "my.links", *["0-0"] * lines)
    with pytest.raises(DataError, match=rf"my.links' has {lines} lines, but train has 7 pairs; line N must contain"):
        prepared(folder)


def test_a_file_without_a_link_of_the_training_pairs_is_an_error(folder):
    write_lines(folder / "my.links", *[""] * 7)
    with pytest.raises(DataError, match=r"my.links' contains no links of the training pairs of train"):
        prepared(folder)


def test_where_no_word_is_called_0_it_is_said_that_words_may_be_counted_from_1(folder):
    write_lines(folder / "my.links", *["1-1 2-2 3-3 4-3"] * 5, "1-1", "1-1")
    notes = prepared(folder).notes
    assert "no link names word 0; if the file counts words from 1, subtract 1 from every number" in notes


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"alignment": {"files": "a"}, "name": "dates"}, "name=dates, because embedded"),
        ({"alignment": {"data": True, "automatic": True}}, "data=true and training.alignment.automatic=true cannot"),
        ({"alignment": {"weight": 2.0}}, "alignment.weight is 2.0, but there are no links"),
        ({"alignment": {"automatic": True, "possible": "ignore"}}, "possible is .ignore., but it applies only to"),
        ({"alignment": {"files": "a", "min": 0.1}}, "alignment.min is 0.1, but it applies only to links from"),
        ({"alignment": {"files": "a", "heads": []}}, "alignment.heads is an empty list; give numbers"),
        ({"alignment": {"files": "a", "heads": -1}}, "training.alignment.heads"),
        ({"alignment": {"file": "a"}}, "unknown field 'training.alignment.file'; did you mean 'files'"),
        ({"alignment": {"files": "a"}, "guided_attention": 1.0}, "guided_attention=1.0 .* combined with .*files=a;"),
        ({"alignment": {"files": ["a", "b"]}}, "files=a,b has 2 files, but training is only on data.train;"),
        ({"alignment": {"data": True}}, "embedded data, which comes with an alignment, but data.train is a.tsv"),
        ({"alignment": {"files": "a"}, "activation_checkpointing": True}, "checkpointing=true, because guided"),
    ],
)  # fmt: skip
def test_fields_that_say_nothing_or_contradict_are_refused(training, message):
    with pytest.raises(ConfigError, match=message):
        own = {"name", "train"}
        data = {name: value for name, value in training.items() if name in own}
        training = {name: value for name, value in training.items() if name not in own}
        check_config({"data": data or {"train": "a.tsv"}, "training": training}, "test")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layer": 2}, "alignment.layer is 2, but model 'transformer' has 2 layers that attend .* from 0 to 1"),
        ({"layer": -3}, "alignment.layer is -3"),
        ({"heads": 4}, "alignment.heads is 4, but that layer of model 'transformer' has 4 heads; heads are"),
        ({"heads": [0, 7]}, r"alignment.heads is \[0, 7\]"),
    ],
)  # fmt: skip
def test_a_layer_or_head_that_is_not_there_is_refused(folder, fields, message):
    model = {"name": "transformer", "size": "tiny", "num_layers": 2, "num_heads": 4}
    with pytest.raises(ConfigError, match=message):
        train_config(config(folder, fields, model=model), folder / "run", Quiet())
    assert not (folder / "run").exists()


@pytest.mark.parametrize(("name", "guided"), [("seq2seq", 0.0), ("rnn", 0.5)])
def test_a_model_without_attention_to_the_source_is_refused_before_training(folder, name, guided):
    field = "guided_attention=0.5" if guided else "alignment.files=.*my.links"
    asked = config(
        folder, None if guided else {}, model={"name": name, "size": "tiny"}, training={"guided_attention": guided}
    )
    with pytest.raises(
        ConfigError, match=f"{field} needs attention to the source, but model '{name}' has none; choose"
    ):
        train_config(asked, folder / "run", Quiet())


# --- learned links, and when they are chosen


@pytest.fixture
def turned(tmp_path):
    """A folder of sixty pairs in which every word has one translation and the order is turned round."""
    words = ["red", "old", "big", "cat", "dog", "man"]
    others = ["rojo", "viejo", "grande", "gato", "perro", "hombre"]
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b] * 2
    write_lines(tmp_path / "my.hi", *(f"{words[a]} {words[b]}" for a, b in pairs))
    write_lines(tmp_path / "my.en", *(f"{others[b]} {others[a]}" for a, b in pairs))
    return tmp_path


def make_tokenizer(texts):
    """Every letter is a token, and so is the blank before a word."""
    letters = len(set("".join(texts) + " "))
    return TextTokenizer.train(texts * 2, TokenizerConfig(kind="bpe", vocab_size=4 + letters))


def test_guides_are_shares_of_a_label_and_the_end_token_looks_where_it_likes():
    source, target = make_tokenizer(["ab c", "ab", "c"]), make_tokenizer(["z xy", "xy", "z"])
    pairs = [("ab c", "z xy"), ("ab", "xy"), ("c", "z")] * 20
    chosen = guides([TokenPair(source.encode(s).ids, target.encode(t).ids) for s, t in pairs], source, target)
    # tokens: blank a b | blank c, and blank z | blank x y: a word's tokens share what the word is read from
    expected = torch.tensor([[0, 0, 0, 0.5, 0.5]] * 2 + [[1 / 3, 1 / 3, 1 / 3, 0, 0]] * 3 + [[0.0] * 5])
    assert_close(chosen[0], expected, atol=0.03, rtol=0)
    assert all((guide.sum(1) <= 1 + 1e-6).all() for guide in chosen)


def test_a_weak_link_says_nothing_and_strong_ones_share_a_row(monkeypatch):
    links = torch.tensor([[0.29, 0.2, 0.0], [0.31, 0.2, 0.29], [0.9, 0.6, 0.1]])
    monkeypatch.setattr("heed.tasks.inputs.supervision.align_tokens", lambda sources, targets: [links])
    words = TextTokenizer.train(["ab c de"] * 2, TokenizerConfig(kind="word", min_count=1))
    ids = words.encode("ab c de").ids
    (guide,) = guides([TokenPair(ids, ids)], words, words)
    assert_close(guide, torch.tensor([[0, 0, 0], [0.31, 0, 0], [0.6, 0.4, 0], [0, 0, 0]]))


def test_text_without_blanks_is_aligned_by_its_tokens():
    tokenizer, chance = make_tokenizer(["abcdefghijkl"]), random.Random(0)
    encoded = [tokenizer.encode("".join(chance.sample("abcdefghijkl", 6))).ids for _ in range(60)]
    pairs = [TokenPair(ids, ids) for ids in encoded]
    guide = guides(pairs, tokenizer, tokenizer)[0]
    assert_close(guide[:-1].argmax(1), torch.arange(len(guide) - 1))


@pytest.mark.parametrize("name", ATTENDS)
def test_guidance_leaves_the_pass_as_it_is_dropout_included(turned, name):
    """The loss is the plain one plus the guidance, to the last digit, drawn with the same dropout masks."""
    values = {"name": name, "size": "tiny", "dropout": 0.4}
    plain, task = (
        TASK.prepare(config(turned, model=values, training={"guided_attention": weight})) for weight in (0.0, 0.5)
    )
    torch.manual_seed(0)
    model = plain.build_model().train()
    batch = task.collate([0, 1, 2])
    assert_close(batch.targets["alignment"][0].argmax(1)[:2], torch.tensor([1, 0]))  # the order is turned round
    assert "alignment" not in plain.collate([0]).targets

    def under_seed(work):
        torch.manual_seed(7)
        return work()

    unguided = under_seed(lambda: plain.loss(model, plain.collate([0, 1, 2]), 0.0))
    with trace(model) as seen:
        under_seed(lambda: model(batch.inputs["source"], batch.inputs["source_mask"], batch.forced["target"]))
    weights = seen.maps("cross").weights.mean(1)
    more = 0.5 * attention_loss(weights, batch.targets["alignment"], batch.inputs["source_mask"], "cross_entropy")
    loss = under_seed(lambda: task.loss(model, batch, 0.0))
    assert_close(loss.sum, unguided + more, rtol=1e-5, atol=1e-5)
    assert_close(loss.parts, {"text": unguided, "alignment": more}, rtol=1e-5, atol=1e-5)
    without = plain.loss(model.eval(), plain.collate([0, 1, 2]), 0.0)
    assert not torch.allclose(without, unguided)


def test_many_pairs_for_a_short_time_on_a_processor_have_them_too(monkeypatch):
    minutes = {"minutes": 2, "device": "cpu"}
    short = chosen(2 * PAIRS_A_MINUTE + 2_001, training=minutes)
    assert (short.model.size, short.training.guided_attention, short.training.minutes) == ("scarce", 1.0, 2)
    guided = [chosen(count, training=minutes).training.guided_attention for count in (50_000, 50_001)]
    assert guided == [1.0, 0.0]  # of more pairs, aligning the words takes minutes
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, "training": minutes})
    assert few_reason(config, 29_000) == "29,000 pairs are more than a CPU can train on in 2 minutes (training.minutes)"
    assert few_reason(config, 500) == "fewer than 10,000 pairs"
    monkeypatch.setattr("heed.tasks.inputs.few_pairs.choose_device", lambda name: torch.device("cuda"))
    assert few_reason(config, 29_000) is None


def chosen(num_pairs, **sections):
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, **sections})
    return for_few_pairs(config, num_pairs, body_class("bahdanau", ("pair_decoder",)))


def test_few_pairs_of_text_have_settings_of_their_own_and_what_is_given_stays():
    few = chosen(FEW_PAIRS - 1)
    assert (few.model.size, few.training.guided_attention, few.generation.beam_size) == ("scarce", 1.0, 5)
    given = chosen(500, training={"guided_attention": 0.0, "minutes": 3}, generation={"beam_size": 1})
    assert (given.model.size, given.training.guided_attention, given.generation.beam_size) == ("scarce", 0.0, 1)
    assert given.training.minutes == 3
    assert few.tokenizer.lowercase == "source" and chosen(500, tokenizer={"shared": True}).tokenizer.lowercase is False


@pytest.mark.parametrize(
    ("num_pairs", "sections"),
    [
        (FEW_PAIRS, {"training": {"minutes": 1.01 * FEW_PAIRS / PAIRS_A_MINUTE}}),
        (10 * FEW_PAIRS, {"training": {"steps": 100}}),
        (500, {"model": {"size": "small"}}),
        (500, {"tokenizer": {"kind": "char"}}),
        (500, {"data": {"name": "dates"}}),
    ],
)
def test_else_nothing_changes(num_pairs, sections):
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, **sections})
    assert for_few_pairs(config, num_pairs, body_class("bahdanau", ("pair_decoder",))) is config


def test_a_size_that_a_model_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"model.size is 'scarce', but AttentionLMConfig has only"):
        model_config(body_class("attention_lm", ("language_model",)), "scarce", {"vocab_size": 9})
