"""Gradients against finite differences, and what descends along them."""

import numpy as np
import pytest
import torch

from skicml import LiftedGWAligner
from skicml.transport import egw_loss, gw_barycenter, gw_gradient_flow, pairwise_egw

EXACT = {
    "solver": "kernel",
    "epsilon": 0.1,
    "dtype": "float64",
    "tol": 1e-13,
    "sinkhorn_tol": 1e-11,
    "sinkhorn_max_iter": 5_000,
    "max_iter": 2_000,
}
COSTS = [
    ("euclidean", None),
    ("sqeuclidean", None),
    ("cityblock", None),
    ("power", {"p": 1.5}),
    ("gaussian", {"sigma": 1.2}),
]


def tensors(seed=0, n=6, m=5):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 2)) * [2, 1], rng.normal(size=(m, 3)) * [2, 1, 0.5]
    return torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y).requires_grad_()


@pytest.mark.parametrize("scale", ["rms", "none"])
@pytest.mark.parametrize(("cost", "params"), COSTS, ids=lambda x: str(x))
def test_gradient_agrees_with_finite_differences(cost, params, scale):
    X, Y = tensors()
    settings = {**EXACT, "cost": cost, "cost_params": params, "cost_scale": scale}
    if scale == "none":
        fitted = LiftedGWAligner(**{**settings, "cost_scale": "rms"}).fit(
            X.detach(), Y.detach()
        )
        settings["epsilon"] *= fitted.scale_[0] ** 2
    rng = np.random.default_rng(1)
    for debias in (False, True):
        egw_loss(X, Y, debias=debias, **settings).backward()
        for side, gradient in ((0, X.grad), (1, Y.grad)):
            point = (X, Y)[side].detach()
            direction = torch.from_numpy(rng.normal(size=tuple(point.shape)))
            values = []
            for step in (-1e-4, 1e-4):
                moved = [X.detach(), Y.detach()]
                moved[side] = point + step * direction
                values.append(float(egw_loss(*moved, debias=debias, **settings)))
            expected = (values[1] - values[0]) / 2e-4
            found = float((gradient * direction).sum())
            size = float(gradient.norm() * direction.norm())
            assert abs(found - expected) <= 1e-4 * size
        X.grad = Y.grad = None


def test_gradcheck_with_weights_and_few_axes():
    X, Y = tensors(1)
    a = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.2, 0.1], dtype=torch.float64)
    settings = {**EXACT, "cost": "sqeuclidean", "solver": "cnt", "n_components": 2}
    assert torch.autograd.gradcheck(
        lambda X: egw_loss(X, Y.detach(), source_weight=a, **settings),
        (X,),
        atol=1e-4,
        rtol=1e-4,
    )


def test_optimizer_of_torch_shapes_a_cloud():
    rng = np.random.default_rng(0)
    Y = torch.from_numpy(rng.normal(size=(40, 2)) * [3, 1])
    X = torch.from_numpy(rng.normal(size=(40, 2))).requires_grad_()
    optimizer = torch.optim.Adam([X], lr=0.2)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = egw_loss(X, Y, debias=True, epsilon=0.02)
        loss.backward()
        optimizer.step()
        values.append(float(loss))
    assert values[-1] < 0.1 * values[0]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cost": "precomputed"}, "Gradients are known for cost in"),
        ({"cost": lambda U, V: U @ V.T}, "Gradients are known for cost in"),
        ({"diagonal": "truncated"}, "Gradients need diagonal='exact'"),
        ({"cost_scale": "separate"}, "Gradients need cost_scale='rms' or 'none'"),
    ],
)
def test_settings_without_a_gradient_are_refused(params, message):
    X, Y = tensors()
    with pytest.raises(ValueError, match=message):
        egw_loss(X, Y, **params)
    with pytest.raises(ValueError, match=message):
        gw_gradient_flow(X.detach().numpy(), Y.detach().numpy(), **params)


def test_loss_takes_tensors_only():
    X, Y = tensors()
    with pytest.raises(TypeError, match=r"Y is a ndarray\. Use LiftedGWAligner"):
        egw_loss(X, Y.detach().numpy())


def ellipse(ratio, n=60):
    t = 2 * np.pi * np.arange(n) / n
    return np.column_stack([ratio * np.cos(t), np.sin(t)])


def axis_ratio(X):
    return np.sqrt(np.divide(*np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]))


def test_flow_takes_the_shape_of_its_target():
    start, target = ellipse(1.5), ellipse(4) + 9
    flow = gw_gradient_flow(
        start, target, n_steps=60, momentum=0.5, epsilon=2e-3, cost="sqeuclidean"
    )
    assert flow.path.shape == (61, 60, 2)
    np.testing.assert_array_equal(flow.path[0], start)
    np.testing.assert_array_equal(flow.path[-1], flow.X)
    assert flow.loss[-1] < 0.01 * flow.loss[0]
    assert axis_ratio(flow.X) == pytest.approx(4, rel=0.1)


def test_barycenter_lies_between():
    spaces = [ellipse(1.2), ellipse(4)]
    found = {
        share: axis_ratio(
            gw_barycenter(
                spaces, [1 - share, share], init=ellipse(2), n_steps=40, epsilon=2e-3
            ).X
        )
        for share in (0.3, 0.7)
    }
    assert 1.2 < found[0.3] < found[0.7] < 4


def test_descents_keep_library_and_dtype():
    X, Y = tensors(0, 20, 20)
    X, Y = X.detach().float(), Y.detach().float()
    found = gw_gradient_flow(X, Y, n_steps=2, epsilon=0.05)
    assert found.X.dtype == torch.float32
    assert isinstance(found.path, torch.Tensor)
    assert isinstance(found.loss, np.ndarray)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_steps": 0}, "n_steps must be a positive integer, got 0"),
        ({"step_size": -1.0}, "step_size must be positive, got -1.0"),
        ({"step_size": 1e9}, "left the data behind at step 1. Lower step_size"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
        ({"weights": [1.0]}, "one weight, not negative, for each"),
        ({"weights": [1.0, -1.0]}, "one weight, not negative, for each"),
        ({"weights": [0.0, 0.0]}, "one weight, not negative, for each"),
        ({"spaces": []}, "at least one space, got 0 spaces"),
    ],
)
def test_bad_descents_are_named(params, message):
    spaces = params.pop("spaces", [ellipse(1), ellipse(2)])
    with pytest.raises(ValueError, match=message):
        gw_barycenter(spaces, init=ellipse(2), **params)


def test_pairwise_does_not_depend_on_the_number_of_processes():
    spaces = [ellipse(r, 30) for r in (1, 2, 3)]
    one = pairwise_egw(spaces, epsilon=0.05)
    two = pairwise_egw(spaces, epsilon=0.05, n_jobs=2)
    # matrix products round by the number of threads of a process
    np.testing.assert_allclose(one, two, rtol=1e-10)
    np.testing.assert_array_equal(one, one.T)
    expected = LiftedGWAligner(epsilon=0.05).fit(spaces[0], spaces[2]).egw_
    assert one[0, 2] == pytest.approx(expected, rel=1e-10)
