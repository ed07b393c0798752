// SPDX-License-Identifier: MIT
// Symbols, masses and covalent radii of the chemical elements.
#ifndef EQUI_CHEMICAL_ELEMENTS_H
#define EQUI_CHEMICAL_ELEMENTS_H

#include <string>
#include <vector>

namespace equi {

// Standard atomic weight in g/mol, 0 if the symbol is not an element.
double standard_atomic_mass(const std::string &symbol);

// Covalent radius in Angstrom, 0 if the symbol is not an element or its radius is unknown.
double covalent_radius(const std::string &symbol);

// The symbols of all elements, in the order of atomic numbers from H on.
std::vector<std::string> chemical_symbols();

}    // namespace equi

#endif
