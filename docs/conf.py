"""Sphinx configuration of the documentation: `make docs` builds it into build/docs."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]
os.environ["HF_HUB_OFFLINE"] = "1"  # pages are built without a network

project = "goalmeter"
author = "The goalmeter authors"
copyright = "The goalmeter authors"
with (HERE.parent / "pyproject.toml").open("rb") as file:
    release = version = tomllib.load(file)["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "accessible",
    "docstrings",
    "links",
    "environment_pages",
    "public_names",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_*", "gallery", "**/README.md", "results", "schemas"]
nitpicky = True
# Types in signatures are not all public, and those of other libraries are not described here.
nitpick_ignore_regex = [("py:(class|exc)", ".*")]

# A short name in an annotation may be that of several objects.
suppress_warnings = ["ref.python"]

# --- Markdown ---
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
# Blocks without a language are commands, drawings and output.
highlight_language = "none"
default_role = "literal"

# --- Reference ---
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("ArrayLike", "FloatArray")}
napoleon_use_ivar = True
python_maximum_signature_line_length = 80

# --- Gallery ---
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "only_warn_on_example_error": False,
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "parallel": int(os.environ.get("WORKERS", "1")),
}

# --- HTML ---
html_theme = "furo"
html_title = f"goalmeter {release}"
copybutton_prompt_is_regexp = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
html_copy_source = False
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_extensions" / "scorer.js")
html_static_path = ["_static"]

# --- External links (make docs LINKS=1) ---
linkcheck_anchors = False
linkcheck_timeout = 20
linkcheck_retries = 2
