"""The base class and the decorator of fit methods."""

import inspect
import pickle
from numbers import Integral
from typing import ClassVar

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.base import RegressorMixin, clone
from sklearn.callback import ProgressBar, ScoringMonitor  # noqa: TID251
from sklearn.model_selection import GridSearchCV

import skicml
from skicml.base import SkicmlEstimator, validated_fit
from skicml.base._sklearn_compat import Interval, InvalidParameterError


class Mean(RegressorMixin, SkicmlEstimator):
    """Predict the mean of the targets, plus a shift."""

    _parameter_constraints: ClassVar = {
        "shift": [Interval(Integral, 0, None, closed="left")]
    }

    def __init__(self, shift=0, fail=False):
        self.shift = shift
        self.fail = fail

    @validated_fit
    def fit(self, X, y):
        """Learn the mean."""
        if self.fail:
            raise RuntimeError("as asked")
        self.skip_nested_ = get_config()["skip_parameter_validation"]
        self.mean_ = np.mean(y) + self.shift
        return self

    @validated_fit
    def partial_fit(self, X, y):  # noqa: D102
        return self.fit(X, y)

    def predict(self, X):  # noqa: D102
        return np.full(len(X), self.mean_)


class Watch:
    """Callback that writes down what it is told."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):  # noqa: D102
        self.seen.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X, y):  # noqa: D102
        self.seen.append(f"begin {context.task_name} with {len(X)} rows")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):  # noqa: D102
        self.seen.append(f"end at {fitted_estimator.mean_}")

    def teardown(self, estimator, context):  # noqa: D102
        self.seen.append("teardown")


X, Y = np.zeros((4, 1)), np.arange(4.0)


def test_validated_fit_keeps_name_signature_and_docstring():
    assert Mean.fit.__name__ == "fit"
    assert list(inspect.signature(Mean.fit).parameters) == ["self", "X", "y"]
    assert Mean.fit.__doc__ == "Learn the mean."


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_validated_fit_checks_parameters(method):
    with pytest.raises(InvalidParameterError, match="'shift' parameter of Mean must"):
        getattr(Mean(shift=-1), method)(X, Y)


def test_validated_fit_does_not_check_when_fitting_on():
    mean = Mean().fit(X, Y)
    mean.shift = -1
    assert mean.partial_fit(X, Y).mean_ == 0.5


def test_validated_fit_honors_the_global_switch():
    with config_context(skip_parameter_validation=True):
        assert Mean(shift=-1).fit(X, Y).mean_ == 0.5


def test_validated_fit_skips_validation_inside_by_default():
    class Careful(Mean):
        @validated_fit(prefer_skip_nested_validation=False)
        def fit(self, X, y):
            self.skip_nested_ = get_config()["skip_parameter_validation"]
            return self

    assert Mean().fit(X, Y).skip_nested_
    assert not Careful().fit(X, Y).skip_nested_


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_callbacks_hear_of_a_fit_once(method):
    watch = Watch()
    getattr(Mean().set_callbacks(watch), method)(X, Y)
    assert watch.seen == [
        "setup",
        f"begin {method} with 4 rows",
        "end at 1.5",
        "teardown",
    ]


def test_callbacks_are_torn_down_when_fit_fails():
    watch = Watch()
    mean = Mean(fail=True).set_callbacks(watch)
    with pytest.raises(RuntimeError, match="as asked"):
        mean.fit(X, Y)
    assert watch.seen == ["setup", "begin fit with 4 rows", "teardown"]
    assert set(vars(mean)) == {"shift", "fail", "_skl_callbacks"}


def test_callbacks_take_keywords():
    watch = Watch()
    Mean().set_callbacks(watch).fit(y=Y, X=X)
    assert watch.seen[1] == "begin fit with 4 rows"


def test_callbacks_of_scikit_learn_run():
    Mean().set_callbacks(ScoringMonitor(scoring="r2"), ProgressBar()).fit(X, Y)


def test_a_search_with_a_progress_bar_counts_our_fits(capfd):
    search = GridSearchCV(Mean(), {"shift": [0, 1]}, cv=2)
    search.set_callbacks(ProgressBar()).fit(X, Y)
    shown = capfd.readouterr().out
    assert "Mean - fit" in shown
    assert "0%" not in shown.replace("100%", "")


def test_pickle_carries_the_version_and_stays_silent(recwarn):
    mean = Mean().fit(X, Y)
    state = mean.__getstate__()
    assert state["_skicml_version"] == skicml.__version__
    restored = pickle.loads(pickle.dumps(mean))
    assert vars(restored) == vars(mean)
    assert not recwarn.list


@pytest.mark.parametrize("written", ["99.1.0", None])
def test_pickle_of_another_version_warns(written):
    state = {**Mean().fit(X, Y).__getstate__(), "_skicml_version": written}
    if written is None:
        del state["_skicml_version"]
    restored = Mean.__new__(Mean)
    with pytest.warns(UserWarning, match="Mean was pickled by skicml") as caught:
        restored.__setstate__(state)
    text = str(caught[0].message)
    assert (written or "unknown") in text
    assert skicml.__version__ in text
    assert restored.mean_ == 1.5
    assert "_skicml_version" not in vars(restored)


def test_pickle_of_another_patch_version_is_silent(recwarn):
    major_minor = ".".join(skicml.__version__.split(".")[:2])
    state = {**Mean().__getstate__(), "_skicml_version": f"{major_minor}.77"}
    Mean.__new__(Mean).__setstate__(state)
    assert not recwarn.list


def test_clone_keeps_callbacks_and_forgets_the_fit():
    watch = Watch()
    copied = clone(Mean(shift=2).fit(X, Y).set_callbacks(watch))
    assert copied.shift == 2
    assert not hasattr(copied, "mean_")
    assert [type(callback) for callback in copied._skl_callbacks] == [Watch]
