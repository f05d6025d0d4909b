"""Claims: sentences of lecture notes, each measured by runs with several seeds and judged by a rule fixed before them.

A claim has its text and rule in `texts.yaml`, and its experiment in the file of its name.
"""

from heed.claims.experiment import Cell, Experiment, Plot, Results, Verdict
from heed.claims.harness import ClaimResult, claim, list_claims, read_claim

__all__ = ["Cell", "ClaimResult", "Experiment", "Plot", "Results", "Verdict", "claim", "list_claims", "read_claim"]
