"""How often an update and a step of decoding wait for a GPU: the readings of tensors by Python, counted on a CPU.

Wherever Python asks for a number of a tensor, or for a shape that depends on numbers, it waits until a GPU has computed
everything before. The modules' own forms are counted, which a GPU runs.
"""

from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from heed import kernels
from heed.attention import Rows
from heed.generation import SearchOptions, generate
from heed.models.transformer import Transformer, TransformerConfig
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training import optimizer
from heed.training.loop import Trainer
from heed.training.loss import loss_at, vocabulary_loss
from heed.training.processes import Processes, Sums
from heed.training.progress import Quiet

_READS = "item tolist cpu numpy __bool__ __int__ __float__ __index__ __contains__".split()
_COUNTED = {f"aten::{name}" for name in "nonzero masked_select _unique2 unique_consecutive equal is_nonzero".split()}


class _Methods(TorchFunctionMode):
    def __init__(self, seen):
        super().__init__()
        self._seen, self._names = seen, {getattr(torch.Tensor, name): name for name in _READS}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self._names:
            self._seen[self._names[func]] += 1
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, seen):
        super().__init__()
        self._seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in _COUNTED:
            self._seen[name] += 1
        if name in ("aten::index", "aten::index_put_") and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        ):
            self._seen["a mask as index"] += 1
        return func(*args, **(kwargs or {}))


def counted(run, *given):
    """How often `run` waits, by the kind of reading."""
    seen = Counter()
    with _Methods(seen), _Operations(seen):
        run(*given)
    return dict(seen)


def of_an_update(monkeypatch, folder, values):
    """The readings of the second update of a small run."""
    found = []
    update = Trainer._update

    def counting(self, draw, start):
        found.append(counted(update, self, draw, start))

    monkeypatch.setattr(Trainer, "_update", counting)
    monkeypatch.setattr(optimizer, "enabled", lambda: True)  # a GPU's optimiser is fused
    training = {"steps": 2, "batch_tokens": 300, "threads": 1, "device": "cpu", **values.pop("training", {})}
    section = {"data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 8, "test": 8}, "training": training}
    with kernels.plain():
        train_config(
            check_config({**section, "evaluation": {"bootstrap": 5}, **values}, "test"), folder / "run", Quiet()
        )
    return found[-1]


def test_the_counters_see_every_kind_of_reading():
    x, mask = torch.arange(3.0), torch.tensor([True, False, True])
    for run in (
        lambda: x[0].item(),
        x.tolist,
        lambda: bool(mask.all()),
        lambda: int(x[0]),
        mask.nonzero,
        lambda: x[mask],
    ):
        assert sum(counted(run).values()) == 1
    assert counted(lambda: torch.nonzero_static(mask, size=2)) == {}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("transformer", {"tolist": 1, "__bool__": 1}),  # the second: whether a batch of sources has any padding
        ("bahdanau", {"tolist": 1}),
        ("seq2seq", {"tolist": 1}),
    ],
)
def test_an_update_reads_its_losses_and_the_norm_at_once(monkeypatch, tmp_path, model, expected):
    assert of_an_update(monkeypatch, tmp_path, {"model": {"name": model, "size": "tiny"}}) == expected


def test_micro_batches_and_further_batches_of_an_update_do_not_add_readings(monkeypatch, tmp_path):
    training = {"accumulate": 2, "micro_batches": 2}
    values = {"model": {"name": "bahdanau", "size": "tiny"}, "training": training}
    assert of_an_update(monkeypatch, tmp_path, values) == {"tolist": 1}


def test_a_language_model_also_looks_for_several_documents_in_a_row(monkeypatch, tmp_path):
    # On a GPU it looks at the batch before it was sent, as a Transformer for padding.
    values = {"task": "language_modelling", "data": {"name": "meals"}, "model": {"name": "gpt", "size": "tiny"}}
    assert of_an_update(monkeypatch, tmp_path, values) == {"tolist": 1, "__bool__": 1}


def test_what_is_read_together_are_the_sums_of_what_was_read_one_by_one():
    sums, draw = Sums(), torch.Generator().manual_seed(1)
    losses, terms = torch.rand(3, generator=draw).mul(1e4), torch.rand(3, generator=draw)
    for loss, term in zip(losses, terms, strict=True):
        sums.add(loss, {"text": term, "links": term.double() / 3})
    sums.close(torch.tensor(0.7))
    total, parts, norm = sums.read(Processes())
    assert total == sum(loss.item() for loss in losses) and norm == torch.tensor(0.7).item()
    assert parts == {"text": sum(t.item() for t in terms), "links": sum((t.double() / 3).item() for t in terms)}


def test_the_loss_at_real_positions_is_that_of_the_positions_picked_by_the_mask():
    draw = torch.Generator().manual_seed(1)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    labels, output = torch.randint(7, (2, 3), generator=draw), torch.nn.Linear(4, 7)
    hidden, other = (torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(2)).requires_grad_() for _ in range(2))
    found = loss_at((mask, 3), hidden, labels, output, 0.1)
    expected = vocabulary_loss(other[mask], output, labels[mask], 0.1)
    found.backward()
    expected.backward()
    assert torch.equal(found, expected) and torch.equal(hidden.grad, other.grad)


@pytest.mark.parametrize(("sources", "times"), [(0, 1), (1, 1), (4, 1), (3, 5), (1, 2)])
def test_rows_that_repeat_their_sources_are_those_that_are_laid_out_by_looking(sources, times):
    known = Rows.repeat(sources, times)
    looked_at = Rows(known.source_of, sources)
    assert (known.width, known.in_order, known.is_identity) == (
        looked_at.width,
        looked_at.in_order,
        looked_at.is_identity,
    )
    assert counted(Rows.repeat, sources, times) == {}


def writing(beam_size, length):
    """The readings of a search over five sources, block by block."""
    torch.manual_seed(1)
    widths = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 16}
    model = Transformer(TransformerConfig(source_vocab_size=20, target_vocab_size=20, **widths)).eval()
    source, mask = torch.randint(4, 20, (5, 4)), torch.ones(5, 4, dtype=torch.bool)
    memory = model.encode(source, mask)
    options = SearchOptions(3, length, min_length=length, beam_size=beam_size, forbidden=(0, 1, 2))
    with kernels.plain():
        return counted(generate, model, memory, torch.full((5, 1), 2), options)


@pytest.mark.parametrize(
    ("beam_size", "each"),
    [
        (1, {"tolist": 2}),  # the tokens, and their log-probabilities
        (5, {"tolist": 4, "aten::_unique2": 1, "aten::equal": 1}),  # with totals and rows; which sources go on
    ],
)
def test_a_step_of_decoding_reads_tokens_and_their_probabilities(beam_size, each):
    added = Counter(writing(beam_size, 10))
    added.subtract(writing(beam_size, 6))
    assert +added == {kind: 4 * count for kind, count in each.items()}
