"""Opens the weights of a look and runs the lines of NumPy that give them."""

import numpy as np
import pytest

from heed.errors import ConfigError
from heed.show.picture_drawing import ShownPicture


def run_numpy(number):
    """The weight that the lines of NumPy give, in a namespace of their own."""
    code = number.numpy()
    assert 1 <= len(code.splitlines()) <= 6
    found = {}
    exec(code, found)
    assert {name for name, one in found.items() if callable(one)} <= {"np"}
    return float(found["weight"])


def cells(look):
    """The cells of the only attention of a look, with the weights that are drawn; a few of each row."""
    if isinstance(look, ShownPicture):
        (one,) = [map for map in look.maps if map.weight_source is not None]
        tokens = look.look.every.leading
        names = ["class"] * tokens + [f"{r},{c}" for r in range(one.grid[0]) for c in range(one.grid[1])]
        for at in {0, len(names) // 2, len(names) - 1}:
            weight = one.weights[tuple(map(int, names[at].split(",")))] if at >= tokens else one.outside
            yield ("class" if tokens else names[0]), names[at], float(weight) if tokens else None
        return
    found = [one.weights for one in look.maps if one.weight_source is not None]
    found += [np.array([one.weights]) for one in look.look.shadings if one.row is not None]
    (weights,) = found
    for row in range(len(weights)):
        for column in {0, row % weights.shape[1], weights.shape[1] - 1}:
            yield row, column, float(weights[row, column])


def open_all(look):
    """Open cells of a look that shows one attention; returns the number of those opened."""
    count = 0
    for row, column, weight in cells(look):
        try:
            number = look.number(row, column)
        except ConfigError as error:  # the first token of some models has nothing to look at
            assert "is empty" in str(error) or "is not among" in str(error)
            assert weight == 0
            continue
        count += 1
        assert weight is None or number.weight == pytest.approx(weight, abs=1e-6)
        assert run_numpy(number) == pytest.approx(number.weight, abs=1e-5)
        one = number.breakdown.number
        assert one.weight == pytest.approx(one.seen, abs=1e-6)
        assert f"weight {number.weight:.6f}" in number.text() and number.html()
    return count


def open_each(run, given, **options):
    """Open cells of every attention that a look can show; returns the names of those mechanisms."""
    whole, found = run.look(given, layer="all", head="all", **options), set()
    if isinstance(whole, ShownPicture):
        names = [one.title.partition(": ")[2] for one in whole.maps if one.weight_source is not None]
        numbers = [[int(part.split()[-1]) for part in name.split(", ")] for name in names]
        found = {("encoder", layer, head) for layer, head in numbers}
    else:
        found |= {(one.mechanism, one.layer, one.head) for one in whole.maps if one.weight_source is not None}
        found |= {(one.row.mechanism, 0, 0) for one in whole.look.shadings if one.row is not None}
    for mechanism, layer, head in found:
        assert open_all(run.look(given, mechanism=mechanism, layer=layer, head=head, **options)), mechanism
    return {mechanism for mechanism, _, _ in found}
