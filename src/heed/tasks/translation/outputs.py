"""Written translations: a line each, candidates with their score, alignments, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.config import FilesData
from heed.data.read.findings import Findings
from heed.data.read.incoming import Numbered
from heed.data.read.inputs import input_texts
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.tasks.base.outputs import TextOutputs, Written, one_line, units
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.translation.run import Translator
    from heed.tasks.translation.writing import Prediction


class TranslationOutputs(TextOutputs):
    """A line for each candidate: its text, after its score if there are several; with --align, its alignment last."""

    run: Translator

    def __init__(self, run: Translator, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._cut = 0
        self.unit = units(run.task.source_tokenizer.unit)
        nbest, beam = options["nbest"], options["beam"]
        if beam is not None and nbest > beam:
            raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
        self.sampling = sampling_of(options)
        if options["align"] and not run.model.aligns:
            raise ConfigError(
                f"model '{run.config.model.name}' has no attention, so --align cannot link words; omit --align"
            )

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The sources of a file with both sides: the column of sources, or the first one."""
        data = self.run.task.config.data
        if not isinstance(data, FilesData) or data.shuffle_source is not None:
            return None
        column = 0 if data.columns.source is None else data.columns.source
        return input_texts(path, column, ("source",), findings, (), data.train)

    def unknown_in(self, text: str) -> Sequence[str]:
        """The pieces of a source that were never seen in training."""
        return self.run.task.source_tokenizer.unknown_in(text)

    def write(self, texts: list[str]) -> Iterator[Written]:
        """The candidates for each text."""
        options = self.options
        results = self.run.candidates(
            texts,
            num_best=options["nbest"],
            beam_size=options["beam"],
            max_length=options["length"],
            sampling=self.sampling,
            prefix=options["prefix"],
            engine=options["engine"],
        )
        self._cut += sum(not candidate.finished for candidates in results for candidate in candidates)
        for text, candidates in zip(texts, results, strict=True):
            yield Written(tuple(self._line(text, candidate) for candidate in candidates))

    def _line(self, source: str, candidate: Prediction) -> str:
        links = self.run.align(source, candidate) if self.options["align"] else None
        if self.options["json"]:
            return _json(source, candidate, links)
        columns = [one_line(candidate.text)]
        if self.options["nbest"] > 1:
            columns.insert(0, f"{candidate.score:.4f}")
        if links is not None:
            columns.append(" ".join(f"{i}-{j}" for i, j in links))
        return "\t".join(columns)

    def answer(self, text: str) -> str:
        """The best output and its probability."""
        options = self.options
        best = self.run.predict(
            text,
            beam_size=options["beam"],
            max_length=options["length"],
            sampling=self.sampling,
            prefix=options["prefix"],
            engine=options["engine"],
        )
        self._cut += not best.finished
        return f"{best.text}    (log-probability {best.log_prob:.3f})"

    def notes(self) -> list[str]:
        """The number of outputs that were cut off at the largest length."""
        if not self._cut:
            return []
        length = self.options["length"] or self.run.task.config.generation.max_length
        what = "1 output was" if self._cut == 1 else f"{self._cut:,} outputs were"
        return [f"{what} cut after {length} token{'s' if length != 1 else ''}; --length N allows more"]


def sampling_of(options: Mapping[str, Any]) -> SamplingOptions | None:
    """The sampling options, or None; a ConfigError if one was given without --sample."""
    if options["sample"]:
        if options["beam"] is not None:
            raise ConfigError(f"--beam {options['beam']} searches and --sample draws; give only one")
        return SamplingOptions(*(options[key] for key in ("temperature", "top_k", "top_p", "seed")))
    for name, default in {"temperature": 1.0, "top-k": None, "top-p": None, "seed": 1}.items():
        if (value := options[name.replace("-", "_")]) != default:
            raise ConfigError(f"--{name} {value} applies only to sampled outputs; add --sample")
    return None


def _json(source: str, candidate: Prediction, links: list[tuple[int, int]] | None) -> str:
    values = {
        "source": source,
        "text": candidate.text,
        "score": round(candidate.score, 6),
        "log_prob": round(candidate.log_prob, 6),
        "tokens": candidate.tokens,
        "token_probs": [round(p, 6) for p in candidate.token_probs],
        "finished": candidate.finished,
    }
    if links is not None:
        values["alignment"] = links
    return to_json(values)
