"""Both doors for arrays: same results, same messages, whatever the library."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from skicml.base import (
    check_same_home,
    check_weights,
    check_X,
    check_X_y,
    to_host,
)
from skicml_accel._namespaces import dtype_name

MAKERS = {
    "numpy": np.asarray,
    "torch": torch.asarray,
    "strict": array_api_strict.asarray,
}
DEVICE_MAKERS = {name: make for name, make in MAKERS.items() if name != "numpy"}

library = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
device_library = pytest.mark.parametrize(
    "make", DEVICE_MAKERS.values(), ids=DEVICE_MAKERS
)

X5 = np.random.default_rng(0).random((5, 2))
Y5 = np.arange(5)


class Thing(BaseEstimator):
    """Nothing but a name for error messages."""


def outcome(X):
    """Type and text of the error, or dtype, and the values that check_X gives."""
    try:
        checked = to_host(check_X(Thing(), X))
    except (TypeError, ValueError) as error:
        # libraries print arrays in their own ways
        return type(error), str(error).partition("array=")[0], []
    return checked.dtype, "", checked


@library
@pytest.mark.parametrize(
    ("given_dtype", "expected"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("int32", "float64"),
        ("uint8", "float64"),
        ("bool", "float64"),
    ],
)
def test_check_X_dtype(make, given_dtype, expected):
    given = make(np.ones((3, 2), dtype=given_dtype))
    X = check_X(Thing(), given)
    assert dtype_name(X) == expected
    assert type(X) is type(given)


@pytest.mark.parametrize(
    "half",
    [
        np.ones((3, 2), dtype=np.float16),
        torch.ones((3, 2), dtype=torch.float16),
        torch.ones((3, 2), dtype=torch.bfloat16),
    ],
    ids=["numpy", "torch", "bfloat16"],
)
def test_check_X_half_precision_becomes_single(half):
    assert dtype_name(check_X(Thing(), half)) == "float32"


@library
def test_check_X_copies_nothing_that_need_not_change(make):
    given = make(X5)
    assert np.shares_memory(to_host(check_X(Thing(), given)), to_host(given))


@device_library
@given(
    data=hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    )
)
def test_device_door_agrees_with_scikit_learn(make, data):
    """On anything at all: the same values, or the same error up to its array."""
    expected, actual = outcome(data), outcome(make(data))
    assert actual[:2] == expected[:2]
    np.testing.assert_array_equal(actual[2], expected[2])


def _with(value):
    X = X5.copy()
    X[1, 1] = value
    return X


@library
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (X5[0], "Expected 2D array, got 1D array.*Reshape your data"),
        (X5[0, 0], "Expected 2D array, got scalar array.*Reshape your data"),
        (X5[None], r"Found array with dim 3.*dim <= 2 is required by Thing\."),
        (X5[:0], r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"),
        (X5[:, :0], r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1"),
        (_with(np.inf), r"Input X contains infinity.*dtype\('float64'\)\."),
        (_with(-np.inf), "Input X contains infinity"),
        (X5 + 1j, "Complex data not supported"),
    ],
)
def test_check_X_refuses(make, X, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        check_X(Thing(), make(X))


@library
def test_check_X_nan_message_shows_the_imputer(make):
    with pytest.raises(ValueError, match="contains NaN") as caught:
        check_X(Thing(), make(_with(np.nan)))
    assert str(caught.value) == (
        "Input X contains NaN, which Thing refuses. Put an imputer first: "
        "make_pipeline(SimpleImputer(), Thing())."
    )


@library
def test_check_X_minimum_of_samples(make):
    with pytest.raises(ValueError, match=r"5 sample\(s\).*minimum of 6 is required"):
        check_X(Thing(), make(X5), ensure_min_samples=6)


@library
def test_check_X_large_finite_values_pass(make):
    """A sum that overflows is not an infinity in the data."""
    X = make(np.full((4, 2), 1e308))
    assert check_X(Thing(), X).shape == (4, 2)


@library
def test_check_X_assume_finite_is_honored(make):
    with config_context(assume_finite=True):
        assert check_X(Thing(), make(_with(np.nan))).shape == (5, 2)


@library
def test_check_X_holds_later_data_against_the_fit(make):
    thing = Thing()
    check_X(thing, make(X5))
    assert thing.n_features_in_ == 2
    with pytest.raises(
        ValueError, match="X has 1 features, but Thing is expecting 2 features as input"
    ):
        check_X(thing, make(X5[:, :1]), reset=False, method="predict")


def test_check_X_feature_names():
    thing = Thing()
    check_X(thing, pd.DataFrame(X5, columns=["a", "b"]))
    assert thing.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        check_X(thing, pd.DataFrame(X5, columns=["b", "a"]), reset=False)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        check_X(thing, torch.asarray(X5), reset=False)
    check_X(thing, torch.asarray(X5))
    assert not hasattr(thing, "feature_names_in_")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_check_X_names_the_columns_of_text(frame):
    X = frame({"n": [1.0, 2.0], "city": ["Bonn", "Kiel"], "color": ["red", "blue"]})
    with pytest.raises(ValueError, match="could not convert string") as caught:
        check_X(Thing(), X)
    assert "columns ['city', 'color'] of text" in str(caught.value)
    assert (
        "make_pipeline(make_column_transformer((OneHotEncoder(sparse_output=False), "
        "['city', 'color']), remainder='passthrough'), Thing())"
    ) in str(caught.value)


@pytest.mark.parametrize(
    "X", [[["Bonn"], ["Kiel"]], np.array([["Bonn"]]), np.array([["Bonn"]], object)]
)
def test_check_X_refuses_text_without_names(X):
    with pytest.raises(ValueError, match=r"columns of text.*OneHotEncoder"):
        check_X(Thing(), X)


def test_the_encoder_of_the_message_works():
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    X = pd.DataFrame({"n": [1.0, 2.0], "city": ["Bonn", "Kiel"]})
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough"
    )
    assert check_X(Thing(), encoder.fit_transform(X)).shape == (2, 3)


@pytest.mark.parametrize(
    "sparse", [sp.csr_array(X5), sp.coo_matrix(X5)], ids=["csr", "coo"]
)
def test_check_X_scipy_sparse(sparse):
    with pytest.raises(TypeError, match="Sparse data was passed"):
        check_X(Thing(), sparse)
    X = check_X(Thing(), sparse, accept_sparse=True)
    assert X.format == "csr"
    np.testing.assert_array_equal(X.toarray(), X5)


@pytest.mark.parametrize("accept_sparse", [False, True])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_check_X_refuses_sparse_tensors(accept_sparse):
    X = torch.asarray(X5)
    for sparse in (X.to_sparse(), X.to_sparse_csr()):
        with pytest.raises(
            TypeError,
            match=r"Thing\.predict: X is a sparse tensor of layout torch\.sparse_.*"
            r"Pass X\.to_dense\(\)\.",
        ):
            check_X(Thing(), sparse, accept_sparse=accept_sparse, method="predict")


def test_check_X_detaches():
    X = torch.asarray(X5).requires_grad_()
    assert not check_X(Thing(), X).requires_grad
    assert X.requires_grad


@pytest.mark.gpu
def test_check_X_stays_on_the_gpu():
    X = torch.asarray(X5, device="cuda")
    assert check_X(Thing(), X) is X


@library
@pytest.mark.parametrize("y_dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make_y", [*MAKERS.values(), list, pd.Series])
def test_y_follows_X(make, make_y, dtype, y_dtype):
    given = make(X5.astype(dtype))
    X, y = check_X_y(Thing(), given, make_y(Y5.astype(y_dtype)))
    assert type(y) is type(X) is type(given)
    assert dtype_name(y) == dtype
    np.testing.assert_array_equal(to_host(y), Y5.astype(y_dtype))


def test_y_follows_sparse_X():
    X, y = check_X_y(
        Thing(), sp.csr_array(X5.astype("f4")), torch.asarray(Y5), accept_sparse=True
    )
    assert X.format == "csr"
    assert y.dtype == np.float32


def test_y_follows_X_to_another_device():
    elsewhere = array_api_strict.Device("device1")
    X = array_api_strict.asarray(X5, device=elsewhere)
    _, y = check_X_y(Thing(), X, Y5)
    assert y.device == elsewhere
    _, y = check_X_y(Thing(), X5, array_api_strict.asarray(Y5, device=elsewhere))
    np.testing.assert_array_equal(y, Y5)


@library
def test_y_column_is_flattened_with_a_warning(make):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        _, y = check_X_y(Thing(), make(X5), make(Y5[:, None]))
    assert y.shape == (5,)


@library
def test_y_matrix_needs_multi_output(make):
    X, Y = make(X5), make(np.stack([Y5, Y5], axis=1))
    with pytest.raises(ValueError, match=r"y should be a 1d array.*shape \(5, 2\)"):
        check_X_y(Thing(), X, Y)
    assert check_X_y(Thing(), X, Y, multi_output=True)[1].shape == (5, 2)
    with pytest.raises(ValueError, match="Found array with dim 3"):
        check_X_y(Thing(), X, make(np.ones((5, 2, 2))), multi_output=True)


@library
@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([0, 1, 2], r"inconsistent numbers of samples: \[5, 3\]"),
        ([0, 1, 2, 3, np.nan], "Input y contains NaN"),
        ([0, 1, 2, 3, np.inf], "Input y contains infinity"),
        ([0, 1, 2, 3, 1j], "Complex data not supported"),
    ],
)
@pytest.mark.parametrize("same", [True, False], ids=["same library", "list"])
def test_check_X_y_refuses(make, y, words, same):
    target = make(np.asarray(y)) if same and y is not None else y
    with pytest.raises(ValueError, match=words):
        check_X_y(Thing(), make(X5), target)


@library
def test_y_that_overflows_in_single_precision_is_refused(make):
    with pytest.raises(ValueError, match=r"y contains infinity.*dtype\('float32'\)"):
        check_X_y(Thing(), make(X5.astype("f4")), [0, 1, 2, 3, 1e300])


@library
def test_y_of_text_is_refused_unless_labels_are_wanted(make):
    y = list("abcde")
    with pytest.raises(ValueError, match="y must hold numbers for Thing"):
        check_X_y(Thing(), make(X5), y)
    _, labels = check_X_y(Thing(), make(X5), y, y_numeric=False)
    assert labels.tolist() == y


@library
def test_labels_are_numpy_and_keep_their_dtype(make):
    _, labels = check_X_y(Thing(), make(X5), make(Y5), y_numeric=False)
    assert type(labels) is np.ndarray
    assert labels.dtype == Y5.dtype


def test_sparse_y_is_refused():
    Y = np.stack([Y5, Y5], axis=1)
    for y in (sp.csr_array(Y), torch.asarray(Y).to_sparse()):
        with pytest.raises(TypeError, match=r"(?i)sparse.*y\.to"):
            check_X_y(Thing(), X5, y, multi_output=True)


@library
@pytest.mark.parametrize("make_w", [*MAKERS.values(), list])
def test_weights_follow_X(make, make_w):
    X = make(X5.astype("f4"))
    weights = check_weights(make_w(Y5), X)
    assert type(weights) is type(X)
    assert dtype_name(weights) == "float32"
    np.testing.assert_array_equal(to_host(weights), Y5)


def test_weights_follow_sparse_X():
    assert check_weights(2, sp.csr_array(X5)).tolist() == [2.0] * 5


@library
def test_weights_of_none_stay_none(make):
    assert check_weights(None, make(X5)) is None


@library
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(5), "(?i)weights must contain at least one non-zero"),
        (np.ones((5, 1)), "(?i)weights must be 1D"),
        (np.ones(4), r"source_weight\.shape == \(4,\), expected \(5,\)"),
        (np.array([1, 1, 1, 1, -1.0]), "Negative values in data.*source_weight"),
        (np.array([1, 1, 1, 1, np.nan]), "source_weight contains NaN"),
    ],
)
def test_weights_refused(make, weights, words):
    with pytest.raises(ValueError, match=words):
        check_weights(make(weights), make(X5), name="source_weight")


def test_same_home_accepts_what_numpy_reads():
    thing = Thing()
    thing.X_ = X5
    for X in (X5, X5.tolist(), pd.DataFrame(X5), pl.DataFrame(X5), sp.csr_array(X5)):
        check_same_home(thing, X, "X_", "predict")
    thing.X_ = sp.csr_array(X5)
    check_same_home(thing, X5, "X_", "predict")


@device_library
def test_same_home_refuses_another_library(make):
    thing = Thing()
    thing.X_ = make(X5)
    check_same_home(thing, make(X5), "X_", "predict")
    with pytest.raises(
        ValueError,
        match=r"Thing\.predict\(\) must use the same namespace and the same device.*"
        r"skicml\.base\.move_to\(estimator, X\)",
    ):
        check_same_home(thing, X5, "X_", "predict")


def test_same_home_refuses_another_device():
    thing = Thing()
    thing.X_ = array_api_strict.asarray(X5)
    X = array_api_strict.asarray(X5, device=array_api_strict.Device("device1"))
    with pytest.raises(ValueError, match=r"fit\(\) got .*CPU_DEVICE.*predict.*device1"):
        check_same_home(thing, X, "X_", "predict")
