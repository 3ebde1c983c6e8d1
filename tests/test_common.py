"""scikit-learn's contract for every public estimator, without expected failures."""

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import skicml

REGULARIZATION = (1e-3, 1e3, "log-uniform")

ESTIMATORS = [
    skicml.ENNRegressor(),
    skicml.ENNRegressor(fit_method="random", scale_X=True),
    skicml.TuRBOENNSearchCV(
        LogisticRegression(), {"C": REGULARIZATION}, n_iter=4, cv=2, random_state=0
    ),
    skicml.TuRBOENNSearchCV(
        make_pipeline(StandardScaler(), Ridge()),
        {"ridge__alpha": REGULARIZATION},
        n_iter=4,
        batch_size=2,
        cv=2,
        error_score="raise",
        random_state=0,
    ),
    skicml.LiftedGWAligner(),
    skicml.LiftedGWAligner(solver="cnt", n_components=3),
    skicml.LiftedGWAligner(solver="multiscale", dtype=None),
    skicml.SRGWMatcher(),
    skicml.SRGWMatcher(penalty="hard", init="tlb", lam=0.5, anneal=0.75),
    skicml.SRGWMatcher(solver="sinkhorn", init="welsch", masks="source"),
]


def public_estimators():
    """Classes that ``from skicml import`` offers and scikit-learn calls estimators."""
    objects = {name: getattr(skicml, name) for name in skicml.__all__}
    return {
        name: thing
        for name, thing in objects.items()
        if inspect.isclass(thing) and issubclass(thing, BaseEstimator)
    }


@parametrize_with_checks(ESTIMATORS, xfail_strict=True)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(public_estimators()))
def test_every_public_estimator_is_checked(name):
    assert any(type(e).__name__ == name for e in ESTIMATORS)
