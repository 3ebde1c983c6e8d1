"""Warnings point at the line outside of the package."""

import pytest
from sklearn.pipeline import make_pipeline

from skicml import ENNRegressor
from skicml.base import warn_user


def test_warning_points_here():
    with pytest.warns(RuntimeWarning, match="rows are constant") as caught:
        warn_user("rows are constant", RuntimeWarning)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("wrap", [lambda x: x, make_pipeline], ids=["bare", "pipeline"])
def test_warning_of_a_fit_points_at_the_call(wrap):
    X = [[0.0], [1.0], [2.0]]
    with pytest.warns(UserWarning, match="more than the 3 training rows") as caught:
        wrap(ENNRegressor(n_neighbors=9)).fit(X, [0.0, 1.0, 2.0])
    assert caught[0].filename == __file__
