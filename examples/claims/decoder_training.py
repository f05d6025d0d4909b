"""Does one masked pass of a Transformer's decoder give what T passes over growing prefixes give?"""

from __future__ import annotations

from typing import Any

import torch
from harness import Cell, Claim, Plot, Results, Row, Verdict, cells, main, over_seeds

from heed.models.transformer import Transformer, TransformerConfig

LENGTHS = (8, 32, 128)
_SIZE: dict[str, Any] = {"d_model": 32, "num_heads": 4, "num_layers": 2, "d_ff": 64, "dropout": 0.0}


def measure(cell: Cell) -> list[Row]:
    """The largest difference of logits between one pass over T target words and T passes over prefixes.

    The control changes the last word: with a causal mask no earlier logits may move, without one they would.
    """
    torch.manual_seed(cell.seed)
    length = cell["length"]
    model = Transformer(TransformerConfig(source_vocab_size=30, target_vocab_size=30, **_SIZE)).eval()
    source, target = torch.randint(4, 30, (1, 10)), torch.randint(4, 30, (1, length))
    mask = torch.ones(1, 10, dtype=torch.bool)
    other = target.clone()
    other[0, -1] = 4 + (int(target[0, -1]) - 3) % 26
    with torch.no_grad():
        whole = model.logits(model(source, mask, target))
        prefixes = [model.logits(model(source, mask, target[:, : i + 1]))[:, -1] for i in range(length)]
        changed = model.logits(model(source, mask, other))
    one_pass = {"way": "one masked pass", "passes": 1.0}
    row = {
        "difference": float((whole - torch.stack(prefixes, dim=1)).abs().max()),
        "leak": float((whole - changed)[:, :-1].abs().max()),
        "moved": float((whole - changed)[:, -1].abs().max()),
    }
    return [one_pass | row, {"way": "prefix by prefix", "passes": float(len(prefixes))}]


def decide(results: Results) -> Verdict:
    """The rule; the last word must move its own logits, or equal logits would say nothing."""
    rows = [row for row in results.rows if "difference" in row]
    worst = max(max(row["difference"] + row["leak"]) for row in rows)
    compared = min(min(row["moved"]) for row in rows) > 1e-2
    what = "largest difference of logits between one masked pass and all prefixes"
    return Verdict("does not hold here" if worst < 1e-4 and compared else "holds", over_seeds([worst]), what)


CLAIM = Claim(
    name="decoder-training",
    sentence="The training of a Transformer's decoder is sequential.",
    varied="length T = 8 to 128; one masked pass, or T passes over prefixes",
    measured="largest difference of the logits; passes needed",
    rule=(
        "Does not hold here if one masked pass gives the logits of all prefixes to within 1e-4 at every T. Otherwise "
        "holds."
    ),
    literature="Vaswani et al. 2017 (arXiv:1706.03762), section 3.1: masked, so all positions are computed together",
    controls="another last word, which must change its own logits and none before",
    finding=("Writing is sequential, training is not: one masked pass gives the results of all prefixes, to rounding."),
    grid=cells(length=LENGTHS),
    measure=measure,
    decide=decide,
    figure=False,
    plots=(
        Plot("passes", "passes through the decoder", "length", "way"),
        Plot("difference", "largest difference of logits", "length", "way"),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
