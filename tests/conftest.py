"""Shapes in the signatures of `heed.attention` and `heed.layers` are enforced in every test."""

import jaxtyping
import pytest
import torch

# Before anything imports heed: a module that is already loaded cannot be instrumented any more.
jaxtyping.install_import_hook(["heed.attention", "heed.layers"], "beartype.beartype")

torch.set_num_threads(1)  # tensors in tests are tiny


@pytest.fixture
def as_installed():
    """Run without the shape checks, as users do, whose errors must come from heed itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
