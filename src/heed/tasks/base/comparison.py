"""A comparison's view of a task: sources, references, lengths, outputs with their measures, and a look.

`Examiner` asks the runs and their examples for all of these; a task overrides only what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from markupsafe import Markup

from heed.data.examples import label_order, without_breaks
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.show.draw_html import shading_to_html
from heed.show.shown import ShownLook
from heed.tasks import capability
from heed.tasks.base.predictions import question_of
from heed.visible import clean
from heed.watch.looks import Look


class Examiner:
    """Runs of one task and the examples that they are compared on; outputs are those of a run for the examples."""

    kind: ClassVar[str] = "sentences"
    """Plural name of the sources on a page."""
    has_beam: ClassVar[bool] = False
    """True if outputs are found by beam search."""

    def __init__(self, runs: Sequence[Any], examples: Sequence[Any]) -> None:
        self.runs = runs
        self.examples = examples
        self.sources = [example.source for example in examples]
        self.references, self.remarks = self._references()
        self.lengths, self.length_unit = self._lengths()

    @property
    def names(self) -> tuple[str, str]:
        """Names of a source and of a reference, for readers."""
        return self.runs[0].input.key, self.runs[0].head.names

    @property
    def targets(self) -> str:
        """Plural name of the training targets; the loss is a mean over them."""
        return str(self.runs[0].task.targets)

    @classmethod
    def truth_of(cls, example: Any) -> str:
        """The correct output, as given in the data."""
        return str(example.truth)

    def _references(self) -> tuple[list[str], list[str]]:
        return [self.truth_of(example) for example in self.examples], []

    def _lengths(self) -> tuple[list[int], str]:
        """The length of each source, and its unit: tokens if all tokenizers give the same lengths, else characters."""
        texts = [without_breaks(text) for text in self.sources]
        first, *others = [[len(ids) for ids in run.tokenizer.encode_all(texts)] for run in self.runs]
        if all(other == first for other in others):
            return first, f"{self.runs[0].tokenizer.unit}s"
        return [len(text) for text in texts], "characters"

    def predict(self, run: Any, examples: Sequence[Any], beam_size: int | None) -> list[Any]:
        """Outputs of a run for some examples; `beam_size` only if `has_beam`."""
        options = {"beam_size": beam_size} if self.has_beam else {}
        return run.predicted(examples, **options)  # type: ignore[no-any-return]

    def count_tokens(self, run: Any, outputs: Sequence[Any]) -> int:
        """Tokens written for all examples; tokens read, for a task that writes none."""
        return sum(map(len, run.tokenizer.encode_all(self.sources)))

    @property
    def shared_facts(self) -> Any:
        """Facts on all runs that `Head.outcomes` needs."""
        return None

    def outcomes(self, run: Any, outputs: Sequence[Any]) -> Outcomes:
        """The outputs for all examples with the measures of the task, the most important first."""
        return run.outcomes(self.examples, outputs, self.shared_facts)  # type: ignore[no-any-return]

    def source_html(self, index: int) -> Markup:
        """A source as HTML."""
        return Markup('<dd dir="auto">{}</dd>').format(clean(self.sources[index]))

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        """A look at an example as HTML, shaded words by default; `numbers` numbers the maps of the page."""
        shown = capability(run, "look").look(question_of(run.input, self.examples[index]))
        assert isinstance(shown, ShownLook), "a task whose looks are not at texts must override `drawing`"
        return shadings_html(shown.look)


class LabelExaminer(Examiner):
    """Runs that give labels, scored over the labels of all runs and of the examples; or runs that give numbers."""

    def __init__(self, runs: Sequence[Any], examples: Sequence[Any]) -> None:
        kinds = {run.head.names: run for run in runs}
        if len(kinds) > 1:
            each = " and ".join(f"'{run.folder}' gives a {kind}" for kind, run in kinds.items())
            raise ConfigError(f"{each}; only runs with the same data.target can be compared")
        super().__init__(runs, examples)

    @property
    def shared_facts(self) -> tuple[list[str], bool] | None:
        heads = [run.head for run in self.runs]
        if heads[0].is_number:
            return None
        every = [*(head.labels for head in heads), *heads[0].truths(self.examples)]
        return label_order(label for labels in every for label in labels), any(head.several for head in heads)


def shadings_html(look: Look) -> Markup:
    """The shaded words of a look."""
    if not look.shadings:
        return Markup('<p class="hint">This model has no attention to shade words with.</p>')
    return Markup().join(shading_to_html(shading, numbers=False) for shading in look.shadings)
