"""Comparison of translations: references, measures, and the cross attention of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heed.data.examples import Pair
from heed.evaluation.measures import Outcomes
from heed.observe.html_map import map_to_html
from heed.tasks.base.comparison import Examiner, token_lengths
from heed.tasks.translation.run import TranslationRun
from heed.tasks.translation.writing import Prediction


class TranslationExaminer(Examiner[TranslationRun, Pair, Prediction]):
    """Comparison of runs that write a text for a text."""

    names = ("source", "reference")
    targets = "target tokens"
    has_beam = True

    @classmethod
    def source_of(cls, example: Pair) -> str:
        """The source."""
        return example.source

    @classmethod
    def truth_of(cls, example: Pair) -> str:
        """The target."""
        return example.target

    def _references(self) -> tuple[list[str], list[str]]:
        """Targets normalised as the runs do, or as they are in the data if the runs normalise differently."""
        remarks, first = [], self._normal(self.runs[0])
        if any(first != self._normal(run) for run in self.runs[1:]):
            remarks.append("The runs normalise text differently: references are the targets as they are in the data.")
            first = [pair.target for pair in self.examples]
        first_tokens, *others = (run.task.target_tokenizer for run in self.runs)
        self._per_token = not any(first_tokens.first_difference(other) for other in others)
        if not self._per_token:
            remarks.append(
                "The runs use different tokens: scores per token are left out, and tokens per second differ in unit."
            )
        return first, remarks

    def _normal(self, run: TranslationRun) -> list[str]:
        return [run.task.target_tokenizer.normalize(pair.target) for pair in self.examples]

    def _lengths(self) -> tuple[list[int], str]:
        return token_lengths([run.task.source_tokenizer for run in self.runs], self.sources)

    def predict(self, run: TranslationRun, examples: Sequence[Pair], beam_size: int | None) -> list[Prediction]:
        """The output for each source."""
        return run.predict([pair.source for pair in examples], beam_size=beam_size)

    def count_tokens(self, run: TranslationRun, outputs: Sequence[Prediction]) -> int:
        """Tokens written."""
        return sum(len(output.tokens) for output in outputs)

    def outcomes(self, run: TranslationRun, outputs: Sequence[Prediction]) -> Outcomes:
        """The run's own scores of the outputs, against the references shared by all runs."""
        return run.outcomes(self.examples, outputs, self.references, self._per_token)

    def drawing(self, run: TranslationRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """The cross attention of the last layer while the output was written, the mean over heads."""
        look = run.look(self.sources[index], beam_size=beam_size, layer=-1, head="mean")
        cross = [one for one in look.maps if one.mechanism == "cross"]
        if not cross:
            return '<p class="hint">This model does not attend to the source while it writes.</p>'
        return map_to_html(cross[-1], next(numbers))
