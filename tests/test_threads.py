"""How many threads prediction and training use: by weights and work, by what other work leaves, by the user."""

import pytest
import torch
from torch import nn

from heed import threads
from heed.config import TrainingConfig
from heed.threads import Times, fixed, free_cores, prediction_threads, threads_for
from heed.training import cost as of_training


@pytest.fixture(autouse=True)
def two_quiet_cores(monkeypatch):
    """A machine of two cores that nobody else uses."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "cores", lambda: {0, 1})
    monkeypatch.setattr(threads, "free_cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


SMALL, LARGE = nn.Linear(3, 3), nn.Linear(1000, 1000)
"""The larger one takes two million floating-point operations a position."""


def used(model=LARGE, size=1000):
    """The number of threads of a piece of prediction."""
    with threads_for(model, size):
        return torch.get_num_threads()


def test_pieces_of_many_operations_have_all_threads_and_others_one():
    assert used(LARGE, 500) == 2 and used(LARGE, 499) == 1 and used(SMALL, 1000) == 1
    assert torch.get_num_threads() == 2


def test_embeddings_are_looked_up_and_not_multiplied():
    model = nn.Sequential(nn.Embedding(1000, 1000), nn.Linear(1000, 1000))
    assert used(model, 500) == 2 and used(model, 499) == 1


def test_a_model_that_is_not_on_the_cpu_is_left_alone():
    assert used(nn.Linear(3, 3, device="meta")) == 2


def test_other_work_takes_the_second_thread_away_and_gives_it_back(monkeypatch):
    assert used() == 2
    monkeypatch.setattr(threads, "free_cores", lambda: 1)
    assert used() == 1
    monkeypatch.setattr(threads, "free_cores", lambda: 2)
    assert used() == 2


def test_an_environment_variable_wins(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with prediction_threads():
        assert used(SMALL) == 2


def test_fixed_threads_win():
    with fixed(2), prediction_threads():
        assert used(SMALL) == 2
    with fixed(1):
        assert used(LARGE) == 1
    assert torch.get_num_threads() == 2


def test_a_process_left_one_thread_keeps_it():
    torch.set_num_threads(1)
    assert used() == 1


def test_around_pieces_there_is_one_thread():
    with prediction_threads():
        assert torch.get_num_threads() == 1
        assert used() == 2
        with prediction_threads():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_a_failure_leaves_the_threads_as_they_were():
    with pytest.raises(ValueError, match="broken"), prediction_threads(), threads_for(nn.Linear(1, 1), 1):
        raise ValueError("broken")
    assert torch.get_num_threads() == 2


def measured(monkeypatch, idle, process, seconds=1.0, total=None):
    """The free cores after a time in which the cores were idle and this process computed for so many seconds."""
    monkeypatch.setattr(threads, "_measured", {})
    monkeypatch.setattr(threads, "_AT_IMPORT", Times(0.0, 0.0, 0.0, 0.0))
    now = Times(seconds, 2 * seconds if total is None else total, idle, process)
    monkeypatch.setattr(threads, "read_times", lambda: now)
    monkeypatch.setattr(threads.time, "perf_counter", lambda: seconds)
    return free_cores()


@pytest.mark.parametrize(
    ("idle", "process", "free"),
    [
        (1.0, 1.0, 2),  # one thread at work, the other core idle
        (0.0, 2.0, 2),  # both cores are ours
        (0.0, 1.0, 1),  # the other core is busy for somebody else
        (0.8, 1.0, 2),  # a little is
        (0.0, 0.2, 1),  # everything is
    ],
)
def test_cores_that_other_processes_leave_free(monkeypatch, idle, process, free):
    assert measured(monkeypatch, idle, process) == free


def test_where_the_system_does_not_report_times_all_cores_are_free(monkeypatch):
    assert measured(monkeypatch, 0.0, 1.0, total=0.0) == 2


def test_a_measurement_is_reused_up_to_its_age(monkeypatch):
    assert measured(monkeypatch, 0.0, 1.0) == 1
    monkeypatch.setattr(threads, "read_times", lambda: Times(1.5, 3.0, 1.0, 1.0))
    for now, free in ((1.2, 1), (1.5, 2)):
        monkeypatch.setattr(threads.time, "perf_counter", lambda now=now: now)
        assert free_cores() == free


def test_training_uses_fewer_threads_while_cores_are_busy(monkeypatch):
    free = iter([2, 1, 2])
    monkeypatch.setattr(of_training, "free_cores", lambda _: next(free))
    used = []
    for _ in range(3):
        of_training.limit_to_free_cores(2)
        used.append(torch.get_num_threads())
    assert used == [2, 1, 2]


@pytest.mark.parametrize(("work", "wanted"), [(500, 2), (499, 1)])
def test_training_has_the_threads_of_the_rule_as_far_as_cores_are_free(monkeypatch, work, wanted):
    monkeypatch.setattr(of_training, "cores", lambda: {0, 1})
    for free in (2, 1):
        monkeypatch.setattr(of_training, "free_cores", lambda _, free=free: free)
        assert of_training.choose_threads(LARGE, work) == wanted
        assert torch.get_num_threads() == min(wanted, free)


def test_a_resumed_training_keeps_its_threads_unless_others_are_given(monkeypatch):
    as_before, given = TrainingConfig(minutes=1), TrainingConfig(minutes=1, threads=1)
    assert of_training.resumed_threads(as_before, (), 8) == 8
    assert of_training.resumed_threads(given, ("training.threads",), 8) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # which torch has read
    assert of_training.resumed_threads(as_before, (), 8) == 2
    assert of_training.resumed_threads(given, (), 8) == 1
