"""How Sphinx builds the manual: `make docs`."""

from importlib.metadata import version as installed
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

project = "miniamp"
author = "The miniamp developers"
copyright = "the miniamp developers"  # noqa: A001
release = version = installed("miniamp")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
# A name between single backticks is code, in docstrings as in the pages.
default_role = "code"
exclude_patterns = ["_build", "figures", "images", "benchmarks/*", "examples"]
# Scripts of docs/examples are run, and shown with their output and pictures.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "_examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
}
# Types of parameters are words there, such as "(M,) array": not every one is a name to link to.
suppress_warnings = ["ref.python"]

autodoc_default_options = {
    "members": True,
    # What scikit-learn adds to every estimator.
    "exclude-members": ",".join(
        f"set_{name}_request" for name in ("fit", "partial_fit", "predict", "score")
    ),
}
autodoc_inherit_docstrings = False
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
# "mean, std : (N,) arrays" describes both at once, as it does among parameters.
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"miniamp {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False

HERE = Path(__file__).parent
#: What the figures show; one without a line here is shown under its own name.
CAPTIONS = {
    "figure1": "Figure 1: the error of Mini-AMP against the rows seen, by size of a batch.",
    "figure2": "Figure 2: phase transitions, and where Mini-AMP is optimal batch by batch.",
    "figure3": "Figure 3: clustering, on synthetic mixtures and on real data.",
    "figure4": "Figure 4: how many iterations a batch needs.",
    "beyond-memory": "Beyond the paper: designs that need memory from batch to batch.",
    "beyond-parts": "Beyond the paper: other priors and channels, with their theory.",
    "beyond-phases": "Beyond the paper: phase diagrams.",
    "beyond-plan": "Beyond the paper: the size of a batch that theory recommends.",
    "beyond-schedule": "Beyond the paper: the same rows in batches of different sizes.",
    "beyond-drift": "Beyond the paper: coefficients that drift, and how much to forget.",
}


def _gallery():
    """A section for every figure there is."""
    for picture in sorted((HERE / "figures").glob("*.png"), key=lambda path: _rank(path.stem)):
        caption = CAPTIONS.get(picture.stem, picture.stem)
        yield f"## {picture.stem}\n\n{caption}\n"
        yield f"```{{image}} figures/{picture.name}\n:alt: {caption}\n```\n"


def _rank(name):
    return (list(CAPTIONS).index(name) if name in CAPTIONS else len(CAPTIONS), name)


def _tables():
    """A section for every table of a benchmark's run that was put in docs/benchmarks."""
    for table in sorted((HERE / "benchmarks").glob("*.csv")):
        yield f"## {table.stem}\n"
        yield f"```{{csv-table}}\n:file: benchmarks/{table.name}\n:header-rows: 1\n```\n"


def _with_what_there_is(app, docname, source):  # noqa: ARG001
    more = {"gallery": _gallery, "benchmarks": _tables}.get(docname)
    if more is not None:
        source[0] = "\n".join([source[0], *more()])


def _formula(block):
    """What writes a formula as MathML, which browsers draw without a script or a network."""

    def write(self, node):
        text = tex2mathml(node.astext(), as_block=block)
        self.body.append(f"<div class='math'>{text}</div>" if block else text)
        raise SkipNode

    return write


def setup(app):
    app.add_html_math_renderer("mathml", (_formula(False), None), (_formula(True), None))
    app.connect("source-read", _with_what_there_is)
