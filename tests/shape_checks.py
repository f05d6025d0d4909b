"""Check shapes in signatures once for each combination of shapes and types, not at every call.

jaxtyping binds and checks all arguments twice a call, which took two fifths of the time of a small training. The result
depends only on types, shapes and data types, so a call whose combination has passed before runs without the check.
"""

import functools
import inspect
from types import FunctionType

import jaxtyping
from torch import Tensor

_jaxtyped = jaxtyping.jaxtyped


def install(packages):
    """Check the functions of packages, which must not be imported yet: loaded modules cannot be instrumented."""
    jaxtyping.jaxtyped = _jaxtyped_once
    jaxtyping.install_import_hook(packages, "beartype.beartype")


def _jaxtyped_once(*, typechecker):
    def decorate(function):
        if not inspect.isfunction(function) or getattr(function, "__no_type_check__", False):
            return _jaxtyped(function, typechecker=typechecker)
        return _once(function, typechecker)

    return decorate


def _once(function, typechecker):
    results = []

    def recorded(*args, **kwargs):
        return results[-1]

    # Annotations are looked up in the function's module.
    recorded = FunctionType(recorded.__code__, function.__globals__, function.__name__, None, recorded.__closure__)
    checked = _jaxtyped(function, typechecker=typechecker)
    with_result = _jaxtyped(functools.update_wrapper(recorded, function), typechecker=typechecker)
    argument_kinds, seen = set(), set()

    @functools.wraps(function)
    def call(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        kinds = _kind(args), _kind(kwargs) if kwargs else None
        if kinds not in argument_kinds:
            result = checked(*args, **kwargs)
            argument_kinds.add(kinds)
            seen.add((kinds, _kind(result)))
            return result
        result = function(*args, **kwargs)
        if (pair := (kinds, _kind(result))) not in seen:
            results.append(result)
            try:
                with_result(*args, **kwargs)
            finally:
                results.pop()
            seen.add(pair)
        return result

    return call


def _kind(value):
    """Everything that the check of a value depends on, as a hashable value."""
    kind = type(value)
    if issubclass(kind, Tensor):
        return kind, value.shape, value.dtype
    if issubclass(kind, tuple | list):
        return kind, *map(_kind, value)
    if issubclass(kind, dict):
        return kind, *((key, _kind(item)) for key, item in value.items())
    return value if kind is str else kind
