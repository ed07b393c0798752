// SPDX-License-Identifier: MIT
// Masses of the chemical elements.
#ifndef EQUI_CHEMICAL_ELEMENTS_H
#define EQUI_CHEMICAL_ELEMENTS_H

#include <string>

namespace equi {

// Standard atomic weight in g/mol, 0 if the symbol is not an element.
double standard_atomic_mass(const std::string &symbol);

}    // namespace equi

#endif
