// SPDX-License-Identifier: MIT
// The order in which a model's layers are evaluated: which layers form a stage, where every feature lies, and in which
// order adjoints are written.
//
// Features that depend only on the species are *fixed*: they are computed once per species when the model is loaded.
// The remaining layers are cut into stages. Each begins with a convolution or a Coulomb layer whose input has to be
// known for the remote atoms too; between two stages ranks exchange that input. Within a stage the layers run batch by
// batch, so that features that are needed only within a stage take memory for one batch. A channel balance, which sums
// over all atoms, begins a stage, too: before it the feature is changed in place, so that its input and its output are
// one memory.
//
// In models with SO(2) convolutions, whose edges cost some hundred times what their atoms do, the backward pass of a
// batch first evaluates some layers *again*: maps of rows, where what they read is kept. Their results are then not
// kept from the forward pass, whatever reads them.
//
// Features that are kept for all receivers share memory where they live one after the other
// (EvaluationPlan::receiver_memories).
#ifndef EQUI_EVALUATION_PLAN_H
#define EQUI_EVALUATION_PLAN_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/model/model.h"

#include <vector>

namespace equi {

enum class Storage {
  fixed,    // one row per species
  rows,     // one row per row of the neighborhood, remote ones included: inputs of convolutions
  owned,    // one row per receiver: kept from the forward to the backward pass, or from one stage to the next
  stage,    // one row per receiver, kept within a stage; the features of all stages share the memory
  batch     // one row per receiver of the current batch
};

struct FeaturePlan {
  FeatureLayout layout;
  int memory = 0;    // the feature whose memory this one has: itself, but for the output of a channel balance
  Storage storage = Storage::batch;
  int64_t offset = 0;    // storage batch, stage: numbers per row before this feature in the scratch
  int consumer = -1;     // storage rows: the stage that begins with the exchange of this feature
  // The adjoint has memory of its own (of the storage rows, owned or batch): with kept values, where a layer that is
  // not linear reads the feature and another one too, where the layer that writes the feature needs its values, and
  // where a balance reads its shares of it. Otherwise it takes the place of the value, or for the storage rows, memory
  // that stages share.
  bool has_own_adjoint = false;
  // Storage owned, for what later stages read: backward, the value is evaluated again, and lies in the scratch of the
  // batch after recomputed_offset numbers per row; the adjoint has the place of the value.
  bool is_recomputed = false;
  int64_t recomputed_offset = 0;
  // Of the storage owned, of the value and of the adjoint: which of the plan's receiver memories it is, -1: none.
  int receiver_memory = -1, adjoint_receiver_memory = -1;
  Storage adjoint_storage = Storage::batch;
  int64_t adjoint_offset = 0;
  // Storage rows, without memory of its own: which of the plan's exchanged adjoints it is.
  int exchanged_adjoint = -1;
};

// A layer of the model within a stage.
struct Step {
  int layer = 0;
  // What the backward pass does with the adjoint of the input: nothing, or write it first (overwrite), or add.
  enum class Adjoint { none, overwrite, add } adjoint = Adjoint::none;
  // The same for the second input of a layer that has one.
  int second_input = -1;
  Adjoint second_adjoint = Adjoint::none;
  // Whether it adds to the adjoint of an input.
  bool adds(int feature) const { return (feature == second_input ? second_adjoint : adjoint) == Adjoint::add; }
  // A linear layer whose input is fixed and whose output is not: its result is a row per species that is copied or
  // added.
  bool fixed_input = false;
  // Whether it is evaluated again before the backward pass of a batch.
  bool is_recomputed = false;
};

// A channel balance, which all ranks take part in before the batches of a stage, and in the backward pass after them.
struct BalanceStep {
  int layer = 0;
  bool has_adjoint = false;
};

struct Stage {
  std::vector<BalanceStep> balances;
  std::vector<Step> steps;
  int exchanged_input = -1;         // feature that must be known on remote rows before the stage, or -1
  bool returns_adjoints = false;    // whether adjoints of its remote rows go back to the ranks that own them
  // Whether receivers' rows of its adjoint are written by later stages, and whether by any layer before the sums of
  // senders come to them.
  bool input_adjoint_is_begun = false, input_adjoint_is_written = false;
  int64_t batch_row_size = 0, stage_row_size = 0;    // numbers per row of the scratch of batches and of the stage
};

struct EvaluationPlan {
  std::vector<FeaturePlan> features;
  std::vector<int> fixed_layers;    // evaluated once per species, in order
  std::vector<Stage> stages;
  int max_exchanged_row_size = 0;    // of all exchanged inputs
  // Numbers per row of the memories that the adjoints of exchanged inputs share, those whose stages do not overlap.
  std::vector<int> exchanged_adjoints;
  // Numbers per receiver of the memories of features with the storage owned, and of adjoints. Features of one memory
  // have the same layout, and in no row are two of them wanted at a time.
  std::vector<int> receiver_memories;
  // Whether the values and adjoints that nonlinear layers read outlive an evaluation, so that another one at the same
  // positions needs only tangents.
  bool keeps_values = false;
  int planes = 1;    // of the features (feature_layout.h)
  // That an evaluation takes at a time, with kept values or with energy moments.
  int max_directions() const { return Planes{0, planes}.num_directions(); }

  // The layouts of what a layer reads.
  std::vector<FeatureLayout> inputs(const Ports &ports) const {
    std::vector<FeatureLayout> layouts;
    ports.for_inputs([&](int f) { layouts.push_back(features[f].layout); });
    return layouts;
  }
};

// gather_senders: the adjoints of senders are gathered after a whole stage, so the outputs of convolutions outlive a
// batch. duals: features have tangents. kept_directions: if not 0, values are kept and tangents are in
// this number of directions where possible. It is not possible where radial networks read features, or where a layer
// that is not linear reads two features or is one of several that read or that write a feature. Throws
// std::invalid_argument if the layers cannot be divided into stages (for example a feature that depends only on the
// species and is contracted). directions: of duals without kept values, the directions that go together with the
// values.
EvaluationPlan make_evaluation_plan(const Model &model, bool gather_senders, bool duals = false,
                                    int kept_directions = 0, int directions = 1);

}    // namespace equi

#endif
