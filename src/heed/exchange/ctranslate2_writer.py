"""Generation with CTranslate2.

Its searches are those of `heed.generation`, with the same length normalisation and the end token counted, with two
exceptions: forbidden tokens are left out before probabilities are normalised, not after; and a beam search ends when
`beam_size` outputs have ended, whereas heed's continues while a better one is possible. Greedy outputs are the same;
those of a beam search may differ if one of these exceptions matters.

An output that ends is kept only if it is among the `beam_size` best of its step. The scores and probabilities shown are
the model's own, computed for the outputs found.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from heed.data.tokens.tokenizer import END, UNKNOWN, TextTokenizer
from heed.errors import ConfigError, InputError
from heed.exchange.ctranslate2_model import need_ctranslate2, vocabulary
from heed.generation import Hypothesis, SearchOptions

_TOGETHER = 8_000
"""Maximum number of source tokens decoded together, times the beam size."""


class CTranslate2Writer:
    """A `heed.generation.Writer` that reads a folder written by `write_model`.

    `num_positions` is the maximum number of tokens of a source, or of an output with its start token.
    """

    name = "ctranslate2"

    def __init__(self, folder: Path, source: TextTokenizer, target: TextTokenizer, num_positions: int) -> None:
        library = need_ctranslate2()
        self._translator = library.Translator(str(folder), device="cpu", intra_threads=torch.get_num_threads())
        self._source, self._target = vocabulary(source), vocabulary(target)
        self._numbers = {token: i for i, token in enumerate(self._target)}
        self.num_positions = num_positions

    @property
    def longest_output(self) -> int:
        """The maximum number of tokens of an output; the start token takes one position."""
        return self.num_positions - 1

    def write(
        self, sources: Sequence[list[int]], options: SearchOptions, patience: float = 1.0
    ) -> list[list[Hypothesis]]:
        """Search for the best outputs; a beam search ends after `patience * beam_size` outputs of a source.

        Returns:
            `num_best` hypotheses per source, best first, with the log-probabilities of the model.

        Raises:
            ConfigError: A source or an output needs more positions than were exported.
        """
        options.check()
        assert isinstance(options.max_length, int)
        if (longest := max(map(len, sources), default=0)) > self.num_positions:
            raise InputError(
                f"a text of {longest:,} tokens does not fit the {self.num_positions:,} positions of the exported "
                "model; shorten it, or use --engine torch"
            )
        limit = min(options.max_length, self.longest_output)
        results = self._translator.translate_batch(
            [[self._source[i] for i in source] for source in sources],
            max_batch_size=max(1, _TOGETHER // options.beam_size),
            batch_type="tokens",
            max_input_length=0,
            beam_size=options.beam_size,
            patience=patience,
            num_hypotheses=options.num_best,
            length_penalty=options.length_penalty,
            min_decoding_length=options.min_length,
            max_decoding_length=limit,
            disable_unk=UNKNOWN in options.forbidden,
            suppress_sequences=[[self._target[i]] for i in options.forbidden if i != UNKNOWN],
            return_end_token=True,
        )
        written = [[[self._numbers[token] for token in tokens] for tokens in result.hypotheses] for result in results]
        if limit < options.max_length and any(ids[-1:] != [END] for group in written for ids in group):
            raise ConfigError(
                f"an output does not fit the {self.num_positions:,} positions of the exported model; give max_length "
                f"{limit}"
            )
        return self._scored(sources, written, options.length_penalty)

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Natural log-probability of each token of given outputs, and of an end token after them."""
        results = self._translator.score_batch(
            [[self._source[i] for i in source] for source in sources],
            [[self._target[i] for i in target] for target in targets],
            max_batch_size=_TOGETHER,
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def _scored(
        self, sources: Sequence[list[int]], written: list[list[list[int]]], length_penalty: float
    ) -> list[list[Hypothesis]]:
        """Hypotheses with scores from a teacher-forced pass, since a search returns only sums of renormalised ones."""
        ended = [[ids[-1:] == [END] for ids in group] for group in written]
        tokens = [[ids[:-1] if ids[-1:] == [END] else ids for ids in group] for group in written]
        repeated = [source for source, group in zip(sources, tokens, strict=True) for _ in group]
        log_probs = iter(self.log_probs(repeated, [ids for group in tokens for ids in group]))
        groups = []
        for group, finished in zip(tokens, ended, strict=True):
            hypotheses = []
            for ids, done in zip(group, finished, strict=True):
                own = next(log_probs)[: len(ids) + done]
                score = sum(own) / max(1, len(own)) ** length_penalty
                hypotheses.append(Hypothesis(tuple(ids), tuple(own), score, done))
            groups.append(sorted(hypotheses, key=lambda h: -h.score))
        return groups
