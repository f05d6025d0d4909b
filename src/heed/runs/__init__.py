"""Runs: training into a run folder, opening one, going on with one."""
