"""The most used checkpoints of the Hub: every field of their config.json, the names and files of their tensors and the
files of their tokenizers, with small sizes and random weights. Outputs, maps and exports equal those of transformers.
"""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import heed
import marian
from checkpoints import randomise, round_trip
from heed.runs.checkpoints import import_checkpoint
from heed.watch.trace import trace
from test_checkpoints_bert import assert_same as assert_same_texts
from test_checkpoints_vit import assert_same as assert_same_pictures
from tokenizer_folders import (
    CASED,
    GPT2,
    ROBERTA,
    UNCASED,
    larger_merges,
    merges_txt,
    spm_saved,
    vocab_txt,
)

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Recommended. pip install sacremoses", "ignore:Using the model-agnostic default"
)
CLOSE = dict(rtol=1e-5, atol=1e-5)
TEXTS = ["The quick brown fox jumps.", "a man went to the store", "Na\u00efve caf\u00e9, 12.50!"]
_DROPOUT = {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
_BERT = {
    **_DROPOUT, "architectures": ["BertForMaskedLM"], "hidden_act": "gelu", "hidden_size": 24,
    "initializer_range": 0.02, "intermediate_size": 40, "layer_norm_eps": 1e-12, "max_position_embeddings": 64,
    "model_type": "bert", "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 0,
    "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2,
    "use_cache": True, "gradient_checkpointing": False,
}  # fmt: skip
_MULTILINGUAL = {
    "directionality": "bidi", "pooler_fc_size": 24, "pooler_num_attention_heads": 4, "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128, "pooler_type": "first_token_transform",
}  # fmt: skip
_DISTILBERT = {
    "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 24,
    "dropout": 0.1, "hidden_dim": 40, "initializer_range": 0.02, "max_position_embeddings": 64,
    "model_type": "distilbert", "n_heads": 4, "n_layers": 2, "pad_token_id": 0, "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
    "transformers_version": "4.10.0.dev0",
}  # fmt: skip
_SST2 = {
    "architectures": ["DistilBertForSequenceClassification"], "finetuning_task": "sst-2", "output_past": True,
    "id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
}  # fmt: skip
_ROBERTA = {
    **_BERT, "architectures": ["RobertaForMaskedLM"], "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-05,
    "max_position_embeddings": 66, "model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1,
}  # fmt: skip
_GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 64, "n_embd": 24,
    "n_head": 4, "n_layer": 2, "n_positions": 64, "resid_pdrop": 0.1, "summary_activation": None,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
    "summary_use_proj": True, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "bos_token_id": len(GPT2[0]) - 1, "eos_token_id": len(GPT2[0]) - 1,
}  # fmt: skip


def old_names(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def with_masks(tensors):
    """The triangles that GPT-2 stored, under the names of its body alone."""
    masks = {f"h.{i}.attn.bias": torch.ones(64, 64).tril()[None, None] for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    return {name.removeprefix("transformer."): one for name, one in tensors.items() if name != "lm_head.weight"} | masks


def with_positions(prefix):
    return lambda tensors: tensors | {f"{prefix}.embeddings.position_ids": torch.arange(66)[None]}


def of_bert(tensors):
    """The heads of BERT's pretraining too, by their old names."""
    shapes = {"cls.seq_relationship": (2, 24), "bert.pooler.dense": (24, 24)}
    further = {f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}
    further |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in shapes.items()}
    tied = {name: one for name, one in tensors.items() if name != "cls.predictions.decoder.weight"}
    return {old_names(name): one for name, one in (tied | further).items()}


# name: config.json, its tokenizer's files, the tensors as they are stored, and in which file
TEXT = {
    "bert-base-uncased": (
        _BERT, lambda f: vocab_txt(f, UNCASED, do_lower_case=True, model_max_length=512), of_bert, "safetensors",
    ),
    "bert-base-cased": (
        _BERT, lambda f: vocab_txt(f, CASED, do_lower_case=False, model_max_length=512), of_bert, "bin",
    ),
    "bert-base-multilingual-cased": (
        _BERT | _MULTILINGUAL, lambda f: vocab_txt(f, CASED, do_lower_case=False, model_max_length=512), of_bert, "bin",
    ),
    "distilbert-base-uncased": (
        _DISTILBERT, lambda f: vocab_txt(f, UNCASED, do_lower_case=True, model_max_length=512), dict, "shards",
    ),
    "distilbert-base-uncased-finetuned-sst-2-english": (
        _DISTILBERT | _SST2, lambda f: vocab_txt(f, UNCASED, do_lower_case=True, model_max_length=512), dict, "bin",
    ),
    "roberta-base": (
        _ROBERTA, lambda f: merges_txt(f, *ROBERTA, model_max_length=512), with_positions("roberta"), "safetensors",
    ),
    "xlm-roberta-base": (
        _ROBERTA | {"architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": True},
        spm_saved, with_positions("roberta"), "bin shards",
    ),
    "gpt2": (_GPT2, lambda f: merges_txt(f, *GPT2, model_max_length=1024), with_masks, "safetensors"),
    "gpt2-medium": (
        _GPT2 | {"n_layer": 3, "n_embd": 32, "n_special": 0, "predict_special_tokens": True},
        lambda f: merges_txt(f, *GPT2, model_max_length=1024), with_masks, "bin",
    ),
    "distilgpt2": (
        _GPT2 | {"_num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}},
        lambda f: merges_txt(f, *GPT2, model_max_length=1024), dict, "shards",
    ),
}  # fmt: skip


def stored(folder, tensors, form):
    """Write tensors in one file or two."""
    ending = "bin" if "bin" in form else "safetensors"
    save = torch.save if ending == "bin" else save_file
    stem = "pytorch_model" if ending == "bin" else "model"
    tensors = {name: one.clone().contiguous() for name, one in tensors.items()}
    if "shards" not in form:
        save(tensors, folder / f"{stem}.{ending}")
        return
    names, places = [*tensors], {}
    for n, half in enumerate((names[::2], names[1::2]), start=1):
        file = f"{stem}-{n:05}-of-00002.{ending}"
        save({name: tensors[name] for name in half}, folder / file)
        places |= dict.fromkeys(half, file)
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def made(folder, name):
    """A folder, and the model and tokenizer of transformers."""
    fields, write_tokenizer, renamed, form = TEXT[name]
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(fields))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    fields = fields | {"vocab_size": len(tokenizer)}
    (folder / "config.json").write_text(json.dumps(fields))
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = randomise(getattr(transformers, fields["architectures"][0])(config), len(name))
    torch.manual_seed(1)
    stored(folder, renamed(model.state_dict()), form)
    return model, tokenizer


def assert_same(run, model):
    """The states, maps and logits of a run and of a model of transformers are equal."""
    if run.config.task == "language_modelling":
        ids = torch.tensor([[i for i in range(7, 40) if i not in run.tokenizer.special]])
        with torch.no_grad(), trace(run.model.eval()) as seen:
            logits = run.model.logits(run.model(ids))
            out = model(ids, output_attentions=True)
        torch.testing.assert_close(logits, out.logits, **CLOSE)
        for layer, other in enumerate(out.attentions):
            torch.testing.assert_close(seen.maps("decoder", layer).weights, other, **CLOSE)
        return
    assert_same_texts(run, model, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("roberta-base", 50_265), ("xlm-roberta-base", 250_002)])
def test_vocabularies_of_their_real_size(tmp_path, monkeypatch, name, size):
    def write(folder):
        if name == "xlm-roberta-base":
            spm_saved(folder, size - 2)
        else:
            merges_txt(folder, *larger_merges(*ROBERTA, size))

    fields, _, renamed, form = TEXT[name]
    monkeypatch.setitem(TEXT, name, (fields, write, renamed, form))
    model, tokenizer = made(tmp_path / "theirs", name)
    assert len(tokenizer) == size
    round_trip(tmp_path, model, assert_same)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text in TEXTS:
        assert again(text).input_ids == tokenizer(text).input_ids


@pytest.mark.parametrize("name", TEXT)
def test_outputs_maps_and_export_of_a_checkpoint_of_texts(tmp_path, name):
    model, tokenizer = made(tmp_path / "theirs", name)
    imported, _ = round_trip(tmp_path, model, assert_same)
    run = imported.run
    assert {*imported.unused} <= {"roberta.pooler.dense.weight", "roberta.pooler.dense.bias"}
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text in TEXTS:
        framed = tokenizer(text).input_ids
        assert again(text).input_ids == framed
        assert run.tokenizer.encode(text).ids == tokenizer.encode(text, add_special_tokens=False)
    written = json.loads((tmp_path / "ours/config.json").read_text())
    given = json.loads((tmp_path / "theirs/config.json").read_text())
    differ = {field for field in given if given[field] != written.get(field, ...)}
    assert differ <= {"transformers_version", "architectures", "id2label", "label2id", "_num_labels"}


# --- pairs of languages


_MARIAN = {
    "_name_or_path": "/tmp/Helsinki-NLP/opus-mt-en-de", "_num_labels": 3, "activation_dropout": 0.0,
    "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "bos_token_id": 0, "classif_dropout": 0.0,
    "classifier_dropout": 0.0, "d_model": 16, "decoder_attention_heads": 4, "decoder_ffn_dim": 24,
    "decoder_layerdrop": 0.0, "decoder_layers": 2, "dropout": 0.1, "encoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "encoder_layerdrop": 0.0, "encoder_layers": 2, "eos_token_id": 0, "forced_eos_token_id": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, "init_std": 0.02, "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}, "max_length": 24, "max_position_embeddings": 64,
    "model_type": "marian", "normalize_before": False, "normalize_embedding": False, "num_beams": 4,
    "num_hidden_layers": 2, "scale_embedding": True, "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True, "transformers_version": "4.22.0.dev0", "use_cache": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    return folder, marian.train_pieces(folder)


@pytest.mark.parametrize("beams", [1, 6])
@pytest.mark.parametrize("likely", [-9.0, 1.0])  # an end that is never written, and one that is
@pytest.mark.parametrize("says", ["config.json", "generation_config.json", "max_new_tokens", "no length", "no force"])
def test_outputs_of_a_pair_are_as_long_and_the_same(tmp_path, pieces, says, likely, beams):
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((pieces[0] / name).read_bytes())
    table, _ = marian.write_tokenizers(folder, pieces[1], left_out=0)
    pad = table["<pad>"]
    own = {"pad_token_id": pad, "decoder_start_token_id": pad, "bad_words_ids": [[pad]], "num_beams": beams}
    fields = _MARIAN | own | {"vocab_size": len(table), "decoder_vocab_size": len(table)}
    generation = {"max_length": 24, "bos_token_id": 0, "eos_token_id": 0, "forced_eos_token_id": 0, **own}
    generation |= {"_from_model_config": True, "renormalize_logits": True, "transformers_version": "4.29.0"}
    if says == "max_new_tokens":
        generation |= {"max_new_tokens": 9}
    if says == "no length":
        del generation["max_length"], fields["max_length"]
    if says == "no force":
        generation["forced_eos_token_id"] = fields["forced_eos_token_id"] = None
    (folder / "config.json").write_text(json.dumps(fields))
    if says != "config.json":
        (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    config = transformers.MarianConfig.from_pretrained(folder)
    model = transformers.MarianMTModel(config)
    sinusoids = {name: one.clone() for name, one in model.state_dict().items() if "embed_positions" in name}
    randomise(model, 3).load_state_dict(sinusoids, strict=False)
    with torch.no_grad():
        model.final_logits_bias[0, 0] = likely
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    library = transformers.AutoTokenizer.from_pretrained(folder)
    run = import_checkpoint(folder, tmp_path / "run").run
    heed.export(heed.load(tmp_path / "run"), to="huggingface", out=tmp_path / "ours")
    other = transformers.MarianMTModel.from_pretrained(tmp_path / "ours").eval()
    for text in marian.ENGLISH[:4]:
        given = library(text, return_tensors="pt")
        written, again = model.generate(**given)[0].tolist(), other.generate(**given)[0].tolist()
        kept = [i for i in written if i not in (0, pad)]
        assert [*run.predict(text).ids] == kept == [i for i in again if i not in (0, pad)]


# --- pictures


_VIT = {
    "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "hidden_size": 24, "image_size": 64, "initializer_range": 0.02,
    "intermediate_size": 40, "layer_norm_eps": 1e-12, "model_type": "vit", "num_attention_heads": 4,
    "num_channels": 3, "num_hidden_layers": 2, "patch_size": 16, "qkv_bias": True,
    "transformers_version": "4.13.0.dev0",
}  # fmt: skip
_LABELS = ["crane", "hen", "crane", *(f"class {i}" for i in range(20))]
_SAID = {"do_normalize": True, "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 64}
_DEIT = {
    "crop_size": 64, "do_center_crop": True, "do_normalize": True, "do_resize": True, "resample": 3, "size": 72,
    "feature_extractor_type": "DeiTFeatureExtractor", "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}  # fmt: skip
PICTURES = {
    "vit-base-patch16-224": (_VIT, _SAID, "safetensors"),
    "vit-base-patch32-384": (_VIT | {"patch_size": 32, "image_size": 96}, _SAID | {"size": 96}, "bin"),
    "vit-base-patch16-224-in21k": (_VIT | {"architectures": ["ViTModel"]}, _SAID, "shards"),
    "deit-base-patch16-224": (_VIT, _DEIT, "bin"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_outputs_maps_and_export_of_a_checkpoint_of_pictures(tmp_path, name):
    fields, said, form = PICTURES[name]
    folder = tmp_path / "theirs"
    folder.mkdir()
    labels = {str(i): label for i, label in enumerate(_LABELS)}
    fields = fields | {"id2label": labels, "label2id": {label: i for i, label in enumerate(_LABELS)}}
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = randomise(getattr(transformers, fields["architectures"][0])(config), 2)
    with torch.no_grad():  # sums over 3,072 numbers of a patch
        model.get_input_embeddings().projection.weight.mul_(0.1)
    stored(folder, model.state_dict(), form)
    imported, _ = round_trip(tmp_path, model, assert_same_pictures)
    if "in21k" not in name:
        assert imported.run.head.labels[:3] == ("crane", "hen", "crane (2)")
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    picture = np.random.default_rng(1).integers(0, 256, (80, 101, 3), dtype=np.uint8)
    pixels = processor(Image.fromarray(picture), return_tensors="pt").pixel_values
    torch.testing.assert_close(imported.run.input.form.tensor([picture]), pixels, **CLOSE)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "ours", backend="pil")
    torch.testing.assert_close(processor(Image.fromarray(picture), return_tensors="pt").pixel_values, pixels, **CLOSE)
