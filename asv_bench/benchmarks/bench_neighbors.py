"""Nearest neighbors: the kernels, ENNRegressor and their peers.

Times are CPU seconds of one thread. Peak memory is that of the whole process, imports
included; ``peakmem_baseline`` is what to subtract.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks._data import N_DIMS, table
from benchmarks._measure import REPEAT, TIMEOUT, only_in_full_run, peer, ratio, require
from skicml import ENNRegressor
from skicml_accel import use_implementation
from skicml_accel.neighbors import enn_loo_profile, enn_posterior, knn

N_NEIGHBORS = 10
N_QUERIES = 2_000
#: Three sizes, 16 apart.
SIZES = (1_000, 16_000, 256_000)


def peakmem_baseline() -> None:
    """Everything imported and compiled, on data of no size."""
    X, y = table(50)
    with use_implementation("numba"):
        ENNRegressor().fit(X, y).predict(X)


peakmem_baseline.timeout = TIMEOUT


class _Timed:
    timeout = TIMEOUT
    number = 1
    repeat = REPEAT
    timer = time.process_time


class Knn(_Timed):
    """Search of 2,000 rows; faiss gets its data in single precision beforehand."""

    params = (SIZES, ("numba", "blas", "torch", "faiss"))
    param_names = ("n", "implementation")

    def setup(self, n, implementation):
        data, query = table(n)[0], table(N_QUERIES, seed=1)[0]
        self._search = _search(data, query, implementation)
        self._search()

    def time_search(self, n, implementation):
        self._search()


class KnnMemory:
    """Peak memory of the search of 2,000 rows."""

    timeout = TIMEOUT
    params = (SIZES, ("numba", "blas", "torch"))
    param_names = ("n", "implementation")

    def setup(self, n, implementation):
        data, query = table(n)[0], table(N_QUERIES, seed=1)[0]
        self._search = _search(data, query, implementation)

    def peakmem_search(self, n, implementation):
        self._search()


class KnnPeers:
    """Compiled search of float64 rows against flat faiss on float32 rows."""

    timeout = TIMEOUT
    params = (SIZES,)
    param_names = ("n",)

    def track_ratio_faiss(self, n):
        data, query = table(n)[0], table(N_QUERIES, seed=1)[0]
        ours = _search(data, query, "numba")
        theirs = _search(data, query, "faiss")
        require((ours()[1] == theirs()[1]).mean() > 0.999, "neighbors")
        return ratio(ours, theirs, repeats=5, warm_up=0)

    track_ratio_faiss.unit = "ours/faiss"


class KnnCuda(_Timed):
    """Search of 2,000 rows that lie on a CUDA device."""

    params = ((16_000, 256_000, 4_096_000), ("triton", "torch"))
    param_names = ("n", "implementation")

    def setup(self, n, implementation):
        torch = peer("torch")
        if not torch.cuda.is_available():
            raise NotImplementedError("needs a CUDA device")
        generator = torch.Generator("cuda").manual_seed(0)
        data, query = (
            torch.rand(m, N_DIMS, device="cuda", generator=generator)
            for m in (n, N_QUERIES)
        )

        def search():
            with use_implementation(implementation):
                found = knn(query, data, k=N_NEIGHBORS)
            torch.cuda.synchronize()
            return found

        self._search = search
        search()

    # the clock of the process stands still while the device works
    timer = time.perf_counter

    def time_search(self, n, implementation):
        self._search()


def _search(data, query, implementation):
    """Call without arguments that finds the neighbors."""
    if implementation == "faiss":
        faiss = peer("faiss")
        index = faiss.IndexFlatL2(data.shape[1])
        index.add(data.astype(np.float32))
        query = query.astype(np.float32)
        return lambda: index.search(query, N_NEIGHBORS)
    if implementation == "torch":
        torch = peer("torch")
        data, query = torch.from_numpy(data), torch.from_numpy(query)

    def search():
        with use_implementation(implementation):
            return knn(query, data, k=N_NEIGHBORS)

    return search


class EnnPosterior(_Timed):
    """Moments at m queries with 10 neighbors each."""

    params = (SIZES, (1, 8))
    param_names = ("m", "n_outputs")

    def setup(self, m, n_outputs):
        rng = np.random.default_rng(0)
        y = rng.standard_normal((10_000, n_outputs))
        distance = np.sort(rng.random((m, N_NEIGHBORS)), axis=1)
        index = rng.integers(len(y), size=distance.shape)
        self._args = distance, index, y
        self._scales = {
            "epistemic_scale": np.ones(n_outputs),
            "aleatoric_variance": np.full(n_outputs, 0.1),
            "y_scale": np.ones(n_outputs),
        }
        self.time_posterior(m, n_outputs)

    def time_posterior(self, m, n_outputs):
        enn_posterior(*self._args, **self._scales)

    def peakmem_posterior(self, m, n_outputs):
        enn_posterior(*self._args, **self._scales)


class EnnLooProfile(_Timed):
    """Likelihood of 61 ratios of the variances for p held-out rows."""

    params = ((100, 1_600, 25_600), ("reference", "numba"))
    param_names = ("p", "implementation")

    def setup(self, p, implementation):
        rng = np.random.default_rng(0)
        self._args = (
            rng.random((p, N_NEIGHBORS)),
            rng.standard_normal((p, N_NEIGHBORS)),
            rng.standard_normal(p),
        )
        self._ratio = np.logspace(-4, 4, 61)
        self.time_profile(p, implementation)

    def time_profile(self, p, implementation):
        with use_implementation(implementation):
            enn_loo_profile(*self._args, ratio=self._ratio)

    def peakmem_profile(self, p, implementation):
        self.time_profile(p, implementation)


class Regressor(_Timed):
    """ENNRegressor in 20 columns; 2,000 rows are predicted."""

    params = (SIZES,)
    param_names = ("n",)

    def setup(self, n):
        self._X, self._y = table(n)
        self._query = table(N_QUERIES, seed=1)[0]
        self._model = ENNRegressor(N_NEIGHBORS, random_state=0)
        self._fitted = ENNRegressor(N_NEIGHBORS, random_state=0)
        self._fitted.fit(self._X, self._y).predict(self._query, return_std=True)

    def time_fit(self, n):
        self._model.fit(self._X, self._y)

    def time_predict(self, n):
        self._fitted.predict(self._query, return_std=True)

    def peakmem_fit(self, n):
        self._model.fit(self._X, self._y)

    def peakmem_predict(self, n):
        self._fitted.predict(self._query, return_std=True)


class RegressorNeighbors:
    """Fit and prediction of 2,000 rows against scikit-learn's neighbors.

    KNeighborsRegressor returns the mean alone; ours includes the fit of two variances
    and the standard deviation of each prediction.
    """

    timeout = TIMEOUT
    params = (SIZES,)
    param_names = ("n",)

    def track_ratio_kneighbors(self, n):
        ours = ENNRegressor(N_NEIGHBORS, random_state=0)
        theirs = KNeighborsRegressor(N_NEIGHBORS, algorithm="brute", n_jobs=1)
        return _ratio_of_regressors(ours, theirs, n, N_QUERIES, same_quality=True)

    track_ratio_kneighbors.unit = "ours/KNeighborsRegressor"


class RegressorGaussianProcess:
    """Fit and prediction of 1,000 rows, with deviations, against a Gaussian process.

    On 20 smooth columns the process predicts better, which is not what is compared.
    """

    timeout = 600
    params = ((64, 256, 1_024),)
    param_names = ("n",)

    def setup(self, n):
        if n > 256:
            only_in_full_run()

    def track_ratio_gaussian_process(self, n):
        ours = ENNRegressor(N_NEIGHBORS, random_state=0)
        theirs = GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True)
        return _ratio_of_regressors(ours, theirs, n, 1_000, same_quality=False)

    track_ratio_gaussian_process.unit = "ours/GaussianProcessRegressor"


def _ratio_of_regressors(ours, theirs, n, n_queries, same_quality):
    """Ratio of the CPU times of fit and prediction."""
    X, y = table(n)
    query, truth = table(n_queries, seed=1)

    def run_ours():
        return ours.fit(X, y).predict(query, return_std=True)[0]

    def run_theirs():
        theirs.fit(X, y)
        if isinstance(theirs, KNeighborsRegressor):
            return theirs.predict(query)
        return theirs.predict(query, return_std=True)[0]

    if same_quality:
        scores = r2_score(truth, run_ours()), r2_score(truth, run_theirs())
        require(scores[0] >= scores[1] - 0.01, f"R^2 {scores}")
    return ratio(run_ours, run_theirs, repeats=5)


class RegressionQuality:
    """Five-fold cross-validation on standardized columns."""

    timeout = TIMEOUT
    params = (("diabetes", "friedman1"), (10, 25))
    param_names = ("data", "n_neighbors")

    def setup(self, data, n_neighbors):
        if data == "diabetes":
            X, y = load_diabetes(return_X_y=True)
        else:
            X, y = make_friedman1(2_000, noise=1.0, random_state=0)
        folds = KFold(5, shuffle=True, random_state=0)
        self._parts = []
        for train, test in folds.split(X):
            scaler = StandardScaler().fit(X[train])
            self._parts.append(
                (
                    scaler.transform(X[train]),
                    y[train],
                    scaler.transform(X[test]),
                    y[test],
                )
            )

    def track_r2(self, data, n_neighbors):
        return np.mean(
            [r2_score(truth, mean) for truth, mean, _ in self._predictions(n_neighbors)]
        )

    track_r2.unit = "R^2"

    def track_r2_margin_kneighbors(self, data, n_neighbors):
        theirs = []
        for X, y, query, truth in self._parts:
            model = KNeighborsRegressor(n_neighbors).fit(X, y)
            theirs.append(r2_score(truth, model.predict(query)))
        return self.track_r2(data, n_neighbors) - np.mean(theirs)

    track_r2_margin_kneighbors.unit = "R^2, ours - theirs"

    def track_nll(self, data, n_neighbors):
        terms = [
            0.5 * np.log(2 * np.pi * std**2) + (truth - mean) ** 2 / (2 * std**2)
            for truth, mean, std in self._predictions(n_neighbors)
        ]
        return np.mean(np.concatenate(terms))

    track_nll.unit = "nats per row"

    def track_cover(self, data, n_neighbors):
        hits = [
            np.abs(truth - mean) < 1.959964 * std
            for truth, mean, std in self._predictions(n_neighbors)
        ]
        return np.mean(np.concatenate(hits))

    track_cover.unit = "share inside the 95% interval"

    def _predictions(self, n_neighbors):
        for X, y, query, truth in self._parts:
            model = ENNRegressor(n_neighbors, random_state=0).fit(X, y)
            yield truth, *model.predict(query, return_std=True)
