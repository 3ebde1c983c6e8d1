import numpy as np
import pytest

from skicml.base import SkicmlEstimator, iterate, validated_fit


class Countdown(SkicmlEstimator):
    """Counts down; keeps what callbacks and history need."""

    _parameter_constraints = {"max_iter": [int]}  # noqa: RUF012

    def __init__(self, max_iter=5, stop_at=None, fail_at=None):
        self.max_iter = max_iter
        self.stop_at = stop_at
        self.fail_at = fail_at

    @validated_fit(iterative=True)
    def fit(self, X, y=None):
        """Count."""
        loop = iterate(self, self.max_iter, "count", X=X, y=y)
        try:
            for step in loop:
                if step.number == self.fail_at:
                    raise KeyboardInterrupt
                step.state = lambda left=self.max_iter - step.number: {"left_": left}
                step.log(left=self.max_iter - step.number)
                if step.number == self.stop_at:
                    break
        finally:
            self.history_ = loop.history
            self.n_iter_ = loop.n_iter
        return self


class Recorder:
    """A callback that notes what it hears and may stop the loop."""

    def __init__(self, stop_after=None):
        self.heard = []
        self.left = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        """Note it."""
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        """Note the task."""
        self.heard.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        """Note the task and what was counted."""
        self.heard.append(("end", context.task_name))
        if context.task_name == "count":
            self.left.append(fitted_estimator.left_)
            return len(self.left) == self.stop_after
        return False

    def teardown(self, estimator, context):
        """Note it."""
        self.heard.append("teardown")


X = np.zeros((3, 1))


def test_history_holds_what_was_logged():
    model = Countdown().fit(X)
    np.testing.assert_array_equal(model.history_["left"], [5, 4, 3, 2, 1])
    assert model.n_iter_ == 5


def test_break_keeps_the_iteration_that_logged():
    model = Countdown(stop_at=1).fit(X)
    np.testing.assert_array_equal(model.history_["left"], [5, 4])


def test_interrupt_keeps_the_finished_iterations():
    model = Countdown(fail_at=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.history_["left"], [5, 4])


def test_values_missing_in_an_iteration_are_nan():
    loop = iterate(None, 2)
    for step in loop:
        step.log(**{"ab"[step.number]: 1.0})
    np.testing.assert_array_equal(loop.history["a"], [1, np.nan])
    np.testing.assert_array_equal(loop.history["b"], [np.nan, 1])


def test_callbacks_hear_of_every_iteration():
    recorder = Recorder()
    Countdown(2).set_callbacks(recorder).fit(X)
    assert recorder.heard == [
        "setup",
        ("begin", "fit"),
        ("begin", "count"),
        ("end", "count"),
        ("begin", "count"),
        ("end", "count"),
        ("end", "fit"),
        "teardown",
    ]
    assert recorder.left == [2, 1]


def test_a_callback_ends_the_loop():
    model = Countdown().set_callbacks(Recorder(stop_after=3)).fit(X)
    assert model.n_iter_ == 3


def test_verbose_shows_a_bar(capsys):
    for step in iterate(None, 2, "walking", verbose=1):
        step.log(miles=1.5)
    shown = capsys.readouterr()
    assert "walking" in shown.err
    assert shown.out == ""
