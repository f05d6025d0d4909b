"""The longest chain of matrix products that wait for one another, in reading and in writing T words.

Each operation is watched, whatever module it belongs to: a product's place in the chain is one more than that of the
latest product whose result it needs. T words need as many dependent steps as their chain is longer than one word's.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heed.attention import Rows
from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells
from heed.models.base import LanguageModel
from heed.models.gpt import GPT, GPTConfig
from heed.models.rnn import RnnLanguageModel, RnnLanguageModelConfig

_LENGTHS, _COUNTED, _WIDTH = (32, 64, 128, 256, 512, 1024, 2048), 256, 64
_ATTENTION: dict[str, Any] = {"d_model": _WIDTH, "num_heads": 2, "num_layers": 1, "positions": "sinusoidal"}


class _Chain(TorchDispatchMode):
    """Follows every operation and keeps the longest chain of matrix products behind each piece of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self._behind: dict[int, int] = {}
        self._kept: list[Tensor] = []  # so that no address is used again

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        product = any(name in str(func) for name in ("mm", "attention"))
        chain = max((self._behind.get(_address(one), 0) for one in given), default=0) + product
        self.longest = max(self.longest, chain)
        for one in tree_leaves(result):
            if isinstance(one, Tensor):
                self._behind[_address(one)] = max(chain, self._behind.get(_address(one), 0))
                self._kept.append(one)
        return result


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _model(name: str) -> LanguageModel:
    if name == "LSTM":
        return RnnLanguageModel(RnnLanguageModelConfig(vocab_size=20, d_embedding=_WIDTH, d_hidden=_WIDTH, dropout=0.0))
    return GPT(GPTConfig(vocab_size=20, dropout=0.0, **_ATTENTION))


def _read(model: LanguageModel, length: int) -> None:
    model(torch.randint(4, 20, (1, length)))


def _write(model: LanguageModel, length: int) -> None:
    """Always the most probable word, with the state or the keys and values of the words before."""
    state, word = model.start(None, Rows.repeat(1)), torch.zeros(1, 1, dtype=torch.long)
    for _ in range(length):
        hidden, state = model.step(word, state)
        word = model.logits(hidden).argmax(-1)


def measure(cell: Cell) -> list[Row]:
    """Read or write T words with one untrained layer; dependent steps, and time for each word."""
    torch.manual_seed(cell.seed)
    model, do = _model(cell["network"]).eval(), _read if cell["task"] == "reading" else _write
    counted, rows = deepcopy(model).double(), list[Row]()  # in float32, a whole LSTM may be one operation
    with torch.no_grad():
        for length in (1, *_LENGTHS):
            row: Row = {"length": length}
            if length <= _COUNTED or cell["task"] == "reading":
                with _Chain() as chain:
                    do(counted, length)
                row["products"] = chain.longest
                row["steps"] = chain.longest / (rows[0]["products"] if rows else chain.longest)
            times = []
            for _ in range(3):
                began = time.perf_counter()
                do(model, length)
                times.append(time.perf_counter() - began)
            rows.append(row | {"microseconds": min(times) / length * 1e6})
    return rows[1:]


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`; time is drawn, not judged."""

    def all_steps(network: str, task: str) -> list[tuple[float, int]]:
        wanted = {"network": network, "task": task}.items()
        return [(row["steps"], row["length"]) for row in results.rows if wanted <= row.items() and "steps" in row]

    def one_after_the_other(network: str, task: str) -> bool:
        return all(steps == length for steps, length in all_steps(network, task))

    def at_once(task: str) -> bool:
        return len({steps for steps, _ in all_steps("self-attention", task)}) == 1

    effect = results.mean("steps", network="self-attention", task="reading", length=_LENGTHS[-1])
    what = f"dependent steps in which self-attention reads {_LENGTHS[-1]:,} words"
    if one_after_the_other("LSTM", "reading") and at_once("reading"):
        if one_after_the_other("LSTM", "writing") and at_once("writing"):
            return Verdict("holds", effect, what)
        if all(one_after_the_other(name, "writing") for name in ("LSTM", "self-attention")):
            return Verdict("holds only", effect, what, "when reading")
    return Verdict("does not hold here", effect, what)


EXPERIMENT = Experiment(
    grid=cells(network=("LSTM", "self-attention"), task=("reading", "writing")),
    measure=measure,
    decide=decide,
    plots=(
        Plot("steps", "dependent steps, reading", "length", "network", None, {"task": "reading"}),
        Plot("steps", "dependent steps, writing", "length", "network", None, {"task": "writing"}),
        Plot("microseconds", "microseconds for a word, reading", "length", "network", None, {"task": "reading"}),
        Plot("microseconds", "microseconds for a word, writing", "length", "network", None, {"task": "writing"}),
    ),
    seeded=False,
)
