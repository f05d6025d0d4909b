"""How many threads prediction and training use: by the times of pieces, by what other work leaves, by the user."""

import pytest
import torch
from torch import nn

from heed import threads
from heed import threads as cores
from heed.config import TrainingConfig
from heed.threads import Company, Pace, Times, choices, fixed, sparing, threads_for
from heed.training import cost as of_training


@pytest.fixture(autouse=True)
def two_quiet_cores(monkeypatch):
    """A machine of two cores that nobody else uses."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cores, "cores", lambda: {0, 1})
    monkeypatch.setattr(threads.COMPANY, "free_cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Clock:
    """A clock that only the work moves on."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(threads.time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def work_through(clock, model, pieces, takes, size=1, kind="step"):
    """The numbers of threads of so many pieces; `takes` is the seconds of one with each number."""
    used = []
    for _ in range(pieces):
        with threads_for(model, size, kind):
            used.append(torch.get_num_threads())
            clock.now += takes[used[-1]]
    return used


def test_small_steps_stay_on_one_thread_but_for_a_trial(clock):
    used = work_through(clock, nn.Linear(3, 3), 40, {1: 0.001, 2: 0.003})
    assert used == [1, 1, 1, 2, 2, 2] + [1] * 34
    assert torch.get_num_threads() == 2


def test_a_second_thread_that_helps_is_kept(clock):
    used = work_through(clock, nn.Linear(3, 3), 40, {1: 0.003, 2: 0.002})
    assert used == [1, 1, 1] + [2] * 37


def test_the_first_piece_with_a_second_thread_may_be_slow(clock):
    model = nn.Linear(3, 3)
    assert work_through(clock, model, 4, {1: 0.003, 2: 0.02})[-1] == 2
    assert work_through(clock, model, 20, {1: 0.003, 2: 0.002}) == [2] * 20


@pytest.mark.parametrize(
    ("begin", "takes", "kept"), [(1, {1: 0.100, 2: 0.093}, 1), (1, {1: 0.100, 2: 0.085}, 2), (2, {1: 0.098, 2: 0.1}, 1)]
)
def test_more_threads_must_save_a_tenth_and_fewer_only_some_time(begin, takes, kept):
    pace = Pace(begin, 2)
    for _ in range(20):
        pace.done(1, takes[pace.next])
    assert pace.next == kept


def test_a_trial_without_a_core_ends_after_one_piece(clock):
    assert work_through(clock, nn.Linear(3, 3), 10, {1: 0.01, 2: 0.3}) == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]


def test_a_model_that_is_not_on_the_cpu_is_left_alone(clock):
    assert work_through(clock, nn.Linear(3, 3, device="meta"), 10, {1: 0.001, 2: 0.003}) == [2] * 10


def test_large_passes_begin_on_all_threads_and_leave_them_if_one_is_faster(clock):
    used = work_through(clock, nn.Linear(1000, 1000), 60, {1: 0.05, 2: 0.1}, size=1000, kind="pass")
    assert used == [2] * 3 + [1] * 57


def test_other_work_takes_the_second_thread_away_and_gives_it_back(clock, monkeypatch):
    model = nn.Linear(3, 3)
    assert work_through(clock, model, 10, {1: 0.003, 2: 0.002})[-1] == 2
    monkeypatch.setattr(threads.COMPANY, "free_cores", lambda: 1)
    assert work_through(clock, model, 10, {1: 0.003, 2: 0.09}) == [1] * 10
    monkeypatch.setattr(threads.COMPANY, "free_cores", lambda: 2)
    assert work_through(clock, model, 10, {1: 0.003, 2: 0.002})[0] == 2


def test_nobody_is_tried_beside_other_work(clock, monkeypatch):
    monkeypatch.setattr(threads.COMPANY, "free_cores", lambda: 1)
    assert work_through(clock, nn.Linear(3, 3), 100, {1: 0.01, 2: 0.9}) == [1] * 100


def test_an_environment_variable_wins(clock, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with sparing():
        assert work_through(clock, nn.Linear(3, 3), 10, {1: 0.001, 2: 0.003}) == [2] * 10


def test_fixed_threads_win(clock):
    with fixed(2), sparing():
        assert work_through(clock, nn.Linear(3, 3), 10, {1: 0.001, 2: 0.003}) == [2] * 10
    with fixed(1):
        assert work_through(clock, nn.Linear(3, 3), 10, {1: 0.003, 2: 0.002}) == [1] * 10
    assert torch.get_num_threads() == 2


def test_a_process_left_one_thread_keeps_it(clock):
    torch.set_num_threads(1)
    assert work_through(clock, nn.Linear(1000, 1000), 10, {1: 1.0}, size=1000) == [1] * 10


def test_around_pieces_there_is_one_thread(clock):
    with sparing():
        assert torch.get_num_threads() == 1
        assert 2 in work_through(clock, nn.Linear(3, 3), 10, {1: 0.003, 2: 0.002})
        with sparing():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_a_failure_leaves_the_threads_as_they_were():
    with pytest.raises(ValueError, match="broken"), sparing(), threads_for(nn.Linear(1, 1), 1):
        raise ValueError("broken")
    assert torch.get_num_threads() == 2


def test_more_cores_are_climbed_step_by_step():
    pace = Pace(1, 8)
    for _ in range(600):
        pace.done(1, {1: 0.4, 2: 0.25, 4: 0.15, 8: 0.2}[pace.next])
    assert pace.next == 4
    pace, tried = Pace(1, 8), set()
    for _ in range(60):
        tried.add(pace.next)
        pace.done(1, {1: 0.1, 2: 0.3, 4: 0.3, 8: 0.3}[pace.next])
    assert tried == {1, 2}  # no further ones after one that was slower
    assert choices(8) == [1, 2, 4, 8] and choices(6) == [1, 2, 4, 6] and choices(1) == [1]


def company(monkeypatch, idle, own, seconds=1.0, counted=None):
    """What `Company` says after a time in which the cores were idle and this process computed so long."""
    times = iter([Times(0.0, 0.0, 0.0, 0.0), Times(seconds, 2 * seconds if counted is None else counted, idle, own)])
    monkeypatch.setattr(cores, "read_times", lambda: next(times))
    monkeypatch.setattr(cores.time, "perf_counter", lambda: seconds)
    return Company()


@pytest.mark.parametrize(
    ("idle", "own", "free"),
    [
        (1.0, 1.0, 2),  # one thread at work, the other core idle
        (0.0, 2.0, 2),  # both cores are ours
        (0.0, 1.0, 1),  # the other core is busy for somebody else
        (0.8, 1.0, 2),  # a little is
        (0.0, 0.2, 1),  # everything is
    ],
)
def test_cores_that_others_leave(monkeypatch, idle, own, free):
    assert company(monkeypatch, idle, own).free_cores() == free


def test_where_the_system_does_not_tell_all_cores_are_free(monkeypatch):
    assert company(monkeypatch, 0.0, 1.0, counted=0.0).free_cores() == 2


def test_a_measurement_holds_for_a_while(monkeypatch):
    there = company(monkeypatch, 0.0, 1.0)
    assert there.free_cores() == there.free_cores() == 1  # a second reading would fail


def test_training_gives_way_and_comes_back(monkeypatch):
    free = iter([2, 1, 2])
    monkeypatch.setattr(of_training._COMPANY, "free_cores", lambda: next(free))
    used = []
    for _ in range(3):
        of_training.give_way(2)
        used.append(torch.get_num_threads())
    assert used == [2, 1, 2]


class Step:
    """A training step that takes so many seconds with each number of threads."""

    def __init__(self, monkeypatch, free=2, takes=None):
        self.tried, self._takes, self._clock = [], takes or {1: 0.3, 2: 0.2}, Clock(monkeypatch)
        monkeypatch.setattr(of_training, "cores", lambda: {0, 1})
        monkeypatch.setattr(of_training._COMPANY, "free_cores", lambda: free)

    def __call__(self):
        self.tried.append(torch.get_num_threads())
        self._clock.now += self._takes[self.tried[-1]]

    def chosen(self):
        return of_training.choose_threads(self)


@pytest.mark.parametrize(("takes", "best"), [({1: 0.3, 2: 0.2}, 2), ({1: 0.2, 2: 0.3}, 1), ({1: 0.2, 2: 0.199}, 1)])
def test_training_takes_the_number_that_is_faster_by_more_than_noise(monkeypatch, takes, best):
    assert Step(monkeypatch, takes=takes).chosen() == best
    assert torch.get_num_threads() == best


def test_training_tries_no_thread_that_has_no_core(monkeypatch):
    step = Step(monkeypatch, free=1)
    assert step.chosen() == 1
    assert set(step.tried) == {1}


def test_a_resumed_training_keeps_its_threads_unless_others_are_given(monkeypatch):
    as_before, given = TrainingConfig(minutes=1), TrainingConfig(minutes=1, threads=1)
    assert of_training.resumed_threads(as_before, (), 8) == 8
    assert of_training.resumed_threads(given, ("training.threads",), 8) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # which torch has read
    assert of_training.resumed_threads(as_before, (), 8) == 2
    assert of_training.resumed_threads(given, (), 8) == 1
