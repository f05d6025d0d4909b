"""Random Marian checkpoints with small SentencePiece models in the format of `transformers`, for tests."""

import json
import random

import torch

ENGLISH = [
    "The quick brown fox jumps over the lazy dog.",
    "She said that the price is 12.50, not 13!",
    "We went to the market and bought milk, bread and apples.",
    "Do you know where the old man lives?",
] * 20
GERMAN = [
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund.",
    "Sie sagte, dass der Preis 12,50 ist, nicht 13!",
    "Wir gingen auf den Markt und kauften Milch, Brot und \u00c4pfel.",
    "Wei\u00dft du, wo der alte Mann wohnt?",
] * 20
CODES = [">>deu<<", ">>fra<<"]


def train_pieces(folder, **fields):
    """Write `source.spm` and `target.spm`; return the pieces of each."""
    import sentencepiece

    pieces = []
    for name, lines in (("source", ENGLISH), ("target", GERMAN)):
        corpus = folder / f"{name}.txt"
        corpus.write_text("\n".join(lines), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus),
            model_prefix=str(folder / name),
            minloglevel=2,
            **{"vocab_size": 90, "character_coverage": 0.99, "hard_vocab_limit": False, **fields},
        )
        corpus.unlink()
        (folder / f"{name}.vocab").unlink()
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        library = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.spm"))
        pieces.append([library.id_to_piece(i) for i in range(library.vocab_size())])
    return pieces


def write_tokenizers(folder, pieces, separate=False, seed=1, left_out=3):
    """Write shuffled vocabulary files without some of the pieces; return token -> id for source and target."""
    source, target = pieces
    drawn = random.Random(seed)

    def table(tokens, further=()):
        ordered = sorted({*tokens} - {"<s>", "</s>", "<unk>"})
        drawn.shuffle(ordered)
        names = ["</s>", "<unk>", *ordered[left_out:], *further]
        names.insert(2 if separate else len(names), "<pad>")  # the same id in both of two tables
        return {name: i for i, name in enumerate(names)}

    tables = [table(source), table(target)] if separate else [table([*source, *target], CODES)]
    for name, ids in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, "source_lang": "en"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tables[0], tables[-1]


def write_model(folder, tables, seed=1, generation=None, scale=0.3, **fields):
    """Write a model with random weights whose outputs end; return the `transformers` model."""
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    source, target = tables
    ids = {
        "pad_token_id": target["<pad>"],
        "eos_token_id": target["</s>"],
        "decoder_start_token_id": target["<pad>"],
        "forced_eos_token_id": None,
    }
    config = MarianConfig(
        **{
            "vocab_size": len(source),
            "decoder_vocab_size": len(target),
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "max_position_embeddings": 64,
            "activation_function": "swish",
            "scale_embedding": True,
            **ids,
            **fields,
        }
    )
    torch.manual_seed(seed)
    model = MarianMTModel(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # sinusoids are not trained
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=scale)
        bias = torch.randn(model.final_logits_bias.shape, generator=generator)
        bias[0, config.eos_token_id] += 2
        model.final_logits_bias.copy_(bias)
    model.generation_config = GenerationConfig(
        **{"bad_words_ids": [[config.decoder_start_token_id]], "max_length": 20, **ids, **(generation or {})}
    )
    model.save_pretrained(folder)
    return model
