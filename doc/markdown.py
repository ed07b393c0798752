# SPDX-License-Identifier: MIT
"""Pages of the site that are Markdown files elsewhere: the line `.. markdown:: FILE` stands for the text of FILE.

Only what these files use is understood: headings, paragraphs, lists, tables, code, images and links.
"""

import re
from pathlib import Path

UNDERLINES = "=-~^"
LANGUAGES = {"sh": "bash", "": "text"}
DIRECTIVE = re.compile(r"^\.\. markdown:: (\S+)$", re.M)


def _page_of(file, manual):
    """The page that is this file, or that stands for a Markdown file, as Sphinx names it; None if there is none."""
    if file.is_relative_to(manual) and file.suffix == ".rst":
        return file.relative_to(manual).with_suffix("").as_posix()
    for page in manual.rglob("*.rst"):
        if any((page.parent / name).resolve() == file for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))):
            return page.relative_to(manual).with_suffix("").as_posix()
    return None


def _table(match):
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in match[0].splitlines()]
    cells = (f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for row in (rows[0], *rows[2:]) for k, cell in enumerate(row))
    return "\n".join([".. list-table::", "   :header-rows: 1", "", *cells, ""])


def _link(words, target, place, prefix, manual):
    text = " ".join(words.replace("`", "").split())
    if "://" in target:
        return f"`{text} <{target}>`__"
    target = prefix + target
    file = (place / target).resolve()
    if page := _page_of(file, manual):
        return f":doc:`{text} </{page}>`"
    return f"``{text}``" if file.is_dir() else f":download:`{text} <{target}>`"


def _prose(text, place, prefix, manual):
    """Inline markup, images and links of text without blocks of code."""
    links = []

    def keep(rst):
        links.append(rst)
        return f"\x00{len(links) - 1}\x00"

    def image(match):
        return keep(f".. image:: {prefix}{match[2]}\n   :alt: {' '.join(match[1].split())}")

    text = re.sub(r"^!\[([^\]]*)\]\(([^)\s]+)\)$", image, text, flags=re.M)
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", lambda m: keep(_link(m[1], m[2], place, prefix, manual)), text)
    text = re.sub(r"`([^`]+)`", lambda m: f"``{' '.join(m[1].split())}``", text)
    text = re.sub(r"^\|.*\|\n\|[-| ]+\|\n(?:\|.*\|(?:\n|$))*", _table, text, flags=re.M)
    # A list within a list, or behind a paragraph, begins behind an empty line.
    lines = []
    for line in text.split("\n"):
        indent = re.match(r"( *)- ", line)
        if indent and lines and lines[-1].strip() and not lines[-1].startswith(indent[1] + "- "):
            before = re.match(r"( *)(- )?", lines[-1])
            if len(before[1]) + len(before[2] or "") != len(indent[1]) + 2:
                lines.append("")
        lines.append(line)
    return re.sub("\x00(\\d+)\x00", lambda m: links[int(m[1])], "\n".join(lines))


def to_rst(file, page, manual, level):
    """The text of a Markdown file for a page of the folder `manual`; level: of its first heading, 0 for a title."""
    place = page.parent
    prefix = Path("../" * len(place.relative_to(manual.parent).parts), file.parent.relative_to(manual.parent)).as_posix() + "/"
    prefix = prefix.removesuffix("./")

    def heading(match):
        # Code has two quotation marks more in the page.
        return f"{match[2]}\n{UNDERLINES[level + len(match[1]) - 1] * (len(match[2]) + match[2].count('`'))}"

    parts = re.split(r"^```(\w*)\n(.*?)^```$", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    out = []
    for k in range(0, len(parts), 3):
        out.append(_prose(re.sub(r"^(#+) (.*)$", heading, parts[k], flags=re.M), place, prefix, manual))
        if k + 2 < len(parts):
            code = "".join(f"   {line}\n" for line in parts[k + 2].splitlines())
            out.append(f".. code-block:: {LANGUAGES.get(parts[k + 1], parts[k + 1])}\n\n{code}")
    return "".join(out)


def insert(app, docname, source):
    """Handler of Sphinx's event `source-read`."""
    manual = Path(app.srcdir)
    page = manual / f"{docname}.rst"

    def text_of(match):
        file = (page.parent / match[1]).resolve()
        app.env.note_dependency(str(file), docname=docname)
        return to_rst(file, page, manual, 1 if match.start() else 0)

    source[0] = DIRECTIVE.sub(text_of, source[0])
