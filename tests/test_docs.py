"""Public docstrings, the pages that show code, and that nothing public is left out."""

import ast
import doctest
import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from numpydoc.validate import validate
from sklearn.utils.estimator_checks import check_estimator

import skicml
import skicml_accel

ROOT = Path(__file__).parent.parent
USER_PACKAGES = [f"skicml.{name}" for name in skicml._PACKAGES if name != "base"]
PACKAGES = [
    *USER_PACKAGES,
    "skicml.base",
    "skicml_accel",
    *(
        f"skicml_accel.{module.name}"
        for module in pkgutil.iter_modules(skicml_accel.__path__)
        if module.ispkg
    ),
]
# a lone return value needs no name, and a docstring may start beside its quotes
EXCUSED = {"RT02", "GL01"}
# summary, links and examples of a method are those of its class; helpers do without
EXCUSED_OF_PARTS = EXCUSED | {"ES01", "SA01", "EX01"}


def public_objects():
    """Dotted names of public classes and functions; constants have no docstring."""
    return [
        f"{package}.{name}"
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if callable(getattr(importlib.import_module(package), name))
    ]


def find(name):
    package, _, path = name.partition(".")
    return functools.reduce(getattr, path.split("."), importlib.import_module(package))


def own_members():
    """Dotted names of the public methods and properties that our classes define."""
    kinds = (property, classmethod, staticmethod)
    return [
        f"{name}.{member}"
        for name in public_objects()
        if inspect.isclass(find(name))
        for member, value in vars(find(name)).items()
        if not member.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, kinds))
    ]


def numpydoc_errors(name, codes):
    return [error for error in validate(name)["errors"] if error[0] not in codes]


@pytest.mark.parametrize("name", public_objects())
def test_docstring_of_public_object_follows_numpydoc(name):
    of_users = name.rpartition(".")[0] in USER_PACKAGES
    codes = EXCUSED if of_users else EXCUSED_OF_PARTS
    if inspect.isgeneratorfunction(inspect.unwrap(find(name))):
        # a context manager: what it yields is nobody's concern
        codes = codes | {"YD01"}
    assert numpydoc_errors(name, codes) == []


@pytest.mark.parametrize("name", own_members())
def test_docstring_of_method_follows_numpydoc(name):
    assert numpydoc_errors(name, EXCUSED_OF_PARTS) == []


def estimators():
    return sorted(
        name for name in skicml._HOMES if inspect.isclass(getattr(skicml, name))
    )


def pages(folder):
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "doc" / folder).glob("*.rst"))
    }


@pytest.mark.parametrize("name", sorted(skicml._HOMES))
def test_public_name_has_a_place_in_the_user_guide(name):
    mention = re.compile(rf":(class|func):`[~.\w]*\b{name}`")
    assert any(mention.search(text) for text in pages("user_guide").values())


@pytest.mark.parametrize("name", public_objects())
def test_public_object_has_an_entry_in_the_reference(name):
    listed = set()
    for text in pages("api").values():
        if module := re.search(r"currentmodule:: (\S+)", text):
            entries = re.findall(r"^   ([\w.]+)$", text, flags=re.MULTILINE)
            listed |= {f"{module[1]}.{entry}" for entry in entries}
    assert name in listed


@pytest.mark.parametrize("name", estimators())
def test_public_estimator_has_an_example_in_the_gallery(name):
    scripts = sorted((ROOT / "examples").glob("*/plot_*.py"))
    assert any(
        name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for tree in (ast.parse(p.read_text(encoding="utf-8")) for p in scripts)
    )


def test_every_page_of_the_guide_is_in_its_contents():
    texts = pages("user_guide")
    contents = texts.pop("index")
    missing = [n for n in texts if not re.search(rf"^   {n}$", contents, re.MULTILINE)]
    assert missing == []


def pages_with_examples():
    made = {"_build", "auto_examples", "generated"}
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "doc").rglob("*.rst"))
        if not made & set(path.parts) and ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("page", pages_with_examples())
def test_examples_in_a_page_run(page):
    failures, _ = doctest.testfile(str(ROOT / page), module_relative=False)
    assert failures == 0


def modules_with_examples():
    return [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for root, package in ((ROOT, "skicml"), (ROOT / "accel", "skicml_accel"))
        for path in sorted((root / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name):
    failures, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failures == 0


def test_template_for_new_estimators_passes_the_contract(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "doc" / "dev")
    template = importlib.import_module("template")
    check_estimator(template.Name(), on_skip=None)
    assert doctest.testmod(template).failed == 0
    assert numpydoc_errors("template.Name", EXCUSED) == []
