"""Training speed of heed's classifiers against plain padded implementations with the same weights, in one run.

    python benchmarks/classifiers.py [--texts 1200] [--seconds 1]

Texts have the lengths of a treebank's sentences (1 to 60 words, about 20); `han` over documents is in
`benchmarks/text.py`. heed: batches of texts of similar length, as in its training. The plain form: as many batches in
random order, each padded to its longest text. The networks are the same except for the plain `lstmn`, which follows its
equations literally and scores the whole tape again at every step. Forward and backward without dropout, after a check
that both networks give the same outputs. Processor time of all threads together.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import torch
from machine import print_machine
from torch import Tensor, nn

from heed.attention import attend
from heed.data.batch.plan import plan_batches
from heed.data.batch.texts import TokenText, collate_texts
from heed.models.encoder import Encoder, EncoderConfig
from heed.models.lstmn import LSTMN, LSTMNConfig
from heed.models.rnn import RNN, RNNConfig

VOCAB_SIZE, BATCH_TOKENS = 8_000, 8_000


class PlainLSTMN(LSTMN):
    """The same network, step by step from its equations: all past states are projected and scored again each time."""

    def forward(self, tokens: Tensor, mask: Tensor, features: Tensor | None = None) -> Tensor:
        """States of each token, `(batch, length, d_output)`."""
        embedded = self.inputs(tokens, features)
        summary = self.cell.zero_state(embedded)
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for x in embedded.unbind(1):
            if hidden:
                query = torch.cat([x, summary[0]], dim=-1).unsqueeze(1)
                tape = torch.stack(hidden, dim=1)
                both = torch.cat([tape, torch.stack(cells, dim=1)], dim=-1)
                summary = attend(query, tape, both, None, self.attention.score)[0].squeeze(1).chunk(2, dim=-1)
            state = self.cell.step(x, summary)
            hidden.append(state[0])
            cells.append(state[1])
        return torch.stack(hidden, dim=1)


MODELS: dict[str, tuple[type[nn.Module], type[nn.Module], RNNConfig | LSTMNConfig | EncoderConfig]] = {
    "rnn": (RNN, RNN, RNNConfig(vocab_size=VOCAB_SIZE, **{**RNNConfig.sizes["small"], "dropout": 0.0})),
    "lstmn": (LSTMN, PlainLSTMN, LSTMNConfig(vocab_size=VOCAB_SIZE, **{**LSTMNConfig.sizes["small"], "dropout": 0.0})),
    "encoder": (
        Encoder,
        Encoder,
        EncoderConfig(vocab_size=VOCAB_SIZE, **{**EncoderConfig.sizes["small"], "dropout": 0.0}),
    ),
}


def sentences(count: int) -> list[TokenText]:
    rng = random.Random(2)
    lengths = [min(60, max(1, round(rng.lognormvariate(2.9, 0.6)))) for _ in range(count)]
    return [TokenText([[rng.randrange(4, VOCAB_SIZE) for _ in range(n)]], [0]) for n in lengths]


def seconds(run: Callable[[], object], least: float) -> float:
    """Median processor time of one call, from at least three calls and `least` seconds."""
    run()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--texts", type=int, default=1_200, help="number of sentences")
    parser.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS)
    parser.add_argument("--seconds", type=float, default=1.0, help="least time for each measurement")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_machine()
    print(f"batches of {given.batch_tokens} tokens")
    texts = sentences(given.texts)

    def batches(chosen: list[list[int]]) -> list[tuple]:
        made = [collate_texts(texts, indices, hierarchical=False, num_labels=None) for indices in chosen]
        return [(batch.tokens, batch.mask) for batch in made]

    plan = plan_batches([(text.length, 0) for text in texts], given.batch_tokens, 1, 0)
    order = random.Random(1).sample(range(len(texts)), len(texts))
    sorted_by_length, in_any_order = batches(plan), batches([order[i :: len(plan)] for i in range(len(plan))])
    for name, (own_class, plain_class, config) in MODELS.items():
        torch.manual_seed(1)
        own, plain = own_class(config), plain_class(config)
        plain.load_state_dict(own.state_dict())
        tokens, mask = in_any_order[0]
        with torch.no_grad():
            both = own.eval()(tokens, mask), plain.eval()(tokens, mask)
            real = mask if both[0].dim() == 3 else slice(None)
            torch.testing.assert_close(both[0][real], both[1][real])

        def train(model: nn.Module, data: list[tuple]) -> None:
            for tokens, mask in data:
                hidden = model(tokens, mask)
                (hidden[mask] if hidden.dim() == 3 else hidden).square().sum().backward()
                model.zero_grad(set_to_none=True)

        own.train()
        plain.train()
        fast = seconds(lambda: train(own, sorted_by_length), given.seconds)  # noqa: B023
        slow = seconds(lambda: train(plain, in_any_order), given.seconds)  # noqa: B023
        padding = 1 - sum(float(m.sum()) for _, m in in_any_order) / sum(m.numel() for _, m in in_any_order)
        print(
            f"  {name:8} {len(texts):4} texts: heed {fast:6.2f} s, plain {slow:6.2f} s ({padding:3.0%} padding),"
            f" {slow / fast:4.1f} x"
        )


if __name__ == "__main__":
    main()
