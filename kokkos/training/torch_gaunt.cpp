// SPDX-License-Identifier: MIT
// torch.ops.equi.gaunt_product: the Gaunt product (gaunt_product.h) of rows of coefficients as an operator of Torch.
//
// The mean of Y_a Y_b Y_c over the sphere does not depend on the order of the three. So the derivative of <g,
// gaunt_product(x1, x2)> with respect to x1 is gaunt_product(x2, g), and that with respect to x2 is
// gaunt_product(x1, g). The operator is its own gradient, to any order of derivatives.
#include "kokkos/layers/contraction/host_contraction.h"
#include "kokkos/training/torch_ops.h"
#include "src/algebra/gaunt_product.h"
#include "src/base/model_limits.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace equi {

using at::Tensor;

namespace {

// Rows of coefficients are the channels of the kernels: a tile has CHANNEL_PAD rows. A thread handles some tiles at
// a time, so that they stay in its first-level cache or, for large orders, in the second-level one.
constexpr int TILES = 8;

int size_of(int64_t lmax) {
  return static_cast<int>((lmax + 1) * (lmax + 1));
}

// ---- the product of orders up to lmax1 and lmax2, to orders up to lmax_out, for CPUs

template <class T>
class GauntRows {
 public:
  GauntRows(int lmax1, int lmax2, int lmax_out)
      : first_(functions(lmax1)),
        second_(functions(lmax2)),
        out_(functions(lmax_out)),
        op_(best_instruction_set(), {equi::gaunt_product(CHANNEL_PAD, lmax1, lmax2, lmax_out).polynomials(),
                                     {FeatureLayout(first_), FeatureLayout(second_)},
                                     FeatureLayout(out_),
                                     1}),
        kernels_(host_kernels<T>(best_instruction_set())) {
    std::iota(std::begin(order_), std::end(order_), 0);
  }

  // x1, x2 and out have `rows` rows, of the coefficients of one function each.
  void run(int64_t rows, const T *x1, const T *x2, T *out) const {
    constexpr int64_t CHUNK = TILES * CHANNEL_PAD;
    at::parallel_for(0, (rows + CHUNK - 1) / CHUNK, 1, [&](int64_t begin, int64_t end) {
      Tiles a(first_), b(second_), c(out_);
      AlignedVector<char> scratch(op_.scratch_bytes(kernels_));
      for (int64_t row = begin * CHUNK; row < std::min(rows, end * CHUNK); row += CHUNK) {
        const int count = static_cast<int>(std::min(CHUNK, rows - row));
        const int species[2] = {0, (count + CHANNEL_PAD - 1) / CHANNEL_PAD};
        a.load(x1 + row * a.size, count);
        b.load(x2 + row * b.size, count);
        op_.forward(kernels_, {a.rows(), b.rows()}, c.rows(), {order_, species}, scratch.data());
        c.store(out + row * c.size, count);
      }
    });
  }

 private:
  // Rows in the layout of the kernels.
  struct Tiles {
    int size;    // coefficients in a row
    AlignedVector<T> data;

    explicit Tiles(const Irreps &irreps) : size(irreps.dim() / CHANNEL_PAD), data(TILES * irreps.dim(), T(0)) {}
    FeatureRows<T> rows() { return {data.data(), TILES, 0}; }
    // Calls f(coefficient, place of the first row's, rows) for the tile.
    template <class F>
    void for_coefficients(int tile, const F &f) {
      for (int l = 0; size_of(l) <= size; l++)
        for (int m = 0, d = 2 * l + 1; m < d; m++) f(l * l + m, &data[(TILES * l * l + tile * d + m) * CHANNEL_PAD]);
    }
    // Rows that are missing in the last tile are zero.
    void load(const T *x, int count) {
      for (int tile = 0; tile * CHANNEL_PAD < count; tile++, x += CHANNEL_PAD * size) {
        const int here = std::min(CHANNEL_PAD, count - tile * CHANNEL_PAD);
        for_coefficients(tile, [&](int k, T *to) {
          for (int r = 0; r < here; r++) to[r] = x[r * size + k];
          std::fill(to + here, to + CHANNEL_PAD, T(0));
        });
      }
    }
    void store(T *x, int count) {
      for (int tile = 0; tile * CHANNEL_PAD < count; tile++, x += CHANNEL_PAD * size) {
        const int here = std::min(CHANNEL_PAD, count - tile * CHANNEL_PAD);
        for_coefficients(tile, [&](int k, const T *from) {
          for (int r = 0; r < here; r++) x[r * size + k] = from[r];
        });
      }
    }
  };

  static Irreps functions(int lmax) {
    std::vector<IrrepBlock> blocks;
    for (int l = 0; l <= lmax; l++) blocks.push_back({CHANNEL_PAD, {l, l % 2 ? -1 : 1}});
    return Irreps(blocks);
  }
  Irreps first_, second_, out_;
  HostContraction<T> op_;
  const HostKernels<T> &kernels_;
  int order_[TILES];
};

// ---- checks

int order_of(const char *name, const Tensor &x) {
  TORCH_CHECK_VALUE(x.dim() >= 1, "equi: ", name, ": expected rows of coefficients, found a number");
  const int64_t size = x.size(-1);
  for (int l = 0; l <= LMAX_SUPPORTED; l++)
    if (size == size_of(l)) return l;
  TORCH_CHECK_VALUE(false, "equi: ", name, ": expected rows of (l + 1)^2 coefficients, l up to ", LMAX_SUPPORTED,
                    ", found ", size);
}

// The sizes of the result.
std::vector<c10::SymInt> check(const Tensor &x1, const Tensor &x2, int64_t lmax_out) {
  TORCH_CHECK_TYPE(x1.scalar_type() == at::kFloat || x1.scalar_type() == at::kDouble,
                   "equi: x1: expected float32 or float64, found ", x1.scalar_type());
  TORCH_CHECK_TYPE(x2.scalar_type() == x1.scalar_type(), "equi: x2: expected ", x1.scalar_type(), " as in x1, found ",
                   x2.scalar_type());
  TORCH_CHECK_VALUE(x2.device() == x1.device(), "equi: x2: expected ", x1.device(), " as x1, found ", x2.device());
  order_of("x1", x1);
  order_of("x2", x2);
  TORCH_CHECK_VALUE(lmax_out >= 0 && lmax_out <= LMAX_SUPPORTED, "equi: lmax_out: expected 0 to ", LMAX_SUPPORTED,
                    ", found ", lmax_out);
  std::vector<c10::SymInt> sizes = x1.sym_sizes().vec();
  TORCH_CHECK_VALUE(x2.dim() == x1.dim(), "equi: x2: expected ", x1.dim(), " dimensions as x1, found ", x2.dim());
  for (int64_t k = 0; k + 1 < x1.dim(); k++)
    TORCH_CHECK_VALUE(x2.sym_size(k).sym_eq(sizes[k]).expect_true(__FILE__, __LINE__), "equi: x2: expected size ",
                      sizes[k], " of dimension ", k, " as x1, found ", x2.sym_size(k));
  sizes.back() = size_of(lmax_out);
  return sizes;
}

// ---- the operator

Tensor gaunt_meta(const Tensor &x1, const Tensor &x2, int64_t lmax_out) {
  return at::empty_symint(check(x1, x2, lmax_out), x1.options());
}

Tensor gaunt_cpu(const Tensor &x1, const Tensor &x2, int64_t lmax_out) {
  Tensor out = gaunt_meta(x1, x2, lmax_out);
  const Tensor a = x1.contiguous(), b = x2.contiguous();
  const int l1 = order_of("x1", x1), l2 = order_of("x2", x2), l3 = static_cast<int>(lmax_out);
  const auto run = [&](auto number) {
    using T = decltype(number);
    const std::string name = std::to_string(l1) + ' ' + std::to_string(l2) + ' ' + std::to_string(l3);
    cached<GauntRows<T>>(name, [&] {
      return std::make_unique<GauntRows<T>>(l1, l2, l3);
    }).run(out.numel() / size_of(l3), a.const_data_ptr<T>(), b.const_data_ptr<T>(), out.data_ptr<T>());
  };
  if (x1.scalar_type() == at::kDouble)
    run(double());
  else
    run(float());
  return out;
}

// Calls the dispatcher, so that the result is differentiable again.
Tensor gaunt_product(const Tensor &x1, const Tensor &x2, int64_t lmax_out) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("equi::gaunt_product", "").typed<decltype(gaunt_meta)>();
  return op.call(x1, x2, lmax_out);
}

struct Gaunt : torch::autograd::Function<Gaunt> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &x1, const Tensor &x2,
                        int64_t lmax_out) {
    context->save_for_backward({x1, x2});
    const at::AutoDispatchBelowADInplaceOrView below;
    return gaunt_product(x1, x2, lmax_out);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *context,
                                               const torch::autograd::tensor_list &cotangents) {
    const auto saved = context->get_saved_variables();
    const Tensor &x1 = saved[0], &x2 = saved[1], &g = cotangents[0];
    Tensor x1_adj, x2_adj;
    if (context->needs_input_grad(0)) x1_adj = gaunt_product(x2, g, order_of("x1", x1));
    if (context->needs_input_grad(1)) x2_adj = gaunt_product(x1, g, order_of("x2", x2));
    return {x1_adj, x2_adj, Tensor()};
  }
};

Tensor gaunt_autograd(const Tensor &x1, const Tensor &x2, int64_t lmax_out) {
  return Gaunt::apply(x1, x2, lmax_out);
}

}    // namespace

TORCH_LIBRARY_FRAGMENT(equi, m) {
  m.def("gaunt_product(Tensor x1, Tensor x2, int lmax_out) -> Tensor");
}

TORCH_LIBRARY_IMPL(equi, CPU, m) {
  m.impl("gaunt_product", gaunt_cpu);
}

TORCH_LIBRARY_IMPL(equi, Meta, m) {
  m.impl("gaunt_product", gaunt_meta);
}

TORCH_LIBRARY_IMPL(equi, Autograd, m) {
  m.impl("gaunt_product", gaunt_autograd);
}

}    // namespace equi
