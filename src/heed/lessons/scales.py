"""The stages about size: what scores are divided by, and weights that change the width."""

from __future__ import annotations

import torch

from heed.attention import ScaledDot
from heed.lessons.arithmetic import Inputs, compute, divisor
from heed.lessons.bench import Bench
from heed.lessons.parts import Stage, Table
from heed.lessons.places import find, name_of
from heed.lessons.tables import attention_tables, features, vectors


def scales_stage(bench: Bench) -> Stage:
    """One row under every scale that is written somewhere, and how far the whole matrices lie apart."""
    chosen, given = bench.chosen, bench.given
    if not bench.asked and bench.file.other_scales:
        chosen = find(bench.file.other_scales[0].row, bench.tokens, f"{bench.where}: other_scales")
    d_query, d_model, count = given.query.shape[-1], given.x.shape[-1], len(bench.tokens)
    widths: dict[int, list[str]] = {}
    for what, size in (("query width", d_query), ("model width", d_model), ("rows", count)):
        widths.setdefault(size, []).append(what)
    scores = {"no scale": bench.named_score("none")}
    scores |= {f"sqrt({size}) {', '.join(names)}": ScaledDot(size) for size, names in widths.items()}
    if not any(abs(divisor(score) - divisor(bench.score)) < 1e-9 for score in scores.values()):
        scores[f"{bench.rule} (this lesson)"] = bench.score
    all_weights = {name: compute(given, score).weights for name, score in scores.items()}
    right = compute(given, ScaledDot(d_query)).weights
    apart = [
        f"{name}: over all rows, weights differ by up to {float((weights - right).abs().max()):.3f} "
        "from those under the query width"
        for name, weights in all_weights.items()
        if not torch.equal(weights, right)
    ]
    rows = torch.stack([weights[chosen] for weights in all_weights.values()])
    mask = None if given.mask is None else given.mask[chosen].expand(len(rows), -1)
    names = tuple(scores)
    token = name_of(chosen, bench.tokens)
    table = Table(f"weights of {token} under each scale", names, bench.tokens, rows, (True,) * len(names), mask)
    prose = (
        "Three scales are in use: the roots of the query's width, of the model's width and of the number of rows."
        + (" Here they are one number." if len(widths) == 1 else ""),
        "The query's width is right: the dot product of two vectors of d independent numbers, each of mean 0 and "
        "variance 1, has variance d; dividing by the root makes it 1 again.",
    )
    equation = "softmax(Q K' / sqrt(d_k)) V"
    return Stage("scales", "The scales", prose, equation, {"weights": rows}, (table,), lines=tuple(apart))


def other_width_stage(bench: Bench, width: int) -> Stage:
    """The same rows through weights of another width, made from a seed."""
    d_model = bench.given.x.shape[-1]
    generator = torch.Generator().manual_seed(bench.file.seed)
    made = {
        # Rounded, so that what is shown is what is used.
        name: (torch.rand(d_model, width, generator=generator, dtype=torch.float64) * 1000).round() / 1000
        for name in ("W_Q", "W_K", "W_V")
    }
    query, key, value = (bench.given.x @ w for w in made.values())
    numbers = compute(Inputs(bench.given.x, query, key, value, bench.given.mask), ScaledDot(width))
    change = "keep the width" if width == d_model else f"{'shrink' if width < d_model else 'expand'} it"
    prose = (
        f"Weights of {d_model} x {width} {change}: the context has {width} numbers per token.",
        f"These weights are OURS, made from seed {bench.file.seed}; no page prints them.",
    )
    projected = {"Q = X W_Q": query, "K = X W_K": key, "V = X W_V": value}
    tables = (
        *(vectors(f"{name} (ours)", w, features(d_model, bench.file.roles)) for name, w in made.items()),
        *(vectors(name, matrix, bench.tokens) for name, matrix in projected.items()),
        *attention_tables(numbers, bench.tokens, bench.tokens, f"sqrt({width})", ("Q", "K", "V")),
    )
    title = f"Other widths: {d_model} x {width}, weights ours"
    equation = f"softmax(Q K' / sqrt({width})) V"
    return Stage(f"width-{width}", title, prose, equation, {**made, **numbers.as_dict()}, tables)
