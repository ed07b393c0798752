// SPDX-License-Identifier: MIT
// Writes kernels as C++ during the build. It does not know models, so few changes of the sources cause it to be
// rebuilt.
//
//   equi_generate list                          keys of the path groups that every build has
//   equi_generate path_group TARGET KEY FILE    kernels of one path group; for a GPU also of several in one launch,
//                                               KEY+KEY, of duals, dual:KEY, and several kernels, KEY+KEY,dual:KEY...
//   equi_generate contraction TARGET NAME FILE  kernels of one symmetric contraction; for a GPU also NAME,NAME...
//   equi_generate index TARGET FILE             the list of the build's kernels
//   equi_generate edge_path_group TARGET KEY+KEY,KEY... FILE  for a GPU, kernels of path groups with weights of edges
//   equi_generate edge_index TARGET FILE        their list
//   equi_generate library TARGET KEY FILE       the kernels of a path group as a separate library
//
// TARGET: avx2, avx512 or neon; for path_group, contraction and index also warp32 or wave64, the lanes of a GPU. For
// edge_path_group and edge_index only the latter two are allowed. KEY of a path group: l1, then l2 and l3 of each path,
// as in 1_01_10_11; of a uvw path: uvw_1_11. NAME of a contraction: as contraction_of() expects it.
#include "src/generator/common_kernels.h"
#include "src/generator/contraction_generator.h"
#include "src/generator/device_generator.h"
#include "src/generator/kernel_generator.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

using namespace equi;

const KernelTarget &host_target_of(const std::string &name) {
  const KernelTarget &target = kernel_target(name);
  if (target.is_device()) throw std::invalid_argument("expected the target avx2, avx512 or neon, found '" + name + "'");
  return target;
}

const KernelTarget &device_target_of(const std::string &name) {
  const KernelTarget &target = kernel_target(name);
  if (!target.is_device()) throw std::invalid_argument("expected the target warp32 or wave64, found '" + name + "'");
  return target;
}

std::vector<std::string> parts_of(const std::string &list, char between) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  std::string part;
  while (std::getline(stream, part, between)) parts.push_back(part);
  return parts;
}

std::string device_path_groups_of(const std::string &keys, const KernelTarget &target, bool of_edges) {
  const std::string dual = "dual:";
  std::vector<DeviceLaunch> launches;
  for (std::string launch : parts_of(keys, ',')) {
    launches.emplace_back();
    launches.back().of_duals = launch.compare(0, dual.size(), dual) == 0;
    if (launches.back().of_duals) launch = launch.substr(dual.size());
    for (const std::string &key : parts_of(launch, '+'))
      launches.back().path_groups.push_back(PathGroupShape::from_key(key));
  }
  return generate_device_path_groups(launches, target, of_edges);
}

std::string path_groups_of(const std::string &keys, const KernelTarget &target) {
  if (target.is_device()) return device_path_groups_of(keys, target, false);
  return generate_path_group(make_path_group_schedule(PathGroupShape::from_key(keys), target), target);
}

std::string contractions_of(const std::string &names, const KernelTarget &target) {
  if (!target.is_device()) return generate_contraction(make_contraction_schedule(contraction_of(names)), target);
  std::vector<ContractionSchedule> contractions;
  for (const std::string &name : parts_of(names, ','))
    contractions.push_back(make_contraction_schedule(contraction_of(name)));
  return generate_device_contractions(contractions, target);
}

// An unchanged file keeps its time, so nothing is compiled again.
void write(const std::string &file, const std::string &text) {
  std::ifstream old(file);
  std::stringstream content;
  content << old.rdbuf();
  if (old && content.str() == text) return;
  std::ofstream stream(file);
  stream << text;
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file);
}

void run(const std::vector<std::string> &words) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "list" && words.size() == 1) {
    const KernelNames names = common_kernels();
    for (const auto *keys : {&names.path_groups, &names.uvw})
      for (const std::string &key : *keys) std::printf("%s\n", key.c_str());
  } else if (verb == "path_group" && words.size() == 4) {
    write(words[3], path_groups_of(words[2], kernel_target(words[1])));
  } else if (verb == "index" && words.size() == 3) {
    const KernelTarget &target = kernel_target(words[1]);
    write(words[2], target.is_device() ? generate_device_list(common_kernels(), target)
                                       : generate_kernel_list(common_kernels(), target));
  } else if (verb == "edge_path_group" && words.size() == 4) {
    write(words[3], device_path_groups_of(words[2], device_target_of(words[1]), true));
  } else if (verb == "edge_index" && words.size() == 3) {
    write(words[2], generate_device_edge_list(common_kernels(), device_target_of(words[1])));
  } else if (verb == "contraction" && words.size() == 4) {
    write(words[3], contractions_of(words[2], kernel_target(words[1])));
  } else if (verb == "library" && words.size() == 4) {
    write(words[3], generate_path_group_library(PathGroupShape::from_key(words[2]), host_target_of(words[1])));
  } else {
    throw std::invalid_argument(
        "usage: equi_generate list | path_group TARGET KEY FILE | contraction TARGET NAME FILE | index TARGET FILE | "
        "edge_path_group TARGET KEY FILE | edge_index TARGET FILE | library TARGET KEY FILE");
  }
}

}    // namespace

int main(int argc, char **argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
