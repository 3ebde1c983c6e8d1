"""A template: rows divided by a number."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skicml.base import SkicmlEstimator, check_same_home, check_X, validated_fit
from skicml.base._sklearn_compat import Interval


class Name(OneToOneFeatureMixin, TransformerMixin, SkicmlEstimator):
    """Say in one line what it does.

    Say when to use it and when not, and how it works, with the formula.

    Parameters
    ----------
    factor : float, default=2.0
        Divisor of the result.

    Attributes
    ----------
    X_train_ : array of shape (n_samples, n_features_in_)
        Training rows.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : A peer.

    Notes
    -----
    O(n d) time and memory.

    References
    ----------
    Authors, "Title", venue, year, arXiv id.

    Examples
    --------
    >>> import numpy as np
    >>> Name(4.0).fit_transform(np.ones((3, 1)))[0].tolist()
    [0.25]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "factor": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, factor=2.0):
        self.factor = factor

    @validated_fit
    def fit(self, X, y=None):
        """Store the rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        Name
            The fitted estimator.
        """
        self.X_train_ = check_X(self, X)
        return self

    def transform(self, X):
        """Divide rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows of any number.

        Returns
        -------
        array of shape (n_samples, n_features)
            In the library, on the device and in the dtype of X.
        """
        check_is_fitted(self)
        check_same_home(self, X, "X_train_", "transform")
        return check_X(self, X, reset=False, method="transform") / self.factor

    def __sklearn_tags__(self):
        """Tell scikit-learn what it can do."""
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
