"""The one-network translator is one recurrent network over one sequence, with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from heed.models.rnn import RnnTranslator, RnnTranslatorConfig

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 10, 0, 0], [7, 0, 0, 0, 0]])
LENGTHS = [5, 3, 1]
MASK = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)
TARGET = torch.tensor([[1, 4, 5, 6], [1, 7, 4, 8], [1, 9, 9, 10]])
D = 3


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(("cell", "step"), [("rnn", ref.rnn_step), ("gru", ref.gru_step_torch), ("lstm", None)])
def test_source_and_target_are_one_sequence(cell, step, num_layers):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": 4, "d_hidden": D}
    model = RnnTranslator(RnnTranslatorConfig(**sizes, cell=cell, num_layers=num_layers)).double().eval()
    with torch.no_grad():
        hidden = model(SOURCE, MASK, TARGET)
        tables = [table.weight.numpy() for table in (model.source_embedding, model.target_embedding)]
    for b, length in enumerate(LENGTHS):
        sequence = np.concatenate([tables[0][SOURCE[b, :length].numpy()], tables[1][TARGET[b].numpy()]])
        for layer in model.layers.forward_cells:
            w = [p.detach().numpy() for p in (layer.w_ih, layer.w_hh, layer.b_ih, layer.b_hh)]
            if cell == "lstm":
                sequence, _ = ref.run_rnn(
                    lambda x, s, w=w: ref.lstm_step(x, *s, *w), sequence, (np.zeros(D), np.zeros(D))
                )
            else:
                sequence, _ = ref.run_rnn(lambda x, h, w=w: step(x, h, *w), sequence, np.zeros(D))
        assert_close(hidden[b], torch.from_numpy(sequence[length:]), rtol=0, atol=1e-12)
