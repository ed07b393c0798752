// SPDX-License-Identifier: MIT
// A model file under construction: its document and tensors, which can be changed before they become the bytes of an
// .equi file.
#ifndef EQUI_TEST_EDITABLE_DOCUMENT_H
#define EQUI_TEST_EDITABLE_DOCUMENT_H

#include "src/base/data_hash.h"
#include "src/model/model_file.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace equi {
namespace testing {

using Json = nlohmann::json;

struct DocumentTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool is_double = true;
};

// A model file under construction.
struct ModelDocument {
  Json document;
  std::map<std::string, DocumentTensor> tensors;

  // The safetensors container. Public pieces let tests assemble damaged ones. The document gets the hash of the data
  // unless a test has set one, or has set the version to one without hash.
  Json header() const {
    Json h, stamped = document;
    const Json version = document.value("format_version", Json());
    if (!document.contains("data_hash") && version.is_number() && version >= FIRST_VERSION_WITH_HASH) {
      const std::string bytes = data();
      stamped["data_hash"] = data_hash(bytes.data(), bytes.size());
    }
    h["__metadata__"] = {{"equi", stamped.dump()}};
    int64_t at = 0;
    for (const auto &[name, t] : tensors) {
      const int64_t end = at + static_cast<int64_t>(t.values.size()) * (t.is_double ? 8 : 4);
      h[name] = {{"dtype", t.is_double ? "F64" : "F32"}, {"shape", t.shape}, {"data_offsets", {at, end}}};
      at = end;
    }
    return h;
  }
  std::string data() const {
    std::string bytes;
    for (const auto &item : tensors)
      for (double v : item.second.values) {
        const float f = static_cast<float>(v);
        if (item.second.is_double)
          bytes.append(reinterpret_cast<const char *>(&v), 8);
        else
          bytes.append(reinterpret_cast<const char *>(&f), 4);
      }
    return bytes;
  }
  static std::string container(const std::string &header_text, const std::string &data) {
    const uint64_t length = header_text.size();
    return std::string(reinterpret_cast<const char *>(&length), 8) + header_text + data;
  }
  std::string bytes() const { return container(header().dump(), data()); }
  void write(const std::string &path) const {
    const std::string b = bytes();
    std::ofstream(path, std::ios::binary).write(b.data(), static_cast<std::streamsize>(b.size()));
  }
  Model model() const { return parse_model(bytes(), "tiny.equi"); }
};

}    // namespace testing
}    // namespace equi

#endif
