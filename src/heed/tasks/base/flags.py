"""Command-line options that more than one task has; standard library only."""

from heed.tasks.base.spec import Flag

JSON = Flag("predict", "json", bool, "One JSON object per output.", default=False)
NBEST = Flag("predict", "nbest", int, "Candidates per input, best first.", default=1, least=1)
SORT = Flag("predict", "sort", ("uncertainty",), "The inputs the model is least sure of first, for labelling.")
ERRORS = Flag("evaluate", "errors", int, "List this many wrong examples.", default=0, least=0)
