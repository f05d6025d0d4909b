"""Imported models with only the tokens that some texts use: texts cut as before, logits and outputs of those tokens."""

import pytest
import torch
from torch.testing import assert_close

import heed
import marian
from checkpoints import byte_pairs, randomise, word_pieces, write_byte_pairs, write_word_pieces
from commands import call
from heed.errors import DataError

transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
OTHERS = ["Quite another text, with words and symbols: \u20ac 7 # x.", "Zebras jog over vexing quartz!", "  "]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["unigram", "bpe", "apart"])
def pair(request, tmp_path_factory):
    """A small Marian whole and trimmed to two sentences, and the sentences' files."""
    folder = tmp_path_factory.mktemp(request.param)
    (files := folder / "files").mkdir()
    kind = {} if request.param == "unigram" else {"model_type": "bpe"}
    apart = request.param == "apart"
    tables = marian.write_tokenizers(files, marian.train_pieces(files, **kind), separate=apart, left_out=0)
    shared = {"share_encoder_decoder_embeddings": not apart, "tie_word_embeddings": not apart}
    marian.write_model(files, tables, scale=0.1, **shared)
    texts = [write(folder / "my.en", marian.ENGLISH[:2]), write(folder / "my.de", marian.GERMAN[:2])]
    whole = heed.import_model(files, folder / "whole", quiet=True)
    return whole, heed.import_model(files, folder / "trimmed", trim=texts, quiet=True), texts


def names(tokenizer, text):
    return [tokenizer.token(i) for i in tokenizer.encode(text).ids]


def test_texts_are_cut_as_before_into_fewer_different_tokens(pair):
    whole, trimmed, _ = pair
    for role, lines in (("source", marian.ENGLISH[:2]), ("target", marian.GERMAN[:2])):
        before, after = whole.task.tokenizers()[role], trimmed.task.tokenizers()[role]
        assert after.vocab_size < before.vocab_size
        assert {*after.tokens} < {*before.tokens} and [t for t in before.tokens if t in {*after.tokens}] == after.tokens
        for line in (*lines, lines[0] * 2):
            assert names(after, line) == names(before, line)
            assert after.decode(after.encode(line).ids) == before.decode(before.encode(line).ids)
        for line in OTHERS:  # in more tokens, but of the same characters
            assert len(names(after, line)) >= len(names(before, line))
            assert after.unknown_in(line) == before.unknown_in(line)


def test_logits_of_the_tokens_are_those_of_the_whole_model(pair):
    whole, trimmed, _ = pair
    inputs = {}
    for run in (whole, trimmed):
        work = run.task
        source = torch.tensor([run.input.framed(run.input.source_tokenizer.encode(marian.ENGLISH[1]).ids)])
        tokenizer = work.tokenizers()["target"]
        target = torch.tensor([[tokenizer.special.start, *tokenizer.encode(marian.GERMAN[1]).ids]])
        with torch.no_grad():
            inputs[run] = run.model.output(run.model(source, torch.ones_like(source, dtype=torch.bool), target))
    ids = [whole.task.tokenizers()["target"].tokens.index(t) for t in trimmed.task.tokenizers()["target"].tokens]
    assert_close(inputs[trimmed], inputs[whole][..., ids], **CLOSE)


def test_greedy_outputs_are_the_same_where_they_have_only_those_tokens(pair):
    whole, trimmed, _ = pair
    vocabulary = {*trimmed.task.tokenizers()["target"].tokens}
    texts = [*marian.ENGLISH[:2], "The dog bought milk.", "We said 13!", "She jumps.", "over the market"]
    same = 0
    for before, after in zip(whole.predict(texts), trimmed.predict(texts), strict=True):
        if {*before.tokens} <= vocabulary:
            same += 1
            assert after.text == before.text and after.log_prob >= before.log_prob - 1e-4
    assert same


def test_an_export_is_read_by_transformers_with_the_same_tokens(pair, tmp_path):
    _, trimmed, _ = pair
    heed.export(trimmed, "huggingface", out=tmp_path / "out")
    again = heed.import_model(tmp_path / "out", tmp_path / "again", quiet=True)
    for role, tokenizer in again.task.tokenizers().items():
        assert tokenizer.tokens == trimmed.task.tokenizers()[role].tokens
        assert names(tokenizer, marian.ENGLISH[0]) == names(trimmed.task.tokenizers()[role], marian.ENGLISH[0])
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert model.config.vocab_size == trimmed.task.tokenizers()["source"].vocab_size


def test_a_check_says_that_other_texts_are_cut_into_more_tokens(pair):
    whole, trimmed, texts = pair
    remark = f"trimmed to the tokens of {', '.join(map(str, texts))}: other texts are cut into more tokens"
    assert remark in heed.check_run(trimmed.folder).remarks
    assert not heed.check_run(whole.folder).remarks


def test_a_trimmed_model_is_trained_further(pair, tmp_path):
    _, trimmed, _ = pair
    pairs = [*zip(marian.ENGLISH, marian.GERMAN, strict=True)]
    child = heed.train(
        "translation", train=pairs, valid=pairs[:4], parent=trimmed.folder, steps=1, out=tmp_path / "child", quiet=True
    )
    tokens = child.task.tokenizers()["source"].tokens
    assert tokens == trimmed.task.tokenizers()["source"].tokens
    assert not child.report["parent"]["new"]


def test_word_pieces_are_trimmed(tmp_path):
    tokens = word_pieces(120)
    config = transformers.BertConfig(
        vocab_size=len(tokens), hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=24,
        max_position_embeddings=40, pad_token_id=tokens.index("[PAD]"),
    )  # fmt: skip
    files = tmp_path / "files"
    randomise(transformers.BertForMaskedLM(config)).save_pretrained(files)
    write_word_pieces(files, tokens)
    text = "the man went to a store and bought milk"
    whole = heed.import_model(files, tmp_path / "whole", quiet=True)
    trimmed = heed.import_model(files, tmp_path / "trimmed", trim=[write(tmp_path / "t.txt", [text])], quiet=True)
    assert trimmed.tokenizer.vocab_size < whole.tokenizer.vocab_size
    assert names(trimmed.tokenizer, text) == names(whole.tokenizer, text)
    assert trimmed.tokenizer.mask is not None
    before, after = (run.look(text).look.maps for run in (whole, trimmed))
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        assert_close(torch.as_tensor(b.weights), torch.as_tensor(a.weights), **CLOSE)
    again = heed.export(trimmed, "huggingface", out=tmp_path / "out")
    assert again.difference < 1e-5


def test_byte_pairs_are_trimmed_with_the_parts_of_their_merges(tmp_path):
    tokens, merges = byte_pairs(269, special=("<s>", "</s>"))
    config = transformers.GPT2Config(
        vocab_size=len(tokens), n_positions=20, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    files = tmp_path / "files"
    randomise(transformers.GPT2LMHeadModel(config)).save_pretrained(files)
    ends = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<s>")
    write_byte_pairs(files, tokens, merges, tokenizer_class="GPT2Tokenizer", **ends)
    text = "see the man"  # " man" is merged from " m" and "an", which the text does not have alone
    whole = heed.import_model(files, tmp_path / "whole", quiet=True)
    trimmed = heed.import_model(files, tmp_path / "trimmed", trim=[write(tmp_path / "t.txt", [text])], quiet=True)
    assert names(trimmed.tokenizer, text) == names(whole.tokenizer, text)
    assert {"\u0120m", "an", "\u0120man"} < {*trimmed.tokenizer.tokens} and "re" not in trimmed.tokenizer.tokens
    assert names(trimmed.tokenizer, "over \u20ac") == [*"over", "\u0120", "\u00e2", "\u0124", "\u00ac"]
    assert heed.export(trimmed, "huggingface", out=tmp_path / "out").difference < 1e-5


def test_the_command(pair, tmp_path, capsys, monkeypatch):
    whole, trimmed, texts = pair
    monkeypatch.chdir(tmp_path)
    files = whole.folder.parent / "files"
    status, out, _ = call(capsys, "import", files, "--out", "small", "--trim", *texts)
    sizes = [run.task.tokenizers()["source"].vocab_size for run in (trimmed, whole)]
    assert status == 0 and f"trimmed to {sizes[0]} of {sizes[1]} tokens" in out
    assert heed.load("small").report["imported"]["trimmed"]["files"] == [*map(str, texts)]


def test_what_cannot_be_trimmed_is_said(pair, tmp_path):
    files = pair[0].folder.parent / "files"
    with pytest.raises(DataError, match=r"no\.txt"):
        heed.import_model(files, tmp_path / "a", trim=[tmp_path / "no.txt"], quiet=True)
    assert not (tmp_path / "a").exists()
