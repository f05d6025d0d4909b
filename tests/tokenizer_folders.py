"""Tokenizer folders with small vocabularies, in the formats of `transformers` and older programs."""

import io
import json
import random

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast, RobertaTokenizer

from multilingual import LINES

LETTERS = "abcdefghijklmnopqrstuvwxyz\u00e4\u00f6\u00fc\u00df\u00e9\u0430\u0431\u0432\u0433\u4f60\u597d"
SEEN = LINES[:14] * 3  # the other lines contain tokens outside every vocabulary
NAMES = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_pieces(lowercase):
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=NAMES, show_progress=False)
    library.train_from_iterator(SEEN, trainer)
    return library.get_vocab()


def byte_pairs(*special):
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(SEEN, trainer)
    model = json.loads(library.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def with_one_more(vocabulary, name):
    return {**vocabulary, name: len(vocabulary)}


CASED, UNCASED = word_pieces(False), word_pieces(True)
OF_GPT2, OF_ROBERTA = byte_pairs(), byte_pairs("<s>", "<pad>", "</s>", "<unk>")
GPT2 = with_one_more(OF_GPT2[0], "<|endoftext|>"), OF_GPT2[1]
ROBERTA = with_one_more(OF_ROBERTA[0], "<mask>"), OF_ROBERTA[1]


def saved(tokenizer, folder, **changes):
    tokenizer.save_pretrained(folder)
    if changes:
        path = folder / "tokenizer_config.json"
        fields = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({name: value for name, value in fields.items() if value != "gone"}))


def vocab_txt(folder, vocabulary, **settings):
    folder.mkdir()
    lines = "".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.get))
    (folder / "vocab.txt").write_text(lines, encoding="utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def merges_txt(folder, vocabulary, merges, **settings):
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{lines}", encoding="utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def with_added(tokenizer):
    tokenizer.add_tokens(["jump", "Really", "\u6211\u7231"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<tag>", "[e1]"]})
    return tokenizer


def legacy_files(folder):
    """The files of folders before `added_tokens_decoder` was introduced."""
    vocab_txt(folder, CASED | {"<first>": len(CASED)}, do_lower_case=False)
    (folder / "added_tokens.json").write_text(json.dumps({"really": len(CASED) + 2, "<tag>": len(CASED) + 1}))
    special = {"cls_token": "<first>", "mask_token": {"content": "[MASK]", "lstrip": True}, "sep_token": "[SEP]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special | {"additional_special_tokens": ["<tag>"]}))


def sentence_pieces():
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in SEEN if line.strip()),
        model_writer=written,
        vocab_size=480,
        model_type="unigram",
        normalization_rule_name="nmt_nfkc",
        character_coverage=1.0,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


def larger_pieces(content, size):
    """A SentencePiece model with drawn pieces after its own, to a size."""
    from sentencepiece import sentencepiece_model_pb2

    model, drawn = sentencepiece_model_pb2.ModelProto.FromString(content), random.Random(1)
    pieces = {piece.piece for piece in model.pieces}
    while len(pieces) < size:
        piece = drawn.choice(("\u2581", "")) + "".join(drawn.choices(LETTERS, k=drawn.randint(2, 9)))
        if piece not in pieces:
            pieces.add(piece)
            model.pieces.add(piece=piece, score=-10 - len(pieces) / size, type=1)
    return model.SerializeToString()


def larger_merges(vocabulary, merges, size):
    """A vocabulary of byte pairs with drawn merges after its own, to a size; its last token stays the last."""
    *names, last = sorted(vocabulary, key=vocabulary.get)
    drawn, tokens, merges = random.Random(1), {*names}, [*merges]
    ends = [name for name in names if name.isalpha() and len(name) < 6]
    while len(names) < size - 1:
        left, right = drawn.choice(names[4:]), drawn.choice(ends)
        if left + right not in tokens and len(left + right) < 14:
            tokens.add(left + right)
            names.append(left + right)
            merges.append((left, right))
    return {name: i for i, name in enumerate([*names, last])}, merges


def spm(folder, size=0):
    folder.mkdir()
    (folder / "sentencepiece.bpe.model").write_bytes(larger_pieces(sentence_pieces(), size))
    (folder / "config.json").write_text('{"model_type": "xlm-roberta"}')


def spm_saved(folder, size=0):
    """XLM-R's `tokenizer.json`, as transformers makes it of a SentencePiece model."""
    spm(folder.with_name("spm"), size)
    AutoTokenizer.from_pretrained(folder.with_name("spm")).save_pretrained(folder)
    assert not (folder / "sentencepiece.bpe.model").exists()


def twice(folder):
    names = sorted(CASED, key=CASED.get)
    vocab_txt(folder, {})
    (folder / "vocab.txt").write_text("\n".join([*names[:300], names[100], *names[300:]]), encoding="utf-8")


def other_ends(folder):
    vocab_txt(folder, {})
    (folder / "vocab.txt").write_bytes("\r\n".join(sorted(CASED, key=CASED.get)).encode())


def old_form(folder):
    saved(RobertaTokenizer(*ROBERTA), folder)
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["model"]["type"]
    values["model"]["merges"] = [" ".join(merge) for merge in values["model"]["merges"]]
    path.write_text(json.dumps(values), encoding="utf-8")


def whole(folder, model, cut, decoder, trainer, normalizer=None, frame=None, **roles):
    library = Tokenizer(model)
    library.pre_tokenizer, library.decoder = cut, decoder
    if normalizer is not None:
        library.normalizer = normalizer
    library.train_from_iterator(SEEN, trainer)
    if frame is not None:
        library.post_processor = frame
    PreTrainedTokenizerFast(tokenizer_object=library, **roles).save_pretrained(folder)


FRAME = processors.TemplateProcessing(
    single="<c> $A <e>", pair="<c> $A <e> $B:1 <e>:1", special_tokens=[("<c>", 2), ("<e>", 3)]
)


def whole_bpe(folder):
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<u>", "<p>", "<c>", "<e>"], show_progress=False)
    normal = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    cut, decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    roles = {"unk_token": "<u>", "pad_token": "<p>", "cls_token": "<c>", "sep_token": "<e>"}
    whole(folder, models.BPE(unk_token="<u>"), cut, decoder, trainer, normal, FRAME, **roles)


def whole_words(folder):
    special = ["[UNK]", "[PAD]", "<c>", "<e>"]
    trainer = trainers.WordLevelTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    roles = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "<c>", "sep_token": "<e>"}
    model, cut = models.WordLevel(unk_token="[UNK]"), pre_tokenizers.Whitespace()
    whole(folder, model, cut, None, trainer, None, FRAME, **roles)


def whole_unigram(folder):
    special = ["<unk>", "<mask>", "<c>", "<e>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=special, show_progress=False)
    cut, decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    roles = {"unk_token": "<unk>", "cls_token": "<c>", "sep_token": "<e>", "mask_token": "<mask>"}
    whole(folder, models.Unigram(), cut, decoder, trainer, None, FRAME, **roles)


def bert(vocabulary, lowercase, added=False, **changes):
    def make(folder):
        tokenizer = BertTokenizer(vocab=dict(vocabulary), do_lower_case=lowercase)
        saved(with_added(tokenizer) if added else tokenizer, folder, **changes)

    return make


FOLDERS = {
    "bert": ("bert", bert(UNCASED, True)),
    "bert cased": ("bert", bert(CASED, False)),
    "bert, lower case against tokenizer.json": ("bert", bert(CASED, False, do_lower_case=True)),
    "bert, cased against tokenizer.json": ("distilbert", bert(UNCASED, True, do_lower_case=False)),
    "bert, nothing said of case": ("bert", bert(CASED, False, do_lower_case="gone")),
    "bert, accents kept": ("bert", bert(UNCASED, True, strip_accents=False)),
    "bert, no Chinese": ("bert", bert(CASED, False, tokenize_chinese_chars=False)),
    "bert, class by config.json": ("distilbert", bert(CASED, False, tokenizer_class="gone")),
    "bert, added tokens": ("bert", bert(UNCASED, True, added=True)),
    "bert, tokenizer.json as it is": ("bert", bert(CASED, False, tokenizer_class="PreTrainedTokenizerFast")),
    "vocab.txt": ("bert", lambda folder: vocab_txt(folder, UNCASED)),
    "vocab.txt cased": ("distilbert", lambda folder: vocab_txt(folder, CASED, do_lower_case=False)),
    "files of old versions": ("bert", legacy_files),
    "vocab.txt, a line twice": ("bert", twice),
    "vocab.txt, other line ends": ("bert", other_ends),
    "gpt2": ("gpt2", lambda folder: saved(GPT2Tokenizer(*GPT2), folder)),
    "gpt2, blank in front": ("gpt2", lambda folder: saved(GPT2Tokenizer(*GPT2), folder, add_prefix_space=True)),
    "gpt2, padding added": ("gpt2", lambda folder: saved(with_added(GPT2Tokenizer(*GPT2, pad_token="[PAD]")), folder)),
    "gpt2, padding is the end": ("gpt2", lambda folder: saved(GPT2Tokenizer(*GPT2), folder, pad_token="<|endoftext|>")),
    "gpt2, vocab.json and merges.txt": ("gpt2", lambda folder: merges_txt(folder, *GPT2)),
    "gpt2 with word pieces": ("gpt2", bert(UNCASED, True)),
    "roberta": ("roberta", lambda folder: saved(RobertaTokenizer(*ROBERTA), folder)),
    "roberta, tokenizer.json of old versions": ("roberta", old_form),
    "roberta, blank in front": ("roberta", lambda f: saved(RobertaTokenizer(*ROBERTA, add_prefix_space=True), f)),
    "roberta, vocab.json and merges.txt": ("roberta", lambda folder: merges_txt(folder, *ROBERTA)),
    "xlm-roberta": ("xlm-roberta", spm_saved),
    "bpe as it is": ("bert", whole_bpe),
    "words as they are": ("bert", whole_words),
    "unigram as it is": ("roberta", whole_unigram),
}
