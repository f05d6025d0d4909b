"""Learning rates of parts of a model: decayed by layer, frozen, or frozen up to some update.

The parts of a body, by height: its top and the head (0), its layers from the last one down (1, 2, ..., L), and its
embeddings, which are everything before the first layer (L + 1). Layers are the blocks of a Transformer or the layers of
a recurrent network; in a body with two stacks (encoder and decoder), both have layers of each height. A resumed run
trains the same parts at the same updates.

    rate(height) = training.learning_rate * training.layer_decay ** height
    trained from update training.unfreeze_every * height on

Source: Howard and Ruder 2018 (arXiv:1801.06146), sections 3.2 (rates by layer) and 3.3 (gradual unfreezing); Clark et
al. 2020 (arXiv:2003.10555), appendix B, for a factor between neighbouring layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import nn

from heed.config import TrainingConfig
from heed.errors import ConfigError, nearest, whole_number
from heed.training.optimizer import Group

_LAYER = re.compile(r"(blocks|layers|encoder|decoder)\.(?:\w+_cells\.)?(\d+)\.")
"""Start of a parameter's name in a body: a submodule with layers, and the number of a block or of a layer's cells."""
_BELOW = re.compile(r"layers\s*<\s*(\d+)")


def layers_of(body: nn.Module) -> dict[str, int | None]:
    """The layer of each parameter of a body, by name: 0 to L - 1, -1 for embeddings, None for its top.

    If a body has two stacks of unequal length, their last layers have the same number.
    """
    matches = {name: match for name, _ in body.named_parameters() if (match := _LAYER.match(name)) is not None}
    lengths: dict[str, int] = {}
    for match in matches.values():
        lengths[match[1]] = max(lengths.get(match[1], 0), int(match[2]) + 1)
    count, result, seen = max(lengths.values(), default=0), dict[str, int | None](), False
    tables = {id(p) for module in body.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    for name, parameter in body.named_parameters():
        if name in matches:
            stack, number = matches[name].groups()
            result[name], seen = count - lengths[stack] + int(number), True
        elif id(parameter) in tables or (lengths and not seen):
            result[name] = -1
        else:
            result[name] = None
    return result


def num_layers(body: nn.Module) -> int:
    """The number of layers of a body; 0 if it has no stack of layers."""
    return 1 + max((layer for layer in layers_of(body).values() if layer is not None), default=-1)


def layers_of_model(model: nn.Module, body: nn.Module) -> dict[str, tuple[bool, int | None]]:
    """For each parameter of a model, by name: True if it belongs to the body, and its layer there."""
    of_body = layers_of(body)
    inside = {id(parameter): of_body[name] for name, parameter in body.named_parameters()}
    return {name: (id(p) in inside, inside.get(id(p))) for name, p in model.named_parameters()}


def groups_of(model: nn.Module, body: nn.Module, training: TrainingConfig) -> list[Group]:
    """The groups of a model's parameters that are frozen, frozen at first, or trained at a reduced learning rate.

    Raises:
        ConfigError: `training.freeze` names no part of the model, or leaves nothing to train.
    """
    if training.layer_decay is None and not training.freeze and training.unfreeze_every is None:
        return []
    count, layers = num_layers(body), layers_of_model(model, body)
    frozen = frozen_by(training.freeze, layers, count)
    parameters = dict(model.named_parameters())
    if not any(p.requires_grad for name, p in parameters.items() if name not in frozen):
        raise ConfigError(f"training.freeze leaves nothing to train: {', '.join(training.freeze)}")
    groups = [Group([parameters[name] for name in sorted(frozen)], 0.0)] if frozen else []
    decay, every = training.layer_decay or 1.0, training.unfreeze_every or 0
    for height in range(1, count + 2):
        names = [name for name, (_, layer) in layers.items() if layer == count - height and name not in frozen]
        if names:
            called = "the embeddings" if height == count + 1 else f"layer {count - height + 1} of {count}"
            chosen = [parameters[name] for name in names]
            groups.append(Group(chosen, decay**height, every * height, called))
    return groups


def frozen_by(parts: Sequence[str], layers: Mapping[str, tuple[bool, int | None]], count: int) -> set[str]:
    """The names of the parameters that the entries of `training.freeze` select.

    Args:
        parts: "body", "embeddings", "layers<N", or the start of parameter names.
        layers: As of `layers_of_model`.
        count: Number of layers of the body.

    Raises:
        ConfigError: An entry selects no parameter.
    """
    frozen: set[str] = set()
    for part in parts:
        below = _BELOW.fullmatch(part.strip())
        if below is not None and not 0 < whole_number(below[1]) <= count:
            has = f"has {count} layer{'' if count == 1 else 's'}" if count else "has no stack of layers"
            raise ConfigError(f"training.freeze: '{part}', but the body {has}")
        found = {
            name
            for name, (inside, layer) in layers.items()
            if (part == "body" and inside)
            or (part == "embeddings" and layer == -1)
            or (below is not None and layer is not None and 0 <= layer < whole_number(below[1]))
            or name == part
            or name.startswith(f"{part.removesuffix('.')}.")
        }
        if not found:
            tops = dict.fromkeys(name.split(".")[0] for name in layers)
            known = [*dict.fromkeys(["body", "embeddings", f"layers<{max(1, count)}", *tops])]
            raise ConfigError(
                f"training.freeze: '{part}' is not a part of the model{nearest(part, known)}; its parts are "
                f"{', '.join(known)}, and the beginnings of tensor names such as {next(iter(layers))}"
            )
        frozen |= found
    return frozen
