// SPDX-License-Identifier: MIT
// The kernel that runs a local program in blocks of threads.
#include "kokkos/layers/local_network/device_local_blocks.h"

#include "kokkos/layers/local_network/device_local_lanes.h"
#include "kokkos/runtime/device_blocks.h"
#include "src/numbers/number_types.h"

#include <new>
#include <vector>

namespace equi {

namespace {

constexpr int64_t ALIGNMENT = 16;
KOKKOS_INLINE_FUNCTION int64_t aligned(int64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// The threads of a block. With 512 a thread has at most 128 registers; more than 4 bytes need twice as many.
template <class T>
constexpr int THREADS = DeviceTraits<>::ON_HOST ? 1
                        : sizeof(T) > 4         ? 256
                                                : 512;

// ---- dense products
// Four adjacent numbers, aligned to 16 bytes.
template <class R>
struct alignas(16) Numbers4 {
  R v[4];
};
template <class R>
KOKKOS_FORCEINLINE_FUNCTION Numbers4<R> load4(const R *p) {
  Numbers4<R> numbers;
  std::memcpy(&numbers, __builtin_assume_aligned(p, ALIGNMENT), sizeof(numbers));
  return numbers;
}

// Computes ROWS rows of c (+)= a b from row `first` on, and PARTS columns for each lane, LANES apart, from `column` on.
// Rows and columns behind the last ones are computed from others, and not stored. b is [depth][columns].
template <int ROWS, int PARTS, class R>
KOKKOS_FORCEINLINE_FUNCTION void multiply_part(int64_t first, int64_t rows, int column, int columns, int depth,
                                               const R *a, int64_t a_row, const R *b, R *c, int64_t c_row, bool add) {
  constexpr int LANES = DeviceTraits<>::LANES;
  R sum[ROWS][PARTS];
  const R *a_rows[ROWS], *b_columns[PARTS];
  EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
    a_rows[r] = a + (first + r < rows ? first + r : rows - 1) * a_row;
    EQUI_UNROLL for (int p = 0; p < PARTS; p++) sum[r][p] = R(0);
  }
  EQUI_UNROLL for (int p = 0; p < PARTS; p++) b_columns[p] =
      b + (column + p * LANES < columns ? column + p * LANES : columns - 1);
  for (int k = 0; k < depth; k += 4) {
    R of_b[4][PARTS];
    EQUI_UNROLL for (int n = 0; n < 4; n++) EQUI_UNROLL for (int p = 0; p < PARTS; p++) of_b[n][p] =
        b_columns[p][int64_t(k + n) * columns];
    EQUI_UNROLL for (int r = 0; r < ROWS; r++) {
      const Numbers4<R> of_a = load4(a_rows[r] + k);
      EQUI_UNROLL for (int n = 0; n < 4; n++) EQUI_UNROLL for (int p = 0; p < PARTS; p++) sum[r][p] +=
          of_a.v[n] * of_b[n][p];
    }
  }
  EQUI_UNROLL for (int r = 0; r < ROWS; r++)
      EQUI_UNROLL for (int p = 0; p < PARTS; p++) if (first + r < rows && column + p * LANES < columns) {
    R *const to = c + (first + r) * c_row + column + p * LANES;
    *to = add ? *to + sum[r][p] : sum[r][p];
  }
}

// ---- steps
// LocalSteps's Work: the threads of a block share each call, and wait for its end.
template <class T, class Team>
struct BlockWork {
  using R = Real<T>;
  const Team &team;
  const typename DeviceLocalBlocks<T>::Dense *dense;
  const R *matrices;

  template <class Kernel>
  KOKKOS_FUNCTION void run(const char *, int64_t count, const Kernel &kernel) const {
    for (int64_t r = group(); r < count; r += num_groups()) kernel.row(DeviceLanes{lane()}, r);
    team.team_barrier();
  }
  template <class F>
  KOKKOS_FUNCTION void for_numbers(const char *, int64_t count, const F &f) const {
    for (int64_t n = team.team_rank(); n < count; n += team.team_size()) f(n);
    team.team_barrier();
  }
  KOKKOS_FUNCTION void multiply(int64_t rows, int number, bool is_transposed, LocalRows<T> from, LocalRows<T> to,
                                bool add) const {
    constexpr int ROWS = 4, LANES = DeviceTraits<>::LANES, COLUMNS = 2 * LANES;
    const auto &m = dense[number];
    const R *const b = matrices + (is_transposed ? m.transposed : m.first);
    const int depth = is_transposed ? m.cols : m.rows, columns = is_transposed ? m.rows : m.cols;
    const int parts = (columns + COLUMNS - 1) / COLUMNS;
    for (int64_t k = group(); k < (rows + ROWS - 1) / ROWS * parts; k += num_groups()) {
      const int64_t first = k / parts * ROWS;
      const int part = static_cast<int>(k % parts) * COLUMNS, column = part + lane();
      if (columns - part > LANES)
        multiply_part<ROWS, 2>(first, rows, column, columns, depth, from.data, from.row, b, to.data, to.row, add);
      else
        multiply_part<ROWS, 1>(first, rows, column, columns, depth, from.data, from.row, b, to.data, to.row, add);
    }
    team.team_barrier();
  }
  KOKKOS_FUNCTION void clear(int64_t size, R *numbers) const {
    for (int64_t k = team.team_rank(); k < size; k += team.team_size()) numbers[k] = R(0);
    team.team_barrier();
  }

 private:
  KOKKOS_FUNCTION int lane() const { return team.team_rank() % DeviceTraits<>::LANES; }
  KOKKOS_FUNCTION int group() const { return team.team_rank() / DeviceTraits<>::LANES; }
  KOKKOS_FUNCTION int num_groups() const { return team.team_size() / DeviceTraits<>::LANES; }
};

// A pass through a step of any kind.
template <bool IS_FORWARD, class Steps>
struct PassOfStep {
  const Steps &steps;
  template <class Step>
  KOKKOS_FUNCTION void operator()(const Step &s) const {
    if constexpr (IS_FORWARD)
      steps.forward(s);
    else
      steps.backward(s);
  }
};

// Copies an array, word by word, by all threads.
template <class N, class Team>
KOKKOS_FUNCTION const N *copied(const Team &team, const N *from, int count, char *to) {
  static_assert(sizeof(N) % sizeof(int) == 0, "it has words");
  const int *const words = reinterpret_cast<const int *>(from);
  int *const copies = reinterpret_cast<int *>(to);
  for (int k = team.team_rank(); k < count * static_cast<int>(sizeof(N) / sizeof(int)); k += team.team_size())
    copies[k] = words[k];
  return reinterpret_cast<const N *>(to);
}

template <class T>
struct LocalBlockKernel {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Blocks = DeviceLocalBlocks<T>;

  LocalConstants<R> constants;
  const DeviceLocalStep *steps;
  int num_steps, num_arrays;
  const LocalArray *arrays;
  const typename Blocks::Tile *tiles;
  const typename Blocks::Dense *dense;
  const R *matrices;
  // The batch, and its memory for rows in the order of all edges and receivers.
  LocalChunk<T> batch;
  int receivers_of_block;
  int64_t edge_width, receiver_width;
  R *numbers;
  int *indices;
  bool has_backward;

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team &team, char *memory) const {
    const int first = team.league_rank() * receivers_of_block;
    const int left = batch.edges.num_receivers - first, num = left < receivers_of_block ? left : receivers_of_block;
    const int64_t *const begin = batch.edges.begin + first;
    const int64_t count = begin[num] - begin[0];
    if (count == 0) return;
    const auto *tile = tiles;
    while (count > tile->most_edges) tile++;

    memory += aligned(reinterpret_cast<int64_t>(memory)) - reinterpret_cast<int64_t>(memory);
    const auto take = [&](int64_t bytes) {
      char *const taken = memory;
      memory += aligned(bytes);
      return taken;
    };
    auto *const chunks = reinterpret_cast<LocalChunk<T> *>(take(2 * sizeof(LocalChunk<T>)));
    const LocalArray *const places =
        copied(team, arrays + tile->first_array, 2 * num_arrays, take(2 * num_arrays * sizeof(LocalArray)));
    const DeviceLocalStep *const program = copied(team, steps, num_steps, take(num_steps * sizeof(DeviceLocalStep)));

    LocalChunk<T> chunk = batch;
    chunk.edges.num_receivers = num;
    chunk.edges.begin = begin;
    chunk.edges.first = begin[0];
    chunk.edges.species += first;
    chunk.count = chunk.rows = count;
    chunk.energy += first;
    const int64_t before = begin[0] - batch.edges.first, num_y = batch.harmonics.num_y;
    chunk.harmonics.y += before * batch.harmonics.y_row;
    chunk.harmonics.y_adj += before * num_y;
    const LocalHarmonics<T> of_batch = chunk.harmonics;
    chunk.of_edges[0] = numbers + PLANES<T> * edge_width * before;
    chunk.of_receivers[0] = numbers + PLANES<T> * (edge_width * batch.count + receiver_width * first);
    const bool is_in_block = tile->edge_width > 0;
    if (is_in_block) {
      D *const y_adj = reinterpret_cast<D *>(take(count * num_y * sizeof(D)));
      T *const y = reinterpret_cast<T *>(take(count * num_y * sizeof(T)));
      for (int64_t k = team.team_rank(); k < count * num_y; k += team.team_size()) {
        y[k] = of_batch.y[k / num_y * of_batch.y_row + k % num_y];
        if (has_backward) y_adj[k] = of_batch.y_adj[k];
      }
      chunk.harmonics = {y, num_y, y_adj, num_y};
      chunk.place = reinterpret_cast<R *>(take(3 * count * sizeof(R)));
      chunk.bin = reinterpret_cast<int *>(take(count * sizeof(int)));
      chunk.receiver = reinterpret_cast<int *>(take(count * sizeof(int)));
      chunk.of_receivers[1] = reinterpret_cast<R *>(take(PLANES<T> * num * tile->receiver_width * sizeof(R)));
      chunk.of_edges[1] = reinterpret_cast<R *>(take(PLANES<T> * count * tile->edge_width * sizeof(R)));
    } else {
      chunk.place =
          numbers + PLANES<T> * (edge_width * batch.count + receiver_width * batch.edges.num_receivers) + 3 * before;
      chunk.bin = indices + before;
      chunk.receiver = indices + batch.count + before;
    }
    chunk.edges.receiver = chunk.receiver;
    // Their many numbers would not fit into registers.
    for (int pass = 0; pass < 2; pass++)
      if (team.team_rank() == pass % team.team_size()) {
        chunk.arrays = places + pass * num_arrays;
        new (chunks + pass) LocalChunk<T>(chunk);
      }
    team.team_barrier();

    using Steps = LocalSteps<T, BlockWork<T, Team>>;
    const BlockWork<T, Team> work{team, dense, matrices};
    const Steps forward{work, chunks[0], constants}, backward{work, chunks[1], constants};
    forward.begin();
    for (int k = 0; k < num_steps; k++) program[k].visit(PassOfStep<true, Steps>{forward});
    if (!has_backward) return;
    for (int k = num_steps - 1; k >= 0; k--) program[k].visit(PassOfStep<false, Steps>{backward});
    backward.end();
    if (is_in_block)
      for (int64_t k = team.team_rank(); k < count * num_y; k += team.team_size())
        of_batch.y_adj[k] = chunks[1].harmonics.y_adj[k];
  }

  // Bytes of a block's memory besides rows and LocalArrays.
  static int64_t constant_bytes(std::size_t num_steps) {
    constexpr int64_t NUM_PARTS = 11;
    return static_cast<int64_t>(2 * sizeof(LocalChunk<T>) + num_steps * sizeof(DeviceLocalStep)) +
           NUM_PARTS * ALIGNMENT;
  }
};

template <class T>
LocalPlacement find_placement(const DeviceExec &exec, const LocalProgram &program, int num_y, int64_t block_bytes) {
  return LocalPlacement(
      program,
      {PLANES<T>, static_cast<int>(sizeof(Real<T>)), num_y, LocalBlockKernel<T>::constant_bytes(program.steps.size())},
      most_block_bytes(exec), block_bytes);
}

}    // namespace

template <class T>
DeviceLocalBlocks<T>::DeviceLocalBlocks(const DeviceExec &exec, const LocalProgram &program,
                                        const LocalConstants<R> &constants, int num_y, int64_t block_bytes)
    : placement_(find_placement<T>(exec, program, num_y, block_bytes)),
      num_arrays_(static_cast<int>(program.arrays.size())),
      num_steps_(static_cast<int>(program.steps.size())),
      constants_(constants) {
  if (!placement_.is_used) return;
  prepare_blocks<THREADS<T>, LocalBlockKernel<T>>(exec);
  assign(exec, tables_, std::vector(constants.tables, constants.tables + constants.num_tables));
  assign(exec, bases_, std::vector(constants.bases, constants.bases + constants.num_bases));
  constants_.tables = tables_.data();
  constants_.bases = bases_.data();
  assign(exec, steps_, std::vector<DeviceLocalStep>(program.steps.begin(), program.steps.end()));
  std::vector<Tile> tiles;
  std::vector<LocalArray> arrays;
  for (const LocalTile &tile : placement_.tiles) {
    tiles.push_back({tile.most_edges, static_cast<int64_t>(arrays.size()), tile.edge_width, tile.receiver_width});
    arrays.insert(arrays.end(), tile.forward.begin(), tile.forward.end());
    arrays.insert(arrays.end(), tile.backward.begin(), tile.backward.end());
  }
  assign(exec, tiles_, tiles);
  assign(exec, arrays_, arrays);
  std::vector<Dense> dense;
  std::vector<R> numbers;
  const auto append = [&](const Matrix &m) {
    const auto first = static_cast<int64_t>(numbers.size());
    numbers.insert(numbers.end(), m.data.begin(), m.data.end());
    return first;
  };
  for (const Matrix &m : program.matrices) {
    const int64_t first = append(m);
    dense.push_back({first, append(transpose(m)), m.rows, m.cols});
  }
  assign(exec, dense_, dense);
  assign(exec, matrices_, numbers);
}

template <class T>
void DeviceLocalBlocks<T>::run(const DeviceExec &exec, const LocalChunk<T> &chunk, bool has_backward) {
  const int num_receivers = chunk.edges.num_receivers;
  for_batch_arrays(num_receivers, chunk.count, [](ArrayRef array, int64_t n) { array.reserve(n); });
  // Full blocks, if receivers have the mean number of edges.
  const int64_t receivers =
      std::clamp<int64_t>(LocalPlacement::USUAL_EDGES * num_receivers / chunk.count, 1, placement_.most_receivers);
  LocalBlockKernel<T> kernel{constants_,
                             steps_.data(),
                             num_steps_,
                             num_arrays_,
                             arrays_.data(),
                             tiles_.data(),
                             dense_.data(),
                             matrices_.data(),
                             chunk,
                             static_cast<int>(receivers),
                             placement_.edge_width,
                             placement_.receiver_width,
                             numbers_.data(),
                             indices_.data(),
                             has_backward};
  launch_blocks<THREADS<T>>(exec, "equi:local_net", (num_receivers + receivers - 1) / receivers, placement_.bytes,
                            kernel);
}

template <class T>
void DeviceLocalBlocks<T>::for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) {
  f(numbers_, PLANES<T> * (num_edges * placement_.edge_width + num_atoms * placement_.receiver_width) + 3 * num_edges);
  f(indices_, 2 * num_edges);
}

EQUI_INSTANTIATE_NUMBERS(DeviceLocalBlocks)

}    // namespace equi
