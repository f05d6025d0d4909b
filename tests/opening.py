"""Opens the weights of a look and runs the lines of NumPy that give them."""

import numpy as np
import pytest

from heed.errors import ConfigError
from heed.show.picture_drawing import ShownPicture


def run_numpy(number):
    """The weight that the lines of NumPy give, in a namespace of their own."""
    code = number.numpy()
    assert 1 <= len(code.splitlines()) <= 6
    names = {}
    exec(code, names)
    assert {name for name, value in names.items() if callable(value)} <= {"np"}
    return float(names["weight"])


def cells(look):
    """The cells of the only attention of a look, with the weights that are drawn; a few of each row."""
    if isinstance(look, ShownPicture):
        (attention,) = [map for map in look.maps if map.weight_source is not None]
        tokens = look.look.every.leading
        names = ["class"] * tokens + [f"{r},{c}" for r in range(attention.grid[0]) for c in range(attention.grid[1])]
        for at in {0, len(names) // 2, len(names) - 1}:
            weight = attention.weights[tuple(map(int, names[at].split(",")))] if at >= tokens else attention.outside
            yield ("class" if tokens else names[0]), names[at], float(weight) if tokens else None
        return
    maps = [map.weights for map in look.maps if map.weight_source is not None]
    maps += [np.array([map.weights]) for map in look.look.shadings if map.row is not None]
    (weights,) = maps
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
        opened = number.breakdown.number
        assert opened.weight == pytest.approx(opened.seen, abs=1e-6)
        assert f"weight {number.weight:.6f}" in number.text() and number.html()
    return count


def open_each(run, value, **options):
    """Open cells of every attention that a look can show; returns the names of those mechanisms."""
    whole, places = run.look(value, layer="all", head="all", **options), set()
    if isinstance(whole, ShownPicture):
        names = [shown.title.partition(": ")[2] for shown in whole.maps if shown.weight_source is not None]
        numbers = [[int(part.split()[-1]) for part in name.split(", ")] for name in names]
        places = {("encoder", layer, head) for layer, head in numbers}
    else:
        places |= {
            (shown.mechanism, shown.layer, shown.head) for shown in whole.maps if shown.weight_source is not None
        }
        places |= {(shown.row.mechanism, 0, 0) for shown in whole.look.shadings if shown.row is not None}
    for mechanism, layer, head in places:
        assert open_all(run.look(value, mechanism=mechanism, layer=layer, head=head, **options)), mechanism
    return {mechanism for mechanism, _, _ in places}
