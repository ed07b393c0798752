// SPDX-License-Identifier: MIT
// Compiles the steps of a local network to a program.
#include "kokkos/layers/local_network/local_program.h"

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/algebra/coupling.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace equi {

namespace {

// Tables for more pairs would be larger than what they save; their functions are then evaluated by the networks.
constexpr int MOST_TABLES = 25;
// Above this number of columns for the networks that read a block, tables have the block itself.
constexpr int MOST_COLUMNS = 1024;

// Values that products are made of: functions of the distance from tables, or numbers in an array.
struct Source {
  int size;
  int chain = -1;    // functions of the distance; or else:
  LocalSlot slot = {};
};

// Sums over sources of their numbers times a matrix [size of the source, n], which are the n numbers of something.
using Form = std::map<int, Matrix>;

// A network from the distance: the functions of a step, then hidden layers. Its last layer is a source.
struct Chain {
  const EdgeScalars *scalars;
  std::vector<Matrix> weights;    // the first one is multiplied by that of a pair; each is followed by the activation
  Activation activation = Activation::identity;
  double activation_scale = 1.0;
  int array = -1, slopes = -1;    // with the columns of the table, once there are any
  std::vector<Matrix> columns;    // [size, n] for slots one after another
};

Matrix zeros(int rows, int cols) {
  return {rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols, 0.0)};
}
double &at(Matrix &m, int row, int col) {
  return m.data[static_cast<size_t>(row) * m.cols + col];
}
Matrix identity(int n) {
  Matrix m = zeros(n, n);
  for (int k = 0; k < n; k++) at(m, k, k) = 1.0;
  return m;
}
// sum += a b
void add_product(const Matrix &a, const Matrix &b, Matrix &sum) {
  for (int i = 0; i < a.rows; i++)
    for (int k = 0; k < a.cols; k++)
      if (const double factor = a(i, k); factor != 0.0)
        for (int j = 0; j < b.cols; j++) at(sum, i, j) += factor * b(k, j);
}
Matrix rows_of(const Matrix &m, int first, int num) {
  const auto begin = m.data.begin() + static_cast<std::ptrdiff_t>(first) * m.cols;
  return {num, m.cols, {begin, begin + static_cast<std::ptrdiff_t>(num) * m.cols}};
}
// A form with its columns in other places: column k of the result is column of[k], or 0 if that is -1.
Matrix with_columns(const Matrix &m, const std::vector<int> &of) {
  Matrix chosen = zeros(m.rows, static_cast<int>(of.size()));
  for (int i = 0; i < m.rows; i++)
    for (int j = 0; j < chosen.cols; j++)
      if (of[j] >= 0) at(chosen, i, j) = m(i, of[j]);
  return chosen;
}
// Columns first .. first + num - 1, followed by padding.
std::vector<int> padded_columns(int first, int num) {
  std::vector<int> of(padded(num), -1);
  for (int k = 0; k < num; k++) of[k] = first + k;
  return of;
}

class Compiler {
 public:
  Compiler(LocalProgram &program, const LocalNetwork &network, const std::vector<double> &scale, bool may_have_tables)
      : p_(program),
        network_(network),
        scale_(scale),
        forms_(network.features.size()),
        readers_(network.features.size()),
        holds_(network.features.size(), -1),
        factors_(network.features.size()) {
    find_readers();
    for (const LocalNetwork::Step &step : network.steps) {
      const auto *scalars = std::get_if<EdgeScalars>(&step);
      if (scalars && depends_on_pair(*scalars) && p_.num_species * p_.num_species > MOST_TABLES)
        may_have_tables = false;
    }
    has_tables_ = may_have_tables;
  }

  void compile() {
    for (size_t k = 0; k < network_.steps.size(); k++)
      if (is_needed_[k]) std::visit([&](const auto &step) { add(step); }, network_.steps[k]);
    for (const Chain &chain : chains_) add_tables(chain);
    order_adjoints();
    for (LocalArray &array : p_.arrays) {
      int64_t &width = array.is_of_receivers ? p_.receiver_width : p_.edge_width;
      // The numbers that all rows have in one place would compete for the same lines of a cache.
      constexpr int CONFLICT = 128;
      array.row = array.width % CONFLICT == 0 ? array.width + CHANNEL_PAD : array.width;
      array.before = static_cast<int>(width);
      width += array.row;
    }
  }

 private:
  // The steps that read a block.
  struct Readers {
    int dense_width = 0;    // width of the first matrices of the networks that read it
    int num_tensors = 0, num_sums = 0;
  };

  static bool depends_on_pair(const EdgeScalars &s) {
    return s.has_rows() || !s.pair_weights.empty() || s.basis.depends_on_pair();
  }

  // ---- what is read
  void find_readers() {
    const size_t num_steps = network_.steps.size();
    is_needed_.assign(num_steps, false);
    std::vector<bool> is_read(network_.features.size(), false);
    for (size_t f = 0; f < readers_.size(); f++) readers_[f].resize(network_.features[f].size());
    const auto read = [&](const std::vector<EdgeBlock> &blocks, int width) {
      for (const EdgeBlock &b : blocks) {
        readers_[b.feature][b.block].dense_width += width;
        is_read[b.feature] = true;
      }
    };
    for (size_t k = num_steps; k-- > 0;) {
      const LocalNetwork::Step &step = network_.steps[k];
      const auto *readout = std::get_if<EdgeReadout>(&step);
      is_needed_[k] = readout || is_read[std::visit([](const auto &s) { return output_of(s); }, step)];
      if (!is_needed_[k]) continue;
      if (readout) read(readout->inputs, readout->network.weights.front().cols);
      if (const auto *dense = std::get_if<EdgeDense>(&step)) read(dense->inputs, dense->network.weights.front().cols);
      if (const auto *tensor = std::get_if<EdgeTensor>(&step)) {
        readers_[tensor->input.feature][tensor->input.block].num_tensors++;
        is_read[tensor->input.feature] = true;
      }
      if (const auto *sum = std::get_if<EdgeSum>(&step)) {
        for (Readers &r : readers_[sum->input]) r.num_sums++;
        is_read[sum->input] = true;
      }
      if (const auto *product = std::get_if<EdgeProduct>(&step)) {
        for (Readers &r : readers_[product->input]) r.num_tensors++;
        is_read[product->input] = is_read[product->environment] = true;
      }
    }
  }
  template <class Step>
  static int output_of(const Step &step) {
    return step.output;
  }
  static int output_of(const EdgeReadout &) { return 0; }
  // Whether a feature of tensors is read only by one sum.
  bool is_only_summed(int feature) const {
    return std::all_of(readers_[feature].begin(), readers_[feature].end(),
                       [](const Readers &r) { return r.num_sums == 1 && r.num_tensors == 0 && r.dense_width == 0; });
  }

  // ---- arrays and constants
  int new_array(int width, bool is_of_receivers = false) {
    const int number = static_cast<int>(p_.arrays.size());
    p_.arrays.push_back({width, width, is_of_receivers, 0, number});
    return number;
  }
  int new_list(const std::vector<int> &list) {
    const int first = static_cast<int>(p_.lists.size());
    p_.lists.insert(p_.lists.end(), list.begin(), list.end());
    return first;
  }
  // Begins at a multiple of the padding, so that kernels load registers.
  int new_numbers(const std::vector<double> &numbers) {
    p_.numbers.resize((p_.numbers.size() + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD, 0.0);
    const int first = static_cast<int>(p_.numbers.size());
    p_.numbers.insert(p_.numbers.end(), numbers.begin(), numbers.end());
    return first;
  }
  int new_source(Source source) {
    sources_.push_back(source);
    return static_cast<int>(sources_.size()) - 1;
  }
  // A source that is an array, or part of one.
  Form form_of_slot(LocalSlot slot, int size) {
    Source source{size};
    source.slot = slot;
    return {{new_source(source), identity(size)}};
  }
  LocalSlot whole(int array) const { return {array, 0, p_.arrays[array].width}; }

  // ---- forms
  // Numbers of several blocks, side by side, times a matrix.
  Form combined(const std::vector<EdgeBlock> &blocks, const Matrix &weights) const {
    Form sum;
    int row = 0;
    for (const EdgeBlock &b : blocks) {
      const int channels = network_.features[b.feature][b.block].mul;
      const Matrix part = rows_of(weights, row, channels);
      for (const auto &[source, m] : forms_[b.feature][b.block]) {
        auto found = sum.try_emplace(source, zeros(m.rows, weights.cols)).first;
        add_product(m, part, found->second);
      }
      row += channels;
    }
    return sum;
  }
  static Form chosen_columns(const Form &form, const std::vector<int> &of) {
    Form chosen;
    for (const auto &[source, m] : form) chosen.emplace(source, with_columns(m, of));
    return chosen;
  }
  // The chain of a form that depends only on the distance, or -1.
  int chain_of(const Form &form) const { return form.size() == 1 ? sources_[form.begin()->first].chain : -1; }
  // Columns of a chain's table.
  LocalSlot new_columns(int chain, Matrix m) {
    Chain &c = chains_[chain];
    if (c.array < 0) {
      c.array = new_array(0);
      c.slopes = new_array(0);
    }
    const LocalSlot slot{c.array, p_.arrays[c.array].width, m.cols};
    p_.arrays[c.array].width += m.cols;
    p_.arrays[c.slopes].width += m.cols;
    c.columns.push_back(std::move(m));
    return slot;
  }
  // Computes the numbers of a form in a slot of their own. Its columns are padded.
  LocalSlot compute(const Form &form) {
    const int width = form.begin()->second.cols;
    LocalSlot slot;
    std::vector<std::pair<LocalSlot, Matrix>> terms;
    for (const auto &[number, m] : form) {
      const Source source = sources_[number];
      if (source.chain < 0)
        terms.emplace_back(source.slot, m);
      else if (slot.array < 0)
        slot = new_columns(source.chain, m);
      else
        terms.emplace_back(new_columns(source.chain, m), identity(width));
    }
    bool add = slot.array >= 0;
    if (!add) slot = whole(new_array(width));
    for (auto &[in, m] : terms) {
      m.data.resize(static_cast<size_t>(in.width) * width, 0.0);    // rows of the padding
      m.rows = in.width;
      p_.steps.push_back(LocalDenseStep{in, slot, static_cast<int>(p_.matrices.size()), add});
      p_.matrices.push_back(std::move(m));
      add = true;
    }
    return slot;
  }
  // Sets the form of a block. The block gets an array if that saves products.
  void set_form(int feature, int block, Form form) {
    const int channels = network_.features[feature][block].mul;
    const double readers = readers_[feature][block].dense_width;
    double size = 0.0;
    for (const auto &[source, m] : form)
      if (sources_[source].chain < 0) size += m.rows;
    const bool saves_products = size * channels + channels * readers < size * readers;
    const bool saves_columns = size == 0.0 && readers > MOST_COLUMNS && channels < readers;
    if (saves_products || saves_columns)
      form = form_of_slot(compute(chosen_columns(form, padded_columns(0, channels))), channels);
    if (forms_[feature].empty()) forms_[feature].resize(network_.features[feature].size());
    forms_[feature][block] = std::move(form);
  }
  // The hidden layers of a network from the inputs of its first activation. Returns the last one, a source.
  Form hidden_layers(const Network &network, Form z) {
    for (size_t k = 0;; k++) {
      const int width = network.weights[k].cols;
      const LocalSlot slot = compute(chosen_columns(z, padded_columns(0, width)));
      const int h = new_array(slot.width);
      p_.steps.push_back(LocalActivationStep{slot, h, network.activation, network.activation_scale});
      const Form form = form_of_slot(whole(h), width);
      if (k + 2 == network.weights.size()) return form;
      z = {{form.begin()->first, network.weights[k + 1]}};
    }
  }
  // Extends a chain by the hidden layers of a network that reads its last layer through a matrix. Returns whether that
  // is possible.
  bool extend(int chain, const Matrix &first, const Network &network, Form &hidden) {
    Chain longer = chains_[chain];
    const bool is_first = longer.weights.empty();
    if (!is_first && (longer.activation != network.activation || longer.activation_scale != network.activation_scale))
      return false;
    longer.activation = network.activation;
    longer.activation_scale = network.activation_scale;
    longer.array = longer.slopes = -1;
    longer.columns.clear();
    longer.weights.push_back(first);
    for (size_t k = 1; k + 1 < network.weights.size(); k++) longer.weights.push_back(network.weights[k]);
    chains_.push_back(std::move(longer));
    Source source{network.weights.back().rows};
    source.chain = static_cast<int>(chains_.size()) - 1;
    hidden = {{new_source(source), identity(source.size)}};
    return true;
  }
  // The outputs of a network whose inputs are blocks.
  Form outputs(const std::vector<EdgeBlock> &inputs, const Network &network) {
    const Form z = combined(inputs, network.weights.front());
    if (network.weights.size() == 1) return z;
    Form hidden;
    const int chain = chain_of(z);
    if (chain < 0 || !extend(chain, z.begin()->second, network, hidden)) hidden = hidden_layers(network, z);
    return {{hidden.begin()->first, network.weights.back()}};
  }

  // ---- steps
  void add(const EdgeScalars &s) {
    const int channels = network_.features[s.output][0].mul;
    Form form;
    if (has_tables_) {
      chains_.emplace_back();
      chains_.back().scalars = &s;
      Source source{channels};
      source.chain = static_cast<int>(chains_.size()) - 1;
      form = {{new_source(source), identity(channels)}};
    } else {
      const int size = s.basis.size(), basis = new_array(padded(size));
      p_.bases.push_back({s.basis, basis, new_array(padded(size))});
      LocalSlot slot;
      if (s.pair_weights.empty()) {
        const Form of_basis = form_of_slot(whole(basis), size);
        slot = compute({{of_basis.begin()->first, with_columns(s.weights, padded_columns(0, channels))}});
      } else {
        slot = whole(new_array(padded(channels)));
        std::vector<double> matrices;
        for (const auto &of_receiver : s.pair_weights)
          for (const Matrix &m : of_receiver) {
            const Matrix wide = with_columns(m, padded_columns(0, channels));
            matrices.insert(matrices.end(), wide.data.begin(), wide.data.end());
          }
        p_.steps.push_back(LocalPairStep{basis, slot.array, new_numbers(matrices), size});
      }
      if (s.has_rows()) {
        std::vector<double> of_receiver, of_sender;
        for (int i = 0; i < p_.num_species; i++)
          for (int c = 0; c < slot.width; c++) {
            of_receiver.push_back(c < s.receiver.cols ? s.receiver(i, c) : 1.0);
            of_sender.push_back(c < s.receiver.cols || c >= channels ? 1.0 : s.sender(i, c - s.receiver.cols));
          }
        p_.steps.push_back(LocalFactorsStep{slot.array, new_numbers(of_receiver), new_numbers(of_sender)});
      }
      form = form_of_slot(slot, channels);
    }
    set_form(s.output, 0, std::move(form));
  }

  void add(const EdgeDense &d) {
    const Form all = outputs(d.inputs, d.network);
    int column = 0;
    for (int b = 0; b < network_.features[d.output].size(); b++) {
      const int channels = network_.features[d.output][b].mul;
      std::vector<int> of(channels);
      for (int c = 0; c < channels; c++) of[c] = column + c;
      const Readers &readers = readers_[d.output][b];
      if (readers.dense_width > 0 || readers.num_tensors > 0) set_form(d.output, b, chosen_columns(all, of));
      column += channels;
    }
  }

  // The blocks of tensors of a feature.
  LocalBlockList blocks_of(int feature) {
    const Irreps &irreps = network_.features[feature];
    std::vector<int> degree, component;
    for (int b = 0; b < irreps.size(); b++) {
      const int l = irreps[b].irrep.l;
      degree.push_back(l);
      for (int m = 0; m < 2 * l + 1; m++) component.insert(component.end(), {b, l * l + m});
    }
    return {irreps.size(), static_cast<int>(component.size() / 2), padded(irreps[0].mul), new_list(degree),
            new_list(component)};
  }
  int new_tensors(int feature, bool is_of_receivers) {
    const Irreps &irreps = network_.features[feature];
    return new_array(irreps.dim() / irreps[0].mul * padded(irreps[0].mul), is_of_receivers);
  }
  // The 0e blocks of tensors, as other steps read them.
  void set_scalar_blocks(int feature) {
    const Irreps &irreps = network_.features[feature];
    const int mul = irreps[0].mul, width = padded(mul);
    forms_[feature].resize(irreps.size());
    int component = 0;
    for (int b = 0; b < irreps.size(); b++) {
      if (irreps[b].irrep == Irrep{0, 1})
        forms_[feature][b] = form_of_slot({holds_[feature], component * width, width}, mul);
      component += irreps[b].irrep.dim();
    }
  }

  void add(const EdgeTensor &t) {
    const Irreps &irreps = network_.features[t.output];
    const int mul = irreps[0].mul;
    // The factors of each block, padded.
    std::vector<int> of;
    for (int b = 0; b < irreps.size(); b++) {
      const std::vector<int> of_block = padded_columns(t.is_shared ? 0 : b * mul, mul);
      of.insert(of.end(), of_block.begin(), of_block.end());
    }
    const LocalSlot w = compute(chosen_columns(forms_[t.input.feature][t.input.block], of));
    if (is_only_summed(t.output)) {
      factors_[t.output] = w;
      return;
    }
    holds_[t.output] = new_tensors(t.output, false);
    set_scalar_blocks(t.output);
    p_.steps.push_back(LocalTensorStep{w, holds_[t.output], blocks_of(t.output)});
  }

  void add(const EdgeSum &s) {
    const int sums = holds_[s.output] = new_tensors(s.output, true), scale = new_numbers(s.scale);
    const LocalBlockList blocks = blocks_of(s.output);
    if (const auto &w = factors_[s.input])
      p_.steps.push_back(LocalEnvironmentStep{*w, sums, scale, blocks});
    else
      p_.steps.push_back(LocalSumStep{holds_[s.input], sums, scale, blocks});
  }

  // Terms by the number of the result, in lists.
  struct Term {
    int result, first, second;
    double factor;
  };
  LocalTermList new_terms(int num_results, std::vector<Term> terms, bool has_factors) {
    std::stable_sort(terms.begin(), terms.end(), [](const Term &a, const Term &b) { return a.result < b.result; });
    std::vector<int> begin(num_results + 1, 0), entries;
    std::vector<double> factors;
    for (const Term &t : terms) {
      begin[t.result + 1]++;
      entries.insert(entries.end(), {t.first, t.second});
      factors.push_back(t.factor);
    }
    for (int k = 0; k < num_results; k++) begin[k + 1] += begin[k];
    return {new_list(begin), new_list(entries), has_factors ? new_numbers(factors) : -1};
  }
  static std::vector<int> first_components(const Irreps &irreps) {
    std::vector<int> first;
    int components = 0;
    for (const IrrepBlock &b : irreps) {
      first.push_back(components);
      components += b.irrep.dim();
    }
    first.push_back(components);
    return first;
  }

  void add(const EdgeProduct &product) {
    const Irreps &in = network_.features[product.input], &environment = network_.features[product.environment],
                 &out = network_.features[product.output];
    const std::vector<int> of_in = first_components(in), of_environment = first_components(environment),
                           of_out = first_components(out);
    LocalProductStep step{};
    step.x = holds_[product.input];
    step.environment = holds_[product.environment];
    step.out = holds_[product.output] = new_tensors(product.output, false);
    step.num_in = of_in.back();
    step.num_environment = of_environment.back();
    step.num_out = of_out.back();
    step.channels = padded(out[0].mul);

    // The cells of M in the order of the components of the output.
    std::map<std::pair<int, int>, int> cells;    // by components of output and input
    struct Entry {
      int path, a, b, c;
      double value;
    };
    std::vector<Entry> entries;
    std::vector<double> weights;
    for (size_t q = 0; q < product.paths.size(); q++) {
      const EdgeProductPath &path = product.paths[q];
      std::vector<double> of_path = path.weights;
      of_path.resize(step.channels, 0.0);
      weights.insert(weights.end(), of_path.begin(), of_path.end());
      for (const CouplingEntry &e :
           coupling_entries(in[path.input].irrep.l, environment[path.environment].irrep.l, out[path.output].irrep.l)) {
        entries.push_back({static_cast<int>(q), of_in[path.input] + e.m1, of_environment[path.environment] + e.m2,
                           of_out[path.output] + e.m3, e.value});
        cells[{entries.back().c, entries.back().a}] = 0;
      }
    }
    std::vector<Term> of_m, of_environment_adj, forward, backward;
    for (auto &[place, number] : cells) {
      number = static_cast<int>(forward.size());
      forward.push_back({place.first, place.second, number, 1.0});
      backward.push_back({place.second, place.first, number, 1.0});
    }
    for (const Entry &e : entries) {
      const int cell = cells[{e.c, e.a}];
      of_m.push_back({cell, e.path, e.b, e.value});
      of_environment_adj.push_back({e.b, e.path, cell, e.value});
    }
    step.num_cells = static_cast<int>(cells.size());
    step.weights = new_numbers(weights);
    step.of_m = new_terms(step.num_cells, of_m, true);
    step.of_environment = new_terms(step.num_environment, of_environment_adj, true);
    step.of_out = new_terms(step.num_out, forward, false);
    step.of_in = new_terms(step.num_in, backward, false);
    step.m = new_array(step.num_cells * step.channels, true);
    step.m_adj = new_array(step.num_cells * step.channels, true);
    set_scalar_blocks(product.output);
    p_.steps.push_back(step);
  }

  void add(const EdgeReadout &r) {
    const int scale = static_cast<int>(p_.energy_scales.size());
    for (int s = 0; s < p_.num_species; s++) p_.energy_scales.push_back(r.scale[s] * scale_[s]);
    for (const auto &[number, m] : outputs(r.inputs, r.network)) {
      const Source source = sources_[number];
      // A table has the sum itself in its first column.
      const LocalSlot slot =
          source.chain < 0 ? source.slot : new_columns(source.chain, with_columns(m, padded_columns(0, 1)));
      std::vector<double> weights = source.chain < 0 ? m.data : std::vector<double>{1.0};
      weights.resize(slot.width, 0.0);
      p_.steps.push_back(LocalReadoutStep{slot, new_array(CHANNEL_PAD), new_numbers(weights), scale});
    }
  }

  void add_tables(const Chain &chain) {
    if (chain.array < 0) return;
    Matrix last = zeros(chain.columns.front().rows, p_.arrays[chain.array].width);
    int column = 0;
    for (const Matrix &m : chain.columns) {
      for (int i = 0; i < m.rows; i++)
        for (int j = 0; j < m.cols; j++) at(last, i, column + j) = m(i, j);
      column += m.cols;
    }
    LocalTables tables;
    tables.values = chain.array;
    tables.slopes = chain.slopes;
    const int num = depends_on_pair(*chain.scalars) ? p_.num_species : 1;
    for (int i = 0; i < num; i++)
      for (int j = 0; j < num; j++) {
        RadialFunction f;
        f.basis = chain.scalars->basis.for_pair(i, j);
        f.network.activation = chain.activation;
        f.network.activation_scale = chain.activation_scale;
        f.network.weights = chain.weights;
        f.network.weights.push_back(last);
        Matrix &first = f.network.weights.front();
        const Matrix of_pair = chain.scalars->weights_of(i, j);
        Matrix product = zeros(of_pair.rows, first.cols);
        add_product(of_pair, first, product);
        first = std::move(product);
        tables.functions.push_back(std::move(f));
      }
    p_.tables.push_back(std::move(tables));
  }

  // ---- the backward pass
  // Values that it needs stay: a product needs its input. If another reader writes the adjoint of this input before,
  // or several products read it, the adjoint has an array of its own. All other readers are linear.
  void separate_adjoints() {
    std::vector<int> num_products(p_.arrays.size(), 0), last_reader(p_.arrays.size(), -1),
        product(p_.arrays.size(), -1);
    for (size_t k = 0; k < p_.steps.size(); k++) {
      const int number = static_cast<int>(k);
      if (const auto *dense = std::get_if<LocalDenseStep>(&p_.steps[k])) last_reader[dense->in.array] = number;
      if (const auto *sum = std::get_if<LocalSumStep>(&p_.steps[k])) last_reader[sum->x] = number;
      if (const auto *readout = std::get_if<LocalReadoutStep>(&p_.steps[k])) last_reader[readout->h.array] = number;
      if (const auto *step = std::get_if<LocalProductStep>(&p_.steps[k])) {
        num_products[step->x]++;
        last_reader[step->x] = product[step->x] = number;
      }
    }
    const int num_arrays = static_cast<int>(p_.arrays.size());
    for (int a = 0; a < num_arrays; a++)
      if (num_products[a] > 1 || (num_products[a] == 1 && last_reader[a] != product[a])) {
        const int adjoint = new_array(p_.arrays[a].width);
        p_.arrays[a].adjoint = adjoint;
      }
  }

  // The first step of the backward order that writes an adjoint overwrites it; others add. A slot of a table is
  // written by itself. In other arrays, a step that writes only a part of the adjoint first sets all of it to 0.
  void order_adjoints() {
    separate_adjoints();
    std::set<std::pair<int, int>> written;    // by array and first number
    std::set<int> tables;
    for (const Chain &chain : chains_) tables.insert(chain.array);
    const auto add_to = [&](int array, int first = 0) { return !written.emplace(array, first).second; };
    const auto write_slot = [&](const LocalSlot &slot, bool &add, bool &clears) {
      const bool is_table = tables.count(slot.array) > 0,
                 is_part = !is_table && slot.width < p_.arrays[slot.array].width;
      const bool was_written = add_to(slot.array, is_table ? slot.first : 0);
      add = was_written || is_part;
      clears = is_part && !was_written;
    };
    for (auto step = p_.steps.rbegin(); step != p_.steps.rend(); ++step) {
      if (auto *dense = std::get_if<LocalDenseStep>(&*step)) write_slot(dense->in, dense->add_adj, dense->clears_adj);
      if (auto *readout = std::get_if<LocalReadoutStep>(&*step))
        write_slot(readout->h, readout->add_adj, readout->clears_adj);
      if (auto *sum = std::get_if<LocalSumStep>(&*step)) sum->add_adj = add_to(sum->x);
      if (auto *product = std::get_if<LocalProductStep>(&*step)) {
        product->add_x_adj = add_to(product->x);
        product->add_environment_adj = add_to(product->environment);
      }
    }
  }

  LocalProgram &p_;
  const LocalNetwork &network_;
  const std::vector<double> &scale_;
  bool has_tables_;
  std::vector<bool> is_needed_;    // by step
  std::vector<Source> sources_;
  std::vector<Chain> chains_;
  // By feature: the forms and the readers of its blocks; the array with its tensors; factors of tensors that are only
  // summed.
  std::vector<std::vector<Form>> forms_;
  std::vector<std::vector<Readers>> readers_;
  std::vector<int> holds_;
  std::vector<std::optional<LocalSlot>> factors_;
};

}    // namespace

LocalProgram::LocalProgram(const LocalNetwork &network, int num_species, const std::vector<double> &scale,
                           const EvaluatorOptions &options)
    : num_species(num_species) {
  Compiler(*this, network, scale, !options.radial_exact).compile();
}

}    // namespace equi
