"""The base class of every estimator, and the decorator of its fit methods."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skicml.__about__ import __version__
from skicml.base._sklearn_compat import CallbackSupportMixin, fit_context


class SkicmlEstimator(CallbackSupportMixin, BaseEstimator):
    """Base class: scikit-learn's estimator, with callbacks and versioned pickles.

    Put scikit-learn's mixins to its left, as in
    ``class Mine(RegressorMixin, SkicmlEstimator)``. A pickle carries the version of
    skicml that wrote it; another minor version loads it with a warning.

    See Also
    --------
    validated_fit : Decorator of ``fit`` and ``partial_fit``.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, with the version that wrote it."""
        return {**super().__getstate__(), "_skicml_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state; warn if another minor version wrote it."""
        state = dict(state)
        written = state.pop("_skicml_version", "unknown")
        if written.split(".")[:2] != __version__.split(".")[:2]:
            warnings.warn(
                f"This {type(self).__name__} was pickled by skicml {written} and is "
                f"loaded by skicml {__version__}; its results may differ. Refit it, or "
                "load it with the version that wrote it.",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__(state)


def validated_fit(
    method: Callable[..., Any] | None = None,
    *,
    prefer_skip_nested_validation: bool = True,
    iterative: bool = False,
) -> Callable[..., Any]:
    """Validate the constructor's parameters before a fit method runs.

    The parameters are held against ``_parameter_constraints``, unless scikit-learn's
    ``skip_parameter_validation`` is set or ``partial_fit`` continues an earlier fit.
    Callbacks hear of the beginning and the end of the method and are torn down however
    it ends, so that a progress bar on a grid search counts the fits inside.

    Parameters
    ----------
    method : callable or None, default=None
        ``fit`` or ``partial_fit``; None when the decorator is called with keywords.
    prefer_skip_nested_validation : bool, default=True
        Do not validate estimators fitted inside. Set it to False where the user hands
        in such estimators, as in a search.
    iterative : bool, default=False
        Whether the method loops over :func:`iterate`, so that its steps are tasks of
        their own to the callbacks.

    Returns
    -------
    callable
        The decorated method, or a decorator when ``method`` is None.

    See Also
    --------
    SkicmlEstimator : The base class of estimators.

    Notes
    -----
    Subclasses of scikit-learn's own estimators inherit a ``fit`` that does all this;
    an override that calls it must not be decorated again.

    Examples
    --------
    >>> from skicml.base import SkicmlEstimator, validated_fit
    >>> class Constant(SkicmlEstimator):
    ...     _parameter_constraints = {"value": [int]}
    ...
    ...     def __init__(self, value=0):
    ...         self.value = value
    ...
    ...     @validated_fit
    ...     def fit(self, X, y=None):
    ...         return self
    >>> Constant(value=3).fit([[0.0]])
    Constant(value=3)
    """
    if method is None:
        return functools.partial(
            validated_fit,
            prefer_skip_nested_validation=prefer_skip_nested_validation,
            iterative=iterative,
        )
    managed = fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)(
        _reporting(method, iterative)
    )

    @functools.wraps(method)
    def validated(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        # fit called by partial_fit: the outer call has validated and set up
        nested = hasattr(estimator, "_callback_fit_ctx")
        return (method if nested else managed)(estimator, *args, **kwargs)

    return validated


def _reporting(method: Callable[..., Any], iterative: bool) -> Callable[..., Any]:
    """Tell the callbacks when the method begins and when it has ended well."""

    @functools.wraps(method)
    def reporting(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(("X", "y"), args, strict=False)), **kwargs}
        data = {name: given.get(name) for name in ("X", "y")}
        context = estimator._init_callback_context(
            task_name=method.__name__,
            # the number of steps is not known before they converge; 0 means a leaf
            max_subtasks=None if iterative else 0,
        )
        context.call_on_fit_task_begin(estimator=estimator, **data)
        result = method(estimator, *args, **kwargs)
        context.call_on_fit_task_end(
            # no attribute is missing: callbacks see a copy of the fitted estimator
            estimator=estimator,
            reconstruction_attributes={},
            **data,
        )
        return result

    return reporting
