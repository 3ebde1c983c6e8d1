"""Regression by epistemic nearest neighbors (arXiv 2506.12818)."""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import sklearn
from scipy.sparse import csr_array
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skicml.base import (
    RANDOM_STATE,
    SkicmlEstimator,
    check_generator,
    check_same_home,
    check_weights,
    check_X,
    check_X_y,
    resolve_device,
    to_device,
    to_host,
    to_like,
    validated_fit,
    warn_user,
)
from skicml.base._sklearn_compat import Interval, StrOptions
from skicml.neighbors._enn_fit import (
    HeldOut,
    draw_held_out,
    fit_one,
    fit_profile,
    fit_random,
    truncate_mass,
)
from skicml.neighbors._training_rows import (
    TrainingRows,
    check_magnitude,
    check_target_magnitude,
    check_y_var,
    column_scale,
    take_rows,
    target_spread,
)
from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind, namespace_of
from skicml_accel.neighbors import enn_posterior, enn_precision, knn


class ENNRegressor(MultiOutputMixin, RegressorMixin, SkicmlEstimator):
    r"""Nearest-neighbor regression with a calibrated variance at the cost of a search.

    Use it where a Gaussian process would give the mean and the uncertainty you want
    but has too many rows to fit: both fit and prediction cost one exact nearest
    neighbor search. Prefer a Gaussian process below about a thousand rows of a smooth
    function, and a tree ensemble when only the mean matters.

    The prediction is the mean of the nearest targets, weighted by their precision.
    A neighbor at distance :math:`d_i` has the variance
    :math:`\nu_i = a d_i^2 + b + v_i/s^2` in units of the variance :math:`s^2` of y:

    .. math::
        \mu = \frac{\sum_i y_i / \nu_i}{\sum_i 1 / \nu_i}, \qquad
        \sigma_e^2 = \frac{s^2}{\sum_i 1/\nu_i}, \qquad
        \sigma^2 = \sigma_e^2 + s^2 b.

    The epistemic part :math:`\sigma_e` shrinks where data are dense and grows linearly
    with the distance to them; the aleatoric part is the noise. The two scales a and b
    maximize the likelihood of ``n_fit_samples`` rows, each predicted from its nearest
    other rows. With ``fit_method="profile"`` the best a follows in closed form for
    each ratio b/a and the ratio is searched on a line, which is exact and needs no
    random candidates; "random" is the search of the paper's code.

    Parameters
    ----------
    n_neighbors : int, default=10
        Neighbors of each prediction; clipped to the number of rows, with a warning.
    fit_method : {"profile", "random"}, default="profile"
        How the two scales are found.
    n_fit_samples : int, default=100
        Rows held out one at a time to find them; all rows if there are no more.
    n_fit_candidates : int, default=100
        Pairs tried by ``fit_method="random"``.
    epistemic_scale : float or None, default=None
        The scale a >= 0, variance per squared distance in units of the variance of y;
        None fits it.
    aleatoric_variance : float or None, default=None
        The scale b >= 0, noise variance in units of the variance of y; None fits it.
    scale_X : bool, default=False
        Divide each column by its standard deviation before distances are taken.
    device : str or None, default=None
        Where to compute, such as "cpu" or "cuda"; results come back where X is. None
        computes where X is.
    warm_start : bool, default=False
        Let the scales of the previous fit compete with those found.
    random_state : int, RandomState, Generator or None, default=None
        Chooses the rows held out, and the candidates of "random".

    Attributes
    ----------
    X_train_ : array of shape (n_samples_fit_, n_features_in_)
        Training rows, in the library and on the device of X.
    y_train_ : array of shape (n_samples_fit_,) or (n_samples_fit_, n_outputs)
        Their targets, in the floating dtype of X.
    epistemic_scale_ : float or ndarray of shape (n_outputs,)
        The scale a in use.
    aleatoric_variance_ : float or ndarray of shape (n_outputs,)
        The scale b in use.
    y_scale_ : float or ndarray of shape (n_outputs,)
        Standard deviation of y; 1 where y is constant.
    loo_log_likelihood_ : float or ndarray of shape (n_outputs,)
        Log likelihood of the held-out rows at these scales, in nats.
    X_scale_ : ndarray of shape (n_features_in_,)
        Divisor of each column; ones without ``scale_X``.
    n_samples_fit_ : int
        Rows in use, those of weight zero left out.
    n_features_in_ : int
        Columns seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string names.

    See Also
    --------
    sklearn.neighbors.KNeighborsRegressor : The mean alone.
    sklearn.gaussian_process.GaussianProcessRegressor : Exact posterior, cubic cost.
    skicml.optimize.TuRBOENN : Optimization with this model.

    Notes
    -----
    Fit: O(P n d) for P held-out rows. Prediction of m rows: O(m n d) flops, memory
    beside the result within scikit-learn's ``working_memory``. Neighbors are exact;
    equal distances are ordered by row. Deterministic given ``random_state``.

    The means never leave the range of the neighbors' targets: ENN does not
    extrapolate. Missing values are refused, and distances need comparable columns:
    put an imputer, an encoder and a scaler first, or set ``scale_X``. For
    classification wrap it in one-vs-rest on indicator targets.

    References
    ----------
    K. Bafna, S. Jadhav and D. Sweet, "Taking the GP Out of the Loop", ICML 2026,
    arXiv 2506.12818. The profile fit, weights and ``scale_X`` are additions of ours.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml import ENNRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = ENNRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[1.5], [9.0]], return_std=True)
    >>> mean.round(2).tolist(), bool(std[1] > 10 * std[0])
    ([1.0, -0.4], True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "fit_method": [StrOptions({"profile", "random"})],
        "n_fit_samples": [Interval(Integral, 2, None, closed="left")],
        "n_fit_candidates": [Interval(Integral, 1, None, closed="left")],
        "epistemic_scale": [Interval(Real, 0, None, closed="left"), None],
        "aleatoric_variance": [Interval(Real, 0, None, closed="left"), None],
        "scale_X": ["boolean"],
        "device": [str, None],
        "warm_start": ["boolean"],
        "random_state": RANDOM_STATE,
    }

    #: Attributes that follow from the stored rows.
    _VIEWS: ClassVar[tuple[str, ...]] = (
        "X_train_",
        "y_train_",
        "X_scale_",
        "_search_rows",
    )

    def __init__(
        self,
        n_neighbors=10,
        *,
        fit_method="profile",
        n_fit_samples=100,
        n_fit_candidates=100,
        epistemic_scale=None,
        aleatoric_variance=None,
        scale_X=False,
        device=None,
        warm_start=False,
        random_state=None,
    ):
        self.n_neighbors = n_neighbors
        self.fit_method = fit_method
        self.n_fit_samples = n_fit_samples
        self.n_fit_candidates = n_fit_candidates
        self.epistemic_scale = epistemic_scale
        self.aleatoric_variance = aleatoric_variance
        self.scale_X = scale_X
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state

    @validated_fit
    def fit(self, X, y, sample_weight=None, y_var=None):
        """Store the rows and find the two scales.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_samples, n_features)
            Training rows; NumPy, pandas, torch, CuPy or CSR.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets. Outputs share the neighbors and have scales of their own.
        sample_weight : array of shape (n_samples,) or None, default=None
            How often each row counts; a row of weight 0 is left out.
        y_var : array with the shape of y or None, default=None
            Known variance of the noise of each target, in squared units of y.

        Returns
        -------
        ENNRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If an array has a wrong shape, is not finite, or y_var is negative.
        """
        previous = self._scales() if self.warm_start else None
        self._rows = TrainingRows(*self._check_rows(X, y, sample_weight, y_var))
        self._view_rows()
        self._fit_scales(previous)
        return self

    @validated_fit
    def partial_fit(self, X, y, sample_weight=None, y_var=None):
        """Add rows and find the scales again, at the cost of the new rows and a search.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_samples, n_features)
            More rows, of the kind given first.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array of shape (n_samples,) or None, default=None
            How often each row counts; None means once.
        y_var : array with the shape of y or None, default=None
            Variance of their noise; given either always or never.

        Returns
        -------
        ENNRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            As :meth:`fit`, and if the rows do not fit those given before.
        """
        if not hasattr(self, "X_train_"):
            return self.fit(X, y, sample_weight=sample_weight, y_var=y_var)
        check_same_home(self, X, "X_train_", "partial_fit")
        previous = self._scales() if self.warm_start else None
        self._rows.append(*self._check_rows(X, y, sample_weight, y_var, reset=False))
        self._view_rows()
        self._fit_scales(previous)
        return self

    def predict(
        self,
        X,
        return_std=False,
        return_parts=False,
        include_noise=True,
        batch_size=None,
    ):
        """Predict the mean, and on request how uncertain it is.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_queries, n_features)
            Rows to predict, of the kind given to fit.
        return_std : bool, default=False
            Return the standard deviation too.
        return_parts : bool, default=False
            Return its epistemic and aleatoric parts instead.
        include_noise : bool, default=True
            Whether the standard deviation is that of a new observation (True) or of
            the mean (False).
        batch_size : int or None, default=None
            Rows predicted at a time; None fits them to the working memory. The result
            does not depend on it.

        Returns
        -------
        mean : array of shape (n_queries,) or (n_queries, n_outputs)
            In the library, on the device and in the dtype of X.
        std : array with the shape of mean
            Only with ``return_std``, in units of y.
        std_epistemic, std_aleatoric : arrays with the shape of mean
            Only with ``return_parts``, in units of y.

        Raises
        ------
        ValueError
            If X does not fit the training rows.
        """
        X = self._check_query(X, "predict")
        if batch_size is not None:
            _check_count("predict", "batch_size", batch_size)
        pieces = [
            enn_posterior(d2, index, self._rows.y_table, mass=mass, **self._posterior())
            for d2, index, mass in self._batches(X, batch_size)
        ]
        xp = namespace_of(self.y_train_)
        mean, epistemic, noise = (
            self._shaped(xp.concat(parts, axis=0))
            for parts in zip(*pieces, strict=True)
        )
        if return_parts:
            return mean, xp.sqrt(epistemic), xp.sqrt(noise)
        if return_std:
            return mean, xp.sqrt(epistemic + noise if include_noise else epistemic)
        return mean

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw functions from the model and evaluate them at X.

        One draw is one coherent function: each training row contributes one normal
        variable, so that neighbors move together and equal rows agree.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_queries, n_features)
            Where to evaluate.
        n_samples : int, default=1
            How many functions to draw.
        random_state : int, RandomState, Generator or None, default=0
            The same int gives the same functions, also at other rows.

        Returns
        -------
        array of shape (n_queries, n_samples) or (n_queries, n_outputs, n_samples)
            Values without noise, in units of y.
        """
        X = self._check_query(X, "sample_y")
        _check_count("sample_y", "n_samples", n_samples)
        xp = namespace_of(self.y_train_)
        streams = check_generator(random_state).spawn(n_samples)
        normals = [
            to_like(g.standard_normal(self._rows.y_table.shape), self.y_train_)
            for g in streams
        ]
        pieces = []
        for d2, index, mass in self._batches(X, None):
            scales = self._posterior()
            mean, epistemic, _ = enn_posterior(
                d2, index, self._rows.y_table, mass=mass, **scales
            )
            precision = enn_precision(d2, index, mass=mass, **scales)
            length = xp.sqrt(xp.sum(precision**2, axis=1))
            std = xp.sqrt(epistemic) / length
            draws = []
            for normal in normals:
                drawn = xp.reshape(
                    xp.take(normal, xp.reshape(index, (-1,)), axis=0), precision.shape
                )
                draws.append(mean + std * xp.sum(precision * drawn, axis=1))
            pieces.append(xp.stack(draws, axis=2))
        sampled = xp.concat(pieces, axis=0)
        return sampled if self.y_train_.ndim == 2 else sampled[:, 0, :]

    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """Find the nearest training rows.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_queries, n_features) or None
            Rows whose neighbors are wanted; None means the training rows, each
            without itself.
        n_neighbors : int or None, default=None
            How many; None means the estimator's, clipped to the rows there are.
        return_distance : bool, default=True
            Whether to return distances too.

        Returns
        -------
        distance : array of shape (n_queries, n_neighbors)
            Euclidean, nearest first; after scaling with ``scale_X``.
        index : array of shape (n_queries, n_neighbors)
            Rows of ``X_train_``.

        Raises
        ------
        ValueError
            If more neighbors are asked for than there are rows.
        """
        check_is_fitted(self)
        available = self.n_samples_fit_ - (X is None)
        k = min(self.n_neighbors, available) if n_neighbors is None else n_neighbors
        _check_count("kneighbors", "n_neighbors", k)
        if not 1 <= k <= available:
            raise ValueError(
                f"ENNRegressor.kneighbors: expected n_neighbors between 1 and "
                f"{available}, the training rows to choose from, got {k}. "
                "Ask for fewer."
            )
        data = self._search_rows
        if X is None:
            query = data
            own = to_like(np.arange(self.n_samples_fit_), data, cast=False)
        else:
            query, own = self._scaled(self._check_query(X, "kneighbors")), None
        d2, index = self._knn(query, data, k=k, exclude=own)
        return (namespace_of(d2).sqrt(d2), index) if return_distance else index

    def log_marginal_likelihood_loo(
        self, epistemic_scale=None, aleatoric_variance=None
    ):
        """Log likelihood of the held-out rows, each given its nearest other rows.

        Parameters
        ----------
        epistemic_scale : float or None, default=None
            The scale a; None means the fitted one.
        aleatoric_variance : float or None, default=None
            The scale b; None means the fitted one.

        Returns
        -------
        float or ndarray of shape (n_outputs,)
            In nats, over the rows that fit held out; NaN-free, -inf where the density
            vanishes, 0 where there is a single row and so nothing to hold out.
        """
        check_is_fitted(self)
        for name, scale in (
            ("epistemic_scale", epistemic_scale),
            ("aleatoric_variance", aleatoric_variance),
        ):
            if scale is not None and not (
                isinstance(scale, Real) and float(scale) >= 0
            ):
                raise ValueError(
                    f"ENNRegressor.log_marginal_likelihood_loo: {name} must be a "
                    f"number of at least 0, got {scale!r}. None takes the fitted one."
                )
        held_out = self._held_out
        if held_out is None:
            rng = check_generator(self.random_state)
            held_out = self._hold_out(rng, np.atleast_1d(to_host(self.y_scale_)))
        values = [
            rows.log_likelihood(
                a if epistemic_scale is None else epistemic_scale,
                b if aleatoric_variance is None else aleatoric_variance,
            )[0]
            # a single row leaves nothing to hold out
            for rows, (a, b) in zip(held_out, self._scales(), strict=bool(held_out))
        ]
        return self._per_output(values or np.zeros(self._rows.y_table.shape[1]))

    def score(self, X, y, sample_weight=None):
        """Coefficient of determination of the predicted mean.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_queries, n_features)
            Rows to predict.
        y : array of shape (n_queries,) or (n_queries, n_outputs)
            Their targets.
        sample_weight : array of shape (n_queries,) or None, default=None
            Weights of the rows in the score.

        Returns
        -------
        float
            R squared, averaged over outputs; 1 is perfect.
        """
        from sklearn.metrics import r2_score

        weight = None if sample_weight is None else to_host(sample_weight)
        return r2_score(to_host(y), to_host(self.predict(X)), sample_weight=weight)

    def _check_rows(self, X, y, sample_weight, y_var, reset=True):
        """Validate one set of rows and leave out those of weight zero."""
        X, y = check_X_y(
            self,
            X,
            y,
            multi_output=True,
            accept_sparse="csr",
            reset=reset,
            method="fit" if reset else "partial_fit",
        )
        check_magnitude(X)
        check_target_magnitude(y)
        if not reset and y.shape[1:] != self.y_train_.shape[1:]:
            raise ValueError(
                "ENNRegressor.partial_fit: y has shape "
                f"{tuple(y.shape)}, but {tuple(self.y_train_.shape)} was seen before. "
                "Give as many outputs as in the first call."
            )
        weight = None if sample_weight is None else check_weights(sample_weight, X)
        if y_var is not None:
            y_var = to_like(y_var, y)
            check_y_var(y_var, y)
        if weight is not None and bool((weight == 0).any()):
            kept = weight > 0
            X, y, weight = X[kept], y[kept], weight[kept]
            y_var = None if y_var is None else y_var[kept]
        return X, y, weight, y_var

    def _view_rows(self):
        """Set the attributes that follow from the stored rows."""
        rows = self._rows
        self.X_train_, self.y_train_ = rows.X, rows.y
        self.n_samples_fit_ = len(rows)
        scale = np.ones(self.n_features_in_)
        if self.scale_X:
            scale = column_scale(rows.X, rows.weight)
        self.X_scale_ = to_like(scale, rows.y)
        self._search_rows = self._scaled(rows.X)

    def _fit_scales(self, previous):
        """Set the two scales from held-out rows."""
        n = self.n_samples_fit_
        self._warn_of_few_rows(n)
        rng = check_generator(self.random_state)
        y = self._rows.y_table
        scale = np.atleast_1d(target_spread(to_host(y), self._rows.host_weight))
        self.y_scale_ = self._per_output(scale)
        a, b = self.epistemic_scale, self.aleatoric_variance
        self._held_out = None
        if a is not None and b is not None:
            found = [(a, b)] * scale.shape[0]
        elif n == 1:
            # a single row says nothing about either scale
            alone = 1.0 if a is None else a, 0.0 if b is None else b
            found = [alone] * scale.shape[0]
            self._held_out = []
        else:
            self._held_out = self._hold_out(rng, scale)
            if previous is None or len(previous) != scale.shape[0]:
                previous = [None] * scale.shape[0]
            found = [
                self._fit_one_output(rows, rng, pair)
                for rows, pair in zip(self._held_out, previous, strict=True)
            ]
        epistemic, aleatoric = zip(*found, strict=True)
        self.epistemic_scale_ = self._per_output(epistemic)
        self.aleatoric_variance_ = self._per_output(aleatoric)

    def _warn_of_few_rows(self, n):
        """Say once when every row is a neighbor of every prediction."""
        weight, k = self._rows.host_weight, self.n_neighbors
        # rows that may be needed to make up the mass of n_neighbors
        self._most_neighbors = min(k, n)
        if k > n:
            warn_user(
                f"n_neighbors={k} is more than the {n} training rows; {n} are used. "
                "Lower n_neighbors or give more rows.",
            )
        elif weight is not None:
            lightest = np.cumsum(np.sort(weight))
            self._most_neighbors = min(n, 1 + int(np.searchsorted(lightest, k)))
            if lightest[-1] < k:
                warn_user(
                    f"sample_weight sums to {lightest[-1]:.3g}, less than n_neighbors="
                    f"{k}, so every row takes part in every prediction. A weight says "
                    "how often a row counts: multiply the weights, or lower "
                    "n_neighbors.",
                )

    @property
    def loo_log_likelihood_(self):
        """Log likelihood of the held-out rows at the scales in use, in nats."""
        check_is_fitted(self)
        return self.log_marginal_likelihood_loo()

    def _fit_one_output(self, held_out, rng, previous):
        a, b = self.epistemic_scale, self.aleatoric_variance
        if a is not None or b is not None:
            return fit_one(held_out, a=a, b=b)[:2]
        if self.fit_method == "profile":
            return fit_profile(held_out, previous)[:2]
        return fit_random(held_out, self.n_fit_candidates, rng, previous)[:2]

    def _hold_out(self, rng, scale):
        """Draw rows and find their nearest other rows; one HeldOut for each output."""
        weight = self._rows.host_weight
        index, count = draw_held_out(
            weight, self.n_samples_fit_, self.n_fit_samples, rng
        )
        own = to_like(index, self.y_train_, cast=False)
        query = take_rows(self._search_rows, own)
        d2, nearest, mass = self._neighbors(query, own)
        d2, mass = to_host(d2), to_host(mass)
        y = self._rows.y_table
        neighbors, held = to_host(take_rows(y, nearest)), to_host(take_rows(y, own))
        v = self._rows.y_var_table
        v_neighbors = None if v is None else to_host(take_rows(v, nearest))
        return [
            HeldOut(
                d2.astype(float),
                neighbors[:, :, t].astype(float) / s,
                held[:, t].astype(float) / s,
                mass=mass.astype(float),
                weight=count,
                y_var_neighbors=(
                    None
                    if v_neighbors is None
                    else v_neighbors[:, :, t].astype(float) / s**2
                ),
            )
            for t, s in enumerate(scale)
        ]

    def _neighbors(self, query, own=None):
        """Nearest rows that hold the mass of n_neighbors; own rows lose one unit.

        Returns squared distances, indices and masses, all of shape (m, k); the masses
        are None where every row counts once.
        """
        data = self._search_rows
        n = data.shape[0]
        weight = self._rows.weight
        count = min(self.n_neighbors + (own is not None), n)
        while True:
            d2, index = self._knn(query, data, k=count)
            if weight is None and own is None:
                return d2, index, None
            xp = namespace_of(d2)
            mass = xp.ones_like(d2) if weight is None else take_rows(weight, index)
            if own is not None:
                mass = xp.where(index == own[:, None], xp.clip(mass - 1, min=0), mass)
            if count == n or bool(xp.all(xp.sum(mass, axis=1) >= self.n_neighbors)):
                return d2, index, truncate_mass(mass, self.n_neighbors)
            # rows lighter than one: look farther until the mass suffices
            count = min(2 * count, n)

    def _batches(self, X, batch_size):
        """Yield blocks of queries with their neighbors."""
        n_outputs = self._rows.y_table.shape[1]
        bytes_per_row = 40 * self._most_neighbors * n_outputs
        blocks = (
            row_chunks(X.shape[0], bytes_per_row, _working_bytes())
            if batch_size is None
            else row_chunks(X.shape[0], 1, batch_size)
        )
        for rows in blocks:
            yield self._neighbors(self._scaled(X[rows, :]))

    def _check_query(self, X, method):
        check_is_fitted(self)
        check_same_home(self, X, "X_train_", method)
        X = check_X(self, X, reset=False, accept_sparse="csr", method=method)
        check_magnitude(X)
        return X

    def _knn(self, query, data, **kwargs):
        """Search where ``device`` says; results come back where the query is."""
        kwargs["chunk_bytes"] = _working_bytes()
        if array_kind(query) != array_kind(data):
            # one of them is sparse: the query follows the training rows
            sparse = array_kind(data) == "scipy.sparse"
            query = csr_array(query) if sparse else query.toarray()
        if self.device is None:
            return knn(query, data, **kwargs)
        device = resolve_device(self.device)
        distance, index = knn(
            to_device(query, device), to_device(data, device), **kwargs
        )
        return to_like(distance, query), to_like(index, query, cast=False)

    def _scaled(self, X):
        """Rows in the units in which distances are taken."""
        if not self.scale_X:
            return X
        if array_kind(X) == "scipy.sparse":
            return csr_array(X.multiply(1 / self.X_scale_), dtype=X.dtype)
        return X / self.X_scale_

    def _posterior(self):
        """Keywords of the posterior kernel, in the home of the targets."""
        keywords = {
            name: to_like(
                np.atleast_1d(to_host(getattr(self, name + "_"))), self.y_train_
            )
            for name in ("epistemic_scale", "aleatoric_variance", "y_scale")
        }
        return keywords | {"y_var": self._rows.y_var_table}

    def _shaped(self, values):
        """One column for each output becomes what y looked like."""
        return values if self.y_train_.ndim == 2 else values[:, 0]

    def _per_output(self, values):
        """One number for each output becomes a float where y was 1-D."""
        values = np.asarray(values, dtype=float)
        if self.y_train_.ndim == 2:
            return to_like(values, self.y_train_)
        return float(values[0])

    def _scales(self):
        """Pairs of scales of the previous fit, None before the first."""
        if not hasattr(self, "epistemic_scale_"):
            return None
        scales = (self.epistemic_scale_, self.aleatoric_variance_)
        return list(zip(*(np.atleast_1d(to_host(s)) for s in scales), strict=True))

    def __getstate__(self):
        """State for pickling; the rows stand in it once."""
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in self._VIEWS}

    def __setstate__(self, state):
        """Restore a pickled state."""
        super().__setstate__(state)
        if hasattr(self, "_rows"):
            self._view_rows()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.sparse = True
        return tags


def extended(model, X, y):
    """Copy of a fitted model that also knows some more rows, its scales unchanged.

    Parameters
    ----------
    model : ENNRegressor
        A fitted model; it is not changed. The new rows count as exact. The copy
        shares its memory and must be dropped before the model is fitted further.
    X : array of shape (n_rows, n_features)
        Rows in the home and dtype of ``X_train_``.
    y : array of shape (n_rows,)
        Their targets.

    Returns
    -------
    ENNRegressor
        At the cost of the new rows.
    """
    copied = copy.copy(model)
    copied._rows = model._rows.fork()
    exact = None if model._rows.y_var_table is None else namespace_of(y).zeros_like(y)
    copied._rows.append(X, y, None, exact)
    copied._view_rows()
    return copied


def _check_count(method, name, value):
    """Refuse what is not a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(
            f"ENNRegressor.{method}: expected {name} to be an integer of at least 1, "
            f"got {value!r}. Raise it."
        )


def _working_bytes():
    """Bytes of temporaries that scikit-learn's configuration grants."""
    return int(sklearn.get_config()["working_memory"] * 2**20)
