"""The methods of the project, and the papers they come from."""

from __future__ import annotations

from dataclasses import dataclass

import skicml


@dataclass(frozen=True)
class Method:
    """A method, by the name of its estimator.

    Parameters
    ----------
    name : str
        Public name in ``skicml``.
    paper : str
        Title of the paper.
    arxiv : str or None
        Its arXiv id; None if it is not there.
    task : str
        What the method is for, in a few words.
    demo : str or None, default=None
        Module of ``skicml.demo`` that shows it; None before there is one.
    """

    name: str
    paper: str
    arxiv: str | None
    task: str
    demo: str | None = None

    @property
    def ready(self) -> bool:
        """Whether it can be imported from ``skicml``."""
        return self.name in skicml.__all__


_ENN = "Taking the GP Out of the Loop", "2506.12818"
_ICR = "ICR-RL: Deep Reinforcement Learning via In-Context-Regression", "2509.11259"

#: In the order in which they are listed and shown.
METHODS = (
    Method(
        "ENNRegressor",
        *_ENN,
        "regression with an uncertainty, for many rows",
        "_enn_regressor",
    ),
    Method(
        "TuRBOENN",
        *_ENN,
        "optimization of expensive functions, for many evaluations",
        "_turbo_enn",
    ),
    Method(
        "TuRBOENNSearchCV",
        *_ENN,
        "search of hyperparameters",
        "_turbo_enn_search_cv",
    ),
    Method(
        "LiftedGWAligner",
        "Gromov-Wasserstein at Scale, Beyond Squared Norms",
        "2602.06658",
        "alignment of two point clouds by their distances",
        "_lifted_gw_aligner",
    ),
    Method(
        "SRGWMatcher",
        "Achieving Structurally Robust Gromov-Wasserstein Distance via Adaptive "
        "Dual-Mask",
        None,
        "matching of two structures of which single pairs are wrong",
        "_srgw_matcher",
    ),
    Method(
        "OTSubsetSelector",
        "Geometry-Aware Dataset Condensation for Diffusion Model Training",
        "2606.05883",
        "choice of representative rows",
    ),
    Method(
        "DywaveTokenizer",
        "Dywave: Event-Aligned Dynamic Tokenization for Heterogeneous IoT Sensing "
        "Signals",
        "2605.14014",
        "short token sequences from sensor signals",
    ),
    Method(
        "YAQAQuantizer",
        "Model-Preserving Adaptive Rounding",
        "2505.22988",
        "compression of trained models to few bits",
    ),
    Method(
        "SparseXMCClassifier",
        "HASTE: Hardware-Aware Dynamic Sparse Training for Large Output Spaces",
        "2606.01117",
        "classification with very many labels",
    ),
    Method(
        "FlashVAEDDistiller",
        "Flash-VAED: Plug-and-Play VAE Decoders for Efficient Video Generation",
        "2602.19161",
        "faster decoders of video autoencoders",
    ),
    Method("ICRRLAgent", *_ICR, "reinforcement learning without gradients"),
    Method("InContextRegressor", *_ICR, "regression by a pretrained network"),
)


def find_method(name: str) -> Method:
    """Look up a method that is ready, by its name or an unambiguous beginning of it.

    Parameters
    ----------
    name : str
        Capitals do not matter.

    Returns
    -------
    Method

    Raises
    ------
    ValueError
        If there is none of this name, or it is not ready; with the nearest names.

    Examples
    --------
    >>> from skicml._methods import find_method
    >>> find_method("enn").name
    'ENNRegressor'
    """
    wanted = name.lower()
    found = [m for m in METHODS if m.name.lower() == wanted] or [
        m for m in METHODS if wanted and m.name.lower().startswith(wanted)
    ]
    ready = [m.name for m in METHODS if m.ready and m.demo]
    if len(found) > 1:
        options = " or ".join(m.name for m in found)
        raise ValueError(f"'{name}' can be {options}. Write out which.")
    if not found:
        raise ValueError(
            f"There is no method named '{name}'. {_nearest(wanted, ready)}"
        )
    if found[0].name not in ready:
        raise ValueError(
            f"{found[0].name} is planned and cannot run yet. Choose {_either(ready)}."
        )
    return found[0]


def _nearest(wanted: str, ready: list[str]) -> str:
    """Suggest the nearest names, or all that can run."""
    from difflib import get_close_matches

    names = {m.name.lower(): m.name for m in METHODS}
    close = [names[key] for key in get_close_matches(wanted, names, n=3, cutoff=0.5)]
    return f"Did you mean {_either(close)}?" if close else f"Choose {_either(ready)}."


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
