"""Split a Tatoeba file (tab-separated: English, other language, optional further columns) for the recipes.

    python examples/tatoeba_split.py data/tatoeba/spa.txt.gz spa 1000 20000

draws a test set of 1,000 pairs with distinct English sides and 20,000 training pairs that share no English sentence
with it, and writes data/tatoeba/spa.{train,test}.{en,spa}. Without the last number, all remaining pairs are used for
training.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader


def main() -> None:
    path, name, test_size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pairs = list(pair_reader().read([path], Findings()))
    random.Random(1).shuffle(pairs)
    test: list[Pair] = []
    taken: set[str] = set()
    for pair in pairs:
        if len(test) < test_size and pair.source not in taken:
            test.append(pair)
            taken.add(pair.source)
    train = [pair for pair in pairs if pair.source not in taken]
    if len(sys.argv) > 4:
        train = train[: int(sys.argv[4])]
    for split, chosen in (("train", train), ("test", test)):
        for side, language in (("source", "en"), ("target", name)):
            text = "".join(getattr(pair, side) + "\n" for pair in chosen)
            (path.parent / f"{name}.{split}.{language}").write_text(text, encoding="utf-8")
    print(f"{len(train)} training pairs, {len(test)} test pairs")


if __name__ == "__main__":
    main()
