// SPDX-License-Identifier: MIT
// The table of symbols, masses and radii of the chemical elements.
#include "src/model/chemical_elements.h"

namespace equi {

namespace {

struct Element {
  const char *symbol;
  double mass, radius;
};

// Abridged standard atomic weights; for elements without one, the mass of a long-lived isotope. Covalent radii of
// single bonds from Cordero et al., Dalton Trans. 2008, 2832 (carbon: sp3; manganese, iron and cobalt: low spin), up to
// curium.
constexpr Element ELEMENTS[] = {
    {"H", 1.008, 0.31},    {"He", 4.0026, 0.28},  {"Li", 6.94, 1.28},    {"Be", 9.0122, 0.96},  {"B", 10.81, 0.84},
    {"C", 12.011, 0.76},   {"N", 14.007, 0.71},   {"O", 15.999, 0.66},   {"F", 18.9984, 0.57},  {"Ne", 20.1797, 0.58},
    {"Na", 22.9898, 1.66}, {"Mg", 24.305, 1.41},  {"Al", 26.9815, 1.21}, {"Si", 28.085, 1.11},  {"P", 30.9738, 1.07},
    {"S", 32.06, 1.05},    {"Cl", 35.45, 1.02},   {"Ar", 39.948, 1.06},  {"K", 39.0983, 2.03},  {"Ca", 40.078, 1.76},
    {"Sc", 44.9559, 1.70}, {"Ti", 47.867, 1.60},  {"V", 50.9415, 1.53},  {"Cr", 51.9961, 1.39}, {"Mn", 54.938, 1.39},
    {"Fe", 55.845, 1.32},  {"Co", 58.9332, 1.26}, {"Ni", 58.6934, 1.24}, {"Cu", 63.546, 1.32},  {"Zn", 65.38, 1.22},
    {"Ga", 69.723, 1.22},  {"Ge", 72.63, 1.20},   {"As", 74.9216, 1.19}, {"Se", 78.971, 1.20},  {"Br", 79.904, 1.20},
    {"Kr", 83.798, 1.16},  {"Rb", 85.4678, 2.20}, {"Sr", 87.62, 1.95},   {"Y", 88.9058, 1.90},  {"Zr", 91.224, 1.75},
    {"Nb", 92.9064, 1.64}, {"Mo", 95.95, 1.54},   {"Tc", 97.9072, 1.47}, {"Ru", 101.07, 1.46},  {"Rh", 102.906, 1.42},
    {"Pd", 106.42, 1.39},  {"Ag", 107.868, 1.45}, {"Cd", 112.414, 1.44}, {"In", 114.818, 1.42}, {"Sn", 118.71, 1.39},
    {"Sb", 121.76, 1.39},  {"Te", 127.6, 1.38},   {"I", 126.904, 1.39},  {"Xe", 131.293, 1.40}, {"Cs", 132.905, 2.44},
    {"Ba", 137.327, 2.15}, {"La", 138.905, 2.07}, {"Ce", 140.116, 2.04}, {"Pr", 140.908, 2.03}, {"Nd", 144.242, 2.01},
    {"Pm", 144.913, 1.99}, {"Sm", 150.36, 1.98},  {"Eu", 151.964, 1.98}, {"Gd", 157.25, 1.96},  {"Tb", 158.925, 1.94},
    {"Dy", 162.5, 1.92},   {"Ho", 164.93, 1.92},  {"Er", 167.259, 1.89}, {"Tm", 168.934, 1.90}, {"Yb", 173.054, 1.87},
    {"Lu", 174.967, 1.87}, {"Hf", 178.49, 1.75},  {"Ta", 180.948, 1.70}, {"W", 183.84, 1.62},   {"Re", 186.207, 1.51},
    {"Os", 190.23, 1.44},  {"Ir", 192.217, 1.41}, {"Pt", 195.084, 1.36}, {"Au", 196.967, 1.36}, {"Hg", 200.592, 1.32},
    {"Tl", 204.38, 1.45},  {"Pb", 207.2, 1.46},   {"Bi", 208.98, 1.48},  {"Po", 208.982, 1.40}, {"At", 209.987, 1.50},
    {"Rn", 222.018, 1.50}, {"Fr", 223.02, 2.60},  {"Ra", 226.025, 2.21}, {"Ac", 227.028, 2.15}, {"Th", 232.038, 2.06},
    {"Pa", 231.036, 2.00}, {"U", 238.029, 1.96},  {"Np", 237.048, 1.90}, {"Pu", 244.064, 1.87}, {"Am", 243.061, 1.80},
    {"Cm", 247.07, 1.69},  {"Bk", 247.07, 0},     {"Cf", 251.08, 0},     {"Es", 252.083, 0},    {"Fm", 257.095, 0},
    {"Md", 258.098, 0},    {"No", 259.101, 0},    {"Lr", 262.11, 0},     {"Rf", 267.122, 0},    {"Db", 268.126, 0},
    {"Sg", 271.134, 0},    {"Bh", 270.133, 0},    {"Hs", 269.134, 0},    {"Mt", 278.156, 0},    {"Ds", 281.165, 0},
    {"Rg", 281.166, 0},    {"Cn", 285.177, 0},    {"Nh", 286.182, 0},    {"Fl", 289.19, 0},     {"Mc", 289.194, 0},
    {"Lv", 293.204, 0},    {"Ts", 293.208, 0},    {"Og", 294.214, 0}};

const Element *find(const std::string &symbol) {
  for (const Element &element : ELEMENTS)
    if (symbol == element.symbol) return &element;
  return nullptr;
}

}    // namespace

double standard_atomic_mass(const std::string &symbol) {
  const Element *element = find(symbol);
  return element ? element->mass : 0.0;
}

double covalent_radius(const std::string &symbol) {
  const Element *element = find(symbol);
  return element ? element->radius : 0.0;
}

std::vector<std::string> chemical_symbols() {
  std::vector<std::string> symbols;
  for (const Element &element : ELEMENTS) symbols.push_back(element.symbol);
  return symbols;
}

}    // namespace equi
