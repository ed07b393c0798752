// SPDX-License-Identifier: MIT
// torch.ops.equi: the convolution with weights of edges (edge_convolution.h) as operators of Torch, for training.
//
// convolution, its backward and its double backward are registered with the dispatcher for the CPU, for shapes only
// (Meta: torch.compile and torch.export), and for autograd. In a build for CUDA they are also registered for CUDA
// (torch_ops_cuda.cpp). Each is the gradient of the one before; the double backward has none.
#include "kokkos/training/torch_ops.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <utility>

namespace equi {

using at::Tensor;

// ---- checks

namespace {

// For traced sizes this becomes a condition of the traced program.
bool holds(const c10::SymBool &condition) {
  return condition.expect_true(__FILE__, __LINE__);
}

void check_device(const char *name, const Tensor &t, const Tensor &x) {
  TORCH_CHECK_VALUE(t.device() == x.device(), "equi: ", name, ": expected ", x.device(), " as x, found ", t.device());
}

}    // namespace

const OperatorProduct &product_of(std::string_view text) {
  return cached<OperatorProduct>(text, [&] {
    try {
      return std::make_unique<OperatorProduct>(OperatorProduct::parse(std::string(text)));
    } catch (const std::exception &e) {
      TORCH_CHECK_VALUE(false, "equi: ", e.what());
    }
  });
}

void check_matrix(const char *name, const Tensor &t, const c10::SymInt &rows, int64_t columns, const Tensor &x) {
  check_device(name, t, x);
  TORCH_CHECK_VALUE(t.dim() == 2, "equi: ", name, ": expected a matrix, found ", t.dim(), " dimensions");
  TORCH_CHECK_VALUE(holds(t.sym_size(0).sym_eq(rows)), "equi: ", name, ": expected ", rows, " rows, found ",
                    t.sym_size(0));
  TORCH_CHECK_VALUE(holds(t.sym_size(1).sym_eq(columns)), "equi: ", name, ": expected ", columns, " columns, found ",
                    t.sym_size(1));
  TORCH_CHECK_TYPE(t.scalar_type() == x.scalar_type(), "equi: ", name, ": expected ", x.scalar_type(),
                   " as in x, found ", t.scalar_type());
}

const OperatorProduct &check(const Inputs &inputs) {
  const OperatorProduct &p = product_of(inputs.product);
  TORCH_CHECK_TYPE(inputs.x.scalar_type() == at::kFloat || inputs.x.scalar_type() == at::kDouble,
                   "equi: x: expected float32 or float64, found ", inputs.x.scalar_type());
  for (const auto &[name, t] :
       {std::pair<const char *, const Tensor &>{"senders", inputs.senders}, {"receivers", inputs.receivers}}) {
    TORCH_CHECK_VALUE(t.dim() == 1, "equi: ", name, ": expected a vector, found ", t.dim(), " dimensions");
    TORCH_CHECK_TYPE(t.scalar_type() == at::kLong || t.scalar_type() == at::kInt, "equi: ", name,
                     ": expected integers, found ", t.scalar_type());
    check_device(name, t, inputs.x);
  }
  const c10::SymInt edges = inputs.senders.sym_size(0);
  TORCH_CHECK_VALUE(holds(inputs.receivers.sym_size(0).sym_eq(edges)), "equi: receivers: expected ", edges,
                    " as senders, found ", inputs.receivers.sym_size(0));
  check_matrix("x", inputs.x, inputs.x.dim() == 2 ? inputs.x.sym_size(0) : c10::SymInt(0), p.product.irreps_in.dim(),
               inputs.x);
  check_matrix("y", inputs.y, edges, p.irreps_edge.dim(), inputs.x);
  check_matrix("w", inputs.w, edges, p.product.num_weights(), inputs.x);
  return p;
}

void check_cotangent(const Inputs &inputs, const OperatorProduct &p, const Tensor &g) {
  check_matrix("the gradient of the result", g, g.dim() == 2 ? g.sym_size(0) : c10::SymInt(0),
               p.product.irreps_out.dim(), inputs.x);
}

Tensor empty_as(const Tensor &t) {
  return at::empty_symint(t.sym_sizes(), t.options());
}

namespace {

using Tensors = torch::autograd::tensor_list;
using torch::autograd::AutogradContext;

// ---- CPU

void parallel(int count, const std::function<void(int)> &f) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++) f(static_cast<int>(part));
  });
}

template <class T>
class OnCpu {
 public:
  OnCpu(std::string_view product, const Tensor &senders, const Tensor &receivers, const Tensor &x, int64_t num_nodes)
      : convolution_(cached<EdgeConvolution<T>>(
            product, [&] { return std::make_unique<EdgeConvolution<T>>(product_of(product)); })),
        edges_{senders.numel(), senders.const_data_ptr<int64_t>(), receivers.const_data_ptr<int64_t>(), x.size(0),
               num_nodes} {}
  template <class... Arguments>
  void forward(Arguments... arguments) const {
    convolution_.forward(parallel, at::get_num_threads(), edges_, arguments...);
  }
  template <class... Arguments>
  void backward(Arguments... arguments) const {
    convolution_.backward(parallel, at::get_num_threads(), edges_, arguments...);
  }
  template <class... Arguments>
  void double_backward(Arguments... arguments) const {
    convolution_.double_backward(parallel, at::get_num_threads(), edges_, arguments...);
  }

 private:
  const EdgeConvolution<T> &convolution_;
  EdgeList edges_;
};

// ---- shapes alone

Tensor convolution_meta(const Tensor &x, const Tensor &y, const Tensor &w, const Tensor &senders,
                        const Tensor &receivers, c10::SymInt num_nodes, std::string_view product) {
  const OperatorProduct &p = check({x, y, w, senders, receivers, product});
  return at::empty_symint({std::move(num_nodes), p.product.irreps_out.dim()}, x.options());
}

std::tuple<Tensor, Tensor, Tensor> backward_meta(const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                                                 const Tensor &senders, const Tensor &receivers,
                                                 std::string_view product) {
  const Inputs inputs{x, y, w, senders, receivers, product};
  check_cotangent(inputs, check(inputs), g);
  return {empty_as(x), empty_as(y), empty_as(w)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> double_backward_meta(const OptionalTensor &, const OptionalTensor &,
                                                                const OptionalTensor &, const Tensor &g,
                                                                const Tensor &x, const Tensor &y, const Tensor &w,
                                                                const Tensor &senders, const Tensor &receivers,
                                                                std::string_view product) {
  const Inputs inputs{x, y, w, senders, receivers, product};
  check_cotangent(inputs, check(inputs), g);
  return {empty_as(g), empty_as(x), empty_as(y), empty_as(w)};
}

// ---- autograd

// An operator by name, called through the dispatcher; its signature is that of `like`.
template <class Signature, class... Arguments>
auto call(const char *name, [[maybe_unused]] Signature *like, Arguments &&...arguments) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>().call(
      std::forward<Arguments>(arguments)...);
}

// Stores the inputs of an operator in its context.
void save(AutogradContext *context, Tensors tensors, std::string_view product) {
  context->set_materialize_grads(false);
  context->save_for_backward(std::move(tensors));
  context->saved_data["product"] = std::string(product);
}

std::string product_of(AutogradContext *context) {
  return context->saved_data["product"].toStringRef();
}

struct DoubleBackward : torch::autograd::Function<DoubleBackward> {
  template <class... Arguments>
  static Tensors forward(AutogradContext *, const Arguments &...arguments) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [g_adj, x_adj, y_adj, w_adj] =
        call("equi::convolution_double_backward", double_backward_meta, arguments...);
    return {g_adj, x_adj, y_adj, w_adj};
  }
  static Tensors backward(AutogradContext *, const Tensors &) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "equi: the convolution has first and second derivatives; a third was asked for");
  }
};

struct Backward : torch::autograd::Function<Backward> {
  static Tensors forward(AutogradContext *context, const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                         const Tensor &senders, const Tensor &receivers, std::string_view product) {
    save(context, {g, x, y, w, senders, receivers}, product);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [x_adj, y_adj, w_adj] =
        call("equi::convolution_backward", backward_meta, g, x, y, w, senders, receivers, product);
    return {x_adj, y_adj, w_adj};
  }
  static Tensors backward(AutogradContext *context, const Tensors &tangents) {
    const Tensors s = context->get_saved_variables();
    const auto tangent = [&](int k) { return tangents[k].defined() ? OptionalTensor(tangents[k]) : OptionalTensor(); };
    const auto [g_adj, x_adj, y_adj, w_adj] =
        call("equi::convolution_double_backward", double_backward_meta, tangent(0), tangent(1), tangent(2), s[0], s[1],
             s[2], s[3], s[4], s[5], product_of(context));
    return {g_adj, x_adj, y_adj, w_adj, Tensor(), Tensor(), Tensor()};
  }
};

struct Forward : torch::autograd::Function<Forward> {
  static Tensor forward(AutogradContext *context, const Tensor &x, const Tensor &y, const Tensor &w,
                        const Tensor &senders, const Tensor &receivers, c10::SymInt num_nodes,
                        std::string_view product) {
    save(context, {x, y, w, senders, receivers}, product);
    const at::AutoDispatchBelowADInplaceOrView below;
    return call("equi::convolution", convolution_meta, x, y, w, senders, receivers, std::move(num_nodes), product);
  }
  static Tensors backward(AutogradContext *context, const Tensors &cotangents) {
    if (!cotangents[0].defined()) return Tensors(7);
    const Tensors s = context->get_saved_variables();
    const auto [x_adj, y_adj, w_adj] = call("equi::convolution_backward", backward_meta, cotangents[0], s[0], s[1],
                                            s[2], s[3], s[4], product_of(context));
    return {x_adj, y_adj, w_adj, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The kernel of an operator with the signature of `like`, which Function differentiates.
template <class Function, class Result, class... Arguments>
auto differentiated([[maybe_unused]] Result (*like)(Arguments...)) {
  return +[](Arguments... arguments) -> Result {
    auto result = Function::apply(std::forward<Arguments>(arguments)...);
    if constexpr (std::is_same_v<Result, Tensor>)
      return result;
    else
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return Result(result[I]...);
      }
    (std::make_index_sequence<std::tuple_size_v<Result>>());
  };
}

}    // namespace

TORCH_LIBRARY(equi, m) {
  m.def(
      "convolution(Tensor x, Tensor y, Tensor w, Tensor senders, Tensor receivers, SymInt num_nodes, str product) -> "
      "Tensor");
  m.def(
      "convolution_backward(Tensor g, Tensor x, Tensor y, Tensor w, Tensor senders, Tensor receivers, str product) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "convolution_double_backward(Tensor? x_tangent, Tensor? y_tangent, Tensor? w_tangent, Tensor g, Tensor x, "
      "Tensor y, Tensor w, Tensor senders, Tensor receivers, str product) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(equi, CPU, m) {
  OperatorsOn<OnCpu>::enter(m);
}

TORCH_LIBRARY_IMPL(equi, Meta, m) {
  m.impl("convolution", convolution_meta);
  m.impl("convolution_backward", backward_meta);
  m.impl("convolution_double_backward", double_backward_meta);
}

TORCH_LIBRARY_IMPL(equi, Autograd, m) {
  m.impl("convolution", differentiated<Forward>(convolution_meta));
  m.impl("convolution_backward", differentiated<Backward>(backward_meta));
  m.impl("convolution_double_backward", differentiated<DoubleBackward>(double_backward_meta));
}

}    // namespace equi
