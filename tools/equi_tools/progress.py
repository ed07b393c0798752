# SPDX-License-Identifier: MIT
"""Shows progress on standard error, so standard output stays clean for results; shows nothing if that is not a
terminal."""

import sys

from tqdm import tqdm


class Steps:
    """A bar over a known number of named steps, removed when they end or fail."""

    def __init__(self, total, quiet=False):
        form = "{desc:<64} {n}/{total} |{bar:20}| {elapsed}"
        self.bar = tqdm(total=total, disable=quiet or None, file=sys.stderr, bar_format=form, leave=False)
        self.started = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.bar.close()

    def next(self, text):
        if self.started:
            self.bar.update(1)
        self.started = True
        self.bar.set_description_str(text)


def track(items, text, quiet=False):
    """Iterates with a bar."""
    return tqdm(items, desc=text, disable=quiet or None, file=sys.stderr, leave=False)
