// SPDX-License-Identifier: MIT
// Writes files of host kernels, libraries of them and their lists.
#include "src/generator/kernel_generator.h"

#include "src/generator/contraction_generator.h"
#include "src/generator/generated_text.h"
#include "src/generator/path_group_generator.h"
#include "src/generator/uvw_generator.h"

namespace equi {

namespace {

using Text = GeneratedText;

// The name of a number type's kernels, the parts of its numbers, and the tables that it uses (kernel_place).
struct NumberName {
  const char *type, *name, *part;
  bool has_cubic;
  int fine_rows;
};
constexpr NumberName PLAIN[] = {{"float", "FLOAT", "float", true, QUINTIC_ROWS},
                                {"double", "DOUBLE", "double", false, SPLIT_ROWS}},
                     DUALS[] = {{"Dual<float>", "DUAL_FLOAT", "float", false, QUINTIC_ROWS},
                                {"Dual<double>", "DUAL_DOUBLE", "double", false, SPLIT_ROWS}};

void generate_coupled(Text &text, const PathGroupSchedule &u) {
  text.line("// Entries of M over the harmonics, of 16 edges.");
  text.line("template <class T>");
  text.line("void couple_harmonics(Pointer<const T> y, Pointer<T> coupled) {");
  text.line("  for (int e = 0; e < EDGE_BLOCK; e += LANES<T>) {");
  for (size_t f = 0; f < u.coupled.size(); ++f) {
    std::string sum;
    for (const auto &t : u.coupled[f].terms)
      sum += summand(t.coefficient, text_of("load(y + %d + e)", EDGE_BLOCK * t.index), sum.empty());
    text.line("    store(coupled + %d + e, %s);", static_cast<int>(EDGE_BLOCK * f), sum.c_str());
  }
  if (u.coupled.empty()) text.line("    (void)y, (void)coupled, (void)e;");
  text.close(2);
}

void begin_file(Text &text, const KernelTarget &target) {
  text.line("// Made by equi_generate from a kernel schedule (src/generator/kernel_schedule.h). Do not edit.");
  text.line("#define EQUI_ISA isa_%s", target.name);
  text.line("#define EQUI_SIMD_BYTES %d", 4 * target.lanes);
}

// The kernels of a path group.
void generate_path_group_kernels(Text &text, const PathGroupSchedule &u, const NumberName (&numbers)[2], bool dual) {
  const std::string key = u.shape.key();
  const bool is_uvw = u.shape.is_uvw();
  const char *kernel = is_uvw ? "UvwKernel" : "PathGroupKernel";
  text.line("constexpr int NUM_COUPLED = %d, NUM_D = %d;", static_cast<int>(u.coupled.size()), u.num_d());
  text.line("constexpr int ROW = %d;    // numbers of a table row per channel block",
            static_cast<int>(CHANNEL_PAD * (is_uvw ? UVW_BLOCK : u.paths.size())));
  text.line("namespace {");
  generate_coupled(text, u);
  if (is_uvw) {
    generate_uvw_functions(text, u);
  } else {
    generate_path_group_functions(text, u);
    if (!dual) generate_functions_of_directions(text, u);
  }
  text.line("}    // namespace");
  for (const NumberName &number : numbers) {
    text.line("extern const %s<%s> %s_KERNEL;", kernel, number.type, number.name);
    text.line("const %s<%s> %s_KERNEL = {\"%s\", couple_harmonics<%s>,", kernel, number.type, number.name, key.c_str(),
              number.type);
    const auto instance = [&](const std::string &function, const char *type, int rows) {
      return function + "<" + type + ", " + std::to_string(rows) + ">";
    };
    // Weights of edges are used neither in a gather nor with uvw paths.
    const char *separator = "";
    for (const std::string function : {"forward", "backward", "gather"}) {
      std::string list;
      const auto add = [&](int rows, bool present) {
        if (!list.empty()) list += ", ";
        list += present ? instance(function, number.type, rows) : "nullptr";
      };
      add(1, !is_uvw && function != "gather");
      add(CUBIC_ROWS, number.has_cubic);
      add(number.fine_rows, true);
      text.line("  %s{%s}", separator, list.c_str());
      separator = ", ";
    }
    for (const std::string function : {"moving_forward", "rigid_forward", "rigid_backward"}) {
      if (dual)    // their numbers are plain: with the runs of duals
        text.line("  , path_group_%s::%s", key.c_str(), instance(function, number.part, number.fine_rows).c_str());
      else if (!is_uvw)
        text.line("  , nullptr");
    }
    text.line("};");
  }
}

// of_duals: the same path group for half as many numbers in registers; unused for uvw paths.
void generate_path_group_namespace(Text &text, const PathGroupSchedule &u, const PathGroupSchedule &of_duals) {
  const std::string key = u.shape.key();
  text.line("namespace path_group_%s {", key.c_str());
  generate_path_group_kernels(text, u, PLAIN, false);
  if (!u.shape.is_uvw()) {
    text.line("namespace dual {");
    generate_path_group_kernels(text, of_duals, DUALS, true);
    text.line("}    // namespace dual");
  }
  text.line("}    // namespace path_group_%s", key.c_str());
}

// The arrays of kernels, and `definition` as the library of them.
void list_kernels(Text &text, const KernelNames &names, const KernelTarget &target, const char *definition) {
  std::string lists;
  // Arguments: kind of kernel, of the namespaces, of the lists.
  const auto list = [&](const char *kernel, const char *space, const char *kind, const std::vector<std::string> &keys,
                        const NumberName(&numbers)[2], const char *inner) {
    for (const NumberName &number : numbers) {
      // One entry more than there are kernels, because an array may not be empty.
      text.line("const %s<%s> *const %s_%s[] = {", kernel, number.type, number.name, kind);
      for (const std::string &key : keys) text.line("  &%s_%s::%s%s_KERNEL,", space, key.c_str(), inner, number.name);
      text.line("  nullptr};");
      lists += ", {" + std::to_string(keys.size()) + ", " + number.name + "_" + kind + "}";
    }
  };
  list("PathGroupKernel", "path_group", "PATH_GROUPS", names.path_groups, PLAIN, "");
  list("UvwKernel", "path_group", "UVW", names.uvw, PLAIN, "");
  list("ContractionKernel", "contraction", "CONTRACTIONS", names.contractions, PLAIN, "");
  list("PathGroupKernel", "path_group", "PATH_GROUPS", names.path_groups, DUALS, "dual::");
  text.line("%s = {PATH_GROUP_KERNEL_ABI, \"%s\"%s};", definition, target.name, lists.c_str());
}

// A file whose kernels `content` writes.
template <class F>
std::string file_of_kernels(const KernelTarget &target, const char *header, const F &content) {
  Text text;
  begin_file(text, target);
  text.line("#include \"%s\"", header);
  text.line("namespace equi {");
  text.line("namespace EQUI_ISA {");
  content(text);
  text.line("}    // namespace EQUI_ISA");
  text.line("}    // namespace equi");
  return text.str();
}

}    // namespace

std::string generate_path_group(const PathGroupSchedule &path_group, const KernelTarget &target) {
  return file_of_kernels(target, "kokkos/kernel_interface/host_simd.h", [&](Text &text) {
    // A dual needs two registers.
    KernelTarget half = target;
    half.registers /= 2;
    generate_path_group_namespace(text, path_group, make_path_group_schedule(path_group.shape, half));
  });
}

std::string generate_contraction(const ContractionSchedule &contraction, const KernelTarget &target) {
  return file_of_kernels(target, "kokkos/kernel_interface/host_simd.h",
                         [&](Text &text) { generate_contraction_namespace(text, contraction, false); });
}

std::string generate_kernel_list(const KernelNames &names, const KernelTarget &target) {
  return file_of_kernels(target, "kokkos/kernel_interface/path_group_kernel.h", [&](Text &text) {
    const auto declare = [&](const char *space, const char *kernel, const std::string &key, bool has_duals) {
      text.line("namespace %s_%s {", space, key.c_str());
      for (const NumberName &number : PLAIN)
        text.line("extern const %s<%s> %s_KERNEL;", kernel, number.type, number.name);
      if (has_duals) {
        text.line("namespace dual {");
        for (const NumberName &number : DUALS)
          text.line("extern const %s<%s> %s_KERNEL;", kernel, number.type, number.name);
        text.line("}");
      }
      text.line("}");
    };
    for (const std::string &key : names.path_groups) declare("path_group", "PathGroupKernel", key, true);
    for (const std::string &key : names.uvw) declare("path_group", "UvwKernel", key, false);
    for (const std::string &key : names.contractions) declare("contraction", "ContractionKernel", key, false);
    text.line("extern const KernelLibrary KERNEL_LIBRARY;");
    list_kernels(text, names, target, "const KernelLibrary KERNEL_LIBRARY");
  });
}

std::string as_library(const std::string &file, const KernelNames &names, const KernelTarget &target) {
  Text text;
  text.add(file);
  text.line("namespace equi {");
  text.line("namespace EQUI_ISA {");
  text.line("extern \"C\" __attribute__((visibility(\"default\"))) const KernelLibrary equi_kernels;");
  list_kernels(text, names, target, "const KernelLibrary equi_kernels");
  text.line("}    // namespace EQUI_ISA");
  text.line("}    // namespace equi");
  return text.str();
}

std::string generate_path_group_library(const PathGroupShape &shape, const KernelTarget &target) {
  KernelNames names;
  (shape.is_uvw() ? names.uvw : names.path_groups).push_back(shape.key());
  return as_library(generate_path_group(make_path_group_schedule(shape, target), target), names, target);
}

}    // namespace equi
