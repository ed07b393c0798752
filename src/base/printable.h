// SPDX-License-Identifier: MIT
// Makes the text of files fit for a terminal and a log. tools/equi_tools/printable.py does the same for the model
// tool.
#ifndef EQUI_PRINTABLE_H
#define EQUI_PRINTABLE_H

#include <cstddef>
#include <string>

namespace equi {

// `text` (UTF-8) in one line of at most `limit` characters and perhaps "...". Characters that a terminal would obey or
// not show are written out, like \x1b or \u{202e}, and so are bytes that are not UTF-8. Printable text stays as it is.
std::string printable(const std::string &text, size_t limit = 1000);

}    // namespace equi

#endif
