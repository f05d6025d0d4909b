"""Language models with random weights, or trained for a few steps, for tests of their use."""

import random

import torch
import yaml

import heed
from heed.tasks import check_config, task_class
from heed.tasks.run import Run

SMALL = {
    "attention_lm": {"d_model": 32, "num_heads": 2, "num_layers": 2},
    "gpt": {"d_model": 32, "num_heads": 2, "num_layers": 2, "d_ff": 48, "positions": "learned", "dropout": 0.0},
    "rnn": {"d_embedding": 16, "d_hidden": 24, "num_layers": 2, "dropout": 0.0},
    "lstmn": {"d_embedding": 16, "d_hidden": 24, "d_attention": 16, "dropout": 0.0},
    "self_rnn": {"d_embedding": 16, "d_hidden": 24, "d_attention": 16, "dropout": 0.0},
}


_VOCABULARIES = {"bpe": {"vocab_size": 300}, "byte_bpe": {"vocab_size": 300}, "unigram": {"vocab_size": 60}}


def write_texts(folder, count=120):
    """Write a file of sentences, one document a line."""
    draw = random.Random(1)
    who, does, what = ["I", "We", "They"], ["love", "eat", "see"], ["pizza", "the café", "a garden", "cold water"]
    lines = [f"{draw.choice(who)} {draw.choice(does)} {draw.choice(what)} with my friend!" for _ in range(count)]
    (folder / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "train.txt"


def settings(file, model="attention_lm", kind="char", context=64, **data):
    return {
        "task": "language_modelling",
        "data": {"train": [str(file)], "format": "lines", "valid": 10, "context": context, **data},
        "tokenizer": {"kind": kind, **(_VOCABULARIES.get(kind, {}))},
        "model": {"name": model, **SMALL[model]},
        "training": {"steps": 3, "threads": 1, "device": "cpu", "batch_tokens": 512},
        "evaluation": {"bootstrap": 20},
    }


def random_run(file, *model_and_kind, sharpness=4.0, **data):
    """A run with an untrained model, its output layer scaled up to give clear preferences."""
    config = check_config(settings(file, *model_and_kind, **data), "test")
    task = task_class("language_modelling").prepare(config)
    torch.manual_seed(5)
    model = task.build_model().eval()
    with torch.no_grad():
        model.output.weight.mul_(sharpness)
    return Run(file.parent, task.config, task, model, {})


def trained_run(file, out, *model_and_kind, **data):
    """A run folder after three updates."""
    config = file.parent / f"{out.name}.yaml"
    config.write_text(yaml.safe_dump(settings(file, *model_and_kind, **data)), encoding="utf-8")
    return heed.train(config, out=out, quiet=True)
