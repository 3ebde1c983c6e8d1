"""SRGWMatcher beside the Gromov-Wasserstein of POT, where pairs are wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist, squareform

from skicml.base import optional_import
from skicml.demo._clock import Timed, race
from skicml.demo._parts import Missing, Picture, Row, Setup
from skicml.demo._style import OURS, PEER, new_figure
from skicml.transport import SRGWMatcher

NAME, POT = "SRGWMatcher", "Gromov-Wasserstein of POT"
#: Share of spurious edges, relative to those of the graph.
SPURIOUS = 0.2


class Pair(NamedTuple):
    """Two structures, of which the second is a corrupted copy in another order.

    Parameters
    ----------
    data : str
        Data set with its size, for the table.
    Cx, Cy : ndarray of shape (n, n)
        Costs.
    truth : ndarray of shape (n,)
        Row of the second that each of the first became.
    """

    data: str
    Cx: np.ndarray
    Cy: np.ndarray
    truth: np.ndarray


def show(setup: Setup) -> Iterator[Row | Picture | Missing]:
    """Compare matches and time.

    Parameters
    ----------
    setup : Setup
        How much to run.

    Yields
    ------
    Row, Picture or Missing
        What is finished.
    """
    n_points = setup.pick(12, 40, 80)
    shares = setup.pick([0.0, 0.2], [0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.2, 0.3, 0.4])
    n_seeds = setup.pick(1, 3, 6)
    setup.expect(2 * len(shares) * n_seeds + 2 * 3)
    # the compiler of the kernels and POT are loaded before the clock starts
    for run in (_ours, _pot):
        run(_cloud(10, 0.1, 0))
    right: dict[str, list[float]] = {NAME: [], POT: []}
    for share in shares:
        runs = [
            (pair, _race(setup, pair))
            for pair in (_cloud(n_points, share, seed) for seed in range(n_seeds))
        ]
        for name, means in right.items():
            values = [_share_right(pair, run[name].result) for pair, run in runs]
            means.append(float(np.mean(values)))
        if share in (shares[0], 0.2):
            yield _cloud_row(n_points, share, n_seeds, runs, right)
    if setup.pictures:
        yield _robustness(shares, right, n_points)
    try:
        optional_import("networkx", needed_by="the graphs", extra="bench")
    except ImportError:
        yield Missing("networkx", "the repaired graph")
        return
    for weighted, share in ((True, SPURIOUS), (False, 0.0), (False, SPURIOUS)):
        pair, clean = _graph(weighted, share)
        runs_of_graph = _race(setup, pair)
        yield _graph_row(pair, clean, runs_of_graph)
        if weighted and setup.pictures:
            yield _repaired(pair, clean)


def _cloud(n: int, share: float, seed: int) -> Pair:
    """Distances of points in the plane, a share of them replaced on one side."""
    rng = np.random.default_rng(seed)
    points, order = rng.random((n, 2)), rng.permutation(n)
    moved = (points + 0.003 * rng.normal(size=(n, 2)))[order]
    distances = pdist(points)
    wrong = rng.random(len(distances)) < share
    distances[wrong] = rng.uniform(0, distances.max(), int(wrong.sum()))
    truth = np.argsort(order)
    return Pair("", squareform(distances), squareform(pdist(moved)), truth)


def _graph(weighted: bool, share: float) -> tuple[Pair, np.ndarray]:
    """Les Miserables and a copy with spurious edges; also the copy without them."""
    import networkx

    graph = networkx.les_miserables_graph()
    weights = networkx.to_numpy_array(graph, weight="weight" if weighted else None)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(weights))
    clean = weights[np.ix_(order, order)]
    noisy = clean.copy()
    absent = np.argwhere(np.triu(clean == 0, 1))
    count = round(share * graph.number_of_edges())
    for i, k in absent[rng.choice(len(absent), count, replace=False)]:
        noisy[i, k] = noisy[k, i] = rng.integers(5, 32) if weighted else 1
    kind = "weighted" if weighted else "unweighted"
    data = f"Les Miserables, {kind}, {share:.0%} spurious edges"
    return Pair(data, weights, noisy, np.argsort(order)), clean


def _race(setup: Setup, pair: Pair) -> dict[str, Timed[np.ndarray]]:
    runners: dict[str, Callable[[], np.ndarray]] = {
        NAME: partial(_ours, pair),
        POT: partial(_pot, pair),
    }
    return race(setup, runners)


def _ours(pair: Pair) -> np.ndarray:
    with warnings.catch_warnings():
        # that an unweighted graph gains little from masks is what a row shows
        warnings.simplefilter("ignore", UserWarning)
        matcher = SRGWMatcher("precomputed").fit(pair.Cx, pair.Cy)
    return matcher.assignment_


def _pot(pair: Pair) -> np.ndarray:
    import ot

    plan = ot.gromov.gromov_wasserstein(pair.Cx, pair.Cy)
    return linear_sum_assignment(-plan)[1]


def _share_right(pair: Pair, found: np.ndarray) -> float:
    return float(np.mean(found == pair.truth))


def _edges_kept(pair: Pair, clean: np.ndarray, found: np.ndarray) -> float:
    """Share of the edges whose image is an edge of the clean copy."""
    edges = np.argwhere(np.triu(pair.Cx, 1))
    return float(np.mean(clean[found[edges[:, 0]], found[edges[:, 1]]] > 0))


def _cloud_row(
    n: int,
    share: float,
    n_seeds: int,
    runs: list[tuple[Pair, dict[str, Timed[np.ndarray]]]],
    right: dict[str, list[float]],
) -> Row:
    seconds = {
        name: float(np.mean([timed[name].seconds for _, timed in runs]))
        for name in (NAME, POT)
    }
    return Row(
        method=NAME,
        data=f"{n} points of the plane, {share:.0%} of distances wrong",
        measure=f"share matched right, mean of {n_seeds}",
        peer=POT,
        score=right[NAME][-1],
        peer_score=right[POT][-1],
        seconds=seconds[NAME],
        peer_seconds=seconds[POT],
    )


def _graph_row(
    pair: Pair, clean: np.ndarray, runs: dict[str, Timed[np.ndarray]]
) -> Row:
    kept = {
        name: _edges_kept(pair, clean, timed.result) for name, timed in runs.items()
    }
    return Row(
        method=NAME,
        data=pair.data,
        measure="share of edges on edges",
        peer=POT,
        score=kept[NAME],
        peer_score=kept[POT],
        seconds=runs[NAME].seconds,
        peer_seconds=runs[POT].seconds,
    )


def _robustness(shares: list[float], right: dict[str, list[float]], n: int) -> Picture:
    figure, (ax,) = new_figure()
    percent = [100 * share for share in shares]
    for name, color, marker in ((NAME, OURS, "o"), (POT, PEER, "^")):
        ax.plot(percent, right[name], marker=marker, color=color, label=name)
    ax.set(
        xlabel="wrong distances of the first cloud (%)",
        ylabel="share matched right",
        ylim=(0, 1.05),
    )
    ax.legend(frameon=False)
    worst = int(np.argmax(np.subtract(right[NAME], right[POT])))
    return Picture(
        "srgw_robustness",
        "How many wrong distances does a match survive?",
        f"Of {n} points, with {percent[worst]:.0f} % of their distances replaced by "
        f"noise, {NAME} matches {right[NAME][worst]:.0%} right and the {POT} "
        f"{right[POT][worst]:.0%}.",
        figure,
    )


def _repaired(pair: Pair, clean: np.ndarray) -> Picture:
    from matplotlib.figure import Figure

    matcher = SRGWMatcher("precomputed").fit(pair.Cx, pair.Cy)
    # the copy in the order of the original, where the eye can compare
    back = matcher.assignment_
    noisy, mask = (
        table[np.ix_(back, back)] for table in (pair.Cy, matcher.target_mask_)
    )
    spurious = (pair.Cy > 0) & (clean == 0)
    figure: Any = Figure(figsize=(11.2, 4.2), layout="constrained")
    panels = (
        (pair.Cx > 0, "Greys", "the graph"),
        (noisy > 0, "Greys", "with spurious edges, matched"),
        (1 - mask, "Reds", "what the mask filters"),
    )
    for number, (table, colors, title) in enumerate(panels, start=1):
        ax = figure.add_subplot(1, 3, number)
        ax.imshow(table, cmap=colors, vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(title, fontsize="medium")
        ax.set(xlabel="character", ylabel="character")
    pairs = {(i, k) for i, k, _ in matcher.edge_outliers("target")}
    wrong = set(map(tuple, np.argwhere(np.triu(spurious, 1))))
    return Picture(
        "srgw_repaired",
        "Which edges do not belong there?",
        f"Of {len(wrong)} edges that were added to the {int(np.sum(clean > 0)) // 2} "
        f"of Les Miserables the mask filters {len(pairs & wrong)}, and "
        f"{len(pairs - wrong)} pairs that belong there.",
        figure,
    )
