# SPDX-License-Identifier: MIT
"""The machine's part of the rules for English: lines of pages end before column 120, and some phrases do not occur."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = 120
FOLDERS = ("bench", "cmake", "doc", "examples", "kokkos", "potentials", "src", "tools", "unittest")
# Texts of generators and of others.
LEFT_OUT = ("unittest/golden/", "tools/build/", "examples/training/log")
# (pattern, what to write instead)
PHRASES = (
    (r"(?:^|[.:;!?]\s+)Of [a-z*`]", "subject first: 'the first number of a list', not 'of a list the first number'"),
    (r"\bbeside\b", "'next to', 'besides' or 'in addition to'"),
    (r"\bat hand\b", "'available', 'present' or 'your own'"),
    (r"\b(?:tells of|is told|are told)\b", "'reports' or 'describes'"),
)
# Sign of a comment by the end of a file's name.
COMMENT = {".cpp": "//", ".h": "//", ".def": "//", ".py": "#", ".cmake": "#", "CMakeLists.txt": "#"}
# Quotation marks of docstrings, which the code of this file must not contain.
QUOTES = 3 * '"'


def files(endings):
    """{path from the root: text} of files that a person wrote, by the ends of their names."""
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    paths = [path for path in paths if path.name.endswith(tuple(endings)) and path.is_file()]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {
        name: path.read_text() for name, path in sorted(names.items())
        if not name.startswith(LEFT_OUT) and "build-" not in name and ".egg-info" not in name
    }  # fmt: skip


def prose_of_page(text):
    """The text without blocks of code, one paragraph a line."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^( *)\.\. (?:code-block|parsed-literal|math)::.*\n(?:(?:\1 +.*)?\n)*", "", text, flags=re.M)
    items = re.split(r"\n\s*\n|^\s*(?:[-*]|#\.|\d+\.)\s+(?:- )?", text, flags=re.M)
    return "\n".join(" ".join(item.split()) for item in items if item)


def prose_of_source(text, sign):
    """Comments, those on adjacent lines as one, and docstrings of Python."""
    docstrings = re.findall(f"{QUOTES}(.*?){QUOTES}", text, re.S) if sign == "#" else []
    found = [" ".join(words.split()) for words in docstrings]
    before = None
    for number, line in enumerate(text.splitlines()):
        comment = re.match(rf"\s*{re.escape(sign)}+ (?!SPDX)(.*)|.*\s{re.escape(sign)} (.*)", line)
        if not comment:
            continue
        words = comment.group(1) or comment.group(2) or ""
        if comment.group(1) is not None and before == number - 1 and found:
            found[-1] += " " + words
        else:
            found.append(words)
        before = number if comment.group(1) is not None else None
    return "\n".join(found)


def phrase_faults(name, prose, phrases):
    return [
        f"{name}: '{prose[max(0, match.start() - 20): match.end() + 40]}': {instead}".replace("\n", " ")
        for pattern, instead in phrases for match in re.finditer(pattern, prose, re.M)
    ]  # fmt: skip


def page_faults(name, text):
    long = [f"{name}:{n}: {len(line)} columns" for n, line in enumerate(text.splitlines(), 1) if len(line) >= COLUMNS]
    return long + phrase_faults(name, prose_of_page(text), PHRASES)


def source_faults(folder):
    return [
        fault for ending, sign in COMMENT.items()
        for name, text in files((ending,)).items() if name.split("/")[0] == folder
        for fault in phrase_faults(name, prose_of_source(text, sign), PHRASES)
    ]  # fmt: skip


def test_pages_follow_the_rules():
    pages = files((".md", ".rst"))
    assert len(pages) > 40
    faults = [fault for name, text in pages.items() for fault in page_faults(name, text)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("folder", FOLDERS)
def test_comments_follow_the_rules(folder):
    faults = source_faults(folder)
    assert not faults, "\n".join(faults)


def test_faults_are_noticed():
    page = "A list.\n\n* Of these the\n  first counts.\n\nIt stands\nbeside it.\n\n```\nOf code\n```\n" + "x" * COLUMNS + "\n"
    assert len(page_faults("page.md", page)) == 3
    source = "int i;    // Of this.\n// It has\n// two. Of them one.\n// Off.\n"
    assert len(phrase_faults("a.cpp", prose_of_source(source, "//"), PHRASES)) == 2
    source = f"def f():\n    {QUOTES}Of all.{QUOTES}\n"
    assert len(phrase_faults("a.py", prose_of_source(source, "#"), PHRASES)) == 1
