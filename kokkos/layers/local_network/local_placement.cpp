// SPDX-License-Identifier: MIT
// Finds the places of a local program's arrays in the memory of a block of threads.
#include "kokkos/layers/local_network/local_placement.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>
#include <variant>

namespace equi {

namespace {

// The time from the first to the last use of an array in one pass or in both, and its place.
struct Piece {
  int array;
  bool is_of[2];    // passes: forward, backward
  int first, last;
  double uses;        // numbers read or written
  int64_t at = -1;    // -1: nowhere
};

// Collects the uses of arrays in the order of time.
class Uses {
 public:
  explicit Uses(const LocalProgram &program) : p_(program), pieces_(program.arrays.size()) {
    for (const LocalTables &t : p_.tables) write(t.values), write(t.slopes);
    for (const LocalBasis &b : p_.bases) write(b.values), write(b.slopes);
    for (const LocalStep &step : p_.steps) {
      time_++;
      std::visit([&](const auto &s) { forward(s); }, step);
    }
    pass_ = 1;
    for (auto step = p_.steps.rbegin(); step != p_.steps.rend(); ++step) {
      time_++;
      std::visit([&](const auto &s) { backward(s); }, *step);
    }
    time_++;
    for (const LocalTables &t : p_.tables) read(adjoint(t.values)), read(t.slopes);
    for (const LocalBasis &b : p_.bases) read(adjoint(b.values)), read(b.slopes);
  }
  std::vector<Piece> pieces(bool is_of_receivers) const {
    std::vector<Piece> all;
    for (size_t a = 0; a < pieces_.size(); a++)
      if (bool(p_.arrays[a].is_of_receivers) == is_of_receivers)
        for (const Piece &piece : pieces_[a]) all.push_back(piece);
    return all;
  }

 private:
  int adjoint(int array) const { return p_.arrays[array].adjoint; }
  int width(int array) const { return p_.arrays[array].width; }

  // A use of so many numbers. overwrites: nothing that was there before is read.
  void use(int array, double numbers, bool overwrites) {
    std::vector<Piece> &pieces = pieces_[array];
    if (pieces.empty() || (overwrites && !pieces.back().is_of[pass_]))
      pieces.push_back({array, {false, false}, time_, time_, 0.0});
    Piece &piece = pieces.back();
    piece.is_of[pass_] = true;
    piece.last = time_;
    piece.uses += numbers;
  }
  void read(int array) { use(array, width(array), false); }
  void read(const LocalSlot &s) { use(s.array, s.width, false); }
  void write(int array) { use(array, width(array), true); }
  void write(const LocalSlot &s) { use(s.array, s.width, s.width == width(s.array)); }
  template <class Place>
  void write(const Place &place, bool add) {
    if (add)
      read(place), read(place);
    else
      write(place);
  }
  void clear(int array, bool clears) {
    if (clears) write(array);
  }
  LocalSlot adjoint(const LocalSlot &s) const { return {adjoint(s.array), s.first, s.width}; }

  void forward(const LocalDenseStep &s) { read(s.in), write(s.out, s.add); }
  void backward(const LocalDenseStep &s) {
    clear(adjoint(s.in.array), s.clears_adj);
    read(adjoint(s.out)), write(adjoint(s.in), s.add_adj);
  }
  void forward(const LocalActivationStep &s) { read(s.z), read(s.z), write(s.h); }
  void backward(const LocalActivationStep &s) { read(s.z), read(s.z), read(adjoint(s.h)); }
  void forward(const LocalFactorsStep &s) { read(s.array), read(s.array); }
  void backward(const LocalFactorsStep &s) { forward(s); }
  void forward(const LocalPairStep &s) { read(s.in), write(s.out); }
  void backward(const LocalPairStep &s) { read(s.out), use(s.in, s.num_in, false); }    // the padding stays
  void forward(const LocalTensorStep &s) { read(s.w), write(s.x); }
  void backward(const LocalTensorStep &s) { read(s.w), read(s.w), read(adjoint(s.x)); }
  void forward(const LocalEnvironmentStep &s) { read(s.w), write(s.sums); }
  void backward(const LocalEnvironmentStep &s) {
    read(adjoint(s.sums)), read(adjoint(s.sums)), read(adjoint(s.sums));
    read(s.w), read(s.w);
  }
  void forward(const LocalSumStep &s) { read(s.x), write(s.sums); }
  void backward(const LocalSumStep &s) {
    read(adjoint(s.sums)), read(adjoint(s.sums)), read(adjoint(s.sums));
    write(adjoint(s.x), s.add_adj);
  }
  void forward(const LocalProductStep &s) {
    read(s.environment), write(s.m);
    read(s.x), read(s.m), write(s.out);
  }
  void backward(const LocalProductStep &s) {
    read(s.x), read(adjoint(s.out)), write(s.m_adj);
    read(adjoint(s.out)), read(s.m), write(adjoint(s.x), s.add_x_adj);
    read(s.m_adj), write(adjoint(s.environment), s.add_environment_adj);
  }
  void forward(const LocalReadoutStep &s) { read(s.h), write(s.sums); }
  void backward(const LocalReadoutStep &s) {
    clear(adjoint(s.h.array), s.clears_adj);
    write(adjoint(s.h), s.add_adj);
  }

  const LocalProgram &p_;
  std::vector<std::vector<Piece>> pieces_;    // by array
  int time_ = 0, pass_ = 0;
};

// Gives pieces the lowest places at which they fit below the limit, those with the most uses of a number first.
// Returns the numbers needed.
int64_t place(const LocalProgram &program, std::vector<Piece> &pieces, int64_t limit) {
  std::vector<Piece *> order;
  for (Piece &piece : pieces) order.push_back(&piece);
  const auto uses = [&](const Piece *p) { return p->uses / program.arrays[p->array].width; };
  std::stable_sort(order.begin(), order.end(), [&](const Piece *a, const Piece *b) { return uses(a) > uses(b); });
  int64_t needed = 0;
  for (size_t k = 0; k < order.size(); k++) {
    Piece &piece = *order[k];
    std::vector<std::pair<int64_t, int64_t>> taken;    // by pieces at the same time
    for (size_t n = 0; n < k; n++) {
      const Piece &other = *order[n];
      if (other.at >= 0 && other.first <= piece.last && piece.first <= other.last)
        taken.emplace_back(other.at, other.at + program.arrays[other.array].width);
    }
    std::sort(taken.begin(), taken.end());
    const int64_t width = program.arrays[piece.array].width;
    int64_t at = 0;
    for (const auto &[begin, end] : taken) {
      if (at + width <= begin) break;
      at = std::max(at, end);
    }
    piece.at = at + width <= limit ? at : -1;
    if (piece.at >= 0) needed = std::max(needed, at + width);
  }
  return needed;
}

double uses_elsewhere(const std::vector<Piece> &pieces) {
  double uses = 0.0;
  for (const Piece &piece : pieces)
    if (piece.at < 0) uses += piece.uses;
  return uses;
}

void set_places(const std::vector<Piece> &pieces, int memory, LocalTile &tile) {
  for (const Piece &piece : pieces)
    for (int pass = 0; pass < 2; pass++)
      if (piece.is_of[pass] && piece.at >= 0) {
        LocalArray &array = (pass == 0 ? tile.forward : tile.backward)[piece.array];
        array.row = array.width;
        array.before = static_cast<int>(piece.at);
        array.memory = memory;
      }
}

}    // namespace

LocalPlacement::LocalPlacement(const LocalProgram &program, const LocalSizes &sizes, int64_t most, int64_t requested) {
  constexpr int64_t ALL = std::numeric_limits<int64_t>::max();
  const Uses uses(program);
  std::vector<Piece> of_edges = uses.pieces(false), of_receivers = uses.pieces(true);
  bytes_of_steps = sizes.planes * sizes.number * uses_elsewhere(of_edges);
  edge_width = place(program, of_edges, ALL);
  receiver_width = place(program, of_receivers, ALL);
  LocalTile in_batch{ALL, 0, 0, program.arrays, program.arrays};
  set_places(of_edges, 0, in_batch);
  set_places(of_receivers, 0, in_batch);

  // Receivers may have a quarter of the memory. With several receivers, they have at most an eighth of it.
  const int64_t number = sizes.planes * sizes.number;
  const int64_t constants = sizes.constants + 2 * static_cast<int64_t>(program.arrays.size() * sizeof(LocalArray));
  const int64_t rows = (requested < 0 ? most : std::min(most, requested)) - constants;
  if (rows > 0) {
    constexpr int64_t MOST_RECEIVERS = 8;
    most_receivers = static_cast<int>(
        std::clamp<int64_t>(rows / 8 / std::max<int64_t>(receiver_width * number, 1), 1, MOST_RECEIVERS));
    const int64_t receivers_width = place(program, of_receivers, rows / 4 / (number * most_receivers));
    const int64_t of_receivers_bytes = receivers_width * number * most_receivers;
    bytes = constants + std::min(rows, of_receivers_bytes + USUAL_EDGES * (sizes.of_edge() + edge_width * number));
    for (const int64_t most_edges : {16, 32, 48, 64, 80, 96, 128, 192, 256, 384}) {
      const int64_t of_edge = (bytes - constants - of_receivers_bytes) / most_edges - sizes.of_edge();
      const int64_t width = of_edge > 0 ? place(program, of_edges, of_edge / number) : 0;
      if (width == 0) break;
      LocalTile tile = in_batch;
      tile.most_edges = most_edges;
      tile.edge_width = static_cast<int>(width);
      tile.receiver_width = static_cast<int>(receivers_width);
      if (uses_elsewhere(of_edges) == 0.0) tiles.clear();    // smaller ones are not needed
      set_places(of_edges, 1, tile);
      set_places(of_receivers, 1, tile);
      tiles.push_back(std::move(tile));
    }
  }
  // What blocks of the usual size have elsewhere.
  double numbers = 0.0;
  for (const Matrix &m : program.matrices) numbers += 2.0 * sizes.number * static_cast<double>(m.data.size());
  bytes_of_blocks = numbers / USUAL_EDGES;
  const auto usual =
      std::find_if(tiles.begin(), tiles.end(), [](const LocalTile &tile) { return tile.most_edges >= USUAL_EDGES; });
  if (usual == tiles.end()) {
    bytes_of_blocks += bytes_of_steps;
  } else {
    place(program, of_edges, usual->edge_width);
    bytes_of_blocks += static_cast<double>(number) *
                       (uses_elsewhere(of_edges) + uses_elsewhere(of_receivers) * most_receivers / USUAL_EDGES);
  }
  tiles.push_back(std::move(in_batch));
  is_used = tiles.size() > 1 && (requested > 0 || 2.0 * bytes_of_blocks < bytes_of_steps);
}

std::string LocalPlacement::describe() const {
  char text[200];
  const double steps = 1e-3 * bytes_of_steps, blocks = 1e-3 * bytes_of_blocks;
  if (is_used)
    std::snprintf(text, sizeof text, "all steps in blocks with %.0f kB, which move %.1f kB for an edge and not %.1f kB",
                  1e-3 * static_cast<double>(bytes), blocks, steps);
  else
    std::snprintf(text, sizeof text, "a launch for each step, which move %.1f kB for an edge", steps);
  return text;
}

}    // namespace equi
