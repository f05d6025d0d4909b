"""Overview of the data of a dialogue, for people and as counts for the report."""

from __future__ import annotations

from typing import Any

from heed.data.read.findings import found_table
from heed.data.tokens.tokenizer import UNKNOWN
from heed.tasks.base.overview import SideCounts, shown, token_lines, tokens_text
from heed.tasks.base.report import counted, counted_are
from heed.tasks.dialogue.data import DialogueData

_SAMPLES, _TURNS = 3, 6
"""Most conversations that are shown, and most turns of each."""


def overview(task: DialogueData) -> str:
    """Counts, findings in the files, lengths, unknown tokens, samples as the model sees them."""
    rows = []
    for split in task.split_names:
        talk = task.encoded(split)
        rows.append(SideCounts.of(split, "turns", (turn.ids for turns in talk.conversations for turn in turns)))
    known = ", ".join(task.speakers.known) or "none named"
    return "\n".join(
        [
            task.splits.summary,
            *found_table(task.splits.found),
            f"\nspeakers: {known}; responses of {task.config.data.respond}",
            *_counts(task),
            *token_lines(task.config.tokenizer.kind, task.tokenizer, rows),
            *_samples(task),
        ]
    )


def _counts(task: DialogueData) -> list[str]:
    """Turns and responses of each split, and the numbers of those that are not read in full or not trained on."""
    lines = []
    data = task.config.data
    for split, counts in report_counts(task).items():
        turns = counts["turns"] / max(1, counts["examples"])
        lines.append(
            f"{split}: {counted(counts['turns'], 'turn')} ({turns:.1f} per conversation), "
            f"{counted(counts['responses'], 'response')}"
        )
        if counts["history_cut"]:
            lines.append(
                f"  {counted(counts['history_cut'], 'response')} to a history whose first turns are not read "
                f"({_limits(task)})"
            )
        if counts["turns_cut"]:
            trained = ", and they are not trained on as responses" if split == "train" else ""
            lines.append(
                f"  {counted_are(counts['turns_cut'], 'turn')} longer than data.max_turn {data.max_turn} tokens; the "
                f"rest is not read{trained}"
            )
    return lines


def _limits(task: DialogueData) -> str:
    data = task.config.data
    window = [] if data.history is None else [f"data.history {data.history} turns"]
    return " and ".join([*window, *([] if task.reads_turns else [f"data.max_length {data.max_length} tokens"])])


def _samples(task: DialogueData) -> list[str]:
    """A few training conversations, and one as the model sees it."""
    lines = ["\nas read and, in brackets, as the model sees them:"]
    conversations, talk = task.splits.examples["train"], task.encoded("train")
    for number in range(0, len(conversations), max(1, len(conversations) // _SAMPLES))[:_SAMPLES]:
        one = conversations[number]
        lines.append(f"  {one.origin}")
        for n, text in enumerate(one.turns[:_TURNS]):
            who = f"{one.speaker(n)}: " if one.speaker(n) else ""
            lines.append(f"    {shown(who)}{shown(text[:120])}{' ...' if len(text) > 120 else ''}")
            lines.append(f"      [{tokens_text(task.tokenizer, talk.conversations[number][n].ids)}]")
        if len(one.turns) > _TURNS:
            lines.append(f"    ... {counted(len(one.turns) - _TURNS, 'more turn')}")
    return lines


def report_counts(task: DialogueData) -> dict[str, Any]:
    """For each split: conversations, turns, responses, tokens, unknown tokens, cut histories and turns."""
    counts, most = {}, task.config.data.max_turn
    for split in task.split_names:
        talk, reading = task.encoded(split), task.reading
        ids = [turn.ids for turns in talk.conversations for turn in turns]
        lengths = [[min(len(turn.ids), most) for turn in turns] for turns in talk.conversations]
        counts[split] = {
            "examples": len(talk.conversations),
            **(task.splits.counts[split].as_values() if split in task.splits.counts else {}),
            "turns": len(ids),
            "responses": len(talk.responses),
            "tokens": sum(map(len, ids)),
            "unknown": sum(one.count(UNKNOWN) for one in ids),
            "history_cut": sum(reading.first_read(lengths[one.conversation][: one.turn]) > 0 for one in talk.responses),
            "turns_cut": sum(len(one) > most for one in ids),
        }
    return counts
