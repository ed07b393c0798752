# SPDX-License-Identifier: MIT
"""The site of the manual: `cmake --build build --target manual`."""

import re
from pathlib import Path

from pygments.lexers import TextLexer

PYPROJECT = Path(__file__).parents[1] / "tools" / "pyproject.toml"

project = "equi"
author = "the equi developers"
copyright = "2026, the equi developers"
release = version = re.search(r'^version = "(.*)"$', PYPROJECT.read_text(), re.M)[1]
html_theme = "furo"
html_title = f"equi {release}"
exclude_patterns = ["README.md"]
highlight_language = "text"
# Quotation marks and dashes of commands stay as they are typed.
smartquotes = False


def setup(app):
    app.add_lexer("LAMMPS", TextLexer)
    return {"parallel_read_safe": True}
