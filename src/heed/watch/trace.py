"""Observing a running model: `with heed.trace(model) as seen:`.

Code inside the block runs the same kernels as outside (except for two fast forms of Transformers, see
`heed.attention.watch`); the trace keeps references and computes weights only on request. Edits, by contrast, change the
weights inside the attention call.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType
from typing import Protocol

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.attention.modules import Attends
from heed.errors import ConfigError
from heed.watch.edits import Edit, EditLike, GivenEdit, attention_of, edits_of, listing
from heed.watch.maps import Axis, Map
from heed.watch.numbers import RecordedSource
from heed.watch.records import AttentionRecord, GateRecord, ObserveError, Series, TensorRecord


@dataclass(frozen=True)
class Maps:
    """The maps of one attention mechanism over a batch."""

    mechanism: str
    layer: int
    head: int | None  # which head, or None for all
    weights: Tensor  # `(batch, heads, query, key)`, or `(batch, query, key)` if a head was chosen
    scores: Tensor  # as the weights, before the softmax
    mask: Tensor  # as the weights, True = may attend
    context: Tensor  # `(batch, heads, query, d_value)`, or without heads; as the model computed it
    weight_sources: tuple[RecordedSource, ...] = ()  # for each entry, the calls that its weights came from

    def map(self, query: Axis, key: Axis, *, entry: int = 0, head: int | None = None, caption: str = "") -> Map:
        """The map of one entry with named axes, cut to the axes' lengths (the rest is padding).

        Without `head`, the mean over heads.

        Raises:
            ShapeError: The axes are longer than the map.
        """

        def selected(tensor: Tensor) -> Tensor:
            tensor = tensor[entry, ..., : len(query), : len(key)]
            if tensor.dim() == 2:
                return tensor
            if head is not None or tensor.shape[0] == 1:
                return tensor[head or 0]
            return tensor.float().mean(0)

        chosen = self.head if self.head is not None else head
        if chosen is None and self.weights.dim() == 4 and self.weights.shape[1] == 1:
            chosen = 0
        mask = selected(self.mask.float()) > 0
        # The mean over heads has no scores: the softmax of a mean is not the mean of the softmaxes.
        scores = None if chosen is None and self.weights.dim() == 4 else selected(self.scores)
        source = replace(self.weight_sources[entry], head=chosen) if self.weight_sources else None
        weights = selected(self.weights)
        return Map(self.mechanism, self.layer, chosen, query, key, weights, scores, mask, caption, weight_source=source)


class _EagerStance:
    """Runs compiled models eagerly while a trace is open in any thread.

    The compiler's stance is process-wide, so it is reference-counted: the last trace to end restores it.
    """

    def __init__(self) -> None:
        self._lock, self._open = Lock(), 0
        self._stance: contextlib.AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            # Importing the compiler takes a second; if it was not imported, nothing is compiled.
            if self._stance is None and "torch._dynamo" in sys.modules:
                self._stance = torch.compiler.set_stance("force_eager")  # takes effect at once
            self._open += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._open -= 1
            if not self._open and self._stance is not None:
                self._stance.__exit__(None, None, None)
                self._stance = None


_EAGER_STANCE = _EagerStance()


class Trace:
    """Records of a running model, in order of the calls; created by `trace` and `edit`."""

    def __init__(self, model: nn.Module, edits: Sequence[EditLike], grad: bool, recorded: dict[str, nn.Module]) -> None:
        edits = edits_of(edits)
        self._model = getattr(model, "_orig_mod", model)  # a compiled model wraps the real one
        self._recorded = {id(module): name for name, module in recorded.items()}
        self._added_edits = [GivenEdit(item) for item in edits]
        self._edits = self._added_edits
        self._edited = {id(module) for module in self._model.modules()} if edits else set()
        self._grad = grad
        self._outer: watch.Watcher | None = None
        self.attention_records: list[AttentionRecord] = []
        self.gate_records: list[GateRecord] = []
        self.tensor_records: list[TensorRecord] = []
        for item in edits:
            item.check(self._model)

    def __enter__(self) -> Trace:
        outer = watch.observer.current
        if isinstance(outer, Trace) and not outer._recorded:  # a trace inside an edit observes the edited model
            self._edits, self._edited = [*outer._edits, *self._edits], self._edited | outer._edited
        elif outer is not None:
            raise ObserveError("a trace is already open in this thread; leave its `with` block before opening another")
        self._outer = outer
        _EAGER_STANCE.__enter__()
        watch.observer.current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        watch.observer.current = self._outer
        _EAGER_STANCE.__exit__()
        if error is None:
            for tracked in self._added_edits:
                tracked.check(self._model)

    # Called by modules ----------------------------------------------------------------------------------------

    def edits(self, module: nn.Module) -> list[watch.WatchedEdit]:
        """The edits that apply to a module of the watched model."""
        if id(module) not in self._edited:
            return []
        assert isinstance(module, Attends)
        return [tracked for tracked in self._edits if tracked.edit.applies(module.mechanism, module.layer)]

    def attention(self, module: nn.Module, call: watch.AttentionCall) -> None:
        """Record a call of an attention module of the watched model."""
        if (name := self._recorded.get(id(module))) is not None:
            assert isinstance(module, Attends)
            edited = bool(self.edits(module))
            record = AttentionRecord.of(name, module.mechanism, module.layer, call, self._grad, edited)
            self.attention_records.append(record)

    def recurrence(self, module: nn.Module, call: watch.RecurrentCall) -> None:
        """Record a run of a recurrent cell of the watched model."""
        if (name := self._recorded.get(id(module))) is not None:
            self.gate_records.append(GateRecord.of(name, call, self._grad))

    def tensor(self, module: nn.Module, kind: str, value: Tensor) -> Tensor:
        """Record a tensor that a module of the watched model offers."""
        if (name := self._recorded.get(id(module))) is not None:
            self.tensor_records.append(TensorRecord(name, kind, value if self._grad else value.detach()))
        return value

    def patches(self, cell: nn.Module) -> bool:
        """False: a trace patches nothing; see `heed.watch.interventions`."""
        return False

    def state(self, cell: nn.Module, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The given state."""
        return state

    # Queries --------------------------------------------------------------------------------------------------

    def mechanisms(self) -> list[tuple[str, int]]:
        """Every (mechanism, layer) seen, in order of first call."""
        return list(dict.fromkeys((record.mechanism, record.layer) for record in self.attention_records))

    def maps(
        self,
        mechanism: str | None = None,
        layer: int = -1,
        head: int | None = None,
        entries: Sequence[int] | None = None,
    ) -> Maps:
        """The maps of the last pass through one mechanism; steps of one sequence are joined.

        Column k is the key at absolute position k. The mechanism may be omitted if the model has only one; a negative
        layer counts from the last. Only the requested `entries` of the batch are computed, all by default.

        Raises:
            ObserveError: The mechanism or layer was not seen, or steps have other rows from one to the next.
            SelfCheckError: The recomputed weights do not reproduce what the model computed.
        """
        series = self._series(*self._find(mechanism, layer))
        first = series.records[0]
        chosen = None if entries is None else torch.tensor(list(entries), dtype=torch.long, device=first.offset.device)

        def mask(record: AttentionRecord, rows: Tensor | None) -> Tensor:
            return record.at_positions(record.may(rows), 0.0, rows)

        def one_head(whole: Tensor) -> Tensor:
            return whole if head is None else whole[:, head]

        return Maps(
            first.mechanism,
            first.layer,
            head,
            one_head(series.laid(lambda r, rows: r.at_positions(r.weights(rows), 0.0, rows), 0.0, chosen)),
            one_head(series.laid(lambda r, rows: r.at_positions(r.scores(rows), -torch.inf, rows), -torch.inf, chosen)),
            one_head(series.laid(mask, 0.0, chosen) > 0),
            one_head(series.laid(lambda r, rows: r.context if rows is None else r.context[rows], 0.0, chosen)),
            tuple(
                RecordedSource(series, entry) for entry in (range(series.num_entries) if entries is None else entries)
            ),
        )

    def weights(self, mechanism: str | None = None, layer: int = -1) -> Tensor:
        """Only the weights of `maps`, `(batch, heads, query, key)`, for losses on attention.

        They are computed for all steps at once if possible, and not checked against the contexts.
        """
        series = self._series(*self._find(mechanism, layer))
        first, *later = series.records
        whole = first.joined(later)
        if whole is not None:
            series = Series([whole])
        return series.laid(lambda r, rows: r.at_positions(r.weights(rows, check=False), 0.0, rows), 0.0, None)

    def gates(self) -> dict[str, dict[str, Tensor]]:
        """The gates of each recurrent cell over the last sequence, `(batch, length, d_hidden)`; steps are joined."""
        joined: dict[str, GateRecord] = {}
        for record in self.gate_records:
            before = joined.get(record.name)
            goes_on = before is not None and before.continued_by(record)
            joined[record.name] = before.joined(record) if before is not None and goes_on else record
        return {name: record.gates() for name, record in joined.items()}

    def tensors(self, kind: str) -> list[Tensor]:
        """The recorded tensors of one kind ("logits"), in order."""
        return [record.value for record in self.tensor_records if record.kind == kind]

    def _find(self, mechanism: str | None, layer: int) -> tuple[str, int]:
        seen = self.mechanisms()
        if not seen:
            raise ObserveError("no attention was recorded; run a model with attention inside heed.trace")
        listing = ", ".join(f"{name} layer {number}" for name, number in seen)
        names = list(dict.fromkeys(name for name, _ in seen))
        if mechanism is None and len(names) == 1:
            mechanism = names[0]
        layers = sorted(number for name, number in seen if name == mechanism)
        if mechanism is None or not layers:
            missing = f"no '{mechanism}' attention was recorded"
            choose = "several attentions were recorded; choose one with mechanism="
            raise ObserveError(f"{choose if mechanism is None else missing}; recorded: {listing}")
        try:
            return mechanism, layers[layer] if layer < 0 else layers[layers.index(layer)]
        except (IndexError, ValueError):
            raise ObserveError(f"'{mechanism}' attention has no layer {layer}; recorded: {listing}") from None

    def _series(self, mechanism: str, layer: int) -> Series:
        """The calls of the last pass."""
        return Series.last([r for r in self.attention_records if (r.mechanism, r.layer) == (mechanism, layer)])


def trace(
    model: nn.Module | HasModel,
    *,
    edits: Sequence[EditLike] = (),
    grad: bool = False,
    mechanism: str | None = None,
    layer: int | None = None,
) -> Trace:
    """Observe a model: `with heed.trace(model) as seen: model(...)`, then `seen.maps(...)`.

    Args:
        model: The model, or a run; a compiled model runs eagerly inside the block.
        edits: Edits of attention weights to apply inside the block (`heed.watch.edits`), also as data.
        grad: Keep recorded tensors attached to the graph, for losses on attention weights.
        mechanism: Record only this attention ("cross", "encoder", "decoder"), and nothing but attention.
        layer: Record only this layer of attention, and nothing else; negative counts from the last.

    Returns:
        A context manager that returns the trace.

    Raises:
        ObserveError: On entering, another trace is open in this thread.
        ConfigError: The model does not have the requested or edited mechanism, layer or head; or, on leaving, an edit
            was never applied.
    """
    model = _module_of(model)
    inner = getattr(model, "_orig_mod", model)
    if mechanism is None and layer is None:
        return Trace(model, edits, grad, dict(inner.named_modules()))
    meant = {name: module for name, module in attention_of(inner).items() if mechanism in (None, module.mechanism)}
    layers = sorted({module.layer for module in meant.values()})
    number = layers[layer] if layer is not None and -len(layers) <= layer < 0 else layer
    recorded: dict[str, nn.Module] = {name: module for name, module in meant.items() if number in (None, module.layer)}
    if not recorded:
        asked = f"{mechanism or ''} attention {'' if layer is None else f'layer {layer}'}".strip()
        raise ConfigError(f"cannot record {asked}: the model has {listing(inner)}")
    return Trace(model, edits, grad, recorded)


def edit(model: nn.Module | HasModel, *edits: EditLike | Sequence[EditLike]) -> Trace:
    """Change attention weights inside the block without recording anything; otherwise like `trace`.

    `edits` are edits of `heed.watch.edits`, their data as JSON has it, or lists of them.
    """
    flat = [item for some in edits for item in ([some] if isinstance(some, Edit | Mapping | str) else some)]
    return Trace(_module_of(model), flat, grad=False, recorded={})


class HasModel(Protocol):
    """A run."""

    model: nn.Module


def _module_of(model: nn.Module | HasModel) -> nn.Module:
    return model if isinstance(model, nn.Module) else model.model


# Rollout -----------------------------------------------------------------------------------------------------------


def rolled_out(weights: Iterable[Tensor]) -> list[Tensor]:
    """Attention rollout over the layers of an encoder: the share of each input token in each state.

        A'_l = (A_l + I) / 2,  R_l = A'_l R_(l-1),  R_(-1) = I

    A_l is the mean over the heads of layer l, and I stands for the residual connection.

    Source: Abnar and Zuidema 2020 (arXiv:2005.00928), section 3. Differs from the paper: nothing.

    Args:
        weights: `(batch, heads, tokens, tokens)` for each layer, the first layer first; rows sum to 1.

    Returns:
        For each layer `(batch, tokens, tokens)`: row i is the share of each input token in the state of token i after
        that layer. Rows sum to 1.
    """
    states: list[Tensor] = []
    for layer in weights:
        mean = layer.float().mean(1)
        mixed = (mean + torch.eye(mean.shape[-1], device=mean.device)) / 2
        states.append(mixed if not states else mixed @ states[-1])
    return states


def rollout(seen: Trace, mechanism: str | None = None, layer: int = -1, entries: Sequence[int] | None = None) -> Tensor:
    """Roll out the self-attention of a trace, from its first layer up to and including `layer`.

    Args:
        seen: A trace of one pass over a batch.
        mechanism: Which attention ("encoder"); may be omitted if the model has only one.
        layer: The last layer to include, from 0; negative counts from the last.
        entries: Entries of the batch; all by default.

    Returns:
        `(batch, tokens, tokens)`, rows sum to 1.

    Raises:
        ConfigError: Rollout is not defined for this attention: its mask differs between tokens (a causal mask), or it
            does not go from a sequence to itself.
        ObserveError: No such attention was seen, or its layers differ in size.
    """
    if mechanism is None and len(names := list(dict.fromkeys(name for name, _ in seen.mechanisms()))) == 1:
        mechanism = names[0]
    layers = sorted(number for name, number in seen.mechanisms() if name == mechanism)
    last = seen.maps(mechanism, layer, entries=[0]).layer  # if there is no such layer, the error lists the layers
    weights = []
    for number in (number for number in layers if number <= last):
        maps = seen.maps(mechanism, number, entries=entries)
        tokens, keys = maps.weights.shape[-2:]
        if tokens != keys:
            raise ConfigError(
                f"rollout needs attention from a sequence to itself; {mechanism} attention has {tokens} queries and "
                f"{keys} keys"
            )
        if not bool((maps.mask == maps.mask[..., :1, :]).all()):
            raise ConfigError(
                f"rollout is not defined under a causal mask: the tokens of {mechanism} attention, layer {number}, do "
                "not all see the same tokens, so the first tokens would gain weight at every layer, whatever the model "
                "learned (Abnar and Zuidema 2020 define rollout for encoders)"
            )
        weights.append(maps.weights)
    if len({layer_weights.shape[-1] for layer_weights in weights}) > 1:
        raise ObserveError("rollout needs layers over the same tokens; these layers differ in number of tokens")
    return rolled_out(weights)[-1]
