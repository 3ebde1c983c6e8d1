"""Pictures of a plan, a mask and the trust in rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from skicml.base import check_axes

WHO = "SRGWMatcher's plots"


def plot_plan(plan: np.ndarray, assignment: np.ndarray, ax: Any) -> Any:
    """Draw a plan (n, m) with the column of each row (n,) marked."""
    ax = check_axes(ax, needed_by=WHO)
    picture = ax.imshow(plan, cmap="Blues", aspect="auto", interpolation="nearest")
    rows = np.arange(len(assignment))
    ax.plot(assignment, rows, ".", color="tab:orange", ms=3, label="assignment")
    ax.set(xlabel="row of the target", ylabel="row of the source")
    ax.legend(loc="upper right", fontsize="small")
    ax.figure.colorbar(picture, ax=ax, label="mass")
    return ax


def plot_mask(mask: np.ndarray, side: str, ax: Any) -> Any:
    """Draw a mask (n, n), dark where it filters."""
    ax = check_axes(ax, needed_by=WHO)
    picture = ax.imshow(1 - mask, cmap="Reds", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xlabel=f"row of the {side}", ylabel=f"row of the {side}")
    ax.figure.colorbar(picture, ax=ax, label="filtered share of the pair")
    return ax


def plot_trust(trust: np.ndarray, side: str, ax: Any) -> Any:
    """Draw the trust in rows (n,), sorted."""
    ax = check_axes(ax, needed_by=WHO)
    ax.plot(np.sort(trust), ".", color="tab:blue")
    ax.set(xlabel=f"rows of the {side}, sorted", ylabel="trust")
    return ax
