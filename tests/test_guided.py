"""Guided attention: the loss, what it does to a model, where it is refused, and when it is chosen."""

import random

import pytest
import torch
from torch.testing import assert_close

from heed import trace
from heed.config import TokenizerConfig
from heed.data.batch.pairs import TokenPair
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.registry import body_class, list_models, model_config
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.supervision import attention_loss, guides
from heed.tasks.translation.task import Translation
from heed.tasks.translation.tokenizers import FEW_PAIRS, PAIRS_A_MINUTE, few_because, for_few_pairs

PAIR_DECODERS = [name for name, body in list_models() if body.interface == "pair_decoder"]
NO_ATTENTION = ["seq2seq", "rnn"]


@pytest.fixture
def files(tmp_path):
    """Sixty pairs in which every word has one translation and the order is turned round."""
    words = ["red", "old", "big", "cat", "dog", "man"]
    others = ["rojo", "viejo", "grande", "gato", "perro", "hombre"]
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b] * 2
    (tmp_path / "my.en").write_text("".join(f"{words[a]} {words[b]}\n" for a, b in pairs))
    (tmp_path / "my.es").write_text("".join(f"{others[b]} {others[a]}\n" for a, b in pairs))
    return [str(tmp_path / "my.en"), str(tmp_path / "my.es")]


def make_tokenizer(texts):
    """Every letter is a token, and so is the blank before a word."""
    letters = len(set("".join(texts) + " "))
    return TextTokenizer.train(texts * 2, TokenizerConfig(kind="bpe", vocab_size=4 + letters))


def make_task(files, model=None, **training):
    return Translation.prepare(
        TranslationConfig.model_validate(
            {
                "data": {"train": files, "valid": 6},
                "tokenizer": {"kind": "word", "min_count": 1},
                "model": model
                or {"name": "bahdanau", "size": "tiny", "d_embedding": 16, "d_hidden": 16, "d_attention": 16},
                "training": {"steps": 1, **training},
            }
        )
    )


def test_the_loss_is_the_cross_entropy_against_the_alignment():
    weights = torch.tensor([[[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]])
    alignment = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.25, 0.5, 0.0]]])
    expected = -(torch.tensor(0.7).log() + 0.25 * torch.tensor(0.2).log() + 0.5 * torch.tensor(0.8).log())
    assert_close(attention_loss(weights, alignment, torch.ones(1, 3, dtype=torch.bool), "cross_entropy"), expected)


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
    monkeypatch.setattr("heed.tasks.translation.supervision.align_tokens", lambda sources, targets: [links])
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


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", [name for name in PAIR_DECODERS if name not in NO_ATTENTION])
def test_guidance_leaves_the_pass_as_it_is_dropout_included(files, name, dropout):
    """The loss is the plain one plus the guidance, to the last digit, drawn with the same dropout masks."""
    values = {"name": name, "size": "tiny", "dropout": dropout}
    plain, task = (make_task(files, values, guided_attention=weight) for weight in (0.0, 0.5))
    torch.manual_seed(0)
    model = plain.build_model().train()
    batch = task.collate([0, 1, 2])

    def under_seed(work):
        torch.manual_seed(7)
        return work()

    unguided = under_seed(lambda: plain.loss(model, plain.collate([0, 1, 2]), 0.0))
    with trace(model) as seen:
        under_seed(lambda: model(batch.source, batch.source_mask, batch.target))
    weights = seen.maps("cross").weights.mean(1)
    more = 0.5 * attention_loss(weights, batch.alignment, batch.source_mask, "cross_entropy")
    loss = under_seed(lambda: task.loss(model, batch, 0.0))
    assert_close(loss.sum, unguided + more, rtol=1e-5, atol=1e-5)
    assert_close(loss.parts, {"text": unguided, "alignment": more}, rtol=1e-5, atol=1e-5)
    if dropout:
        without = plain.loss(model.eval(), plain.collate([0, 1, 2]), 0.0)
        assert not torch.allclose(without, unguided)


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_a_model_without_attention_to_the_source_cannot_be_guided(files, name):
    task = make_task(files, {"name": name, "size": "tiny"}, guided_attention=0.5)
    message = rf"guided_attention=0.5 needs attention to the source, but model '{name}' has none"
    with pytest.raises(ConfigError, match=message):
        task.loss(task.build_model(), task.collate([0]), 0.0)


def test_a_few_updates_turn_attention_to_the_aligned_words(files):
    task = make_task(files, guided_attention=1.0)
    torch.manual_seed(0)
    model = task.build_model()
    batch = task.collate(list(range(20)))
    assert_close(batch.alignment[0].argmax(1)[:2], torch.tensor([1, 0]))  # the order is turned round
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        (task.loss(model, batch, 0.0).sum / batch.num_targets).backward()
        optimizer.step()
    model.eval()
    with trace(model) as seen:
        model(batch.source, batch.source_mask, batch.target)
    assert_close(seen.maps("cross").weights.mean(1)[0, :2].argmax(1), torch.tensor([1, 0]))


def test_a_weight_of_zero_is_the_loss_without_it(files):
    plain, task = make_task(files, guided_attention=0.0), make_task(files, guided_attention=0.5)
    torch.manual_seed(0)
    model = plain.build_model().eval()
    assert plain.collate([0, 1]).alignment is None
    batch = task.collate([0, 1])
    with trace(model, mechanism="cross", layer=-1) as seen:
        model(batch.source, batch.source_mask, batch.target)
    more = 0.5 * attention_loss(seen.weights().mean(1), batch.alignment, batch.source_mask, "cross_entropy")
    assert_close(task.loss(model, batch, 0.0).sum, plain.loss(model, plain.collate([0, 1]), 0.0) + more)


def test_many_pairs_for_a_short_time_on_a_processor_have_them_too(monkeypatch):
    minutes = {"minutes": 2, "device": "cpu"}
    short = chosen(2 * PAIRS_A_MINUTE + 2_001, training=minutes)
    assert (short.model.size, short.training.guided_attention, short.training.minutes) == ("scarce", 1.0, 2)
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, "training": minutes})
    assert (
        few_because(config, 29_000) == "29,000 pairs are more than a CPU can train on in 2 minutes (training.minutes)"
    )
    assert few_because(config, 500) == "fewer than 10,000 pairs"
    monkeypatch.setattr("heed.tasks.translation.tokenizers.choose_device", lambda name: torch.device("cuda"))
    assert few_because(config, 29_000) is None


def test_an_alignment_holds_for_one_cut_only():
    with pytest.raises(ValueError, match=r"guided_attention=1.0 cannot be .* tokenizer.sampling=0.1, .*set only"):
        TranslationConfig.model_validate(
            {"data": {"train": "a.tsv"}, "tokenizer": {"sampling": 0.1}, "training": {"guided_attention": 1.0}}
        )


def test_a_size_that_a_model_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"model.size is 'scarce', but AttentionLMConfig has only"):
        model_config(body_class("attention_lm", ("language_model",)), "scarce", {"vocab_size": 9})


def chosen(num_pairs, **sections):
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, **sections})
    return for_few_pairs(config, num_pairs, body_class("bahdanau", ("pair_decoder",)))


def test_few_pairs_of_text_have_settings_of_their_own_and_what_is_given_stays():
    few = chosen(FEW_PAIRS - 1)
    assert (few.model.size, few.training.guided_attention, few.generation.beam_size) == ("scarce", 1.0, 5)
    given = chosen(500, training={"guided_attention": 0.0, "minutes": 3}, generation={"beam_size": 1})
    assert (given.model.size, given.training.guided_attention, given.generation.beam_size) == ("scarce", 0.0, 1)
    assert given.training.minutes == 3
    assert chosen(500, tokenizer={"sampling": 0.1}).training.guided_attention == 0
    assert few.tokenizer.lowercase == "source" and chosen(500, tokenizer={"shared": True}).tokenizer.lowercase is False


@pytest.mark.parametrize(
    ("num_pairs", "sections"),
    [
        (FEW_PAIRS, {"training": {"minutes": 1.01 * FEW_PAIRS / PAIRS_A_MINUTE}}),
        (10 * FEW_PAIRS, {"training": {"steps": 100}}),
        (10 * FEW_PAIRS, {"data": {"train": "a.tsv", "stream": True, "valid": 10}, "training": {"minutes": 1}}),
        (500, {"model": {"size": "small"}}),
        (500, {"tokenizer": {"kind": "char"}}),
        (500, {"data": {"name": "dates"}}),
    ],
)
def test_else_nothing_changes(num_pairs, sections):
    config = TranslationConfig.model_validate({"data": {"train": "a.tsv"}, **sections})
    assert for_few_pairs(config, num_pairs, body_class("bahdanau", ("pair_decoder",))) is config
