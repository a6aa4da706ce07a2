"""Sphinx configuration: `sphinx-build -W -b html docs docs/_build/html`, without a network."""

import os
from pathlib import Path

import understudy

project = "understudy"
author = "The understudy maintainers"
project_copyright = author
release = version = understudy.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "api"]

# Pages are text; their examples run as doctests. paper.md is a notebook (its head says so), and runs when the
# documentation is built. Formulas are plain text as well, so no page needs a script from elsewhere to be read.
nb_execution_mode = "auto"
# its kernel, which starts in this folder, takes the package that the other pages are made from
os.environ["PYTHONPATH"] = str(Path(understudy.__file__).resolve().parent.parent)
nb_execution_raise_on_error = True
nb_execution_timeout = 300
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

html_theme = "furo"
html_title = f"understudy {release}"
html_show_sphinx = False
