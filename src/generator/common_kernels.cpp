// SPDX-License-Identifier: MIT
// Lists the kernels of common_kernels.def as keys.
#include "src/generator/common_kernels.h"

#include "src/generator/contraction_generator.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace equi {

namespace {

std::vector<PathGroupShape> shapes_of(const std::vector<std::string> &keys) {
  std::vector<PathGroupShape> shapes;
  for (const std::string &key : keys) shapes.push_back(PathGroupShape::from_key(key));
  return shapes;
}

// The words of "0_00, 1_10".
std::vector<std::string> keys_of(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

// The lines of common_kernels.def, contractions by name.
KernelNames lines() {
  KernelNames names;
#define PATH_GROUP(key)   names.path_groups.push_back(#key);
#define UVW(key)          names.uvw.push_back(#key);
#define CONTRACTION(name) names.contractions.push_back(#name);
#define TABLE_LAUNCH(...) names.device_launches.push_back(keys_of(#__VA_ARGS__));
#define EDGE_LAUNCH(...)  names.device_edge_launches.push_back(keys_of(#__VA_ARGS__));
#define LAUNCH(...)         \
  TABLE_LAUNCH(__VA_ARGS__) \
  EDGE_LAUNCH(__VA_ARGS__)
#include "src/generator/common_kernels.def"
  return names;
}

}    // namespace

std::vector<PathGroupShape> common_path_groups() {
  return shapes_of(lines().path_groups);
}

std::vector<PathGroupShape> common_uvw_paths() {
  return shapes_of(lines().uvw);
}

std::vector<std::string> common_contractions() {
  return lines().contractions;
}

KernelNames common_kernels() {
  KernelNames names = lines();
  for (std::string &name : names.contractions) name = make_contraction_schedule(contraction_of(name)).key();
  return names;
}

}    // namespace equi
