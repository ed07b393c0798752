// SPDX-License-Identifier: MIT
// The text that kernels for hosts and devices share: the products of a path, forward and for a gather.
#ifndef EQUI_PATH_TEXT_H
#define EQUI_PATH_TEXT_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

#include <functional>
#include <string>

namespace equi {

// The parts of the text that differ between the two kinds of kernels.
struct Dialect {
  const char *number;    // type of the number that a register holds
  std::function<std::string(int form)> form;
  // Begins the products of a path: loads its weight w and the other operands that have not been loaded yet.
  std::function<void(const PathSchedule &p, int q)> load;
};

// Entry `form` of M among the coupled ones at m: for 16 adjacent edges, or from loads of four numbers m0, m1, ...
std::string host_coupled(int form);
std::string device_coupled(int form);

// The linear form of name0, name1, ...
std::string text_of_form(const LinearForm &form, const std::string &name);

// For each path of the run a0, a1, ... += w sum_m1 M[m1,m3] x[m1], with its components after those of the previous
// path. For a gather += w sum_m3 M[m1,m3] g[m3] of all paths in the same components.
void generate_products(GeneratedText &text, const Dialect &dialect, const PathGroupSchedule &u,
                       const PathGroupSchedule::Run &run, bool is_gather);

// The gather of only one path: a0, a1, ... += w sum_m3 M[m1,m3] g[m3].
void add_gathered(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, int d1);

// A uvw path, forward: z0, z1, ... = sum_m1 M[m1,m3] x[m1], each followed by the text that `store` writes.
void generate_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p,
                      const std::function<void(int)> &store);
// For a gather: to[m1] += sum_m3 M[m1,m3] h[m3].
void add_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, char to);

// Components of the outputs of a run's paths.
int num_components(const PathGroupSchedule &u, const PathGroupSchedule::Run &run);

}    // namespace equi

#endif
