"""Command-line options that more than one task has; standard library only."""

from heed.tasks.base.spec import Flag

JSON = Flag("predict", "json", bool, "One JSON object per output.", default=False)
NBEST = Flag("predict", "nbest", int, "Candidates per input, best first.", default=1, least=1)
SORT = Flag("predict", "sort", ("uncertainty",), "Least certain inputs first, for labelling.")
ERRORS = Flag("evaluate", "errors", int, "List this many wrong examples.", default=0, least=0)
BEAM = Flag("predict", "beam", int, "Beam size; the run's by default.", least=1)
CHOICE = Flag(
    "predict", "choice", str, "A continuation (pretraining: a word at the mask) to rank; repeatable.", several=True
)
LENGTH = Flag("predict", "length", int, "Largest number of tokens to generate; the run's by default.", least=1)
LOOK_BEAM = Flag("look", "beam", int, "Beam size; the run's by default.", least=1, keyword="beam_size")
GATES = Flag("look", "gates", bool, "Also draw the gates of recurrent networks.", default=False)
PIECES = Flag("look", "pieces", bool, "Show the tokens that the model reads instead of whole words.", default=False)
SAMPLING = (
    Flag("predict", "sample", bool, "Sample outputs instead of searching for the best.", default=False),
    Flag("predict", "temperature", float, "With --sample: below 1 sharpens, above 1 flattens.", default=1.0),
    Flag("predict", "top-k", int, "With --sample: only from the N most probable tokens."),
    Flag("predict", "top-p", float, "With --sample: only from the most probable tokens with this total probability."),
    Flag("predict", "seed", int, "With --sample: the same seed gives the same outputs.", default=1),
)
