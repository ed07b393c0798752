# SPDX-License-Identifier: MIT
"""Makes text of files fit for a terminal and a log. src/base/printable.cpp does the same for the pair style."""

# Code points that a terminal obeys or does not show: controls, those that reverse the direction of writing, joiners and
# other invisible ones, separators of lines, private use, and codes that are not characters.
HIDDEN = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x61C, 0x61C),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xD800, 0xF8FF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFF0, 0xFFFF),
    (0x1D173, 0x1D17A),
    (0xE0000, 0x10FFFF),
)
SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _shown(character):
    code = ord(character)
    if character in SHORT:
        return SHORT[character]
    if not any(first <= code <= last for first, last in HIDDEN):
        return character
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:x}}}"


def printable(text, limit=1000):
    """`text` (str, or bytes in UTF-8) in one line of at most `limit` characters and, if it is longer, "...".

    Characters that a terminal would obey or not show are written as escapes, like \\x1b or \\u{202e}, and so are bytes
    that are not UTF-8.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    shown, length = [], 0
    for character in str(text):
        piece = _shown(character)
        length += len(piece)
        if length > limit:
            return "".join(shown) + "..."
        shown.append(piece)
    return "".join(shown)


def formula(counts):
    """Numbers of atoms by symbol as text: Li6PS5Cl."""
    return "".join(f"{symbol}{n if n > 1 else ''}" for symbol, n in counts.items())
