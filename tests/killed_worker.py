"""Program for tests/test_processes.py: `heed`, but the second process is killed before an update on the first start."""

import os
import signal
import sys

from heed.cli import main
from heed.training import cost
from heed.training.loop import Trainer

real = Trainer._update


def update(trainer, *arguments):
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and trainer.progress.step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    real(trainer, *arguments)


Trainer._update = update
cost._ENOUGH = 0.0  # as in conftest.py
main(sys.argv[1:])
