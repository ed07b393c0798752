// SPDX-License-Identifier: MIT
// The readers of layers share this header: tensors, the radial basis, and the features that layers have named so far.
#ifndef EQUI_LAYER_READER_H
#define EQUI_LAYER_READER_H

#include "src/base/model_limits.h"
#include "src/document/field_spec.h"
#include "src/document/function_reader.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// Irreps that kernels support, with at least one block.
Irreps read_irreps(const JsonField &field);

// The channels of a block in the layout of the kernels.
int64_t padded_channels(const IrrepBlock &block);

// The fields in which layers name the feature that they read, and the one that they write.
FieldSpecs input_fields();
FieldSpecs input_and_output_fields();

// Refuses products with more blocks, or more components of one channel, than the kernels of contractions support.
void check_product_size(const JsonField &layer, const Irreps &in, const Irreps &out, int most_components);

class LayerReader {
 public:
  // `tensors` must outlive the reader.
  LayerReader(TensorReader &tensors, RadialBasis basis, int lmax_edge, bool edge_parity)
      : tensors(tensors), basis(std::move(basis)), lmax_edge(lmax_edge), edge_parity(edge_parity) {}

  TensorReader &tensors;
  const RadialBasis basis;
  const int lmax_edge;
  const bool edge_parity;    // whether harmonics of odd l change their sign under inversion

  std::vector<std::string> notes;    // reports of layers to the user, without indentation

  // Indexed by the number of the feature.
  const std::vector<Irreps> &features() const { return features_; }
  const std::vector<std::string> &feature_names() const { return names_; }
  int64_t num_components() const { return num_components_; }    // for all features, in the kernels' layout

  // The number of the feature that the layer reads, of one that it writes first, and of one that an earlier layer has
  // written too. The layer states their irreps.
  int input(const JsonField &layer);
  int input(const JsonField &name, const JsonField &irreps);
  int output(const JsonField &layer, const char *irreps_key = "irreps_out");
  int accumulated_output(const JsonField &layer);
  // The same for a layer that changes the feature in place, and for one that needs its output in the backward pass. No
  // other layer reads such an input, or adds to such an output.
  int input_of_one(const JsonField &layer);
  int output_of_one(const JsonField &layer);
  // Refuses irreps other than those of the feature.
  void check_irreps(const JsonField &field, int feature) const;
  // Refuses a feature with more blocks.
  void check_num_blocks(const JsonField &field, int feature, int most) const;
  // Refuses a feature whose blocks have different numbers of channels.
  void check_equal_channels(const JsonField &field, int feature) const;

  // Counts columns of radial functions, whose number is limited for all convolutions together.
  void count_weights(const JsonField &field, int64_t num);

 private:
  std::vector<Irreps> features_;
  std::vector<std::string> names_;
  std::vector<bool> has_been_read_, is_complete_, is_read_by_one_;    // nothing may be added; nothing else may read it
  std::map<std::string, int> number_of_;
  int64_t num_components_ = 0, num_weights_ = 0;

  int find(const std::string &name) const;    // -1: none
};

}    // namespace equi

#endif
