"""Graphs as matrices of costs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.sparse import issparse
from scipy.sparse.csgraph import laplacian, shortest_path

from skicml_accel._namespaces import array_kind

#: What the cost between two nodes may be.
GRAPH_COSTS = ("weight", "shortest_path", "heat")
#: Distance between nodes that no path joins, in units of the longest path.
BEYOND = 1.5


def is_graph(space: Any) -> bool:
    """Whether a space is a sparse matrix or a graph of networkx."""
    return issparse(space) or array_kind(space) == "networkx"


def graph_cost_matrix(graph: Any, cost: str, *, time: float, name: str) -> np.ndarray:
    """Costs between all nodes.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n), or networkx.Graph
        Weights of the edges; of networkx the edge attribute "weight", 1 where an edge
        has none, and nodes in the order of the graph.
    cost : {"weight", "shortest_path", "heat"}
        The weight, 0 without an edge; the length of the shortest path, weights being
        lengths; or the heat kernel of the normalized Laplacian.
    time : float
        Time of the heat kernel.
    name : {"source", "target"}
        For messages.

    Returns
    -------
    float64 array of shape (n, n)
        The costs.

    Raises
    ------
    ValueError
        If a sparse matrix is not square, a weight is not finite, or it is negative
        where it is a length or a conductance.

    Warns
    -----
    UserWarning
        If no path joins some nodes.
    """
    weights = _weights(graph, name)
    if cost == "weight":
        return weights.toarray()
    if weights.nnz and weights.data.min() < 0:
        raise ValueError(
            f"graph_cost={cost!r} needs edge weights that are not negative, got "
            f"{weights.data.min():g} in the {name}. Use graph_cost='weight'."
        )
    if cost == "heat":
        return expm(-time * laplacian(weights, normed=True).toarray())
    lengths = shortest_path(weights)
    apart = ~np.isfinite(lengths)
    if apart.any():
        longest = lengths[~apart].max()
        lengths[apart] = BEYOND * (longest or 1.0)
        warnings.warn(
            f"The {name} graph is not connected: {int(apart.sum()) // 2} pairs of "
            f"nodes get {BEYOND} times the longest path, {BEYOND * longest:.4g}. Keep "
            "one component, or use graph_cost='heat', to silence this.",
            UserWarning,
            stacklevel=4,
        )
    return lengths


def _weights(graph: Any, name: str) -> Any:
    if issparse(graph):
        weights = graph.tocsr().astype(np.float64)
    else:
        import networkx

        if graph.number_of_nodes() == 0:
            raise ValueError(f"The {name} graph has no nodes. Two are the minimum.")
        weights = networkx.to_scipy_sparse_array(graph, dtype=np.float64)
    if weights.shape[0] != weights.shape[1]:
        raise ValueError(
            f"metric='precomputed' needs a square matrix, got shape {weights.shape} "
            f"for the {name}. Pass one row and column for each node."
        )
    if not np.isfinite(weights.data).all():
        raise ValueError(
            f"An edge weight of the {name} graph is NaN or infinite. Set it, or remove "
            "the edge."
        )
    return weights
