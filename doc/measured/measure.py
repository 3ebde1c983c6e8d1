"""Measure the numbers of the user guide and write them beside this file.

Run it from the root of the repository, in an environment with the extras "doc" and
"bench", on a machine that does nothing else::

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python doc/measured/measure.py [name ...]

Each function below writes one table of the name it bears. Random functions and data
follow fixed seeds; times depend on the machine.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def small_regression() -> None:
    """Compare regressors by five-fold cross-validation where a GP still fits."""
    from sklearn.datasets import load_diabetes, make_friedman1
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.model_selection import KFold
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.preprocessing import StandardScaler

    from skicml import ENNRegressor

    data = {
        "diabetes": load_diabetes(return_X_y=True),
        "Friedman": make_friedman1(2000, noise=1.0, random_state=0),
    }
    rows = []
    for title, (X, y) in data.items():
        kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(
            np.ones(X.shape[1]), (1e-1, 1e4)
        ) + WhiteKernel(0.5, (1e-4, 1e1))
        models = {
            "ENNRegressor": ENNRegressor(random_state=0),
            "nearest neighbors": KNeighborsRegressor(10),
            "Gaussian process": GaussianProcessRegressor(
                kernel, normalize_y=True, random_state=0
            ),
            "gradient boosting": HistGradientBoostingRegressor(random_state=0),
        }
        for name, model in models.items():
            residual, deviation, seconds = [], [], 0.0
            for train, test in KFold(5, shuffle=True, random_state=0).split(X):
                scaler = StandardScaler().fit(X[train])
                A, B = scaler.transform(X[train]), scaler.transform(X[test])
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # bounds of length scales
                    model.fit(A, y[train])
                if name in ("ENNRegressor", "Gaussian process"):
                    mean, std = model.predict(B, return_std=True)
                    deviation.append(std)
                else:
                    mean = model.predict(B)
                seconds += time.process_time() - start
                residual.append(y[test] - mean)
            error = np.concatenate(residual)
            cover, loss = "", ""
            if deviation:
                std = np.concatenate(deviation)
                cover = f"{np.mean(np.abs(error) <= 1.96 * std):.1%}"
                nats = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2
                loss = f"{nats.mean():.3f}"
            score = 1 - np.mean(error**2) / np.var(y)
            rows.append(
                [title, name, f"{score:.3f}", loss, cover, f"{seconds / 5:.3f}"]
            )
    header = ["data", "model", "R²", "NLL (nats)", "covered", "seconds"]
    _write("small_regression", header, rows)


def few_evaluations(n_seeds: int = 5) -> None:
    """Compare optimizers on smooth, exact functions with few evaluations."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from botorch.test_functions import Branin, Hartmann
    from gpytorch.mlls import ExactMarginalLogLikelihood

    from skicml import TuRBOENN

    torch.set_num_threads(1)
    budgets = (20, 40, 80)

    def random(value: Any, box: Any, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return value(rng.uniform(*box.T, (budgets[-1], len(box))))

    def nearest(noise: str) -> Any:
        def run(value: Any, box: Any, seed: int) -> np.ndarray:
            optimizer = TuRBOENN(box, noise=noise, random_state=seed)
            for _ in range(budgets[-1]):
                x = optimizer.ask()
                optimizer.tell(x, value(x))
            return optimizer.history_["y"]

        return run

    def gaussian(value: Any, box: Any, seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        low, width = box[:, 0], np.ptp(box, axis=1)
        unit = torch.tensor([[0.0] * len(box), [1.0] * len(box)], dtype=torch.float64)
        X = torch.rand(2 * len(box), len(box), dtype=torch.float64)
        y = value(low + width * X.numpy())
        while len(y) < budgets[-1]:
            model = SingleTaskGP(X, torch.from_numpy(y)[:, None])
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            x, _ = optimize_acqf(
                LogExpectedImprovement(model, y.max()),
                unit,
                q=1,
                num_restarts=4,
                raw_samples=128,
            )
            X, y = torch.cat([X, x]), np.append(y, value(low + width * x.numpy()))
        return y

    rows = []
    for problem in (Branin(negate=True), Hartmann(dim=6, negate=True)):
        problem = problem.to(torch.float64)
        box = problem.bounds.T.numpy()

        def value(x: Any, problem: Any = problem) -> np.ndarray:
            return problem(torch.as_tensor(x)).numpy()

        for name, run in (
            ("random points", random),
            ('TuRBOENN, noise="auto"', nearest("auto")),
            ('TuRBOENN, noise="none"', nearest("none")),
            ("GP, log expected improvement (BoTorch)", gaussian),
        ):
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs = [run(value, box, seed) for seed in range(n_seeds)]
            seconds = (time.process_time() - start) / n_seeds / budgets[-1]
            gap = problem.optimal_value - np.maximum.accumulate(runs, axis=1)
            cells = [f"{gap[:, b - 1].mean():.4f}" for b in budgets]
            title = f"{type(problem).__name__}, {len(box)} variables"
            rows.append([title, name, *cells, f"{1e3 * seconds:.0f}"])
    header = [
        "function",
        "method",
        *(f"after {b}" for b in budgets),
        "milliseconds per evaluation",
    ]
    _write("few_evaluations", header, rows)


def many_evaluations(n_seeds: int = 5) -> None:
    """Compare optimizers on Ackley's function of 20 variables, with and without noise."""
    import optuna
    from enn import AcqType, create_optimizer, turbo_enn_config
    from enn.turbo.config.enn_fit_config import ENNFitConfig
    from enn.turbo.config.enn_surrogate_config import ENNSurrogateConfig

    from skicml import TuRBOENN

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    n_dims, budget, batch = 20, 1000, 10
    box = np.tile([-5.0, 10.0], (n_dims, 1))

    def ackley(x: np.ndarray) -> np.ndarray:
        far = -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2, axis=1)))
        waves = np.exp(np.mean(np.cos(2 * np.pi * x), axis=1))
        return -(far - waves + 20 + np.e)

    class Ours:
        def __init__(self, seed: int, **settings: Any) -> None:
            self.run = TuRBOENN(box, batch_size=batch, random_state=seed, **settings)
            self.ask, self.tell = self.run.ask, self.run.tell

        def best(self) -> np.ndarray:
            return self.run.best_x_

    class Loop:
        """A peer that reports the point of its largest value."""

        def __init__(self) -> None:
            self.seen: list[tuple[float, np.ndarray]] = []

        def tell(self, x: np.ndarray, y: np.ndarray) -> None:
            self.seen += zip(y.tolist(), x, strict=True)

        def best(self) -> np.ndarray:
            return max(self.seen, key=lambda pair: pair[0])[1]

    class Random(Loop):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.rng = np.random.default_rng(seed)

        def ask(self) -> np.ndarray:
            return self.rng.uniform(*box.T, (batch, n_dims))

    class Reference(Loop):
        def __init__(self, seed: int) -> None:
            super().__init__()
            fit = ENNFitConfig(num_fit_samples=100, num_fit_candidates=100)
            config = turbo_enn_config(
                enn=ENNSurrogateConfig(k=10, fit=fit),
                num_init=2 * n_dims,
                acq_type=AcqType.UCB,
            )
            rng = np.random.default_rng(seed)
            self.run = create_optimizer(bounds=box, config=config, rng=rng)

        def ask(self) -> np.ndarray:
            return np.asarray(self.run.ask(batch))

        def tell(self, x: np.ndarray, y: np.ndarray) -> None:
            super().tell(x, y)
            self.run.tell(x, y)

    class Parzen(Loop):
        def __init__(self, seed: int) -> None:
            super().__init__()
            sampler = optuna.samplers.TPESampler(seed=seed)
            self.study = optuna.create_study(direction="maximize", sampler=sampler)

        def ask(self) -> np.ndarray:
            self.trials = [self.study.ask() for _ in range(batch)]
            return np.array(
                [
                    [t.suggest_float(f"x{i}", *box[i]) for i in range(n_dims)]
                    for t in self.trials
                ]
            )

        def tell(self, x: np.ndarray, y: np.ndarray) -> None:
            super().tell(x, y)
            for trial, value in zip(self.trials, y.tolist(), strict=True):
                self.study.tell(trial, value)

    methods = {
        'TuRBOENN, noise="none"': lambda seed: Ours(seed, noise="none"),
        'TuRBOENN, noise="auto"': lambda seed: Ours(seed),
        "TuRBOENN without its model": lambda seed: Ours(seed, acquisition="random"),
        "ennbo 0.3.3, UCB": Reference,
        "optuna TPE": Parzen,
        "random points": Random,
    }
    rows = []
    for name, make in methods.items():
        cells, seconds = [], 0.0
        for noise in (0.0, 1.0):
            found = []
            for seed in range(n_seeds):
                rng, loop = np.random.default_rng(1000 + seed), make(seed)
                for _ in range(budget // batch):
                    start = time.process_time()
                    x = loop.ask()
                    seconds += time.process_time() - start
                    y = ackley(x) + noise * rng.standard_normal(batch)
                    start = time.process_time()
                    loop.tell(x, y)
                    seconds += time.process_time() - start
                found.append(ackley(loop.best()[None])[0])
            cells.append(f"{np.mean(found):.2f} ± {np.std(found):.2f}")
        rows.append([name, *cells, f"{1e3 * seconds / (2 * n_seeds * budget):.1f}"])
    header = [
        "method",
        "exact values",
        "noise of deviation 1",
        "milliseconds per evaluation",
    ]
    _write("many_evaluations", header, rows)


def _write(name: str, header: list[str], rows: list[list[str]]) -> None:
    with (HERE / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    tables = {
        f.__name__: f for f in (small_regression, few_evaluations, many_evaluations)
    }
    for table in sys.argv[1:] or tables:
        tables[table]()
