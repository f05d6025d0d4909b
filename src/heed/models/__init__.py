"""Models: one file, one paper. `heed.registry` finds them by file name."""
