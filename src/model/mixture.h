// SPDX-License-Identifier: MIT
// A file for all systems has numbers that depend on the task, charge, spin and composition of the atoms: matrices of
// experts, of which a network makes a mixture, and an embedding of the whole system (UMA; B. M. Wood et al.,
// arXiv:2506.23971), or a total charge alone (TensorNet2). All of them are constant while a simulation runs.
// doc/model_file.rst states the document.
#ifndef EQUI_MIXTURE_H
#define EQUI_MIXTURE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// What a file for all systems is to be used for.
struct AtomicSystem {
  std::string task;    // name of a data set; empty: the first
  // Of the whole system, in e, and its multiplicity; none: 0, and the task's own or 1.
  std::optional<int> charge, spin;
  std::map<std::string, int64_t> atoms;    // numbers by chemical symbol; none: equal fractions of all elements

  bool says_something() const { return !task.empty() || charge || spin; }
};

// Numbers of atoms by species as text: Li6PS5Cl.
std::string formula(const std::vector<int64_t> &numbers, const std::vector<std::string> &elements);

// What a model has been made for.
struct Mixture {
  std::vector<std::string> tasks;    // all of the file; none: it knows no tasks
  std::string task;
  int charge = 0, spin = 1;
  bool depends_on_charge = false, depends_on_spin = false;
  bool depends_on_composition = false;    // on the fractions of the elements
  bool depends_on_number = false;         // of atoms, too

  std::string describe() const;    // "task omat, charge 0, spin 0"
  // Whether structures of a self-check, which are of neutral singlets, hold for it.
  bool is_neutral_singlet() const { return charge == 0 && spin == 1; }
  // Whether a model that has been made for one of two systems is that of the other one, too.
  bool is_same_for(const AtomicSystem &a, const AtomicSystem &b) const;
};

}    // namespace equi

#endif
