"""Models, one file per paper; `heed.registry` finds a model by the name of its file."""
