"""Oracles, theorems, metamorphic relations and bad input of ENNRegressor."""

import pickle
import warnings

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skicml import ENNRegressor
from skicml.base import move_to
from skicml_accel.neighbors import enn_loo_log_likelihood

EPS = 1e-9
FIXED = {"epistemic_scale": 0.7, "aleatoric_variance": 0.2}


def random_set(seed, n=60, d=3, outputs=None, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
    if outputs is not None:
        y = np.stack([y, *(rng.standard_normal(n) for _ in range(outputs - 1))], axis=1)
    return X, y.astype(dtype), rng.standard_normal((17, d)).astype(dtype)


def brute_force(X, y, query, k, a, b, y_var=None):
    """Mean and both standard deviations straight from the formulas, in float64."""
    X, y, query = (np.asarray(v, float) for v in (X, y, query))
    v = np.zeros_like(y) if y_var is None else y_var
    s = y.std()
    rows = []
    for q in query:
        d2 = ((X - q) ** 2).sum(axis=1)
        near = np.argsort(d2, kind="stable")[:k]
        nu = EPS + a * d2[near] + b + v[near] / s**2
        w = 1 / nu
        noise = (w * (b + v[near] / s**2)).sum() / w.sum()
        rows.append(
            [(w * y[near]).sum() / w.sum(), s / np.sqrt(w.sum()), s * np.sqrt(noise)]
        )
    return np.array(rows).T


scales = st.floats(1e-3, 1e3)


@given(seed=st.integers(0, 10**6), a=scales, b=scales, k=st.integers(1, 20))
def test_predict_equals_brute_force(seed, a, b, k):
    X, y, query = random_set(seed)
    model = ENNRegressor(k, epistemic_scale=a, aleatoric_variance=b).fit(X, y)
    parts = model.predict(query, return_parts=True)
    np.testing.assert_allclose(parts, brute_force(X, y, query, k, a, b), rtol=1e-10)


@given(seed=st.integers(0, 10**6), a=scales, b=scales)
def test_predict_equals_brute_force_in_single_precision(seed, a, b):
    X, y, query = random_set(seed, dtype=np.float32)
    model = ENNRegressor(5, epistemic_scale=a, aleatoric_variance=b).fit(X, y)
    mean, epistemic, noise = model.predict(query, return_parts=True)
    expected = brute_force(X, y, query, 5, a, b)
    assert mean.dtype == epistemic.dtype == np.float32
    # k roundings of a sum whose terms are at most max |y|
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-6 * abs(y).max())
    np.testing.assert_allclose([epistemic, noise], expected[1:], rtol=2e-6)


@given(seed=st.integers(0, 10**6), a=scales, b=scales)
def test_known_variances_enter_as_in_the_formula(seed, a, b):
    X, y, query = random_set(seed)
    y_var = np.random.default_rng(seed).exponential(size=y.shape)
    model = ENNRegressor(7, epistemic_scale=a, aleatoric_variance=b)
    parts = model.fit(X, y, y_var=y_var).predict(query, return_parts=True)
    expected = brute_force(X, y, query, 7, a, b, y_var)
    np.testing.assert_allclose(parts, expected, rtol=1e-10)


@given(seed=st.integers(0, 10**6), a=scales, b=scales, k=st.integers(1, 20))
def test_mean_stays_in_the_range_of_the_neighbors(seed, a, b, k):
    X, y, query = random_set(seed)
    model = ENNRegressor(k, epistemic_scale=a, aleatoric_variance=b).fit(X, y)
    near = y[model.kneighbors(query, return_distance=False)]
    slack = k * np.finfo(float).eps * abs(y).max()
    mean = model.predict(query)
    assert np.all(mean >= near.min(axis=1) - slack)
    assert np.all(mean <= near.max(axis=1) + slack)


def test_all_neighbors_without_epistemic_scale_give_the_mean():
    X, y, query = random_set(0)
    b = 0.3
    model = ENNRegressor(len(y), epistemic_scale=0.0, aleatoric_variance=b).fit(X, y)
    mean, std, _ = model.predict(query, return_parts=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
    np.testing.assert_allclose((std / y.std()) ** 2, (b + EPS) / len(y), rtol=1e-12)


@given(seed=st.integers(0, 10**6), a=st.floats(1e-2, 1e3))
def test_no_noise_interpolates_up_to_the_floor_of_the_variance(seed, a):
    X, y, _ = random_set(seed)
    k = 10
    model = ENNRegressor(k, epistemic_scale=a, aleatoric_variance=0.0).fit(X, y)
    nearest_other = model.kneighbors()[0][:, 0]
    bound = k * EPS / (a * nearest_other**2) * np.ptp(y)
    error = abs(model.predict(X) - y)
    assert np.all(error <= bound + 4 * np.finfo(float).eps * abs(y).max())


@given(seed=st.integers(0, 10**6), factor=st.floats(1e-3, 1e3), shift=st.floats(-9, 9))
def test_affine_maps_of_y_pass_through(seed, factor, shift):
    X, y, query = random_set(seed)
    model = ENNRegressor(random_state=0)
    mean, std = model.fit(X, y).predict(query, return_std=True)
    mapped = model.fit(X, factor * y + shift).predict(query, return_std=True)
    size = factor * abs(y).max() + abs(shift)
    np.testing.assert_allclose(mapped[0], factor * mean + shift, atol=1e-6 * size)
    # the fitted scales come from a likelihood that is flat at its maximum
    np.testing.assert_allclose(mapped[1], factor * std, rtol=1e-3)


@given(seed=st.integers(0, 10**6))
def test_rigid_motions_of_X_change_nothing(seed):
    X, y, query = random_set(seed)
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    shift = rng.standard_normal(3)
    model = ENNRegressor(5, **FIXED)
    expected = model.fit(X, y).predict(query, return_std=True)
    moved = model.fit(X @ rotation + shift, y)
    actual = moved.predict(query @ rotation + shift, return_std=True)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_order_of_rows_does_not_matter(seed):
    X, y, query = random_set(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    model = ENNRegressor(5, **FIXED)
    expected = model.fit(X, y).predict(query, return_std=True)
    actual = model.fit(X[order], y[order]).predict(query, return_std=True)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@given(seed=st.integers(0, 10**6), cut=st.integers(1, 59))
def test_partial_fit_in_chunks_equals_fit(seed, cut):
    X, y, query = random_set(seed)
    model = ENNRegressor(5, random_state=0).fit(X, y)
    grown = ENNRegressor(5, random_state=0)
    with warnings.catch_warnings():
        # the first chunk may hold fewer rows than neighbors
        warnings.simplefilter("ignore")
        grown.partial_fit(X[:cut], y[:cut]).partial_fit(X[cut:], y[cut:])
    assert grown.epistemic_scale_ == model.epistemic_scale_
    np.testing.assert_array_equal(
        grown.predict(query, return_std=True), model.predict(query, return_std=True)
    )


@given(seed=st.integers(0, 10**6))
def test_weight_zero_equals_removal(seed):
    X, y, query = random_set(seed)
    weight = np.random.default_rng(seed).integers(0, 2, len(y)).astype(float)
    weight[:2] = 1
    kept = weight > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted = ENNRegressor(5, random_state=0).fit(X, y, sample_weight=weight)
        plain = ENNRegressor(5, random_state=0).fit(X[kept], y[kept])
    assert weighted.n_samples_fit_ == kept.sum()
    np.testing.assert_allclose(
        weighted.predict(query, return_std=True),
        plain.predict(query, return_std=True),
        rtol=1e-9,
    )


@given(seed=st.integers(0, 10**6))
def test_integer_weights_equal_repeated_rows(seed):
    X, y, query = random_set(seed, n=30)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = ENNRegressor(5, random_state=0).fit(X, y, sample_weight=weight)
    repeated = ENNRegressor(5, random_state=0).fit(
        X.repeat(weight, 0), y.repeat(weight)
    )
    np.testing.assert_allclose(
        weighted.predict(query, return_std=True),
        repeated.predict(query, return_std=True),
        rtol=1e-8,
    )


def test_light_rows_reach_farther_until_their_mass_suffices():
    X, y, query = random_set(3)
    light = ENNRegressor(4, **FIXED).fit(X, y, sample_weight=np.full(len(y), 0.5))
    # eight rows of half the weight: mean of eight neighbors, half their precision
    eight = ENNRegressor(8, **FIXED).fit(X, y)
    np.testing.assert_allclose(light.predict(query), eight.predict(query), rtol=1e-12)
    _, half, _ = light.predict(query, return_parts=True)
    _, full, _ = eight.predict(query, return_parts=True)
    np.testing.assert_allclose(half, np.sqrt(2) * full, rtol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_profile_fit_beats_random_pairs(seed):
    X, y, _ = random_set(seed, n=50)
    model = ENNRegressor(5, random_state=0).fit(X, y)
    pairs = 10 ** np.random.default_rng(seed).uniform(-3, 3, (100, 2))
    best = max(model.log_marginal_likelihood_loo(a, b) for a, b in pairs)
    # the likelihood may have several maxima, of which the three best are polished
    assert model.loo_log_likelihood_ >= best - 1e-2


@given(seed=st.integers(0, 10**6))
def test_profile_fit_is_stationary_in_the_epistemic_scale(seed):
    X, y, _ = random_set(seed, n=80)
    model = ENNRegressor(5, random_state=0).fit(X, y)
    ratio = model.aleatoric_variance_ / model.epistemic_scale_
    held_out = model._held_out[0]
    total = (1 / (held_out.squared_distance + ratio) * held_out.mass).sum(axis=1)
    spread = 1 / total + ratio
    mean = (
        held_out.mass * held_out.y_neighbors / (held_out.squared_distance + ratio)
    ).sum(axis=1) / total
    # d LL / d log a = -1/2 sum (1 - r^2 / (a c)), so its terms average to zero
    terms = (held_out.y - mean) ** 2 / (model.epistemic_scale_ * spread)
    assert abs(terms.mean() - 1) < 1e-6


def test_random_fit_and_warm_start_keep_the_better_pair():
    X, y, _ = random_set(1)
    model = ENNRegressor(
        5, fit_method="random", n_fit_candidates=1, warm_start=True, random_state=0
    )
    alone, chained = [], []
    for seed in range(6):
        model.set_params(random_state=seed)
        chained.append(model.fit(X, y).loo_log_likelihood_)
        alone.append(clone(model).fit(X, y).loo_log_likelihood_)
    # all rows are held out, so every fit scores pairs on the same rows
    np.testing.assert_array_equal(chained, np.maximum.accumulate(alone))


def test_loo_likelihood_equals_refits_without_each_row():
    X, y, _ = random_set(2, n=25)
    a, b = FIXED.values()
    model = ENNRegressor(4, **FIXED).fit(X, y)
    value = 0.0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        d2 = ((X[rest] - X[i]) ** 2).sum(axis=1)
        near = np.argsort(d2)[:4]
        z = y / y.std()
        w = 1 / (EPS + a * d2[near] + b)
        mean = (w * z[rest][near]).sum() / w.sum()
        variance = 1 / w.sum() + b
        value -= 0.5 * (np.log(2 * np.pi * variance) + (z[i] - mean) ** 2 / variance)
    assert model.log_marginal_likelihood_loo() == pytest.approx(value, rel=1e-10)


def test_likelihood_that_is_not_finite_never_wins():
    value = enn_loo_log_likelihood(
        np.array([[1.0, 2.0]]),
        np.array([[np.inf, 0.0]]),
        np.array([0.0]),
        epistemic_scale=np.ones(1),
        aleatoric_variance=np.ones(1),
    )
    assert value[0] == -np.inf


def test_repeated_rows_with_different_targets_need_noise():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 2)).astype(float)
    y = X[:, 0] + 0.5 * rng.standard_normal(200)
    model = ENNRegressor(random_state=0).fit(X, y)
    assert model.aleatoric_variance_ > 0.05
    assert np.isfinite(model.loo_log_likelihood_)


def test_one_scale_given_leaves_the_other_to_fit():
    X, y, _ = random_set(5)
    free = ENNRegressor(random_state=0).fit(X, y)
    for name in FIXED:
        given = {name: getattr(free, name + "_")}
        model = ENNRegressor(random_state=0, **given).fit(X, y)
        assert getattr(model, name + "_") == given[name]
        assert model.loo_log_likelihood_ == pytest.approx(
            free.loo_log_likelihood_, abs=0.05
        )


def test_outputs_share_neighbors_and_keep_scales_of_their_own():
    X, y, query = random_set(4, outputs=3)
    together = ENNRegressor(random_state=0).fit(X, y)
    mean, std = together.predict(query, return_std=True)
    assert mean.shape == std.shape == (17, 3)
    for t in range(3):
        alone = ENNRegressor(random_state=0).fit(X, y[:, t])
        assert together.epistemic_scale_[t] == pytest.approx(alone.epistemic_scale_)
        expected = alone.predict(query, return_std=True)
        np.testing.assert_allclose([mean[:, t], std[:, t]], expected, rtol=1e-6)


def test_std_grows_linearly_far_from_the_data():
    X, y, _ = random_set(6)
    model = ENNRegressor(10, **FIXED).fit(X, y)
    direction = np.array([[1.0, 0.0, 0.0]])
    _, std, _ = model.predict(
        np.vstack([1e4 * direction, 2e4 * direction]), return_parts=True
    )
    expected = y.std() * np.sqrt(FIXED["epistemic_scale"] / 10) * 1e4
    np.testing.assert_allclose(std, [expected, 2 * expected], rtol=1e-3)


def test_sampled_functions_are_coherent_and_have_the_right_moments():
    X, y, query = random_set(7)
    model = ENNRegressor(random_state=0).fit(X, y)
    draws = model.sample_y(query, n_samples=4000, random_state=1)
    mean, std, _ = model.predict(query, return_parts=True)
    # 17 x 2 comparisons at 5 standard errors: fails once in 50,000 seeds
    assert np.all(abs(draws.mean(axis=1) - mean) < 5 * std / np.sqrt(4000))
    assert np.all(abs(draws.std(axis=1) / std - 1) < 5 / np.sqrt(2 * 4000))
    again = model.sample_y(query[:3], n_samples=2, random_state=1)
    np.testing.assert_array_equal(again, draws[:3, :2])
    near = np.vstack([query[0], query[0] + 1e-9])
    twins = model.sample_y(near, n_samples=50, random_state=2)
    np.testing.assert_allclose(twins[0], twins[1], atol=1e-5)


def test_kneighbors_agrees_with_scikit_learn():
    X, y, query = random_set(8)
    ours = ENNRegressor(6, **FIXED).fit(X, y)
    theirs = KNeighborsRegressor(6).fit(X, y)
    for rows in (query, None):
        distance, index = ours.kneighbors(rows)
        expected, expected_index = theirs.kneighbors(rows)
        np.testing.assert_allclose(distance, expected, rtol=1e-12)
        np.testing.assert_array_equal(index, expected_index)


def test_kneighbors_of_repeated_rows_drops_the_row_itself():
    X = np.zeros((6, 2))
    index = (
        ENNRegressor(3, **FIXED)
        .fit(X, np.arange(6.0))
        .kneighbors(return_distance=False)
    )
    assert all(row not in near for row, near in enumerate(index.tolist()))


@pytest.mark.parametrize("kind", ["torch", "array_api_strict", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kind_of_array_gives_the_same_numbers_back(kind, dtype):
    X, y, query = random_set(9, dtype=np.dtype(dtype))
    expected = ENNRegressor(random_state=0).fit(X, y).predict(query, return_std=True)
    make = {
        "torch": torch.from_numpy,
        "array_api_strict": array_api_strict.asarray,
        "sparse": scipy.sparse.csr_array,
    }[kind]
    target = y if kind == "sparse" else make(y)
    model = ENNRegressor(random_state=0).fit(make(X), target)
    actual = model.predict(make(query), return_std=True)
    if kind != "sparse":
        assert all(type(a) is type(target) for a in actual)
        assert all(str(a.dtype).endswith(dtype) for a in actual)
    rtol = 1e-5 if dtype == "float32" else 1e-10
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=rtol)


def test_model_moves_between_kinds_of_arrays():
    X, y, query = random_set(10, outputs=2)
    model = ENNRegressor(random_state=0, scale_X=True).fit(X, y)
    expected = model.predict(query)
    with pytest.raises(ValueError, match="must use the same namespace"):
        model.predict(torch.from_numpy(query))
    moved = move_to(model, torch.from_numpy(query))
    np.testing.assert_allclose(
        moved.predict(torch.from_numpy(query)).numpy(), expected, atol=1e-12
    )
    moved.partial_fit(torch.from_numpy(X), torch.from_numpy(y))
    assert moved.n_samples_fit_ == 2 * len(X)


def test_scale_X_makes_the_units_of_columns_irrelevant():
    X, y, query = random_set(11)
    units = np.array([1e6, 1.0, 1e-6])
    model = ENNRegressor(random_state=0, scale_X=True)
    expected = model.fit(X, y).predict(query)
    np.testing.assert_allclose(model.fit(X * units, y).predict(query * units), expected)
    piped = make_pipeline(StandardScaler(), ENNRegressor(random_state=0)).fit(X, y)
    np.testing.assert_allclose(piped.predict(query), expected, rtol=1e-9)
    sparse = scipy.sparse.csr_array(X)
    np.testing.assert_allclose(model.fit(sparse, y).predict(query), expected, rtol=1e-9)


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_batch_size_does_not_change_the_prediction(batch_size):
    X, y, query = random_set(12)
    model = ENNRegressor(random_state=0).fit(X, y)
    expected = model.predict(query, return_std=True)
    actual = model.predict(query, return_std=True, batch_size=batch_size)
    np.testing.assert_allclose(actual, expected, rtol=1e-13)


def test_device_cpu_computes_what_no_device_does():
    X, y, query = random_set(13)
    expected = ENNRegressor(random_state=0).fit(X, y).predict(query)
    model = ENNRegressor(random_state=0, device="cpu").fit(X, y)
    np.testing.assert_array_equal(model.predict(query), expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is present")
def test_absent_device_is_said_and_not_replaced():
    X, y, _ = random_set(14)
    with pytest.raises(RuntimeError, match="device 'cuda' was requested"):
        ENNRegressor(device="cuda").fit(X, y)


def test_pickle_clone_and_repeated_fit_agree():
    X, y, query = random_set(15)
    model = ENNRegressor(random_state=0).fit(X, y)
    expected = model.predict(query)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict(query), expected
    )
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(query), expected)
    np.testing.assert_array_equal(model.fit(X, y).predict(query), expected)


def test_pickle_leaves_out_the_room_for_growth():
    X, y, _ = random_set(16, n=3000)
    model = ENNRegressor(random_state=0).fit(X, y)
    before = len(pickle.dumps(model))
    model.partial_fit(X[:10], y[:10])
    assert len(pickle.dumps(model)) < 1.1 * before


def test_grid_search_over_processes_and_tensors():
    X, y, _ = random_set(17)
    grid = {"n_neighbors": [3, 5]}
    one = GridSearchCV(ENNRegressor(random_state=0), grid, cv=3).fit(X, y)
    two = GridSearchCV(ENNRegressor(random_state=0), grid, cv=3, n_jobs=2).fit(X, y)
    assert one.best_score_ == two.best_score_
    tensors = GridSearchCV(ENNRegressor(random_state=0), grid, cv=3)
    tensors.fit(torch.from_numpy(X), torch.from_numpy(y))
    assert tensors.best_score_ == pytest.approx(one.best_score_, rel=1e-9)


def test_fit_leaves_its_input_alone():
    X, y, query = random_set(18)
    weight, y_var = np.ones(len(y)), np.ones(len(y))
    copies = [v.copy() for v in (X, y, weight, y_var)]
    ENNRegressor(random_state=0).fit(X, y, weight, y_var).predict(query)
    for given_array, copied in zip((X, y, weight, y_var), copies, strict=True):
        np.testing.assert_array_equal(given_array, copied)


def test_read_only_and_strange_strides_are_accepted():
    X, y, query = random_set(19)
    expected = ENNRegressor(random_state=0).fit(X, y).predict(query)
    for rows in (np.asfortranarray(X), X[::-1][::-1], np.repeat(X, 2, axis=1)[:, ::2]):
        rows = rows.copy() if rows.base is None else rows
        rows.flags.writeable = False
        np.testing.assert_array_equal(
            ENNRegressor(random_state=0).fit(rows, y).predict(query), expected
        )


# quality, on real data


def calibration(model, X, y):
    """Mean negative log likelihood and cover of the central 95 % interval."""
    nll, inside = [], []
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        mean, std = model.fit(X[train], y[train]).predict(X[test], return_std=True)
        z = (y[test] - mean) / std
        nll.append(0.5 * np.mean(np.log(2 * np.pi * std**2) + z**2))
        inside.append(np.mean(abs(z) < 1.959964))
    return np.mean(nll), np.mean(inside)


def test_diabetes_is_as_good_as_scikit_learns_neighbors():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    folds = KFold(5, shuffle=True, random_state=0)
    for k in (10, 25):
        ours = cross_val_score(ENNRegressor(k, random_state=0), X, y, cv=folds).mean()
        theirs = cross_val_score(KNeighborsRegressor(k), X, y, cv=folds).mean()
        assert ours >= theirs - 0.01
        _, cover = calibration(ENNRegressor(k, random_state=0), X, y)
        assert 0.92 <= cover <= 0.98


def test_friedman_intervals_cover_what_they_say():
    X, y = make_friedman1(2000, noise=1.0, random_state=0)
    _, cover = calibration(ENNRegressor(random_state=0), X, y)
    assert 0.92 <= cover <= 0.98


def test_intervals_beat_one_width_for_all_rows():
    X, y = make_friedman1(1000, noise=0.1, random_state=0)
    # half of the rows crowd together, so that density differs
    X[::2] *= 0.3
    y[::2] = make_friedman1(1000, noise=0.1, random_state=0)[1][::2]
    nll, _ = calibration(ENNRegressor(random_state=0), X, y)

    class OneWidth(KNeighborsRegressor):
        def predict(self, X, return_std=False):
            mean = super().predict(X)
            own = self._y[self.kneighbors(return_distance=False)].mean(axis=1)
            return mean, np.full(len(mean), np.std(self._y - own))

    constant, _ = calibration(OneWidth(10), X, y)
    assert nll < constant


# borderline input


def test_single_row_predicts_itself_with_a_distance():
    with pytest.warns(UserWarning, match="n_neighbors=10 is more than the 1 training"):
        model = ENNRegressor().fit([[1.0, 2.0]], [3.0])
    mean, std = model.predict([[1.0, 2.0], [4.0, 6.0]], return_std=True)
    np.testing.assert_array_equal(mean, 3.0)
    np.testing.assert_allclose(std[1], 5.0, rtol=1e-6)
    assert model.log_marginal_likelihood_loo() == 0.0


def test_constant_y_gives_a_constant_without_fuss():
    X, _, query = random_set(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ENNRegressor(random_state=0).fit(X, np.full(len(X), 0.1))
    assert (model.epistemic_scale_, model.aleatoric_variance_) == (1.0, 0.0)
    np.testing.assert_allclose(model.predict(query), 0.1, rtol=1e-12)
    assert np.all(np.isfinite(model.predict(query, return_std=True)))


def test_equal_rows_everywhere_give_the_mean():
    y = np.arange(12.0)
    model = ENNRegressor(12, random_state=0).fit(np.ones((12, 2)), y)
    mean, std = model.predict(np.ones((1, 2)), return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-9)
    assert np.isfinite(std).all()
    assert std > 0.5 * y.std()


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float16])
def test_other_number_types_are_converted(dtype):
    X, y, query = random_set(21)
    prediction = (
        ENNRegressor(random_state=0).fit((X > 0).astype(dtype), y).predict(query)
    )
    assert np.isfinite(prediction).all()


def bad_calls():
    X, y, _ = random_set(22, n=12)
    ok = ENNRegressor(3)
    hole = X.copy()
    hole[0, 0] = np.nan
    yield "n_neighbors", lambda: ENNRegressor(0).fit(X, y)
    yield "fit_method", lambda: ENNRegressor(3, fit_method="best").fit(X, y)
    yield "SimpleImputer", lambda: ok.fit(hole, y)
    yield "contains infinity", lambda: ok.fit(np.where(X > 1, np.inf, X), y)
    yield "Input y contains NaN", lambda: ok.fit(X, np.where(y > 0, np.nan, y))
    yield (
        "y_var must be non-negative with the shape of y",
        lambda: ok.fit(X, y, y_var=-np.ones(len(y))),
    )
    yield (
        "y_var must be non-negative with the shape of y",
        lambda: ok.fit(X, y, y_var=np.ones((len(y), 1))),
    )
    yield (
        "y_var must be non-negative with the shape of y",
        lambda: ok.fit(X, y, y_var=np.full(len(y), np.nan)),
    )
    yield "inconsistent numbers of samples", lambda: ok.fit(X, y[:-1])
    yield "Expected 2D array", lambda: ok.fit(X[:, 0], y)
    yield "is expecting 3 features", lambda: ok.fit(X, y).predict(X[:, :2])
    yield "weight.*zero|zero.*weight", lambda: ok.fit(X, y, np.zeros(len(y)))
    yield "Sample weights must be 1D", lambda: ok.fit(X, y, np.ones((len(y), 2)))
    yield "overflow float64. Scale X", lambda: ok.fit(1e200 * X, y)
    yield "overflow float32. Scale X", lambda: ok.fit((1e30 * X).astype("f4"), y)
    yield "y holds values as large as.*overflow", lambda: ok.fit(X, 1e160 * y)
    yield "batch_size to be an integer", lambda: ok.fit(X, y).predict(X, batch_size=0)
    yield "n_samples to be an integer", lambda: ok.fit(X, y).sample_y(X, 0)
    yield "n_neighbors to be an integer", lambda: ok.fit(X, y).kneighbors(X, 1.5)
    yield "a number of at least 0", lambda: ok.fit(X, y).log_marginal_likelihood_loo(-1)
    yield "between 1 and 11", lambda: ok.fit(X, y).kneighbors(n_neighbors=12)
    yield "requires y to be passed", lambda: ok.fit(X, None)
    yield (
        "in every call or in none",
        lambda: ok.fit(X, y).partial_fit(X, y, y_var=np.ones(len(y))),
    )
    yield "as many outputs", lambda: ok.fit(X, y).partial_fit(X, np.stack([y, y], 1))
    yield "OneHotEncoder", lambda: ok.fit(np.array([["a", "b"]] * 12), y)


@pytest.mark.parametrize(("message", "call"), list(bad_calls()))
def test_bad_input_says_what_is_wrong(message, call):
    with pytest.raises(ValueError, match=message):
        call()


def test_predict_before_fit():
    with pytest.raises(NotFittedError):
        ENNRegressor().predict([[0.0]])


def test_more_neighbors_than_rows_warns_once_and_uses_all():
    X, y, query = random_set(23, n=5)
    model = ENNRegressor(random_state=0)
    with pytest.warns(UserWarning, match="n_neighbors=10 is more than the 5") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(query)
    assert model.kneighbors(query)[0].shape == (17, 5)
