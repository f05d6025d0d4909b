"""Shape annotations: jaxtyping's if it is installed (tests enforce them), otherwise plain tensors.

`Float[Tensor, "batch query key"]` documents and, under pytest, checks a shape. At run time heed does not need
jaxtyping: without it the annotation is just `Tensor`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from torch import Tensor
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Int = _Unchecked


class ReturnsTensor:
    """Tells the type checker that calling a module gives a tensor; torch's own annotation says `Any`."""

    if TYPE_CHECKING:
        __call__: Callable[..., Tensor]
