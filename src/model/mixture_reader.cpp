// SPDX-License-Identifier: MIT
// Makes the tensors of one system from the experts and embeddings of a file for all systems.
#include "src/model/mixture_reader.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/document/tensor_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace equi {

namespace {

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

std::vector<double> silu(std::vector<double> x) {
  for (double &v : x) v = silu(v);
  return x;
}

// y += x W, W [in, out].
void add_product(const std::vector<double> &x, const Matrix &w, std::vector<double> &y) {
  for (int i = 0; i < w.rows; ++i)
    for (int j = 0; j < w.cols; ++j) y[j] += x[i] * w.data[static_cast<size_t>(i) * w.cols + j];
}

// silu(x W + b), W [in, out].
std::vector<double> layer_of(const JsonField &weight, const JsonField &bias, const std::vector<double> &x,
                             TensorReader &reader) {
  const Matrix w = reader.matrix(weight, static_cast<int64_t>(x.size()), ANY_LENGTH);
  std::vector<double> y = reader.values(bias, {w.cols});
  add_product(x, w, y);
  return silu(std::move(y));
}

void append(std::vector<double> &to, const Matrix &rows, size_t row) {
  to.insert(to.end(), rows.data.begin() + row * rows.cols, rows.data.begin() + (row + 1) * rows.cols);
}

// Appends the row of a number from a table whose first row belongs to the number "first".
void append_row_of(std::vector<double> &to, const JsonField &table, const std::string &name, int number,
                   TensorReader &reader) {
  const Matrix rows = reader.matrix(table["rows"], ANY_LENGTH, ANY_LENGTH);
  const int first = table["first"].integer(-MAX_SYSTEM_NUMBER, MAX_SYSTEM_NUMBER), last = first + rows.rows - 1;
  if (number < first || number > last)
    table.refuse(name + " " + std::to_string(number) + ": the model knows those from " + std::to_string(first) +
                 " to " + std::to_string(last));
  append(to, rows, number - first);
}
// The same for a charge or a spin, whose table has no other fields.
void append_row(std::vector<double> &to, const JsonField &table, const char *name, int number, TensorReader &reader) {
  table.only_keys({"rows", "first"});
  append_row_of(to, table, name, number, reader);
}

struct Embedding {
  int task = 0;
  std::vector<double> values;    // [channels], added to the scalars of all atoms
};

Embedding read_embedding(const JsonField &field, const JsonField &tasks, const AtomicSystem &system, Mixture &mixture,
                         TensorReader &reader) {
  tasks.size_between(1, MAX_TASKS, "tasks");
  Embedding embedding;
  std::string known;
  for (size_t t = 0; t < tasks.size(); ++t) {
    tasks[t].only_keys({"name", "spin"});
    mixture.tasks.push_back(printable(tasks[t]["name"].text(), SHOWN_NAME));
    known += (t ? ", " : "") + mixture.tasks.back();
  }
  const auto found = std::find(mixture.tasks.begin(), mixture.tasks.end(), system.task);
  if (!system.task.empty()) {
    if (found == mixture.tasks.end())
      tasks.refuse("no task " + printable(system.task, SHOWN_NAME) + "; the model has " + known);
    embedding.task = static_cast<int>(found - mixture.tasks.begin());
  }
  mixture.task = mixture.tasks[embedding.task];
  const int usual_spin = tasks[embedding.task]["spin"].integer(0, MAX_SYSTEM_NUMBER);
  mixture.spin = system.spin.value_or(usual_spin);
  mixture.depends_on_charge = mixture.depends_on_spin = true;

  field.only_keys({"charge", "spin", "task", "weight", "bias"});
  std::vector<double> x;
  append_row(x, field["charge"], "charge", mixture.charge, reader);
  append_row(x, field["spin"], "spin", mixture.spin, reader);
  if (field.has("task"))
    append(x, reader.matrix(field["task"], static_cast<int64_t>(tasks.size()), ANY_LENGTH), embedding.task);
  embedding.values = layer_of(field["weight"], field["bias"], x, reader);
  return embedding;
}

// The number of atoms of an element; one of each if the system is not known.
double number_of_atoms(const std::string &element, const AtomicSystem &system) {
  if (system.atoms.empty()) return 1.0;
  const auto it = system.atoms.find(element);
  return it == system.atoms.end() ? 0.0 : static_cast<double>(it->second);
}

// [species, channels] -> the mean over the atoms of the system.
std::vector<double> mean_of_atoms(const JsonField &field, int extra_atoms, const std::vector<std::string> &elements,
                                  const AtomicSystem &system, TensorReader &reader) {
  const Matrix rows = reader.matrix(field, reader.num_species, ANY_LENGTH);
  std::vector<double> mean(rows.cols, 0.0);
  double all = extra_atoms;
  for (int s = 0; s < rows.rows; ++s) {
    const double n = number_of_atoms(elements[s], system);
    all += n;
    for (int k = 0; k < rows.cols; ++k) mean[k] += n * rows.data[static_cast<size_t>(s) * rows.cols + k];
  }
  for (double &v : mean) v /= all;
  return mean;
}

// [experts]: the softmax of a network, and a constant.
std::vector<double> read_coefficients(const JsonField &field, const std::vector<double> &embedding,
                                      const std::vector<std::string> &elements, const AtomicSystem &system,
                                      Mixture &mixture, TensorReader &reader) {
  field.only_keys({"composition", "extra_atoms", "weights", "biases", "least"});
  std::vector<double> x;
  if (field.has("composition")) {
    mixture.depends_on_composition = true;
    const int extra_atoms = field.has("extra_atoms") ? field["extra_atoms"].integer(0, MAX_SYSTEM_NUMBER) : 0;
    mixture.depends_on_number = extra_atoms > 0;
    x = mean_of_atoms(field["composition"], extra_atoms, elements, system, reader);
  }
  x.insert(x.end(), embedding.begin(), embedding.end());
  const JsonField weights = field["weights"], biases = field["biases"];
  weights.size_between(1, MAX_LAYERS, "matrices");
  biases.size(weights.size(), "tensors, one per matrix");
  for (size_t k = 0; k < weights.size(); ++k) x = layer_of(weights[k], biases[k], x, reader);
  const double largest = *std::max_element(x.begin(), x.end()), least = field["least"].number(0.0, 1.0);
  double sum = 0.0;
  for (double &v : x) sum += v = std::exp(v - largest);
  for (double &v : x) v = v / sum + least;
  return x;
}

// [species, channels]: what a charge, or the number of unpaired electrons, adds to the scalars of each species. The
// number is divided among the atoms by weights of their species; one row of keys and values is that of positive
// numbers and of zero, the other that of negative ones.
std::vector<double> read_shares(const JsonField &field, const std::vector<std::string> &elements,
                                const AtomicSystem &system, int number, Mixture &mixture, TensorReader &reader) {
  field.only_keys({"query", "key", "value", "scale", "epsilon", "weights"});
  const Matrix query = reader.matrix(field["query"], reader.num_species, ANY_LENGTH);
  const Matrix key = reader.matrix(field["key"], 2, query.cols), value = reader.matrix(field["value"], 2, ANY_LENGTH);
  const double scale = field["scale"].number(), epsilon = field["epsilon"].number(MIN_DIVISOR, 1.0);
  const JsonField weights = field["weights"];
  weights.size(2, "matrices");
  const Matrix first = reader.matrix(weights[size_t(0)], value.cols, ANY_LENGTH);
  const Matrix second = reader.matrix(weights[size_t(1)], first.cols, value.cols);
  if (number != 0) mixture.depends_on_composition = mixture.depends_on_number = true;

  const size_t sign = number < 0 ? 1 : 0, num_species = static_cast<size_t>(query.rows);
  std::vector<double> share(num_species);
  double sum = epsilon;
  for (size_t s = 0; s < num_species; ++s) {
    double score = 0.0;
    for (int k = 0; k < query.cols; ++k) score += query.data[s * query.cols + k] * key.data[sign * key.cols + k];
    score *= scale;
    share[s] = std::log1p(std::exp(-std::fabs(score))) + std::max(score, 0.0);
    sum += number_of_atoms(elements[s], system) * share[s];
  }
  std::vector<double> added;
  for (size_t s = 0; s < num_species; ++s) {
    std::vector<double> x, hidden(first.cols, 0.0);
    append(x, value, sign);
    for (double &v : x) v *= number * share[s] / sum;
    add_product(silu(x), first, hidden);
    add_product(silu(std::move(hidden)), second, x);
    added.insert(added.end(), x.begin(), x.end());
  }
  return added;
}

// The sum of the shares of a charge and of a spin, either of which may be absent; empty if the field is.
std::vector<double> read_all_shares(const JsonField &field, const std::vector<std::string> &elements,
                                    const AtomicSystem &system, Mixture &mixture, TensorReader &reader) {
  if (!field.has("shares")) return {};
  const JsonField shares = field["shares"];
  shares.only_keys({"charge", "spin"});
  std::vector<double> sum;
  const auto add = [&](const char *name, int number, bool &depends) {
    if (!shares.has(name)) return;
    depends = true;
    const std::vector<double> added = read_shares(shares[name], elements, system, number, mixture, reader);
    if (sum.empty()) sum.assign(added.size(), 0.0);
    if (sum.size() != added.size()) shares[name].refuse("other numbers of channels than those of charge");
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
  };
  add("charge", mixture.charge, mixture.depends_on_charge);
  add("spin", mixture.spin - 1, mixture.depends_on_spin);
  return sum;
}

// ---- numbers of the whole system, by the names of the file

struct Inputs {
  std::vector<double> added;      // [channels], added to the rows of all species; empty: the file has no inputs
  std::vector<double> readout;    // [channels], the derivative of an atom's energy by its row; or empty
  std::vector<double> rows;       // of all species, with what is added
};

using Meaning = SystemInput::Meaning;

// The value of an input: that of the system, or the usual one.
double value_of_input(const JsonField &field, const SystemInput &input, const AtomicSystem &system) {
  const auto named = system.inputs.find(input.name);
  const std::optional<int> of_keyword = input.meaning == Meaning::charge ? system.charge
                                        : input.meaning == Meaning::spin ? system.spin
                                                                         : std::nullopt;
  if (of_keyword && named != system.inputs.end())
    field.refuse("two values of " + input.name + ": it is the " +
                 (input.meaning == Meaning::charge ? "charge" : "spin") + " of the system");
  if (of_keyword) return *of_keyword;
  return named == system.inputs.end() ? input.usual : named->second;
}

// Appends the embedding of an input: a row of a table, or a network with one hidden layer.
void append_input(std::vector<double> &to, const JsonField &field, const SystemInput &input, TensorReader &reader) {
  if (!(std::fabs(input.value) <= MAX_SYSTEM_NUMBER))
    field.refuse(input.name + " " + text_of(input.value) + ": expected a number of at most " +
                 std::to_string(MAX_SYSTEM_NUMBER));
  if (field.has("rows")) {
    field.only_keys({"name", "meaning", "usual", "rows", "first"});
    if (input.value != std::floor(input.value))
      field.refuse(input.name + " " + text_of(input.value) + ": the model knows only whole numbers");
    return append_row_of(to, field, input.name, static_cast<int>(input.value), reader);
  }
  field.only_keys({"name", "meaning", "usual", "weights", "biases"});
  const JsonField weights = field["weights"];
  weights.size(2, "matrices");
  const Matrix first = reader.matrix(weights[size_t(0)], 1, ANY_LENGTH);
  const Matrix second = reader.matrix(weights[size_t(1)], first.cols, ANY_LENGTH);
  std::vector<double> hidden(first.cols, 0.0), y(second.cols, 0.0);
  if (field.has("biases")) {
    const JsonField biases = field["biases"];
    biases.size(2, "tensors, one per matrix");
    hidden = reader.values(biases[size_t(0)], {first.cols});
    y = reader.values(biases[size_t(1)], {second.cols});
  }
  add_product({input.value}, first, hidden);
  add_product(silu(std::move(hidden)), second, y);
  to.insert(to.end(), y.begin(), y.end());
}

SystemInput read_input(const JsonField &field, const AtomicSystem &system, const Mixture &mixture) {
  SystemInput input;
  input.name = printable(field["name"].text(), SHOWN_NAME);
  const std::string meaning = field["meaning"].text();
  if (meaning != "charge" && meaning != "spin" && meaning != "other") field["meaning"].fail("charge, spin or other");
  input.meaning = meaning == "charge" ? Meaning::charge : meaning == "spin" ? Meaning::spin : Meaning::other;
  for (const SystemInput &earlier : mixture.inputs) {
    if (earlier.name == input.name) field["name"].fail("each name once", input.name + " again");
    if (earlier.meaning == input.meaning && input.meaning != Meaning::other)
      field["meaning"].fail("one input that is the " + meaning, "another");
  }
  input.usual = field["usual"].number(-MAX_SYSTEM_NUMBER, MAX_SYSTEM_NUMBER);
  input.value = value_of_input(field, input, system);
  return input;
}

// silu(W [e_1; e_2; ...]) with the embeddings e of all inputs.
Inputs read_inputs(const JsonField &field, const AtomicSystem &system, Mixture &mixture, TensorReader &reader) {
  field.only_keys({"values", "weight", "readout"});
  const JsonField values = field["values"];
  values.size_between(1, MAX_SYSTEM_INPUTS, "inputs");
  std::vector<double> x;
  for (size_t k = 0; k < values.size(); ++k) {
    const SystemInput input = read_input(values[k], system, mixture);
    append_input(x, values[k], input, reader);
    if (input.meaning == Meaning::charge) mixture.depends_on_charge = true;
    if (input.meaning == Meaning::spin) mixture.depends_on_spin = true;
    mixture.inputs.push_back(input);
  }
  Inputs inputs;
  const Matrix weight = reader.matrix(field["weight"], static_cast<int64_t>(x.size()), ANY_LENGTH);
  inputs.added.assign(weight.cols, 0.0);
  add_product(x, weight, inputs.added);
  inputs.added = silu(std::move(inputs.added));
  if (field.has("readout")) inputs.readout = reader.values(field["readout"], {weight.cols});
  return inputs;
}

// Adds the inputs to the rows of species.
std::vector<double> with_inputs(std::vector<double> rows, const JsonField &name, Inputs &inputs) {
  const size_t width = inputs.added.size();
  if (width == 0 || rows.size() % width != 0)
    name.fail("rows of " + std::to_string(width) + " numbers, as many as the inputs add");
  for (size_t i = 0; i < rows.size(); ++i) rows[i] += inputs.added[i % width];
  inputs.rows.insert(inputs.rows.end(), rows.begin(), rows.end());
  return rows;
}
// Adds what is read from these rows to the energies of species.
std::vector<double> with_energies_of_inputs(std::vector<double> shifts, const JsonField &name, const Inputs &inputs) {
  const size_t width = inputs.readout.size();
  if (width == 0 || inputs.rows.size() != shifts.size() * width)
    name.fail("a number per species, and a readout of the rows that the inputs are added to");
  for (size_t s = 0; s < shifts.size(); ++s) {
    double energy = 0.0;
    for (size_t c = 0; c < width; ++c) energy += inputs.readout[c] * inputs.rows[s * width + c];
    shifts[s] += energy;
  }
  return shifts;
}

// Refuses numbers of the system that the model does not read.
void check_system(const JsonField &field, const AtomicSystem &system, const Mixture &mixture) {
  if (system.charge && !mixture.depends_on_charge) field.refuse("no charge: the model does not depend on it");
  if (system.spin && !mixture.depends_on_spin) field.refuse("no spin: the model does not depend on it");
  for (const auto &[name, value] : system.inputs) {
    std::string known;
    bool is_known = false;
    for (const SystemInput &input : mixture.inputs) {
      is_known = is_known || input.name == name;
      known += (known.empty() ? "" : ", ") + input.name;
    }
    if (!is_known)
      field.refuse("no input " + printable(name, SHOWN_NAME) + ": the model has " + (known.empty() ? "none" : known));
  }
}

// The names of the tensors and their kinds. Energies are read from rows with inputs, which therefore come first.
std::vector<std::pair<std::string, const nlohmann::json *>> tensors_in_order(const JsonField &kinds) {
  std::vector<std::pair<std::string, const nlohmann::json *>> tensors;
  for (const auto &item : kinds.json().items()) tensors.emplace_back(item.key(), &item.value());
  std::stable_partition(tensors.begin(), tensors.end(), [](const auto &tensor) { return *tensor.second == "inputs"; });
  return tensors;
}

}    // namespace

SystemTensors make_system_tensors(const JsonField &field, const SafetensorsFile &container,
                                  const std::vector<std::string> &elements, const std::string &file,
                                  const AtomicSystem &system) {
  field.only_keys({"tasks", "embedding", "experts", "shares", "inputs", "tensors"});
  SystemTensors result{{}, container, {}};
  Mixture &mixture = result.mixture;
  TensorReader reader(container, static_cast<int>(elements.size()));
  mixture.charge = system.charge.value_or(0);
  mixture.spin = system.spin.value_or(1);
  Embedding embedding;
  std::vector<double> coefficients;
  if (field.has("tasks") || field.has("embedding") || field.has("experts")) {
    if (field.has("shares")) field["shares"].refuse("no shares beside tasks, for which a spin may be unknown");
    embedding = read_embedding(field["embedding"], field["tasks"], system, mixture, reader);
    if (field.has("experts"))
      coefficients = read_coefficients(field["experts"], embedding.values, elements, system, mixture, reader);
  } else if (!system.task.empty()) {
    field.refuse("no task " + printable(system.task, SHOWN_NAME) + ": the model has no tasks");
  }
  const std::vector<double> shares = read_all_shares(field, elements, system, mixture, reader);
  Inputs inputs;
  if (field.has("inputs")) {
    if (field.has("tasks") || field.has("shares")) field["inputs"].refuse("no inputs beside tasks or shares");
    inputs = read_inputs(field["inputs"], system, mixture, reader);
  }
  for (const std::string &name : reader.used()) result.container.tensors.erase(name);    // no layer reads them

  const JsonField kinds = field["tensors"];
  kinds.object();
  for (const auto &[tensor_name, value] : tensors_in_order(kinds)) {
    const JsonField kind(*value, file, kinds.name() + "." + printable(tensor_name, SHOWN_NAME));
    const nlohmann::json key = tensor_name;
    const JsonField name(key, file, kind.name());
    const auto it = result.container.tensors.find(tensor_name);
    if (it == result.container.tensors.end()) name.fail("a tensor of the file which nothing else of the mixture reads");
    StoredTensor &tensor = it->second;
    std::vector<double> all = reader.values(name, tensor.shape), made;
    if (kind.text() == "embedding") {    // added to each row
      const size_t width = embedding.values.size();
      if (tensor.shape.empty() || tensor.shape.back() != static_cast<int64_t>(width))
        name.fail("rows of " + std::to_string(width) + " numbers, as many as the embedding has", tensor.shape_text());
      made = std::move(all);
      for (size_t i = 0; i < made.size(); ++i) made[i] += embedding.values[i % width];
    } else if (kind.text() == "shares") {    // added to the rows of the species
      if (shares.empty() || all.size() != shares.size())
        name.fail("a tensor of " + std::to_string(shares.size()) + " numbers, as many as the shares have",
                  tensor.shape_text());
      made = std::move(all);
      for (size_t i = 0; i < made.size(); ++i) made[i] += shares[i];
    } else if (kind.text() == "inputs") {    // added to each row
      made = with_inputs(std::move(all), name, inputs);
    } else if (kind.text() == "inputs_energy") {    // read from the rows with inputs
      made = with_energies_of_inputs(std::move(all), name, inputs);
    } else if (kind.text() == "charge" || kind.text() == "spin") {    // multiplied by the number
      const bool is_charge = kind.text() == "charge";
      (is_charge ? mixture.depends_on_charge : mixture.depends_on_spin) = true;
      const int factor = is_charge ? mixture.charge : mixture.spin - 1;
      made = std::move(all);
      for (double &v : made) v *= factor;
    } else if (kind.text() == "spin_charges") {    // of electrons of either spin: multiplied by their charges
      if (all.size() != 2) name.fail("2 numbers", tensor.shape_text());
      mixture.depends_on_charge = mixture.depends_on_spin = true;
      made = {all[0] * (mixture.charge + mixture.spin - 1), all[1] * (mixture.charge - mixture.spin + 1)};
    } else if (kind.text() == "task" || kind.text() == "experts") {    // one row for each
      const bool of_task = kind.text() == "task";
      std::vector<double> factors = coefficients;
      if (of_task) {
        factors.assign(mixture.tasks.size(), 0.0);
        if (!factors.empty()) factors[embedding.task] = 1.0;
      }
      if (factors.empty() || tensor.shape.size() < 2 || tensor.shape[0] != static_cast<int64_t>(factors.size()))
        name.fail("a tensor for each of " + std::to_string(factors.size()) + (of_task ? " tasks" : " experts"),
                  tensor.shape_text());
      tensor.shape.erase(tensor.shape.begin());
      const size_t size = all.size() / factors.size();
      made.assign(size, 0.0);
      for (size_t e = 0; e < factors.size(); ++e)
        for (size_t i = 0; i < size && factors[e] != 0.0; ++i) made[i] += factors[e] * all[e * size + i];
    } else {
      kind.fail("embedding, experts, shares, inputs, inputs_energy, task, charge, spin or spin_charges");
    }
    result.made.push_back(std::move(made));
    tensor.is_double = true;
    tensor.data = reinterpret_cast<const char *>(result.made.back().data());
  }
  check_system(field, system, mixture);
  return result;
}

}    // namespace equi
