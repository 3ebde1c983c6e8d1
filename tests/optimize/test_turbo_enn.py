"""The ask/tell loop of TuRBO-ENN and its function form."""

import copy
import math
import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds
from scipy.stats import loguniform

from skicml import TuRBOENN, minimize_turbo_enn
from skicml.optimize._trust_region import TrustRegion

BOX = [(-5.0, 10.0)] * 4


def bowl(x):
    """Concave, largest at 1 in every coordinate."""
    return -((np.asarray(x, float) - 1.0) ** 2).sum(axis=-1)


def run(optimizer, n_rounds, function=bowl, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        x = optimizer.ask()
        y = function(x)
        optimizer.tell(x, y + noise * rng.standard_normal(np.shape(y)))
    return optimizer


# the trust region


@given(
    improvements=st.lists(st.booleans(), max_size=200),
    batch=st.integers(1, 30),
    n_dims=st.integers(1, 40),
)
def test_trust_region_follows_the_rules_written_out(improvements, batch, n_dims):
    region = TrustRegion(n_dims, 0.8, 0.5**7, 1.6)
    length, in_a_row, in_vain = 0.8, 0, 0
    tolerance = math.ceil(max(4 / batch, n_dims / batch))
    for improved in improvements:
        if improved:
            in_a_row, in_vain = in_a_row + 1, 0
        else:
            in_a_row, in_vain = 0, in_vain + 1
        if in_a_row == 3:
            length, in_a_row = min(2 * length, 1.6), 0
        if in_vain == tolerance:
            length, in_vain = length / 2, 0
        region.update(improved, batch)
        state = (region.length, region.successes, region.failures)
        assert state == (length, in_a_row, in_vain)
        assert region.collapsed == (length < 0.5**7)


def test_failures_shrink_the_region_and_collapse_starts_anew():
    optimizer = TuRBOENN([(0.0, 1.0)] * 2, noise="none", n_init=4, random_state=0)
    optimizer.tell(optimizer.ask(4), [1.0, 0.0, 0.0, 0.0])
    lengths = []
    for _ in range(40):
        x = optimizer.ask()
        lengths.append(optimizer.trust_region_["length"])
        optimizer.tell(x, [0.0])
    assert min(lengths) == 0.5**6 * 0.8 or min(lengths) >= 0.5**7
    assert lengths[-1] > min(lengths)
    assert optimizer.best_y_ == 1.0


def test_counters_wait_for_the_first_round_after_the_design():
    optimizer = TuRBOENN(BOX, noise="none", n_init=8, random_state=0)
    for _ in range(8):
        optimizer.tell(optimizer.ask(), [0.0])
    optimizer.ask()
    state = optimizer.trust_region_
    assert (state["successes"], state["failures"]) == (0, 0)


# proposals


def test_design_is_a_latin_hypercube():
    optimizer = TuRBOENN([(0.0, 1.0)] * 3, n_init=10, random_state=0)
    design = optimizer.ask(10)
    for column in np.floor(design * 10).T:
        assert sorted(column) == list(range(10))


@pytest.mark.parametrize("acquisition", ["ucb", "pareto", "thompson", "random"])
def test_proposals_lie_in_the_trust_region_and_in_the_bounds(acquisition):
    optimizer = TuRBOENN(
        BOX, acquisition=acquisition, noise="none", batch_size=3, random_state=0
    )
    run(optimizer, 12)
    x = optimizer.ask()
    state = optimizer.trust_region_
    assert x.shape == (3, 4)
    assert np.all((x >= -5) & (x <= 10))
    assert np.all(abs(x - state["center"]) <= 15 * state["length"] / 2 + 1e-9)


def test_every_acquisition_beats_chance():
    chance = bowl(np.random.default_rng(0).uniform(-5, 10, (150, 4))).max()
    for acquisition in ("ucb", "pareto", "thompson"):
        optimizer = TuRBOENN(
            BOX, acquisition=acquisition, noise="none", batch_size=5, random_state=1
        )
        assert run(optimizer, 30).best_y_ > chance


def test_ucb_takes_the_best_score_of_the_model():
    optimizer = run(TuRBOENN(BOX, noise="none", acquisition="ucb", random_state=0), 20)
    region = optimizer._regions[0]
    seen = {}
    predict = region.predict

    def watched(unit, pending):
        seen["unit"], seen["scores"] = unit, predict(unit, pending)
        return seen["scores"]

    region.predict = watched
    x = optimizer.ask()
    mean, std = seen["scores"]
    best = seen["unit"][np.argmax(mean + std)]
    np.testing.assert_allclose(optimizer._space.to_unit(x)[0], best, atol=1e-12)


def test_pareto_leaves_no_proposal_that_a_candidate_of_another_front_dominates():
    optimizer = TuRBOENN(
        BOX, noise="none", acquisition="pareto", batch_size=6, random_state=0
    )
    run(optimizer, 10)
    region = optimizer._regions[0]
    seen = {}
    predict = region.predict

    def watched(unit, pending):
        seen["unit"], seen["scores"] = unit, predict(unit, pending)
        return seen["scores"]

    region.predict = watched
    chosen = optimizer._space.to_unit(optimizer.ask())
    mean, std = seen["scores"]
    rows = [int(np.argmin(abs(seen["unit"] - u).max(axis=1))) for u in chosen]
    better = (mean[:, None] >= mean) & (std[:, None] >= std)
    better &= (mean[:, None] > mean) | (std[:, None] > std)
    taken = np.zeros(len(mean), bool)
    taken[rows] = True
    # a candidate left out may not dominate one taken
    assert not better[np.ix_(~taken, taken)].any()


def test_points_that_are_out_are_not_proposed_again():
    optimizer = run(TuRBOENN([(0, 20)], noise="none", random_state=0), 3)
    told = set(optimizer.result().x_iters.ravel().tolist())
    out = [optimizer.ask()[0, 0] for _ in range(21 - len(told))]
    assert len({*out, *told}) == 21


def test_pending_points_lower_the_uncertainty_around_them():
    optimizer = run(TuRBOENN(BOX, random_state=0), 30)
    region = optimizer._regions[0]
    place = np.full((1, 4), 0.9)
    mean, std = region.predict(place, None)
    mean_after, std_after = region.predict(place, place)
    assert std_after[0] < std[0]
    assert region.predict(place, None) == (mean, std)
    # its predicted value stands in, so the mean hardly moves
    assert abs(mean_after[0] - mean[0]) < 0.05 * np.ptp(optimizer.history_["y"])


def test_batches_of_any_size_and_tells_in_any_order():
    optimizer = TuRBOENN(BOX, random_state=0)
    waiting = []
    rng = np.random.default_rng(0)
    for n in (3, 1, 8, 5, 1, 1, 12):
        waiting.extend(optimizer.ask(n))
        for _ in range(len(waiting) // 2):
            x = waiting.pop(rng.integers(len(waiting)))
            # values may come back through single precision
            optimizer.tell(np.float32(x), bowl(x))
    assert len(optimizer._pending) == len(waiting)


def test_told_log_replaces_the_design():
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 10, (300, 4))
    optimizer = TuRBOENN(BOX, noise="none", random_state=0)
    optimizer.tell(X, bowl(X))
    assert optimizer.best_y_ == bowl(X).max()
    x = optimizer.ask()
    center = optimizer.trust_region_["center"]
    np.testing.assert_allclose(center, X[np.argmax(bowl(X))])
    assert np.all(abs(x - center) <= 15 * 0.4 + 1e-9)
    optimizer.tell(x, bowl(x))
    run(optimizer, 59)
    assert optimizer.best_y_ > bowl(X).max()
    assert optimizer.n_evaluations_ == 360


def test_batch_larger_than_the_candidates():
    optimizer = TuRBOENN(BOX, n_init=2, n_candidates=5, random_state=0)
    x = optimizer.ask(30)
    assert len(np.unique(x, axis=0)) == 30
    optimizer.tell(x, bowl(x))
    assert len(np.unique(optimizer.ask(30), axis=0)) == 30


def test_several_trust_regions_share_the_evaluations():
    optimizer = TuRBOENN(
        BOX, n_trust_regions=3, batch_size=6, noise="none", random_state=0
    )
    run(optimizer, 40)
    assert len(optimizer.trust_region_) == 3
    assert all(region.center is not None for region in optimizer._regions)
    assert optimizer.best_y_ > -0.5


# what is reported


def test_archive_remembers_the_best_over_restarts():
    optimizer = TuRBOENN(
        [(0.0, 1.0)] * 2, noise="none", n_init=4, length_min=0.4, random_state=0
    )
    best = -np.inf
    rng = np.random.default_rng(0)
    for _ in range(60):
        x = optimizer.ask()
        y = rng.standard_normal(1)
        best = max(best, y[0])
        optimizer.tell(x, y)
        assert optimizer.best_y_ == best
    np.testing.assert_array_equal(
        optimizer.best_x_,
        optimizer.result().x_iters[np.argmax(optimizer.history_["y"])],
    )


def test_noisy_report_is_a_mean_and_not_the_luckiest_value():
    optimizer = TuRBOENN(BOX, batch_size=5, random_state=0)
    run(optimizer, 60, noise=3.0)
    history = optimizer.history_
    assert optimizer.best_y_ < history["y"].max()
    # the luckiest raw value exceeds the true maximum 0 by about three deviations
    assert abs(optimizer.best_y_ - bowl(optimizer.best_x_)) < 3.0


def test_history_has_one_entry_for_each_value():
    optimizer = run(TuRBOENN(BOX, batch_size=3, random_state=0), 7)
    history = optimizer.history_
    assert {len(v) for v in history.values()} == {21}
    np.testing.assert_array_equal(
        history["best_y"], np.maximum.accumulate(history["y"])
    )
    history["y"][:] = 0
    assert not np.all(optimizer.history_["y"] == 0)


def test_result_is_scipys():
    result = run(TuRBOENN(BOX, batch_size=3, noise="none", random_state=0), 7).result()
    assert result.nfev == 21
    assert result.nit == 7
    assert result.fun == result.func_vals.max() == bowl(result.x)
    assert result.x_iters.shape == (21, 4)


# determinism and resuming


@pytest.mark.parametrize("noise", ["auto", "none"])
@pytest.mark.parametrize("how", ["pickle", "state", "deepcopy"])
def test_resumed_run_goes_on_bit_by_bit(noise, how):
    def fresh():
        return TuRBOENN(BOX, noise=noise, batch_size=4, random_state=3)

    straight = run(fresh(), 24)
    half = run(fresh(), 11)
    x = half.ask()
    if how == "pickle":
        half = pickle.loads(pickle.dumps(half))
    elif how == "deepcopy":
        half = copy.deepcopy(half)
    else:
        state = half.get_state()
        run(half, 2)
        half = TuRBOENN([(0, 1)])
        half.set_state(state)
    half.tell(x, bowl(x))
    run(half, 12)
    np.testing.assert_array_equal(half.result().x_iters, straight.result().x_iters)


def test_looking_does_not_change_the_run():
    plain = run(TuRBOENN(BOX, random_state=0), 30)
    watched = TuRBOENN(BOX, random_state=0)
    for _ in range(30):
        x = watched.ask()
        watched.tell(x, bowl(x))
        _ = watched.best_x_, watched.best_y_, watched.trust_region_, watched.result()
    np.testing.assert_array_equal(plain.result().x_iters, watched.result().x_iters)


def test_interrupted_proposal_goes_on_as_if_nothing_had_happened(monkeypatch):
    plain, broken = (TuRBOENN(BOX, random_state=0) for _ in range(2))
    for _ in range(15):
        x = plain.ask()
        plain.tell(x, bowl(x))
        broken.tell(broken.ask(), bowl(x))
    model = broken._regions[0]._model

    def interrupted(*args, **kwargs):
        type(model).add(model, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broken.ask()
    broken.ask()
    # the model is built anew: no row is lost, and none is there twice
    assert broken._regions[0]._model.n_rows == 15
    assert broken._regions[0]._model._enn.n_samples_fit_ == 15
    np.testing.assert_array_equal(broken.best_x_, plain.best_x_)


# spaces


def test_mixed_space_with_names_finds_the_best_setting():
    space = {
        "layers": (1, 8),
        "rate": (1e-5, 1.0, "log-uniform"),
        "kernel": ["linear", "rbf", "poly"],
        "shrink": [True, False],
        "width": loguniform(1, 1000),
    }

    def value(p):
        return (
            -abs(p["layers"] - 3)
            - abs(np.log10(p["rate"]) + 2)
            - (p["kernel"] != "rbf")
            - p["shrink"]
            - abs(np.log10(p["width"]) - 1)
        )

    optimizer = TuRBOENN(space, noise="none", batch_size=5, random_state=0)
    for _ in range(40):
        points = optimizer.ask()
        assert all(isinstance(p["layers"], int) for p in points)
        optimizer.tell(points, [value(p) for p in points])
    best = optimizer.best_x_
    assert best["layers"] == 3
    assert best["kernel"] == "rbf"
    assert best["shrink"] is False
    assert value(best) > -0.5


def test_finite_space_is_enumerated_before_it_repeats():
    optimizer = TuRBOENN([(0, 3), ["a", "b"]], noise="none", n_init=2, random_state=0)
    seen = []
    for _ in range(8):
        x = optimizer.ask()
        seen.append(tuple(x[0]))
        optimizer.tell(x, [0.0])
    assert len(set(seen)) == 8
    assert len(optimizer.ask(3)) == 3


def test_scipy_bounds_and_integers():
    optimizer = TuRBOENN(Bounds([0, 0], [1, 2]), random_state=0)
    assert optimizer.ask(5).dtype == np.float64
    assert TuRBOENN([(0, 9), (-3, 3)], random_state=0).ask(5).dtype == np.int64


def test_fixed_coordinate_is_kept_with_a_warning():
    with pytest.warns(UserWarning, match="coordinate 1"):
        optimizer = TuRBOENN([(0.0, 1.0), (2.0, 2.0)], random_state=0)
    assert np.all(optimizer.ask(10)[:, 1] == 2.0)
    with pytest.warns(UserWarning, match="coordinate 0"):
        optimizer = TuRBOENN([(2.0, 2.0)], random_state=0)
    x = optimizer.ask(3)
    optimizer.tell(x, [1.0, 2.0, 3.0])
    assert np.all(optimizer.ask(2) == 2.0)


def test_one_dimension_and_a_hundred():
    assert (
        abs(run(TuRBOENN([(-2.0, 4.0)], noise="none", random_state=0), 40).best_y_)
        < 1e-2
    )
    wide = TuRBOENN([(-5.0, 5.0)] * 100, noise="none", batch_size=50, random_state=0)
    first = bowl(wide.ask(50)).max()
    assert run(wide, 20).best_y_ > first


# failures


def test_failed_evaluations_count_as_the_worst_and_are_said_once():
    optimizer = TuRBOENN(BOX, random_state=0)
    x = optimizer.ask(4)
    with pytest.warns(UserWarning, match="2 of 4 values are not finite"):
        optimizer.tell(x, [1.0, np.nan, -2.0, -np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.tell(optimizer.ask(1), [np.nan])
    history = optimizer.history_
    np.testing.assert_array_equal(history["y"], [1, -2, -2, -2, -2])
    np.testing.assert_array_equal(history["failed"], [0, 1, 0, 1, 1])
    assert np.isfinite(optimizer.result().func_vals).all()


def test_failures_before_any_success_wait_for_one():
    optimizer = TuRBOENN([(0.0, 1.0)] * 2, n_init=3, random_state=0)
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.tell(optimizer.ask(), [np.nan])
    with pytest.raises(ValueError, match="none of the 6 values told is finite"):
        _ = optimizer.best_x_
    optimizer.tell(optimizer.ask(), [-7.0])
    optimizer.ask()
    assert optimizer.best_y_ == pytest.approx(-7.0)
    assert np.all(optimizer.history_["y"] == -7.0)


def test_variances_are_used_and_must_be_given_always():
    optimizer = TuRBOENN([(0.0, 1.0)] * 2, random_state=0)
    x = optimizer.ask(20)
    y = bowl(x)
    optimizer.tell(x, y, y_var=np.where(np.arange(20) == 3, 1e6, 1e-6))
    assert len(optimizer.ask(2)) == 2
    with pytest.raises(ValueError, match="in every call or in none"):
        optimizer.tell(x[:1], y[:1])
    with pytest.raises(ValueError, match="y_var must be non-negative"):
        optimizer.tell(x[:1], y[:1], y_var=[-1.0])


BAD = [
    ("empty", lambda: TuRBOENN([])),
    ("coordinate 1.*reversed", lambda: TuRBOENN([(0.0, 1.0), (2.0, 1.0)])),
    ("coordinate 0.*not finite", lambda: TuRBOENN([(0.0, np.inf)])),
    ("acquisition must be one of", lambda: TuRBOENN(BOX, acquisition="ei")),
    ("noise must be one of", lambda: TuRBOENN(BOX, noise="low")),
    ("n_neighbors must be an integer", lambda: TuRBOENN(BOX, n_neighbors=0)),
    ("batch_size must be an integer", lambda: TuRBOENN(BOX, batch_size=1.5)),
    ("n_init must be an integer", lambda: TuRBOENN(BOX, n_init=0)),
    ("n_candidates must be", lambda: TuRBOENN(BOX, n_candidates=-1)),
    ("length_min <= length_init", lambda: TuRBOENN(BOX, length_init=2.0)),
    ("beta must be a finite", lambda: TuRBOENN(BOX, beta=np.nan)),
    ("n must be an integer", lambda: TuRBOENN(BOX).ask(0)),
    ("2 points but 1 values", lambda: TuRBOENN(BOX).tell(np.zeros((2, 4)), [1.0])),
    (
        "outside the bounds.*coordinate 0",
        lambda: TuRBOENN(BOX).tell([99, 0, 0, 0], 1.0),
    ),
    ("device 'cuda:99' was requested", lambda: TuRBOENN(BOX, device="cuda:99")),
    (
        "maxfev must be an integer above 0",
        lambda: minimize_turbo_enn(bowl, BOX, maxfev=0),
    ),
    ("maxfev must be an integer", lambda: minimize_turbo_enn(bowl, BOX, maxfev=1.5)),
    ("max_time must be above 0", lambda: minimize_turbo_enn(bowl, BOX, max_time=-1)),
    ("workers must be", lambda: minimize_turbo_enn(bowl, BOX, workers=0)),
    ("y must hold real numbers", lambda: TuRBOENN(BOX).tell([0, 0, 0, 0], "a")),
    ("y must hold real numbers", lambda: TuRBOENN(BOX).tell([0, 0, 0, 0], [1j])),
    ("length_init must be a finite", lambda: TuRBOENN(BOX, length_init="wide")),
    (
        "none of the 3 values",
        lambda: minimize_turbo_enn(lambda x: np.nan, BOX, maxfev=3),
    ),
]


@pytest.mark.parametrize(("message", "call"), BAD)
@pytest.mark.filterwarnings("ignore:minimize_turbo_enn")
def test_bad_input_says_what_is_wrong(message, call):
    with pytest.raises((ValueError, RuntimeError), match=message):
        call()


@pytest.mark.parametrize("noise", ["auto", "none"])
def test_values_too_large_to_square_are_bad_or_good_and_never_nan(noise):
    optimizer = TuRBOENN([(0.0, 1.0)] * 2, noise=noise, n_init=4, random_state=0)
    for _ in range(20):
        x = optimizer.ask()
        optimizer.tell(x, np.where(x[:, 0] > 0.5, -1e200, x[:, 1]))
    assert optimizer.best_x_[0] <= 0.5
    assert np.isfinite(optimizer.best_y_)


def test_one_parameter_takes_a_plain_number():
    optimizer = TuRBOENN([(0.0, 1.0)], random_state=0)
    optimizer.tell(0.25, 3.0)
    assert optimizer.best_x_ == [0.25]


# the function form


def sphere(x, shift=1.0):
    return float(((np.asarray(x) - shift) ** 2).sum())


def test_minimize_counts_and_reports_like_scipy():
    result = minimize_turbo_enn(sphere, BOX, maxfev=120, noise="none", random_state=0)
    assert result.success
    assert result.nfev == len(result.func_vals) == 120
    assert result.fun == sphere(result.x) == result.func_vals.min() < 0.5
    again = minimize_turbo_enn(sphere, BOX, maxfev=120, noise="none", random_state=0)
    np.testing.assert_array_equal(result.x_iters, again.x_iters)


def test_minimize_stops_at_each_limit():
    def stop(**limits):
        return minimize_turbo_enn(sphere, BOX, random_state=0, noise="none", **limits)

    assert stop(maxiter=4, batch_size=3).nfev == 12
    assert "Target" in stop(target=30.0).message
    assert "Time limit" in stop(max_time=1e-9).message
    calls = []
    result = stop(callback=lambda r: calls.append(r.nfev) or r.nfev >= 5)
    assert result.nfev == 5
    assert calls == [1, 2, 3, 4, 5]

    def raises(r):
        raise StopIteration

    assert stop(callback=raises).nfev == 1


def test_minimize_evaluates_the_first_points_given():
    x0 = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    result = minimize_turbo_enn(
        sphere, BOX, x0=x0, maxfev=5, noise="none", random_state=0
    )
    np.testing.assert_allclose(result.x_iters[:2], x0)
    assert result.fun == 0.0
    one = minimize_turbo_enn(sphere, BOX, x0=x0[0], maxfev=2, noise="none")
    np.testing.assert_allclose(one.x_iters[0], x0[0])


def test_minimize_passes_args_and_named_points():
    result = minimize_turbo_enn(
        sphere, BOX, (3.0,), maxfev=80, noise="none", random_state=0
    )
    assert np.all(abs(result.x - 3) < 2)
    named = minimize_turbo_enn(
        lambda p: (p["a"] - 2) ** 2,
        {"a": (0, 9)},
        maxfev=10,
        noise="none",
        random_state=0,
    )
    assert named.x == {"a": 2}


def test_minimize_survives_evaluations_that_raise():
    def sometimes(x):
        if x[0] > 6:
            raise RuntimeError("too far")
        return sphere(x)

    with pytest.warns(UserWarning, match="too far") as caught:
        result = minimize_turbo_enn(sometimes, BOX, maxfev=60, random_state=0)
    assert len(caught) == 1
    assert result.nfev == 60
    assert result.x[0] <= 6


def test_minimize_gives_the_same_with_processes_threads_and_one_worker():
    from concurrent.futures import ThreadPoolExecutor

    settings = {"maxfev": 24, "batch_size": 4, "noise": "none", "random_state": 0}
    one = minimize_turbo_enn(sphere, BOX, **settings)
    two = minimize_turbo_enn(sphere, BOX, workers=2, **settings)
    with ThreadPoolExecutor(3) as pool:
        mapped = minimize_turbo_enn(sphere, BOX, workers=pool.map, **settings)
    np.testing.assert_array_equal(one.x_iters, two.x_iters)
    np.testing.assert_array_equal(one.x_iters, mapped.x_iters)


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="needs signals"
)
def test_interrupted_minimization_returns_what_is_done():
    calls = []

    def interrupted(x):
        calls.append(x)
        if len(calls) == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return sphere(x)

    result = minimize_turbo_enn(
        interrupted, BOX, batch_size=5, maxfev=50, random_state=0
    )
    assert not result.success
    assert result.nfev in (6, 7)
    assert np.isfinite(result.fun)
