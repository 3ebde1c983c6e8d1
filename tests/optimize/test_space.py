"""Search spaces: round trips, cells, errors."""

import pickle
import time
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

from skicml.optimize._space import Space

MIXED = {
    "count": (3, 9),
    "width": (1, 1024, "log-uniform"),
    "share": (0.0, 0.5),
    "C": (1e-3, 1e3, "log-uniform"),
    "shrink": [True, False],
    "kernel": ["linear", "rbf", None, (3, 4)],
    "alpha": scipy.stats.loguniform(1e-5, 1.0),
    "depth": scipy.stats.randint(2, 30),
    "lag": scipy.stats.poisson(4),
}


def unit_points(n, space, seed=0):
    return np.random.default_rng(seed).random((n, space.n_dims))


def test_counts_and_names():
    space = Space(MIXED)
    assert space.n_params == 9
    assert space.n_dims == 8 + 4
    assert space.names == tuple(MIXED)
    assert not space.fixed.any()
    assert space.fixed.shape == (12,)
    assert Space([(0, 1)]).names is None
    assert repr(space) == "Space(n_params=9, n_dims=12)"


def test_mapping_gives_python_values_inside_the_bounds():
    space = Space(MIXED)
    types = {"count": int, "width": int, "share": float, "C": float, "shrink": bool}
    types |= {"alpha": float, "depth": int, "lag": int}
    for point in space.from_unit(unit_points(200, space)):
        assert list(point) == list(MIXED)
        for name, kind in types.items():
            assert type(point[name]) is kind
        assert 3 <= point["count"] <= 9
        assert 1 <= point["width"] <= 1024
        assert 2 <= point["depth"] < 30
        assert any(point["kernel"] is level for level in MIXED["kernel"])


def test_user_points_survive_the_round_trip():
    space = Space(MIXED)
    points = space.from_unit(unit_points(500, space))
    again = space.from_unit(space.to_unit(points))
    for point, twin in zip(points, again, strict=True):
        for name in MIXED:
            if isinstance(point[name], float):
                assert twin[name] == pytest.approx(point[name], rel=1e-12, abs=1e-15)
            else:
                assert twin[name] == point[name]


def test_snap_is_the_round_trip_and_idempotent():
    space = Space(MIXED)
    U = unit_points(500, space)
    snapped = space.snap(U)
    np.testing.assert_allclose(
        snapped, space.to_unit(space.from_unit(U)), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_array_equal(space.snap(snapped), snapped)
    # coordinates of real ranges stay as they are
    np.testing.assert_array_equal(snapped[:, 2:4], U[:, 2:4])


@given(
    low=st.integers(-(10**6), 10**6),
    n=st.integers(2, 1000),
    u=st.floats(0, 1, exclude_max=True),
)
def test_integers_own_equal_cells(low, n, u):
    space = Space([(low, low + n - 1)])
    every = np.arange(low, low + n)[:, None]
    U = space.to_unit(every)
    np.testing.assert_allclose(U[:, 0], (np.arange(n) + 0.5) / n, rtol=0, atol=1e-9)
    assert space.from_unit(U).dtype == np.int64
    np.testing.assert_array_equal(space.from_unit(U), every)
    assert abs(space.from_unit([[u]])[0, 0] - (low + np.floor(u * n))) <= (
        0 if abs(u * n - np.rint(u * n)) > 1e-9 else 1
    )


@given(low=st.integers(1, 10**6), n=st.integers(2, 300))
def test_log_integers_round_trip(low, n):
    space = Space([(low, low + n - 1, "log-uniform")])
    every = np.arange(low, low + n)[:, None]
    U = space.to_unit(every)
    assert (np.diff(U[:, 0]) > 0).all()
    np.testing.assert_array_equal(space.from_unit(U), every)


def test_log_scale_halves_at_the_geometric_mean():
    space = Space([(1e-4, 1e2, "log-uniform")])
    np.testing.assert_allclose(space.from_unit([[0.5]]), 0.1)
    np.testing.assert_array_equal(space.from_unit([[0.0], [1.0]]), [[1e-4], [1e2]])


def test_sequences_give_arrays():
    assert Space([(0, 3), (1, 2)]).from_unit(np.zeros((2, 2))).dtype == np.int64
    mixed = Space([(0, 3), (1, 2.5)]).from_unit(np.ones((2, 2)))
    assert mixed.dtype == np.float64
    np.testing.assert_array_equal(mixed, [[3.0, 2.5]] * 2)
    space = Space([(0.0, 1.0), ["a", (1, 2), "c"]])
    rows = space.from_unit([[0.25, 0.0, 0.9, 0.1]])
    assert rows.dtype == object
    assert rows.tolist() == [[0.25, (1, 2)]]
    unit = [[0.25, 0.375, 0.75, 0.375]]
    np.testing.assert_array_equal(space.to_unit(rows), unit)
    np.testing.assert_array_equal(space.to_unit(rows.tolist()), unit)


@pytest.mark.parametrize("n_levels", [3, 5])
def test_levels_sit_at_the_centroids_of_their_cells(n_levels):
    space = Space({"level": list(range(n_levels))})
    U = unit_points(200_000, space)
    level = np.array([point["level"] for point in space.from_unit(U)])
    # standard error of the means: below 0.3 / sqrt(40,000) = 0.0015
    np.testing.assert_allclose(
        U[level == 1].mean(axis=0), space.to_unit([{"level": 1}])[0], atol=0.01
    )


def test_no_points_are_fine():
    for bounds in ([(0.0, 1.0), ["a", "b"]], {"a": (0, 1)}):
        space = Space(bounds)
        empty = space.to_unit([])
        assert empty.shape == (0, space.n_dims)
        assert len(space.from_unit(empty)) == 0
        assert space.snap(empty).shape == (0, space.n_dims)


def test_scipy_bounds_and_arrays():
    space = Space(Bounds([0, -1], [1, 5]))
    np.testing.assert_array_equal(space.from_unit([[0.5, 0.5]]), [[0.5, 2.0]])
    space = Space(np.array([[0.0, 1.0], [-1.0, 5.0]]))
    np.testing.assert_array_equal(space.from_unit([[0.5, 0.5]]), [[0.5, 2.0]])
    space = Space(np.array([[250, 255]], dtype=np.uint8))
    np.testing.assert_array_equal(space.from_unit([[0.0], [1.0]]), [[250], [255]])


def test_equal_levels_of_different_type_are_told_apart():
    levels = [1, True, 1.0, "1", None]
    space = Space({"level": levels})
    U = space.to_unit([{"level": level} for level in levels])
    np.testing.assert_array_equal(U.argmax(axis=1), np.arange(5))
    # NumPy's own scalars find the level they are equal to
    assert Space({"level": [0.5, 2.5]}).to_unit([{"level": np.float64(2.5)}]) == 0.75


def test_levels_may_be_unhashable():
    levels = [[1, 2], [1, 2, 3], np.arange(3)]
    space = Space({"layers": levels})
    assert space.to_unit([{"layers": [1, 2, 3]}]).argmax() == 1
    assert space.to_unit([{"layers": np.arange(3)}]).argmax() == 2


def test_distribution_quantiles():
    normal = scipy.stats.norm(3.0, 2.0)
    space = Space([normal])
    u = np.linspace(0.001, 0.999, 7)[:, None]
    np.testing.assert_allclose(space.from_unit(u)[:, 0], normal.ppf(u[:, 0]))
    np.testing.assert_allclose(space.to_unit(normal.ppf(u)), u)
    assert np.isfinite(space.from_unit([[0.0], [1.0]])).all()
    # beyond the cut tail: legal, moved to the cut
    assert 0 < space.to_unit([[-1e3]])[0, 0] < 1e-8


def test_discrete_distributions_with_any_support():
    space = Space([scipy.stats.rv_discrete(values=([0.5, 2, 3.25], [0.2, 0.3, 0.5]))])
    np.testing.assert_allclose(
        space.to_unit([[0.5], [2], [3.25]])[:, 0], [0.1, 0.35, 0.75]
    )
    np.testing.assert_array_equal(
        space.from_unit([[0.0], [0.35], [1.0]]), [[0.5], [2], [3.25]]
    )
    die = Space([scipy.stats.randint(1, 7)])
    np.testing.assert_array_equal(die.from_unit([[0.0], [1.0]]), [[1], [6]])
    assert die.from_unit([[0.5]]).dtype == np.int64


def test_zero_width_warns_once_and_is_fixed():
    with pytest.warns(UserWarning, match=r"width zero never change: 'a', 'd'\.") as log:
        space = Space(
            {"a": (2.0, 2.0), "b": (0, 1), "c": ["x"], "d": scipy.stats.randint(4, 5)}
        )
    assert len(log) == 1
    np.testing.assert_array_equal(space.fixed, [True, False, True, True])
    assert space.from_unit([[0.9, 0.9, 0.9, 0.9]]) == [
        {"a": 2.0, "b": 1, "c": "x", "d": 4}
    ]
    np.testing.assert_array_equal(space.snap([[0.9] * 4]), [[0.5, 0.75, 0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Space({"only": ["x"]})


def test_pickle_round_trip():
    space = Space(MIXED)
    twin = pickle.loads(pickle.dumps(space))
    U = unit_points(20, space)
    np.testing.assert_array_equal(twin.snap(U), space.snap(U))


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ([], ValueError, "Bounds are empty"),
        ({}, ValueError, "Bounds are empty"),
        (3, TypeError, "of type int"),
        ("ab", TypeError, "of type str"),
        (np.zeros((2, 3)), ValueError, r"shape \(2, 3\)"),
        ([(0, 1), (5, 2)], ValueError, "coordinate 1 are reversed: 5 is above 2"),
        ({"C": (2.5, 1.0)}, ValueError, "'C' are reversed: 2.5 is above 1.0"),
        ([(0.0, np.inf)], ValueError, "coordinate 0 are .* not finite"),
        ([(np.nan, 1.0)], ValueError, "coordinate 0 are .* not finite"),
        ([(-1e308, 1e308)], ValueError, "width is not finite"),
        ({"n": (0, 2**60)}, ValueError, "'n' are .* beyond 2\\^53"),
        ({"C": (0.0, 1.0, "log-uniform")}, ValueError, "'C' are log-uniform but start"),
        ({"C": (1.0, 2.0, "log")}, ValueError, "scale of 'C' is 'log'"),
        ({"k": []}, ValueError, "list of 'k' is empty"),
        ({"k": ("a", "b")}, TypeError, "no dimension for 'k'"),
        ({"k": (True, False)}, TypeError, "no dimension for 'k'"),
        ({"k": np.arange(3)}, TypeError, "no dimension for 'k'"),
        ({"k": (1,)}, TypeError, "no dimension for 'k'"),
        ({"k": scipy.stats.uniform(0, np.nan)}, ValueError, "quantiles"),
    ],
)
def test_bad_bounds(bounds, error, message):
    with pytest.raises(error, match=message):
        Space(bounds)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"n": 11, "C": 1.0, "k": "a"}, r"11 is outside the bounds \(0, 10\) of 'n'"),
        ({"n": 2.5, "C": 1.0, "k": "a"}, "2.5 is not a whole number, but 'n'"),
        ({"n": 2, "C": -1.0, "k": "a"}, r"-1.0 is outside the bounds .* of 'C'"),
        ({"n": 2, "C": np.nan, "k": "a"}, "nan is outside the bounds .* of 'C'"),
        ({"n": True, "C": 1.0, "k": "a"}, "'n' are not numbers"),
        ({"n": "2", "C": 1.0, "k": "a"}, "'n' are not numbers"),
        ({"n": 2, "C": 1.0, "k": "z"}, "'z' is not a level of 'k'"),
        ({"n": 2, "C": 1.0}, r"parameters \['n', 'C'\]"),
        ({"n": 2, "C": 1.0, "k": "a", "q": 1}, "A point has the parameters"),
        ([2, 1.0, "a"], "not a list of dicts"),
    ],
)
def test_bad_named_points(point, message):
    space = Space({"n": (0, 10), "C": (0.0, 2.0), "k": ["a", "b"]})
    with pytest.raises(ValueError, match=message):
        space.to_unit([point])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.5, 0.5, 0.5]], r"shape \(1, 3\)"),
        ([0.5, 0.5], r"shape \(2, 1\)"),
        (np.zeros(2), r"shape \(2,\)"),
        ([[0.5, 0.5], [0.5]], "shape"),
        ([[0.5, 1.5]], "1.5 is outside the bounds .* of coordinate 1"),
    ],
)
def test_bad_rows(points, message):
    with pytest.raises(ValueError, match=message):
        Space([(0.0, 1.0), (0.0, 1.0)]).to_unit(points)


def test_bad_distribution_points():
    space = Space({"n": scipy.stats.randint(0, 5), "x": scipy.stats.uniform(0, 1)})
    with pytest.raises(ValueError, match="7 is outside the support of 'n'"):
        space.to_unit([{"n": 7, "x": 0.5}])
    with pytest.raises(ValueError, match=r"2\.0 is outside the support of 'x'"):
        space.to_unit([{"n": 1, "x": 2.0}])


def test_bad_unit_points():
    with pytest.raises(ValueError, match=r"shape \(2,\).*\(n_points, 2\)"):
        Space([(0.0, 1.0), (0.0, 1.0)]).from_unit([0.5, 0.5])


def test_rounding_beyond_the_bounds_is_forgiven():
    space = Space([(0.1, 0.3)])
    np.testing.assert_array_equal(space.to_unit([[np.nextafter(0.3, 1)]]), [[1.0]])
    np.testing.assert_array_equal(space.from_unit([[1.0 + 1e-16], [2.0]]), [[0.3]] * 2)


def test_a_hundred_thousand_points_are_quick():
    space = Space(MIXED)
    U = unit_points(100_000, space)
    start = time.process_time()
    space.to_unit(space.from_unit(U))
    # measured 0.9 s, most of it the Poisson quantiles; a Python loop takes over 10 s
    assert time.process_time() - start < 5.0
