"""Training and generation speed of a small GPT, heed and other programs, interleaved in one run.

    pip install -e '.[bench]'
    python benchmarks/language_models.py [--threads 1] [--rounds 9] [--updates 20] [--processor-time] [--only heed]

The shape is nanoGPT's for tiny Shakespeare by characters on a CPU: 4 layers of width 128, 4 heads, context 64, batches
of 12, 65 characters and 4 special tokens, no dropout, weight decay, gradients clipped to 1. The peers are GPT-2 of
`transformers` with a configuration of that shape (torch's fused attention kernel) and a GPT in plain torch, below:
`nn.Linear`, `F.scaled_dot_product_attention`, `nn.LayerNorm`, `F.cross_entropy`. Both use fused AdamW.

Generation: 32 characters after each prompt of 4 to 32, greedy, one prompt or 32 together. Plain torch has no cache: it
reads the whole text again for each character. Peak memory: the maximum of a separate process, above its imports.
Programs that are not installed are reported and left out. `--processor-time` excludes the time of other processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from machine import print_machine
from memory import above_imports
from torch import Tensor, nn
from torch.nn import functional as F
from training import installed

from heed.config import TrainingConfig
from heed.generation import SearchOptions, generate
from heed.kernels import vocabulary_loss
from heed.models.gpt import GPT, GPTConfig
from heed.training.optimizer import make_optimizer

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCABULARY, NEW = 4, 4, 128, 64, 12, 69, 32
PADDING, END, RATE, DECAY, CLIP = 0, 3, 1e-3, 0.1, 1.0
Batch = tuple[Tensor, Tensor]
"""Tokens and labels, `(batch, context)` each."""


@dataclass
class Competitor:
    """A program that trains and generates."""

    model: nn.Module
    update: Callable[[Batch], float]
    write: Callable[[Tensor, Tensor], object]
    """Generates from prompts, padded on the right, and their lengths."""


def heed() -> Competitor:
    sizes = {"d_model": WIDTH, "num_heads": HEADS, "num_layers": LAYERS, "max_length": CONTEXT}
    model = GPT(GPTConfig(vocab_size=VOCABULARY, dropout=0.0, **sizes))
    optimizer = make_optimizer(
        model, TrainingConfig(steps=1, optimizer="adamw", learning_rate=RATE, weight_decay=DECAY)
    )

    def update(batch: Batch) -> float:
        tokens, labels = batch
        loss = vocabulary_loss(model(tokens).flatten(0, 1), model.output, labels.flatten())
        (loss / labels.numel()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item() / labels.numel()

    def write(prompts: Tensor, lengths: Tensor) -> object:
        options = SearchOptions(END, NEW, min_length=NEW, forbidden=(PADDING, 1, 2))
        few = lengths if len(lengths) > 1 else None
        written = generate(model, None, prompts, options, few).hypotheses
        assert all(len(h.log_probs) == NEW for (h,) in written)
        return written

    return Competitor(model, update, write)


def transformers() -> Competitor:
    from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=PADDING,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    settings = GenerationConfig(
        max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=PADDING, eos_token_id=END
    )

    @torch.no_grad()
    def write(prompts: Tensor, lengths: Tensor) -> object:
        longest = prompts.shape[1]
        mask = torch.arange(longest) >= longest - lengths.unsqueeze(1)  # prompts are padded on the left
        aligned = torch.zeros_like(prompts)
        aligned[mask] = prompts[torch.arange(longest) < lengths.unsqueeze(1)]
        written = model.generate(aligned, attention_mask=mask.long(), generation_config=settings)
        assert written.shape[1] == longest + NEW
        return written

    return Competitor(model, trained(model, lambda tokens: model(input_ids=tokens, use_cache=False).logits), write)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        three = self.attention(self.norm_1(x)).split(WIDTH, dim=2)
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in three)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(x.shape))
        return x + self.outer(F.gelu(self.inner(self.norm_2(x)), approximate="tanh"))


class _PlainGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def plain_torch() -> Competitor:
    model = _PlainGPT()

    @torch.no_grad()
    def write(prompts: Tensor, lengths: Tensor) -> object:
        rows, lengths = torch.arange(len(prompts)), lengths.clone()
        tokens = F.pad(prompts, (0, NEW))
        for _ in range(NEW):
            logits = model(tokens[:, : int(lengths.max())])[rows, lengths - 1]
            logits[:, :4] = -torch.inf
            tokens[rows, lengths] = logits.argmax(-1)
            lengths += 1
        return tokens

    return Competitor(model, trained(model, model), write)


def trained(model: nn.Module, logits: Callable[[Tensor], Tensor]) -> Callable[[Batch], float]:
    """An update in plain torch."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)

    def update(batch: Batch) -> float:
        tokens, labels = batch
        loss = F.cross_entropy(logits(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return update


MAKERS: dict[str, Callable[[], Competitor]] = {
    "heed": heed,
    "transformers' GPT-2": transformers,
    "plain torch": plain_torch,
}


def batches(count: int) -> list[Batch]:
    """Random text in which each character depends on the previous one."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, VOCABULARY, (count, BATCH, CONTEXT + 1), generator=draw)
    tokens[:, :, 1::2] = 4 + (tokens[:, :, :-1:2] * 7) % (VOCABULARY - 4)
    return [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in tokens]


def prompts_of(count: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(count)
    lengths = torch.randint(4, CONTEXT - NEW + 1, (count,), generator=draw) if count > 1 else torch.tensor([18])
    tokens = torch.randint(4, VOCABULARY, (count, int(lengths.max())), generator=draw)
    return tokens.masked_fill(torch.arange(tokens.shape[1]) >= lengths.unsqueeze(1), PADDING), lengths


def race(
    runs: dict[str, Callable[[], object]], tokens: int, rounds: int, clock: Callable[[], float]
) -> dict[str, tuple[float, float]]:
    """Tokens per second of each program and the first one's multiple of it: medians of interleaved rounds."""
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        names = list(runs)[:: 1 if number % 2 else -1]
        for name in names:
            start = clock()
            runs[name]()
            taken[name].append(clock() - start)
    first = taken[next(iter(runs))]
    ratios = {name: [theirs / ours for theirs, ours in zip(times, first, strict=True)] for name, times in taken.items()}
    return {name: (tokens / statistics.median(taken[name]), statistics.median(ratios[name])) for name in runs}


def show(title: str, rates: dict[str, tuple[float, float]]) -> None:
    print(f"\n{title}")
    for name, (rate, ratio) in rates.items():
        print(f"  {name:20} {rate:10,.0f} tokens/s   heed: {ratio:5.2f} times as fast")


def peak(name: str, what: str, given: argparse.Namespace) -> float:
    """Peak memory in MiB, measured in a separate process."""
    command = [sys.executable, __file__, "--threads", str(given.threads), "--measure", what, "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure(name: str, what: str) -> float:
    """Peak memory of some updates, or of generating 32 texts."""
    data, asked = batches(4), prompts_of(32)
    if name == "transformers' GPT-2":
        import transformers.models.gpt2.modeling_gpt2  # noqa: F401

    def make() -> Callable[[], object]:
        made = MAKERS[name]()
        return (lambda: [made.update(batch) for batch in data]) if what == "train" else (lambda: made.write(*asked))

    return above_imports(make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=20, help="updates of each program in a round")
    parser.add_argument("--only", default="", help="only programs whose name contains this text")
    parser.add_argument("--processor-time", action="store_true", help="processor time instead of wall-clock time")
    parser.add_argument("--measure", choices=["train", "write"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.measure:
        print(json.dumps(measure(given.only, given.measure)))
        return
    clock = time.process_time if given.processor_time else time.perf_counter
    print_machine()
    found = installed(MAKERS, given.only)
    print(f"{given.rounds} rounds")

    data = batches(given.updates)
    for made in found.values():
        made.model.train()
    runs = {name: (lambda made=made: [made.update(batch) for batch in data]) for name, made in found.items()}
    show("Training", race(runs, given.updates * BATCH * CONTEXT, given.rounds, clock))

    written = {}
    for made in found.values():
        made.model.eval()
    for count in (1, 32):
        asked = prompts_of(count)
        writes = {name: partial(made.write, *asked) for name, made in found.items()}
        written[count] = race(writes, count * NEW, given.rounds, clock)
        show(f"Generation, {count} prompt{'s of different lengths together' if count > 1 else ''}", written[count])
    print()
    for name in found:
        print(f"  {name:20} 32 together: {written[32][name][0] / written[1][name][0]:5.2f} times the tokens/s of one")

    print("\nPeak memory above the imports, MiB: training, generating 32")
    for name in found:
        print(f"  {name:20} {peak(name, 'train', given):6.0f} {peak(name, 'write', given):6.0f}")


if __name__ == "__main__":
    main()
