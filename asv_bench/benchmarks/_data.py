"""Inputs of the benchmarks, from fixed seeds."""

from __future__ import annotations

import numpy as np

#: Columns of all synthetic data, as in the paper's synthetic problems.
N_DIMS = 20

# Boxes in which the usual functions are searched, mapped to the unit cube. Optima lie
# away from the center, so that a design that contains it wins nothing.
BOXES = {"ackley": (-12.8, 19.2), "levy": (-8.0, 12.0), "rosenbrock": (-4.096, 4.096)}


def response(X: np.ndarray, rng: np.random.Generator, noise: float = 0.1) -> np.ndarray:
    """Smooth function of five coordinates with noise, of shape (n,)."""
    clean = (
        np.sin(4 * X[:, 0])
        + 2 * (X[:, 1] - 0.4) ** 2
        + X[:, 2] * X[:, 3]
        - np.sqrt(0.1 + X[:, 4])
    )
    return clean + noise * rng.standard_normal(len(X))


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of the unit cube and their response."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, N_DIMS))
    return X, response(X, rng)


def _in_box(unit: np.ndarray, name: str) -> np.ndarray:
    low, high = BOXES[name]
    return low + (high - low) * np.asarray(unit, dtype=float)


def ackley(unit: np.ndarray) -> np.ndarray:
    """Negative Ackley function at points of the unit cube; the maximum is 0."""
    x = _in_box(unit, "ackley")
    radius = np.sqrt((x**2).mean(axis=1))
    waves = np.cos(2 * np.pi * x).mean(axis=1)
    return 20 * np.expm1(-radius / 5) + np.exp(waves) - np.e


def levy(unit: np.ndarray) -> np.ndarray:
    """Negative Levy function at points of the unit cube; the maximum is 0."""
    w = 1 + (_in_box(unit, "levy") - 1) / 4
    body, last = w[:, :-1] - 1, w[:, -1]
    value = np.sin(np.pi * w[:, 0]) ** 2
    value += (body**2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)).sum(axis=1)
    return -value - (last - 1) ** 2 * (1 + np.sin(2 * np.pi * last) ** 2)


def rosenbrock(unit: np.ndarray) -> np.ndarray:
    """Negative log10 of the Rosenbrock function at points of the unit cube."""
    x = _in_box(unit, "rosenbrock")
    head, tail = x[:, :-1], x[:, 1:]
    value = (100 * (tail - head**2) ** 2 + (1 - head) ** 2).sum(axis=1)
    return -np.log10(value + 1e-12)


FUNCTIONS = {"ackley": ackley, "levy": levy, "rosenbrock": rosenbrock}


def spiral_sheet(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a rolled sheet, the same turned and shuffled, and the solution.

    Returns two clouds in the unit ball, (n, 3) each, and the row of the second that is each row of
    the first.
    """
    rng = np.random.default_rng(seed)
    t, v = rng.random(n), 0.6 * rng.random(n)
    points = np.stack([np.cos(5 * t) * (1 + t), np.sin(5 * t) * (1 + t), v], axis=1)
    points += 0.01 * rng.standard_normal((n, 3))
    points -= points.mean(axis=0)
    points /= np.linalg.norm(points, axis=1).max()
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    order = rng.permutation(n)
    return points, (points @ turn)[order], np.argsort(order)


def turned_digits(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take images of digits, the same with noise, turned in 64 dimensions and shuffled."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    pixels = load_digits().data / 16
    images = pixels[rng.permutation(len(pixels))[:n]]
    turn = np.linalg.qr(rng.standard_normal((64, 64)))[0]
    order = rng.permutation(n)
    noisy = images + 0.05 * rng.standard_normal(images.shape)
    return images, (noisy @ turn)[order], np.argsort(order)


def corrupted_distances(
    n: int, source: float, target: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances of a cloud and of the same, moved by 1 %, turned and shuffled.

    Shares ``source`` and ``target`` of the pairs are replaced by uniform noise up to the largest
    distance. Returns both matrices, (n, n), and the row of the second that is each of the first.
    """
    from scipy.spatial.distance import pdist, squareform

    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    order = rng.permutation(n)
    moved = points + 0.01 * points.std() * rng.standard_normal((n, 2))
    costs = []
    for cloud, share in ((points, source), ((moved @ turn)[order], target)):
        distances = pdist(cloud)
        wrong = rng.random(len(distances)) < share
        distances[wrong] = rng.uniform(0, distances.max(), wrong.sum())
        costs.append(squareform(distances))
    return costs[0], costs[1], np.argsort(order)


def noisy_graph(
    name: str, share: float, *, weighted: bool = True, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Real graph, and a shuffled copy with a share of spurious edges.

    Returns both adjacency matrices, relative to the largest weight of the first, the clean copy,
    and which of the copy's edges are spurious, all (n, n).
    """
    import networkx

    makers = {
        "les miserables": (networkx.les_miserables_graph, (5, 32)),
        "karate club": (networkx.karate_club_graph, (4, 9)),
    }
    make, weights = makers[name]
    graph = networkx.to_numpy_array(make(), weight="weight" if weighted else None)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(graph))
    clean = graph[np.ix_(order, order)]
    noisy, spurious = clean.copy(), np.zeros(clean.shape, dtype=bool)
    absent = np.argwhere(np.triu(clean == 0, 1))
    count = round(share * np.count_nonzero(np.triu(graph)))
    for i, k in absent[rng.choice(len(absent), count, replace=False)]:
        noisy[i, k] = noisy[k, i] = rng.integers(*weights) if weighted else 1
        spurious[i, k] = spurious[k, i] = True
    largest = graph.max()
    return graph / largest, noisy / largest, clean / largest, spurious
