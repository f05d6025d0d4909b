"""What reading only the sentences that exist saves, and what a CRF costs: `python benchmarks/text.py [IMDB_FILE]`.

Ratios within one run. Without a file, documents are drawn with the lengths of IMDb's: sentences of 1 to 60 words, about
20, and documents of about 11 sentences, some of a hundred.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from heed.data.batching import plan_batches
from heed.data.sentences import split_sentences
from heed.data.text_batching import TextBatch, TokenText, collate_texts
from heed.data.texts import TextFormat, read_texts
from heed.data.words import split_words
from heed.models.han import HAN, HANConfig
from heed.tasks.heads import CrfHead, SoftmaxHead

VOCAB_SIZE, BATCH_TOKENS, DOCUMENTS = 8_000, 8_000, 200


class PaddedHAN(HAN):
    """The same network with every document padded to the longest of its batch, in sentences and in words."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Documents `(batch, sentences, words)` to `(batch, d_output)`."""
        batch, sentences, words = tokens.shape
        flat = mask.view(batch * sentences, words)
        embedded = self.dropout(self.embedding(tokens.view(batch * sentences, words)))
        states, _ = self.words(embedded, flat)
        vectors = self.word_pooling(states, flat).view(batch, sentences, -1)
        real = mask.any(-1)
        states, _ = self.sentences(vectors, real)
        return self.dropout(self.sentence_pooling(states, real))  # type: ignore[no-any-return]


def documents(path: Path | None) -> list[TokenText]:
    """Documents as sentences of tokens; which tokens is of no matter to the time."""
    rng = random.Random(1)
    if path is None:
        lengths = [
            [
                min(60, max(1, round(rng.lognormvariate(2.9, 0.6))))
                for _ in range(max(1, round(rng.lognormvariate(2.4, 0.6))))
            ]
            for _ in range(DOCUMENTS)
        ]
    else:
        texts = list(read_texts([path], TextFormat()))
        lengths = []
        for text in rng.sample(texts, DOCUMENTS):
            counts = [len(split_words(text.text[a:b])) for a, b in split_sentences(text.text)]
            lengths.append([min(60, n - start) for n in counts for start in range(0, n, 60)])
    return [TokenText([[rng.randrange(4, VOCAB_SIZE) for _ in range(n)] for n in inside], [0]) for inside in lengths]


def drawn(rng: random.Random, mean: float, most: int) -> int:
    """A length whose logarithm is normal."""
    return min(most, max(1, round(rng.lognormvariate(mean, 0.6))))


def seconds(run: Callable[[], object], least: float = 1.0) -> float:
    """Median processor time of one call, over at least `least` seconds and three calls.

    Of all threads together: what else the machine does counts for little.
    """
    run()
    times: list[float] = []
    while sum(times) < least or len(times) < 3:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return sorted(times)[len(times) // 2]


def pass_over(model: HAN, batches: list[TextBatch]) -> Callable[[], None]:
    """Forward and backward over batches."""

    def run() -> None:
        for batch in batches:
            model(batch.tokens, batch.mask).sum().backward()
            model.zero_grad(set_to_none=True)

    return run


def crf_against_softmax() -> tuple[float, float]:
    """A training step of a BiLSTM tagger, 32 sentences of 30 words, 13 tags: with a CRF, and with a softmax."""
    labels = ["O", *(f"{letter}-{kind}" for kind in "abcdef" for letter in "BI")]
    words, tags = torch.randn(32, 30, 128), torch.zeros(32, 30, dtype=torch.long)
    mask = torch.ones(32, 30, dtype=torch.bool)
    taken = []
    for head in (CrfHead(256, labels, True), SoftmaxHead(256, labels)):
        network = nn.LSTM(128, 128, batch_first=True, bidirectional=True)

        def step(head: CrfHead | SoftmaxHead = head, network: nn.LSTM = network) -> None:
            head.loss(network(words)[0], tags, mask, 0.0).backward()

        taken.append(seconds(step))
    return taken[0], taken[1]


def main() -> None:
    torch.manual_seed(1)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    texts = documents(path)
    plan = plan_batches([(text.length, 0) for text in texts], BATCH_TOKENS, 1, 0)
    shuffled = list(range(len(texts)))
    random.Random(1).shuffle(shuffled)
    size = len(texts) // len(plan)
    plain = [shuffled[i : i + size] for i in range(0, len(texts), size)]
    config = HANConfig(vocab_size=VOCAB_SIZE, **HANConfig.sizes["small"])
    own, padded = HAN(config), PaddedHAN(config)
    padded.load_state_dict(own.state_dict())

    def batches(chosen: list[list[int]]) -> list[TextBatch]:
        return [collate_texts(texts, indices, hierarchical=True, num_labels=None) for indices in chosen]

    ours, theirs = batches(plan), batches(plain)
    one = ours[0]
    with torch.no_grad():
        torch.testing.assert_close(own.eval()(one.tokens, one.mask), padded.eval()(one.tokens, one.mask))
    fast = seconds(pass_over(own.train(), ours))
    same, slow = seconds(pass_over(padded.train(), ours)), seconds(pass_over(padded, theirs))
    whose = "" if path is None else f" of {path.name}"
    print(f"{torch.get_num_threads()} threads; {len(texts)} documents{whose}, forward and backward")
    print(f"han as it is: {fast:.2f} s; padded in the same batches: {same:.2f} s, {same / fast:.1f} x")
    print(f"padded in batches of {size} documents in any order: {slow:.2f} s, {slow / fast:.1f} x")
    crf, softmax = crf_against_softmax()
    print(f"tagger with CRF: {1000 * crf:.1f} ms a step, softmax {1000 * softmax:.1f} ms, {crf / softmax:.2f} x")


if __name__ == "__main__":
    main()
