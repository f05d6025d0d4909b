"""The one-network translator is one recurrent network over one sequence, with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, step_of, zeros_of
from heed.models.rnn import RnnTranslator, RnnTranslatorConfig


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_source_and_target_are_one_sequence(cell, num_layers):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": 4, "d_hidden": 3}
    model = RnnTranslator(RnnTranslatorConfig(**sizes, cell=cell, num_layers=num_layers)).double().eval()
    with torch.no_grad():
        hidden = model(SOURCE, MASK, TARGET)
        tables = [table.weight.numpy() for table in (model.source_embedding, model.target_embedding)]
    for b, length in enumerate(LENGTHS):
        sequence = np.concatenate([tables[0][SOURCE[b, :length].numpy()], tables[1][TARGET[b].numpy()]])
        for layer in model.layers.forward_cells:
            sequence, _ = ref.run_rnn(step_of(layer), sequence, zeros_of(layer))
        assert_close(hidden[b], torch.from_numpy(sequence[length:]), **TIGHT)
