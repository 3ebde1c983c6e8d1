"""TuRBOENN against ennbo, the package of the paper's authors."""

from importlib import metadata

import numpy as np
import pytest

from skicml import TuRBOENN

enn = pytest.importorskip("enn")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        not metadata.version("ennbo").startswith("0.3."), reason="needs ennbo 0.3"
    ),
]


def _peer(n_dims, *, acquisition="PARETO", seed=0):
    """Optimizer of the package with 10 neighbors and 2 d starting points."""
    from enn.turbo.config.enn_fit_config import ENNFitConfig
    from enn.turbo.config.enn_surrogate_config import ENNSurrogateConfig

    fit = {"num_fit_samples": 100, "num_fit_candidates": 100}
    config = enn.turbo_enn_config(
        enn=ENNSurrogateConfig(
            k=10, fit=ENNFitConfig(**({} if acquisition == "PARETO" else fit))
        ),
        num_init=2 * n_dims,
        acq_type=enn.AcqType[acquisition],
    )
    return enn.create_optimizer(
        bounds=np.tile([0.0, 1.0], (n_dims, 1)),
        config=config,
        rng=np.random.default_rng(seed),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_dims", "batch"), [(6, 3), (20, 10)])
def test_trust_region_takes_the_steps_of_peer(n_dims, batch, seed):
    """Same improvements and failures, same lengths, down to the end of the region."""
    rng = np.random.default_rng(seed)
    ours = TuRBOENN(
        [(0.0, 1.0)] * n_dims, noise="none", n_candidates=10 * batch, random_state=0
    )
    theirs = _peer(n_dims)
    n_start = 2 * n_dims // batch
    # the package sets its counters aside in the first round after the design and ours
    # counts it; an improvement and then a failure bring both to the same state
    improves = [True, False, *(rng.random(200) < 0.3)]
    level, lengths = 1.0, []
    for turn in range(n_start + len(improves)):
        x, their_x = ours.ask(batch), theirs.ask(batch)
        lengths.append((ours.trust_region_["length"], theirs.tr_length))
        if turn and lengths[-1][0] > 2 * lengths[-2][0]:
            # a restart
            break
        y = rng.random(batch)
        if turn >= n_start and improves[turn - n_start]:
            # far above a thousandth of the range of what came before
            level *= 1.5
            y[0] = level
        ours.tell(x, y)
        theirs.tell(their_x, y)
    assert min(lengths)[0] < 0.02
    assert [a for a, _ in lengths] == [b for _, b in lengths]


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["pareto", "ucb"])
def test_optimum_is_no_worse_than_that_of_peer(acquisition):
    """A shifted, stretched sphere; means over eight seeds within a pooled deviation.

    For equal distributions the difference of two means of eight has a standard
    deviation of half the pooled one, so that this fails by chance once in forty seeds
    of the peer or ours; both are fixed.
    """
    n_dims = 10
    slope = np.linspace(1, 10, n_dims)

    def function(x):
        return -np.log10((slope * (x - 0.3) ** 2).sum(axis=1) + 1e-6)

    def best(optimizer):
        value = -np.inf
        for _ in range(30):
            x = optimizer.ask(10)
            y = function(x)
            optimizer.tell(x, y)
            value = max(value, y.max())
        return value

    ours, theirs = np.array(
        [
            (
                best(
                    TuRBOENN(
                        [(0.0, 1.0)] * n_dims,
                        acquisition=acquisition,
                        noise="none" if acquisition == "pareto" else "auto",
                        random_state=seed,
                    )
                ),
                best(_peer(n_dims, acquisition=acquisition.upper(), seed=seed)),
            )
            for seed in range(8)
        ]
    ).T
    pooled = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 2)
    assert ours.mean() >= theirs.mean() - pooled, (ours, theirs)
