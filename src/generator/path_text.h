// SPDX-License-Identifier: MIT
// The text of what kernels for hosts and devices compute alike: the products of a path, forward and for a gather.
#ifndef EQUI_PATH_TEXT_H
#define EQUI_PATH_TEXT_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

#include <functional>
#include <string>

namespace equi {

// How a text says what each of the two kinds of kernels does in its own way.
struct Dialect {
  const char *number;    // type of what a register holds
  std::function<std::string(int form)> form;
  // What the products of a path begin with: its weight w and whatever else they read that is not there yet.
  std::function<void(const PathSchedule &p, int q)> load;
};

// Entry `form` of M, of the coupled ones at m: of 16 edges side by side, or in loads of four numbers m0, m1, ...
std::string host_coupled(int form);
std::string device_coupled(int form);

// The linear form of name0, name1, ...
std::string text_of_form(const LinearForm &form, const std::string &name);

// For each path of the run a0, a1, ... += w sum_m1 M[m1,m3] x[m1], its components after those of the path before;
// for a gather += w sum_m3 M[m1,m3] g[m3] of all paths in the same components.
void generate_products(GeneratedText &text, const Dialect &dialect, const PathGroupSchedule &u,
                       const PathGroupSchedule::Run &run, bool is_gather);

// The gather of one path alone: a0, a1, ... += w sum_m3 M[m1,m3] g[m3].
void add_gathered(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, int d1);

// Of a uvw path, forward: z0, z1, ... = sum_m1 M[m1,m3] x[m1], each followed by what `store` writes.
void generate_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p,
                      const std::function<void(int)> &store);
// For a gather: to[m1] += sum_m3 M[m1,m3] h[m3].
void add_coupled(GeneratedText &text, const Dialect &dialect, const PathSchedule &p, char to);

// Components of the outputs of a run's paths.
int num_components(const PathGroupSchedule &u, const PathGroupSchedule::Run &run);

}    // namespace equi

#endif
