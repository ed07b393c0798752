// SPDX-License-Identifier: MIT
// Parses and validates the safetensors container.
#include "src/document/safetensors.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/document/json_field.h"
#include "src/document/model_file_error.h"

#include <algorithm>
#include <cstring>

namespace equi {

namespace {

constexpr int64_t MAX_SHAPE_NUMBERS = int64_t(1) << 40;    // no product of a shape below overflows

uint64_t little_endian(const char *bytes, int num) {
  uint64_t value = 0;
  for (int i = num - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Whether the bytes begin like a file of PyTorch: a zip archive, or a pickle of version 2 or newer.
bool is_of_pytorch(const std::string &bytes) {
  return bytes.compare(0, 4, "PK\x03\x04") == 0 || (bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5);
}

struct Range {
  int64_t begin, end;
  std::string name;
};

}    // namespace

int64_t StoredTensor::size() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string StoredTensor::shape_text() const {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<double> StoredTensor::values() const {
  std::vector<double> v(static_cast<size_t>(size()));
  for (size_t i = 0; i < v.size(); ++i) {
    if (is_double) {
      const uint64_t bits = little_endian(data + 8 * i, 8);
      std::memcpy(&v[i], &bits, 8);
    } else {
      const uint32_t bits = static_cast<uint32_t>(little_endian(data + 4 * i, 4));
      float f;
      std::memcpy(&f, &bits, 4);
      v[i] = f;
    }
  }
  return v;
}

SafetensorsFile parse_safetensors(const std::string &bytes, const std::string &path) {
  const auto refuse = [&](const std::string &what) { throw ModelFileError(path + ": " + what); };
  if (bytes.size() < 8)
    refuse("file length: expected at least 8 bytes, found " + std::to_string(bytes.size()) +
           " (truncated, or not an .equi file)");
  const uint64_t header_length = little_endian(bytes.data(), 8);
  if (is_of_pytorch(bytes) && bytes[std::min<size_t>(8, bytes.size() - 1)] != '{')
    refuse("expected an .equi file, found one of PyTorch (or another archive): 'equi convert " + path +
           " -o NAME.equi' makes an .equi file of a trained model");
  if (header_length < 2 || bytes[std::min<size_t>(8, bytes.size() - 1)] != '{')
    refuse("header: expected the JSON header of a safetensors container, found something else (not an .equi file?)");
  if (header_length > MAX_HEADER_BYTES)
    refuse("header: expected at most " + std::to_string(MAX_HEADER_BYTES) + " bytes, found a length of " +
           std::to_string(header_length));
  if (header_length > bytes.size() - 8)
    refuse("file length: expected at least " + std::to_string(header_length + 8) + " bytes for the header, found " +
           std::to_string(bytes.size()) + " (truncated?)");

  const nlohmann::json header = parse_json(bytes.data() + 8, header_length, path, "header");
  const char *data = bytes.data() + 8 + header_length;
  const int64_t data_length = static_cast<int64_t>(bytes.size() - 8 - header_length);

  SafetensorsFile result;
  result.data = data;
  result.data_bytes = static_cast<size_t>(data_length);
  std::vector<Range> ranges;
  JsonField(header, path, "header").object();
  for (const auto &item : header.items()) {
    if (item.key() == "__metadata__") {
      const JsonField metadata(item.value(), path, "__metadata__");
      metadata.object();
      for (const auto &entry : item.value().items())
        result.metadata[entry.key()] =
            JsonField(entry.value(), path, "__metadata__." + printable(entry.key(), SHOWN_NAME)).text();
      continue;
    }
    const JsonField field(item.value(), path, "tensor " + printable(item.key(), SHOWN_NAME));
    field.only_keys({"dtype", "shape", "data_offsets"});
    StoredTensor tensor;
    const std::string dtype = field["dtype"].text();
    if (dtype != "F32" && dtype != "F64") field["dtype"].fail("F32 or F64");
    tensor.is_double = dtype == "F64";

    const JsonField shape = field["shape"];
    if (shape.size() > 8) shape.fail("at most 8 dimensions");
    int64_t elements = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      tensor.shape.push_back(shape[d].integer(0, INT32_MAX));
      elements *= tensor.shape.back();
      if (elements > MAX_SHAPE_NUMBERS) shape.fail("a shape that fits into memory", "one of more than 2^40 numbers");
    }

    const JsonField offsets = field["data_offsets"];
    offsets.size(2, "offsets");
    int64_t at[2];
    for (size_t k = 0; k < 2; ++k) {
      const JsonField offset = offsets[k];
      const nlohmann::json &v = offset.json();
      // JsonField::integer does not fit: offsets may exceed an int.
      if (!v.is_number_unsigned() || v.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        offset.fail("an offset in bytes");
      at[k] = v.get<int64_t>();
    }
    if (at[1] > data_length)
      offsets.fail("an end of at most " + std::to_string(data_length) + ", the bytes that follow the header",
                   std::to_string(at[1]) + " (truncated?)");
    if (at[0] > at[1] || at[1] - at[0] != elements * (tensor.is_double ? 8 : 4))
      offsets.fail(
          std::to_string(elements * (tensor.is_double ? 8 : 4)) + " bytes for " + dtype + " " + tensor.shape_text(),
          std::to_string(at[0]) + " to " + std::to_string(at[1]));
    tensor.data = data + at[0];
    ranges.push_back({at[0], at[1], printable(item.key(), SHOWN_NAME)});
    result.tensors.emplace(item.key(), std::move(tensor));
  }

  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  int64_t end = 0;
  for (const Range &range : ranges) {
    if (range.begin != end)
      refuse("tensor " + range.name + ".data_offsets: expected data from byte " + std::to_string(end) +
             " on, where the tensor before ends, found " + std::to_string(range.begin));
    end = range.end;
  }
  if (end != data_length)
    refuse("file length: expected " + std::to_string(end) + " bytes of tensor data, found " +
           std::to_string(data_length));
  return result;
}

}    // namespace equi
