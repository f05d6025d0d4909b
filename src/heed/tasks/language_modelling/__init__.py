"""Language modelling: continue, rank and score texts."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Continue, rank and score texts.",
    example="my_texts/",
    interfaces=("language_model",),
    files="any number of files or folders",
)
