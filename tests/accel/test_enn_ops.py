"""Moments and likelihoods of epistemic nearest neighbors against their formulas."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skicml_accel import use_implementation
from skicml_accel.neighbors import (
    enn_loo_log_likelihood,
    enn_loo_profile,
    enn_posterior,
)
from skicml_accel.neighbors._enn import EPS

OPTIONS = [(), ("y_var",), ("mass",), ("y_var", "mass")]


def posterior_input(seed=0, m=6, k=4, n=15, t=2, options=()):
    rng = np.random.default_rng(seed)
    keywords = {
        "epistemic_scale": 10.0 ** rng.uniform(-2, 2, t),
        "aleatoric_variance": 10.0 ** rng.uniform(-3, 1, t),
        "y_scale": 10.0 ** rng.uniform(-2, 2, t),
    }
    if "y_var" in options:
        keywords["y_var"] = rng.exponential(size=(n, t))
    if "mass" in options:
        keywords["mass"] = rng.integers(1, 4, size=(m, k)).astype(float)
    arrays = (
        np.sort(rng.exponential(size=(m, k)), axis=1),
        np.stack([rng.choice(n, k, replace=False) for _ in range(m)]),
        10 * rng.normal(size=(n, t)),
    )
    return arrays, keywords


def posterior_of_one(squared, neighbors, a, b, s, v, c):
    """Evaluate the formula of one query and one output in Python floats."""
    extra = [b + vi / s**2 for vi in v]
    w = [ci / (EPS + a * d + e) for ci, d, e in zip(c, squared, extra, strict=True)]
    total = math.fsum(w)
    mean = math.fsum(wi * yi for wi, yi in zip(w, neighbors, strict=True)) / total
    noise = s**2 * math.fsum(wi * e for wi, e in zip(w, extra, strict=True)) / total
    return mean, s**2 * max(1 / total, EPS), noise


@pytest.mark.parametrize("options", OPTIONS)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 6))
def test_posterior_matches_its_formula(options, seed, k):
    (squared, index, y), keywords = posterior_input(seed, k=k, options=options)
    actual = enn_posterior(squared, index, y, **keywords)
    v = keywords.get("y_var", np.zeros_like(y))
    c = keywords.get("mass", np.ones_like(squared))
    for row in range(squared.shape[0]):
        for output in range(y.shape[1]):
            expected = posterior_of_one(
                squared[row].tolist(),
                y[index[row], output].tolist(),
                float(keywords["epistemic_scale"][output]),
                float(keywords["aleatoric_variance"][output]),
                float(keywords["y_scale"][output]),
                v[index[row], output].tolist(),
                c[row].tolist(),
            )
            scale = np.abs(y[index[row], output]).max()
            # the mean may cancel; the variances cannot
            np.testing.assert_allclose(
                actual[0][row, output], expected[0], rtol=0, atol=1e-14 * scale
            )
            for moment, value in zip(actual[1:], expected[1:], strict=True):
                np.testing.assert_allclose(moment[row, output], value, rtol=1e-13)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", ["torch", "array_api_strict"])
def test_posterior_is_the_same_in_other_libraries(options, kind):
    convert = {
        "torch": torch.from_numpy,
        "array_api_strict": array_api_strict.asarray,
    }[kind]
    arrays, keywords = posterior_input(options=options)
    expected = enn_posterior(*arrays, **keywords)
    keywords = {name: convert(value) for name, value in keywords.items()}
    actual = enn_posterior(*map(convert, arrays), **keywords)
    for ours, theirs in zip(actual, expected, strict=True):
        assert type(ours).__module__.startswith(kind)
        assert ours.shape == theirs.shape == (6, 2)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-13)


def test_posterior_keeps_single_precision():
    arrays, keywords = posterior_input(options=("y_var", "mass"))
    single = [a.astype(np.float32) if a.dtype == float else a for a in arrays]
    keywords = {name: value.astype(np.float32) for name, value in keywords.items()}
    expected = enn_posterior(*arrays, **keywords)
    for ours, theirs in zip(enn_posterior(*single, **keywords), expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_posterior_mean_stays_within_the_neighbors():
    (squared, index, y), keywords = posterior_input(m=200, n=50)
    mean, _, _ = enn_posterior(squared, index, y, **keywords)
    near = y[index]
    slack = 1e-14 * np.abs(near).max(axis=1)
    assert np.all(mean >= near.min(axis=1) - slack)
    assert np.all(mean <= near.max(axis=1) + slack)


def test_mass_is_repetition_of_neighbors():
    (squared, index, y), keywords = posterior_input(options=("y_var", "mass"))
    mass = keywords.pop("mass")
    mass[:] = mass[0]  # one count a column, so that rows stay equally long
    count = mass[0].astype(int)
    repeated = np.repeat(squared, count, axis=1), np.repeat(index, count, axis=1)
    expected = enn_posterior(*repeated, y, **keywords)
    actual = enn_posterior(squared, index, y, mass=mass, **keywords)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_neighbor_without_mass_is_ignored():
    (squared, index, y), keywords = posterior_input(options=("y_var",))
    mass = np.ones_like(squared)
    mass[:, -1] = 0
    expected = enn_posterior(squared[:, :-1], index[:, :-1], y, **keywords)
    actual = enn_posterior(squared, index, y, mass=mass, **keywords)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_posterior_without_distance_is_the_plain_mean():
    (squared, index, y), keywords = posterior_input(k=5)
    keywords["epistemic_scale"] = np.zeros(2)
    mean, epistemic, noise = enn_posterior(squared, index, y, **keywords)
    b, variance = keywords["aleatoric_variance"], keywords["y_scale"] ** 2
    np.testing.assert_allclose(mean, y[index].mean(axis=1), rtol=1e-12, atol=1e-13)
    expected = np.broadcast_to(variance * (b + EPS) / 5, mean.shape)
    np.testing.assert_allclose(epistemic, expected, rtol=1e-12)
    np.testing.assert_allclose(noise, np.broadcast_to(b * variance, mean.shape))


def test_posterior_at_many_coinciding_rows_keeps_a_floor():
    (squared, index, y), keywords = posterior_input()
    keywords["aleatoric_variance"] = np.zeros(2)
    _, epistemic, noise = enn_posterior(0 * squared, index, y, **keywords)
    floor = EPS * keywords["y_scale"] ** 2
    np.testing.assert_allclose(epistemic, np.broadcast_to(floor, epistemic.shape))
    np.testing.assert_array_equal(noise, 0)


def test_posterior_carries_gradients():
    arrays, keywords = posterior_input(options=("y_var", "mass"))
    squared, index, y = map(torch.from_numpy, arrays)
    keywords = {name: torch.from_numpy(value) for name, value in keywords.items()}

    def moments(squared, y, scale):
        return enn_posterior(
            squared, index, y, **{**keywords, "epistemic_scale": scale}
        )

    scale = keywords["epistemic_scale"]
    torch.autograd.gradcheck(
        moments, tuple(x.requires_grad_() for x in (squared, y, scale))
    )


def loo_input(seed=0, p=30, k=5, options=()):
    rng = np.random.default_rng(seed)
    keywords = {}
    if "mass" in options:
        keywords["mass"] = rng.integers(1, 4, size=(p, k)).astype(float)
    if "weight" in options:
        keywords["weight"] = rng.integers(1, 4, size=p).astype(float)
    squared = np.sort(rng.exponential(size=(p, k)), axis=1)
    return (squared, rng.normal(size=(p, k)), rng.normal(size=p)), keywords


LOO_OPTIONS = [(), ("mass",), ("weight",), ("mass", "weight")]


@pytest.mark.parametrize("options", LOO_OPTIONS)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 6))
def test_likelihood_matches_its_formula(options, seed, k):
    arrays, keywords = loo_input(seed, p=7, k=k, options=options)
    squared, near, y = arrays
    rng = np.random.default_rng(seed)
    v = rng.exponential(size=squared.shape)
    a, b = 10.0 ** rng.uniform(-2, 2, (2, 3))
    actual = enn_loo_log_likelihood(
        *arrays,
        epistemic_scale=a,
        aleatoric_variance=b,
        y_var_neighbors=v,
        **keywords,
    )
    mass = keywords.get("mass", np.ones_like(squared))
    weight = keywords.get("weight", np.ones_like(y))
    for pair in range(3):
        terms = []
        for row in range(y.size):
            mean, epistemic, noise = posterior_of_one(
                squared[row].tolist(),
                near[row].tolist(),
                float(a[pair]),
                float(b[pair]),
                1.0,
                v[row].tolist(),
                mass[row].tolist(),
            )
            variance = epistemic + noise
            term = math.log(2 * math.pi * variance) + (y[row] - mean) ** 2 / variance
            terms.append(-0.5 * weight[row] * term)
        np.testing.assert_allclose(
            actual[pair], math.fsum(terms), rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("options", LOO_OPTIONS)
@given(seed=st.integers(0, 10_000))
def test_profile_is_the_likelihood_at_its_best_scale(options, seed):
    arrays, keywords = loo_input(seed, options=options)
    ratio = np.geomspace(1e-3, 1e3, 9)
    scale, likelihood = enn_loo_profile(*arrays, ratio=ratio, **keywords)
    expected = enn_loo_log_likelihood(
        *arrays, epistemic_scale=scale, aleatoric_variance=scale * ratio, **keywords
    )
    # the profile does without the EPS in each neighbor's variance
    smallest = scale * (arrays[0].min() + ratio)
    count = np.sum(keywords.get("weight", np.ones(30)))
    slack = 100 * count * EPS / smallest + 1e-11 * count
    assert np.all(np.abs(likelihood - expected) <= slack)


@pytest.mark.parametrize("options", LOO_OPTIONS)
@given(seed=st.integers(0, 10_000))
def test_profile_is_stationary(options, seed):
    arrays, keywords = loo_input(seed, options=options)
    ratio = np.geomspace(1e-1, 1e2, 7)
    scale, _ = enn_loo_profile(*arrays, ratio=ratio, **keywords)
    step = 1e-4

    def likelihood(factor):
        a = scale * factor
        return enn_loo_log_likelihood(
            *arrays, epistemic_scale=a, aleatoric_variance=ratio * a, **keywords
        )

    slope = (likelihood(np.exp(step)) - likelihood(np.exp(-step))) / (2 * step)
    count = np.sum(keywords.get("weight", np.ones(30)))
    # the central difference leaves step**2 / 6, EPS its share of the variance
    error = step**2 + 100 * EPS / (scale * (arrays[0].min() + ratio))
    assert np.all(np.abs(slope) <= count * np.maximum(error, 1e-6))
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert np.all(likelihood(factor) <= likelihood(1.0))


def test_profile_slope_vanishes_in_closed_form():
    (squared, near, y), _ = loo_input()
    ratio = np.array([0.3])
    scale, _ = enn_loo_profile(squared, near, y, ratio=ratio)
    precision = 1 / (squared + 0.3)
    spread = 1 / precision.sum(axis=1) + 0.3
    mean = (precision * near).sum(axis=1) / precision.sum(axis=1)
    # d LL / d log a = 1/2 sum_p ((y_p - mean_p)^2 / (a c_p) - 1)
    slope = 0.5 * np.sum((y - mean) ** 2 / (scale * spread) - 1)
    assert abs(slope) < 1e-12 * y.size


@pytest.mark.parametrize("options", LOO_OPTIONS)
def test_implementations_of_the_profile_give_the_same_bits(options):
    pytest.importorskip("numba")
    arrays, keywords = loo_input(3, p=100, k=10, options=options)
    ratio = np.geomspace(1e-9, 1e9, 61)
    with use_implementation("reference"):
        expected = enn_loo_profile(*arrays, ratio=ratio, **keywords)
    with use_implementation("numba"):
        actual = enn_loo_profile(*arrays, ratio=ratio, **keywords)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_profile_mass_and_weight_are_repetition():
    (squared, near, y), keywords = loo_input(options=("mass", "weight"))
    mass, weight = keywords["mass"], keywords["weight"]
    mass[:] = mass[0]
    columns, rows = mass[0].astype(int), weight.astype(int)
    ratio = np.geomspace(1e-2, 1e2, 5)
    repeated = [
        np.repeat(np.repeat(x, columns, axis=1), rows, axis=0) for x in (squared, near)
    ]
    expected = enn_loo_profile(*repeated, np.repeat(y, rows), ratio=ratio)
    actual = enn_loo_profile(squared, near, y, ratio=ratio, **keywords)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("broken", [np.inf, np.nan])
def test_failed_likelihood_never_wins(broken):
    (squared, near, y), _ = loo_input()
    y = np.r_[broken, y[1:]]
    scale, likelihood = enn_loo_profile(squared, near, y, ratio=np.array([0.1, 1.0]))
    assert np.all(scale >= EPS)
    np.testing.assert_array_equal(likelihood, -np.inf)
    pair = {"epistemic_scale": np.ones(2), "aleatoric_variance": np.ones(2)}
    likelihood = enn_loo_log_likelihood(squared, near, y, **pair)
    np.testing.assert_array_equal(likelihood, -np.inf)


@pytest.mark.filterwarnings("error")
def test_profile_of_constant_observations_has_a_floor():
    (squared, near, y), _ = loo_input()
    near[:], y[:] = 2.0, 2.0
    scale, likelihood = enn_loo_profile(squared, near, y, ratio=np.array([0.1, 1.0]))
    np.testing.assert_array_equal(scale, EPS)
    assert np.all(np.isfinite(likelihood))


@pytest.mark.filterwarnings("error")
def test_profile_of_duplicates_prefers_noise():
    # at distance zero all spread is noise: a c is the mean squared error for every
    # ratio, so no ratio may win by a vanishing variance
    rng = np.random.default_rng(0)
    near, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    ratio = np.array([1e-12, 1e-3, 1.0])
    scale, likelihood = enn_loo_profile(np.zeros((30, 4)), near, y, ratio=ratio)
    error = np.mean((y - near.mean(axis=1)) ** 2)
    expected = -15 * (np.log(2 * np.pi * error) + 1)
    np.testing.assert_allclose(likelihood[1:], expected, rtol=1e-12)
    np.testing.assert_allclose(scale[1:] * ratio[1:] * 1.25, error, rtol=1e-12)
