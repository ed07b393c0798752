// SPDX-License-Identifier: MIT
// Models with potentials of multipoles in open systems, in slabs and in fields.
#ifndef EQUI_TEST_BOUNDARY_CASES_H
#define EQUI_TEST_BOUNDARY_CASES_H

#include "unittest/support/make_kokkos.h"
#include "unittest/support/model_cases.h"

#include <array>
#include <string>
#include <vector>

namespace equi {
namespace testing {

struct BoundaryCase {
  TinyCase tiny;
  Boundary boundary;
  OpenSum open;
  std::array<double, 3> field;
  std::string name;

  Model model() const { return tiny.model().with_field(field); }
  Structure structure(int num_species, unsigned seed = 7, int side = 2) const {
    Structure s = random_structure(num_species, seed, side);
    for (int k = 0; k < 3; ++k) s.periodic[k] = boundary == Boundary::periodic || (boundary == Boundary::slab && k < 2);
    if (boundary == Boundary::slab)
      for (double &x : s.cell[2]) x *= 1.7;
    return s;
  }
  KokkosOptions options() const {
    KokkosOptions options;
    options.radial_exact = true;
    options.open = open;
    return options;
  }
};

inline std::vector<BoundaryCase> boundary_cases() {
  const std::array<double, 3> none{}, field = {0.3, -0.2, 0.5};
  std::vector<BoundaryCase> cases;
  for (const TinyCase &tiny : potential_cases()) {
    const auto add = [&](const char *name, Boundary boundary, OpenSum open, const std::array<double, 3> &in) {
      cases.push_back({tiny, boundary, open, in, tiny.name + "_" + name});
    };
    add("open", Boundary::open, OpenSum::framework, none);
    add("open_exact", Boundary::open, OpenSum::exact, none);
    add("open_in_field", Boundary::open, OpenSum::exact, field);
    add("slab", Boundary::slab, OpenSum::framework, none);
    add("slab_in_field", Boundary::slab, OpenSum::framework, field);
    add("periodic_in_field", Boundary::periodic, OpenSum::framework, field);
  }
  return cases;
}

}    // namespace testing
}    // namespace equi

#endif
