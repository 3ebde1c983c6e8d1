import os
import re
import sys
from pathlib import Path

os.environ["MPLBACKEND"] = "agg"
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

# the gallery looks up names in its examples, also in those it does not run
from sklearn.experimental import enable_halving_search_cv  # noqa: F401

import skicml

project = "skicml"
author = "The skicml developers"
copyright = author
release = skicml.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "markdown_file",
    "native_mathml",
]
root_doc = "index"
exclude_patterns = ["_build"]
templates_path = ["_templates"]
# scikit-learn's docstrings, inherited here, carry labels and terms of its own site
suppress_warnings = ["ref.ref", "ref.term"]

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("skicml", "skicml_accel"),
    "reference_url": {"skicml": None, "skicml_accel": None},
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    # its page would load scripts from the network
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = f"skicml {version}"
html_static_path = ["_static"]
html_css_files = ["skicml.css"]
html_math_renderer = "native_mathml"
# pages without siblings need no list of them
html_sidebars = {"install": [], "changes": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}


def keep_underscores(app, what, name, obj, options, lines):
    """Keep reStructuredText from taking fitted attributes in types for links."""
    for i, line in enumerate(lines):
        head, colon, kind = line.partition(" : ")
        if colon and "shape (" in kind:
            lines[i] = head + colon + re.sub(r"(\w)_(?=\W)", r"\1\_", kind)


def setup(app):
    """Run before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", keep_underscores, priority=0)
