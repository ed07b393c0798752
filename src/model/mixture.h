// SPDX-License-Identifier: MIT
// A file for all systems has numbers that depend on the task, charge, spin and composition of the atoms. It has
// matrices of experts, which a network mixes, and an embedding of the whole system (UMA; B. M. Wood et al.,
// arXiv:2506.23971), or only a total charge (TensorNet2), or charges and spins that it divides among the atoms (SO3LR).
// All of them are constant while a simulation runs. doc/model_file.rst states the document.
#ifndef EQUI_MIXTURE_H
#define EQUI_MIXTURE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// The system for which a file for all systems is used.
struct AtomicSystem {
  std::string task;    // name of a data set; empty: the first
  // Charge of the whole system, in e, and its spin multiplicity. If not set: 0, and the task's own or 1.
  std::optional<int> charge, spin;
  std::map<std::string, int64_t> atoms;    // numbers by chemical symbol; empty: equal fractions of all elements

  bool says_something() const { return !task.empty() || charge || spin; }
};

// Numbers of atoms by species as text: Li6PS5Cl.
std::string formula(const std::vector<int64_t> &numbers, const std::vector<std::string> &elements);

// The system that a model has been made for.
struct Mixture {
  std::vector<std::string> tasks;    // all tasks of the file; empty: it has no tasks
  std::string task;
  int charge = 0, spin = 1;
  bool depends_on_charge = false, depends_on_spin = false;
  bool depends_on_composition = false;    // on the fractions of the elements
  bool depends_on_number = false;         // also on the number of atoms

  std::string describe() const;    // "task omat, charge 0, spin 0"
  // Whether structures of a self-check, which are neutral singlets, are valid for it.
  bool is_neutral_singlet() const { return charge == 0 && spin == 1; }
  // Whether a model made for one of two systems is also the model of the other.
  bool is_same_for(const AtomicSystem &a, const AtomicSystem &b) const;
};

}    // namespace equi

#endif
