// SPDX-License-Identifier: MIT
// A file for all systems has numbers that depend on the task, charge, spin and composition of the atoms. It has
// matrices of experts, which a network mixes, and an embedding of the whole system (UMA; B. M. Wood et al.,
// arXiv:2506.23971), or only a total charge (TensorNet2), or charges and spins that it divides among the atoms (SO3LR),
// or an embedding of numbers that the file names (MACE).
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
  std::map<std::string, int64_t> atoms;         // numbers by chemical symbol; empty: equal fractions of all elements
  std::map<std::string, double> inputs = {};    // further numbers of the whole system, by their names in the file

  bool says_something() const { return !task.empty() || charge || spin || !inputs.empty(); }
};

// Numbers of atoms by species as text: Li6PS5Cl.
std::string formula(const std::vector<int64_t> &numbers, const std::vector<std::string> &elements);

// A number of the whole system that a model reads, by its name in the file. It is the charge or the spin of the system,
// or has a keyword of its own.
struct SystemInput {
  enum class Meaning { charge, spin, other };
  std::string name;
  Meaning meaning = Meaning::other;
  double value = 0.0, usual = 0.0;    // the value that the model has been made for, and that of a system without one
};

// The system that a model has been made for.
struct Mixture {
  std::vector<std::string> tasks;    // all tasks of the file; empty: it has no tasks
  std::string task;
  int charge = 0, spin = 1;
  bool depends_on_charge = false, depends_on_spin = false;
  bool depends_on_composition = false;    // on the fractions of the elements
  bool depends_on_number = false;         // also on the number of atoms
  std::vector<SystemInput> inputs;        // MACE: charge and spin may be among them

  std::string describe() const;    // "task omat, charge 0, spin 0"
  // Whether structures of a self-check, which are neutral singlets with the usual inputs, are valid for it.
  bool is_usual() const;
  // The input with this meaning, or null.
  const SystemInput *find(SystemInput::Meaning meaning) const;
  // Whether a model made for one of two systems is also the model of the other.
  bool is_same_for(const AtomicSystem &a, const AtomicSystem &b) const;
};

}    // namespace equi

#endif
