"""Random BART, M2M-100 and NLLB models, imported: the same logits, maps, tokens and texts as in `transformers`."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.testing import assert_close

import heed
import marian
from commands import call
from contract import collate_pairs
from heed.data.batch import TokenPair
from heed.data.examples import Pair
from heed.errors import ConfigError
from heed.exchange.huggingface.encoder_decoder import _LANGUAGES, M2M100
from heed.runs.checkpoints import import_checkpoint
from heed.watch.trace import trace

pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")

TEXTS = [*marian.ENGLISH[:4], "fox", "apples , apples", "The dog's  price", "\u00c4pfel und Milch"]
PAIRS = [*zip(marian.ENGLISH, marian.GERMAN, strict=True)]
LANGUAGES = {"nllb": ("eng_Latn", "deu_Latn", "fra_Latn"), "m2m": ("en", "de", "fr"), "bart": (None, None, None)}
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}
SEARCHES = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 5},
    "ngrams": {"num_beams": 1, "no_repeat_ngram_size": 2},
    "summary": {
        "num_beams": 4,
        "no_repeat_ngram_size": 3,
        "length_penalty": 2.0,
        "early_stopping": True,
        "min_length": 6,
    },
}
UNTIED = {"tie_word_embeddings": False}
SHAPES = {
    "plain": {},
    "untied": UNTIED,
    "odd": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 5},
    "deep-encoder": {"encoder_layers": 3, "decoder_layers": 1, "scale_embedding": True},
    "unlike": {"decoder_attention_heads": 2, "decoder_ffn_dim": 40, "activation_function": "silu"},
}


def bpe(byte_level):
    """Tokens and merges of a small BPE."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    trained.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Metaspace()
    )
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator([*marian.ENGLISH, *marian.GERMAN], trainer)
    model = json.loads(trained.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def write_tokenizer(family, folder):
    """The library's tokenizer, saved into the folder, and its number of rows."""
    first, second, third = LANGUAGES[family]
    if family == "bart":
        vocabulary, merges = bpe(byte_level=True)
        tokenizer = transformers.BartTokenizer(vocab=vocabulary | {"<mask>": len(vocabulary)}, merges=merges)
    elif family == "nllb":
        vocabulary, merges = bpe(byte_level=False)
        names = [first, second, third]
        tokenizer = transformers.NllbTokenizer(
            vocab=vocabulary, merges=merges, additional_special_tokens=names, src_lang=first, tgt_lang=second
        )
    else:
        _, names = marian.train_pieces(folder, model_type="bpe", vocab_size=150)
        (folder / "source.spm").unlink()
        (folder / "target.spm").rename(folder / "sentencepiece.bpe.model")
        names = ["<s>", "<pad>", "</s>", "<unk>", *[name for name in names if name not in ("<s>", "</s>", "<unk>")]]
        (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
        files = folder / "vocab.json", folder / "sentencepiece.bpe.model"
        tags = [f"__{code}__" for code in _LANGUAGES["m2m100"].split()]
        tokenizer = transformers.M2M100Tokenizer(
            *map(str, files), src_lang=first, tgt_lang=second, additional_special_tokens=tags
        )
        tokenizer.save_pretrained(folder)
        return tokenizer, len(names) + 100
    tokenizer.save_pretrained(folder)
    return tokenizer, len(tokenizer)


def checkpoint(folder, family, seed=1, generation=None, scale=0.3, **fields):
    """A folder as `save_pretrained` leaves it, the model, and the tokenizer."""
    folder.mkdir()
    tokenizer, rows = write_tokenizer(family, folder)
    config, kind = {
        "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration),
    }.get(family, (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration))
    torch.manual_seed(seed)
    model = kind(config(vocab_size=rows, forced_eos_token_id=None, **{**SIZES, **fields})).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=scale)
        if family == "bart":
            model.final_logits_bias.normal_(generator=generator)
            model.final_logits_bias[0, 2] += 2
    target = LANGUAGES[family][1]
    forced = 0 if target is None else tokenizer.convert_tokens_to_ids(target if family == "nllb" else f"__{target}__")
    names = [tokenizer.convert_ids_to_tokens(i) for i in range(rows)]
    tags = {"<s>", "<pad>"} | {*LANGUAGES[family]} | {name for name in names if name.startswith("__")}
    never = [[i] for i, name in enumerate(names) if name in tags]
    model.generation_config = transformers.GenerationConfig(
        **{
            "bad_words_ids": never,
            "max_length": 20,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "bos_token_id": 0,
            "decoder_start_token_id": 2,
            "forced_bos_token_id": forced,
            **(generation or {}),
        }
    )
    model.save_pretrained(folder)
    model.set_attn_implementation("eager")
    return model, tokenizer


def imported(folder):
    return import_checkpoint(folder, folder.parent / f"{folder.name}-run").run


def batch(run, seed=1):
    """Ragged sources and targets of random tokens, framed as the run frames them; ours and theirs."""
    drawn, tokenizer, input = random.Random(seed), run.input.target_tokenizer, run.input
    known = [i for i in range(4, tokenizer.vocab_size) if i not in tokenizer.tags.values()]
    rows = [
        TokenPair(input.framed(drawn.choices(known, k=n)), [*input.target_prefix, *drawn.choices(known, k=m)])
        for n, m in ((9, 5), (1, 7), (30, 2), (4, 12))
    ]
    ours = collate_pairs(rows, list(range(len(rows))), tokenizer.special)
    # Their positions leave out padding tokens.
    source, target = (
        tokens.masked_fill(~mask, 1)
        for tokens, mask in ((ours.source, ours.source_mask), (ours.target, ours.target_mask))
    )
    theirs = {"input_ids": source, "attention_mask": ours.source_mask.long(), "decoder_input_ids": target}
    return ours, theirs


def assert_same_tokens(model, library, run, folder, texts=TEXTS):
    for text, prediction in zip(texts, run.predict(texts), strict=True):
        inputs = library(text, return_tensors="pt")
        (written,) = model.generate(**inputs).tolist()
        ended = [2] if prediction.finished else []
        assert [2, *prediction.ids, *ended] == written, text
        assert prediction.text.strip() == library.decode(written, skip_special_tokens=True).strip()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", LANGUAGES)
def test_logits_maps_and_states_are_the_same(tmp_path, family, shape):
    model, _ = checkpoint(tmp_path / "model", family, **SHAPES[shape])
    run = imported(tmp_path / "model")
    ours, given = batch(run)
    with torch.no_grad():
        expected = model(**given, output_attentions=True)
        with trace(run.model) as seen:
            logits = run.model.logits(run.model(ours.source, ours.source_mask, ours.target))
    source, target = ours.source_mask, ours.target_mask
    largest = expected.logits[target].abs().max()
    assert float((logits[target] - expected.logits[target]).abs().max() / largest) < 5e-6
    kinds = {"encoder": expected.encoder_attentions, "decoder": expected.decoder_attentions}
    for kind, others in {**kinds, "cross": expected.cross_attentions}.items():
        rows = source if kind == "encoder" else target
        for layer, other in enumerate(others):
            weights = seen.weights(kind, layer).transpose(1, 2)[rows]
            assert_close(weights, other.transpose(1, 2)[rows], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("family", LANGUAGES)
def test_written_tokens_are_the_same(tmp_path, family, search):
    model, library = checkpoint(tmp_path / "model", family, generation=SEARCHES[search])
    run = imported(tmp_path / "model")
    assert run.config.task == ("summarisation" if family == "bart" else "translation")
    assert run.config.generation.no_repeat_ngram == SEARCHES[search].get("no_repeat_ngram_size", 0)
    assert_same_tokens(model, library, run, tmp_path)


@pytest.mark.parametrize("family", LANGUAGES)
def test_texts_are_cut_the_same_and_language_tokens_cannot_be_typed(tmp_path, family):
    _, library = checkpoint(tmp_path / "model", family)
    run = imported(tmp_path / "model")
    source, target = (run.input.tokenizers[side] for side in ("source", "target"))
    for text in TEXTS:
        assert run.input.framed(source.encode(text).ids) == library(text).input_ids
        (labels,) = run.task.input.numbers_of([Pair("x", text)])[0][1:]
        assert [*labels, 2] == library(text_target=text).input_ids
    for text in ["eng_Latn is a code", "__de__ <s> </s>", ">>deu<< dog"]:
        ids = target.encode(text).ids
        assert not {*ids} & {*target.tags.values()}
        assert not {*ids} & {i for i in target.special if i != target.special.unknown}
    assert target.decode([*run.input.target_prefix, *target.encode("the dog").ids]).strip() == "the dog"
    assert {*run.input.target_prefix} <= {*run.head.never_written(run.model)}


def tensors(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("fields", [{}, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize("family", LANGUAGES)
def test_an_export_gives_the_checkpoint_back(tmp_path, family, fields):
    model, library = checkpoint(tmp_path / "model", family, generation=SEARCHES["summary"], **fields)
    run = imported(tmp_path / "model")
    heed.export(run, to="huggingface", out=tmp_path / "out")
    before, after = tensors(tmp_path / "model"), tensors(tmp_path / "out")
    for name, tensor in after.items():
        skip = 2 if "embed_positions" in name else 0  # rows that no position has
        assert torch.equal(tensor[skip:], before[name][skip:]), name
    assert before.keys() - after.keys() <= {"model.shared.weight", "lm_head.weight"}
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        inputs = library(text, return_tensors="pt")
        assert again(text).input_ids == inputs["input_ids"][0].tolist()
        assert torch.equal(model.generate(**inputs), other.generate(**inputs))
    assert imported(tmp_path / "out").predict("The fox").ids == run.predict("The fox").ids


@pytest.mark.parametrize("fields", [{}, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize("family", LANGUAGES)
def test_ctranslate2_gives_the_same_log_probabilities(tmp_path, family, fields):
    pytest.importorskip("ctranslate2")
    checkpoint(tmp_path / "model", family, generation=SEARCHES["ngrams"], scale=0.1, **fields)
    alike = {"renormalize": True, "early_stopping": "full"}  # as that library searches
    run = import_checkpoint(tmp_path / "model", tmp_path / "run", {"generation": alike}).run
    exported = heed.export(run)
    assert exported.check.greedy == 0
    assert exported.check.log_prob < 2e-6
    for options in ({}, {"beam_size": 4}, {"max_length": 5}, {"min_length": 12}):
        both = [run.predict(TEXTS, engine=engine, **options) for engine in ("torch", "ctranslate2")]
        assert [(own.ids, own.text, own.finished) for own in both[0]] == [(x.ids, x.text, x.finished) for x in both[1]]
        assert {other.token_probs[0] for other in both[1]} == {1.0}


def test_a_bart_tokenizer_is_read_without_tokenizer_json(tmp_path):
    _, library = checkpoint(tmp_path / "model", "bart")
    whole = imported(tmp_path / "model")
    library.backend_tokenizer.model.save(str(tmp_path / "model"))
    (tmp_path / "model" / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    run = import_checkpoint(tmp_path / "model", tmp_path / "again").run
    assert run.input.source_tokenizer.tokens == whole.input.source_tokenizer.tokens
    assert [one.ids for one in run.predict(TEXTS)] == [one.ids for one in whole.predict(TEXTS)]


def test_language_tokens_are_found_in_tokenizer_json_alone(tmp_path):
    checkpoint(tmp_path / "model", "nllb")
    whole = imported(tmp_path / "model").input.target_tokenizer
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "NllbTokenizer"}))
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (path.parent / "special_tokens_map.json").write_text(json.dumps(named))
    run = import_checkpoint(path.parent, tmp_path / "again", {"data": {"source_language": "fra_Latn"}}).run
    assert run.input.target_tokenizer.tags == whole.tags
    assert run.config.data.target_language == "deu_Latn"  # of forced_bos_token_id
    assert [*whole.tags] == ["<s>", *LANGUAGES["nllb"]]


def test_languages_are_chosen_in_configuration_and_question(tmp_path):
    model, library = checkpoint(tmp_path / "model", "nllb")
    run = imported(tmp_path / "model")
    assert (run.config.data.source_language, run.config.data.target_language) == ("eng_Latn", "deu_Latn")
    french = library.convert_tokens_to_ids("fra_Latn")
    library.src_lang = "deu_Latn"
    (written,) = model.generate(**library("the dog", return_tensors="pt"), forced_bos_token_id=french).tolist()
    prediction = run.predict("the dog", source_language="deu_Latn", target_language="fra_Latn")
    assert [i for i in written if i != 2] == [*prediction.ids]
    with pytest.raises(
        ConfigError, match=r"data\.target_language: the model has no language 'fra'; did you mean 'fra_Latn'"
    ):
        run.predict("the dog", target_language="fra")
    given = {"data": {"source_language": "fra_Latn"}}
    assert import_checkpoint(tmp_path / "model", tmp_path / "other", given).run.input.frame[0] == [french]


def test_an_imported_model_is_trained_on_looked_at_and_exported(tmp_path):
    checkpoint(tmp_path / "model", "nllb")
    (tmp_path / "model" / "README.md").write_text("---\nlanguage:\n- en\nlicense: cc-by-nc-4.0\n---\n# NLLB\n")
    parent = imported(tmp_path / "model")
    assert "Licence of the checkpoint: cc-by-nc-4.0" in (parent.folder / "README.md").read_text()
    look = parent.look("The fox jumps").look
    labels = {one.mechanism: one.key.labels for one in look.maps}
    assert (labels["encoder"][0], labels["encoder"][-1]) == ("eng_Latn", "end")
    assert labels["decoder"][:2] == ("end", "deu_Latn")
    parent.look("The fox jumps", target="Der Fuchs")
    languages = {"data.source_language": "eng_Latn", "data.target_language": "fra_Latn"}
    settings = {
        "tokenizer.from": str(parent.folder),
        "training.learning_rate": 0.01,
        "training.threads": 1,
        **languages,
    }
    run = heed.train(
        "translation",
        train=PAIRS,
        valid=PAIRS[:4],
        parent=parent.folder,
        steps=3,
        out=tmp_path / "run",
        settings=settings,
        quiet=True,
    )
    assert "Licence of the checkpoint: cc-by-nc-4.0" in (run.folder / "README.md").read_text()
    tags = run.input.target_tokenizer.tags
    assert run.predict("The fox").ids[0] == tags["fra_Latn"]
    encoded = run.task.encoded("valid")[0]
    assert (encoded.source[0], encoded.source[-1], encoded.target[0]) == (tags["eng_Latn"], 2, tags["fra_Latn"])
    heed.export(run, to="huggingface", out=tmp_path / "out")
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    other.set_attn_implementation("eager")
    assert other.generation_config.forced_bos_token_id == tags["fra_Latn"]
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert_same_tokens(other, library, run, tmp_path / "out")


def test_looks_scores_and_attributions_are_of_other_languages(tmp_path, capsys):
    checkpoint(tmp_path / "model", "nllb")
    run = imported(tmp_path / "model")
    french = run.between("deu_Latn", "fra_Latn")
    assert (
        french.predict("the dog").ids
        == run.predict("the dog", source_language="deu_Latn", target_language="fra_Latn").ids
    )
    labels = {map.mechanism: map.key.labels for map in french.look("the dog").look.maps}
    assert labels["encoder"][0] == "deu_Latn" and labels["decoder"][1] == "fra_Latn"
    assert run.between() is run and run.config.data.target_language == "deu_Latn"
    words = "the dog", "--to", "fra_Latn", "--source-language", "deu_Latn"
    for command in ("look", "attribute"):
        code, out, _ = call(capsys, command, run.folder, *words)
        assert code == 0 and "deu_Latn" in out and "eng_Latn" not in out
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{french.predict(text).text}\n" for text in ("the dog", "a fox")))
    for flags, right in ([], "0.00%"), (words[1:], "100.00%"):
        code, out, _ = call(capsys, "evaluate", run.folder, tmp_path / "a.tsv", *flags)
        assert code == 0 and right in next(line for line in out.splitlines() if "exact match" in line)
    with pytest.raises(ConfigError, match=r"data\.target_language: the model has no language 'yo'; it has "):
        run.between(target_language="yo")


def test_languages_of_a_model_without_them_are_refused(tmp_path):
    checkpoint(tmp_path / "model", "bart")
    run = imported(tmp_path / "model")
    refused = r"data\.target_language is 'fra', but the model has no languages"
    with pytest.raises(ConfigError, match=refused):
        run.predict("the dog", target_language="fra")
    with pytest.raises(ConfigError, match=refused):
        import_checkpoint(tmp_path / "model", tmp_path / "other", {"data": {"target_language": "fra"}})


@pytest.mark.parametrize("side", ["source", "target"])
def test_languages_that_the_checkpoint_lacks_are_refused(tmp_path, side):
    checkpoint(tmp_path / "model", "nllb")
    with pytest.raises(ConfigError, match=rf"data\.{side}_language: the model has no language 'yo'; it has "):
        import_checkpoint(tmp_path / "model", tmp_path / "run", {"data": {f"{side}_language": "yo"}})
    assert not (tmp_path / "run").exists()


def test_several_languages_are_learned_together(tmp_path):
    (tmp_path / "more.tsv").write_text("\n".join(f"{target}\t{source}" for source, target in PAIRS[:8]), "utf-8")
    settings = {
        "model.source_frame": "language",
        "model.target_frame": "language",
        "model.positions": "fairseq",
        "tokenizer.shared": True,
        "data.source_language": "eng",
        "data.target_language": "deu",
        "data.extra": [{"files": [str(tmp_path / "more.tsv")], "source_language": "deu", "target_language": "eng"}],
        "training.threads": 1,
    }
    run = heed.train(
        "translation", train=PAIRS, valid=PAIRS[:4], model="transformer", size="tiny", steps=2, out=tmp_path / "run",
        settings=settings, quiet=True,
    )  # fmt: skip
    tags = run.input.source_tokenizer.tags
    assert {*tags} == {"eng", "deu"}
    main, extra = (run.task.encoded(name)[0] for name in ("valid", next(iter(run.task.splits.extra))))
    assert (main.source[0], main.target[0]) == (tags["eng"], tags["deu"])
    assert (extra.source[0], extra.target[0]) == (tags["deu"], tags["eng"])
    again = heed.load(run.folder)
    assert again.predict("Hund", source_language="deu", target_language="eng").ids[0] == tags["eng"]


@pytest.mark.parametrize(
    ("family", "file", "change", "message"),
    [
        ("nllb", "tokenizer_config.json", {"legacy_behaviour": True}, r"legacy_behaviour is true.*X </s> lang"),
        ("nllb", "config.json", {"model_type": "mbart"}, r"model_type is 'mbart', whose texts are read as X </s> lang"),
        ("nllb", "config.json", {"pad_token_id": 0}, "pad_token_id is 0"),
        (
            "bart",
            "config.json",
            {"architectures": ["MBartForConditionalGeneration"]},
            "MBartForConditionalGeneration is",
        ),
        ("bart", "config.json", {"architectures": ["BartForSequenceClassification"]}, "is for a task that heed does"),
    ],
)
def test_what_heed_lacks_is_refused_by_name(tmp_path, family, file, change, message):
    checkpoint(tmp_path / "model", family)
    path = tmp_path / "model" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=message):
        imported(tmp_path / "model")


def test_a_trained_bias_cannot_be_exported(tmp_path):
    checkpoint(tmp_path / "model", "nllb")
    run = imported(tmp_path / "model")
    body = run.task.model_and_head()[0].model_copy(update={"output_bias": True})
    with pytest.raises(ConfigError, match=r"model\.output_bias=True: its output layer has no bias"):
        M2M100.check(body, frozenset({"output", "bias"}))
