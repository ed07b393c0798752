// SPDX-License-Identifier: MIT
// Divides memory among features, and adjoints, that are needed at different times.
#include "kokkos/plan/shared_memories.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace equi {

namespace {

// When something uses a memory, in steps of a batch or in phases of stages.
struct Life {
  int first, last;
  bool overlaps(const Life &other) const { return first <= other.last && other.first <= last; }
};
using Lives = std::vector<Life>;

bool overlap(const Lives &a, const Lives &b) {
  return std::any_of(a.begin(), a.end(), [&](const Life &life) {
    return std::any_of(b.begin(), b.end(), [&](const Life &other) { return life.overlaps(other); });
  });
}

bool is_same(const FeatureLayout &a, const FeatureLayout &b) {
  if (a.num_groups() != b.num_groups()) return false;
  for (int g = 0; g < a.num_groups(); g++)
    if (a.group(g).irrep != b.group(g).irrep || a.group(g).channels != b.group(g).channels) return false;
  return true;
}

// The memory of receivers. Batches use it row by row while other rows still hold what was before, so only features of
// the same layout share it.
class ReceiverMemories {
 public:
  ReceiverMemories(EvaluationPlan &plan, const std::vector<bool> &lasts) : plan_(plan), lasts_(lasts) {}

  // Returns the first memory in which no other feature is needed at these times.
  int take(int feature, const Lives &lives) {
    const FeatureLayout &layout = plan_.features[feature].layout;
    size_t k = 0;
    while (k < users_.size() && !is_free(k, layout, feature, lives)) k++;
    if (k == users_.size()) {
      users_.push_back({layout, lasts_[feature] || plan_.keeps_values, {}});
      plan_.receiver_memories.push_back(layout.row_size());
    }
    users_[k].lives.insert(users_[k].lives.end(), lives.begin(), lives.end());
    return static_cast<int>(k);
  }

 private:
  struct Users {
    FeatureLayout layout;
    bool is_alone;
    Lives lives;
  };
  bool is_free(size_t k, const FeatureLayout &layout, int feature, const Lives &lives) const {
    const Users &users = users_[k];
    if (users.is_alone || plan_.keeps_values || lasts_[feature] || !is_same(users.layout, layout)) return false;
    return !overlap(users.lives, lives);
  }

  EvaluationPlan &plan_;
  const std::vector<bool> &lasts_;    // features whose adjoints are read after the batches of a stage
  std::vector<Users> users_;
};

// The phases of an evaluation, in their order: the forward passes of stages, then for each stage of the backward pass
// four phases.
class Phases {
 public:
  explicit Phases(const EvaluationPlan &plan)
      : num_stages_(static_cast<int>(plan.stages.size())), fuses_last_stage_(plan.fuses_last_stage) {}
  int forward(int stage) const { return stage; }
  int repeat(int stage) const { return num_stages_ + 4 * (num_stages_ - 1 - stage); }
  int batches(int stage) const {
    return fuses_last_stage_ && stage == num_stages_ - 1 ? forward(stage) : repeat(stage) + 1;
  }
  int senders(int stage) const { return repeat(stage) + 2; }
  int sums(int stage) const { return repeat(stage) + 3; }    // over all atoms

 private:
  int num_stages_;
  bool fuses_last_stage_;
};

constexpr Life ALWAYS{0, std::numeric_limits<int>::max()};

// When the value and the adjoint of an exchanged input are needed.
std::pair<Lives, Lives> exchanged_lives(const Model &model, const FeatureUses &uses, bool gather_senders,
                                        bool has_slices, const EvaluationPlan &plan, int f) {
  const FeaturePlan &feature = plan.features[f];
  const Phases phases(plan);
  const int first = uses.first_stage[f], consumer = feature.consumer, last_user = uses.last_stage[f];
  if (plan.keeps_values || first < 0) return {{ALWAYS}, {ALWAYS}};
  const Stage &stage = plan.stages[consumer];
  int first_reader = last_user;
  for (int s = 0; s < static_cast<int>(plan.stages.size()); s++) {
    for (const BalanceStep &step : plan.stages[s].balances) {
      const Ports p = ports(model.layers[step.layer]);
      for (const int g : {p.input, p.second_input, p.output})
        if (g >= 0 && uses.memory[g] == f) return {{ALWAYS}, {ALWAYS}};
    }
    for (const Step &step : plan.stages[s].steps)
      ports(model.layers[step.layer]).for_inputs([&](int g) {
        if (uses.memory[g] == f) first_reader = std::min(first_reader, s);
      });
  }
  // A gather may read values; threads that scatter have read them before.
  const auto end_of_reading = [&](int s) { return gather_senders ? phases.senders(s) : phases.batches(s); };
  Lives value;
  if (feature.is_repeated) {
    value = {{phases.forward(first), phases.forward(consumer)}, {phases.repeat(consumer), end_of_reading(consumer)}};
  } else {
    const bool is_needed_by_writer = feature.has_own_adjoint || uses.needs_output[f];
    value = {{phases.forward(first), is_needed_by_writer ? phases.sums(first) : end_of_reading(first_reader)}};
  }
  const bool is_written_in_batches = stage.input_adjoint_is_written || (gather_senders && has_slices);
  int begin = is_written_in_batches ? phases.batches(consumer) : phases.senders(consumer);
  if (last_user > consumer) begin = std::min(begin, phases.batches(last_user));
  // The gather of a convolution that wrote the feature reads its adjoint after the batches.
  return {value, {{begin, uses.keeps_adjoint[f] ? phases.senders(first) : phases.batches(first)}}};
}

}    // namespace

void share_receiver_memories(const Model &model, const FeatureUses &uses, EvaluationPlan &plan) {
  // The first and the last step that use a feature, among those of all stages. Steps of the backward pass follow those
  // of the forward pass.
  std::vector<Life> forward(model.features.size(), {-1, -1});
  std::vector<int> last_step;    // by stage
  int num_steps = 0;
  for (const Stage &stage : plan.stages) {
    for (const Step &step : stage.steps) {
      const Ports p = ports(model.layers[step.layer]);
      for (const int f : {p.input, p.second_input, p.output}) {
        if (f < 0) continue;
        Life &life = forward[uses.memory[f]];
        if (life.first < 0) life.first = num_steps;
        life.last = num_steps;
      }
      num_steps++;
    }
    last_step.push_back(num_steps - 1);
  }
  const auto backward_of = [&](int step) { return 2 * num_steps - 1 - step; };
  ReceiverMemories memories(plan, uses.keeps_adjoint);
  for (size_t f = 0; f < model.features.size(); f++) {
    FeaturePlan &feature = plan.features[f];
    if (feature.memory != static_cast<int>(f)) continue;
    const int number = static_cast<int>(f);
    const Life backward{backward_of(forward[f].last), backward_of(forward[f].first)};
    if (feature.is_recomputed)
      feature.receiver_memory = feature.adjoint_receiver_memory = memories.take(number, {forward[f], backward});
    else {
      if (feature.storage == Storage::owned && uses.is_restored[f]) {
        int restored = backward.first;
        for (size_t s = 0; s < plan.stages.size(); s++)
          if (plan.stages[s].repeated_stage == uses.first_stage[f])
            restored = std::min(restored, backward_of(last_step[s]));
        feature.receiver_memory = memories.take(number, {forward[f], {restored, backward.last}});
      } else if (feature.storage == Storage::owned)
        feature.receiver_memory = memories.take(number, {{forward[f].first, backward.last}});
      if (feature.has_own_adjoint && feature.adjoint_storage == Storage::owned)
        feature.adjoint_receiver_memory = memories.take(number, {backward});
    }
  }
}

void share_exchanged_memories(const Model &model, const FeatureUses &uses, bool gather_senders, bool has_slices,
                              EvaluationPlan &plan) {
  struct User {
    int *number;
    int row_size;
    Lives lives;
  };
  std::vector<User> users;
  for (size_t f = 0; f < plan.features.size(); f++) {
    FeaturePlan &feature = plan.features[f];
    if (feature.memory != static_cast<int>(f) || feature.storage != Storage::rows) continue;
    const auto [value, adjoint] = exchanged_lives(model, uses, gather_senders, has_slices, plan, static_cast<int>(f));
    users.push_back({&feature.exchanged_value, feature.layout.row_size(), value});
    users.push_back({&feature.exchanged_adjoint, feature.layout.row_size(), adjoint});
  }
  // In an order, each user takes the first memory that is free. The plan has the smaller sum of two orders.
  const auto size_of = [](const std::vector<int> &v) { return std::accumulate(v.begin(), v.end(), int64_t(0)); };
  std::vector<int> &smallest = plan.exchanged_memories;
  const auto divide_in_order = [&](const auto &comes_before) {
    std::stable_sort(users.begin(), users.end(), comes_before);
    std::vector<Lives> lives;    // by memory
    std::vector<int> sizes, taken;
    for (const User &user : users) {
      size_t k = 0;
      while (k < lives.size() && overlap(lives[k], user.lives)) k++;
      if (k == lives.size()) {
        lives.emplace_back();
        sizes.push_back(0);
      }
      lives[k].insert(lives[k].end(), user.lives.begin(), user.lives.end());
      sizes[k] = std::max(sizes[k], user.row_size);
      taken.push_back(static_cast<int>(k));
    }
    if (!smallest.empty() && size_of(sizes) >= size_of(smallest)) return;
    smallest = sizes;
    for (size_t u = 0; u < users.size(); u++) *users[u].number = taken[u];
  };
  divide_in_order([](const User &a, const User &b) { return a.lives.front().first < b.lives.front().first; });
  divide_in_order([](const User &a, const User &b) { return a.lives.back().last > b.lives.back().last; });
}

}    // namespace equi
