// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The table of the keywords of pair_style equi, and the reader of their values.
#include "src/lammps/evaluation/pair_settings.h"

#include "error.h"
#include "lammps.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// The values of the keyword that is being read.
struct Words {
  LAMMPS *lmp;
  char **next, **end;
  bool is_kokkos;
  std::string keyword, choices;

  template <class... Arguments>
  [[noreturn]] void stop(const char *format, Arguments... arguments) const {
    lmp->error->all(FLERR, std::string("Pair style equi: ") + format, arguments...);
  }
  [[noreturn]] void refuse(const std::string &word, const char *kind = "") const {
    stop("{}{} must be {}, not {}", kind, keyword, choices, word);
  }

  std::string value_of(const std::string &what, const std::string &expected) {
    if (next == end) stop("keyword {} needs a value: {}", what, expected);
    return *next++;
  }
  std::string value() { return value_of(keyword, choices); }
  template <class T>
  T one_of(std::initializer_list<std::pair<const char *, T>> known, const char *kind = "keyword ") {
    const std::string word = value();
    for (const auto &[name, meaning] : known)
      if (word == name) return meaning;
    refuse(word, kind);
  }
  bool yes_or_no() { return one_of<bool>({{"yes", true}, {"no", false}}); }
  int whole_number() {
    const std::string word = value();
    if (!utils::is_integer(word)) refuse(word, "keyword ");
    return utils::inumeric(FLERR, word, false, lmp);
  }
  double number(const std::string &word) const { return utils::numeric(FLERR, word, false, lmp); }
};

// pair_style hybrid splits its arguments at `table`, the name of another style, so the bare tolerance is accepted, too.
void read_radial(Words &words, PairSettings &settings) {
  const std::string word = words.value_of(
      words.keyword,
      words.choices + "; under a hybrid style, which takes the word table for a pair style, TOLERANCE alone");
  settings.options.radial_exact = word == "exact";
  if (settings.options.radial_exact) return;
  if (word != "table" && !utils::is_double(word)) words.refuse(word);
  const std::string number = word == "table" ? words.value_of("radial table", "a tolerance, for example 1e-6") : word;
  const double tolerance = words.number(number);
  if (!(tolerance > 0.0 && tolerance < 1.0))
    words.stop("the tolerance of radial tables must lie between 0 and 1, not {}", number);
  settings.options.radial_tolerance = tolerance;
}

void read_memory(Words &words, PairSettings &settings) {
  const std::string word = words.value();
  settings.options.lean = word == "lean";
  if (word == "auto" || word == "lean" || word == "unlimited") {
    settings.memory_limit = word == "unlimited" ? 0.0 : -1.0;
    return;
  }
  if (!utils::is_double(word) || !(words.number(word) > 0.0)) words.refuse(word);
  settings.memory_limit = 1e9 * words.number(word);
}

void read_batch(Words &words, PairSettings &settings) {
  const std::string word = words.value();
  settings.options.batch = 0;
  if (word == "auto") return;
  if (!utils::is_integer(word) || utils::inumeric(FLERR, word, false, words.lmp) < 1) words.refuse(word);
  settings.options.batch = utils::inumeric(FLERR, word, false, words.lmp);
}

void read_kernels(Words &words, PairSettings &settings) {
  using Kernels = PairSettings::Kernels;
  settings.kernels =
      words.one_of<Kernels>({{"auto", Kernels::automatic}, {"device", Kernels::device}, {"host", Kernels::host}});
}

void read_exchange(Words &words, PairSettings &settings) {
  using Mode = ExchangeMode;
  settings.exchange_mode =
      words.one_of<Mode>({{"auto", Mode::automatic}, {"device", Mode::device}, {"host", Mode::host}});
  if (settings.exchange_mode == Mode::device && !words.is_kokkos) words.stop("exchange device needs the style equi/kk");
}

void read_system(Words &words, PairSettings &settings) {
  const std::string name = words.value(), word = words.value_of("system " + name, "a number");
  if (!utils::is_double(word)) words.stop("the value of system {} must be a number, not {}", name, word);
  if (!settings.system.inputs.emplace(name, words.number(word)).second)
    words.stop("keyword system sets {} twice", name);
}

void read_field(Words &words, PairSettings &settings) {
  for (double &component : settings.field) {
    const std::string word = words.value();
    if (!utils::is_double(word)) words.refuse(word, "keyword ");
    component = words.number(word);
    if (!std::isfinite(component)) words.refuse(word, "keyword ");
  }
}

struct Keyword {
  const char *name, *choices;
  const char *scope, *meaning;    // for the manual: doc/pair_equi.rst shows these two, and a test compares them
  std::function<void(Words &, PairSettings &)> read;
};

// Readers of values yes and no.
auto read_flag(bool PairSettings::*flag) {
  return [flag](Words &words, PairSettings &settings) { settings.*flag = words.yes_or_no(); };
}
auto read_flag(bool EvaluatorOptions::*flag) {
  return [flag](Words &words, PairSettings &settings) { settings.options.*flag = words.yes_or_no(); };
}
// A number of the whole system.
auto read_number(std::optional<int> AtomicSystem::*number) {
  return [number](Words &words, PairSettings &settings) { settings.system.*number = words.whole_number(); };
}

constexpr const char *YES_OR_NO = "yes or no", *WHOLE_NUMBER = "a whole number", *PLACE = "auto, device or host";

// In the order of the error that lists them.
const Keyword KEYWORDS[] = {
    {"precision", "mixed, double or tf32", "all runs", "floating-point types",
     [](Words &words, PairSettings &settings) {
       settings.options.precision = words.one_of<Precision>(
           {{"mixed", Precision::mixed}, {"double", Precision::double_}, {"tf32", Precision::tf32}}, "");
     }},
    {"radial", "table TOLERANCE, TOLERANCE or exact", "all runs", "tables of radial functions, or their networks",
     read_radial},
    {"reference", YES_OR_NO, "all runs", "evaluation by LibTorch", read_flag(&PairSettings::reference)},
    {"check", YES_OR_NO, "all runs", "checks of the model and of the first structure", read_flag(&PairSettings::check)},
    {"memory", "GB per rank, auto, lean or unlimited", "all runs", "limit of the memory of a rank", read_memory},
    {"batch", "a number of atoms or auto", "developers", "atoms that are evaluated at a time", read_batch},
    {"deterministic", YES_OR_NO, "all runs", "results that do not depend on the number of threads",
     read_flag(&EvaluatorOptions::deterministic)},
    {"kernels", PLACE, "developers", "kernels for GPUs or for CPUs", read_kernels},
    {"exchange", PLACE, "developers, equi/kk", "hooks that exchange the features of ghost atoms", read_exchange},
    {"graphs", YES_OR_NO, "developers, GPUs", "recorded launches of small systems",
     read_flag(&EvaluatorOptions::graphs)},
    {"overlap", YES_OR_NO, "developers, GPUs", "exchange while other work runs", read_flag(&EvaluatorOptions::overlap)},
    {"forces", "energy or direct", "models with a force head", "derivatives of the energy, or the forces of the head",
     [](Words &words, PairSettings &settings) {
       settings.forces_of = words.one_of<ForcesOf>({{"energy", ForcesOf::energy}, {"direct", ForcesOf::features}});
     }},
    {"kspace", "sphere, frozen, converged or file", "models with an Ewald sum", "which wave vectors take part",
     [](Words &words, PairSettings &settings) {
       using Set = WaveVectorSet;
       settings.options.wave_vectors = words.one_of<Set>(
           {{"sphere", Set::sphere}, {"frozen", Set::frozen}, {"converged", Set::converged}, {"file", Set::of_file}});
     }},
    {"open", "framework or exact", "models with potentials of charges", "how multipoles interact in an open system",
     [](Words &words, PairSettings &settings) {
       settings.options.open = words.one_of<OpenSum>({{"framework", OpenSum::framework}, {"exact", OpenSum::exact}});
     }},
    {"task", "the name of a data set", "files for all systems", "data set whose energy is computed",
     [](Words &words, PairSettings &settings) { settings.system.task = words.value(); }},
    {"charge", WHOLE_NUMBER, "files for all systems", "charge of the whole system", read_number(&AtomicSystem::charge)},
    {"spin", WHOLE_NUMBER, "files for all systems", "spin multiplicity of the whole system",
     read_number(&AtomicSystem::spin)},
    {"system", "the name of an input and a number", "files for all systems", "another number of the whole system",
     read_system},
    {"field", "three numbers, V/Angstrom", "models with a dipole", "electric field that acts on the dipole",
     read_field},
};

}    // namespace

PairSettings read_settings(LAMMPS *lmp, int narg, char **arg, bool is_kokkos) {
  PairSettings settings;
  Words words{lmp, arg, arg + narg, is_kokkos, "", ""};
  while (words.next != words.end) {
    words.keyword = *words.next++;
    const auto *found = std::find_if(std::begin(KEYWORDS), std::end(KEYWORDS),
                                     [&](const Keyword &known) { return words.keyword == known.name; });
    if (found == std::end(KEYWORDS)) {
      if (utils::strmatch(words.keyword, "\\.equi$"))
        words.stop(
            "the model file is part of the other command: pair_coeff * * {} and a chemical symbol for each atom "
            "type",
            words.keyword);
      std::string names;
      for (const Keyword &known : KEYWORDS) names += (names.empty() ? "" : ", ") + std::string(known.name);
      words.stop("unknown keyword {}; known are {}", words.keyword, names);
    }
    words.choices = found->choices;
    found->read(words, settings);
  }
  if (settings.has_field() && settings.has_direct_forces())
    words.stop("a field acts on forces that are derivatives of the energy: leave out forces direct");
  settings.command = PairCommand::accepted;
  return settings;
}

}    // namespace equi
