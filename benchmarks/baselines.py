"""Two translators that learn nothing, to hold a trained one against: copy the source; look up the nearest sentence.

    python benchmarks/baselines.py train.en train.es test.en test.es [outputs.es]

With the outputs of a model (`heed predict RUN --input test.en --out outputs.es`) also its difference from each, with
the interval of paired bootstrap resampling and the p-value of approximate randomisation.

The nearest training sentence shares the most words with the test sentence (Jaccard index of the sets of lower-cased
words, the first of equal ones); its translation is the output.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from heed.data.read.lines import good_lines
from heed.evaluation.report import shown
from heed.evaluation.significance import interval, randomisation_test, resampled
from heed.evaluation.text import text_measure


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def nearest(train: list[str], tests: list[str]) -> list[int]:
    """Index of the nearest training sentence of each test sentence."""
    sets = [words(text) for text in train]
    holders: dict[str, list[int]] = defaultdict(list)
    for index, bag in enumerate(sets):
        for word in bag:
            holders[word].append(index)
    found = []
    for text in tests:
        bag = words(text)
        shared = Counter(index for word in bag for index in holders.get(word, ()))
        best = max(shared, key=lambda i: (shared[i] / len(bag | sets[i]), -i), default=0)
        found.append(best)
    return found


def main() -> None:
    train_source, train_target, test_source, test_target, *given = (list(good_lines(Path(n))) for n in sys.argv[1:])
    looked_up = [train_target[i] for i in nearest(train_source, test_source)]
    for name, outputs in (("copying the source", test_source), ("nearest training sentence", looked_up)):
        scores = shown([text_measure(name, outputs, test_target) for name in ("bleu", "chrf")])
        line = ", ".join(f"{k} {v['value']:.2f} [{v['low']:.2f}, {v['high']:.2f}]" for k, v in scores.items())
        print(f"{name}: {line}")
        for written in given:
            for metric in ("bleu", "chrf"):
                model, baseline = (text_measure(metric, texts, test_target) for texts in (written, outputs))
                scores = resampled([[model], [baseline]], 10_000, 1)
                low, high = interval(scores[0] - scores[1])
                p = randomisation_test(model, baseline, 10_000, 1)
                print(f"  {metric} of the outputs minus it: [{low:+.2f}, {high:+.2f}], p {p:.4f}")


if __name__ == "__main__":
    main()
