"""How many threads prediction and training use: by the times of pieces, by what other work leaves, by the user."""

import json

import pytest
import torch
from torch import nn

from heed import threads
from heed import threads as cores
from heed.config import TrainingConfig
from heed.threads import Company, Pace, Times, choices, fixed, sparing, threads_for
from heed.training import cost as of_training


@pytest.fixture(autouse=True)
def two_quiet_cores(monkeypatch, tmp_path):
    """A machine of two cores that nobody else uses, with an empty cache."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEED_CACHE", str(tmp_path))
    monkeypatch.setattr(threads, "_of_shapes", {})
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
    assert used == [1, 1, 1, 1, 2, 2, 2] + [1] * 33
    assert torch.get_num_threads() == 2


def test_a_second_thread_that_helps_is_kept(clock):
    used = work_through(clock, nn.Linear(3, 3), 40, {1: 0.003, 2: 0.002})
    assert used == [1, 1, 1, 1] + [2] * 36


def test_trials_take_a_fiftieth_of_the_time(clock):
    used = work_through(clock, nn.Linear(3, 3), 10_000, {1: 0.01, 2: 0.3})
    assert 2 < used.count(2) <= 10_000 * 0.01 / (50 * 0.29) + 1


def test_the_first_piece_with_a_second_thread_may_be_slow(clock):
    model = nn.Linear(3, 3)
    assert work_through(clock, model, 5, {1: 0.003, 2: 0.02})[-1] == 2
    assert work_through(clock, model, 20, {1: 0.003, 2: 0.002}) == [2] * 20


@pytest.mark.parametrize(
    ("begin", "takes", "kept"), [(1, {1: 0.100, 2: 0.093}, 1), (1, {1: 0.100, 2: 0.085}, 2), (2, {1: 0.098, 2: 0.1}, 1)]
)
def test_more_threads_must_save_a_tenth_and_fewer_only_some_time(begin, takes, kept):
    pace = Pace(begin, 2)
    for _ in range(20):
        pace.done(1, takes[pace.next])
    assert pace.count == kept


def test_a_trial_without_a_core_ends_after_one_piece(clock):
    assert work_through(clock, nn.Linear(3, 3), 10, {1: 0.01, 2: 0.3}) == [1, 1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_a_model_that_is_not_on_the_cpu_is_left_alone(clock):
    assert work_through(clock, nn.Linear(3, 3, device="meta"), 10, {1: 0.001, 2: 0.003}) == [2] * 10


def test_large_passes_begin_on_all_threads_and_leave_them_if_one_is_faster(clock):
    used = work_through(clock, nn.Linear(1000, 1000), 60, {1: 0.05, 2: 0.1}, size=1000, kind="pass")
    assert used[:6] == [2, 2, 2, 2, 1, 1]
    assert used[6:].count(2) == 3  # a trial


def test_what_was_learned_is_kept_for_models_of_the_same_shape(clock, monkeypatch, tmp_path):
    work_through(clock, nn.Linear(3, 3), 7, {1: 0.003, 2: 0.002})
    (kept,) = (tmp_path / "threads").iterdir()
    assert json.loads(kept.read_text()) == {"step 1": 2}
    monkeypatch.setattr(threads, "_of_shapes", {})  # another process
    assert work_through(clock, nn.Linear(3, 3), 1, {1: 0.003, 2: 0.002}) == [2]
    assert work_through(clock, nn.Linear(3, 4), 1, {1: 0.003, 2: 0.002}) == [1]


def test_what_is_known_is_not_tried_again_at_once(clock, monkeypatch):
    work_through(clock, nn.Linear(3, 3), 7, {1: 0.001, 2: 0.003})
    monkeypatch.setattr(threads, "_of_shapes", {})
    assert work_through(clock, nn.Linear(3, 3), 30, {1: 0.001, 2: 0.003}) == [1] * 30


def test_a_damaged_record_is_as_none(clock, tmp_path, monkeypatch):
    work_through(clock, nn.Linear(3, 3), 7, {1: 0.003, 2: 0.002})
    (kept,) = (tmp_path / "threads").iterdir()
    for text in ("{", "[1]", '{"step 1": "two"}', '{"step 1": -5}'):
        kept.write_text(text)
        monkeypatch.setattr(threads, "_of_shapes", {})
        assert work_through(clock, nn.Linear(3, 3), 1, {1: 0.003, 2: 0.002}) == [1]


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
    assert pace.count == 4
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
    """A training step that takes so many seconds with each number of threads, while `busy` cores are others'."""

    def __init__(self, monkeypatch, free=2, takes=None, busy=0):
        self.tried, self._takes, self._clock = [], takes or {1: 0.3, 2: 0.2}, Clock(monkeypatch)
        monkeypatch.setattr(of_training, "cores", lambda: {0, 1})
        monkeypatch.setattr(of_training._COMPANY, "free_cores", lambda: free)
        monkeypatch.setattr(of_training, "Company", lambda: self)
        self._left = free - busy

    def free_cores(self):
        return self._left

    def __call__(self):
        self.tried.append(torch.get_num_threads())
        self._clock.now += self._takes[self.tried[-1]]

    def chosen(self, model, work=100):
        return of_training.choose_threads(self, threads.learned_of(model), work)


@pytest.mark.parametrize(("takes", "best"), [({1: 0.3, 2: 0.2}, 2), ({1: 0.2, 2: 0.3}, 1), ({1: 0.2, 2: 0.199}, 1)])
def test_training_takes_the_number_that_is_faster_by_more_than_noise(monkeypatch, takes, best):
    assert Step(monkeypatch, takes=takes).chosen(nn.Linear(3, 3)) == best
    assert torch.get_num_threads() == best


def test_training_measures_a_model_of_one_shape_once(monkeypatch):
    Step(monkeypatch).chosen(nn.Linear(3, 3))
    monkeypatch.setattr(threads, "_of_shapes", {})  # another process
    again = Step(monkeypatch)
    assert again.chosen(nn.Linear(3, 3)) == 2
    assert again.tried == [] and torch.get_num_threads() == 2
    again.chosen(nn.Linear(3, 4))
    assert set(again.tried) == {1, 2}
    again.tried.clear()
    again.chosen(nn.Linear(3, 3), work=1000)
    assert set(again.tried) == {1, 2}


def test_training_tries_no_thread_that_has_no_core(monkeypatch):
    step = Step(monkeypatch, free=1)
    assert step.chosen(nn.Linear(3, 3)) == 1
    assert set(step.tried) == {1}


@pytest.mark.parametrize("company", [{"free": 1}, {"busy": 1}])
def test_what_was_measured_beside_other_work_is_not_kept(monkeypatch, company):
    Step(monkeypatch, **company).chosen(nn.Linear(3, 3))
    quiet = Step(monkeypatch)
    quiet.chosen(nn.Linear(3, 3))
    assert set(quiet.tried) == {1, 2}


def test_what_is_known_says_nothing_of_the_cores_that_are_free(monkeypatch):
    Step(monkeypatch).chosen(nn.Linear(3, 3))
    beside_others = Step(monkeypatch, free=1)
    assert beside_others.chosen(nn.Linear(3, 3)) == 2
    assert beside_others.tried == [] and torch.get_num_threads() == 1
    monkeypatch.setattr(of_training._COMPANY, "free_cores", lambda: 2)
    of_training.give_way(2)  # before the next update
    assert torch.get_num_threads() == 2


def test_a_number_that_no_machine_of_so_many_cores_has_is_measured_anew(monkeypatch, tmp_path):
    Step(monkeypatch).chosen(nn.Linear(3, 3))
    (kept,) = (tmp_path / "threads").iterdir()
    for count in (3, 0, -1):
        kept.write_text(json.dumps({"update 7": count}))
        monkeypatch.setattr(threads, "_of_shapes", {})
        step = Step(monkeypatch)
        assert step.chosen(nn.Linear(3, 3)) == 2 and set(step.tried) == {1, 2}


def test_a_resumed_training_keeps_its_threads_unless_others_are_given(monkeypatch):
    as_before, given = TrainingConfig(minutes=1), TrainingConfig(minutes=1, threads=1)
    assert of_training.resumed_threads(as_before, (), 8) == 8
    assert of_training.resumed_threads(given, ("training.threads",), 8) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # which torch has read
    assert of_training.resumed_threads(as_before, (), 8) == 2
    assert of_training.resumed_threads(given, (), 8) == 1
