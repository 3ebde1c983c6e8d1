"""Packages that only some methods need."""

from __future__ import annotations

import importlib
from types import ModuleType


def optional_import(name: str, needed_by: str, extra: str) -> ModuleType:
    """Import a package of an extra, or say how to install it.

    Call it inside the method that needs the package, never at the top of a module.

    Parameters
    ----------
    name : str
        Module to import, such as "matplotlib.pyplot".
    needed_by : str
        Who needs it, as the user knows it.
    extra : str
        Extra of skicml that brings the package.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If the package is not installed.

    Examples
    --------
    >>> from skicml.base import optional_import
    >>> optional_import("json", needed_by="this example", extra="test").__name__
    'json'
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # a package that is there but lacks one of its own needs shows its own error
        if error.name != package:
            raise
        raise ImportError(
            f"{needed_by} needs the optional package '{package}', which is not "
            f"installed. Install it with: pip install 'skicml[{extra}]'",
            name=package,
        ) from error
