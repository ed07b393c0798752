# SPDX-License-Identifier: MIT
"""Recognizes files that are mistaken for models or structures: a web page, a pointer of Git LFS, an archive, text."""

import re

from .printable import printable

# Long enough for the heads of the formats below, and to recognize text.
HEAD_BYTES = 4096
TAR_PLACE, TAR_SIGN = 257, b"ustar"
COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Pickles of protocol 0 are text; all others begin with this byte.
PICKLE = b"\x80"


def _download_failed(head):
    """What a file with these first bytes is, if it stands for another one: a sentence without its subject, or None."""
    if not head:
        return "is empty: the download or the copy has failed; fetch the file again"
    if head.startswith(b"version https://git-lfs"):
        found = re.search(rb"^size ([0-9]{1,18})$", head, re.MULTILINE)
        of_size = f" of {int(found.group(1))} bytes" if found else ""
        return f"is a pointer of Git LFS to a file{of_size}, not the file: 'git lfs pull' in its repository fetches it"
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if re.match(rb"<(!doctype html|html|head|!--)", start, re.IGNORECASE):
        return (
            "is a web page (HTML) in place of the file that it shows: download the file itself (on GitHub 'Download "
            "raw file', and links with /raw/ in place of /blob/; on Hugging Face /resolve/)"
        )
    return None


def what_stands_for_another(path):
    """What a file is that stands for another one, for readers of any format: a sentence without its subject, or None."""
    with open(path, "rb") as file:
        return _download_failed(file.read(HEAD_BYTES))


def what_archive_is(names):
    """The same as what_it_is() for a zip archive of an unknown framework with these names of entries."""
    if any(name.rsplit("/", 1)[-1] in ("data.pkl", "constants.pkl") for name in names):
        return None  # one of torch
    files = [name for name in names if not name.endswith("/")]
    shown = [printable(name, 60) for name in files[:3]] + ["..."] * (len(files) > 3)
    inside = f" with {', '.join(shown)}" if files else ""
    return f"is a zip archive{inside} and no model: unpack it and name the model's file in it"


def what_it_is(path, family=None):
    """What a file is that no training framework has written, and what to do: a sentence without its subject, or None
    if it may be a model. family: the sentence to return if its text may be a model of another family."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - 1))
        last = file.read(1)
    found = _download_failed(head)
    if found:
        return found
    for sign, (name, command) in COMPRESSED.items():
        if head.startswith(sign):
            return f"is compressed by {name}: unpack it ({command}) and name the model's file"
    if head[TAR_PLACE:].startswith(TAR_SIGN):
        return "is a tar archive: unpack it (tar xf) and name the model's file in it"
    if head.startswith(PICKLE):
        return None
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not _is_text(head):
        return None
    if start[:1] in (b"{", b"["):
        return family or "is JSON, without the numbers of a model: name the file that holds its weights"
    if start[:1] in (b"c", b"(") and last == b".":
        return None  # perhaps a pickle
    return family or "is a text file, without the numbers of a model: name the file with the weights of the trained model"


def _is_text(head):
    """Whether the first bytes of a file are those of a text in UTF-8, the last character of which may be cut."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < HEAD_BYTES or error.start < HEAD_BYTES - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\n\r\f" for character in text)
