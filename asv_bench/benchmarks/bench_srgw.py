"""Structurally robust Gromov-Wasserstein: kernels, fits, and peers on corrupted spaces.

Times are CPU seconds of one thread. Accuracies are means over seeds, of the share of
nodes that are matched right, or of edges whose image is an edge of the graph before it
was corrupted. Equivalent nodes of a graph cannot be told apart, so that only edges can
reach 1. Assignments of all methods are linear ones where they exist.
"""

from __future__ import annotations

import time
import warnings
from typing import ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._data import corrupted_distances, noisy_graph
from benchmarks._measure import (
    LONG_TIMEOUT,
    REPEAT,
    TIMEOUT,
    cpu_times,
    only_in_full_run,
    peer,
    ratio,
)
from skicml import SRGWMatcher
from skicml_accel import use_implementation
from skicml_accel.transport import mask_update, masked_gw_grad, pair_residual

#: What POT's partial solver leaves out, and how strictly its unbalanced one transports.
PARTIAL_MASS = 0.85
UNBALANCED = {"reg_marginals": 1.0, "epsilon": 0.01}


def peakmem_baseline() -> None:
    """Everything imported and compiled, on data of no size."""
    Cx, Cy, _ = corrupted_distances(40, 0.1, 0)
    matcher().fit(Cx, Cy)


peakmem_baseline.timeout = TIMEOUT


def matcher(**params) -> SRGWMatcher:
    return SRGWMatcher("precomputed", **params)


class _Timed:
    timeout = TIMEOUT
    number = 1
    repeat = REPEAT
    timer = time.process_time


class MaskedKernels(_Timed):
    """Contractions with a vertex, and masks, of n rows each."""

    params = ((100, 400, 1_600), ("reference", "fast"))
    param_names = ("n", "implementation")
    names: ClassVar = {"fast": ("sparse", "numba"), "reference": ("reference",) * 2}

    def setup(self, n, implementation):
        rng = np.random.default_rng(0)
        C = rng.random((n, n))
        self._cost = C + C.T
        self._residual = self._cost**2
        self._moments = mask_update(self._residual, self._cost, lam=2.0)
        self._plan = np.eye(n)[rng.permutation(n)] / n
        self._mass = np.full(n, 1 / n)
        self._names = self.names[implementation]

    def time_gradient(self, n, implementation):
        with use_implementation(self._names[0]):
            masked_gw_grad(self._moments, self._moments, self._plan)

    def time_residual(self, n, implementation):
        with use_implementation(self._names[0]):
            pair_residual(self._moments, self._plan, self._cost, self._mass)

    def time_mask(self, n, implementation):
        with use_implementation(self._names[1]):
            mask_update(self._residual, self._cost, lam=2.0)


class MaskedGradient:
    """Three masked products against the one product of plain Gromov-Wasserstein."""

    timeout = TIMEOUT
    n = 1_000

    def track_ratio_plain_product(self):
        rng = np.random.default_rng(0)
        C = rng.random((self.n, self.n))
        C, plan = C + C.T, rng.random((self.n, self.n)) / self.n**2
        moments = mask_update(C**2, C, lam=2.0)
        return ratio(
            lambda: masked_gw_grad(moments, moments, plan),
            lambda: C @ plan @ C,
            repeats=5,
        )

    track_ratio_plain_product.unit = "masked/plain"


class MatcherFit(_Timed):
    """Fits of corrupted distances with the default settings."""

    params = ((25, 100, 400), ("quadratic", "hard"))
    param_names = ("n", "penalty")

    def setup(self, n, penalty):
        self._costs = corrupted_distances(n, 0.1, 0)[:2]
        self._matcher = matcher(penalty=penalty)
        self._matcher.fit(*corrupted_distances(25, 0.1, 0)[:2])

    def time_fit(self, n, penalty):
        self._matcher.fit(*self._costs)

    def peakmem_fit(self, n, penalty):
        self._matcher.fit(*self._costs)


class MatcherPeers:
    """One start and 25 steps of annealing, against POT's Gromov-Wasserstein."""

    timeout = LONG_TIMEOUT
    params = ((77, 300), ("quadratic", "hard"))
    param_names = ("n", "penalty")
    repeats = 7

    def track_ratio_pot(self, n, penalty):
        ot = peer("ot")
        if n == 77:
            Cx, Cy, _, _ = noisy_graph("les miserables", 0.2)
        else:
            Cx, Cy, _ = corrupted_distances(n, 0.1, 0)
        with warnings.catch_warnings():
            # 25 steps are not meant to end the annealing
            warnings.simplefilter("ignore")
            ours = matcher(penalty=penalty, init="tlb", anneal=0.75, max_iter=25)
            return ratio(
                lambda: ours.fit(Cx, Cy),
                lambda: ot.gromov.gromov_wasserstein(Cx, Cy),
                repeats=self.repeats,
            )

    track_ratio_pot.unit = "ours/POT"


def _plan_of(method: str, Cx: np.ndarray, Cy: np.ndarray) -> np.ndarray:
    """Plan that a method finds for equal weights."""
    if method in ("quadratic", "geman", "hard"):
        return matcher(penalty=method).fit(Cx, Cy).plan_
    gromov = peer("ot").gromov
    a, b = (np.full(len(C), 1 / len(C)) for C in (Cx, Cy))
    if method == "POT":
        return gromov.gromov_wasserstein(Cx, Cy, a, b)
    if method == "POT partial":
        return gromov.partial_gromov_wasserstein(Cx, Cy, a, b, m=PARTIAL_MASS)
    if method == "POT semirelaxed":
        return gromov.semirelaxed_gromov_wasserstein(Cx, Cy, a)
    plan, _ = gromov.fused_unbalanced_gromov_wasserstein(
        Cx, Cy, a, b, alpha=0, **UNBALANCED
    )
    return plan


def _assigned(plan: np.ndarray) -> np.ndarray:
    if plan.shape[0] == plan.shape[1]:
        return linear_sum_assignment(-plan)[1]
    return plan.argmax(axis=1)


#: Corrupted shares of the source and of the target.
CORRUPTIONS = {
    "none": (0.0, 0.0),
    "10 % of the source": (0.1, 0.0),
    "20 % of the source": (0.2, 0.0),
    "30 % of the source": (0.3, 0.0),
    "5 % of both": (0.05, 0.05),
    "10 % of both": (0.1, 0.1),
}
#: Graph and share of spurious edges.
GRAPHS = {
    "les miserables, 5 %": ("les miserables", 0.05),
    "les miserables, 20 %": ("les miserables", 0.2),
    "karate club, 10 %": ("karate club", 0.1),
}


class MatcherQuality:
    """Share of nodes of a planar cloud of 40 points that are matched right."""

    timeout = LONG_TIMEOUT
    params = (
        tuple(CORRUPTIONS),
        (
            "quadratic",
            "geman",
            "hard",
            "POT",
            "POT partial",
            "POT semirelaxed",
            "POT unbalanced",
        ),
    )
    param_names = ("corrupted pairs", "method")
    seeds = range(6)

    def track_nodes(self, corruption, method):
        only_in_full_run()
        right = []
        for seed in self.seeds:
            Cx, Cy, truth = corrupted_distances(40, *CORRUPTIONS[corruption], seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = _assigned(_plan_of(method, Cx, Cy))
            right.append(np.mean(found == truth))
        return float(np.mean(right))

    track_nodes.unit = "share"


class MatcherGraphs:
    """Real graphs against shuffled copies with spurious edges."""

    timeout = LONG_TIMEOUT
    params = (
        tuple(GRAPHS),
        ("quadratic", "geman", "hard", "POT", "POT partial", "POT unbalanced"),
    )
    param_names = ("graph and spurious edges", "method")
    seeds = range(5)

    def track_edges(self, case, method):
        only_in_full_run()
        return float(
            np.mean([self._edges(GRAPHS[case], method, s) for s in self.seeds])
        )

    def track_mask_auc(self, case, method):
        """Area under the ROC curve of the mask against the spurious edges."""
        only_in_full_run()
        if method not in ("quadratic", "geman", "hard"):
            raise NotImplementedError("POT has no masks")
        from sklearn.metrics import roc_auc_score

        areas = []
        for seed in self.seeds:
            Cx, Cy, _, spurious = noisy_graph(*GRAPHS[case], seed=seed)
            mask = matcher(penalty=method).fit(Cx, Cy).target_mask_
            pairs = np.triu_indices(len(mask), 1)
            areas.append(roc_auc_score(spurious[pairs], -mask[pairs]))
        return float(np.mean(areas))

    @staticmethod
    def _edges(case, method, seed, **options):
        Cx, Cy, clean, _ = noisy_graph(*case, seed=seed, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _assigned(_plan_of(method, Cx, Cy))
        edges = np.argwhere(np.triu(Cx, 1))
        return np.mean(clean[found[edges[:, 0]], found[edges[:, 1]]] > 0)

    track_edges.unit = track_mask_auc.unit = "share"


class MatcherUnweighted:
    """Edge correctness on unweighted graphs, less that of POT."""

    timeout = LONG_TIMEOUT
    params = (("karate club", "les miserables"), (0.0, 0.05, 0.2))
    param_names = ("graph", "share of spurious edges")
    seeds = range(5)

    def track_margin_pot(self, graph, share):
        only_in_full_run()
        means = [
            np.mean(
                [
                    MatcherGraphs._edges((graph, share), method, seed, weighted=False)
                    for seed in self.seeds
                ]
            )
            for method in ("quadratic", "POT")
        ]
        return float(means[0] - means[1])

    track_margin_pot.unit = "share"


class MatcherMemory:
    """Peak of the memory that NumPy allocates, in units of n^2 + m^2 + n m numbers."""

    timeout = TIMEOUT
    n = 400

    def track_peak(self):
        import tracemalloc

        Cx, Cy, _ = corrupted_distances(self.n, 0.1, 0)
        cpu_times(lambda: matcher(max_iter=3).fit(*corrupted_distances(40, 0, 0)[:2]))
        tracemalloc.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                matcher(max_iter=5).fit(Cx, Cy)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return peak / (8 * 3 * self.n**2)

    track_peak.unit = "n^2 + m^2 + n m float64"
