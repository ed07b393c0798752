// SPDX-License-Identifier: MIT
// The order in which a model's layers are evaluated: which layers form a stage, where every feature is stored, and
// in which order adjoints are written.
//
// Features that depend only on the species are *fixed*: they are computed once per species when the model is loaded.
// The remaining layers are cut into stages. Each stage begins with a convolution, or a layer with far edges, whose
// input must be known for the remote atoms too. Ranks exchange that input between two stages. Within a stage the
// layers run batch by batch, so features that only this stage needs use memory for one batch. A channel balance,
// which sums over all atoms, begins a stage, too. It changes the feature in place before the stage, so its input and
// its output share memory.
//
// The edges of SO(2) convolutions cost some hundred times what their atoms do. In models with these layers, the
// backward pass of a batch first evaluates some layers *again*: maps of rows whose inputs are kept. The forward pass
// then does not keep their results, whatever layers read them.
//
// The last stage ends with the energy, so each of its batches goes forward and then backward at once. What only this
// stage needs uses memory for one batch.
//
// Features that are kept for all receivers share memory if they are needed at different times
// (EvaluationPlan::receiver_memories). So do the inputs of convolutions and their adjoints (exchanged_memories).
//
// A *lean* plan keeps less and computes more (PlanMemory). It repeats the maps of rows that lead from kept features to
// the input of a convolution, before the backward pass of the convolution's stage. Convolutions of fixed features are
// repeated, too, if they are cheap. Results are the same to the last bit.
#ifndef EQUI_EVALUATION_PLAN_H
#define EQUI_EVALUATION_PLAN_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/model/model.h"

#include <vector>

namespace equi {

enum class Storage {
  fixed,    // one row per species
  rows,     // one row per row of the neighborhood, including remote ones: inputs of convolutions
  owned,    // one row per receiver, kept from the forward to the backward pass or from one stage to the next
  stage,    // one row per receiver, kept within a stage; the features of all stages share the memory
  batch     // one row per receiver of the current batch
};

struct FeaturePlan {
  FeatureLayout layout;
  int memory = 0;    // the feature whose memory this one uses: its own, except for the output of a channel balance
  Storage storage = Storage::batch;
  int64_t offset = 0;    // storage batch or stage: numbers per row before this feature in the scratch
  int consumer = -1;     // storage rows: the stage that begins with the exchange of this feature
  // Whether the adjoint has memory of its own, with storage rows, owned or batch. This is so if values are kept, or
  // if a nonlinear layer and another layer read the feature. It is also so if the layer that writes the feature
  // needs its values, or if a balance reads its shares of the feature. Otherwise the adjoint replaces the value or,
  // with storage rows, uses memory that stages share.
  bool has_own_adjoint = false;
  // Storage owned, for a feature that later stages read: the backward pass recomputes the value. It stores the value
  // in the scratch of the batch, after recomputed_offset numbers per row; the adjoint uses the memory of the value.
  bool is_recomputed = false;
  int64_t recomputed_offset = 0;
  // Storage owned: which of the plan's receiver memories the value and the adjoint use; -1: none.
  int receiver_memory = -1, adjoint_receiver_memory = -1;
  Storage adjoint_storage = Storage::batch;
  int64_t adjoint_offset = 0;
  // Storage rows: which of the plan's exchanged memories the value and the adjoint use.
  int exchanged_value = -1, exchanged_adjoint = -1;
  // Storage rows: the backward pass repeats the value (Stage::repeated_steps), so its memory is shared meanwhile.
  // Values of remote rows are set aside, because ranks exchange them only once.
  bool is_repeated = false;
};

// A layer of the model within a stage.
struct Step {
  int layer = 0;
  // What the backward pass does with the adjoint of the input: nothing, overwrite it as its first writer, or add.
  enum class Adjoint { none, overwrite, add } adjoint = Adjoint::none;
  // The same for the second input, if the layer has one.
  int second_input = -1;
  Adjoint second_adjoint = Adjoint::none;
  // Whether the layer adds to the adjoint of an input.
  bool adds(int feature) const { return (feature == second_input ? second_adjoint : adjoint) == Adjoint::add; }
  // A linear layer whose input is fixed and whose output is not: its result is a row per species, which is copied or
  // added.
  bool fixed_input = false;
  // Whether the layer is evaluated again before the backward pass of a batch.
  bool is_recomputed = false;
};

// A layer that sums over all atoms. All ranks run it before the batches of a stage, and a channel balance in the
// backward pass after them. A layer without an output is also a step of the stage.
struct BalanceStep {
  int layer = 0;
  bool has_adjoint = false;
};

struct Stage {
  std::vector<BalanceStep> balances;
  std::vector<Step> steps;
  int exchanged_input = -1;         // feature that must be known on remote rows before the stage, or -1
  bool returns_adjoints = false;    // whether adjoints of its remote rows return to the ranks that own them
  // Whether later stages write receivers' rows of its adjoint, and whether any layer writes them before the sums of
  // senders are added.
  bool input_adjoint_is_begun = false, input_adjoint_is_written = false;
  // Steps of an earlier stage that compute the exchanged input once more, before the backward pass of this stage.
  int repeated_stage = -1;
  std::vector<Step> repeated_steps;
  int64_t batch_row_size = 0, stage_row_size = 0;    // numbers per row of the scratch of batches and of the stage
};

struct EvaluationPlan {
  std::vector<FeaturePlan> features;
  std::vector<int> fixed_layers;    // evaluated once per species, in order
  std::vector<Stage> stages;
  int max_exchanged_row_size = 0;    // largest row of all exchanged inputs
  // Numbers per row of the memories that exchanged inputs and their adjoints use. No two of those in one memory are
  // needed at the same time.
  std::vector<int> exchanged_memories;
  // Whether a batch of the last stage goes forward and backward at once, if a backward pass follows.
  bool fuses_last_stage = false;
  // Numbers per receiver of the memories that features with storage owned, and their adjoints, use. Features in one
  // memory have the same layout, and no two of them are needed at the same time.
  std::vector<int> receiver_memories;
  // Whether the values and adjoints that nonlinear layers read outlive an evaluation. Another evaluation at the same
  // positions then computes only tangents.
  bool keeps_values = false;
  int planes = 1;    // planes of the features (feature_layout.h)
  // Largest number of directions that one evaluation accepts, with kept values or with energy moments.
  int max_directions() const { return Planes{0, planes}.num_directions(); }

  // The layouts of the features that a layer reads.
  std::vector<FeatureLayout> inputs(const Ports &ports) const {
    std::vector<FeatureLayout> layouts;
    ports.for_inputs([&](int f) { layouts.push_back(features[f].layout); });
    return layouts;
  }
};

// How an evaluation saves memory.
struct PlanMemory {
  bool is_lean = false;       // computes again what costs at most a tenth of the operations
  bool has_slices = false;    // gathers adjoints of senders slice by slice, while the batches of other slices follow
};

// gather_senders: the adjoints of senders are gathered after a whole stage, so the outputs of convolutions outlive a
// batch. duals: features have tangents. directions: for duals without kept values, the number of directions computed
// together with the values. kept_directions: if not 0, values are kept and tangents are in this number of
// directions, if possible. This is impossible if radial networks read features. It is also impossible if a nonlinear
// layer reads two features, or is one of several layers that read or write a feature. Throws std::invalid_argument
// if the layers cannot be divided into stages, for example because a feature that depends only on the species is
// contracted.
EvaluationPlan make_evaluation_plan(const Model &model, bool gather_senders, bool duals = false,
                                    int kept_directions = 0, int directions = 1, const PlanMemory &memory = {});

}    // namespace equi

#endif
