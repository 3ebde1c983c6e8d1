"""Moving arrays and estimators between libraries and devices."""

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skicml import ENNRegressor
from skicml.base import (
    is_device_array,
    move_to,
    resolve_device,
    to_device,
    to_host,
    to_like,
)
from skicml.base._growing import GrowingRows

DEVICE1 = array_api_strict.Device("device1")

HOMES = {
    "numpy": np.ones(2),
    "torch": torch.ones(2, dtype=torch.float64),
    "strict": array_api_strict.ones(2),
    "device1": array_api_strict.ones(2, device=DEVICE1),
}

home = pytest.mark.parametrize("like", HOMES.values(), ids=HOMES)
source = pytest.mark.parametrize("start", HOMES.values(), ids=HOMES)


def is_at(array, like):
    return type(array) is type(like) and array.device == like.device


@source
@home
def test_to_like_moves_values(start, like):
    values = np.array([[1.5, -2.0], [0.0, 4.0]])
    there = to_like(to_like(values, start), like)
    assert is_at(there, like)
    np.testing.assert_array_equal(to_host(there), values)


@home
def test_to_like_returns_the_array_itself_where_nothing_changes(like):
    assert to_like(like, like) is like


@home
@pytest.mark.parametrize("given", [[1, 2], np.array([1, 2]), torch.tensor([1, 2])])
def test_to_like_casts_to_floating(given, like):
    assert to_like(given, like).dtype == like.dtype


@home
def test_to_like_keeps_an_index(like):
    index = to_like(np.array([3, 1]), like, cast=False)
    assert is_at(index, like)
    assert to_host(index).dtype.kind == "i"


def test_to_like_follows_no_integer_dtype():
    assert to_like(np.array([0.5]), torch.tensor([1])).dtype == torch.float64


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.filterwarnings("error")
def test_to_like_takes_read_only_and_reversed_arrays(step):
    values = np.arange(3.0)[::step]
    values.flags.writeable = False
    assert to_like(values, torch.ones(1)).tolist() == values.tolist()


def test_to_host_takes_gradients_and_leaves_the_rest():
    parameter = torch.ones(2, requires_grad=True)
    assert to_host(parameter).tolist() == [1.0, 1.0]
    for value in ([1, 2], 3.0, None, "text"):
        assert to_host(value) is value
        assert not is_device_array(value)


def test_resolve_device_on_the_cpu():
    assert resolve_device(None) is None
    assert resolve_device("cpu") == "cpu"
    assert resolve_device(torch.device("cpu")) == "cpu"


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CPU", 0, "mps"])
def test_resolve_device_refuses_other_names(device):
    with pytest.raises(ValueError, match="device must be None, 'cpu', 'cuda' or"):
        resolve_device(device)


def test_resolve_device_says_what_is_there():
    with pytest.raises(
        RuntimeError, match=r"'cuda:99' was requested, but torch sees only cpu"
    ):
        resolve_device("cuda:99")


@pytest.mark.gpu
def test_resolve_device_on_the_gpu():
    assert resolve_device("cuda") == f"cuda:{torch.cuda.current_device()}"
    assert resolve_device("cuda:0") == "cuda:0"


@pytest.mark.parametrize("device", [None, "cpu"])
def test_to_device_leaves_what_is_there(device):
    for array in (np.ones(2), torch.ones(2)):
        assert to_device(array, device) is array


@pytest.mark.gpu
def test_to_device_and_back():
    there = to_device(np.arange(3.0), "cuda:0")
    assert there.device == torch.device("cuda:0")
    assert to_like(there, np.ones(1)).tolist() == [0.0, 1.0, 2.0]
    assert to_device(there, "cpu").device.type == "cpu"


@home
def test_move_to_moves_fitted_arrays_only(like):
    fitted = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    fitted.feature_names_in_ = np.array(["a"], dtype=object)
    fitted.pair_ = (np.ones(1), {"x": [np.arange(2)]})
    moved = move_to(fitted, like)
    assert is_at(moved.coef_, like)
    assert is_at(moved.pair_[0], like)
    assert is_at(moved.pair_[1]["x"][0], like)
    assert moved.feature_names_in_ is fitted.feature_names_in_
    assert moved.rank_ == fitted.rank_
    assert type(fitted.coef_) is np.ndarray
    np.testing.assert_array_equal(to_host(moved.coef_), fitted.coef_)


def test_move_to_leaves_parameters_and_classes():
    fitted = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    fitted.copy_X = np.ones(1)
    fitted.classes_ = np.arange(2)
    moved = move_to(fitted, torch.ones(1))
    assert moved.copy_X is fitted.copy_X
    assert moved.classes_ is fitted.classes_


def test_move_to_reaches_into_estimators():
    fitted = StandardScaler().fit([[0.0], [1.0]])
    fitted.inner_ = StandardScaler().fit([[0.0], [2.0]])
    moved = move_to(fitted, torch.ones(1))
    assert moved.inner_.mean_.tolist() == [1.0]
    assert type(moved.inner_.mean_) is torch.Tensor


def test_move_to_moves_the_steps_of_a_pipeline():
    fitted = make_pipeline(StandardScaler()).fit([[0.0], [1.0]])
    moved = move_to(fitted, torch.ones(1))
    assert type(moved[-1].mean_) is torch.Tensor
    assert type(fitted[-1].mean_) is np.ndarray


@home
def test_move_to_moves_growing_rows(like):
    fitted = StandardScaler().fit([[0.0], [1.0]])
    fitted._rows = GrowingRows(np.ones((2, 3)))
    fitted._rows.append(np.zeros((1, 3)))
    moved = move_to(fitted, like)
    moved._rows.append(to_like(np.full((1, 3), 2.0), like))
    assert is_at(moved._rows.rows, like)
    assert to_host(moved._rows.rows)[:, 0].tolist() == [1.0, 1.0, 0.0, 2.0]
    assert fitted._rows.rows[:, 0].tolist() == [1.0, 1.0, 0.0]


def test_move_to_refuses_sparse_state():
    fitted = StandardScaler().fit([[0.0], [1.0]])
    fitted.X_ = sp.csr_array(np.eye(2))
    assert move_to(fitted, np.ones(1)).X_ is fitted.X_
    with pytest.raises(TypeError, match=r"sparse matrix cannot move to torch.*toarray"):
        move_to(fitted, torch.ones(1))


def test_move_to_makes_a_model_predict_elsewhere():
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 2)), rng.random(50)
    fitted = ENNRegressor(random_state=0).fit(X, y)
    tensor = torch.asarray(X)
    with pytest.raises(ValueError, match="move_to"):
        fitted.predict(tensor)
    moved = move_to(fitted, tensor)
    predicted = moved.predict(tensor)
    assert type(predicted) is torch.Tensor
    np.testing.assert_allclose(predicted.numpy(), fitted.predict(X), rtol=1e-10)
    back = move_to(moved, X)
    np.testing.assert_array_equal(back.predict(X), fitted.predict(X))
