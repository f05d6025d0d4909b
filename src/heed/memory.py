"""Messages for running out of memory: what was requested, what is free, and what to lower, instead of a traceback."""

from __future__ import annotations

import contextlib
import errno
import re
import resource
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from heed.errors import OutOfMemoryError

_SIGNS = ("can't allocate memory", "cannot allocate memory", "std::bad_alloc", "out of memory", "unable to allocate")
_ASKED = re.compile(
    r"(?:tried to allocate|allocate) (\d[\d,.]*) ?(bytes|[KMGTPE]i?B)?|(\d+) bytes requested", re.IGNORECASE
)
_GROUP = ("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
_CACHE = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
SCORING = "evaluate fewer examples at a time, split the longest ones, or close other programs"
READING = "shorten or split the longest input, give fewer inputs at a time, or close other programs"
"""Advice for running out of memory when a trained model is used."""


def is_memory_error(error: BaseException) -> bool:
    """True for an error of running out of memory: Python's, NumPy's, torch's on any device, or the system's."""
    if isinstance(error, OutOfMemoryError):
        return False  # already explained
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_known = isinstance(error, RuntimeError) or type(error).__module__.startswith("safetensors")
    return is_known and any(sign in str(error).lower() for sign in _SIGNS)


def asked_for(error: BaseException) -> int | None:
    """Bytes that were requested, if the message of an error has them."""
    if (match := _ASKED.search(str(error))) is None:
        return None
    number, unit, alone = match.groups()
    return round(float((alone or number).replace(",", "").rstrip(".")) * _UNITS[(unit or "b")[0].lower()])


def free_memory() -> int | None:
    """Bytes that this process may still use, by the limits of machine, control group and process; None if unknown.

    Swap space counts.
    """
    limits = [_of_machine(), _of_group(), _of_process()]
    return min((limit for limit in limits if limit is not None), default=None)


def _of_machine() -> int | None:
    sizes = _fields("/proc/meminfo")
    return sizes["MemAvailable"] + sizes.get("SwapFree", 0) if "MemAvailable" in sizes else None


def _of_group() -> int | None:
    root = Path("/sys/fs/cgroup")
    for limit, used in _GROUP:
        with contextlib.suppress(OSError, ValueError):
            counts = (root / limit).with_name("memory.stat").read_text()
            cache = sum(map(int, _CACHE.findall(counts)))  # the kernel frees it when needed
            return max(0, int((root / limit).read_text()) - int((root / used).read_text()) + cache)
    return None


def _of_process() -> int | None:
    with contextlib.suppress(OSError, ValueError):
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            return max(0, limit - _fields("/proc/self/status")["VmSize"])
    return None


def _fields(place: str) -> dict[str, int]:
    """The sizes in a file under /proc, in bytes."""
    with contextlib.suppress(OSError):
        lines = re.findall(r"^(\w+):\s+(\d+) kB$", Path(place).read_text(), re.MULTILINE)
        return {name: int(number) * 1024 for name, number in lines}
    return {}


def size_text(count: int) -> str:
    """A number of bytes as text: "512 MiB", "3.7 GiB"."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"


def explanation(when: str, asked: int | None, lower: str) -> OutOfMemoryError:
    """The error for running out of memory: during what, bytes requested and free, and what to do."""
    free = free_memory()
    amounts = [f"{size_text(asked)} requested"] if asked is not None else []
    amounts += [f"{size_text(free)} free"] if free is not None else []
    listed = f" ({', '.join(amounts)})" if amounts else ""
    return OutOfMemoryError(f"out of memory {when}{listed}; {lower}")


@contextlib.contextmanager
def memory_explained(when: str, lower: str) -> Iterator[None]:
    """Context manager that explains an error of running out of memory.

    Args:
        when: The work being done, such as "while predicting".
        lower: Advice: the settings to lower.

    Raises:
        OutOfMemoryError: Memory ran out.
    """
    try:
        yield
    except Exception as error:
        if not is_memory_error(error):
            raise
        explained = explanation(when, asked_for(error), lower)
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        raise explained from None


def check_memory(needed: int, when: str, lower: str) -> None:
    """Refuse work that needs far more memory than there is: the system might kill the program without an error.

    Raises:
        OutOfMemoryError: It needs over 1.25 times the free memory (predictions are not exact).
    """
    free = free_memory()
    if free is not None and needed > 1.25 * free:
        raise explanation(when, needed, lower)


_explaining: ContextVar[bool] = ContextVar("explaining", default=False)


@contextlib.contextmanager
def explains_memory(when: str, lower: str) -> Iterator[None]:
    """A decorator by which a method explains running out of memory; arguments as of `memory_explained`.

    If one such method calls another, the message is that of the method that the user called.
    """
    with contextlib.nullcontext() if _explaining.get() else memory_explained(when, lower):
        token = _explaining.set(True)
        try:
            yield
        finally:
            _explaining.reset(token)
