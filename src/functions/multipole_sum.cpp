// SPDX-License-Identifier: MIT
// Sums over atoms and wave vectors: eight wave vectors at a time, one atom after the other.
#include "src/functions/multipole_sum.h"

#include <algorithm>
#include <cmath>

namespace equi {

namespace {

constexpr int LANES = WaveVectors::LANES;

EwaldFunction of_width(const MultipoleFunction &f, double width) {
  return {std::sqrt(f.width * f.width + width * width), f.prefactor, false};
}

template <class T>
T sum_of(const T *lanes) {
  T sum(0.0);
  for (int l = 0; l < LANES; l++) sum += lanes[l];
  return sum;
}

}    // namespace

template <class T>
MultipoleSum<T>::MultipoleSum(const MultipoleFunction &function, int channels, const WaveVectors &waves,
                              const CellMatrix *cell_direction)
    : function_(function),
      channels_(channels),
      waves_(waves),
      tables_(of_width(function, 0.0), waves, cell_direction),
      ones_(waves.size(), T(0.0)) {
  for (const double width : function.widths) of_width_.emplace_back(of_width(function, width), waves, cell_direction);
  for (auto &k : k_) k.assign(waves.size(), T(0.0));
  waves.for_each([&](int64_t at, int n1, int n2, int n3) {
    const Position k = tables_.wave_vector(n1, n2, n3);
    for (int a = 0; a < 3; a++) k_[a][at] = k[a];
    ones_[at] = T(1.0);
  });
}

template <class T>
template <class F>
void MultipoleSum<T>::for_lanes(const WaveVectors::Tile &tile, int64_t atom, const F &f) const {
  const auto p = tables_.powers(atom);
  const T *second = p.second + tile.n2, *third = p.third + tile.first_n3;
  const T second_re = second[0], second_im = second[p.imaginary];
  int64_t at = tile.at;
  for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++, at += LANES) {
    const T first_re = p.first[n1], first_im = p.first[n1 + p.imaginary];
    const T x = first_re * second_re - first_im * second_im, y = first_re * second_im + first_im * second_re;
    T cosine[LANES], sine[LANES];
    for (int l = 0; l < LANES; l++) {
      cosine[l] = x * third[l] - y * third[l + p.imaginary];
      sine[l] = x * third[l + p.imaginary] + y * third[l];
    }
    f(at, cosine, sine);
  }
}

template <class T>
void MultipoleSum<T>::add_tiles(Side side, int64_t first, int64_t end, const T *multipoles, T *factors) const {
  const int64_t size = waves_.size();
  const int num_widths = this->num_widths(side);
  for (int64_t t = first; t < end; t++) {
    const WaveVectors::Tile &tile = waves_.tiles()[t];
    const int64_t num = static_cast<int64_t>(tile.end_n1 - tile.first_n1) * LANES;
    for (int part = 0; part < 2 * channels_; part++) std::fill_n(factors + part * size + tile.at, num, T(0.0));
    for (int64_t i = 0; i < count_; i++)
      for_lanes(tile, i, [&](int64_t at, const T *cosine, const T *sine) {
        const T *m = multipoles + i * numbers(side);
        for (int c = 0; c < channels_; c++) {
          T *re = factors + 2 * c * size + at, *im = re + size;
          for (int w = 0; w < num_widths; w++, m += 4) {
            const T *h = weights(side, w) + at;
            for (int l = 0; l < LANES; l++) {
              const T along = k_[0][at + l] * m[1] + k_[1][at + l] * m[2] + k_[2][at + l] * m[3];
              re[l] += h[l] * (m[0] * cosine[l] - along * sine[l]);
              im[l] += h[l] * (m[0] * sine[l] + along * cosine[l]);
            }
          }
        }
      });
  }
}

template <class T>
void MultipoleSum<T>::gather(Side side, int64_t first, int64_t end, const T *factors, T *derivatives) const {
  const int64_t size = waves_.size();
  const int num_widths = this->num_widths(side), all = numbers(side);
  std::vector<T> sums(static_cast<std::size_t>(all) * LANES);
  for (int64_t i = first; i < end; i++) {
    std::fill(sums.begin(), sums.end(), T(0.0));
    for (const WaveVectors::Tile &tile : waves_.tiles())
      for_lanes(tile, i, [&](int64_t at, const T *cosine, const T *sine) {
        T *to = sums.data();
        for (int c = 0; c < channels_; c++) {
          const T *re = factors + 2 * c * size + at, *im = re + size;
          for (int w = 0; w < num_widths; w++, to += 4 * LANES) {
            const T *h = weights(side, w) + at;
            for (int l = 0; l < LANES; l++) {
              to[l] += h[l] * (cosine[l] * re[l] + sine[l] * im[l]);
              const T slope = h[l] * (sine[l] * re[l] - cosine[l] * im[l]);
              for (int a = 0; a < 3; a++) to[(1 + a) * LANES + l] -= k_[a][at + l] * slope;
            }
          }
        }
      });
    for (int n = 0; n < all; n++) derivatives[i * all + n] = T(2.0) * sum_of(sums.data() + n * LANES);
  }
}

template <class T>
void MultipoleSum<T>::gather_gradient(Side side, int64_t first, int64_t end, const T *multipoles, const T *factors,
                                      Position *gradients) const {
  const int64_t size = waves_.size();
  const int num_widths = this->num_widths(side);
  for (int64_t i = first; i < end; i++) {
    T sums[3][LANES];
    for (auto &lanes : sums) std::fill_n(lanes, LANES, T(0.0));
    for (const WaveVectors::Tile &tile : waves_.tiles())
      for_lanes(tile, i, [&](int64_t at, const T *cosine, const T *sine) {
        const T *m = multipoles + i * numbers(side);
        for (int c = 0; c < channels_; c++) {
          const T *re = factors + 2 * c * size + at, *im = re + size;
          for (int w = 0; w < num_widths; w++, m += 4) {
            const T *h = weights(side, w) + at;
            for (int l = 0; l < LANES; l++) {
              const T along = k_[0][at + l] * m[1] + k_[1][at + l] * m[2] + k_[2][at + l] * m[3];
              const T real = cosine[l] * re[l] + sine[l] * im[l], imaginary = sine[l] * re[l] - cosine[l] * im[l];
              const T slope = h[l] * (m[0] * imaginary + along * real);
              for (int a = 0; a < 3; a++) sums[a][l] -= k_[a][at + l] * slope;
            }
          }
        }
      });
    for (int a = 0; a < 3; a++) gradients[i][a] = T(2.0) * sum_of(sums[a]);
  }
}

template <class T>
void MultipoleSum<T>::gather_strain(int64_t first, int64_t end, const T *multipoles, const T *factors,
                                    std::array<T, 6> *strains) const {
  const int64_t size = waves_.size();
  const int num_widths = this->num_widths(probes);
  for (int64_t i = first; i < end; i++) {
    T sums[6][LANES];
    for (auto &lanes : sums) std::fill_n(lanes, LANES, T(0.0));
    for (const WaveVectors::Tile &tile : waves_.tiles())
      for_lanes(tile, i, [&](int64_t at, const T *cosine, const T *sine) {
        const T *m = multipoles + i * numbers(probes);
        for (int c = 0; c < channels_; c++) {
          const T *re = factors + 2 * c * size + at, *im = re + size;
          for (int w = 0; w < num_widths; w++, m += 4) {
            const T *h = weights(probes, w) + at;
            const double squares = function_.width * function_.width + function_.widths[w] * function_.widths[w];
            for (int l = 0; l < LANES; l++) {
              if (value_of(ones_[at + l]) == 0.0) continue;
              const T k[3] = {k_[0][at + l], k_[1][at + l], k_[2][at + l]};
              const T along = k[0] * m[1] + k[1] * m[2] + k[2] * m[3];
              const T real = cosine[l] * re[l] + sine[l] * im[l], imaginary = sine[l] * re[l] - cosine[l] * im[l];
              const T part = h[l] * (m[0] * real - along * imaginary);
              const T factor = T(2.0) / (k[0] * k[0] + k[1] * k[1] + k[2] * k[2]) + T(squares);
              for (int n = 0; n < EWALD_STRAIN; n++)
                sums[n][l] += part * (factor * k[first_of_strain(n)] * k[second_of_strain(n)] - T(n < 3 ? 1.0 : 0.0));
            }
          }
        }
      });
    for (int n = 0; n < 6; n++) strains[i][n] = T(2.0) * sum_of(sums[n]);
  }
}

template <class T>
std::size_t MultipoleSum<T>::bytes() const {
  std::size_t bytes = tables_.bytes() + ones_.capacity() * sizeof(T);
  for (const auto &k : k_) bytes += k.capacity() * sizeof(T);
  for (const EwaldSum<T> &sum : of_width_) bytes += sum.bytes();
  return bytes;
}

template <class T>
std::size_t MultipoleSum<T>::bytes_for(int channels, int num_widths, const WaveVectors::Extent &extent, int64_t count) {
  const int arrays = 4 + num_widths + 4 * channels;    // wave vectors and ones, weights, and factors
  return EwaldSum<T>::bytes_for(extent, count) + arrays * extent.most * sizeof(T);
}

template class MultipoleSum<double>;
template class MultipoleSum<Dual<double>>;

}    // namespace equi
