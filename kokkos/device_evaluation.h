// The evaluation of a model on a device: the stages of an EvaluationPlan, layer by layer over chunks of receivers, each
// layer one or a few launches. Geometry, features and forces stay on the device; positions come in and forces go out
// once per step, and features of atoms at the borders of a rank pass through the host.
//
// T and G as in model_kokkos.h. The same source serves a host's execution space, where it is tested; the kernels made
// for the host are those of ModelKokkos.
#ifndef EQUI_DEVICE_EVALUATION_H
#define EQUI_DEVICE_EVALUATION_H

#include "device_contraction.h"
#include "device_convolution.h"
#include "device_density.h"
#include "device_edges.h"
#include "device_exec.h"
#include "device_node_ops.h"
#include "device_repulsion.h"
#include "evaluation_plan.h"
#include "evaluator.h"

#include <memory>
#include <variant>
#include <vector>

namespace equi {

template <class Exec, class T, class G>
class ModelDevice : public Evaluator {
 public:
  ModelDevice(const Model &model, const EvaluatorOptions &options);

  std::string describe() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  std::size_t exchange_bytes_per_row() const override { return plan_.max_exchanged_row_size * sizeof(T); }
  std::size_t memory_bytes() const override;

 private:
  struct Chunk {
    int first, count;
    std::vector<int> species_begin;    // DeviceSpeciesOrder
  };
  struct ReadoutOp {
    DeviceReadout<Exec, T> readout;
    DeviceBuffer<Exec, T> adjoint;    // [N][inputs]
  };
  struct NormalizationOp {
    DeviceDensity<Exec, T> density;
    DeviceBuffer<Exec, double> norm;    // [N]
  };
  struct Repulsion {
    DeviceRepulsion<Exec> pair;
    bool is_scaled;
  };
  // Pointers, because the layers own device memory.
  using Op =
      std::variant<std::monostate, std::unique_ptr<DeviceLinear<Exec, T>>, std::unique_ptr<DeviceConvolution<Exec, T>>,
                   std::unique_ptr<DeviceGate<Exec, T>>, std::unique_ptr<NormalizationOp>,
                   std::unique_ptr<DeviceContraction<Exec, T>>, std::unique_ptr<ReadoutOp>>;

  void evaluate_fixed_features();
  // f(buffer, numbers) for what an evaluation keeps of the rows.
  template <class Self, class F>
  static void for_row_buffers(Self &self, const F &f);
  // memory_bytes() with what an evaluation of num_edges edges will add, but for scratch that does not grow with the
  // atoms.
  std::size_t memory_estimate(int64_t num_edges) const;
  void reserve();
  FeatureRows<T> rows_of(const Chunk &chunk, int feature, bool adjoint);
  DeviceSpeciesOrder species_order(const Chunk &chunk) const;
  DeviceEdgeChunk receivers(const Chunk &chunk, bool fixed_input) const;
  void forward_stage(const Chunk &chunk, const Stage &stage);
  void backward_stage(const Chunk &chunk, const Stage &stage);
  void gather_senders(int stage);
  T *exchanged_adjoint(int stage) { return exchanged_adjoint_[stage % 2].data(); }
  void exchange_rows(GhostExchange &exchange, int feature, T *data, bool is_reverse);
  int num_owned() const { return neighborhood_ ? neighborhood_->num_receivers : 0; }

  Exec exec_;
  Model model_;
  EvaluatorOptions options_;
  EvaluationPlan plan_;
  std::vector<Op> ops_;    // per layer of the model
  std::vector<Repulsion> repulsions_;
  ScaleShift scale_shift_;
  int chunk_size_ = 0;    // receivers, or senders, of a launch

  const Neighborhood *neighborhood_ = nullptr;
  DeviceEdges<Exec, T, G> edges_;
  std::vector<Chunk> chunks_;
  DeviceBuffer<Exec, int> receiver_species_, species_order_;

  std::vector<DeviceBuffer<Exec, T>> feature_;    // fixed, rows and owned features
  std::vector<DeviceBuffer<Exec, T>>
      fixed_result_;    // per linear layer with fixed input and other output: a row per species
  DeviceBuffer<Exec, T> chunk_features_, stage_scratch_;
  // Adjoints of exchanged inputs. That of one stage is read while that of the stage before is written.
  DeviceBuffer<Exec, T> exchanged_adjoint_[2];
  DeviceBuffer<Exec, double> energy_, scale_;
  DeviceConvScratch<Exec, T> scratch_;
  std::vector<T> staging_;    // rows on their way between ranks
  std::vector<double> host_energy_;
};

}    // namespace equi

#endif
