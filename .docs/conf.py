"""The settings of the site: `sphinx-build -W -n .docs FOLDER` builds it."""

import inspect
import os
import re
import shutil
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

from graphut import __version__
from graphut.models import outputs
from graphut.models.config import ModelConfig
from graphut.topology import Topology

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the extension `commands`

# Notebooks are pages. They run beside a copy of the trained model that they load.
shutil.rmtree(HERE / "examples", ignore_errors=True)
shutil.copytree(HERE.parent / "examples" / "sort", HERE / "examples" / "sort")
for notebook in HERE.parent.glob("examples/*.ipynb"):
    shutil.copy(notebook, HERE / "examples")
os.environ["PYTHONPATH"] = str(HERE.parent)  # of the kernels that run the pages

project = "graphut"
version = release = __version__
extensions = [
    "commands",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
templates_path = ["templates"]
exclude_patterns = ["templates", "examples/sort"]

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_output_stderr = "remove"

myst_heading_anchors = 3
maximum_signature_line_length = 88
highlight_language = "none"  # where a block of code names no language
smartquotes_action = "qe"  # quotes and ellipses; the dashes of options stay two

html_theme = "furo"
html_title = "graphut"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"

# Docstrings write code in single backticks: names that the site knows become links.
default_role = "py:obj"
# References are checked where they are to graphut; torch and DGL have their own sites.
nitpick_ignore_regex = [("py:.*", r"(?s)(?!graphut\.).*")]

autodoc_typehints = "none"  # the docstrings have types and shapes
autodoc_member_order = "bysource"
autosummary_ignore_module_all = False
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


def write_math(translator: Any, node: Element) -> None:
    """Write a formula as MathML, which browsers show without a script from elsewhere."""
    translator.body.append(tex2mathml(node.astext(), as_block=node.tagname == "math_block"))
    raise SkipNode


def skip(app: Sphinx, what: str, name: str, value: object, skipped: bool, options: Any) -> bool:
    """Leave out `extra_repr`, and the fields of outputs, which their classes describe."""
    described = type(value).__name__ == "_tuplegetter" and any(
        getattr(kind, name, None) is value for kind in vars(outputs).values()
    )
    return skipped or described or name == "extra_repr"


def plain_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str
) -> tuple[str | None, str]:
    """Leave out what a class keeps for itself; show the fields of a topology."""
    if what == "class" and issubclass(value, Topology):
        signature = stringify_signature(inspect.signature(value), show_annotation=False)
    return signature and re.sub(r", _\w+=[^,)]*", "", signature), returns


def add_help(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Describe the fields of a configuration by their help."""
    if what == "class" and issubclass(value, ModelConfig):
        described = [f":param {field.name}: {field.metadata['help']}" for field in fields(value)]
        lines += ["", *described]


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-process-docstring", add_help)
