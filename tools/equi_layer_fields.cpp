// SPDX-License-Identifier: MIT
// Writes the schema of all layers in the form that the model tool and the manual read:
//   equi_layer_fields FILE            writes tools/equi_tools/layer_fields.json
//   equi_layer_fields --check FILE    whether the file has the text that would be written
#include "src/document/field_spec.h"
#include "src/model/layer_list.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

namespace {

template <class... L>
std::string schema_of_layers(equi::LayerList<L...>) {
  nlohmann::ordered_json schema;
  ((schema[L::TYPE] = equi::schema_of(L::fields())), ...);
  return schema.dump(1) + "\n";
}

}    // namespace

int main(int argc, char **argv) {
  const bool is_check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !is_check) {
    std::cerr << "usage: equi_layer_fields [--check] FILE\n";
    return 1;
  }
  const std::string file = argv[argc - 1], text = schema_of_layers(equi::Layers());
  if (is_check) {
    std::ifstream in(file);
    if (std::string(std::istreambuf_iterator<char>(in), {}) == text) return 0;
    std::cerr << file << ": expected the fields of the layers in src/layers, found others; 'equi_layer_fields " << file
              << "' writes them\n";
    return 1;
  }
  std::ofstream out(file);
  out << text;
  out.close();
  if (out) return 0;
  std::cerr << file << ": cannot be written\n";
  return 1;
}
