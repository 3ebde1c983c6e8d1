"""The peers behind one interface each, imported on first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._measure import peer


def ennbo(n_dims: int, *, acquisition: str, seed: int) -> Any:
    """Optimizer of ennbo 0.3 on the unit cube: ``ask(n)`` and ``tell(x, y)``, maximizing.

    The compiled core as the package configures it, with 10 neighbors, 100 held-out rows
    and 100 candidate pairs for the fit; 2 d starting points, which its own optimizer
    in Python takes by default and the compiled one only when told; and min(5000, 100 d)
    candidates, the only number that the compiled core takes.

    Parameters
    ----------
    n_dims : int
        Coordinates d.
    acquisition : {"ucb", "pareto"}
        How candidates are chosen.
    seed : int
        Seed of its generator.
    """
    package = peer("enn")
    surrogate = peer("enn.turbo.config.enn_surrogate_config")
    fit = peer("enn.turbo.config.enn_fit_config")
    fitted = {"ucb": {"num_fit_samples": 100, "num_fit_candidates": 100}, "pareto": {}}
    config = package.turbo_enn_config(
        enn=surrogate.ENNSurrogateConfig(
            k=10, fit=fit.ENNFitConfig(**fitted[acquisition])
        ),
        num_init=2 * n_dims,
        acq_type=package.AcqType[acquisition.upper()],
    )
    return package.create_optimizer(
        bounds=np.tile([0.0, 1.0], (n_dims, 1)),
        config=config,
        rng=np.random.default_rng(seed),
    )


def ennbo_posterior(
    X: np.ndarray,
    y: np.ndarray,
    query: np.ndarray,
    *,
    k: int,
    a: float,
    b: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and epistemic standard deviation by ennbo at given scales."""
    package, parameters = peer("enn"), peer("enn.enn.enn_params")
    model = package.EpistemicNearestNeighbors(X, y[:, None])
    found = model.posterior(query, params=parameters.ENNParams(k, a, b))
    return np.asarray(found.mu)[:, 0], np.asarray(found.se)[:, 0]


def gp_turbo_proposal(
    X: np.ndarray, y: np.ndarray, *, fit: str, n_candidates: int, seed: int
) -> np.ndarray:
    """One proposal of TuRBO with an exact Gaussian process, by BoTorch and GPyTorch.

    Fit of a Matern-5/2 process with a length scale for each coordinate, then one
    Thompson sample on candidates of the trust region, whose sides follow the length
    scales. Priors, bounds of the parameters and the 50 Adam steps of rate 0.1 are those
    of the TuRBO paper's experiments; "lbfgs" is BoTorch's own fit instead. Exact
    linear algebra throughout, float64.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Observed points of the unit cube.
    y : ndarray of shape (n,)
        Their values, to be maximized.
    fit : {"adam", "lbfgs"}
        How the parameters of the process are found.
    n_candidates : int
        Candidates of the Thompson sample.
    seed : int
        Seed of the candidates and the sample.

    Returns
    -------
    ndarray of shape (d,)
    """
    torch, gpytorch = peer("torch"), peer("gpytorch")
    models, generation = peer("botorch.models"), peer("botorch.generation")
    torch.manual_seed(seed)
    n_dims = X.shape[1]
    train_x = torch.as_tensor(X)
    train_y = torch.as_tensor((y - y.mean()) / y.std())[:, None]
    interval = gpytorch.constraints.Interval
    kernel = gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.MaternKernel(
            nu=2.5,
            ard_num_dims=n_dims,
            lengthscale_constraint=interval(0.005, 2.0),
        ),
        outputscale_constraint=interval(0.05, 20.0),
    )
    model = models.SingleTaskGP(
        train_x,
        train_y,
        covar_module=kernel,
        likelihood=gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=interval(5e-4, 0.2)
        ),
        outcome_transform=None,
    )
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with gpytorch.settings.max_cholesky_size(10**6):
        if fit == "adam":
            _adam(torch, model, objective)
        else:
            peer("botorch.fit").fit_gpytorch_mll(objective)
        model.eval()
        scales = kernel.base_kernel.lengthscale.detach()[0]
        sides = 0.8 * scales / scales.log().mean().exp()
        center = train_x[train_y.argmax()]
        lower = (center - sides / 2).clamp(0, 1)
        upper = (center + sides / 2).clamp(0, 1)
        sobol = torch.quasirandom.SobolEngine(n_dims, scramble=True, seed=seed)
        inside = lower + (upper - lower) * sobol.draw(n_candidates, dtype=torch.float64)
        redrawn = torch.rand(n_candidates, n_dims) <= min(1.0, 20 / n_dims)
        candidates = torch.where(redrawn, inside, center)
        sample = generation.MaxPosteriorSampling(model, replacement=False)
        with torch.no_grad():
            return sample(candidates, num_samples=1)[0].numpy()


def _adam(torch: Any, model: Any, objective: Any) -> None:
    """Fifty steps on the negative marginal likelihood."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        output = model(*model.train_inputs)
        loss = -objective(output, model.train_targets)
        loss.backward()
        optimizer.step()


def tpe_study(seed: int) -> Any:
    """Study of optuna with its default sampler, silent, maximizing."""
    optuna = peer("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
    )


def suggest(trial: Any, space: dict[str, Any]) -> dict[str, Any]:
    """Let a trial of optuna choose from a space in the notation of TuRBOENN."""
    chosen = {}
    for name, dimension in space.items():
        if isinstance(dimension, list):
            chosen[name] = trial.suggest_categorical(name, dimension)
            continue
        low, high, *log = dimension
        whole = isinstance(low, int)
        draw = trial.suggest_int if whole else trial.suggest_float
        chosen[name] = draw(name, low, high, log=bool(log))
    return chosen
