// SPDX-License-Identifier: MIT
// Code that the operators of torch.ops.equi share on all devices: checks of their inputs, and the operators
// themselves over the convolution of a device.
#ifndef EQUI_TORCH_OPS_H
#define EQUI_TORCH_OPS_H

#include "kokkos/training/edge_convolution.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

namespace equi {

using OptionalTensor = std::optional<at::Tensor>;

// The object that belongs to a text, made at its first use and kept. It is never destroyed, because at the end of a
// process the device may have ended first.
template <class V, class Make>
const V &cached(std::string_view text, const Make &make) {
  static std::mutex mutex;
  static auto &made = *new std::map<std::string, std::unique_ptr<V>, std::less<>>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = made.find(text);
  if (found == made.end()) found = made.emplace(text, make()).first;
  return *found->second;
}

// Throws ValueError if the text is not a product.
const OperatorProduct &product_of(std::string_view text);

// The inputs that all operators have.
struct Inputs {
  const at::Tensor &x, &y, &w, &senders, &receivers;
  std::string_view product;
};

// These throw Python's ValueError or TypeError and name the fault.
void check_matrix(const char *name, const at::Tensor &t, const c10::SymInt &rows, int64_t columns, const at::Tensor &x);
const OperatorProduct &check(const Inputs &inputs);
void check_cotangent(const Inputs &inputs, const OperatorProduct &p, const at::Tensor &g);

at::Tensor empty_as(const at::Tensor &t);

// The operators on a device. On<T>(product, edges): the convolution of EdgeConvolution<T> on it, for one call. Its
// functions have the arguments after the edges.
template <template <class> class On>
struct OperatorsOn {
  static at::Tensor convolution(const at::Tensor &x, const at::Tensor &y, const at::Tensor &w,
                                const at::Tensor &senders, const at::Tensor &receivers, int64_t num_nodes,
                                std::string_view product) {
    const Inputs inputs{x, y, w, senders, receivers, product};
    const OperatorProduct &p = check(inputs);
    TORCH_CHECK_VALUE(num_nodes >= 0, "equi: num_nodes: expected 0 or more, found ", num_nodes);
    at::Tensor out = at::empty({num_nodes, p.product.irreps_out.dim()}, x.options());
    dispatch(inputs, num_nodes, [&](auto &on, auto px, auto py, auto pw, auto number) {
      on.forward(px, py, pw, out.data_ptr<decltype(number)>());
    });
    return out;
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor &g, const at::Tensor &x,
                                                                 const at::Tensor &y, const at::Tensor &w,
                                                                 const at::Tensor &senders, const at::Tensor &receivers,
                                                                 std::string_view product) {
    const Inputs inputs{x, y, w, senders, receivers, product};
    check_cotangent(inputs, check(inputs), g);
    const at::Tensor gc = g.contiguous();
    at::Tensor x_adj = empty_as(x), y_adj = empty_as(y), w_adj = empty_as(w);
    dispatch(inputs, g.size(0), [&](auto &on, auto px, auto py, auto pw, auto number) {
      using T = decltype(number);
      on.backward(px, py, pw, gc.const_data_ptr<T>(), x_adj.data_ptr<T>(), y_adj.data_ptr<T>(), w_adj.data_ptr<T>());
    });
    return {x_adj, y_adj, w_adj};
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> double_backward(
      const OptionalTensor &x_tangent, const OptionalTensor &y_tangent, const OptionalTensor &w_tangent,
      const at::Tensor &g, const at::Tensor &x, const at::Tensor &y, const at::Tensor &w, const at::Tensor &senders,
      const at::Tensor &receivers, std::string_view product) {
    const Inputs inputs{x, y, w, senders, receivers, product};
    check_cotangent(inputs, check(inputs), g);
    const auto tangent = [&](const char *name, const OptionalTensor &t, const at::Tensor &value) {
      if (!t || !t->defined()) return at::Tensor();
      check_matrix(name, *t, value.sym_size(0), value.size(1), x);
      return t->contiguous();
    };
    const at::Tensor gc = g.contiguous(), xt = tangent("the tangent of x", x_tangent, x),
                     yt = tangent("the tangent of y", y_tangent, y), wt = tangent("the tangent of w", w_tangent, w);
    at::Tensor g_adj = empty_as(g), x_adj = empty_as(x), y_adj = empty_as(y), w_adj = empty_as(w);
    dispatch(inputs, g.size(0), [&](auto &on, auto px, auto py, auto pw, auto number) {
      using T = decltype(number);
      using Operand = typename EdgeConvolution<T>::Operand;
      const auto data = [](const at::Tensor &t) { return t.defined() ? t.const_data_ptr<T>() : nullptr; };
      on.double_backward(Operand{px, data(xt)}, Operand{py, data(yt)}, Operand{pw, data(wt)}, gc.const_data_ptr<T>(),
                         g_adj.data_ptr<T>(), x_adj.data_ptr<T>(), y_adj.data_ptr<T>(), w_adj.data_ptr<T>());
    });
    return {g_adj, x_adj, y_adj, w_adj};
  }

  static void enter(torch::Library &library) {
    library.impl("convolution", convolution);
    library.impl("convolution_backward", backward);
    library.impl("convolution_double_backward", double_backward);
  }

 private:
  // Calls f(On, x, y, w, T()) for the type of x; all of them are contiguous.
  template <class F>
  static void dispatch(const Inputs &inputs, int64_t num_nodes, const F &f) {
    const at::Tensor x = inputs.x.contiguous(), y = inputs.y.contiguous(), w = inputs.w.contiguous();
    const at::Tensor senders = inputs.senders.to(at::kLong).contiguous(),
                     receivers = inputs.receivers.to(at::kLong).contiguous();
    const auto call = [&](auto number) {
      using T = decltype(number);
      try {
        On<T> on(inputs.product, senders, receivers, x, num_nodes);
        f(on, x.const_data_ptr<T>(), y.const_data_ptr<T>(), w.const_data_ptr<T>(), T());
      } catch (const std::out_of_range &e) {
        TORCH_CHECK_INDEX(false, "equi: ", e.what());
      }
    };
    if (x.scalar_type() == at::kDouble)
      call(double());
    else
      call(float());
  }
};

}    // namespace equi

#endif
