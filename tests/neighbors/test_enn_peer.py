"""ENNRegressor against ennbo, the package of the paper's authors.

ennbo expands squared distances in single precision, which leaves an error of about
1e-7 * (|x|^2 + |q|^2) in the unit cube, whatever the distance. At a training point, where
the squared distance is zero and the noise may be too, that error decides the answer: the
standard deviation is off by up to sqrt(a) * 1e-3. Near one it is still large beside the
distance. So queries stay 0.3 away from all rows, where the error is some 1e-6 of the
squared distance and moves the mean by less than 1e-6 of the spread of y. Ours are summed
in double precision.
"""

from importlib import metadata

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skicml import ENNRegressor

enn = pytest.importorskip("enn")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        not metadata.version("ennbo").startswith("0.3."), reason="needs ennbo 0.3"
    ),
]

TOLERANCE = 1e-6
SCALES = [(1.0, 0.0), (1.0, 0.1), (0.03, 0.5), (20.0, 0.01), (0.0, 0.3)]


def _rows(n, n_columns, *, seed=0, scale=1.0, n_outputs=None):
    """Rows of the unit cube with a smooth noisy response."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_columns))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, -1] + 0.2 * rng.standard_normal(n)
    if n_outputs is not None:
        y = np.stack([y * (t + 1) + X[:, t] for t in range(n_outputs)], axis=1)
    return X, scale * y


def _queries(X, n, *, least=0.3, seed=1):
    """Points of the unit cube that keep a distance from all rows."""
    rng = np.random.default_rng(seed)
    points = rng.random((20 * n, X.shape[1]))
    gap = np.sqrt(((points[:, None] - X[None]) ** 2).sum(axis=2)).min(axis=1)
    points = points[gap >= least][:n]
    assert len(points) == n
    return points


def _theirs(X, y, query, *, k, a, b, y_var=None):
    """Mean, epistemic and predictive standard deviation by the package."""
    from enn.enn.enn_params import ENNParams, PosteriorFlags

    as_table = {True: lambda v: v[:, None], False: lambda v: v}[y.ndim == 1]
    variance = None if y_var is None else as_table(y_var)
    model = enn.EpistemicNearestNeighbors(X, as_table(y), variance)
    params = ENNParams(k, a, b)
    clean = model.posterior(query, params=params)
    noisy = model.posterior(
        query, params=params, flags=PosteriorFlags(observation_noise=True)
    )
    shape = (len(query), *y.shape[1:])
    return [np.reshape(np.asarray(v), shape) for v in (clean.mu, clean.se, noisy.se)]


def _ours(X, y, query, *, k, a, b, y_var=None):
    model = ENNRegressor(k, epistemic_scale=a, aleatoric_variance=b)
    model.fit(X, y, y_var=y_var)
    mean, clean = model.predict(query, return_std=True, include_noise=False)
    return [mean, clean, model.predict(query, return_std=True)[1]]


@pytest.mark.parametrize(("a", "b"), SCALES)
@pytest.mark.parametrize(("n", "n_columns", "k"), [(200, 6, 5), (2_000, 20, 10)])
def test_posterior_equals_peer(n, n_columns, k, a, b):
    X, y = _rows(n, n_columns)
    query = _queries(X, 50)
    for ours, theirs in zip(
        _ours(X, y, query, k=k, a=a, b=b),
        _theirs(X, y, query, k=k, a=a, b=b),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_posterior_equals_peer_in_units_of_y(scale):
    X, y = _rows(500, 8, scale=scale)
    query = _queries(X, 50)
    for ours, theirs in zip(
        _ours(X, y, query, k=10, a=1.0, b=0.05),
        _theirs(X, y, query, k=10, a=1.0, b=0.05),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("b", [0.0, 0.2])
def test_posterior_equals_peer_with_known_variances(b):
    X, y = _rows(500, 8)
    y_var = np.random.default_rng(2).random(500)
    query = _queries(X, 50)
    for ours, theirs in zip(
        _ours(X, y, query, k=10, a=1.0, b=b, y_var=y_var),
        _theirs(X, y, query, k=10, a=1.0, b=b, y_var=y_var),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


def test_posterior_equals_peer_with_several_outputs():
    X, y = _rows(500, 8, n_outputs=3)
    query = _queries(X, 50)
    for ours, theirs in zip(
        _ours(X, y, query, k=10, a=1.0, b=0.1),
        _theirs(X, y, query, k=10, a=1.0, b=0.1),
        strict=True,
    ):
        spread = y.std(axis=0)
        assert_allclose(ours / spread, theirs / spread, rtol=0, atol=TOLERANCE)


def test_neighbors_equal_peer():
    X, y = _rows(2_000, 20)
    query = _queries(X, 100)
    model = ENNRegressor(10).fit(X, y)
    peer = enn.EpistemicNearestNeighbors(X, y[:, None])
    theirs = np.array([peer.neighbors(point, 10) for point in query])
    assert_array_equal(model.kneighbors(query, return_distance=False), theirs)


def _likelihoods(X, y, pairs, *, k):
    """Likelihood of pairs of scales by the package, with every row held out once."""
    from enn.enn.enn_fit import subsample_loglik
    from enn.enn.enn_params import ENNParams

    model = enn.EpistemicNearestNeighbors(X, y[:, None])
    return subsample_loglik(
        model,
        X,
        y[:, None],
        paramss=[ENNParams(k, float(a), float(b)) for a, b in pairs],
        P=len(y),
        rng=np.random.default_rng(0),
    )


def test_leave_one_out_likelihood_equals_peer():
    X, y = _rows(300, 6)
    model = ENNRegressor(10, n_fit_samples=300).fit(X, y)
    pairs = [(1.0, 0.1), (0.1, 1.0), (10.0, 0.01)]
    ours = [model.log_marginal_likelihood_loo(*pair) for pair in pairs]
    # a sum over 300 rows of terms of order one
    assert_allclose(ours, _likelihoods(X, y, pairs, k=10), rtol=0, atol=300 * TOLERANCE)


def test_profile_fit_is_at_least_as_likely_as_the_fit_of_peer():
    for seed in range(5):
        X, y = _rows(300, 6, seed=seed)
        model = ENNRegressor(10, n_fit_samples=300).fit(X, y)
        found = enn.enn_fit(
            enn.EpistemicNearestNeighbors(X, y[:, None]),
            k=10,
            num_fit_candidates=100,
            num_fit_samples=300,
            rng=np.random.default_rng(seed),
        )
        ours, theirs = _likelihoods(
            X,
            y,
            [
                (model.epistemic_scale_, model.aleatoric_variance_),
                (found.epistemic_variance_scale, found.aleatoric_variance_scale),
            ],
            k=10,
        )
        # both judged by the package's own likelihood
        assert ours >= theirs - 300 * TOLERANCE
