// SPDX-License-Identifier: MIT
// Reads a model, keeps its neighbor list, evaluates structures and sums over periodic images.
#include "src/library/calculator.h"

#include "src/base/host_resources.h"
#include "src/evaluation/native_evaluators.h"
#include "src/model/model_checks.h"
#include "src/numbers/vector3.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace equi {

namespace {

// Angstrom. A longer skin costs candidates in each evaluation, a shorter one more neighbor lists.
constexpr double SKIN = 1.0;
// Directions that an evaluation of second derivatives keeps values for. More of them cost memory and save little.
constexpr int KEPT_DIRECTIONS = 8;

bool can_read(const std::string &path) {
  std::error_code none;
  return static_cast<bool>(std::ifstream(path)) && !std::filesystem::is_directory(path, none);
}

// The file that the pair style would read. The error lists where it was searched for.
std::string find_model_file(const std::string &name) {
  if (can_read(name)) return name;
  const char *variable = std::getenv("LAMMPS_POTENTIALS");
  std::istringstream folders(variable ? variable : "");
  const std::filesystem::path last = std::filesystem::path(name).filename();
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string path = (std::filesystem::path(folder) / last).string(); !folder.empty() && can_read(path))
      return path;
  read_potential_bytes(name);    // refuses it
  return name;
}

// Starts the threads of the process unless they run. Throws if another number is requested than the one in use.
void start_threads(int wanted) {
  const std::vector<unsigned char> mask = affinity_mask();
  const int own_cores = count_cores(mask);
  const double cores = std::min<double>(own_cores, core_quota());
  // Other processes that a launcher started on this machine have calculators, too.
  const int processes = std::max(1, launched_on_node(std::getenv));
  int number = wanted;
  if (number <= 0)
    number = plan_threads(std::getenv("OMP_NUM_THREADS"), static_cast<int>(cores), own_cores, processes).number;
  start_kokkos(number, 0);
  const int running = num_host_threads();
  if (wanted > 0 && wanted != running)
    throw std::runtime_error(std::to_string(wanted) + " threads are asked for and " + std::to_string(running) +
                             " in use: their number is chosen once, by the first evaluation in a process");
}

bool has_threads = false;

#ifdef EQUI_DEVICE
constexpr auto make_on_device = make_device_evaluator;
#else
std::unique_ptr<Evaluator> make_on_device(const Model &, const EvaluatorOptions &) {
  throw std::runtime_error("kernels device needs a build with EQUI_DEVICE=ON");
}
#endif

// The number of atoms that an image belongs to, for messages.
std::string atom_text(const StructureNeighbors &neighbors, int atom) {
  return std::to_string(neighbors.owner()[atom]);
}

}    // namespace

int num_calculator_threads() {
  return has_threads ? num_host_threads() : 0;
}

Calculator::Calculator(const std::string &file, const std::string &elements, const std::string &keywords)
    : path_(find_model_file(file)),
      settings_(read_calculator_settings(keywords)),
      model_(read_model(path_, settings_.system, settings_.forces_of)),
      made_for_(settings_.system),
      neighbors_(model_.reach(), SKIN) {
  check_task(model_, settings_.system);
  std::istringstream text(elements);
  symbols_.assign(std::istream_iterator<std::string>(text), {});
  if (symbols_.empty()) symbols_ = model_.elements;
  for (const std::string &symbol : symbols_) {
    check_element(model_, symbol);
    const auto at = std::find(used_symbols_.begin(), used_symbols_.end(), symbol);
    type_species_.push_back(static_cast<int>(at - used_symbols_.begin()));
    if (at == used_symbols_.end()) used_symbols_.push_back(symbol);
  }
  start_threads(settings_.num_threads);
  has_threads = true;
  memory_limit_ = settings_.memory_limit < 0.0 ? memory_available(1) : settings_.memory_limit;
  // Errors of the settings are reported here, unless the numbers of the model depend on the atoms.
  if (!model_.mixture) evaluator_ = make_evaluator(false);
}

EvaluatorOptions Calculator::options() const {
  EvaluatorOptions options = settings_.options;
  options.memory_limit = memory_limit_;
  return options;
}

std::unique_ptr<Evaluator> Calculator::make_evaluator(bool directional) const {
  EvaluatorOptions options = this->options();
  options.directional = directional;
  options.kept_directions = directional ? KEPT_DIRECTIONS : 0;
  using Kernels = CalculatorSettings::Kernels;
  bool on_device = settings_.kernels == Kernels::device;
#ifdef EQUI_DEVICE
  on_device = on_device || (settings_.kernels == Kernels::automatic && num_devices() > 0);
#endif
  const Model restricted = model_.restricted_to(used_symbols_).with_field(settings_.field);
  return on_device ? make_on_device(restricted, options) : make_host_evaluator(restricted, options);
}

std::string Calculator::describe() {
  if (!evaluator_) evaluator_ = make_evaluator(false);
  std::string elements;
  for (const std::string &symbol : used_symbols_) elements += " " + symbol;
  char cutoff[32];
  std::snprintf(cutoff, sizeof cutoff, "%.6g", model_.cutoff);
  std::string text = model_.file + "\n  " + model_.framework + " " + model_.architecture +
                     " model, elements in use:" + elements + ", cutoff " + cutoff + "\n";
  if (model_.mixture) text += "  a file for all systems, used for " + model_.mixture->describe() + "\n";
  if (settings_.has_field()) {
    const std::array<double, 3> &e = settings_.field;
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, "%.6g %.6g %.6g", e[0], e[1], e[2]);
    text += std::string("  its dipole is in a field of ") + numbers + " V/Angstrom\n";
  }
  if (const std::string fault = electron_fault(model_, count_elements()); has_structure() && !fault.empty())
    text += "  warning: " + fault + "\n";
  for (const std::string &note : model_.notes) text += "  " + note + "\n";
  return text + evaluator_->describe();
}

std::map<std::string, int64_t> Calculator::count_elements() const {
  std::map<std::string, int64_t> counts;
  for (const int type : types_) counts[symbols_[type]]++;
  return counts;
}

void Calculator::fit_system() {
  if (!model_.mixture) return;
  AtomicSystem wanted = settings_.system;
  wanted.atoms = count_elements();
  if (model_.mixture->is_same_for(wanted, made_for_)) return;
  model_ = read_model(path_, wanted, settings_.forces_of);
  made_for_ = wanted;
  evaluator_.reset();
  directional_.reset();
  observables_.reset();
  born_.reset();
  is_set_ = is_set_in_directional_ = is_set_in_observables_ = is_set_in_born_ = false;
}

void Calculator::check_composition() const {
  const std::string fault = composition_fault(model_, count_elements());
  if (!fault.empty())
    throw std::runtime_error(fault + ": convert the model for this composition (equi convert --composition)");
}

void Calculator::set_atoms(int num_atoms, const int *types, const double *positions, const double *cell,
                           const int *periodic) {
  types_.clear();    // no structure, if this one is refused
  if (num_atoms < 1) throw std::invalid_argument("the structure has no atoms");
  if (!types || !positions) throw std::invalid_argument("types and positions must not be null");
  if (periodic && !cell) throw std::invalid_argument("periodic directions need a cell");
  const int num_types = static_cast<int>(symbols_.size());
  std::vector<int> species(num_atoms);
  std::vector<Vector3> places(num_atoms);
  for (int i = 0; i < num_atoms; ++i) {
    if (types[i] < 0 || types[i] >= num_types)
      throw std::invalid_argument("atom " + std::to_string(i) + " has type " + std::to_string(types[i]) +
                                  ", and there are types 0 to " + std::to_string(num_types - 1));
    species[i] = type_species_[types[i]];
    std::copy_n(positions + 3 * static_cast<std::size_t>(i), 3, places[i].begin());
  }
  cell_ = {};
  for (int k = 0; k < 3; ++k) {
    cell_.periodic[k] = periodic && periodic[k] != 0;
    if (!cell) continue;
    std::copy_n(cell + 3 * k, 3, cell_.vectors[k]);
    for (const double component : cell_.vectors[k])
      if (!std::isfinite(component)) throw std::invalid_argument("a vector of the cell is not finite");
  }
  if (neighbors_.update(places, species, cell_, memory_limit_))
    is_set_ = is_set_in_directional_ = is_set_in_observables_ = is_set_in_born_ = false;
  types_.assign(types, types + num_atoms);
}

void Calculator::fit_to_structure() {
  if (!has_structure()) throw std::logic_error("no atoms are set");
  fit_system();
  check_composition();
}

// The evaluator for the present structure.
void Calculator::use_structure() {
  fit_to_structure();
  if (!evaluator_) {
    evaluator_ = make_evaluator(false);
    is_set_ = false;
  }
  if (!is_set_) evaluator_->set_neighborhood(neighbors_.neighborhood());
  is_set_ = true;
}

template <class Work>
auto Calculator::with_numbered_atoms(const Work &work) const {
  NoExchange exchange;
  try {
    return work(exchange);
  } catch (const EvaluationError &fault) {
    std::string text = fault.what();
    char distance[40] = "";
    if (fault.atom_i >= 0 && fault.atom_j >= 0) {
      std::snprintf(distance, sizeof distance, " at distance %.3g", fault.distance);
      text += ": atoms " + atom_text(neighbors_, fault.atom_i) + " and " + atom_text(neighbors_, fault.atom_j);
    } else if (fault.atom_i >= 0) {
      text += ": atom " + atom_text(neighbors_, fault.atom_i);
    }
    throw std::runtime_error(text + distance);
  } catch (const MemoryLimitError &beyond) {
    char text[200];
    std::snprintf(text, sizeof text, "the %zu atoms need %.4g GB, and the calculator may use %.4g (keyword memory)",
                  types_.size(), beyond.bytes * 1e-9, memory_limit_ * 1e-9);
    throw std::runtime_error(text);
  }
}

EvaluationResult Calculator::evaluate(Evaluator &evaluator, const EvaluationRequest &request) const {
  return with_numbered_atoms([&](GhostExchange &exchange) { return evaluator.evaluate(request, exchange); });
}

double Calculator::volume() const {
  const auto &a = cell_.vectors;
  return std::fabs(a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1]) +
                   a[0][1] * (a[1][2] * a[2][0] - a[1][0] * a[2][2]) +
                   a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0]));
}

void Calculator::compute(const CalculatorResults &results) {
  const bool has_virial = results.virial || results.stress;
  if (has_virial && settings_.forces_of == ForcesOf::features)
    throw std::invalid_argument("forces direct have no virial and no stress");
  constexpr double LEAST_VOLUME = 1e-3;    // Angstrom^3
  const double size = volume();
  if (has_structure() && results.stress && !(size > LEAST_VOLUME))
    throw std::invalid_argument("the stress needs a cell with a volume");
  use_structure();
  const std::size_t num_atoms = types_.size(), num_all = neighbors_.positions().size();
  std::vector<Vector3> forces(results.forces || has_virial ? num_all : 0);
  std::vector<double> energies(results.energies ? num_all : 0);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(neighbors_.positions().data());
  if (!forces.empty()) request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  if (!energies.empty()) request.atom_energy = energies.data();
  request.virial = has_virial;
  const EvaluationResult found = evaluate(*evaluator_, request);
  if (results.energy) *results.energy = found.energy;
  if (results.energies) std::copy_n(energies.begin(), num_atoms, results.energies);
  if (results.forces) {
    for (std::size_t a = num_atoms; a < num_all; ++a)
      for (int d = 0; d < 3; ++d) forces[neighbors_.owner()[a]][d] += forces[a][d];
    std::copy_n(forces.data()->data(), 3 * num_atoms, results.forces);
  }
  const double *v = found.virial;    // xx, yy, zz, xy, xz, yz
  const double voigt[6] = {v[0], v[1], v[2], v[5], v[4], v[3]};
  for (int k = 0; k < 6; ++k) {
    if (results.virial) results.virial[k] = voigt[k];
    if (results.stress) results.stress[k] = -voigt[k] / size;
  }
}

std::string Calculator::observable_unit(const std::string &name) const {
  if (model_.observable_offset(name) < 0) {
    std::string known;
    for (const std::string &observable : model_.observables()) known += (known.empty() ? "" : ", ") + observable;
    throw std::invalid_argument(model_.file + ": the model has no " + name +
                                (known.empty() ? "" : "; it has " + known));
  }
  return name == "charge" ? "e" : name == "dipole" ? "e*Angstrom" : model_.unit_of(name);
}

void Calculator::compute_observable(const std::string &name, double *values) {
  if (!values) throw std::invalid_argument("values must not be null");
  observable_unit(name);    // throws if there is none
  fit_to_structure();
  if (!observables_) {
    observables_ = make_host_evaluator(
        model_.restricted_to(used_symbols_).with_charges_in_field(settings_.field).for_observables(), options());
    is_set_in_observables_ = false;
  }
  if (!is_set_in_observables_) observables_->set_neighborhood(neighbors_.neighborhood());
  is_set_in_observables_ = true;

  const std::size_t all = model_.num_observable_numbers(), first = model_.observable_offset(name);
  std::vector<double> numbers(all * neighbors_.positions().size());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(neighbors_.positions().data());
  request.observables = numbers.data();
  evaluate(*observables_, request);
  const std::size_t width = Observable::width(name);
  for (std::size_t a = 0; a < types_.size(); ++a) {
    const double *from = numbers.data() + all * a + first;
    if (name != "polarizability") {
      std::copy_n(from, width, values + width * a);
      continue;
    }
    const std::array<double, 6> t = polarizability_tensor(from);    // xx, yy, zz, xy, xz, yz
    const double voigt[6] = {t[0], t[1], t[2], t[5], t[4], t[3]};
    std::copy_n(voigt, width, values + width * a);
  }
}

void Calculator::compute_born_charges(bool neutral, double *born, double *charge_derivatives) {
  if (!born) throw std::invalid_argument("born must not be null");
  fit_to_structure();
  if (!born_) {
    EvaluatorOptions in_float64 = options();
    in_float64.precision = Precision::double_;
    const Model derived =
        model_.restricted_to(used_symbols_).with_charges_in_field(settings_.field).for_observable_derivatives();
    born_ = std::make_unique<BornEvaluation>(make_host_evaluator(derived, in_float64), derived);
    is_set_in_born_ = false;
  }
  if (!is_set_in_born_) born_->set_neighborhood(neighbors_.neighborhood());
  is_set_in_born_ = true;
  const auto *positions = reinterpret_cast<const double(*)[3]>(neighbors_.positions().data());
  const std::array<bool, 3> periodic = {cell_.periodic[0], cell_.periodic[1], cell_.periodic[2]};
  const BornCharges found = with_numbered_atoms(
      [&](GhostExchange &exchange) { return born_->evaluate(positions, periodic, neutral, exchange); });
  for (std::size_t i = 0; i < types_.size(); ++i) {
    std::copy_n(found.born[i].begin(), 9, born + 9 * i);
    if (charge_derivatives) std::copy_n(found.charge_derivative[i].begin(), 3, charge_derivatives + 3 * i);
  }
}

void Calculator::compute_hessian(double *hessian) {
  if (!hessian) throw std::invalid_argument("hessian must not be null");
  if (settings_.forces_of == ForcesOf::features)
    throw std::invalid_argument("forces direct have no second derivatives of an energy");
  use_structure();
  if (!directional_) {
    directional_ = make_evaluator(true);
    is_set_in_directional_ = false;
  }
  if (!is_set_in_directional_) directional_->set_neighborhood(neighbors_.neighborhood());
  is_set_in_directional_ = true;

  const std::vector<int> &owner = neighbors_.owner();
  const std::size_t size = owner.size(), rows = 3 * types_.size();
  std::vector<Vector3> directions, tangents;
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(neighbors_.positions().data());
  request.direction_distance = static_cast<int64_t>(size);
  for (std::size_t done = 0, batch = 1; done < rows; done += batch) {
    batch = request.same_positions ? std::min<std::size_t>(rows - done, directional_->max_directions()) : 1;
    directions.assign(size * batch, {});
    tangents.assign(size * batch, {});
    for (std::size_t d = 0; d < batch; ++d)
      for (std::size_t a = 0; a < size; ++a)
        if (static_cast<std::size_t>(owner[a]) == (done + d) / 3) directions[size * d + a][(done + d) % 3] = 1.0;
    request.direction = reinterpret_cast<const double(*)[3]>(directions.data());
    request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
    request.num_directions = static_cast<int>(batch);
    evaluate(*directional_, request);
    request.same_positions = true;
    for (std::size_t d = 0; d < batch; ++d) {
      double *row = hessian + rows * (done + d);
      std::fill_n(row, rows, 0.0);
      for (std::size_t a = 0; a < size; ++a)
        for (int k = 0; k < 3; ++k) row[3 * static_cast<std::size_t>(owner[a]) + k] -= tangents[size * d + a][k];
    }
  }
}

}    // namespace equi
