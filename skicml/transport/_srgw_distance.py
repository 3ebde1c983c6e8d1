"""Structurally robust Gromov-Wasserstein cost of two spaces, and between many."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.utils import Bunch

from skicml.transport._pairs import symmetric_table, with_seed
from skicml.transport._srgw import SRGWMatcher


def srgw_distance(Cx, Cy, a=None, b=None, **params):
    """Match two matrices of costs, or two graphs, and tell how far apart they are.

    Use it as a dissimilarity between graphs of which some edges are wrong.

    Parameters
    ----------
    Cx : array of shape (n, n), sparse matrix or networkx.Graph
        Symmetric costs of the source.
    Cy : array of shape (m, m), sparse matrix or networkx.Graph
        Symmetric costs of the target.
    a : array of shape (n,) or None, default=None
        Masses of the source; None means equal.
    b : array of shape (m,) or None, default=None
        Masses of the target.
    **params : dict
        Parameters of :class:`SRGWMatcher`; ``metric`` is "precomputed" unless given.

    Returns
    -------
    Bunch
        With srgw_dist and gw_dist, the cost under the masks and without, in squared
        units of the cost; plan (n, m), assignment (n,), source_mask (n, n),
        target_mask (m, m), lam and converged.

    Raises
    ------
    ValueError
        For what :meth:`SRGWMatcher.fit` refuses.

    See Also
    --------
    SRGWMatcher : The estimator, which documents all of these.
    pairwise_srgw : Between many spaces.

    Notes
    -----
    Symmetric up to ties between plans; zero between equal spaces. It is no metric: the
    triangle inequality fails for squares, and for what masks leave out.

    References
    ----------
    Cheng, Huang, Song, Zhang, Han and Ding, "Achieving Structurally Robust
    Gromov-Wasserstein Distance via Adaptive Dual-Mask", ICML 2026, PMLR 306.

    Examples
    --------
    >>> import networkx as nx
    >>> from skicml.transport import srgw_distance
    >>> G = nx.karate_club_graph()
    >>> found = srgw_distance(G, nx.relabel_nodes(G, lambda i: 33 - i))
    >>> bool(found.srgw_dist < 1e-12)
    True
    """
    matcher = SRGWMatcher(**{"metric": "precomputed", **params})
    matcher.fit(Cx, Cy, source_weight=a, target_weight=b)
    names = (
        "srgw_dist",
        "gw_dist",
        "plan",
        "assignment",
        "source_mask",
        "target_mask",
        "lam",
        "converged",
    )
    return Bunch(**{name: getattr(matcher, f"{name}_") for name in names})


def pairwise_srgw(spaces, *, n_jobs=None, **params):
    """Structurally robust Gromov-Wasserstein costs between all pairs of spaces.

    Use it to cluster, embed or look up graphs; the matrix goes wherever a precomputed
    dissimilarity does.

    Parameters
    ----------
    spaces : sequence of arrays of shape (n_i, n_i), sparse matrices or graphs
        At least one, of any sizes; with another ``metric`` than "precomputed" rows.
    n_jobs : int or None, default=None
        Processes over pairs, as in joblib; the result does not depend on it.
    **params : dict
        Parameters of :class:`SRGWMatcher`; ``metric`` is "precomputed" unless given.

    Returns
    -------
    float64 ndarray of shape (n_spaces, n_spaces)
        ``srgw_dist_`` of each pair, in squared units of the cost; symmetric, and zero
        on the diagonal.

    Raises
    ------
    ValueError
        For what :meth:`SRGWMatcher.fit` refuses.

    See Also
    --------
    srgw_distance : One pair, with its plan and masks.

    Notes
    -----
    One fit for each pair. The price of the masks follows from each pair; give ``lam``
    to compare all at one price.

    Examples
    --------
    >>> import networkx as nx
    >>> from skicml.transport import pairwise_srgw
    >>> graphs = [nx.path_graph(12), nx.star_graph(11), nx.path_graph(12)]
    >>> D = pairwise_srgw(graphs, graph_cost="shortest_path")
    >>> bool(D[0, 2] < 1e-12 < D[0, 1])
    True
    """
    settings = with_seed({"metric": "precomputed", **params})
    return symmetric_table(
        list(spaces), partial(_cost, params=settings), diagonal=False, n_jobs=n_jobs
    )


def _cost(X: Any, Y: Any, *, params: dict[str, Any]) -> float:
    return SRGWMatcher(**params).fit(X, Y).srgw_dist_
