"""Training speed of a GRU with additive attention against Eole's, in one run on the same batches.

    pip install -e '.[bench]'
    pip install --no-deps eole==0.6.4 pyonmttok
    HEED_DATA=../shared/data python benchmarks/recurrent.py [--threads 2] [--seconds 10]

One layer of width 256, additive attention, 10,000 tokens, dropout 0.3; batches, loss and optimiser as in
`benchmarks/training.py`. Eole's networks are built from its own configuration ("mlp" attention, bidirectional encoder):
with input feeding, its default, and without, so that no step waits for the attention of the previous one. Its recurrent
models need none of its requirements beyond those of `[bench]`, hence `--no-deps`. Its encoder has 128 units in each
direction, heed's 256 (so twice the memory width): the operations of each are printed with its speed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from training import (
    SMOOTHING,
    VOCABULARY,
    PairBatch,
    Step,
    arguments,
    as_heed_trains,
    batches,
    installed,
    optimised,
    race,
)

from heed.kernels import vocabulary_loss
from heed.models.bahdanau import Bahdanau, BahdanauConfig

WIDTH, DROPOUT = 256, 0.3


def heed_step() -> Step:
    config = BahdanauConfig(
        source_vocab_size=VOCABULARY,
        target_vocab_size=VOCABULARY,
        d_embedding=WIDTH,
        d_hidden=WIDTH,
        d_attention=WIDTH,
        d_readout=WIDTH,
        dropout=DROPOUT,
    )
    model = Bahdanau(config).train()

    def loss(batch: PairBatch) -> Tensor:
        hidden = model(batch.source, batch.source_mask, batch.target)
        real = batch.target_mask
        return vocabulary_loss(hidden[real], model.output, batch.labels[real], SMOOTHING)

    return as_heed_trains(model, loss)


class _Vocabulary(dict[str, int]):
    """The part of a vocabulary that Eole's builders need: the id of the padding token, and the size."""

    def __len__(self) -> int:
        return VOCABULARY


def eole_step(input_feed: int) -> Step:
    from eole.config.models import CustomModelConfig
    from eole.models.model import EncoderDecoderModel

    config = CustomModelConfig(
        hidden_size=WIDTH,
        layers=1,
        input_feed=input_feed,
        embeddings={"word_vec_size": WIDTH},
        encoder={"encoder_type": "brnn", "rnn_type": "GRU"},
        decoder={"decoder_type": "rnn", "rnn_type": "GRU", "global_attention": "mlp"},
    )
    running = SimpleNamespace(dropout=[DROPOUT], optim="adam", freeze_word_vecs_enc=False, freeze_word_vecs_dec=False)
    words = _Vocabulary({"<blank>": 0})
    vocabularies = {"src": words, "tgt": words, "specials": {"pad_token": "<blank>"}}
    model = EncoderDecoderModel.build_blocks(config, vocabularies, running_config=running)
    model.build_generator(config, running, vocabularies)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    model.train()
    criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=SMOOTHING, ignore_index=-100)

    def loss(batch: PairBatch) -> Tensor:
        target = torch.cat([batch.target, batch.target[:, -1:]], dim=1)  # the model drops the last token
        states = model(batch.source, target, batch.source_mask.sum(1))[0]
        labels = batch.labels.masked_fill(~batch.target_mask, -100)
        return criterion(model.generator(states.flatten(0, 1)), labels.flatten())

    return optimised(model, loss)


COMPETITORS: dict[str, Callable[[], Step]] = {
    "heed": heed_step,
    "Eole": partial(eole_step, 1),
    "Eole without input feeding": partial(eole_step, 0),
}


def operations(competitor: str, batch: PairBatch) -> float:
    """Multiplications and additions of one update, forward and backward (three products each), real tokens only."""
    d, feeds = WIDTH, competitor == "Eole"
    each = d if competitor == "heed" else d // 2  # width of each direction of the encoder
    memory = 2 * each
    source, target = batch.source_mask.sum(1).double(), batch.target_mask.sum(1).double()
    of_source = 2 * 3 * each * (d + each) + memory * d
    if competitor == "heed":
        of_target = 3 * d * (d + memory + d) + d * d + (2 * d + memory) * d
    else:
        of_target = 3 * d * (2 * d + feeds * d) + d * d + (d + memory) * d
    of_pairs = d + memory
    work = source.sum() * of_source + target.sum() * (of_target + d * VOCABULARY) + (source * target).sum() * of_pairs
    return 6.0 * float(work)


def main() -> None:
    given = arguments("Training speed of a GRU with additive attention")
    data = batches(given.batch_tokens, 12)
    steps = installed(COMPETITORS, given.only)
    work = {name: sum(operations(name, batch) for batch in data) for name in steps}
    race("GRU, additive attention, 256", steps, data, work, given)


if __name__ == "__main__":
    main()
