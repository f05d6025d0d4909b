"""Looking inside imported models: every layer and head, long texts, special tokens by name, tokens or words."""

import re

import numpy as np
import pytest
import torch

import heed
import marian
import test_checkpoints_vit
from checkpoints import byte_pairs, randomise, word_pieces, write_byte_pairs, write_word_pieces
from opening import open_all, run_numpy

transformers = pytest.importorskip("transformers")
TEXT = "the man went to the store, and bought two milkings! one"


def bert(folder, kind, layers=2, heads=3, positions=512, **more):
    tokens = word_pieces(99)
    config = transformers.BertConfig(
        vocab_size=len(tokens), hidden_size=24, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=8, max_position_embeddings=positions, pad_token_id=tokens.index("[PAD]"), **more,
    )  # fmt: skip
    return saved(folder, f"Bert{kind}", config, lambda: write_word_pieces(folder, tokens))


def gpt2(folder, kind, layers=2, heads=3, positions=512, **more):
    tokens, merges = byte_pairs(268, special=("<|endoftext|>",))
    end = tokens.index("<|endoftext|>")
    config = transformers.GPT2Config(
        vocab_size=len(tokens), n_embd=24, n_layer=layers, n_head=heads, n_positions=positions, bos_token_id=end,
        eos_token_id=end, pad_token_id=end, **more,
    )  # fmt: skip
    roles = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    return saved(
        folder, f"GPT2{kind}", config,
        lambda: write_byte_pairs(folder, tokens, merges, tokenizer_class="GPT2Tokenizer", **roles),
    )  # fmt: skip


def saved(folder, architecture, config, write_tokenizer):
    folder.mkdir()
    config._attn_implementation = "eager"
    model = randomise(getattr(transformers, architecture)(config))
    model.save_pretrained(folder)
    write_tokenizer()
    return model


def imported(tmp_path, make, kind, **more):
    model = make(tmp_path / "theirs", kind, **more)
    return heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True), model


CASES = [
    *((bert, "ForMaskedLM"), (bert, "ForSequenceClassification"), (bert, "ForTokenClassification")),
    *((gpt2, "LMHeadModel"), (gpt2, "ForSequenceClassification"), (gpt2, "ForTokenClassification")),
]


def options_for(run, pieces):
    """The options of a look at the text alone, its tokens or its words."""
    if run.config.task == "language_modelling":
        return {"given": True, "words": not pieces}
    return {"pieces": pieces}


@pytest.mark.parametrize(("make", "kind"), CASES)
def test_every_layer_and_head_is_shown_as_theirs(tmp_path, make, kind):
    run, model = imported(tmp_path, make, kind)
    look = run.look(TEXT, layer="all", head="all", **options_for(run, pieces=True))
    assert [(one.layer, one.head) for one in look.maps] == [(i, h) for i in range(2) for h in range(3)]
    ids = run.tokenizer.encode(TEXT).ids
    if run.config.task == "tagging":  # words are cut one by one
        ids = [i for word in run.tokenizer.encode_words([re.findall(r"\w+|[^\w\s]", TEXT)])[0] for i in word]
    if make is bert:
        ids = [run.tokenizer.special.start, *ids, run.tokenizer.special.end]
        assert look.maps[0].query.labels[0] == "[CLS]" and look.maps[0].key.labels[-1] == "[SEP]"
        assert "##ing" in look.maps[0].query.labels
    assert len(look.maps[0].query) == len(look.maps[0].key) == len(ids)
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_attentions=True)
    for one in look.maps:
        torch.testing.assert_close(one.weights, out.attentions[one.layer][0, one.head], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("make", "kind"), CASES)
def test_pieces_are_joined_to_words(tmp_path, make, kind):
    run, _ = imported(tmp_path, make, kind)
    words = run.look(TEXT, head="all", **options_for(run, pieces=False)).maps
    pieces = run.look(TEXT, head="all", **options_for(run, pieces=True)).maps
    labels = list(words[0].query.labels)
    if make is bert:
        assert labels.pop(0) == "[CLS]" and labels.pop() == "[SEP]"
    assert labels == re.findall(r"\w+|[^\w\s]", TEXT)
    assert len(pieces[0].query) > len(words[0].query)
    for word, piece in zip(words, pieces, strict=True):
        torch.testing.assert_close(word.weights.sum(1), torch.ones(len(word.query)))
        assert "Words: weights are summed" in word.caption and "Words: weights are summed" not in piece.caption
    groups, found = [], ""
    for n, label in enumerate(pieces[0].key.labels):  # the pieces of each word, by their letters
        whole = words[0].key.labels[len(groups) - 1] if groups else None
        if found == whole or whole is None:
            groups.append([])
            found = ""
        groups[-1].append(n)
        found += label.removeprefix("##").strip(" \u2581")
    assert len(groups) == len(words[0].key)
    member = torch.tensor([[float(n in group) for n in range(len(pieces[0].key))] for group in groups])
    expected = member / member.sum(1, keepdim=True) @ pieces[0].weights @ member.T
    torch.testing.assert_close(words[0].weights, expected)


def test_the_end_token_before_a_text_has_its_own_name(tmp_path):
    run, _ = imported(tmp_path, gpt2, "LMHeadModel")
    run.task.config.generation.__dict__["first_token"] = True
    (one,) = run.look("the man", given=True).maps
    assert one.query.labels[0] == "<|endoftext|>"


def test_the_surprisal_of_words_is_the_sum_over_their_tokens(tmp_path):
    run, _ = imported(tmp_path, gpt2, "LMHeadModel")
    tokens, words = (run.look(TEXT, given=True, words=joined).look.shadings[0] for joined in (False, True))
    assert len(words.weights) < len(tokens.weights)
    assert sum(words.weights) == pytest.approx(sum(tokens.weights))
    written = run.look("the man", length=3, words=True)
    assert any(label.startswith("+") for label in written.maps[0].query.labels)
    assert len(written.look.shadings) == 2


def assert_drawn(look):
    for drawn in (look.text(), look.html(), *(look.svg(i) for i in range(len(look.maps)))):
        assert len(drawn) > 500


def test_every_attention_of_marian_is_shown_as_theirs_and_drawn(tmp_path):
    pytest.importorskip("sentencepiece")
    (tmp_path / "theirs").mkdir()
    tables = marian.write_tokenizers(tmp_path / "theirs", marian.train_pieces(tmp_path / "theirs"))
    model = marian.write_model(tmp_path / "theirs", tables).eval()
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    source, target = "We went to the market.", "Der alte Mann wohnt."
    look = run.look(source, target=target, layer="all", head="all")
    ids = run.input.framed(run.input.source_tokenizer.encode(source).ids)
    written = run.input.target_tokenizer.encode(target).ids
    read = torch.tensor([[model.config.decoder_start_token_id, *written]])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), decoder_input_ids=read, output_attentions=True)
    theirs = {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions, "cross": out.cross_attentions}
    assert {one.mechanism for one in look.maps} == {*theirs}
    sides = {"source": (run.input.source_tokenizer, ids), "target": (run.input.target_tokenizer, written)}
    for one in look.maps:
        expected = theirs[one.mechanism][one.layer][0, one.head]
        rows, columns = (words_of(axis, sides) for axis in (one.query, one.key))
        torch.testing.assert_close(
            one.weights, rows / rows.sum(1, keepdim=True) @ expected @ columns.T, rtol=1e-5, atol=1e-5
        )
    assert_drawn(look)


def words_of(axis, sides):
    """`(words, tokens)`, 1 where a token belongs to a word of an axis: "source", "target", or "target read"."""
    tokenizer, ids = sides[axis.name.split()[0]]
    special = tokenizer.special
    ids = {"source": ids, "target": [*ids, special.end], "target read": [special.start, *ids]}[axis.name]
    groups = tokenizer.words(list(ids))
    assert len(groups) == len(axis)
    return torch.tensor([[float(n in group) for n in range(len(ids))] for group in groups])


def test_every_attention_of_vit_is_shown_as_theirs_and_drawn(tmp_path):
    model = test_checkpoints_vit.vit(tmp_path / "theirs")
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    picture = np.random.default_rng(1).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    look = run.look(picture, map="attention", layer="all", head="all")
    pixels = run.input.form.tensor([picture])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = model.eval()(pixels, output_attentions=True).attentions
    numbers = [[int(part.split()[-1]) for part in one.title.partition(": ")[2].split(", ")] for one in look.maps]
    for one, (layer, head) in zip(look.maps, [(n[0], n[1]) for n in numbers], strict=True):
        expected = theirs[layer][0, head, 0]
        torch.testing.assert_close(one.weights.flatten(), expected[1:], rtol=1e-5, atol=1e-5)
        assert one.outside == pytest.approx(float(expected[0]), abs=1e-5)
    assert len(numbers) == len(theirs) * theirs[0].shape[1]
    assert_drawn(look)


@pytest.mark.parametrize(("make", "kind"), [(bert, "ForMaskedLM"), (gpt2, "LMHeadModel")])
def test_a_word_of_several_pieces_opens_and_maps_are_drawn(tmp_path, make, kind):
    run, _ = imported(tmp_path, make, kind)
    look = run.look(TEXT, head="all", layer="all", **options_for(run, pieces=False))
    assert_drawn(look)
    look = run.look(TEXT, head=1, **options_for(run, pieces=False))
    row = look.maps[0].query.labels.index("milkings")
    number = look.number(row, row)
    assert number.breakdown.parts.numel() > 1 and "what the weight is made of" in number.text()
    assert run_numpy(number) == pytest.approx(float(look.maps[0].weights[row, row]), abs=1e-5)
    assert open_all(look)
