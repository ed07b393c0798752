// SPDX-License-Identifier: MIT
// Pair repulsion on a device: energies and their derivatives.
#include "kokkos/layers/repulsion/device_repulsion.h"

#include "src/functions/repulsion_function.h"

namespace equi {

DeviceRepulsion::DeviceRepulsion(const DeviceExec &exec, const PairRepulsion &repulsion)
    : num_pairs_(static_cast<int>(repulsion.prefactor.data.size())),
      num_terms_(static_cast<int>(repulsion.coefficients.size())),
      p_(repulsion.p) {
  std::vector<double> data;
  for (const std::vector<double> *part : {&repulsion.prefactor.data, &repulsion.length.data, &repulsion.cutoff.data,
                                          &repulsion.coefficients, &repulsion.exponents})
    data.insert(data.end(), part->begin(), part->end());
  assign(exec, data_, data);
}

template <class G>
void DeviceRepulsion::add(const DeviceExec &exec, int num_receivers, const int64_t *begin, const G *distance,
                          const int *pair, int num_species, const double *scale, DoubleOf<G> *energy, G *distance_adj,
                          int stride) const {
  using D = DoubleOf<G>;
  const double *prefactor = data_.data(), *length = prefactor + num_pairs_, *cutoff = length + num_pairs_,
               *coefficients = cutoff + num_pairs_, *exponents = coefficients + num_terms_;
  const int num_terms = num_terms_;
  const double p = p_;
  Kokkos::parallel_for(
      "equi:repulsion", DeviceRange(exec, 0, num_receivers), KOKKOS_LAMBDA(int64_t i) {
        D sum = 0;
        for (int64_t e = begin[i]; e < begin[i + 1]; e++) {
          const int k = pair[e];
          const D r = static_cast<D>(distance[e]);
          const double factor = scale ? scale[k / num_species] : 1.0, along = tangent_of(r);
          if (value_of(r) >= cutoff[k]) continue;    // NaN passes this test
          const Jet of_pair = repulsion_function(Jet::variable(value_of(r)), prefactor[k], length[k], cutoff[k], p,
                                                 num_terms, coefficients, exponents);
          sum += factor * make_number<D>(of_pair.value(), of_pair.d[1] * along);
          distance_adj[e * stride] += static_cast<G>(factor * make_number<D>(of_pair.d[1], of_pair.d[2] * along));
        }
        energy[i] += sum;
      });
}

template void DeviceRepulsion::add(const DeviceExec &, int, const int64_t *, const double *, const int *, int,
                                   const double *, double *, double *, int) const;
template void DeviceRepulsion::add(const DeviceExec &, int, const int64_t *, const Dual<double> *, const int *, int,
                                   const double *, Dual<double> *, Dual<double> *, int) const;

}    // namespace equi
