"""What tests of equations share: random inputs, models far from uniform weights, their parameters for the reference."""

import numpy as np
import torch

import reference as ref

SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 10, 0, 0], [7, 0, 0, 0, 0]])
LENGTHS = [5, 3, 1]
MASK = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)
TARGET = torch.tensor([[1, 4, 5, 6], [1, 7, 4, 8], [1, 9, 9, 10]])
TIGHT = {"rtol": 0, "atol": 1e-12}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sharpened(model, by=2.0):
    """The model with its parameters multiplied: away from the linear part of the gates and from uniform weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(by)
    return model


def array(tensor):
    return None if tensor is None else tensor.detach().numpy()


def weights_of(cell):
    return [array(p) for p in (cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh)]


def notes_matrices(cell):
    """The notes' one matrix on [h, x] and one bias per gate: z, r, h~."""
    w_ih, w_hh, b_ih, b_hh = weights_of(cell)
    (r, z, h), (b_r, b_z, b_h) = np.split(np.hstack([w_hh, w_ih]), 3), np.split(b_ih + b_hh, 3)
    return z, r, h, b_z, b_r, b_h


def step_of(cell):
    """The reference's step (x, state) of a cell with the same weights."""
    w = weights_of(cell)
    if cell.cell == "lstm":
        return lambda x, state: ref.lstm_step(x, *state, *w)
    if cell.cell == "gru_notes":
        return lambda x, h: ref.gru_step_notes(x, h, *notes_matrices(cell))
    return lambda x, h: {"rnn": ref.rnn_step, "gru": ref.gru_step_torch}[cell.cell](x, h, *w)


def zeros_of(cell):
    """The state of zeros of a cell, for the reference."""
    zeros = np.zeros(cell.d_hidden)
    return (zeros, zeros) if cell.cell == "lstm" else zeros


def hidden_of(state):
    return state[0] if isinstance(state, tuple) else state
