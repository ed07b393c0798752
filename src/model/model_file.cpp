// SPDX-License-Identifier: MIT
// Converts the container's document to a Model. Every number is checked before it is used as an index or a size.
#include "src/model/model_file.h"

#include "src/base/data_hash.h"
#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/geometry/neighbor_graph.h"
#include "src/layers/layer_reader.h"
#include "src/model/chemical_elements.h"
#include "src/model/mixture_reader.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace equi {

namespace {

void check_hash(const JsonField &field, const SafetensorsFile &container) {
  const std::string found = data_hash(container.data, container.data_bytes);
  if (field.text() != found)
    field.fail("data with the hash that the file states, " + field.describe(),
               "data with \"" + found + "\" (a damaged file)");
}

void read_composition(const JsonField &field, Model &model) {
  field.object();
  model.composition.assign(model.elements.size(), 0);
  for (const auto &item : field.json().items()) {
    const int species = model.species(item.key());
    if (species < 0) field.fail("elements of the model", printable(item.key(), SHOWN_NAME));
    const std::string name = field.name() + "." + model.elements[species];
    model.composition[species] = JsonField(item.value(), model.file, name).integer(1, MAX_FORMULA_ATOMS);
  }
  for (size_t s = 0; s < model.elements.size(); ++s)
    if (model.composition[s] == 0) field.fail("all elements of the model", "no " + model.elements[s]);
}

// Reads the limit of neighbors, and explains it to the user.
NearestNeighbors read_nearest(const JsonField &field, std::vector<std::string> &notes) {
  field.only_keys({"count", "tolerance"});
  NearestNeighbors nearest{field["count"].integer(1, MAX_NEAREST), -1.0};
  if (field.has("tolerance")) nearest.tolerance = field["tolerance"].number(0.0, MAX_CUTOFF * MAX_CUTOFF);
  notes.push_back(
      "of the neighbors within the cutoff an atom sees the " + std::to_string(nearest.count) +
      " nearest: energies and forces jump where one takes the place of another, and molecular dynamics does "
      "not conserve the energy");
  return nearest;
}

void read_head(const JsonField &d, const SafetensorsFile &container, Model &model) {
  d.object();
  if (d["format"].text() != "equi") d["format"].fail("\"equi\"");
  const JsonField version = d["format_version"];
  if (version.integer(1, INT32_MAX) > MODEL_FORMAT_VERSION)
    version.fail("at most " + std::to_string(MODEL_FORMAT_VERSION),
                 version.describe() + ": the file is newer than this program");
  const bool has_hash = version.integer(1, MODEL_FORMAT_VERSION) >= FIRST_VERSION_WITH_HASH;
  std::vector<const char *> keys = {
      "format",     "format_version", "framework",    "architecture", "elements",         "cutoff",
      "lmax_edge",  "edge_parity",    "radial_basis", "layers",       "provenance",       "units",
      "self_check", "max_neighbors",  "composition",  "mixture",      "nearest_neighbors"};
  if (has_hash) keys.push_back("data_hash");
  d.only_keys(keys);
  if (has_hash)
    check_hash(d["data_hash"], container);
  else
    model.notes.push_back("the model file is of format version " + version.describe() +
                          ", without a hash of its data: a damaged number would not be noticed");
  const JsonField framework = d["framework"];
  framework.only_keys({"name", "version"});
  model.framework = printable(framework["name"].text());
  model.framework_version = printable(framework["version"].text());
  model.architecture = printable(d["architecture"].text());

  const JsonField elements = d["elements"];
  elements.size_between(1, MAX_ELEMENTS, "chemical symbols");
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::string symbol = elements[i].text();
    if (standard_atomic_mass(symbol) == 0.0) elements[i].fail("a chemical symbol");
    if (model.species(symbol) >= 0) elements[i].fail("each element once", symbol + " again");
    model.elements.push_back(symbol);
  }

  model.cutoff = d["cutoff"].number(MIN_CUTOFF, MAX_CUTOFF);
  model.lmax_edge = d["lmax_edge"].integer(0, LMAX_SUPPORTED);
  model.has_mirror_symmetry = d["edge_parity"].boolean() || model.lmax_edge == 0;
  if (d.has("max_neighbors")) model.max_neighbors = d["max_neighbors"].integer(1, INT32_MAX);
  if (d.has("nearest_neighbors")) model.nearest = read_nearest(d["nearest_neighbors"], model.notes);
  if (d.has("composition")) read_composition(d["composition"], model);

  const JsonField units = d["units"];
  units.only_keys({"energy", "length"});
  if (units["energy"].text() != "eV") units["energy"].fail("\"eV\"");
  if (units["length"].text() != "Angstrom") units["length"].fail("\"Angstrom\"");

  const JsonField provenance = d["provenance"];
  provenance.object();
  if (provenance.json().size() > MAX_PROVENANCE)
    provenance.fail("at most " + std::to_string(MAX_PROVENANCE) + " entries", std::to_string(provenance.json().size()));
  for (const auto &item : provenance.json().items()) {
    const std::string key = printable(item.key(), SHOWN_NAME);
    model.provenance[key] = printable(JsonField(item.value(), model.file, "provenance." + key).text());
  }
}

// ---- layers ----

// Reads a layer as the type in the list that it names.
template <class... L>
Layer read_layer(LayerList<L...>, const JsonField &layer, LayerReader &reader) {
  const JsonField type = layer["type"];
  std::optional<Layer> found;
  const auto read_if_named = [&](auto read, const FieldSpecs &fields, const char *name) {
    if (found || type.text() != name) return;
    check_fields(layer, fields, "type");
    found = read(layer, reader);
  };
  (read_if_named(L::read, L::fields(), L::TYPE), ...);
  if (found) return std::move(*found);
  const std::vector<std::string> known = {L::TYPE...};
  std::string names = known.front();
  for (size_t k = 1; k < known.size(); ++k) names += (k + 1 < known.size() ? ", " : " or ") + known[k];
  type.fail(names);
}

// The rows of runs of blocks of one irrep are the pieces of a message.
void check_exchanged(const JsonField &layer, const Irreps &irreps) {
  int runs = 0;
  for (int b = 0; b < irreps.size(); ++b) runs += b == 0 || irreps[b].irrep != irreps[b - 1].irrep;
  if (runs > MAX_EXCHANGED_RUNS)
    layer["irreps_in"].fail("at most " + std::to_string(MAX_EXCHANGED_RUNS) + " runs of blocks of one irrep",
                            std::to_string(runs));
}

std::vector<Layer> read_layers(const JsonField &fields, LayerReader &reader) {
  fields.size_between(1, MAX_LAYERS, "layers");
  std::vector<Layer> layers;
  for (size_t i = 0; i < fields.size(); ++i) {
    Layer layer = read_layer(Layers(), fields[i], reader);
    const LayerTraits found = traits(layer);
    const bool is_pair_energy = found.adds_pair_energy && ports(layer).input < 0;
    for (const Layer &earlier : layers)
      if (traits(earlier).scales_energies && !is_pair_energy)
        fields[i].fail(std::string("only energies of pairs without features after ") + layer_type(earlier),
                       fields[i]["type"].describe());
    const auto is_same = [&](const Layer &other) { return other.index() == layer.index(); };
    if (found.is_single && std::any_of(layers.begin(), layers.end(), is_same))
      fields[i].fail(std::string("one layer of type ") + layer_type(layer) + " at most", "another");
    if (found.reads_senders || found.far_cutoff > 0.0)
      check_exchanged(fields[i], reader.features()[ports(layer).input]);
    layers.push_back(std::move(layer));
  }
  // The pairs within the largest cutoff are counted.
  for (const Layer &layer : layers)
    if (const LayerTraits t = traits(layer); t.needs_all_pairs && t.far_cutoff < far_cutoff(layers))
      fields.fail(std::string("no larger cutoff than that of ") + layer_type(layer) + ", which is over all pairs",
                  text_of(far_cutoff(layers)));
  if (!any_layer(layers, &LayerTraits::is_readout) && !any_layer(layers, &LayerTraits::is_observable))
    fields.fail("a readout layer", "none");
  const auto gives_forces = [](const Layer &layer) { return traits(layer).gives_forces; };
  const auto direct = std::find_if(layers.begin(), layers.end(), gives_forces);
  for (const Layer &layer : layers)
    if (direct != layers.end() && (traits(layer).adds_pair_energy || traits(layer).sums_over_waves))
      fields.fail(std::string("no ") + layer_type(layer) + " beside " + layer_type(*direct) +
                      ", whose forces would lack its part",
                  "both");
  return layers;
}

// ---- self-check ----

void vectors(const JsonField &field, size_t num, const char *of_what, double largest,
             std::vector<std::array<double, 3>> &out) {
  field.size(num, of_what);
  for (size_t i = 0; i < num; ++i) {
    field[i].size(3, "numbers");
    out.push_back({});
    for (size_t d = 0; d < 3; ++d) out.back()[d] = field[i][d].number(-largest, largest);
  }
}

void read_symbols(const JsonField &symbols, const Model &model, int64_t num_components, ReferenceStructure &r) {
  symbols.size_between(1, MAX_STRUCTURE_ATOMS, "chemical symbols");
  std::set<std::string> elements;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (model.species(symbols[i].text()) < 0) symbols[i].fail("an element of the model");
    r.symbols.push_back(symbols[i].text());
    elements.insert(r.symbols.back());
  }
  if (elements.size() > MAX_STRUCTURE_ELEMENTS)
    symbols.fail("at most " + std::to_string(MAX_STRUCTURE_ELEMENTS) + " elements", std::to_string(elements.size()));
  if (static_cast<int64_t>(symbols.size()) * num_components > MAX_STRUCTURE_COMPONENTS)
    symbols.fail("at most " + std::to_string(MAX_STRUCTURE_COMPONENTS / num_components) +
                     " atoms for a model with features of so many components",
                 std::to_string(symbols.size()));
}

void check_cell(const JsonField &field, const ReferenceStructure &r) {
  const auto &c = r.cell;
  const double volume = c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
                        c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
                        c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]);
  // A box of a structure that is periodic in one or two directions may be flat in the others.
  if (r.periodic[0] && r.periodic[1] && r.periodic[2] && !(std::fabs(volume) > 0.0))
    field.fail("a cell with a volume", "none");
}

// num_pairs: sum over all structures up to this one.
void check_images(const JsonField &field, const ReferenceStructure &r, double cutoff, double &num_pairs) {
  num_pairs += field.checked([&] { return num_image_candidates(r.positions, r.cell, r.periodic, cutoff); });
  if (num_pairs > MAX_STRUCTURE_PAIRS)
    field.fail("structures with at most " + text_of(MAX_STRUCTURE_PAIRS) +
                   " pairs of atoms within the cutoff, periodic images included",
               text_of(num_pairs) + " up to this one");
}

ReferenceStructure read_structure(const JsonField &f, const Model &model, int64_t num_components, double &num_pairs) {
  f.only_keys({"name", "symbols", "cell", "pbc", "positions", "energy", "forces", "stress"});
  ReferenceStructure r;
  r.name = printable(f["name"].text(), SHOWN_NAME);
  read_symbols(f["symbols"], model, num_components, r);
  const JsonField pbc = f["pbc"];
  pbc.size(3, "values");
  for (size_t d = 0; d < 3; ++d) r.periodic[d] = pbc[d].boolean();
  const bool is_periodic = r.periodic[0] || r.periodic[1] || r.periodic[2];
  const bool has_cell = f.has("cell") && !f["cell"].is_null();
  if (is_periodic && !has_cell) f.fail("a cell for a periodic structure", "none");
  if (has_cell) {
    std::vector<std::array<double, 3>> rows;
    vectors(f["cell"], 3, "lattice vectors", MAX_POSITION, rows);
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) r.cell[a][b] = rows[a][b];
    check_cell(f["cell"], r);
  }
  vectors(f["positions"], r.symbols.size(), "positions, one per atom", MAX_POSITION, r.positions);
  check_images(f, r, model.reach(), num_pairs);
  vectors(f["forces"], r.symbols.size(), "forces, one per atom", MAX_MAGNITUDE, r.forces);
  r.energy = f["energy"].number();
  if (f.has("stress") && !f["stress"].is_null()) {
    if (!has_cell) f["stress"].fail("no stress without a cell");
    f["stress"].size(6, "numbers");
    for (size_t d = 0; d < 6; ++d) r.stress[d] = f["stress"][d].number();
    r.has_stress = true;
  }
  return r;
}

// The tensors for one system of a file for all systems.
SystemTensors read_mixture(const JsonField &document, const SafetensorsFile &container, const AtomicSystem &system,
                           Model &model) {
  const JsonField field = document["mixture"];
  if (document.has("composition")) field.fail("no composition beside a mixture", "both");
  if (document.has("self_check") && document["self_check"].size() > 0 && field.has("tasks"))
    field.fail("no structures for a self-check beside tasks, which are of one system", "both");
  SystemTensors of_system = make_system_tensors(field, container, model.elements, model.file, system);
  model.mixture = of_system.mixture;
  if (model.mixture->depends_on_composition && !system.atoms.empty()) {
    model.composition.assign(model.elements.size(), 0);
    for (const auto &[symbol, number] : system.atoms) {
      const int s = model.species(symbol);
      if (s < 0) field.refuse("the model does not know element " + printable(symbol, SHOWN_NAME));
      model.composition[s] = number;
    }
  }
  return of_system;
}

Model read_document(const JsonField &document, const SafetensorsFile &container, const std::string &path,
                    const AtomicSystem &system, ForcesOf forces) {
  Model model;
  model.file = printable(path);
  read_head(document, container, model);
  std::optional<SystemTensors> of_system;
  if (document.has("mixture"))
    of_system = read_mixture(document, container, system, model);
  else if (system.says_something())
    throw ModelFileError(
        model.file +
        ": expected no task, charge, spin or other input: the file is not one for all systems, and what its model "
        "has of these is fixed when it is converted");
  TensorReader tensors(of_system ? of_system->container : container, model.num_species());
  RadialBasis basis = read_radial_basis(document["radial_basis"], model.cutoff, tensors);
  model.pair_cutoff = basis.pair_cutoff;

  LayerReader reader(tensors, std::move(basis), model.lmax_edge, document["edge_parity"].boolean());
  model.layers = read_layers(document["layers"], reader);
  model.features = reader.features();
  model.feature_names = reader.feature_names();
  model.notes.insert(model.notes.end(), reader.notes.begin(), reader.notes.end());
  tensors.refuse_unused(model.file);
  model.offers_direct_forces = has_direct_forces(model.layers);
  if (forces == ForcesOf::features && !model.offers_direct_forces)
    document["layers"].fail("a layer direct_forces, for forces that are not derivatives of the energy", "none");
  if (forces == ForcesOf::energy && model.offers_direct_forces) model = model.without_direct_forces();
  if (!document.has("self_check")) return model;

  const JsonField structures = document["self_check"];
  structures.size_between(0, MAX_STRUCTURES, "structures");
  double num_pairs = 0.0;
  for (size_t k = 0; k < structures.size(); ++k)
    model.self_check.push_back(read_structure(structures[k], model, reader.num_components(), num_pairs));
  if (model.mixture && !model.mixture->is_usual()) model.self_check.clear();
  return model;
}

}    // namespace

std::string read_file_bytes(const std::string &path) {
  // Folders, pipes and devices are refused, because they have no length.
  std::error_code status;
  const auto size = std::filesystem::file_size(path, status);
  std::ifstream file(path, std::ios::binary);
  if (status || !std::filesystem::is_regular_file(path, status) || !file)
    throw ModelFileError(path + ": expected a model file, found none that can be opened: " +
                         (status ? status.message() : std::strerror(errno)));
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception &) {
    throw ModelFileError(path + ": expected a file that fits into memory, found " + std::to_string(size) + " bytes");
  }
  file.read(&bytes[0], static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(file.gcount()) != size)
    throw ModelFileError(path + ": expected a readable file of " + std::to_string(size) +
                         " bytes, found an error after " + std::to_string(file.gcount()));
  return bytes;
}

Model parse_model(const std::string &bytes, const std::string &path, const AtomicSystem &system, ForcesOf forces) {
  try {
    const SafetensorsFile container = parse_safetensors(bytes, path);
    const auto it = container.metadata.find("equi");
    if (it == container.metadata.end())
      throw ModelFileError(path +
                           ": __metadata__.equi: expected the model's description, found none (not an .equi file?)");
    const nlohmann::json document = parse_json(it->second.data(), it->second.size(), path, "__metadata__.equi");
    return read_document(JsonField(document, path, ""), container, path, system, forces);
  } catch (const std::bad_alloc &) {
    throw ModelFileError(path + ": expected a model that fits into memory, found a larger one");
  }
}

Model read_all_layers(const std::string &path) {
  const std::string bytes = read_file_bytes(path);
  const Model model = parse_model(bytes, path);
  return model.offers_direct_forces ? parse_model(bytes, path, {}, ForcesOf::features) : model;
}

}    // namespace equi
