"""Translation: pairs of texts, a pair decoder, the loss over the target's tokens, outputs as text."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.config import FilesData
from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs, plan_batches
from heed.data.examples import Pair
from heed.data.read.findings import found_table
from heed.data.store.lengths import Lengths
from heed.data.store.sources import Splits, open_pairs
from heed.data.store.store import select
from heed.data.tokens.token_cache import encode_kept
from heed.data.tokens.tokenizer import END, PADDING, START, UNKNOWN, TextTokenizer
from heed.errors import ConfigError, DataError
from heed.evaluation.text import text_scores
from heed.generation import Hypothesis, SamplingOptions, SearchOptions, Writer, generate, without_gradient
from heed.models.base import PairDecoder
from heed.observe.trace import trace
from heed.registry import body_class, model_config
from heed.tasks.base.overview import SideCounts, length_table, sample_lines, vocabulary_warnings
from heed.tasks.base.parent import Parent, Started, Taken, with_parents
from heed.tasks.base.sizes import FEW_PAIRS, auto_size, for_few_pairs
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.encoding import Encoding, lengths_of, some_of
from heed.tasks.translation.guided import alignment_loss, guides
from heed.tasks.translation.stream_set import StreamSet
from heed.tasks.translation.tokenizers import Tokenizers, learn_tokenizers, load_tokenizers, save_tokenizers
from heed.tasks.translation.training_set import Corpus, Samplers, TrainingSet
from heed.training.loss import vocabulary_loss
from heed.training.processes import current

__all__ = ["Prediction", "Translation"]

_GENERATE_TOKENS = 8_000
"""Source tokens decoded together."""
_WITHOUT_END = sys.maxsize
"""How many pairs a stream has, where something is chosen by their number."""
_VALIDATE_AT_MOST = 500
"""Validation examples that are decoded; the loss uses all of them."""


@dataclass(frozen=True)
class Prediction:
    """One output.

    Attributes:
        text: What was written.
        score: What candidates are ranked by: log-probability / length ** length_penalty.
        log_prob: Log-probability of the whole output in nats.
        tokens: The tokens that were written (a forced prefix was not), as text; "</s>" last where the model ended it.
        token_probs: Probability of each of them.
        finished: Whether the model ended it; False where the largest length cut it off.
        ids: All its tokens as numbers, a forced prefix too, without the end token.
    """

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_probs: tuple[float, ...]
    finished: bool
    ids: tuple[int, ...]


class Translation:
    """The task: where data, model, loss and scores meet."""

    interfaces = ("pair_decoder",)

    def __init__(
        self, config: TranslationConfig, tokenizers: Tokenizers, splits: Splits | None, parent: Parent | None = None
    ) -> None:
        self.config = config
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._splits = splits
        self._parent = parent
        self._encoded: dict[str, Sequence[TokenPair]] = {}
        self._costs: dict[str, Lengths] = {}
        self._training: TrainingSet | StreamSet | None = None
        self._guides: list[Tensor] | None = None
        self._samplers: Samplers | None = None
        if config.tokenizer.sampling > 0:
            amount = config.tokenizer.sampling
            self._samplers = (self.source_tokenizer.sampler(amount), self.target_tokenizer.sampler(amount))

    @classmethod
    def prepare(cls, config: TranslationConfig) -> Translation:
        """Read the data, train the tokenizers, settle what depends on the data.

        Returns:
            The task; its `config` has every field decided.

        Raises:
            ConfigError, DataError: What the user asked for cannot be.
        """
        config, parent, spoken = with_parents(config)
        splits = open_pairs(config.data)
        train = splits.pairs["train"]
        if not train:
            raise DataError("no training examples")
        seen = [train, *(corpus.pairs for corpus in splits.extra.values())]
        count = _WITHOUT_END if splits.stream else sum(map(len, seen))
        given, config = config, for_few_pairs(config, count, body_class(config.model.name, cls.interfaces))
        if config is not given:
            remark = f"fewer than {FEW_PAIRS:,} pairs: size scarce and settings for few pairs (docs/data.md, Few pairs)"
            splits = replace(splits, remarks=(*splits.remarks, remark))
        if spoken is None:
            config, tokenizers, remark = learn_tokenizers(config, seen, count)
            splits = replace(splits, remarks=(*splits.remarks, *([remark] if remark else [])))
        else:
            tokenizers = spoken.tokenizers
        tokenizers[0].add_tags(corpus.tag for corpus in splits.extra.values() if corpus.tag is not None)
        task = cls(config, tokenizers, splits, parent)
        task._leave_out_long()
        task.config = task._settled()
        return task

    @classmethod
    def restore(cls, config: TranslationConfig, folder: Path) -> Translation:
        """The task of a run folder; its data is opened only when asked for."""
        return cls(config, load_tokenizers(folder, config.tokenizer), None)

    @classmethod
    def resume(cls, config: TranslationConfig, folder: Path) -> Translation:
        """The task of a run that goes on, with the tokenizers it began with; what was left out is left out again."""
        task = cls.restore(config, folder)
        task._leave_out_long()
        return task

    def save(self, folder: Path) -> None:
        """Write the tokenizers into a run folder."""
        save_tokenizers(folder, (self.source_tokenizer, self.target_tokenizer))

    def _leave_out_long(self) -> None:
        """Drop training pairs that are too long, and count them; a stream does so window by window."""
        data, splits = self.config.data, self.splits
        if not isinstance(data, FilesData) or splits.stream:
            return

        def short(name: str) -> NDArray[np.int64]:
            costs = self._costs_of(name)
            return np.flatnonzero(np.maximum(costs[:, 0] - 1, costs[:, 1]) <= data.max_length)

        def keep(name: str, kept: NDArray[np.int64], pairs: Sequence[Pair]) -> None:
            held = not isinstance(self.encoded(name), Encoding)
            self._encoded[name] = select(self.encoded(name), kept) if held else Encoding(pairs, self._encode(name))
            self._costs[name] = self._costs[name][kept]

        rule = f"longer than data.max_length {data.max_length} tokens"
        pairs, kept = splits.pairs["train"], short("train")
        if not len(kept):
            raise DataError(f"every training pair is longer than data.max_length {data.max_length} tokens")
        if len(kept) < len(pairs):
            counts = splits.counts["train"]
            counts.filtered[rule] = len(pairs) - len(kept)
            counts.kept = len(kept)
            splits.pairs["train"] = select(pairs, kept)
            keep("train", kept, splits.pairs["train"])
        for name, corpus in splits.extra.items():
            kept = short(name)
            if len(kept) < len(corpus.pairs):
                splits.extra[name] = corpus.keep(kept, rule)
                keep(name, kept, splits.extra[name].pairs)

    def _settled(self) -> TranslationConfig:
        """The configuration with the model's fields, its vocabulary sizes and the largest output written out."""
        config, count = self.config, _WITHOUT_END if self.splits.stream else len(self.training)
        fields = dict(config.model.model_extra or {})
        body = body_class(config.model.name, self.interfaces)
        size = auto_size(config, count) if config.model.size == "auto" else config.model.size
        for name, tokenizer in (("source", self.source_tokenizer), ("target", self.target_tokenizer)):
            given = fields.setdefault(f"{name}_vocab_size", tokenizer.vocab_size)
            if given != tokenizer.vocab_size:
                raise ConfigError(
                    f"model.{name}_vocab_size is {given}, but the data has {tokenizer.vocab_size} {name} tokens; "
                    "leave the field out"
                )
        model = model_config(body, size, fields)
        generation = config.generation
        if generation.max_length is None:
            longest = math.ceil(1.5 * self.training.longest_target) + 20
            generation = generation.model_copy(update={"max_length": longest})
        kept = {"name": config.model.name, "size": size, "from": config.model.from_}
        section = type(config.model).model_validate({**kept, **model.model_dump()})
        evaluation = config.evaluation
        if evaluation.select_by == "auto":
            best = "chrf" if isinstance(config.data, FilesData) else "exact_match"
            evaluation = evaluation.model_copy(update={"select_by": best})
        return config.model_copy(update={"model": section, "generation": generation, "evaluation": evaluation})

    def build_model(self) -> PairDecoder:
        """A new model, its weights drawn from torch's random state."""
        body = body_class(self.config.model.name, self.interfaces)
        model = body(model_config(body, self.config.model.size, dict(self.config.model.model_extra or {})))
        assert isinstance(model, PairDecoder)
        return model

    def start(self, model: PairDecoder) -> dict[str, Started]:
        """Fill a new model with what its parent knows."""
        taken = self.start_from_parent(model)
        return {} if taken is None else {"parent": taken}

    def start_from_parent(self, model: PairDecoder) -> Taken | None:
        """Copy into a new model what fits of the run that `model.from` names; None where it names none."""
        if self._parent is None:
            return None
        return self._parent.give(model, (self.source_tokenizer, self.target_tokenizer))

    # Data -----------------------------------------------------------------------------------------------------

    @property
    def splits(self) -> Splits:
        """The examples; read or generated on first use."""
        if self._splits is None:
            self._splits = open_pairs(self.config.data)
        return self._splits

    @property
    def split_names(self) -> list[str]:
        """The sets that the data has."""
        return list(self.splits.pairs)

    @property
    def notes(self) -> str:
        """What was read, kept and left out."""
        return self.splits.notes

    def encoded(self, name: str) -> Sequence[TokenPair]:
        """The examples of a split or of a further training corpus as tokens, the corpus's tag before the source."""
        if name not in self._encoded:
            pairs, how = self._pairs_of(name), self._encode(name)
            self._encoded[name] = how(pairs, kept=True) if isinstance(pairs, list) else Encoding(pairs, how)
        return self._encoded[name]

    def _pairs_of(self, name: str) -> Sequence[Pair]:
        extra = self.splits.extra.get(name)
        return self.splits.pairs[name] if extra is None else extra.pairs

    def _encode(self, name: str) -> partial[list[TokenPair]]:
        extra = self.splits.extra.get(name)
        return partial(self.encode_pairs, tag=None if extra is None else extra.tag)

    def _costs_of(self, name: str) -> Lengths:
        """What a batch pays for each pair of a training corpus."""
        if name not in self._costs:
            tokens, extra = self.encoded(name), self.splits.extra.get(name)
            if isinstance(tokens, Encoding):
                assert isinstance(self.config.data, FilesData)  # embedded data is held
                tag = extra is not None and extra.tag is not None
                both = (self.source_tokenizer, self.target_tokenizer)
                self._costs[name] = lengths_of(self._pairs_of(name), both, self.config.data.max_length // 2, tag)
            else:
                self._costs[name] = np.array([pair.cost for pair in tokens], dtype=np.int32).reshape(-1, 2)
        return self._costs[name]

    def encode_pairs(self, pairs: Sequence[Pair], tag: str | None = None, kept: bool = False) -> list[TokenPair]:
        """Pairs to tokens, a tag before each source where one is given; of many pairs they may be kept on disk."""
        before = [] if tag is None else [self.source_tokenizer.tags[tag]]
        both, how = (self.source_tokenizer, self.target_tokenizer), encode_kept if kept else TextTokenizer.encode_all
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        sources, targets = (how(tokenizer, texts) for tokenizer, texts in zip(both, sides, strict=True))
        return [TokenPair([*before, *s], t) for s, t in zip(sources, targets, strict=True)]

    @property
    def training(self) -> TrainingSet | StreamSet:
        """Everything that is trained on: the training set, then the further corpora; or a stream."""
        if self._training is None:
            stream, both = self.splits.stream, (self.source_tokenizer, self.target_tokenizer)
            if stream is not None and isinstance(self.config.data, FilesData):
                self._training = StreamSet(stream, both, self.encode_pairs, self.config.data.max_length)
                return self._training
            corpora = [Corpus(self.splits.pairs["train"], self.encoded("train"), self._costs_of("train"))]
            for name, corpus in self.splits.extra.items():
                tag = None if corpus.tag is None else self.source_tokenizer.tags[corpus.tag]
                corpora.append(Corpus(corpus.pairs, self.encoded(name), self._costs_of(name), corpus.weight, tag))
            self._training = TrainingSet(corpora)
        return self._training

    # What the training loop needs -----------------------------------------------------------------------------

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass over the training set, and over the further corpora as often as they weigh."""
        config = self.config.training
        return self.training.batches(config.batch_tokens, config.seed, epoch)

    def collate(self, indices: list[int]) -> PairBatch:
        """One batch of what is trained on, its texts cut anew where subword sampling is on."""
        batch = self.training.collate(indices, self._samplers)
        return self._guided(batch) if self.config.training.guided_attention else batch

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        return len(indices) * int(self.training.costs_of(indices).max(0).sum())

    def _guided(self, batch: PairBatch) -> PairBatch:
        """The batch with where to look; what is trained on is aligned on first use."""
        if self._guides is None:
            assert isinstance(self.training, TrainingSet)  # a configuration with both is refused
            self._guides = guides(self.training.tokens, self.source_tokenizer, self.target_tokenizer)
        alignment = torch.zeros(*batch.target.shape, batch.source.shape[1])
        for row, index in enumerate(batch.indices):
            guide = self._guides[index]
            alignment[row, : guide.shape[0], : guide.shape[1]] = guide
        return replace(batch, alignment=alignment)

    def loss(self, model: PairDecoder, batch: PairBatch, label_smoothing: float) -> Tensor:
        """Sum over the batch's real target tokens of the cross-entropy in nats, and of what guides attention."""
        real = batch.target_mask
        if batch.alignment is None:
            hidden = model(batch.source, batch.source_mask, batch.target)
            return vocabulary_loss(hidden[real], model.output, batch.labels[real], label_smoothing)
        if not model.aligns:
            raise ConfigError(
                f"training.guided_attention is {self.config.training.guided_attention}, but model "
                f"'{self.config.model.name}' has no attention to the source; set it to 0"
            )
        with trace(model, grad=True, mechanism="cross", layer=-1) as seen:
            hidden = model(batch.source, batch.source_mask, batch.target)
        weights = seen.weights().float().mean(1)  # (rows, target, source)
        loss = vocabulary_loss(hidden[real], model.output, batch.labels[real], label_smoothing)
        return loss + self.config.training.guided_attention * alignment_loss(weights, batch.alignment)

    def validate(self, model: PairDecoder) -> dict[str, float]:
        """Loss in nats per token, token accuracy and exact match of greedy outputs on the validation set."""
        pairs = self.splits.pairs["valid"]
        processes = current()

        def forced(encoded: list[TokenPair]) -> list[tuple[float, int, int]]:
            return list(zip(*self.forced_scores(model, encoded), strict=True))

        nll, correct, tokens = zip(*processes.spread(forced, self.encoded("valid")), strict=True)
        pairs = pairs[:_VALIDATE_AT_MOST]
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max(len(pair.target) for pair in self.encoded("valid"))

        def written(sources: list[str]) -> list[str]:
            return [out[0].text for out in self.translate(model, sources, beam_size=1, max_length=longest + 2)]

        texts = processes.spread(written, [pair.source for pair in pairs])
        exact = sum(self.is_exact(text, pair) for text, pair in zip(texts, pairs, strict=True))
        scores = {
            "loss": sum(nll) / sum(tokens),
            "token_accuracy": sum(correct) / sum(tokens),
            "exact_match": exact / len(pairs),
        }
        if isinstance(self.config.data, FilesData):
            references = [self.target_tokenizer.normalize(pair.target) for pair in pairs]
            text = text_scores(texts, references, ("bleu", "chrf"))
            scores |= {name: text[name]["value"] for name in ("bleu", "chrf")}
        return scores

    def is_exact(self, text: str, pair: Pair) -> bool:
        """Whether an output equals the reference, up to the tokenizer's normalisation."""
        return text == self.target_tokenizer.normalize(pair.target)

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training examples, and how many there are."""
        pair = self.training.pair(indices[0])
        where = pair.origin or f"training example {indices[0]}"
        return f"{len(indices)} examples, the first {where}: {pair.source!r}"

    @property
    def finishing_work(self) -> float:
        """Evaluating every test set, in validations (attention is looked at as well, about doubling the cost)."""
        pairs = self.splits.pairs
        tested = sum(len(examples) for name, examples in pairs.items() if name not in ("train", "valid"))
        # Validation is greedy; a beam costs at most its width more.
        return (1.0 + self.config.generation.beam_size) * tested / max(1, len(pairs["valid"]))

    # Using a model --------------------------------------------------------------------------------------------

    @torch.no_grad()
    def forced_scores(self, model: PairDecoder, pairs: Sequence[TokenPair]) -> tuple[list[float], list[int], list[int]]:
        """Score references by teacher forcing.

        Returns:
            Per example: negative log-likelihood in nats, right tokens, tokens (end token included).
        """
        model.eval()
        device = next(model.parameters()).device
        nll, correct, tokens = [0.0] * len(pairs), [0] * len(pairs), [0] * len(pairs)
        for indices in plan_batches([pair.cost for pair in pairs], self.config.training.batch_tokens):
            batch = collate_pairs(pairs, indices).to(device)
            hidden = model(batch.source, batch.source_mask, batch.target)
            for row, index in enumerate(indices):  # one example's logits at a time
                real = batch.target_mask[row]
                labels = batch.labels[row][real]
                log_probs = torch.log_softmax(model.logits(hidden[row][real]).float(), dim=-1)
                nll[index] = -float(log_probs.gather(1, labels.unsqueeze(1)).sum())
                correct[index] = int((log_probs.argmax(-1) == labels).sum())
                tokens[index] = len(labels)
        return nll, correct, tokens

    def translate(
        self,
        model: PairDecoder,
        texts: Sequence[str],
        *,
        beam_size: int | None = None,
        num_best: int = 1,
        length_penalty: float | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        sampling: SamplingOptions | None = None,
        prefix: str = "",
        writer: Writer | None = None,
    ) -> list[list[Prediction]]:
        """Write a target for each text; options default to the configuration's.

        Args:
            model: Writes.
            texts: Sources.
            beam_size: Width of the beam; 1 is greedy.
            num_best: Candidates per text.
            length_penalty: See `heed.generation`.
            min_length: Smallest number of tokens.
            max_length: Largest number of tokens.
            sampling: Draw instead of searching.
            prefix: Every output begins with this text.
            writer: Searches instead of torch; it neither draws nor continues a prefix.

        Returns:
            Per text its candidates, best first; for a blank text one blank output.

        Raises:
            ConfigError: The prefix holds what training never saw, so that it could not be written; or the writer cannot
                do what is asked.
        """
        if writer is not None and (sampling is not None or prefix):
            what = "draw outputs (sampling)" if sampling is not None else f"continue a prefix ({prefix!r})"
            raise ConfigError(f"engine '{writer.name}' cannot {what}; use engine 'torch'")
        if unknown := self.target_tokenizer.unknown_in(prefix):
            raise ConfigError(f"prefix {prefix!r} holds {unknown[0]!r}, which was never seen in training targets")
        given = self.config.generation
        options = SearchOptions(
            end_token=END,
            max_length=(given.max_length or 200) if max_length is None else max_length,
            min_length=given.min_length if min_length is None else min_length,
            beam_size=max(num_best, given.beam_size) if beam_size is None else beam_size,
            length_penalty=given.length_penalty if length_penalty is None else length_penalty,
            num_best=num_best,
            forbidden=self.never_written(model),
        )
        forced = self.target_tokenizer.encode(prefix).ids if prefix else []
        model.eval()
        device = next(model.parameters()).device
        results: list[list[Prediction]] = [[_BLANK] for _ in texts]
        written = [i for i, text in enumerate(texts) if text.strip()]
        encoded = [TokenPair(ids, []) for ids in self.source_tokenizer.encode_all([texts[i] for i in written])]
        if writer is not None:
            for i, hypotheses in zip(written, writer.write([pair.source for pair in encoded], options), strict=True):
                results[i] = [self._prediction(h, []) for h in hypotheses]
            return results
        for chosen in plan_batches([pair.cost for pair in encoded], _GENERATE_TOKENS // options.beam_size):
            batch = collate_pairs(encoded, chosen).to(device)
            with without_gradient():
                memory = model.encode(batch.source, batch.source_mask)
            prompt = batch.source.new_tensor([[START, *forced]]).expand(len(chosen), -1)
            drawing = sampling and replace(sampling, seed=_seeds(sampling.seed, [encoded[i].source for i in chosen]))
            generated = generate(model, memory, prompt, options, sampling=drawing)
            for i, hypotheses in zip(chosen, generated.hypotheses, strict=True):
                results[written[i]] = [self._prediction(h, forced) for h in hypotheses]
        return results

    def never_written(self, model: PairDecoder) -> tuple[int, ...]:
        """The tokens that no output may hold."""
        unknown = () if self.writes_unknown and model.aligns else (UNKNOWN,)
        return (PADDING, START, *unknown, *self.target_tokenizer.tags.values())

    @property
    def writes_unknown(self) -> bool:
        """Whether a model that attends may write the unknown token, replaced by the source word it looked at."""
        return self.target_tokenizer.unit == "word" and self.config.generation.replace_unknown

    def _prediction(self, hypothesis: Hypothesis, forced: list[int]) -> Prediction:
        tokens = [self.target_tokenizer.token(t) for t in hypothesis.tokens]
        if hypothesis.finished:
            tokens.append(self.target_tokenizer.token(END))
        return Prediction(
            self.target_tokenizer.decode([*forced, *hypothesis.tokens]),
            hypothesis.score,
            hypothesis.log_prob,
            tuple(tokens),
            tuple(math.exp(p) for p in hypothesis.log_probs),
            hypothesis.finished,
            (*forced, *hypothesis.tokens),
        )

    def forced_batch(self, source: str, target: Sequence[int]) -> PairBatch:
        """One source with one given output, as a batch of one."""
        pair = TokenPair(self.source_tokenizer.encode(source).ids, list(target))
        return collate_pairs([pair], [0])

    def collate_pairs(self, pairs: Sequence[Pair]) -> PairBatch:
        """Any pairs as one batch, in the order given."""
        return collate_pairs(self.encode_pairs(pairs), list(range(len(pairs))))

    def overview(self) -> str:
        """Counts, what was found in the files, lengths, unknown tokens, samples as the model sees them."""
        tokenizer = self.config.tokenizer
        tokenizers = {"source": self.source_tokenizer, "target": self.target_tokenizer}
        rows, counted = [], []
        for split in (*self.splits.pairs, *self.splits.extra):
            encoded = some_of(self.encoded(split))
            if len(encoded) < len(self.encoded(split)):
                counted.append(f"({split}: tokens of {len(encoded):,} of {len(self.encoded(split)):,} pairs)")
            rows += [SideCounts.of(split, side, (getattr(pair, side) for pair in encoded)) for side in tokenizers]
        return "\n".join(
            [
                self.splits.summary,
                *found_table(self.splits.found),
                f"\ntokenizer {tokenizer.kind}: {self.source_tokenizer.vocab_size:,} source tokens, "
                f"{self.target_tokenizer.vocab_size:,} target tokens{' (shared)' if tokenizer.shared else ''}\n",
                length_table(rows),
                *counted,
                *vocabulary_warnings(rows, tokenizers),
                "\nas read and, below, as the model sees them:",
                *(self._sample(pair, tokens) for pair, tokens in self._samples()),
            ]
        )

    def _samples(self) -> Iterator[tuple[Pair, TokenPair]]:
        """A few examples of what is trained on, and the first of each other set."""
        training = self.training
        yield from ((training.pair(i), training.token_pair(i)) for i in training.samples())
        yield from (
            (self.splits.pairs[name][0], self.encoded(name)[0]) for name in self.split_names[1:] if self.encoded(name)
        )

    def _sample(self, pair: Pair, tokens: TokenPair) -> str:
        source = ("source", pair.source, self.source_tokenizer, tokens.source)
        return sample_lines(pair.origin, "", [source, ("target", pair.target, self.target_tokenizer, tokens.target)])

    def report_counts(self) -> dict[str, Any]:
        """Per split and further corpus: examples; for files also what was left out by which rule; tokens, unknown ones.

        A corpus's tag counts as a source token. Where pairs are not held in memory, tokens are counted on an even
        sample of `counted` pairs.
        """
        result: dict[str, Any] = {}
        extra = self.splits.extra
        every_count = self.splits.counts | {name: corpus.counts for name, corpus in extra.items()}
        for name in (*self.splits.pairs, *extra):
            encoded = self.encoded(name)
            endless = name == "train" and self.splits.stream is not None
            entry: dict[str, Any] = {"examples": every_count["train"].kept if endless else len(encoded)}
            counted = some_of(encoded)
            if len(counted) < len(encoded):
                entry["counted"] = len(counted)
            if name in every_count:
                entry |= every_count[name].as_values()
            if name in extra:
                entry |= {"weight": extra[name].weight, "tag": extra[name].tag}
            for side in ("source", "target"):
                tokens: list[list[int]] = [getattr(pair, side) for pair in counted]
                entry[f"{side}_tokens"] = sum(map(len, tokens))
                entry[f"{side}_unknown"] = sum(ids.count(UNKNOWN) for ids in tokens)
            result[name] = entry
        return result


def _seeds(seed: int | tuple[int, ...], sources: Sequence[list[int]]) -> tuple[int, ...]:
    """A seed for each source, from its own tokens: a text is drawn the same wherever it stands."""
    digests = [hashlib.blake2b(repr((seed, ids)).encode(), digest_size=8).digest() for ids in sources]
    return tuple(int.from_bytes(digest, "big") for digest in digests)


_BLANK = Prediction("", 0.0, 0.0, (), (), True, ())
