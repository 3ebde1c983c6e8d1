r"""Gromov-Wasserstein with a mask on the pairs of each space.

A masked space is given by its moments, the stack of :math:`W`, :math:`W * C` and
:math:`W * C * C` for a cost C and a mask W, products entry by entry. Of two such stacks
A and B every contraction is three products with matrices, and no array over quadruples
of rows exists.
"""

from __future__ import annotations

from typing import Any

from skicml_accel._namespaces import array_kind, dtype_name, namespace_of, require_same
from skicml_accel._registry import op
from skicml_accel._types import Array

#: Prices of masking a pair.
PENALTIES = ("quadratic", "geman", "hard")
#: Plans with less than one entry in so many are multiplied as sparse matrices.
SPARSE = 24


@op
def masked_gw_grad(source: Array, target: Array, plan: Array) -> Array:
    r"""Gradient of the masked Gromov-Wasserstein cost by the plan.

    .. math::
        G_{ij} = 2 \sum_{kl} W^x_{ik} W^y_{jl} (C^x_{ik} - C^y_{jl})^2 T_{kl}
        = 2\,(A_2 T B_0 - 2 A_1 T B_1 + A_0 T B_2)_{ij},

    whose product with the plan is twice the cost.

    Parameters
    ----------
    source : array of shape (3, n, n)
        Moments A of the source, symmetric; float32 or float64.
    target : array of shape (3, m, m)
        Moments B of the target.
    plan : array of shape (n, m)
        The plan T.

    Returns
    -------
    array of shape (n, m)
        The gradient.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit.

    Notes
    -----
    6 n m (n + m) flops; reads 3 (n^2 + m^2) + n m numbers and writes n m, with
    temporaries of 3 n m. A plan of few entries, on the CPU, leaves the n^2 m part.
    Deterministic.
    """
    check_masked("masked_gw_grad", source, target, plan)
    # one product at a time, or all of their images would be there at once
    total = -2 * (source[1, ...] @ (plan @ target[1, ...]))
    total = total + source[2, ...] @ (plan @ target[0, ...])
    total = total + source[0, ...] @ (plan @ target[2, ...])
    return 2 * total


@op
def pair_residual(target: Array, plan: Array, cost: Array, weights: Array) -> Array:
    r"""Mean distortion that each pair of the source suffers under a plan.

    .. math::
        R_{ik} = \frac{1}{a_i a_k} \sum_{jl} W^y_{jl} (C^x_{ik} - C^y_{jl})^2 T_{ij}
        T_{kl}
        = \frac{(C^2 * T B_0 T^\top - 2\, C * T B_1 T^\top + T B_2 T^\top)_{ik}}
        {a_i a_k}

    Parameters
    ----------
    target : array of shape (3, m, m)
        Moments B of the other space, symmetric; float32 or float64.
    plan : array of shape (n, m)
        The plan T, from this space to the other.
    cost : array of shape (n, n)
        Cost C of this space, symmetric.
    weights : array of shape (n,)
        Its masses a, positive.

    Returns
    -------
    array of shape (n, n)
        Symmetric and not negative.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit.

    Notes
    -----
    6 n m (n + m) flops and 8 n^2; reads 3 m^2 + n m + n^2 numbers and writes n^2, with
    temporaries of n m + 3 n^2. A plan of few entries, on the CPU, leaves O(n^2 + m n).
    What rounding makes negative is set to zero. Deterministic.
    """
    check_pairs("pair_residual", target, plan, cost, weights)
    xp = namespace_of(plan)
    total = cost * (plan @ target[0, ...] @ plan.T)
    total = cost * (total - 2 * (plan @ target[1, ...] @ plan.T))
    total = total + plan @ target[2, ...] @ plan.T
    mean = total / (weights[:, None] * weights[None, :])
    return xp.clip((mean + mean.T) / 2, min=0)


@op
def mask_update(
    residual: Array, cost: Array, *, lam: float, penalty: str = "quadratic"
) -> Array:
    r"""Best mask for given residuals, with the moments of the masked cost.

    The weight of a pair of residual r minimizes :math:`w r + \lambda \phi(w)` over
    :math:`0 \le w \le 1`.

    Parameters
    ----------
    residual : array of shape (n, n)
        Not negative; float32 or float64.
    cost : array of shape (n, n)
        The C of the moments.
    lam : float
        Price :math:`\lambda` of a pair, in the unit of the residuals, positive.
    penalty : {"quadratic", "geman", "hard"}
        :math:`\phi(w) = (1 - w)^2 / 2`, with :math:`w = \max(0, 1 - r / \lambda)`;
        :math:`(\sqrt w - 1)^2`, with :math:`(\lambda / (\lambda + r))^2`; or
        :math:`1 - w`, with 1 where :math:`r \le \lambda` and 0 elsewhere.

    Returns
    -------
    array of shape (3, n, n)
        W, W * C and W * C * C.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit, the penalty is unknown or ``lam`` is not positive.

    Notes
    -----
    5 n^2 flops; reads 2 n^2 numbers and writes 3 n^2, which fused code does without
    temporaries. Deterministic.
    """
    check_mask("mask_update", residual, cost, lam, penalty)
    xp = namespace_of(residual)
    if penalty == "quadratic":
        mask = xp.clip(1 - residual / lam, min=0)
    elif penalty == "geman":
        mask = (lam / (lam + residual)) ** 2
    else:
        mask = xp.astype(residual <= lam, residual.dtype)
    first = mask * cost
    return xp.stack([mask, first, first * cost])


def masked_gw_estimate_bytes(n: int, m: int, itemsize: int = 8) -> int:
    """Peak bytes of temporaries and output of the operations on masked spaces.

    Parameters
    ----------
    n, m : int
        Rows of the two spaces.
    itemsize : int, default=8
        Bytes of a number.

    Returns
    -------
    int
        The largest of :func:`masked_gw_grad`, :func:`pair_residual` and
        :func:`mask_update` for a dense plan.
    """
    gradient = 4 * n * m
    residual = n * m + 3 * n * n
    mask = 3 * n * n
    return itemsize * max(gradient, residual, mask)


def check_masked(name: str, source: Array, target: Array, plan: Array) -> None:
    """Raise the errors of :func:`masked_gw_grad`."""
    require_same(name, source=source, target=target, plan=plan)
    n, m = source.shape[-1], target.shape[-1]
    shapes = tuple(source.shape), tuple(target.shape), tuple(plan.shape)
    if shapes != ((3, n, n), (3, m, m), (n, m)):
        raise ValueError(
            f"{name}: source, target and plan must have the shapes (3, n, n), "
            f"(3, m, m) and (n, m), got {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )


def check_pairs(
    name: str, target: Array, plan: Array, cost: Array, weights: Array
) -> None:
    """Raise the errors of :func:`pair_residual`."""
    require_same(name, target=target, plan=plan, cost=cost, weights=weights)
    m, n = target.shape[-1], cost.shape[-1]
    shapes = [tuple(x.shape) for x in (target, plan, cost, weights)]
    if shapes != [(3, m, m), (n, m), (n, n), (n,)]:
        raise ValueError(
            f"{name}: target, plan, cost and weights must have the shapes (3, m, m), "
            f"(n, m), (n, n) and (n,), got {', '.join(map(str, shapes))}."
        )


def check_mask(
    name: str, residual: Array, cost: Array, lam: float, penalty: str
) -> None:
    """Raise the errors of :func:`mask_update`."""
    require_same(name, residual=residual, cost=cost)
    if residual.ndim != 2 or residual.shape != cost.shape:
        raise ValueError(
            f"{name}: residual and cost must be matrices of one shape, got "
            f"{tuple(residual.shape)} and {tuple(cost.shape)}."
        )
    if penalty not in PENALTIES:
        raise ValueError(
            f"{name}: penalty must be one of {', '.join(PENALTIES)}, got {penalty!r}."
        )
    if not lam > 0:
        raise ValueError(f"{name}: lam must be positive, got {lam!r}.")


def _no_grad(*arrays: Array, **_: Any) -> str | None:
    if any(array_kind(x) == "torch" and x.requires_grad for x in arrays):
        return "gradients are asked for"
    return None


def _few_entries(plan: Array) -> str | None:
    entries = plan.shape[0] * plan.shape[1]
    xp = namespace_of(plan)
    if int(xp.count_nonzero(plan)) * SPARSE <= entries:
        return None
    return f"more than one entry of the plan in {SPARSE} is not zero"


def _sparse_last(_: Array, __: Array, plan: Array) -> str | None:
    return _few_entries(plan)


def _sparse_second(_: Array, plan: Array, *__: Array) -> str | None:
    return _few_entries(plan)


def _one_device_dtype(residual: Array, cost: Array, **_: Any) -> str | None:
    if dtype_name(cost) != dtype_name(residual):
        return f"the cost is {dtype_name(cost)}"
    return None


_HERE = "skicml_accel.transport._masked_gw_"
_CPU: dict[str, Any] = {
    "kinds": {"numpy", "torch"},
    "devices": {"cpu"},
    "dtypes": {"float32", "float64"},
    "accepts": _no_grad,
}
for _op, _pays in ((masked_gw_grad, _sparse_last), (pair_residual, _sparse_second)):
    _op.implementation("sparse", f"{_HERE}sparse:{_op.name}", pays=_pays, **_CPU)
mask_update.implementation(
    "numba", f"{_HERE}numba:mask_update", requires=("numba",), **_CPU
)
mask_update.implementation(
    "triton",
    f"{_HERE}triton:mask_update",
    kinds={"torch"},
    devices={"cuda"},
    dtypes={"float32", "float64"},
    requires=("triton",),
    accepts=_one_device_dtype,
)
