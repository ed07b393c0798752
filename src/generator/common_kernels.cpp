// SPDX-License-Identifier: MIT
#include "src/generator/common_kernels.h"

#include "src/generator/contraction_generator.h"

namespace equi {

namespace {

std::vector<UnitShape> shapes_of(const std::vector<std::string> &keys) {
  std::vector<UnitShape> shapes;
  for (const std::string &key : keys) shapes.push_back(UnitShape::of_key(key));
  return shapes;
}

// Keys begin with digits: each list takes the lines of its kind as text.
const std::vector<std::string> UNITS = {
#define UNIT(key) #key,
#define UVW(key)
#define CONTRACTION(name)
#include "src/generator/common_kernels.def"
#undef UNIT
#undef UVW
};

const std::vector<std::string> UVW_PATHS = {
#define UNIT(key)
#define UVW(key) #key,
#include "src/generator/common_kernels.def"
#undef UVW
#undef CONTRACTION
};

const std::vector<std::string> CONTRACTIONS = {
#define UVW(key)
#define CONTRACTION(name) #name,
#include "src/generator/common_kernels.def"
#undef UNIT
#undef UVW
#undef CONTRACTION
};

}    // namespace

std::vector<UnitShape> common_units() {
  return shapes_of(UNITS);
}

std::vector<UnitShape> common_uvw_paths() {
  return shapes_of(UVW_PATHS);
}

std::vector<std::string> common_contractions() {
  return CONTRACTIONS;
}

KernelNames common_kernels() {
  KernelNames names{UNITS, UVW_PATHS, {}};
  for (const std::string &name : CONTRACTIONS)
    names.contractions.push_back(make_contraction_schedule(contraction_of(name)).key());
  return names;
}

}    // namespace equi
