"""Fronts against their definition, candidates against their box."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skicml_accel.optimize import pareto_fronts_2d, raasp

# few levels, so that ties and duplicates abound
levels = st.integers(0, 6).map(float)
scores = st.integers(0, 30).flatmap(
    lambda m: st.tuples(
        hnp.arrays(np.float64, m, elements=levels),
        hnp.arrays(np.float64, m, elements=levels),
    )
)


def fronts_by_definition(mu, sigma):
    """Peel what no other remaining point dominates, comparing all pairs."""
    front = np.full(mu.size, -1)
    number = 0
    while np.any(front < 0):
        left = np.flatnonzero(front < 0)
        m, s = mu[left], sigma[left]
        as_good = (m[None] >= m[:, None]) & (s[None] >= s[:, None])
        better = (m[None] > m[:, None]) | (s[None] > s[:, None])
        front[left[~np.any(as_good & better, axis=1)]] = number
        number += 1
    return front


@given(pair=scores)
def test_fronts_match_their_definition(pair):
    mu, sigma = pair
    front = pareto_fronts_2d(mu, sigma)
    assert front.dtype == np.int64
    np.testing.assert_array_equal(front, fronts_by_definition(mu, sigma))


@given(pair=scores, seed=st.integers(0, 99))
def test_fronts_do_not_depend_on_the_order(pair, seed):
    mu, sigma = pair
    order = np.random.default_rng(seed).permutation(mu.size)
    np.testing.assert_array_equal(
        pareto_fronts_2d(mu[order], sigma[order]), pareto_fronts_2d(mu, sigma)[order]
    )


@given(pair=scores, q=st.integers(0, 40))
def test_fronts_stop_once_q_points_are_placed(pair, q):
    mu, sigma = pair
    full = fronts_by_definition(mu, sigma)
    front = pareto_fronts_2d(mu, sigma, q=q)
    count = np.bincount(full, minlength=1)
    placed = np.concatenate(([0], np.cumsum(count)))
    last = np.flatnonzero(placed >= min(q, mu.size))[0]
    np.testing.assert_array_equal(front, np.minimum(full, last))


def test_fronts_of_continuous_scores():
    rng = np.random.default_rng(0)
    mu, sigma = rng.normal(size=(2, 400))
    np.testing.assert_array_equal(
        pareto_fronts_2d(mu, sigma), fronts_by_definition(mu, sigma)
    )


def box(rng, d):
    lower = rng.normal(size=d)
    upper = lower + rng.random(d)
    return lower + rng.random(d) * (upper - lower), lower, upper


@given(
    d=st.integers(1, 60),
    m=st.integers(1, 40),
    n_perturb=st.integers(1, 70),
    seed=st.integers(0, 999),
)
def test_candidates_stay_in_the_box_and_leave_the_center(d, m, n_perturb, seed):
    rng = np.random.default_rng(seed)
    center, lower, upper = box(rng, d)
    candidates = raasp(
        center, lower, upper, n_candidates=m, n_perturb=n_perturb, rng=rng
    )
    assert candidates.shape == (m, d)
    assert candidates.dtype == np.float64
    assert np.all((candidates >= lower) & (candidates <= upper))
    assert np.all(np.any(candidates != center, axis=1))


@pytest.mark.parametrize("d", [50, 200])
def test_candidates_redraw_the_expected_number_of_coordinates(d):
    rng = np.random.default_rng(0)
    center, lower, upper = box(rng, d)
    candidates = raasp(center, lower, upper, n_candidates=2000, n_perturb=20, rng=rng)
    redrawn = np.sum(candidates != center, axis=1)
    # binomial; six standard errors of the mean, false alarm below 1e-8
    error = 6 * np.sqrt(20 * (1 - 20 / d) / 2000)
    assert abs(redrawn.mean() - 20) < error
    assert np.std(redrawn) > 1


def test_candidates_redraw_all_coordinates_of_a_small_problem():
    rng = np.random.default_rng(0)
    center, lower, upper = box(rng, 20)
    candidates = raasp(center, lower, upper, n_candidates=64, n_perturb=20, rng=rng)
    assert np.all(candidates != center)


def test_candidates_of_few_coordinates_always_differ():
    rng = np.random.default_rng(0)
    center, lower, upper = box(rng, 100)
    candidates = raasp(center, lower, upper, n_candidates=500, n_perturb=1, rng=rng)
    # without the rule of at least one, a third would equal the center
    assert np.all(np.any(candidates != center, axis=1))


def test_candidates_cover_each_coordinate_evenly():
    rng = np.random.default_rng(0)
    center = np.full(3, 0.5)
    candidates = raasp(center, np.zeros(3), np.ones(3), n_candidates=256, rng=rng)
    # each of 16 strata of a Sobol sequence of 256 points holds 16 of them
    for column in candidates.T:
        counts = np.histogram(column, bins=16, range=(0, 1))[0]
        np.testing.assert_array_equal(counts, 16)


@pytest.mark.parametrize("d", [1, 30])
def test_candidates_are_reproducible(d):
    center, lower, upper = box(np.random.default_rng(1), d)

    def draw(seed):
        rng = np.random.default_rng(seed)
        return raasp(center, lower, upper, n_candidates=10, rng=rng)

    np.testing.assert_array_equal(draw(5), draw(5))
    assert np.any(draw(5) != draw(6))


def test_candidates_do_not_move_a_fixed_coordinate():
    center, lower, upper = box(np.random.default_rng(0), 5)
    center[2] = lower[2] = upper[2] = 0.1
    rng = np.random.default_rng(0)
    candidates = raasp(center, lower, upper, n_candidates=100, rng=rng)
    assert np.all(candidates[:, 2] == 0.1)


def test_candidates_of_a_point_box_are_the_center():
    center = np.full(4, 0.3)
    rng = np.random.default_rng(0)
    candidates = raasp(center, center, center, n_candidates=7, rng=rng)
    np.testing.assert_array_equal(candidates, np.tile(center, (7, 1)))


def test_candidates_beyond_the_dimensions_of_sobol():
    d = 22_000
    rng = np.random.default_rng(0)
    candidates = raasp(np.zeros(d), -np.ones(d), np.ones(d), n_candidates=2, rng=rng)
    redrawn = np.sum(candidates != 0, axis=1)
    assert np.all((redrawn >= 1) & (redrawn <= 60))
