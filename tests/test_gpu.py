"""What must hold on a GPU, and what only a GPU can answer: one run takes minutes and prints a table of the answers.

    make gpu                # all of it, and every task and model (tests/gpu), on a machine with a GPU
    make gpu-stand-in       # what needs no real kernels, anywhere

What a stand-in cannot show (kernels of cuDNN, fused attention, triton, TF32) is skipped there.
"""

import json
import sys

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from heed.attention import attend, padding_mask
from heed.attention.fused import flash_by_segment, fused_attend
from heed.attention.host import sent
from heed.config import TrainingConfig
from heed.layers import Recurrent
from heed.layers.embeddings import places_within
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.loop import Trainer
from heed.training.optimizer import make_optimizer
from heed.training.progress import Quiet
from small_runs import SMALL

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]
real = pytest.mark.skipif("stand_in" in sys.modules, reason="the stand-in has no kernels of a GPU")
ANSWERS: list[tuple[str, str]] = []
"""Questions and answers of the table."""


@pytest.fixture(scope="module", autouse=True)
def table(request):
    """Prints the answers when all are there."""
    yield
    if ANSWERS:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
            print("\n".join(f"{question:<68} {answer}" for question, answer in ANSWERS))


def trained(folder, model="transformer", **training):
    """A run of four updates on the first GPU; a folder that is there is resumed."""
    values = {
        "data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 8, "test": 8},
        "model": {"name": model, "size": "tiny"},
        "training": {"steps": 4, "batch_tokens": 300, "device": "cuda", **training},
        "evaluation": {"bootstrap": 5},
    }
    run, _ = train_config(check_config(values, "test"), folder / "run", Quiet(), resume=(folder / "run").exists())
    return run


def test_batches_are_made_ahead_in_pinned_memory_and_trained_on_the_gpu(tmp_path, monkeypatch):
    seen, update = [], Trainer._update

    def looking(self, draw, start):
        seen.append([batch.source.is_pinned() and batch.labels.is_pinned() for batch, _ in draw.batches])
        update(self, draw, start)

    monkeypatch.setattr(Trainer, "_update", looking)
    run = trained(tmp_path)
    assert len(seen) == 4 and all(all(each) for each in seen)
    assert next(run.model.parameters()).device.type == "cuda"
    assert [weight for weight in run.model.parameters() if not weight.isfinite().all()] == []


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_the_optimiser_is_one_kernel_there_with_the_steps_of_a_processor(kind):
    config = TrainingConfig(steps=1, optimizer=kind, weight_decay=0.1, learning_rate=0.01)
    layers = [nn.Linear(3, 4), nn.Linear(3, 4)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer, device in zip(layers, ("cpu", "cuda"), strict=True):
        optimizer = make_optimizer(layer.to(device), config)
        for number in range(3):
            layer(torch.full((2, 3), float(number), device=device)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert {state["step"].device.type for state in optimizer.state.values()} == {device}
    torch.testing.assert_close(layers[1].weight.cpu(), layers[0].weight, rtol=1e-5, atol=1e-6)


def test_updates_can_be_compiled(tmp_path):
    pytest.importorskip("triton")
    run = trained(tmp_path, compile=True)
    assert run.report["training"]["updates"] == 4


@real
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"])
def test_a_row_that_may_attend_to_nothing_is_zero_in_every_kernel(kernel, dtype):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(1)
    given = [torch.randn(2, 2, 16, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    mask = torch.rand(2, 16, 16, device="cuda") < 0.5
    mask[0, 3] = False
    mask[1] = False
    question = f"row without keys, {kernel.lower()}, {dtype}"
    try:
        with sdpa_kernel(getattr(SDPBackend, kernel)):
            found = fused_attend(*given, mask, causal=False, scale=0.25)
    except RuntimeError:
        ANSWERS.append((question, "kernel takes no mask"))
        return
    found.float().square().sum().backward()
    plain = [one.detach().double().requires_grad_() for one in given]
    expected, _ = attend(plain[0] * 0.25, *plain[1:], mask.unsqueeze(1))
    expected.square().sum().backward()
    largest = max(float((a.grad - b.grad).abs().max()) for a, b in zip(given, plain, strict=True))
    ANSWERS.append((question, f"largest |context| {float(found[1].abs().max()):.1e}, error of gradients {largest:.1e}"))
    close = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {"rtol": 1e-3, "atol": 1e-4}
    assert found[1].abs().max() == found[0, :, 3].abs().max() == 0
    assert_close(found.double(), expected, **close)
    for one, other in zip(given, plain, strict=True):
        assert_close(one.grad.double(), other.grad, **close)


@real
@pytest.mark.parametrize("length", [16, 512])
def test_padded_and_packed_texts_keep_flash_attention(length):
    torch.manual_seed(1)
    device, kernel = torch.device("cuda"), flash_by_segment()
    if kernel is None:
        ANSWERS.append(("flash attention by text (varlen_attn)", f"not in torch {torch.__version__}"))
        pytest.skip("this torch has no varlen_attn")
    given = [torch.randn(3, 2, length, 32, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    padded = sent(padding_mask(torch.tensor([length, 1, length // 2])), device)
    documents = sent((torch.arange(3 * length).view(3, length) * 3) // length, device)
    packed = places_within(documents, documents)[1]
    for name, mask, causal in (("padded", padded, False), ("packed", packed, True)):
        found = fused_attend(*given, mask, causal=causal, scale=0.2, own=True)
        expected = fused_attend(*given, mask.clone(), causal=causal, scale=0.2)
        inside = padded if name == "padded" else torch.ones_like(padded)
        slopes = [
            torch.autograd.grad((one.transpose(1, 2) * inside[..., None, None]).square().sum().float(), given)
            for one in (found, expected)
        ]
        away = float((found - expected).transpose(1, 2)[inside].abs().max())
        ANSWERS.append((f"flash by text, {name}, {length} positions: distance from a mask", f"{away:.1e}"))
        assert away < 0.05
        for one, other in zip(*slopes, strict=True):
            assert_close(one, other, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("model", ["transformer", "bahdanau", "luong"])
def test_a_deterministic_run_repeats_and_resumes_bit_for_bit(model, tmp_path):
    workspace, before = "CUBLAS_WORKSPACE_CONFIG", torch.are_deterministic_algorithms_enabled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(workspace, ":4096:8")
        how = {"deterministic": True, "warmup": 100}
        try:
            whole, again = (trained(tmp_path / name, model, **how) for name in "ab")
            trained(tmp_path / "parts", model, **how, steps=2)
            parts = trained(tmp_path / "parts", model, **how)
        finally:
            torch.use_deterministic_algorithms(before)
    states = [run.model.state_dict() for run in (whole, again, parts)]
    same = [all(torch.equal(states[0][name], other[name]) for name in other) for other in states[1:]]
    ANSWERS.append((f"deterministic, {model}: repeats; resumes, dropout included", f"{same[0]}; {same[1]}"))
    assert same == [True, True]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_attributions_of_a_recurrent_network_are_those_of_a_processor(cell, data, tmp_path):
    run = SMALL["classification"].untrained(data, tmp_path, "rnn", {"cell": cell})
    found = {}
    for device in ("cpu", "cuda"):
        run.model.to(device)
        look = run.look("one two three", attribution="ig")
        found[device] = look.json()
    numbers = [torch.tensor([*floats(json.loads(one))], dtype=torch.float64) for one in found.values()]
    largest = float((numbers[0] - numbers[1]).abs().max())
    ANSWERS.append((f"attributions, {cell} in evaluation mode: difference from the CPU", f"{largest:.1e}"))
    assert largest < 1e-3


def floats(value):
    if isinstance(value, float):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from floats(one)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_networks_are_not_computed_in_float16_under_autocast(cell):
    torch.manual_seed(1)
    layer = Recurrent(16, 32, cell=cell).cuda()
    output = nn.Linear(32, 500).cuda()
    inputs = torch.randn(8, 20, 16, device="cuda")
    labels, slopes = torch.arange(160, device="cuda"), {}
    for low in (True, False):
        for module in (layer, output):
            module.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            hidden = layer(inputs)[0]
            hidden.register_hook(lambda slope, low=low: slopes.update({low: slope}))
            loss = torch.nn.functional.cross_entropy(output(hidden).flatten(0, 1).float(), labels)
        (loss / 4096).backward()  # each token's share of a large batch
        slopes[low, "w"] = next(p for name, p in layer.named_parameters() if "w_hh" in name).grad.clone()
    tiny = torch.finfo(slopes[True].dtype).tiny
    lost = float(((slopes[True] == 0) & (slopes[False] != 0)).double().mean())
    away = float((slopes[True, "w"] - slopes[False, "w"]).norm() / slopes[False, "w"].norm())
    ANSWERS.append(
        (f"{cell} under bf16: type; gradients lost; distance from float32", f"{hidden.dtype}; {lost}; {away:.1e}")
    )
    assert hidden.dtype == torch.float32 and lost == 0 and (slopes[True].abs()[slopes[True] != 0] >= tiny).all()
    assert away < 0.02


@real
def test_products_of_float32_are_in_float32_unless_tf32_is_asked_for():
    torch.manual_seed(1)
    one, other = (torch.randn(512, 512, dtype=torch.float64, device="cuda") for _ in range(2))
    before, errors = torch.get_float32_matmul_precision(), {}
    try:
        for kind in ("highest", "high"):
            torch.set_float32_matmul_precision(kind)
            errors[kind] = float((one.float() @ other.float() - one @ other).abs().max())
    finally:
        torch.set_float32_matmul_precision(before)
    ANSWERS.append(
        ("training.float32: error of a product, highest; high", f"{errors['highest']:.1e}; {errors['high']:.1e}")
    )
    ANSWERS.append(("TF32 in cuDNN", str(torch.backends.cudnn.allow_tf32)))
    assert errors["highest"] < 1e-3
