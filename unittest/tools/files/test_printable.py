# SPDX-License-Identifier: MIT
"""Text of a file reaches a terminal as visible characters of one line, identical in Python and C++."""

import pytest
from equi_tools.printable import printable

# The same table is in unittest/core/test_printable.cpp.
CASES = [
    (b"plain text, \\ and \"quotes\"", "plain text, \\ and \"quotes\""),
    ("Ångström, 東京, 😀".encode(), "Ångström, 東京, 😀"),
    (b"a\nb\r\tc", "a\\nb\\r\\tc"),
    (b"\x1b[31mred\x07\x00\x7f", "\\x1b[31mred\\x07\\x00\\x7f"),
    ("\x9b2J\x85".encode(), "\\u{9b}2J\\u{85}"),
    ("\u202egnp.\u2066\u200b\u2028\ufeff".encode(), "\\u{202e}gnp.\\u{2066}\\u{200b}\\u{2028}\\u{feff}"),
    ("\u061c\u00ad\ue000\U000e0041".encode(), "\\u{61c}\\u{ad}\\u{e000}\\u{e0041}"),
    (b"\xff\xc0\x80", "\\xff\\xc0\\x80"),
    (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    (b"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"),
    (b"cut \xe6\x9d", "cut \\xe6\\x9d"),
    (b"\xe6\x9d!", "\\xe6\\x9d!"),
]


@pytest.mark.parametrize("text, shown", CASES)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown
    assert printable(text.decode("utf-8", "surrogateescape")) == shown
    assert printable(shown) == shown


def test_long_text_is_cut_between_characters():
    assert printable("abcdef", limit=6) == "abcdef"
    assert printable("abcdefg", limit=6) == "abcdef..."
    assert printable("abcd\x1b", limit=6) == "abcd..."
    assert printable("東京東京", limit=3) == "東京東..."


def test_a_lone_surrogate_of_a_document_is_written_out():
    assert printable("\ud83d!") == "\\u{d83d}!"
