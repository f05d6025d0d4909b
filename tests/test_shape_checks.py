"""The shape checks of the tests themselves: what was right once does not let anything wrong pass later."""

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float, TypeCheckError
from torch import Tensor

import shape_checks


@pytest.fixture
def function():
    """A function whose shapes are checked; it returns what `results` holds last."""
    results = []

    def doubled(x: Float[Tensor, "rows d"], scale: float = 2.0) -> Float[Tensor, "rows d"]:
        return results[-1] if results else x * scale

    return shape_checks._jaxtyped_once(typechecker=beartype)(doubled), results


def test_wrong_arguments_and_results_are_found_after_right_ones(function):
    call, results = function
    x = torch.ones(2, 3)
    for _ in range(2):
        assert torch.equal(call(x), x * 2) and torch.equal(call(x, scale=3.0), x * 3)
    for wrong in (torch.ones(3), torch.ones(2, 3).int(), None):
        with pytest.raises(TypeCheckError, match="parameters of"):
            call(wrong)
    with pytest.raises(TypeCheckError, match="parameters of"):
        call(x, scale="2")
    for wrong in (torch.ones(3, 2), torch.ones(2, 3).long(), [x], None):
        results[:] = [wrong]
        for _ in range(2):  # a failed check is not remembered
            with pytest.raises(TypeCheckError, match="return value"):
                call(x)
    results[:] = [x]
    assert call(x) is x


def test_nothing_is_checked_while_the_checks_are_off(function, as_installed):
    call, _ = function
    assert jaxtyping.config.jaxtyping_disable
    assert call(torch.ones(3)).shape == (3,)


def test_the_code_of_heed_is_checked():
    from heed.attention import attend

    right = torch.zeros(1, 2, 3)
    attend(right, right, right)
    with pytest.raises(TypeCheckError):
        attend(right, right, right.int())
