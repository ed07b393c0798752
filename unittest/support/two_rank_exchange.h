// SPDX-License-Identifier: MIT
// Ranks without MPI: a structure split among threads that exchange features through memory, for tests of any Evaluator.
#ifndef EQUI_TEST_TWO_RANK_EXCHANGE_H
#define EQUI_TEST_TWO_RANK_EXCHANGE_H

#include "src/evaluation/evaluator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace equi {
namespace testing {

using Vector3 = std::array<double, 3>;

// The part of one rank in a split structure. Atom 0 of each rank is a bystander: owned, but neither receiver nor sender
// (like an atom whose type the model does not treat), so a confusion of atoms with rows shows.
struct RankPart {
  std::vector<Vector3> positions;    // [atoms]
  std::vector<int> real_atom;        // [atoms] index of the real atom in the whole structure; -1: the bystander
  std::vector<int> row_atom;         // [rows] the same per row
  Neighborhood neighborhood;
};

// rank_of_atom[i] in 0..num_ranks-1 for each real atom; ranks may stay empty.
inline std::vector<RankPart> split_structure(const ImageStructure &whole, const std::vector<int> &rank_of_atom,
                                             int num_ranks) {
  const Neighborhood &all = whole.neighborhood;
  std::vector<RankPart> parts(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    RankPart &p = parts[rank];
    Neighborhood &n = p.neighborhood;
    n.box = all.box;
    p.positions.push_back({1.5, -2.5, 3.5});
    p.real_atom.push_back(-1);
    std::map<int, int> row_of_real, atom_of_whole;
    const auto is_interior = [&](int i) {
      for (int64_t c = all.first[i]; c < all.first[i + 1]; ++c)
        if (rank_of_atom[whole.owner[all.sender_atom[c]]] != rank) return false;
      return true;
    };
    // Backwards, so the order of atoms differs from that of the whole; interior receivers first.
    for (int k = 2 * all.num_receivers - 1; k >= 0; --k) {
      const int i = k % all.num_receivers;
      if (rank_of_atom[i] != rank || is_interior(i) != (k >= all.num_receivers)) continue;
      n.num_interior += k >= all.num_receivers;
      row_of_real[i] = static_cast<int>(p.row_atom.size());
      p.row_atom.push_back(i);
      atom_of_whole[all.receiver[i]] = static_cast<int>(p.positions.size());
      n.receiver.push_back(static_cast<int>(p.positions.size()));
      p.real_atom.push_back(i);
      p.positions.push_back(whole.positions[all.receiver[i]]);
    }
    n.num_receivers = static_cast<int>(p.row_atom.size());
    n.first.push_back(0);
    for (int row = 0; row < n.num_receivers; ++row) {
      const int i = p.row_atom[row];
      for (int64_t c = all.first[i]; c < all.first[i + 1]; ++c) {
        const int j = all.sender_atom[c], real = whole.owner[j];
        if (!atom_of_whole.count(j)) {
          atom_of_whole[j] = static_cast<int>(p.positions.size());
          p.real_atom.push_back(real);
          p.positions.push_back(whole.positions[j]);
        }
        if (!row_of_real.count(real)) {
          row_of_real[real] = static_cast<int>(p.row_atom.size());
          p.row_atom.push_back(real);
        }
        n.sender_atom.push_back(atom_of_whole[j]);
        n.sender_row.push_back(row_of_real[real]);
      }
      n.first.push_back(static_cast<int64_t>(n.sender_atom.size()));
    }
    n.num_atoms = static_cast<int>(p.positions.size());
    n.num_rows = static_cast<int>(p.row_atom.size());
    for (const int real : p.row_atom) n.row_species.push_back(all.row_species[real]);
  }
  return parts;
}

// The exchanges of all ranks. Each switch breaks one verb: a test that compares ranks must then fail.
class RankGroup {
 public:
  explicit RankGroup(const std::vector<RankPart> &parts) : published_(parts.size()) {
    std::map<int, Place> owner;
    for (size_t rank = 0; rank < parts.size(); ++rank)
      for (int row = 0; row < parts[rank].neighborhood.num_receivers; ++row)
        owner[parts[rank].row_atom[row]] = {static_cast<int>(rank), row};
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      ranks_.push_back(std::make_unique<RankExchange>(*this, static_cast<int>(rank)));
      ranks_.back()->first_remote = parts[rank].neighborhood.num_receivers;
      for (int row = parts[rank].neighborhood.num_receivers; row < parts[rank].neighborhood.num_rows; ++row)
        ranks_.back()->owners.push_back(owner.at(parts[rank].row_atom[row]));
    }
  }

  GhostExchange &rank(int r) { return *ranks_[r]; }
  int calls(int r) const { return ranks_[r]->calls; }
  int calls_beside_work(int r) const { return ranks_[r]->calls_beside_work; }

  std::atomic<bool> mute_forward{false}, mute_reverse{false}, mute_sum{false};

 private:
  struct Place {
    int rank, row;
  };
  struct Piece {
    void *data;
    int width;
  };
  struct Published {
    bool reverse;
    size_t scalar_size;
    std::vector<Piece> pieces;
  };

  class RankExchange : public GhostExchange {
   public:
    RankExchange(RankGroup &group, int rank) : group_(group), rank_(rank) {}
    void forward(const FeaturePieces<float> &rows) override { exchange(rows, false); }
    void forward(const FeaturePieces<double> &rows) override { exchange(rows, false); }
    void reverse(const FeaturePieces<float> &rows) override { exchange(rows, true); }
    void reverse(const FeaturePieces<double> &rows) override { exchange(rows, true); }
    void sum(double *numbers, int count) override {
      std::vector<double> own(numbers, numbers + count);
      group_.publish(rank_, FeaturePieces<double>{{own.data(), count}}, false);
      for (int k = 0; k < count && !group_.mute_sum; ++k) {
        numbers[k] = 0.0;
        for (const auto &other : group_.ranks_) numbers[k] += group_.template data<double>(other->rank_, 0)[k];
      }
      group_.wait();
    }

    std::size_t gather(const double *numbers, std::size_t count, std::vector<double> &all) override {
      // A count, and then as many numbers as the largest one.
      std::vector<double> counts(group_.ranks_.size(), 0.0);
      counts[rank_] = static_cast<double>(count);
      std::vector<double> own = counts;
      group_.publish(rank_, FeaturePieces<double>{{own.data(), static_cast<int>(own.size())}}, false);
      for (std::size_t r = 0; r < counts.size(); ++r)
        counts[r] = group_.template data<double>(static_cast<int>(r), 0)[r];
      group_.wait();
      const auto most = static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end()));
      own.assign(numbers, numbers + count);
      own.resize(most + 1, 0.0);
      group_.publish(rank_, FeaturePieces<double>{{own.data(), static_cast<int>(own.size())}}, false);
      std::size_t place = 0;
      all.clear();
      for (std::size_t r = 0; r < counts.size(); ++r) {
        if (static_cast<int>(r) == rank_) place = all.size();
        const double *from = group_.template data<double>(static_cast<int>(r), 0);
        all.insert(all.end(), from, from + static_cast<std::size_t>(counts[r]));
      }
      if (group_.mute_sum)
        for (std::size_t k = 0; k < all.size(); ++k)
          if (k < place || k >= place + count) all[k] = 0.0;
      group_.wait();
      return place;
    }

    int first_remote = 0;
    std::vector<Place> owners;    // of the remote rows
    int calls = 0, calls_beside_work = 0;

   private:
    template <class T>
    void exchange(const FeaturePieces<T> &rows, bool reverse) {
      ++calls;
      calls_beside_work += is_beside_work();
      group_.publish(rank_, rows, reverse);
      const bool mute = reverse ? group_.mute_reverse : group_.mute_forward;
      if (!mute) {
        for (size_t k = 0; k < rows.size(); ++k) {
          const int width = rows[k].width;
          if (reverse) {
            // A fixed order over ranks, so sums repeat.
            for (const auto &other : group_.ranks_)
              for (size_t r = 0; r < other->owners.size(); ++r) {
                if (other->owners[r].rank != rank_) continue;
                const T *from = group_.template data<T>(other->rank_, k) + (other->first_remote + r) * width;
                T *to = rows[k].data + static_cast<size_t>(other->owners[r].row) * width;
                for (int c = 0; c < width; ++c) to[c] += from[c];
              }
          } else {
            for (size_t r = 0; r < owners.size(); ++r) {
              const T *from = group_.template data<T>(owners[r].rank, k) + static_cast<size_t>(owners[r].row) * width;
              T *to = rows[k].data + (first_remote + r) * width;
              for (int c = 0; c < width; ++c) to[c] = from[c];
            }
          }
        }
      }
      group_.wait();
      if (reverse && !mute)
        for (const auto &piece : rows)
          for (size_t c = 0; c < owners.size() * piece.width; ++c)
            piece.data[static_cast<size_t>(first_remote) * piece.width + c] = T(0);
    }

    RankGroup &group_;
    int rank_;
  };

  template <class T>
  void publish(int rank, const FeaturePieces<T> &rows, bool reverse) {
    Published &mine = published_[rank];
    mine = {reverse, sizeof(T), {}};
    for (const auto &piece : rows) mine.pieces.push_back({piece.data, piece.width});
    wait();
    for (const Published &other : published_) {
      bool same = other.reverse == mine.reverse && other.scalar_size == mine.scalar_size &&
                  other.pieces.size() == mine.pieces.size();
      for (size_t k = 0; same && k < mine.pieces.size(); ++k) same = other.pieces[k].width == mine.pieces[k].width;
      if (!same) throw std::logic_error("ranks disagree about an exchange");
    }
  }

  template <class T>
  const T *data(int rank, size_t piece) const {
    return static_cast<const T *>(published_[rank].pieces[piece].data);
  }

  // A barrier; a rank that never comes is an error of the evaluator, not a test that hangs.
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++waiting_ == static_cast<int>(published_.size())) {
      waiting_ = 0;
      ++round_;
      condition_.notify_all();
      return;
    }
    if (!condition_.wait_for(lock, std::chrono::seconds(120), [&] { return round_ != round; }))
      throw std::logic_error("a rank waits for one that does not come");
  }

  std::vector<Published> published_;
  std::vector<std::unique_ptr<RankExchange>> ranks_;
  std::mutex mutex_;
  std::condition_variable condition_;
  int waiting_ = 0, round_ = 0;
};

// Results summed over ranks, per real atom.
struct Evaluation {
  double energy = 0.0, energy_tangent = 0.0;
  std::array<double, 6> virial{}, virial_tangent{};
  int64_t num_edges = 0;
  std::vector<Vector3> forces, force_tangents, energy_moments;
  std::vector<double> atom_energy;
  std::vector<std::array<double, 9>> atom_virial;
  std::vector<std::exception_ptr> errors;    // per rank; null: none
  double bystander_force = 0.0;              // sum of magnitudes over ranks, which must stay zero
};

// The request to an evaluator: all results; only tangents, if nothing has moved (EvaluationRequest::same_positions);
// energies and EvaluationRequest::energy_moments; or energies and forces.
enum class Wanted { all, tangents, energy_moments, forces };

// One evaluation of one rank, added into `sum`, whose vectors have the size of the real structure. direction: of the
// real atoms, for an evaluator with one; or null; or several one after another, like the force_tangents then.
inline void add_rank(Evaluator &evaluator, const std::vector<Vector3> &positions, const std::vector<int> &real_atom,
                     GhostExchange &exchange, std::mutex &mutex, Evaluation &sum,
                     const std::vector<Vector3> *direction = nullptr, Wanted wanted = Wanted::all) {
  const size_t num_atoms = positions.size();
  std::vector<Vector3> forces(num_atoms, Vector3{});
  std::vector<double> atom_energy(num_atoms, 0.0);
  std::vector<std::array<double, 9>> atom_virial(num_atoms, std::array<double, 9>{});
  EvaluationRequest request;
  // Typed pointers over arrays of arrays, which have the same memory layout.
  request.positions = reinterpret_cast<const double(*)[3]>(positions.data());
  request.same_positions = wanted == Wanted::tangents;
  request.atom_energy = atom_energy.data();
  std::vector<Vector3> moments(wanted == Wanted::energy_moments ? num_atoms : 0, Vector3{});
  if (wanted == Wanted::energy_moments) request.energy_moments = reinterpret_cast<double(*)[3]>(moments.data());
  if (wanted == Wanted::all || wanted == Wanted::forces) request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  if (wanted == Wanted::all) {
    request.atom_virial = reinterpret_cast<double(*)[9]>(atom_virial.data());
    request.virial = true;
  }
  const size_t num_real = sum.forces.size(),
               num_directions = direction && num_real > 0 ? direction->size() / num_real : 1;
  std::vector<Vector3> directions(num_directions * num_atoms, Vector3{}), tangents(directions);
  if (direction) {
    for (size_t d = 0; d < num_directions; ++d)
      for (size_t a = 0; a < num_atoms; ++a)
        if (real_atom[a] >= 0) directions[d * num_atoms + a] = (*direction)[d * num_real + real_atom[a]];
    request.num_directions = static_cast<int>(num_directions);
    request.direction_distance = static_cast<int64_t>(num_atoms);
    request.direction = reinterpret_cast<const double(*)[3]>(directions.data());
    if (moments.empty()) request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  }
  const EvaluationResult result = evaluator.evaluate(request, exchange);

  const std::lock_guard<std::mutex> lock(mutex);
  sum.energy += result.energy;
  sum.energy_tangent += result.energy_tangent;
  sum.num_edges += result.num_edges;
  for (int k = 0; k < 6; ++k) {
    sum.virial[k] += result.virial[k];
    sum.virial_tangent[k] += result.virial_tangent[k];
  }
  sum.force_tangents.resize(num_directions * num_real, Vector3{});
  for (size_t a = 0; a < num_atoms; ++a) {
    const int i = real_atom[a];
    for (size_t d = 0; d < num_directions; ++d)
      for (int k = 0; k < 3; ++k) {
        const double t = tangents[d * num_atoms + a][k];
        if (i < 0)
          sum.bystander_force += std::fabs(t);
        else
          sum.force_tangents[d * num_real + i][k] += t;
      }
    if (i < 0) {
      for (int k = 0; k < 3; ++k) sum.bystander_force += std::fabs(forces[a][k]);
      continue;
    }
    for (int k = 0; k < 3; ++k) sum.forces[i][k] += forces[a][k];
    for (int k = 0; !moments.empty() && k < 3; ++k) sum.energy_moments[i][k] += moments[a][k];
    sum.atom_energy[i] += atom_energy[a];
    for (int k = 0; k < 9; ++k) sum.atom_virial[i][k] += atom_virial[a][k];
  }
}

inline Evaluation make_evaluation(int num_real, int num_ranks) {
  Evaluation sum;
  sum.forces.assign(num_real, Vector3{});
  sum.force_tangents.assign(num_real, Vector3{});
  sum.energy_moments.assign(num_real, Vector3{});
  sum.atom_energy.assign(num_real, 0.0);
  sum.atom_virial.assign(num_real, std::array<double, 9>{});
  sum.errors.assign(num_ranks, nullptr);
  return sum;
}

// The whole structure on one rank, with the neighborhood of the last call; errors are thrown.
inline Evaluation evaluate_in_last_neighborhood(Evaluator &evaluator, const ImageStructure &s,
                                                const std::vector<Vector3> *direction = nullptr,
                                                Wanted wanted = Wanted::all) {
  Evaluation sum = make_evaluation(s.neighborhood.num_receivers, 1);
  std::mutex mutex;
  NoExchange none;
  add_rank(evaluator, s.positions, s.owner, none, mutex, sum, direction, wanted);
  return sum;
}
// The same with its own neighborhood, unless only tangents are requested.
inline Evaluation evaluate_whole(Evaluator &evaluator, const ImageStructure &s,
                                 const std::vector<Vector3> *direction = nullptr, Wanted wanted = Wanted::all) {
  if (wanted != Wanted::tangents) evaluator.set_neighborhood(s.neighborhood);
  return evaluate_in_last_neighborhood(evaluator, s, direction, wanted);
}

// The same split among threads, with one evaluator per rank; errors are collected. Neighborhoods are set by one thread
// after the other: on a GPU that happens on Kokkos's default instance, whose scratch memory is made for one thread.
// Steps with other ranks have an instance of their own.
inline Evaluation evaluate_ranks(const std::vector<std::unique_ptr<Evaluator>> &evaluators,
                                 const std::vector<RankPart> &parts, int num_real, RankGroup &group,
                                 const std::vector<Vector3> *direction = nullptr, Wanted wanted = Wanted::all) {
  Evaluation sum = make_evaluation(num_real, static_cast<int>(parts.size()));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (size_t r = 0; r < parts.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        if (wanted != Wanted::tangents) {
          const std::lock_guard<std::mutex> lock(mutex);
          evaluators[r]->set_neighborhood(parts[r].neighborhood);
        }
        add_rank(*evaluators[r], parts[r].positions, parts[r].real_atom, group.rank(static_cast<int>(r)), mutex, sum,
                 direction, wanted);
      } catch (...) {
        sum.errors[r] = std::current_exception();
      }
    });
  for (std::thread &t : threads) t.join();
  return sum;
}

}    // namespace testing
}    // namespace equi

#endif
