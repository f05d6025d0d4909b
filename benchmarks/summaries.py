"""Scores of runs and baselines on a test set of summaries, with and without those that also occur in training.

    python benchmarks/summaries.py data/summarization/aeslc RUN...

Subject lines of emails repeat ("Re: meeting"): a summary that equals a training summary can be recalled instead of
written. So each score is shown three times: for all test examples, for those whose summary is in no training example,
and for the rest. The intervals are 95 % bootstrap intervals. Runs are given by their folders; the files are those of
AESLC, `aeslc.{train,dev,test}.jsonl.gz`. Without a run only the baselines are scored: the lead with the number of words
or sentences that scores best on the validation set, each lead by itself (--leads), and the summary of the nearest
training document. A run with a vocabulary of words is scored twice: with unknown words copied from the document
(generation.replace_unknown), and without.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from machine import print_machine

import heed
from heed.config import Columns
from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.data.read.named import named_columns
from heed.data.read.pairs import read_pairs
from heed.evaluation.rouge import rouge_measures
from heed.evaluation.significance import intervals
from heed.evaluation.text import text_measure
from heed.tasks.summarisation.baselines import Lead
from heed.tasks.summarisation.config import DOCUMENT_NAMES, SUMMARY_NAMES
from heed.tasks.translation.baselines import NearestSentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--leads", action="store_true", help="also score every lead on the test set")
    parser.add_argument("--beam", type=int, help="beam size; by default the one in each run's configuration")
    given = parser.parse_args()
    print_machine()
    train, valid, test = (read(given.folder / f"aeslc.{name}.jsonl.gz") for name in ("train", "dev", "test"))
    known = {pair.target for pair in train}
    new = [n for n, pair in enumerate(test) if pair.target not in known]
    old = sorted({*range(len(test))} - {*new})
    groups = {"all": [*range(len(test))], "new": new, "in training": old}
    print(", ".join(f"{name}: {len(group):,}" for name, group in groups.items()))
    documents = [pair.source for pair in test]
    lead = Lead.chosen(valid)
    outputs = {f"{lead.name} (best on validation)": [lead.of(document) for document in documents]}
    if given.leads:
        every = [Lead(n, "word") for n in (6, 8, 10, 12, 14, 16, 20)] + [Lead(n, "sentence") for n in (1, 2)]
        outputs |= {one.name: [one.of(document) for document in documents] for one in every}
    nearest = NearestSentence((pair.source, pair.target) for pair in train)
    outputs["nearest training document"] = nearest.translate(documents)
    for folder in given.runs:
        run = heed.load(folder)
        outputs[folder.name] = [made.text for made in run.predict(documents, beam_size=given.beam)]
        if run.task.writes_unknown:
            section = run.task.config.generation.model_copy(update={"replace_unknown": False})
            run.task.config = run.task.config.model_copy(update={"generation": section})
            name = f"{folder.name}, no word copied"
            outputs[name] = [made.text for made in run.predict(documents, beam_size=given.beam)]
    for name, texts in outputs.items():
        show(name, texts, test, groups)


def read(path: Path) -> list[Pair]:
    """Read documents and summaries, without blank ones."""
    columns = named_columns([path], Columns(), DOCUMENT_NAMES, SUMMARY_NAMES, Findings())
    return [pair for pair in read_pairs([path], columns.source, columns.target) if not pair.blank]


def show(name: str, texts: Sequence[str], test: Sequence[Pair], groups: Mapping[str, Sequence[int]]) -> None:
    """Print one line for each group of examples."""
    references = [pair.target for pair in test]
    measures = [*rouge_measures(texts, references), text_measure("bleu", texts, references)]
    for group, chosen in groups.items():
        found = intervals([measure.of(chosen) for measure in measures])
        cells = "  ".join(
            f"{measure.label} {one.value:5.2f} [{one.low:5.2f}, {one.high:5.2f}]"
            for measure, one in zip(measures, found, strict=True)
        )
        print(f"{name:<36} {group:<12} {cells}", flush=True)


if __name__ == "__main__":
    main()
