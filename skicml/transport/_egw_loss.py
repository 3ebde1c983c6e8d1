"""The entropic Gromov-Wasserstein objective as a loss of torch, and between many."""

from __future__ import annotations

from functools import partial
from typing import Any

from skicml.base import optional_import
from skicml.transport._egw_gradient import check_differentiable, loss_and_gradients
from skicml.transport._lifted_gw import LiftedGWAligner
from skicml.transport._pairs import symmetric_table, with_seed


def egw_loss(X, Y, *, source_weight=None, target_weight=None, debias=False, **params):
    r"""Entropic Gromov-Wasserstein objective with a gradient, for torch.

    Use it to train what produces X or Y, such as an encoder whose output shall have
    the shape of a given space.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
        Rows of the source; float32 or float64, may require a gradient.
    Y : tensor of shape (n_targets, n_target_features)
        Rows of the target; may require a gradient.
    source_weight, target_weight : tensors of shapes (n_samples,) and (n_targets,)
        Masses, or None for equal ones; no gradient flows to them.
    debias : bool, default=False
        Subtract half of the objectives of X and of Y with themselves, which makes the
        loss of equal spaces zero.
    **params : dict
        Parameters of :class:`LiftedGWAligner`. ``cost`` must be a formula,
        ``diagonal`` "exact" and ``cost_scale`` "rms" or "none".

    Returns
    -------
    tensor of shape ()
        In squared units of the cost, in the dtype and on the device of X.

    Raises
    ------
    ValueError
        For other costs or settings, and for what :meth:`LiftedGWAligner.fit` refuses.
    ImportError
        If torch is not installed.

    See Also
    --------
    LiftedGWAligner : The solution itself.

    Notes
    -----
    By the envelope theorem the gradient holds the plan fixed. It is that of the
    objective with the lift of the other space truncated to ``n_components`` axes, and
    as exact as the solution: for finite differences to agree set ``dtype="float64"``,
    ``tol=1e-12`` and ``sinkhorn_tol=1e-10``. Backward takes O(n^2 (d + D)) time and
    saves O((n + m) D) numbers. Distances of zero have no gradient.

    References
    ----------
    C. Houry, J. Feydy and F.-X. Vialard, "Gromov-Wasserstein at Scale, Beyond Squared
    Norms", ICML 2026, arXiv 2602.06658. The closed form of the gradient is ours.

    Examples
    --------
    >>> import torch
    >>> from skicml.transport import egw_loss
    >>> generator = torch.Generator().manual_seed(0)
    >>> Y = torch.randn(50, 3, generator=generator)
    >>> X = torch.randn(40, 2, generator=generator).requires_grad_()
    >>> loss = egw_loss(X, Y, epsilon=0.05)
    >>> loss.backward()
    >>> X.grad.shape
    torch.Size([40, 2])
    """
    torch = optional_import("torch", needed_by="egw_loss", extra="torch")
    for name, value in (("X", X), ("Y", Y)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"egw_loss takes tensors of torch, but {name} is a "
                f"{type(value).__name__}. Use LiftedGWAligner(...).fit(X, Y).egw_."
            )
    check_differentiable(LiftedGWAligner(**params))
    settings = (source_weight, target_weight, debias, params)
    return _loss(torch).apply(X, Y, settings)


def _loss(torch: Any) -> Any:
    """Make the autograd function; a class of torch cannot be made before its import."""

    class EGWLoss(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, X: Any, Y: Any, settings: Any) -> Any:
            source_weight, target_weight, debias, params = settings
            aligner = LiftedGWAligner(**params).fit(
                X.detach(),
                Y.detach(),
                source_weight=source_weight,
                target_weight=target_weight,
            )
            loss, by_X, by_Y = loss_and_gradients(
                aligner, debias=debias, sides=ctx.needs_input_grad[:2]
            )
            ctx.save_for_backward(by_X, by_Y)
            ctx.dtypes = X.dtype, Y.dtype
            return torch.as_tensor(loss, dtype=X.dtype, device=X.device)

        @staticmethod
        def backward(ctx: Any, weight: Any) -> Any:
            found = (
                None if g is None else (weight * g).to(dtype)
                for g, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
            )
            return (*found, None)

    return EGWLoss


def pairwise_egw(spaces, *, debias=False, n_jobs=None, **params):
    """Entropic Gromov-Wasserstein objectives between all pairs of spaces.

    Use it to cluster, embed or look up shapes by their inner distances; the matrix goes
    wherever a precomputed dissimilarity does.

    Parameters
    ----------
    spaces : sequence of arrays of shape (n_i, d_i)
        At least one; with ``cost="precomputed"`` square matrices.
    debias : bool, default=False
        Subtract half of the objectives of the spaces with themselves. These use the
        epsilon of the pair, which is relative to its mean squared cost.
    n_jobs : int or None, default=None
        Processes over pairs, as in joblib; changes the result by rounding at most.
    **params : dict
        Parameters of :class:`LiftedGWAligner`.

    Returns
    -------
    float64 ndarray of shape (n_spaces, n_spaces)
        Symmetric, in squared units of the cost; zero on the diagonal with ``debias``.

    Raises
    ------
    ValueError
        For what :meth:`LiftedGWAligner.fit` refuses.

    See Also
    --------
    LiftedGWAligner : One pair, with its plan.

    Notes
    -----
    One fit per pair and three with ``debias``. The solver is local, so that small
    differences may be those between two minima: raise ``n_init``.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml.transport import pairwise_egw
    >>> rng = np.random.default_rng(0)
    >>> line, disk = rng.normal(size=(60, 1)), rng.normal(size=(70, 2))
    >>> D = pairwise_egw([line, disk, 2 * line], debias=True, epsilon=0.05)
    >>> bool(D[0, 1] > 0) and bool((D == D.T).all())
    True
    """
    return symmetric_table(
        list(spaces),
        partial(_objective, debias=debias, params=with_seed(params)),
        diagonal=not debias,
        n_jobs=n_jobs,
    )


def _objective(X: Any, Y: Any, *, debias: bool, params: dict[str, Any]) -> float:
    aligner = LiftedGWAligner(**params, debias=debias).fit(X, Y)
    return aligner.debiased_ if debias else aligner.egw_
