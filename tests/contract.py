"""Small tasks from plain settings, and the task calls that the tests share, so that a change is made in one place."""

import inspect
from types import SimpleNamespace

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from heed.data.batch import TokenPair, pad_rows, pad_shifted
from heed.data.tokens import OWN
from heed.tasks import check_config, task_class

TRAINING = {"steps": 1, "threads": 1, "device": "cpu", "precision": "float32", "micro_batches": 1, "warmup": 0}


def config_of(task, data, **sections):
    """The configuration of a tiny run of one update; given training fields override these."""
    training = {**TRAINING, **sections.pop("training", {})}
    values = {"task": task, "data": data, "training": training, "evaluation": {"bootstrap": 10}, **sections}
    return check_config(values, "the test")


def data_of(task, **fields):
    """The `data` section of a configuration; of a file that is never read if the fields name no data."""
    named = fields if {"train", "hub", "memory", "name"} & fields.keys() else {"train": "x", **fields}
    return check_config({"task": task, "data": named}, "the test").data


def task_and_model(config, seed=0):
    """A prepared task and its untrained model, in evaluation mode."""
    task = task_class(config.task).prepare(config)
    torch.manual_seed(seed)
    return task, task.build_model().eval()


def batch_of(task, indices):
    """Training examples as one batch of the first pass."""
    takes_epoch = "epoch" in inspect.signature(task.collate).parameters
    return task.collate(indices, 0) if takes_epoch else task.collate(indices)


def loss_of(task, model, batch, label_smoothing=0.0):
    """The summed loss of a batch as a number."""
    with torch.no_grad():
        loss = task.loss(model, batch, label_smoothing)
    return float(loss if isinstance(loss, torch.Tensor) else loss.sum)


def gradients_of(model):
    """The gradients of a model by name, without those of parameters that were not used."""
    return {name: part.grad for name, part in model.named_parameters() if part.grad is not None}


def assert_close_in_scale(actual, expected, within=1e-5, rtol=1e-4):
    """Equal but for rounding, relative to the largest number of each tensor, or of lists or dictionaries of them.

    A tensor that is small beside the others (a gradient that would be zero without rounding) is compared relative to a
    thirtieth of the largest number of all.
    """
    parts, others = (
        tensors if isinstance(tensors, dict) else dict(enumerate(tree_leaves(tensors)))
        for tensors in (expected, actual)
    )
    assert parts.keys() == others.keys()
    largest = {name: float(part.detach().abs().max()) if part.numel() else 0.0 for name, part in parts.items()}
    floor = max(largest.values()) / 30
    for name, part in parts.items():
        atol = within * max(largest[name], floor)
        assert_close(others[name], part, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


def collate_pairs(pairs, indices, special=OWN):
    """Padded pairs: source, target (decoder input), labels, and their masks."""
    source, source_mask = pad_rows([pairs[i].source for i in indices])
    target, labels, target_mask = pad_shifted([pairs[i].target for i in indices], special)
    return SimpleNamespace(
        source=source, source_mask=source_mask, target=target, labels=labels, target_mask=target_mask
    )


def forced_batch(task, source, ids):
    """One source of a translation with one given output, as a batch of one."""
    pair = TokenPair(task.input.framed(task.input.source_tokenizer.encode(source).ids), list(ids))
    return collate_pairs([pair], [0])


def write_lines(path, *lines):
    """Write a text file; return its path as a string."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
