"""The candidates of the beam search behind an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heed.errors import ConfigError
from heed.generation import Candidate
from heed.observe.beams import BeamNode, Beams, ShownBeams
from heed.observe.edits import Given, edits_of
from heed.observe.trace import edit
from heed.tasks import capability
from heed.tasks.base.looking import notes_on, text_line
from heed.threads import sparing


@sparing()
def beams(
    run: Any,
    text: Any,
    *,
    every: bool = False,
    beam_size: int | None = None,
    edits: Sequence[Given] = (),
    **options: Any,
) -> ShownBeams:
    """The beam search that writes the output for a text: its candidates with their probabilities and ranks.

    Args:
        run: A run that writes by beam search.
        text: The text.
        every: Show all that was ranked: also further outputs, rows whose continuations all left the beam, and
            candidates that never entered it. By default the best outputs are shown, as many as the beam has rows; JSON
            always has everything.
        beam_size: The configuration's by default.
        edits: Changes to the attention weights while it writes.
        options: For a response `speaker`, for a language model `length`.

    Raises:
        ConfigError: The search is greedy, so it has one path; or the text is blank.
    """
    capability(run, "beams")
    steps: list[list[Candidate]] = []
    generation = run.task.config.generation
    size = generation.beam_size if beam_size is None else beam_size
    if size == 1:
        raise ConfigError(
            "a beam search is shown by its candidates, and with a beam of 1 the search is greedy: one path; add --beam "
            "4, or see the next-best tokens of each step with heed look --steps"
        )
    with edit(run.model, *edits_of(edits)):
        options |= {"beam_size": size, "watch": lambda source, candidates: steps.append(candidates)}
        read = run.readable(text)
        source, output = text_line(run, read), run.candidates([read], **{**run.head.looked, **options})[0][0]
    tokenizer = [*run.task.tokenizers().values()][-1]
    nodes: list[BeamNode] = []
    rows = [-1]
    for step, candidates in enumerate(steps):
        first = len(nodes)
        for rank, node in enumerate(candidates, start=1):
            name = (tokenizer.token if node.token == tokenizer.special.end else tokenizer.piece)(node.token)
            fate = "continued" if node.fate == "kept" else node.fate
            nodes.append(BeamNode(step, rows[node.parent], name, node.log_prob, node.total, node.score, rank, fate))
        rows = [first + n for n, node in enumerate(candidates) if node.fate == "kept"]
    notes = tuple(notes_on((), edits_of(edits)))
    more = {"beam_size": size, "length_penalty": generation.length_penalty, "notes": notes}
    return ShownBeams(Beams.of(f"{run.title}: beam search", source, output.text, nodes, **more), every)
