"""The candidates of the beam search behind an output, for runs that write texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from heed.errors import ConfigError
from heed.generation import Candidate
from heed.observe.beams import BeamNode, Beams, ShownBeams
from heed.observe.edits import Given, edits_of
from heed.observe.trace import edit
from heed.tasks import capability
from heed.tasks.base.looking import notes_on
from heed.threads import sparing


class HasBeams:
    """The method `beams` of runs that write by beam search."""

    task: Any
    model: Any

    @abstractmethod
    def searched(self, text: Any, **options: Any) -> tuple[str, Any]:
        """What was read, for people, and the best output; options of writing, `watch` (as of a search) among them."""

    @sparing()
    def beams(
        self,
        text: Any,
        *,
        every: bool = False,
        beam_size: int | None = None,
        edits: Sequence[Given] = (),
        **options: Any,
    ) -> ShownBeams:
        """The beam search that writes the output for a text: its candidates with their probabilities and ranks.

        Args:
            text: The text.
            every: Show all that was ranked: also further outputs, rows whose continuations all left the beam, and
                candidates that never entered it. By default the best outputs are shown, as many as the beam has rows;
                JSON always has everything.
            beam_size: The configuration's by default.
            edits: Changes to the attention weights while it writes.
            options: For a response `speaker`, for a language model `length`.

        Raises:
            ConfigError: The search is greedy, so it has one path; or the text is blank.
        """
        run: Any = capability(self, "beams")
        steps: list[list[Candidate]] = []
        given, generation = edits_of(edits), self.task.config.generation
        size = generation.beam_size if beam_size is None else beam_size
        if size == 1:
            raise ConfigError(
                "--beams shows what a beam search ranks, and with a beam of 1 the search is greedy: one path; add "
                "--beam 4, or see the next-best tokens of each step with --steps"
            )
        with edit(self.model, *given):
            options |= {"beam_size": size, "watch": lambda source, found: steps.append(found)}
            source, output = run.searched(run.readable(text), **options)
        tokenizer = [*self.task.tokenizers().values()][-1]
        nodes: list[BeamNode] = []
        rows = [-1]
        for step, found in enumerate(steps):
            first = len(nodes)
            for rank, one in enumerate(found, start=1):
                name = (tokenizer.token if one.token == tokenizer.special.end else tokenizer.piece)(one.token)
                fate = "continued" if one.fate == "kept" else one.fate
                nodes.append(BeamNode(step, rows[one.parent], name, one.log_prob, one.total, one.score, rank, fate))
            rows = [first + n for n, one in enumerate(found) if one.fate == "kept"]
        more = {"beam_size": size, "length_penalty": generation.length_penalty, "notes": tuple(notes_on((), given))}
        return ShownBeams(Beams.of(f"{run.title}: beam search", source, output.text, nodes, **more), every)
