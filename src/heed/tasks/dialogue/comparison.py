"""Comparison of dialogue models on whole conversations, by the responses that each model writes in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heed.data.examples import Conversation
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes
from heed.observe.html_map import map_to_html
from heed.tasks.base.comparison import Examiner
from heed.tasks.dialogue.run import DialogueRun
from heed.tasks.translation.writing import Prediction

_LOOKS = ("turns", "words", "cross")
"""Attention to the conversation, from the widest view on."""


class DialogueExaminer(Examiner[DialogueRun, Conversation, list[Prediction]]):
    """Conversations and the responses in them, each to the turns that come before it in the data."""

    names = ("conversation", "responses")
    kind = "conversations"
    targets = "response tokens"
    has_beam = True

    def __init__(self, runs: Sequence[DialogueRun], examples: Sequence[Conversation]) -> None:
        responds = {run.config.data.respond for run in runs}
        if len(responds) > 1:
            listed = ", ".join(f"{run.folder.name}: {run.config.data.respond}" for run in runs)
            raise ConfigError(f"the runs were trained on responses of different speakers (data.respond: {listed})")
        self._task = runs[0].task
        super().__init__(runs, examples)

    @classmethod
    def source_of(cls, example: Conversation) -> str:
        """The turns, one per line, each with its speaker."""
        names = [f"{name}: " if name else "" for name in example.speakers or [""] * len(example.turns)]
        return "\n".join(f"{name}{turn}" for name, turn in zip(names, example.turns, strict=True))

    @classmethod
    def truth_of(cls, example: Conversation) -> str:
        """All turns but the first."""
        return "\n".join(example.turns[1:])

    def _references(self) -> tuple[list[str], list[str]]:
        remarks = ["An example is a whole conversation: intervals and tests draw conversations, not single responses."]
        tokenizers = [run.task.tokenizer for run in self.runs]
        self._per_token = not any(tokenizers[0].first_difference(other) for other in tokenizers[1:])
        if not self._per_token:
            remarks.append(
                "The runs use different tokens: perplexity and scores per token are left out, and tokens per second "
                "differ in unit."
            )
        said = ["\n".join(one.turns[turn] for turn in self._task.responses(one)) for one in self.examples]
        return said, remarks

    def _lengths(self) -> tuple[list[int], str]:
        return [len(one.turns) for one in self.examples], "turns"

    def predict(
        self, run: DialogueRun, examples: Sequence[Conversation], beam_size: int | None
    ) -> list[list[Prediction]]:
        """The output for each response."""
        return run.answers(examples, beam_size=beam_size)

    def count_tokens(self, run: DialogueRun, outputs: Sequence[list[Prediction]]) -> int:
        """Tokens written."""
        return sum(len(one.tokens) for answers in outputs for one in answers)

    def drawing(self, run: DialogueRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> str:
        """The attention of a conversation's last response to the words or turns before it."""
        one = self.examples[index]
        responses = self._task.responses(one)
        if not responses:
            return '<p class="hint">This conversation has no response.</p>'
        turn = responses[-1]
        before = Conversation(one.turns[:turn], one.speakers[:turn])
        speaker = one.speaker(turn) if one.speaker(turn) in run.task.speakers.known else None
        maps = run.look(before, speaker=speaker, beam_size=beam_size).look.maps
        seen = [found for found in maps if found.mechanism in _LOOKS]
        if not seen:
            return '<p class="hint">This model does not attend to the turns while it writes.</p>'
        return map_to_html(seen[-1], next(numbers))

    def outcomes(self, run: DialogueRun, outputs: Sequence[list[Prediction]]) -> Outcomes:
        """The run's own scores of the outputs."""
        return run.outcomes(self.examples, outputs, per_token=self._per_token)
