"""Two baselines for translation without training: copying the source, and translation of the nearest training sentence.

    python benchmarks/baselines.py train.en train.es test.en test.es [outputs.es]

Given the outputs of a model (`heed predict RUN --input test.en --out outputs.es`), also prints its difference from each
baseline, with the interval of paired bootstrap resampling and the p-value of approximate randomisation.

`heed evaluate` prints both baselines with the scores of a run; this adds the differences and needs no run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from machine import print_machine

from heed.data.read.lines import good_lines
from heed.evaluation.report import shown
from heed.evaluation.significance import interval, randomisation_test, resampled
from heed.evaluation.text import text_measure
from heed.tasks.translation.baselines import NearestSentence


def main() -> None:
    print_machine()
    train_source, train_target, test_source, test_target, *given = (list(good_lines(Path(n))) for n in sys.argv[1:])
    looked_up = NearestSentence(zip(train_source, train_target, strict=True)).translate(test_source)
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
                print(f"  {metric} of the outputs minus the baseline: [{low:+.2f}, {high:+.2f}], p {p:.4f}")


if __name__ == "__main__":
    main()
