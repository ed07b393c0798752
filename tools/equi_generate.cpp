// SPDX-License-Identifier: MIT
// Writes convolution kernels as C++, and tells what they consist of.
//
//   equi_generate list                          keys of the units that every build has
//   equi_generate unit TARGET KEY FILE          kernels of one unit; for a GPU also of several, KEY,KEY...
//   equi_generate contraction TARGET NAME FILE  kernels of one symmetric contraction; for a GPU also NAME,NAME...
//   equi_generate index TARGET FILE             the list of the build's kernels
//   equi_generate edge_unit TARGET KEY,KEY... FILE  for a GPU, kernels of units with weights of edges
//   equi_generate edge_index TARGET FILE        their list
//   equi_generate missing FILE.equi             keys of the kernels that a model needs beyond those of the build
//   equi_generate library TARGET KEY FILE.equi FILE  one of them as a library of its own
//   equi_generate library TARGET KEY FILE       the same for a unit, without a model
//   equi_generate flags TARGET FILE             compiler options for the text of a library
//   equi_generate schedule TARGET FILE.equi     a table of a model's kernels
//
// TARGET: avx2 or avx512; for unit, contraction, index and schedule also warp32 or wave64, the lanes of a GPU; for
// edge_unit and edge_index these alone. KEY of a unit: l1, then l2 and l3 of each path, as in 1_01_10_11; of a uvw
// path: uvw_1_11; of a contraction: ContractionSchedule::key. NAME: as contraction_of() takes it.
#include "src/generator/contraction_generator.h"
#include "src/generator/device_generator.h"
#include "src/generator/kernel_generator.h"
#include "src/model/model_file.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace {

using namespace equi;

// g++ takes more than five minutes at -O3 for the unit of l1 = 0 with all harmonics to l = 8 (175 kB), and 13 seconds
// with EQUI_FLAGS_LARGE.
constexpr std::uintmax_t LARGE_TEXT = 150000;

const KernelTarget &target_of(const std::string &name) {
  for (const KernelTarget *t : {&AVX2_TARGET, &AVX512_TARGET, &WARP32_TARGET, &WAVE64_TARGET})
    if (name == t->name) return *t;
  throw std::invalid_argument("expected the target avx2, avx512, warp32 or wave64, found '" + name + "'");
}

const KernelTarget &host_target_of(const std::string &name) {
  const KernelTarget &target = target_of(name);
  if (target.is_device()) throw std::invalid_argument("expected the target avx2 or avx512, found '" + name + "'");
  return target;
}

const KernelTarget &device_target_of(const std::string &name) {
  const KernelTarget &target = target_of(name);
  if (!target.is_device()) throw std::invalid_argument("expected the target warp32 or wave64, found '" + name + "'");
  return target;
}

// The parts of a list with commas.
std::vector<std::string> parts_of(const std::string &list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  std::string part;
  while (std::getline(stream, part, ',')) parts.push_back(part);
  return parts;
}

std::string device_units_of(const std::string &keys, const KernelTarget &target, bool of_edges) {
  std::vector<UnitSchedule> units;
  for (const std::string &key : parts_of(keys)) units.push_back(make_unit_schedule(UnitShape::of_key(key), target));
  return generate_device_units(units, target, of_edges);
}

std::string units_of(const std::string &keys, const KernelTarget &target) {
  if (target.is_device()) return device_units_of(keys, target, false);
  return generate_unit(make_unit_schedule(UnitShape::of_key(keys), target), target);
}

std::string contractions_of(const std::string &names, const KernelTarget &target) {
  if (!target.is_device()) return generate_contraction(make_contraction_schedule(contraction_of(names)), target);
  std::vector<ContractionSchedule> contractions;
  for (const std::string &name : parts_of(names))
    contractions.push_back(make_contraction_schedule(contraction_of(name)));
  return generate_device_contractions(contractions, target);
}

// An unchanged file keeps its time, so that nothing is compiled again.
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

KernelNames kernels_of_build() {
  KernelNames names;
  for (const UnitShape &u : common_units()) names.units.push_back(u.key());
  for (const UnitShape &u : common_uvw_paths()) names.uvw.push_back(u.key());
  for (const std::string &name : common_contractions())
    names.contractions.push_back(make_contraction_schedule(contraction_of(name)).key());
  return names;
}

std::set<std::string> keys_of_build() {
  const KernelNames names = kernels_of_build();
  std::set<std::string> keys(names.units.begin(), names.units.end());
  keys.insert(names.uvw.begin(), names.uvw.end());
  keys.insert(names.contractions.begin(), names.contractions.end());
  return keys;
}

// f(contraction number, contraction, its schedule)
template <class F>
void for_contractions(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto *c = std::get_if<SymmetricContraction>(&layer))
      f(number++, *c, make_contraction_schedule(c->product));
}

// f(convolution number, convolution, unit)
template <class F>
void for_units(const Model &model, const F &f) {
  int number = 0;
  for (const Layer &layer : model.layers)
    if (const auto *c = std::get_if<Convolution>(&layer)) {
      for (const ProductUnit &unit : units_of(c->product)) f(number, *c, unit);
      ++number;
    }
}

void print_missing(const Model &model) {
  const std::set<std::string> have = keys_of_build();
  std::set<std::string> keys;
  for_units(model, [&](int, const Convolution &, const ProductUnit &unit) {
    const std::string key = unit.shape.key();
    if (!key.empty() && !have.count(key)) keys.insert(key);
  });
  for_contractions(model, [&](int, const SymmetricContraction &, const ContractionSchedule &schedule) {
    if (!have.count(schedule.key())) keys.insert(schedule.key());
  });
  for (const std::string &key : keys) std::printf("%s\n", key.c_str());
}

// The kernels of a unit as a library.
std::string library_of(const UnitShape &shape, const KernelTarget &target) {
  KernelNames names;
  (shape.is_uvw() ? names.uvw : names.units).push_back(shape.key());
  return as_library(generate_unit(make_unit_schedule(shape, target), target), names, target);
}

// The kernel of a model that has this key, as a library.
std::string library_of(const std::string &key, const Model &model, const KernelTarget &target) {
  std::string text;
  for_units(model, [&](int, const Convolution &, const ProductUnit &unit) {
    if (unit.shape.key() == key && text.empty()) text = library_of(unit.shape, target);
  });
  for_contractions(model, [&](int, const SymmetricContraction &, const ContractionSchedule &schedule) {
    if (schedule.key() == key && text.empty())
      text = as_library(generate_contraction(schedule, target), {{}, {}, {key}}, target);
  });
  if (text.empty()) throw std::invalid_argument(model.file + " has no kernel " + key);
  return text;
}

void print_schedule(const Model &model, const KernelTarget &target) {
  constexpr int ROWS = 6;    // a quintic table, which most models get
  const std::set<std::string> have = keys_of_build();
  std::printf("Per edge and channel, with quintic tables, float32, %s (%d lanes, %d registers%s).\n", target.name,
              target.lanes, target.registers, target.is_device() ? " per lane, one channel per lane" : "");
  std::printf(
      "CG: nonzero Clebsch-Gordan coefficients. M, D: nonzero entries / distinct ones. Form: where the radial weight "
      "is\n"
      "applied going forward, to the sender (w x), to the sum (w s) or as a matrix over the channels (uvw). Group: "
      "accumulators\nkept in registers together%s."
      "\n",
      target.is_device() ? "; forward, backward" : "");
  int number = -1;
  double layer_forward = 0.0, layer_backward = 0.0, layer_bytes = 0.0;
  const auto end_layer = [&] {
    if (number >= 0)
      std::printf(
          "  layer: %.0f flops forward, %.0f backward, %.0f bytes per edge and direction, intensity %.1f and %.1f "
          "flops/byte\n",
          layer_forward, layer_backward, layer_bytes, layer_forward / layer_bytes, layer_backward / layer_bytes);
    layer_forward = layer_backward = layer_bytes = 0.0;
  };
  for_units(model, [&](int n, const Convolution &c, const ProductUnit &unit) {
    const UnitShape &shape = unit.shape;
    if (n != number) {
      end_layer();
      number = n;
      std::printf("convolution %d: %s, harmonics to %d, %lld weights\n", n, c.product.irreps_in.to_string().c_str(),
                  c.product.lmax_edge, static_cast<long long>(c.product.num_weights()));
    }
    const UnitSchedule u = make_unit_schedule(shape, target);
    const IrrepBlock &in = c.product.irreps_in[unit.block],
                     &out = c.product.irreps_out[c.product.paths[unit.paths[0]].out];
    const int mul = in.mul, d1 = 2 * shape.l1 + 1, outputs = shape.is_uvw() ? out.mul : 0;
    const std::string to = shape.is_uvw() ? " to " + Irreps({out}).to_string() : "";
    std::printf("  input %s%s: %zu distinct M, %d distinct D, %s\n", Irreps({in}).to_string().c_str(), to.c_str(),
                u.forms.size(), u.num_d(),
                shape.key().empty()       ? "generic kernel"
                : have.count(shape.key()) ? "kernel of the build"
                                          : "'equi compile' makes its kernel");
    std::printf("    path   CG    M        D        form  group  accumulators\n");
    for (size_t q = 0; q < u.paths.size(); ++q) {
      const PathSchedule &p = u.paths[q];
      std::set<int> forms;
      for (const auto &m : p.m) forms.insert(m.form);
      const auto group_of = [&](const std::vector<UnitSchedule::Group> &groups) {
        int group = 0;
        while (groups[group].last <= static_cast<int>(q)) ++group;
        return std::to_string(group);
      };
      std::string group = shape.is_uvw() ? "-" : group_of(u.forward_groups);
      if (target.is_device() && !shape.is_uvw()) group += ", " + group_of(u.backward_groups);
      std::printf("    %d %d %d  %-4d  %3zu/%-3zu  %3zu/%-3zu  %s   %-5s  %d\n", shape.l1, p.l2, p.l3, p.num_couplings,
                  p.m.size(), p.is_diagonal() ? size_t(0) : forms.size(), p.d_entries.size(), p.d.size(),
                  shape.is_uvw()                      ? "uvw"
                  : p.is_diagonal() || !p.weight_last ? "w x"
                                                      : "w s",
                  group.c_str(), (shape.is_uvw() ? u.forward_outputs : 1) * (2 * p.l3 + 1));
    }
    const int forward = u.forward_products(ROWS, outputs), backward = u.backward_products(ROWS, outputs);
    // Table rows, the sender's channels; the cotangent and the output are shared by the atom's edges.
    const double weights = shape.is_uvw() ? outputs : static_cast<double>(unit.paths.size());
    const double bytes = 4.0 * mul * (ROWS * weights + d1);
    std::printf("    multiply-adds %d forward, %d backward; loads of table and sender %.0f bytes per edge\n", forward,
                backward, bytes);
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per edge forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
    if (target.is_device())
      for (const auto *groups : {&u.forward_groups, &u.backward_groups}) {
        std::printf("    numbers in registers %s:", groups == &u.forward_groups ? "forward" : "backward");
        for (const auto &g : *groups)
          std::printf(" %d", groups == &u.forward_groups ? u.forward_numbers(g) : u.backward_numbers(g));
        std::printf(" (room for %d in float64)\n", target.numbers());
      }
    layer_forward += 2.0 * forward * mul;
    layer_backward += 2.0 * backward * mul;
    layer_bytes += bytes;
  });
  end_layer();
  for_contractions(model, [&](int n, const SymmetricContraction &c, const ContractionSchedule &s) {
    const int forward = s.forward_products(), backward = s.backward_products(), mul = c.product.mul();
    std::printf("contraction %d: %s to %s, degree %d, %s\n", n, c.product.irreps_in.to_string().c_str(),
                c.product.irreps_out.to_string().c_str(), s.degree,
                have.count(s.key()) ? "kernel of the build" : "'equi compile' makes its kernel");
    std::printf("    %d coefficients in %zu products of components per channel and species\n", s.num_entries(),
                s.nodes.size());
    std::printf("    per channel: multiply-adds %d forward, %d backward; loads of coefficients %d bytes\n", forward,
                backward, 4 * s.num_entries());
    std::printf("    bound by multiply-adds at %d per cycle: %.0f cycles per atom forward, %.0f backward\n",
                target.products, static_cast<double>(forward) * mul / target.products,
                static_cast<double>(backward) * mul / target.products);
  });
}

void run(const std::vector<std::string> &words) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "list" && words.size() == 1) {
    for (const KernelNames &names : {kernels_of_build()})
      for (const auto *keys : {&names.units, &names.uvw})
        for (const std::string &key : *keys) std::printf("%s\n", key.c_str());
  } else if (verb == "unit" && words.size() == 4) {
    write(words[3], units_of(words[2], target_of(words[1])));
  } else if (verb == "index" && words.size() == 3) {
    const KernelTarget &target = target_of(words[1]);
    write(words[2], target.is_device() ? generate_device_list(kernels_of_build(), target)
                                       : generate_kernel_list(kernels_of_build(), target));
  } else if (verb == "edge_unit" && words.size() == 4) {
    write(words[3], device_units_of(words[2], device_target_of(words[1]), true));
  } else if (verb == "edge_index" && words.size() == 3) {
    write(words[2], generate_device_edge_list(kernels_of_build(), device_target_of(words[1])));
  } else if (verb == "contraction" && words.size() == 4) {
    write(words[3], contractions_of(words[2], target_of(words[1])));
  } else if (verb == "library" && words.size() == 5) {
    write(words[4], library_of(words[2], read_model(words[3]), host_target_of(words[1])));
  } else if (verb == "library" && words.size() == 4) {
    write(words[3], library_of(UnitShape::of_key(words[2]), host_target_of(words[1])));
  } else if (verb == "missing" && words.size() == 2) {
    print_missing(read_model(words[1]));
  } else if (verb == "flags" && words.size() == 3) {
    std::printf("%s%s\n", host_target_of(words[1]).lanes == AVX2_TARGET.lanes ? EQUI_FLAGS_AVX2 : EQUI_FLAGS_AVX512,
                std::filesystem::file_size(words[2]) > LARGE_TEXT ? " " EQUI_FLAGS_LARGE : "");
  } else if (verb == "schedule" && words.size() == 3) {
    print_schedule(read_model(words[2]), target_of(words[1]));
  } else {
    throw std::invalid_argument(
        "usage: equi_generate list | unit TARGET KEY FILE | contraction TARGET NAME FILE | index TARGET FILE | "
        "edge_unit TARGET KEY FILE | edge_index TARGET FILE | missing FILE.equi | library TARGET KEY [FILE.equi] FILE "
        "| flags TARGET FILE | schedule TARGET "
        "FILE.equi");
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
