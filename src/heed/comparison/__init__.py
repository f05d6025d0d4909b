"""Several runs on the same test examples, in one table: scores, intervals, significance, speed, memory."""

from heed.comparison.comparison import Comparison
from heed.comparison.training import compare

__all__ = ["Comparison", "compare"]
