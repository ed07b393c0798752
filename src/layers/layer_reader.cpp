// SPDX-License-Identifier: MIT
// Checks the features that layers name when they are read.
#include "src/layers/layer_reader.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"

namespace equi {

Irreps read_irreps(const JsonField &field) {
  Irreps parsed = field.checked([&] { return Irreps::parse(field.text()); });
  if (parsed.size() == 0) field.fail("at least one block of irreps", "none");
  if (parsed.lmax() > LMAX_SUPPORTED) field.fail("l up to " + std::to_string(LMAX_SUPPORTED));
  return parsed;
}

int64_t padded_channels(const IrrepBlock &block) {
  return (int64_t(block.mul) + PADDED_CHANNELS - 1) / PADDED_CHANNELS * PADDED_CHANNELS;
}

FieldSpecs input_fields() {
  return {field::text("input", "feature that is read"), field::irreps("irreps_in", "its irreps")};
}

FieldSpecs input_and_output_fields() {
  return field::joined(input_fields(),
                       {field::text("output", "feature that is written"), field::irreps("irreps_out", "its irreps")});
}

void check_product_size(const JsonField &layer, const Irreps &in, const Irreps &out, int most_components) {
  const auto check = [&](const char *key, const Irreps &irreps) {
    const int components = irreps.dim() / irreps[0].mul;
    if (irreps.size() > MAX_PRODUCT_BLOCKS || components > most_components)
      layer[key].fail("at most " + std::to_string(MAX_PRODUCT_BLOCKS) + " blocks, and " +
                          std::to_string(most_components) + " components of one channel",
                      std::to_string(irreps.size()) + " and " + std::to_string(components));
  };
  check("irreps_in", in);
  check("irreps_out", out);
}

int LayerReader::find(const std::string &name) const {
  const auto found = number_of_.find(name);
  return found == number_of_.end() ? -1 : found->second;
}

int LayerReader::input(const JsonField &layer) {
  return input(layer["input"], layer["irreps_in"]);
}

int LayerReader::input(const JsonField &name, const JsonField &irreps) {
  const int f = find(name.text());
  if (f < 0) name.fail("a feature that an earlier layer writes");
  if (is_read_by_one_[f]) name.fail("another feature than \"" + names_[f] + "\", which a layer has changed in place");
  check_irreps(irreps, f);
  has_been_read_[f] = true;
  return f;
}

int LayerReader::input_of_one(const JsonField &layer) {
  const JsonField name = layer["input"];
  if (const int f = find(name.text()); f >= 0 && has_been_read_[f]) name.fail("a feature that no other layer reads");
  const int f = input(layer);
  is_read_by_one_[f] = true;
  return f;
}

int LayerReader::output_of_one(const JsonField &layer) {
  const int f = output(layer);
  is_complete_[f] = true;
  return f;
}

void LayerReader::check_irreps(const JsonField &field, int feature) const {
  const Irreps found = read_irreps(field);
  if (found != features_[feature])
    field.fail(features_[feature].to_string() + ", as feature \"" + names_[feature] + "\" was written",
               found.to_string());
}

void LayerReader::check_num_blocks(const JsonField &field, int feature, int most) const {
  if (features_[feature].size() > most)
    field.fail("at most " + std::to_string(most) + " blocks", std::to_string(features_[feature].size()));
}

void LayerReader::check_equal_channels(const JsonField &field, int feature) const {
  const int mul = features_[feature][0].mul;
  for (const IrrepBlock &block : features_[feature])
    if (block.mul != mul)
      field.fail("blocks of " + std::to_string(mul) + " channels, as the first one", Irreps({block}).to_string());
}

int LayerReader::output(const JsonField &layer, const char *irreps_key) {
  const JsonField name = layer["output"];
  if (name.text().empty()) name.fail("the name of a feature");
  if (find(name.text()) >= 0) name.fail("a feature that no earlier layer writes");
  const JsonField irreps = layer[irreps_key];
  features_.push_back(read_irreps(irreps));
  for (const IrrepBlock &block : features_.back()) num_components_ += padded_channels(block) * block.irrep.dim();
  if (num_components_ > MAX_ALL_COMPONENTS)
    irreps.fail("features of at most " + std::to_string(MAX_ALL_COMPONENTS) + " components in all", "more");
  const int number = static_cast<int>(names_.size());
  number_of_[name.text()] = number;
  names_.push_back(printable(name.text(), SHOWN_NAME));
  has_been_read_.push_back(false);
  is_complete_.push_back(false);
  is_read_by_one_.push_back(false);
  return number;
}

int LayerReader::accumulated_output(const JsonField &layer) {
  const JsonField name = layer["output"];
  const int f = find(name.text());
  if (f < 0) name.fail("a feature that an earlier layer writes, to accumulate into");
  if (has_been_read_[f] || is_complete_[f])
    name.fail("a feature that no layer has read yet, writes alone or has changed in place, to accumulate into");
  check_irreps(layer["irreps_out"], f);
  return f;
}

void LayerReader::count_weights(const JsonField &field, int64_t num) {
  num_weights_ += num;
  if (num_weights_ > MAX_ALL_WEIGHTS)
    field.fail("convolutions with at most " + std::to_string(MAX_ALL_WEIGHTS) + " weights in all",
               std::to_string(num_weights_) + " up to this one");
}

}    // namespace equi
