"""Moments and leave-one-out likelihood of epistemic nearest neighbors (ENN).

Source: Bafna, Jadhav and Sweet, "Taking the GP Out of the Loop", arXiv 2506.12818.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from skicml_accel._namespaces import namespace_of, require_same
from skicml_accel._registry import op
from skicml_accel._types import Array

#: Added to every variance, in units of the variance of y.
EPS = 1e-9


@op
def enn_posterior(
    squared_distance: Array,
    index: Array,
    y: Array,
    *,
    epistemic_scale: Array,
    aleatoric_variance: Array,
    y_scale: Array,
    y_var: Array | None = None,
    mass: Array | None = None,
) -> tuple[Array, Array, Array]:
    r"""Precision-weighted mean and variances over the nearest neighbors.

    With :math:`\nu_i = \epsilon + a d_i^2 + b + v_i / s^2` and :math:`w_i = c_i/\nu_i`,

    .. math::
        \mu = \frac{\sum_i w_i y_i}{\sum_i w_i}, \qquad
        \sigma_e^2 = \frac{s^2}{\sum_i w_i}, \qquad
        \sigma_n^2 = s^2 \frac{\sum_i w_i (b + v_i / s^2)}{\sum_i w_i},

    where a is ``epistemic_scale``, b ``aleatoric_variance``, s ``y_scale``, v
    ``y_var``, c ``mass`` and :math:`\epsilon = 10^{-9}`.

    Parameters
    ----------
    squared_distance : array of shape (m, k)
        From the query to each neighbor, floating.
    index : array of shape (m, k)
        Rows of ``y``, integer.
    y : array of shape (n, t)
        Observations of t outputs.
    epistemic_scale : array of shape (t,)
        Variance per squared distance, in units of the variance of y.
    aleatoric_variance : array of shape (t,)
        Variance of the noise, in units of the variance of y.
    y_scale : array of shape (t,)
        Standard deviation of y.
    y_var : array of shape (n, t) or None, default=None
        Variance of each observation, in squared units of y.
    mass : array of shape (m, k) or None, default=None
        How often each neighbor counts; None means once.

    Returns
    -------
    mean : array of shape (m, t)
        Within the range of the neighbors' y up to rounding.
    epistemic : array of shape (m, t)
        Variance of the mean, at least 1e-9 of the variance of y; squared units of y.
    noise : array of shape (m, t)
        Variance of a new observation around the mean's target; squared units of y.

    Notes
    -----
    About 10 m k t flops; temporaries of 3 m k t numbers, so callers pass blocks of
    rows. Differentiable in the namespaces that differentiate.
    """
    require_same("enn_posterior", squared_distance=squared_distance, index=index, y=y)
    xp = namespace_of(squared_distance)
    variance = y_scale * y_scale
    precision = enn_precision(
        squared_distance,
        index,
        epistemic_scale=epistemic_scale,
        aleatoric_variance=aleatoric_variance,
        y_scale=y_scale,
        y_var=y_var,
        mass=mass,
    )
    total = xp.sum(precision, axis=1)
    mean = xp.sum(precision * _rows(xp, y, index), axis=1) / total
    epistemic = xp.clip(1 / total, min=EPS) * variance
    noise = aleatoric_variance * variance
    if y_var is None:
        noise = xp.broadcast_to(noise, mean.shape)
    else:
        noise = noise + xp.sum(precision * _rows(xp, y_var, index), axis=1) / total
    return mean, epistemic, noise


def enn_precision(
    squared_distance: Array,
    index: Array,
    *,
    epistemic_scale: Array,
    aleatoric_variance: Array,
    y_scale: Array,
    y_var: Array | None = None,
    mass: Array | None = None,
) -> Array:
    """Weigh the neighbors as :func:`enn_posterior` does, before it normalizes.

    Parameters
    ----------
    squared_distance, index, epistemic_scale, aleatoric_variance, y_scale : array
        As for :func:`enn_posterior`.
    y_var, mass : array or None, default=None
        As for :func:`enn_posterior`.

    Returns
    -------
    array of shape (m, k, t)
        Inverse variances, in units of the inverse variance of y.
    """
    xp = namespace_of(squared_distance)
    variance = squared_distance[:, :, None] * epistemic_scale
    variance = variance + (aleatoric_variance + EPS)
    if y_var is not None:
        variance = variance + _rows(xp, y_var, index) / (y_scale * y_scale)
    return 1 / variance if mass is None else mass[:, :, None] / variance


def _rows(xp: Any, table: Array, index: Array) -> Array:
    """Rows of a (n, t) table at a (m, k) index, as (m, k, t)."""
    flat = xp.take(table, xp.reshape(index, (-1,)), axis=0)
    return xp.reshape(flat, (*index.shape, table.shape[1]))


@op
def enn_loo_profile(
    squared_distance: Array,
    y_neighbors: Array,
    y: Array,
    *,
    ratio: Array,
    mass: Array | None = None,
    weight: Array | None = None,
) -> tuple[Array, Array]:
    r"""Best epistemic scale and likelihood for each ratio of the two ENN variances.

    With :math:`b = \rho a` the leave-one-out mean depends on :math:`\rho` alone and
    the predictive variance is :math:`a\,c_p(\rho)`,
    :math:`c_p = 1 / \sum_i (d_{pi}^2 + \rho)^{-1} + \rho`, so that

    .. math:: a^*(\rho) = \frac{1}{P} \sum_p \frac{(y_p - \mu_p(\rho))^2}{c_p(\rho)}

    maximizes the Gaussian likelihood exactly; only :math:`\rho` is left to search.

    Parameters
    ----------
    squared_distance : ndarray of shape (p, k)
        From each held-out row to its neighbors, float64.
    y_neighbors : ndarray of shape (p, k)
        Their observations in units of the standard deviation of y.
    y : ndarray of shape (p,)
        The held-out observations in the same units.
    ratio : ndarray of shape (r,)
        Values of rho, positive, in units of squared distance.
    mass : ndarray of shape (p, k) or None, default=None
        How often each neighbor counts.
    weight : ndarray of shape (p,) or None, default=None
        How often each held-out row counts.

    Returns
    -------
    epistemic_scale : ndarray of shape (r,)
        The best a, at least 1e-9.
    log_likelihood : ndarray of shape (r,)
        At that a, in nats; -inf where it is not finite.

    Notes
    -----
    About 8 r p k flops in float64, temporaries of a few r p numbers. Plain NumPy: its
    input is at most a few thousand numbers, whatever the device of the data. Every
    implementation gives the same bits.
    """
    total = np.zeros((ratio.size, y.size))
    weighted = np.zeros_like(total)
    with np.errstate(all="ignore"):
        # neighbor by neighbor, as the compiled code adds: both give the same bits
        for i in range(squared_distance.shape[1]):
            counts = 1.0 if mass is None else mass[:, i]
            precision = counts / (squared_distance[:, i] + ratio[:, None])
            total += precision
            weighted += precision * y_neighbors[:, i]
    return profile_from_sums(total, weighted, y, ratio, weight)


def profile_from_sums(
    total: np.ndarray,
    weighted: np.ndarray,
    y: np.ndarray,
    ratio: np.ndarray,
    weight: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Finish :func:`enn_loo_profile`, whoever added up the neighbors.

    Parameters
    ----------
    total, weighted : ndarray of shape (r, p)
        Sums over the neighbors of their precision, and of precision times y.
    y, ratio, weight
        As for :func:`enn_loo_profile`.

    Returns
    -------
    epistemic_scale, log_likelihood : ndarray of shape (r,)
    """
    if weight is None:
        weight = np.ones_like(y)
    with np.errstate(all="ignore"):
        spread = 1 / total + ratio[:, None]
        squared_error = (y - weighted / total) ** 2
        # fmax, because a NaN here is a failure that the likelihood reports
        scale = np.fmax((squared_error / spread) @ weight / weight.sum(), EPS)
        variance = scale[:, None] * spread
        terms = np.log(2 * np.pi * variance) + squared_error / variance
        log_likelihood = -0.5 * terms @ weight
    return scale, np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)


def _compiler_loaded(*_: Any, **__: Any) -> str | None:
    # half a millisecond is at stake, less than it takes to import the compiler
    loaded = "skicml_accel.neighbors._knn_numba" in sys.modules
    return None if loaded else "the compiled search is not loaded"


enn_loo_profile.implementation(
    "numba",
    "skicml_accel.neighbors._enn_numba:enn_loo_profile",
    kinds={"numpy"},
    dtypes={"float64"},
    requires=("numba",),
    pays=_compiler_loaded,
)


def enn_loo_log_likelihood(
    squared_distance: np.ndarray,
    y_neighbors: np.ndarray,
    y: np.ndarray,
    *,
    epistemic_scale: np.ndarray,
    aleatoric_variance: np.ndarray,
    y_var_neighbors: np.ndarray | None = None,
    mass: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Leave-one-out Gaussian log likelihood of pairs of ENN variances.

    Parameters
    ----------
    squared_distance, y_neighbors, y : ndarray
        As for :func:`enn_loo_profile`.
    epistemic_scale, aleatoric_variance : ndarray of shape (c,)
        The pairs to score.
    y_var_neighbors : ndarray of shape (p, k) or None, default=None
        Variance of the neighbors' observations, in units of the variance of y.
    mass, weight : ndarray or None, default=None
        As for :func:`enn_loo_profile`.

    Returns
    -------
    ndarray of shape (c,)
        In nats; -inf where it is not finite, so that a failure never wins.
    """
    a = epistemic_scale[:, None, None]
    noise = aleatoric_variance[:, None, None]
    if y_var_neighbors is not None:
        noise = noise + y_var_neighbors
    with np.errstate(all="ignore"):
        precision = 1 / (EPS + a * squared_distance + noise)
        if mass is not None:
            precision = precision * mass
        total = precision.sum(axis=2)
        mean = (precision * y_neighbors).sum(axis=2) / total
        noise = (precision * noise).sum(axis=2) / total
        variance = np.maximum(1 / total + noise, EPS)
        terms = np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance
        value = -0.5 * (terms.sum(axis=1) if weight is None else terms @ weight)
    return np.where(np.isfinite(value), value, -np.inf)
