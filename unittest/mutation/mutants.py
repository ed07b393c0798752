# SPDX-License-Identifier: MIT
"""Reads a list of mutants and inserts all of them into a copy of the sources; a test run selects one.

The list has a line `@ FILE` or `@ FILE PROGRAM:TESTS ...` for each source, with the tests to run first. Pairs of lines
follow: `- TEXT`, a part of that source, and `+ TEXT`, its replacement in the mutant. `- TEXT` is the first place of a
text that occurs several times; `-N TEXT` is place N, from 1. Following lines that begin with spaces belong to the
text. A text that ends with a semicolon is one or more statements. Any other text is a whole expression: `b + c` is
none in `a * b + c`.
`# WHY` after a pair states why no test can notice the mutant: it is then expected to survive.
"""

import re
from dataclasses import dataclass

HEADER = """// The mutant that the variable EQUI_MUTANT chooses; none if it is not set.
#ifndef EQUI_CHOSEN_MUTANT_H
#define EQUI_CHOSEN_MUTANT_H
#include <cstdlib>
inline int equi_chosen_mutant() {
  static const int number = [] {
    const char *text = std::getenv("EQUI_MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return number;
}
#endif
"""


@dataclass
class Mutant:
    number: int
    file: str
    original: str
    replacement: str
    place: int = 1
    first: str = ""  # PROGRAM:TESTS ...
    why: str = ""  # expected to survive

    def __str__(self):
        return f"{self.number} {self.file}: {self.original}  ->  {self.replacement}"


def read(path):
    mutants, file, first, original, place = [], None, "", None, 1
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        if line.startswith("  ") and original is not None:
            original += "\n" + line
            continue
        if line.startswith("@ "):
            file, _, first = line[2:].strip().partition(" ")
        elif match := re.fullmatch(r"-(\d*) (.*)", line):
            place, original = int(match[1] or 1), match[2]
        elif line.startswith("+ ") and original is not None:
            mutants.append(Mutant(len(mutants) + 1, file, original, line[2:], place, first))
            original = None
        elif line.startswith("# ") and mutants:
            mutants[-1].why = (mutants[-1].why + " " + line[2:]).strip()
        elif not line.startswith("//"):
            raise ValueError(f"{path}:{number}: expected @, -, + or #, found {line!r}")
    return mutants


def position(text, mutant):
    at = -1
    for _ in range(mutant.place):
        at = text.find(mutant.original, at + 1)
        if at < 0:
            raise ValueError(f"the text is not there: {mutant}")
    return at


def check_is_statement(before, mutant):
    """Raises ValueError if a text with a semicolon begins within a statement, or is a declaration, whose name would be
    unknown after the statement that replaces it."""
    start = re.split(r"[;{}]", re.sub(r"//[^\n]*", "", before))[-1].strip()
    if start and not start.endswith((")", "else")) and not (start.endswith(":") and "?" not in start):
        raise ValueError(f"begins within a statement: {mutant}")
    if re.match(r"(const |static )*(?!return\b|delete\b|throw\b)[\w:]+(<.*?>)?[ &*]+\w+( =|\(|\{|;|,)", mutant.original):
        raise ValueError(f"is a declaration: {mutant}")


def check_is_code(before, mutant):
    if "//" in before.rpartition("\n")[2]:
        raise ValueError(f"is in a comment: {mutant}")


def mutated(text, mutants):
    """The source with the mutants of its file, preceded by the header by its name."""
    edits = sorted(((position(text, m), m) for m in mutants), key=lambda edit: edit[0])
    out, at = [], 0
    # Mutants of one place are nested: the last one of the list is the outermost.
    pending = None
    for begin, mutant in edits:
        if pending and begin == pending[0] and mutant.original == pending[1]:
            inner = out.pop()
        elif begin < at:
            raise ValueError(f"overlaps with another one: {mutant}")
        else:
            out.append(text[at:begin])
            inner = mutant.original
        check_is_code(text[:begin], mutant)
        chosen = f"equi_chosen_mutant() == {mutant.number}"
        if mutant.original.endswith(";"):
            check_is_statement(text[:begin], mutant)
            out.append(f"{{ if ({chosen}) {{ {mutant.replacement} }} else {{ {inner} }} }}")
        else:
            out.append(f"({chosen} ? ({mutant.replacement}) : ({inner}))")
        at = begin + len(mutant.original)
        pending = (begin, mutant.original)
    return '#include "chosen_mutant.h"\n' + "".join(out) + text[at:]
