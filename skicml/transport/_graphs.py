"""Graphs as matrices of costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.sparse import issparse
from scipy.sparse.csgraph import laplacian, shortest_path

from skicml.base import warn_user
from skicml_accel._namespaces import array_kind

#: What the cost between two nodes may be.
GRAPH_COSTS = ("weight", "shortest_path", "heat")
#: Distance between nodes that no path joins, in units of the longest path.
BEYOND = 1.5


def is_graph(space: Any) -> bool:
    """Whether a space is a sparse matrix or a graph of networkx."""
    return issparse(space) or array_kind(space) == "networkx"


def heat_time(params: dict[str, Any] | None) -> float:
    """Read ``metric_params`` of a precomputed metric: the time of the heat kernel."""
    params = params or {}
    unknown = set(params) - {"time"}
    if unknown:
        raise ValueError(
            f"metric_params of metric='precomputed' takes only 'time', got {params}. "
            "Remove the rest."
        )
    time = params.get("time", 1.0)
    if not isinstance(time, (int, float)) or not 0 <= time < float("inf"):
        raise ValueError(
            f"The time of the heat kernel must be a finite number from 0 on, got "
            f"{time!r}. Pass metric_params={{'time': 1.0}}, for example."
        )
    return float(time)


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
    weights = _weights(graph, name, shortest=cost == "shortest_path")
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
        far = BEYOND * (lengths[~apart].max() or 1.0)
        lengths[apart] = far
        warn_user(
            f"The {name} graph is not connected: {int((apart | apart.T).sum()) // 2} "
            f"pairs of nodes get {BEYOND} times the longest path, {far:.4g}. Keep one "
            "component, or use graph_cost='heat', to silence this.",
        )
    return lengths


def _weights(graph: Any, name: str, *, shortest: bool) -> Any:
    if issparse(graph):
        if graph.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: the {name} has dtype {graph.dtype}. "
                "Pass real weights."
            )
        weights = graph.tocsr().astype(np.float64)
    else:
        import networkx

        if graph.number_of_nodes() == 0:
            raise ValueError(f"The {name} graph has no nodes. Two are the minimum.")
        try:
            if shortest and graph.is_multigraph():
                graph = _shortest_edges(networkx, graph)
            weights = networkx.to_scipy_sparse_array(graph, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The edge weights of the {name} graph must be numbers, but {error}. "
                "Set them, or remove the attribute 'weight'."
            ) from error
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


def _shortest_edges(networkx: Any, graph: Any) -> Any:
    """Keep the shortest of parallel edges, whose weights else add up."""
    simple = networkx.DiGraph() if graph.is_directed() else networkx.Graph()
    simple.add_nodes_from(graph)
    for u, v, weight in graph.edges(data="weight", default=1.0):
        if not simple.has_edge(u, v) or weight < simple[u][v]["weight"]:
            simple.add_edge(u, v, weight=weight)
    return simple
