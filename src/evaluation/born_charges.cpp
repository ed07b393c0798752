// SPDX-License-Identifier: MIT
// Computes Born effective charges from four evaluations of forces.
#include "src/evaluation/born_charges.h"

#include "src/base/owned_memory.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace equi {

namespace {

constexpr int NUM_SUMS = 12;    // numbers of an atom that return to its owner: Z and dQ/dr

}    // namespace

// Between the rows of an evaluation, of which each image has its own, and the rows of the host program's exchange.
class BornEvaluation::ImageExchange : public GhostExchange {
 public:
  // vectors: from the atoms to their images.
  ImageExchange(GhostExchange &folded, const BornEvaluation &born, std::vector<std::array<double, 3>> vectors)
      : folded_(folded),
        num_receivers_(born.folded_->num_receivers),
        num_rows_(born.folded_->num_rows),
        image_row_(born.image_row_),
        vectors_(std::move(vectors)) {}

  // What the next evaluation is. axis: -1 for weights 1, whose adjoints stay for the axes.
  void begin(int axis) {
    axis_ = axis;
    num_sums_ = num_reverse_ = 0;
    if (axis < 0) of_charge_.clear();
  }
  // The sums of the evaluation that ends here belong to its forward pass. mute: later evaluations get 0 for the sums
  // of their backward passes.
  void end_forward(bool mute) {
    num_forward_sums_ = num_sums_;
    is_muted_ = mute;
  }
  bool has_sums() const { return num_forward_sums_ > 0; }

  void forward(const FeaturePieces<double> &rows) override {
    fold(rows);
    for (std::size_t p = 0; p < rows.size(); ++p)
      std::copy_n(rows[p].data, static_cast<int64_t>(rows[p].width) * num_receivers_, folded_rows_[p].data);
    if (folded_.active()) folded_.forward(folded_rows_);
    for_images(rows,
               [](double *image, const double *atom, int width, int64_t, int64_t) { std::copy_n(atom, width, image); });
  }
  void reverse(const FeaturePieces<double> &rows) override {
    fold(rows);
    if (axis_ < 0) of_charge_.emplace_back(row_size(rows) * image_row_.size());
    // A model without charges has no adjoints of weights 1.
    double *of_charge = of_charge_.empty() ? nullptr : of_charge_.at(num_reverse_++).data();
    for_images(rows, [&](double *image, double *atom, int width, int64_t k, int64_t offset) {
      for (int c = 0; c < width; ++c) {
        if (axis_ < 0)
          of_charge[offset + c] = image[c];
        else if (of_charge)
          image[c] -= vectors_[k][axis_] * of_charge[offset + c];
        atom[c] += image[c];
        image[c] = 0.0;
      }
    });
    if (folded_.active()) folded_.reverse(folded_rows_);
    for (std::size_t p = 0; p < rows.size(); ++p)
      for (int64_t c = 0; c < static_cast<int64_t>(rows[p].width) * num_receivers_; ++c)
        rows[p].data[c] += folded_rows_[p].data[c];
  }
  void forward(const FeaturePieces<float> &) override { refuse(); }
  void reverse(const FeaturePieces<float> &) override { refuse(); }
  void sum(double *numbers, int count) override {
    const bool is_forward = num_sums_++ < num_forward_sums_ || num_forward_sums_ < 0;
    folded_.sum(numbers, count);
    if (!is_forward && is_muted_) std::fill_n(numbers, count, 0.0);
  }
  std::size_t gather(const double *numbers, std::size_t count, std::vector<double> &all) override {
    return folded_.gather(numbers, count, all);
  }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("Born charges need an evaluation in float64"); }
  static std::size_t row_size(const FeaturePieces<double> &rows) {
    std::size_t size = 0;
    for (const FeaturePiece<double> &piece : rows) size += piece.width;
    return size;
  }
  // Zeroes rows for the folded exchange.
  void fold(const FeaturePieces<double> &rows) {
    numbers_.assign(row_size(rows) * num_rows_ + 1, 0.0);
    folded_rows_.clear();
    double *to = numbers_.data();
    for (const FeaturePiece<double> &piece : rows) {
      folded_rows_.push_back({to, piece.width});
      to += static_cast<int64_t>(piece.width) * num_rows_;
    }
  }
  // Calls f(row of the image, row of its atom, width, image, offset) for each image and piece.
  template <class F>
  void for_images(const FeaturePieces<double> &rows, const F &f) {
    int64_t offset = 0;
    for (std::size_t p = 0; p < rows.size(); ++p) {
      const int64_t width = rows[p].width;
      for (std::size_t k = 0; k < image_row_.size(); ++k, offset += width)
        f(rows[p].data + width * static_cast<int64_t>(num_receivers_ + k), folded_rows_[p].data + width * image_row_[k],
          static_cast<int>(width), static_cast<int64_t>(k), offset);
    }
  }

  GhostExchange &folded_;
  int num_receivers_, num_rows_;
  const std::vector<int> &image_row_;
  std::vector<std::array<double, 3>> vectors_;
  int axis_ = -1, num_sums_ = 0, num_forward_sums_ = -1;
  std::size_t num_reverse_ = 0;
  bool is_muted_ = false;
  std::vector<std::vector<double>> of_charge_;    // by call of reverse(), of weights 1: rows of images, piece by piece
  std::vector<double> numbers_;
  FeaturePieces<double> folded_rows_;
};

BornEvaluation::BornEvaluation(std::unique_ptr<Evaluator> evaluator, const Model &model)
    : evaluator_(std::move(evaluator)),
      has_potentials_(sums_over_waves(model.layers)),
      num_numbers_(model.num_observable_numbers()),
      charge_(model.observable_offset("charge")),
      dipole_(model.observable_offset("dipole")) {}

std::size_t BornEvaluation::exchange_bytes_per_row() const {
  return std::max(evaluator_->exchange_bytes_per_row(), NUM_SUMS * sizeof(double));
}

std::size_t BornEvaluation::memory_bytes() const {
  return evaluator_->memory_bytes() + bytes_of(image_row_, unfolded_);
}

void BornEvaluation::set_neighborhood(const Neighborhood &n) {
  folded_ = &n;
  unfolded_ = n;
  unfolded_.num_interior = 0;
  unfolded_.row_species.resize(n.num_receivers);
  image_row_.clear();
  std::vector<int> row_of_atom(n.num_atoms, -1);
  for (int i = 0; i < n.num_receivers; ++i) row_of_atom[n.receiver[i]] = i;
  for (std::size_t c = 0; c < n.sender_atom.size(); ++c) {
    int &row = row_of_atom[n.sender_atom[c]];
    if (row < 0) {
      row = n.num_receivers + static_cast<int>(image_row_.size());
      image_row_.push_back(n.sender_row[c]);
      unfolded_.row_species.push_back(n.row_species[n.sender_row[c]]);
    }
    unfolded_.sender_row[c] = row;
  }
  unfolded_.num_rows = static_cast<int>(unfolded_.row_species.size());
  evaluator_->set_neighborhood(unfolded_);
}

BornEvaluation::Center BornEvaluation::center(const double (*positions)[3], GhostExchange &exchange) const {
  double sums[4] = {};
  for (const int i : folded_->receiver) {
    for (int a = 0; a < 3; ++a) sums[a] += positions[i][a];
    sums[3] += 1.0;
  }
  exchange.sum(sums, 4);
  Center found{{}, sums[3]};
  for (int a = 0; a < 3 && sums[3] > 0.0; ++a) found.position[a] = sums[a] / sums[3];
  return found;
}

std::vector<std::array<double, 3>> BornEvaluation::image_vectors(const double (*positions)[3],
                                                                 GhostExchange &exchange) const {
  std::vector<double> of_rows(3 * static_cast<std::size_t>(folded_->num_rows) + 1, 0.0);
  for (int i = 0; i < folded_->num_receivers; ++i)
    std::copy_n(positions[folded_->receiver[i]], 3, of_rows.data() + 3 * static_cast<std::size_t>(i));
  if (exchange.active()) exchange.forward(FeaturePieces<double>{{of_rows.data(), 3}});
  std::vector<std::array<double, 3>> vectors(image_row_.size());
  for (std::size_t c = 0; c < unfolded_.sender_atom.size(); ++c) {
    const int k = unfolded_.sender_row[c] - folded_->num_receivers;
    for (int a = 0; k >= 0 && a < 3; ++a)
      vectors[k][a] = positions[unfolded_.sender_atom[c]][a] - of_rows[3 * static_cast<std::size_t>(image_row_[k]) + a];
  }
  return vectors;
}

BornEvaluation::Forces BornEvaluation::forces(int axis, const double (*positions)[3], const Center &center,
                                              ImageExchange &exchange) {
  Forces found(static_cast<std::size_t>(folded_->num_atoms) + 1);
  std::vector<double> weights(static_cast<std::size_t>(num_numbers_) * folded_->num_atoms + 1, 0.0);
  for (const int i : folded_->receiver) {
    double *of_atom = weights.data() + static_cast<std::size_t>(num_numbers_) * i;
    if (charge_ >= 0) of_atom[charge_] = axis < 0 ? 1.0 : positions[i][axis] - center.position[axis];
    if (dipole_ >= 0 && axis >= 0) of_atom[dipole_ + axis] = 1.0;
  }
  EvaluationRequest request;
  request.positions = positions;
  request.observable_weights = weights.data();
  request.forces = reinterpret_cast<double(*)[3]>(found.data());
  exchange.begin(axis);
  evaluator_->evaluate(request, exchange);
  return found;
}

// Forces have the opposite sign of derivatives.
BornCharges BornEvaluation::sum_at_owners(const Forces &of_charge, const std::array<Forces, 3> &of_axes,
                                          const double (*positions)[3], const Center &center,
                                          GhostExchange &exchange) const {
  std::vector<double> rows(NUM_SUMS * static_cast<std::size_t>(folded_->num_rows) + 1, 0.0);
  std::vector<char> is_done(folded_->num_atoms, false);
  const auto add = [&](int atom, int row) {
    if (std::exchange(is_done[atom], true)) return;
    double *to = rows.data() + NUM_SUMS * static_cast<std::size_t>(row);
    for (int b = 0; b < 3; ++b) {
      for (int a = 0; a < 3; ++a)
        to[3 * a + b] += (positions[atom][a] - center.position[a]) * of_charge[atom][b] - of_axes[a][atom][b];
      to[9 + b] -= of_charge[atom][b];
    }
  };
  for (int i = 0; i < folded_->num_receivers; ++i) add(folded_->receiver[i], i);
  for (std::size_t c = 0; c < folded_->sender_atom.size(); ++c) add(folded_->sender_atom[c], folded_->sender_row[c]);
  if (exchange.active()) exchange.reverse(FeaturePieces<double>{{rows.data(), NUM_SUMS}});
  BornCharges found;
  found.born.resize(folded_->num_receivers);
  found.charge_derivative.resize(folded_->num_receivers);
  for (int i = 0; i < folded_->num_receivers; ++i) {
    const double *row = rows.data() + NUM_SUMS * static_cast<std::size_t>(i);
    std::copy_n(row, 9, found.born[i].begin());
    std::copy_n(row + 9, 3, found.charge_derivative[i].begin());
  }
  return found;
}

BornCharges BornEvaluation::evaluate(const double (*positions)[3], const std::array<bool, 3> &periodic, bool neutral,
                                     GhostExchange &exchange) {
  const auto num_periodic = std::count(periodic.begin(), periodic.end(), true);
  if (has_potentials_ && num_periodic > 0)
    throw std::invalid_argument(
        "Born charges of charges that change in each other's potentials need a system without periodic directions: in "
        "a periodic one they depend on the field of all images");
  const Center middle = center(positions, exchange);
  ImageExchange images(exchange, *this, image_vectors(positions, exchange));
  std::vector<double> numbers(static_cast<std::size_t>(num_numbers_) * folded_->num_atoms + 1, 0.0);
  EvaluationRequest of_numbers;
  of_numbers.positions = positions;
  of_numbers.observables = numbers.data();
  images.begin(-1);
  evaluator_->evaluate(of_numbers, images);
  images.end_forward(num_periodic > 0);
  if ((neutral || images.has_sums()) && num_periodic % 3 != 0)
    throw std::invalid_argument(
        "Born charges of charges that are balanced over all atoms need a box that is periodic in three directions, or "
        "in none");

  Forces of_charge(static_cast<std::size_t>(folded_->num_atoms) + 1);
  if (charge_ >= 0) of_charge = forces(-1, positions, middle, images);
  std::array<Forces, 3> of_axes;
  for (int axis = 0; axis < 3; ++axis) of_axes[axis] = forces(axis, positions, middle, images);
  BornCharges found = sum_at_owners(of_charge, of_axes, positions, middle, exchange);

  double total = 0.0;
  found.charge.resize(folded_->num_receivers);
  for (int i = 0; i < folded_->num_receivers; ++i) {
    const double *of_atom = numbers.data() + static_cast<std::size_t>(num_numbers_) * folded_->receiver[i];
    found.charge[i] = charge_ < 0 ? 0.0 : of_atom[charge_];
    total += found.charge[i];
  }
  exchange.sum(&total, 1);
  // The balance: dQ/dr is not that of the remaining charges, which is 0, but states how much was removed.
  const double excess = neutral && middle.count > 0.0 ? total / middle.count : 0.0;
  for (int i = 0; i < folded_->num_receivers; ++i) {
    found.charge[i] -= excess;
    for (int a = 0; a < 3; ++a) {
      found.born[i][4 * a] += found.charge[i];
      const double distance = middle.position[a] - positions[folded_->receiver[i]][a];
      for (int b = 0; neutral && num_periodic == 0 && b < 3; ++b)
        found.born[i][3 * a + b] -= distance * found.charge_derivative[i][b];
    }
  }
  if (num_periodic == 0 || !(neutral || images.has_sums())) return found;
  std::array<double, 9> mean{};
  for (const std::array<double, 9> &z : found.born)
    for (int k = 0; k < 9; ++k) mean[k] += z[k];
  exchange.sum(mean.data(), 9);
  for (int k = 0; k < 9; ++k) mean[k] = (mean[k] - (neutral || k % 4 != 0 ? 0.0 : total)) / middle.count;
  for (std::array<double, 9> &z : found.born)
    for (int k = 0; k < 9; ++k) z[k] -= mean[k];
  return found;
}

}    // namespace equi
