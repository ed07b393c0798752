// SPDX-License-Identifier: MIT
// Makes the text of files fit for a terminal and a log. tools/equi_tools/printable.py does the same for the model
// tool.
#ifndef EQUI_PRINTABLE_H
#define EQUI_PRINTABLE_H

#include <cstddef>
#include <string>

namespace equi {

// Returns `text` (UTF-8) in one line of at most `limit` characters, followed by "..." if it is longer. Characters that
// a terminal would obey or not show are written out, like \x1b or \u{202e}. So are bytes that are not UTF-8. Printable
// text is not changed.
std::string printable(const std::string &text, size_t limit = 1000);

}    // namespace equi

#endif
