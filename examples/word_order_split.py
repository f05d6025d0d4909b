"""Draw English sentences from Tatoeba files (English, other language, optional further columns) for word-order.yaml.

    python examples/word_order_split.py data/tatoeba/deu.txt.gz data/tatoeba/spa.txt.gz data/word-order 100000 1000

draws 100,000 distinct sentences of 5 to 12 words from the English sides, 1,000 of them for the test set, and writes
data/word-order/train.txt and data/word-order/test.txt, one sentence a line. No training sentence has the same words as
a test sentence, ignoring order and case.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader, words_of


def main() -> None:
    *files, folder, total, test_size = sys.argv[1:]
    sentences = list(dict.fromkeys(pair.source for file in files for pair in pair_reader().read([file], Findings())))
    sentences = [sentence for sentence in sentences if 5 <= len(sentence.split()) <= 12]
    random.Random(1).shuffle(sentences)
    test = sentences[: int(test_size)]
    taken = {_bag(sentence) for sentence in test}
    others = (sentence for sentence in sentences[int(test_size) :] if _bag(sentence) not in taken)
    train = [sentence for sentence, _ in zip(others, range(int(total) - int(test_size)), strict=False)]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for split, chosen in (("train", train), ("test", test)):
        (Path(folder) / f"{split}.txt").write_text("".join(f"{sentence}\n" for sentence in chosen), encoding="utf-8")
    print(f"{len(train)} training sentences, {len(test)} test sentences")


def _bag(sentence: str) -> str:
    """The words of a sentence, sorted and lower-cased."""
    return " ".join(sorted(words_of(sentence.lower())[1]))


if __name__ == "__main__":
    main()
