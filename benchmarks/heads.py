"""How many heads can go within 0.5 BLEU, by kind of attention? A trained translation run.

python benchmarks/heads.py [RUN] [--rank 500] [--sentences 1000] [--points 0.5]

Heads are ranked once, by the loss on `--rank` validation pairs without each of them, and removed in that order (each
layer keeps one), first of one kind of attention, then of all. The largest number whose BLEU on the test set is at most
`--points` below the whole model's is found by bisection, which assumes that BLEU falls with the number of heads.

Source: Michel et al. 2019, arXiv:1905.10650, section 4; Voita et al. 2019, arXiv:1905.09418, section 5.
"""

from __future__ import annotations

import argparse
import copy
from collections import Counter
from typing import Any

from machine import print_machine

import heed
from heed.data.examples import evenly
from heed.observe.edits import attention_of, heads_of
from heed.runs.heads import Place, without_head


def pruned(run: Any, order: list[Place], count: int) -> tuple[Any, list[Place]]:
    """The run without the first heads of an order, as far as each layer keeps one; and those heads."""
    left = {place: [*range(number)] for place, number in heads_of(run.model).items()}
    gone: list[Place] = []
    for mechanism, layer, head in order:
        own = left[mechanism, layer]
        if len(gone) < count and len(own) > 1:
            own.remove(head)
            gone.append((mechanism, layer, head))
    model = copy.deepcopy(run.model)
    for module in attention_of(model).values():
        module.keep(left[module.mechanism, module.layer])
    return type(run)(run.folder, run.config, run.task, model, {}), gone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="last")
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--points", type=float, default=0.5)
    options = parser.parse_args()
    print_machine()
    run = heed.load(options.run)
    valid, test = evenly(run.examples("valid"), options.rank), evenly(run.examples("test"), options.sentences)
    encoded = run.task.encode_pairs(valid)

    def loss() -> float:
        nll, _, tokens = run.task.forced_scores(run.model, encoded)
        return sum(nll) / sum(tokens)

    def bleu(one: Any) -> float:
        return one.outcomes(test).measure("bleu").score()

    places = [(*place, head) for place, number in heads_of(run.model).items() for head in range(number)]
    whole, losses = loss(), {}
    for place in places:
        with without_head(run.model, place):
            losses[place] = loss() - whole
    order = sorted(places, key=losses.__getitem__)
    print(f"loss {whole:.4f}; without one head, least first: " + ", ".join(f"{p}: {losses[p]:+.4f}" for p in order))
    base = bleu(run)
    print(f"all {len(places)} heads: BLEU {base:.2f} on {len(test)} sentences", flush=True)
    for kind in (*dict.fromkeys(name for name, *_ in places), "all"):
        own = [place for place in order if kind in ("all", place[0])]
        low, high, found = 0, len(pruned(run, own, len(own))[1]), {}
        most = high
        while low < high:
            middle = (low + high + 1) // 2
            found[middle] = bleu(pruned(run, own, middle)[0])
            low, high = (middle, high) if found[middle] >= base - options.points else (low, middle - 1)
        gone = Counter(name for name, *_ in pruned(run, own, low)[1])
        tried = ", ".join(f"{number}: {score:.2f}" for number, score in sorted(found.items()))
        print(
            f"{kind}: {low} of {len(own)} heads can go ({most} at most), {dict(gone)}; BLEU by number {tried}",
            flush=True,
        )


if __name__ == "__main__":
    main()
