"""How Sphinx builds the manual: `make docs`."""

import re
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
]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "figures", "images", "benchmarks/*"]
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
napoleon_use_ivar = True

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"miniamp {release}"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False

_CODE = re.compile(r"(``.*?``)")
_SINGLE = re.compile(r"(?<![`:\w])`([^`]+)`(?![`_])")
_GROUP = re.compile(r"(\w+(?:, \w+)+)( ?:.*|)")
_NAME = re.compile(r"(\w*[^\W_])_(?![\w`])")


def _outside_examples(lines, change):
    in_example = False
    for i, line in enumerate(lines):
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if not in_example:
            lines[i] = change(line)


def _code(line):
    """A line in which a name between single backticks is code."""
    return _SINGLE.sub(r"``\1``", line)


def _text(line):
    """A line with all that reStructuredText would take for markup left as text.

    Docstrings are written to be read as they are: coef_ is a name there, and |x| a length.
    """
    parts = _CODE.split(line)
    for i in range(0, len(parts), 2):
        parts[i] = _NAME.sub(r"\1\_", parts[i]).replace("|", r"\|")
    return "".join(parts)


def _ungrouped(lines):
    """The lines with `a, b : type` among the attributes made an entry for each name.

    Sphinx would take all names but the last for a type.
    """
    section, group, found = "", [], []

    def told():
        """Every name of the group with what is said of them all."""
        for name in group[0]:
            found.extend([f"{name}{group[1]}", *group[2]])
        group.clear()

    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        names = _GROUP.fullmatch(line)
        if group and line[:1].strip():
            told()
        if below and not below.strip("-") and line.strip():
            section = line
        if section == "Attributes" and names:
            group[:] = [names[1].split(", "), names[2], []]
        elif group:
            group[2].append(line)
        else:
            found.append(line)
    if group:
        told()
    lines[:] = found


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
    # Before and after napoleon, which turns sections into fields.
    change = "autodoc-process-docstring"
    app.connect(change, lambda *args: _ungrouped(args[-1]), priority=390)
    app.connect(change, lambda *args: _outside_examples(args[-1], _code), priority=400)
    app.connect(change, lambda *args: _outside_examples(args[-1], _text), priority=600)
