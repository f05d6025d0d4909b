"""Checkpoints with random weights and small vocabularies in the formats of `transformers`, for tests."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import heed
from heed.runs.checkpoints import import_checkpoint

WORDS = "the man went to store bought milk he it was good very bad film said in of and not one two three".split()
PIECES = ["##ing", "##ed", "##er", ",", ".", "!", "?", "'"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz") + [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]


def word_pieces(size, seed=1):
    """A BERT vocabulary of the given size, with special tokens at any index."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES, *LETTERS]
    tokens += [f"[unused{i}]" for i in range(size - len(tokens))]
    tokens = tokens[:size]
    random.Random(seed).shuffle(tokens)
    return tokens


def write_word_pieces(folder, tokens, **config):
    """Write `vocab.txt` and the tokenizer settings."""
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    settings = {"do_lower_case": True, "tokenizer_class": "BertTokenizer", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def byte_letters():
    """GPT-2's characters for the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) for byte in shown] + [chr(256 + n) for n in range(len(others))]


def byte_pairs(size, seed=1, special=("<s>", "<pad>", "</s>", "<unk>", "<mask>")):
    """A vocabulary of bytes and merges of the given size, and the merges."""
    letters, merged = byte_letters(), []
    merges = []
    for word in ("\u0120t h", "th e", "\u0120 m", "a n", "\u0120m an", "e r", "i n", "o n", "r e", "e d", "o u"):
        left, right = word.split()
        merges.append((left, right))
        merged.append(left + right)
    merged = merged[: size - len(letters) - len(special)]
    tokens = [*letters, *merged]
    random.Random(seed).shuffle(tokens)
    # In RoBERTa's vocabulary, special tokens are in two places: at the start and at the end.
    tokens = [*special[:-1], *tokens, *special[-1:]]
    tokens += [f"madeup{i}" for i in range(size - len(tokens))]
    return tokens[:size], [pair for pair in merges if "".join(pair) in merged and all(p in tokens for p in pair)]


def write_byte_pairs(folder, tokens, merges, **config):
    """Write `vocab.json`, `merges.txt` and the tokenizer settings."""
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    settings = {"tokenizer_class": "RobertaTokenizer", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def randomise(model, seed=1):
    """Draw every tensor of a model at random, including biases and normalisations, so that none has its default."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return model.eval()


def ragged(tokens, longest=9, rows=4, seed=1):
    """Random lists of tokens from the vocabulary, of different lengths."""
    generator = random.Random(seed)
    return [[generator.choice(tokens) for _ in range(generator.randint(1, longest))] for _ in range(rows)]


def round_trip(folder, model, assert_same):
    """Import "theirs" and export it as "ours"; the run and both models of `transformers` are the same."""
    imported = import_checkpoint(folder / "theirs", folder / "run")
    assert_same(imported.run, model)
    written = heed.export(heed.load(folder / "run"), to="huggingface", out=folder / "ours")
    assert_same(imported.run, type(model).from_pretrained(folder / "ours", attn_implementation="eager").eval())
    return imported, written


def changed(folder, change):
    """Write the tensors of a folder anew under other names."""
    path = Path(folder) / "model.safetensors"
    save_file(change(load_file(path)), path)


def with_field(folder, file="config.json", **fields):
    """Write fields anew in a JSON file of a folder."""
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def refused(kind, folder, *words):
    """Importing a checkpoint is an error with these words, and leaves no run."""
    with pytest.raises(kind) as caught:
        import_checkpoint(folder, folder.parent / "run")
    for word in words:
        assert word in str(caught.value)
    assert not (folder.parent / "run").exists()
