"""Speed of `han` without padded sentences against a padded form, and the cost of a CRF, interleaved in one run.

    python benchmarks/text.py [IMDB_FILE] [--documents 25000] [--batches 40] [--threads 2]

`han` of examples/imdb-han.yaml against a plain implementation of the same network, which pads every document of a batch
to the largest number of sentences and every sentence to the largest number of words. All documents are planned into
batches, by heed and, for the plain form, with as many documents to a batch in random order; of each plan a random
sample of batches is timed (collating, both passes, update) and scaled to the whole pass. Without a file, documents are
generated with IMDb's lengths.

Then a tagger with a CRF against one with a softmax: 32 sentences of 30 words, 13 tags. A short sleep follows each
measurement: some schedulers throttle a process that never yields.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from machine import print_machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heed.data.batch.plan import plan_batches
from heed.data.batch.texts import TokenText, collate_texts
from heed.data.read.sentences import split_sentences
from heed.data.read.texts import TextFormat, read_texts
from heed.data.tokens.words import split_words
from heed.models.han import HAN, HANConfig
from heed.models.rnn import RNN, RNNConfig
from heed.tasks.classification.config import ClassificationHead
from heed.tasks.classification.model import Classifier
from heed.tasks.tagging.model import CrfHead, SoftmaxHead, Tagger, TagHead

VOCABULARY, BATCH_TOKENS, MAX_SENTENCE, MAX_LENGTH = 20_000, 8_000, 60, 1_000
LABELS = ["O", *(f"{letter}-{kind}" for kind in "abcdef" for letter in "BI")]
ROUNDS = 60
Lengths = list[int]
"""Number of words in each sentence of a document."""
Seconds = tuple[float, float]
"""Wall-clock time, and processor time of all threads together."""


class PlainPooling(nn.Module):
    """Additive attention with a learned query."""

    def __init__(self, d: int, d_attention: int) -> None:
        super().__init__()
        self.key = nn.Linear(d, d_attention)
        self.query = nn.Parameter(torch.rand(d_attention) - 0.5)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States `(rows, length, d)` to `(rows, d)`."""
        scores = torch.tanh(self.key(states)) @ self.query
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1)
        return (weights.unsqueeze(1) @ states).squeeze(1)


class PlainHAN(nn.Module):
    """The same network in torch's own layers, over rectangles of documents, sentences and words."""

    def __init__(self, config: HANConfig) -> None:
        super().__init__()
        c = config
        self.embedding = nn.Embedding(c.vocab_size, c.d_embedding, padding_idx=0)
        self.words = nn.GRU(c.d_embedding, c.d_hidden, batch_first=True, bidirectional=True)
        self.word_pooling = PlainPooling(2 * c.d_hidden, c.d_attention)
        self.sentences = nn.GRU(2 * c.d_hidden, c.d_hidden, batch_first=True, bidirectional=True)
        self.sentence_pooling = PlainPooling(2 * c.d_hidden, c.d_attention)
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(2 * c.d_hidden, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Documents `(batch, sentences, words)` to logits `(batch, 2)`."""
        batch, sentences, words = tokens.shape
        states, _ = self.words(self.dropout(self.embedding(tokens.view(-1, words))))
        vectors = self.word_pooling(states, mask.view(-1, words)).view(batch, sentences, -1)
        states, _ = self.sentences(vectors)
        return self.output(self.dropout(self.sentence_pooling(states, mask.any(-1))))  # type: ignore[no-any-return]

    def take(self, other: Classifier) -> None:
        """Take heed's weights."""
        body = other.body
        assert isinstance(body, HAN)
        own = dict(self.named_parameters())
        pairs = {"embedding.weight": body.embedding.weight}
        pairs |= {f"output.{name}": tensor for name, tensor in other.output.named_parameters()}
        for level, pooling in (("word", body.word_pooling), ("sentence", body.sentence_pooling)):
            assert pooling.key is not None
            pairs |= {f"{level}_pooling.key.{name}": tensor for name, tensor in pooling.key.named_parameters()}
            pairs[f"{level}_pooling.query"] = pooling.query[0]
            layer = getattr(body, f"{level}s")
            for cells, end in ((layer.forward_cells, ""), (layer.backward_cells, "_reverse")):
                for name, tensor in cells[0].weights().items():
                    kind, which = name.split("_")
                    pairs[f"{level}s.{'weight' if kind == 'w' else 'bias'}_{which}_l0{end}"] = tensor
        with torch.no_grad():
            for name, tensor in pairs.items():
                own.pop(name).copy_(tensor)
        assert not own, own.keys()


def read_lengths(path: Path, count: int) -> list[Lengths]:
    """Sentence lengths of some documents of a file, split as in heed."""
    texts = list(read_texts([path], TextFormat()))
    chosen = random.Random(1).sample(texts, min(count, len(texts)))
    counted = ([len(split_words(text.text[a:b])) for a, b in split_sentences(text.text)] for text in chosen)
    return [cut(lengths) for lengths in counted]


def draw_lengths(count: int) -> list[Lengths]:
    """Random lengths: sentences of about 20 words, some of a hundred, about 11 to a document."""
    rng = random.Random(1)

    def draw(mean: float) -> int:
        return max(1, round(rng.lognormvariate(mean, 0.6)))

    return [cut([draw(2.9) for _ in range(draw(2.4))]) for _ in range(count)]


def cut(lengths: Lengths) -> Lengths:
    """Cut sentences to MAX_SENTENCE and documents to MAX_LENGTH."""
    parts, left = [], MAX_LENGTH
    for part in (min(MAX_SENTENCE, n - start) for n in lengths for start in range(0, n, MAX_SENTENCE)):
        parts.append(min(part, left))
        left -= parts[-1]
        if not left:
            break
    return parts


def clocked(run: Callable[[], object]) -> Seconds:
    wall, own = time.perf_counter(), time.process_time()
    run()
    taken = time.perf_counter() - wall, time.process_time() - own
    time.sleep(0.1 * taken[0])
    return taken


def updates(model: nn.Module) -> Callable[[Tensor], None]:
    """Update function for the loss of a batch, as in heed's training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def update(loss: Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def training(model: nn.Module) -> Callable[[list[Lengths]], None]:
    """Training step on a batch of documents with the given lengths; the words do not matter for time."""
    update = updates(model)

    def train(lengths: list[Lengths]) -> None:
        texts = [TokenText([torch.randint(4, VOCABULARY, (n,)).tolist() for n in inside], [0]) for inside in lengths]
        batch = collate_texts(texts, list(range(len(texts))), hierarchical=True, num_labels=None)
        update(cross_entropy(model(batch.tokens, batch.mask), batch.labels))

    return train


def of_means(slower: list[Seconds], faster: list[Seconds], clock: int) -> tuple[float, float, float]:
    """Ratio of mean times, and its 95 % interval over resampled batches."""
    rng = random.Random(1)

    def ratio(rows: list[int]) -> float:
        return sum(slower[i][clock] for i in rows) / sum(faster[i][clock] for i in rows)

    count = len(slower)
    resampled = sorted(ratio(rng.choices(range(count), k=count)) for _ in range(1_000))
    return ratio(list(range(count))), resampled[25], resampled[974]


def documents(lengths: list[Lengths], num_batches: int) -> None:
    """Train on sampled batches of each plan in turn, and print a table."""
    own = plan_batches([(sum(inside), 0) for inside in lengths], BATCH_TOKENS, 1, 0)
    shuffled = random.Random(2).sample(range(len(lengths)), len(lengths))
    size = round(len(lengths) / len(own))
    plain = [shuffled[i : i + size] for i in range(0, len(lengths), size)]
    config = HANConfig(vocab_size=VOCABULARY, **HANConfig.sizes["small"])
    heed, padded = Classifier(HAN(config), ClassificationHead(), 2), PlainHAN(config)
    padded.take(heed)
    tokens = torch.randint(4, VOCABULARY, (3, 4, 9))  # without padding both give the same result
    full = torch.ones_like(tokens, dtype=torch.bool)
    torch.testing.assert_close(heed.eval()(tokens, full), padded.eval()(tokens, full))

    with_heed, with_padding = training(heed.train()), training(padded.train())
    rng = random.Random(3)
    chosen = rng.choices(own, k=num_batches), rng.choices(plain, k=num_batches)
    rows = {
        "`han`": (with_heed, own, chosen[0]),
        "padded, heed's batches": (with_padding, own, chosen[0]),
        f"padded, {size} documents in random order": (with_padding, plain, chosen[1]),
    }
    taken: dict[str, list[Seconds]] = {name: [] for name in rows}
    for i in range(-1, num_batches):  # the first round warms up
        for name, (train, _, batches) in rows.items():
            picked = [lengths[n] for n in batches[max(i, 0)]]
            seconds = clocked(lambda train=train, picked=picked: train(picked))  # type: ignore[misc]
            if i >= 0:
                taken[name].append(seconds)

    words = sum(map(sum, lengths))
    print(f"{len(lengths):,} documents, {words:,} words; {num_batches} batches of each\n")
    print("| training | batches per pass | s per pass | documents/s | x `han`'s time [95 %] | in processor time |")
    print("|---|---|---|---|---|---|")
    reference = taken["`han`"]
    for name, (_, plan, _) in rows.items():
        whole = statistics.mean(wall for wall, _ in taken[name]) * len(plan)
        ratios = []
        for clock in (0, 1):
            value, low, high = (len(plan) / len(own) * x for x in of_means(taken[name], reference, clock))
            ratios.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
        print(f"| {name} | {len(plan):,} | {whole:.0f} | {len(lengths) / whole:.0f} | {' | '.join(ratios)} |")


def tags() -> None:
    """Update two taggers in turn, and print a table."""
    tokens = torch.randint(4, 8_000, (32, 30))
    true = 1 + 2 * torch.randint(6, (32, 30))  # every word has a B tag, which is allowed everywhere
    mask = torch.ones(32, 30, dtype=torch.bool)

    def tagger(head: Callable[[int], TagHead]) -> Callable[[], None]:
        body = RNN(RNNConfig(vocab_size=8_000, **RNNConfig.sizes["small"]))
        model = Tagger(body, head(body.d_output), None).train()
        update = updates(model)
        return lambda: update(model.head.loss(model(tokens, mask, None, mask, None), true, mask, 0.0) / mask.sum())

    crf, softmax = tagger(lambda d: CrfHead(d, LABELS, True)), tagger(lambda d: SoftmaxHead(d, LABELS))
    pairs = [(clocked(crf), clocked(softmax)) for _ in range(ROUNDS + 5)][5:]
    print("\n| tagger, 32 sentences of 30 words | crf, ms | softmax, ms | ratio (quartiles) |")
    print("|---|---|---|---|")
    for clock, name in enumerate(("one update", "in processor time")):
        slow, fast = ([1000 * pair[which][clock] for pair in pairs] for which in (0, 1))
        low, middle, high = statistics.quantiles([a / b for a, b in zip(slow, fast, strict=True)], n=4)
        median = statistics.median
        print(f"| {name} | {median(slow):.1f} | {median(fast):.1f} | {middle:.2f} ({low:.2f}, {high:.2f}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="IMDb's training set")
    parser.add_argument("--documents", type=int, default=25_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    print_machine()
    count = arguments.documents
    lengths = draw_lengths(count) if arguments.file is None else read_lengths(arguments.file, count)
    source = "drawn" if arguments.file is None else arguments.file.name
    print(f"documents: {source}")
    documents([inside for inside in lengths if inside], arguments.batches)
    tags()


if __name__ == "__main__":
    main()
