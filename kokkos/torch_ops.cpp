// torch.ops.equi: the convolution with weights of edges (edge_convolution.h) as operators of Torch, for training.
//
// convolution, its backward and its double backward are registered with the dispatcher: for the CPU, for shapes alone
// (Meta: torch.compile and torch.export), and for autograd. Each is the gradient of the one before; the double backward
// has none.
#include "edge_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

namespace equi {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Tensors = torch::autograd::tensor_list;
using torch::autograd::AutogradContext;

// Product and kernels of a text, made at its first use and kept.
template <class V, class Make>
const V &cached(std::string_view text, const Make &make) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<V>, std::less<>> made;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = made.find(text);
  if (found == made.end()) found = made.emplace(text, make()).first;
  return *found->second;
}

const EdgeProduct &product_of(std::string_view text) {
  return cached<EdgeProduct>(text, [&] {
    try {
      return std::make_unique<EdgeProduct>(EdgeProduct::parse(std::string(text)));
    } catch (const std::exception &e) {
      TORCH_CHECK_VALUE(false, "equi: ", e.what());
    }
  });
}

template <class T>
const EdgeConvolution<T> &convolution_of(std::string_view text) {
  const EdgeProduct &product = product_of(text);
  return cached<EdgeConvolution<T>>(text, [&] { return std::make_unique<EdgeConvolution<T>>(product); });
}

// The inputs that all operators have.
struct Inputs {
  const Tensor &x, &y, &w, &senders, &receivers;
  std::string_view product;
};

// Of sizes that are traced it becomes a condition of the traced program.
bool holds(const c10::SymBool &condition) {
  return condition.expect_true(__FILE__, __LINE__);
}

void check_matrix(const char *name, const Tensor &t, const c10::SymInt &rows, int64_t columns, at::ScalarType type) {
  TORCH_CHECK_VALUE(t.dim() == 2, "equi: ", name, ": expected a matrix, found ", t.dim(), " dimensions");
  TORCH_CHECK_VALUE(holds(t.sym_size(0).sym_eq(rows)), "equi: ", name, ": expected ", rows, " rows, found ",
                    t.sym_size(0));
  TORCH_CHECK_VALUE(holds(t.sym_size(1).sym_eq(columns)), "equi: ", name, ": expected ", columns, " columns, found ",
                    t.sym_size(1));
  TORCH_CHECK_TYPE(t.scalar_type() == type, "equi: ", name, ": expected ", type, " as in x, found ", t.scalar_type());
}

const EdgeProduct &check(const Inputs &of) {
  const EdgeProduct &p = product_of(of.product);
  TORCH_CHECK_TYPE(of.x.scalar_type() == at::kFloat || of.x.scalar_type() == at::kDouble,
                   "equi: x: expected float32 or float64, found ", of.x.scalar_type());
  for (const auto &[name, t] :
       {std::pair<const char *, const Tensor &>{"senders", of.senders}, {"receivers", of.receivers}}) {
    TORCH_CHECK_VALUE(t.dim() == 1, "equi: ", name, ": expected a vector, found ", t.dim(), " dimensions");
    TORCH_CHECK_TYPE(t.scalar_type() == at::kLong || t.scalar_type() == at::kInt, "equi: ", name,
                     ": expected integers, found ", t.scalar_type());
  }
  const c10::SymInt edges = of.senders.sym_size(0);
  TORCH_CHECK_VALUE(holds(of.receivers.sym_size(0).sym_eq(edges)), "equi: receivers: expected ", edges,
                    " as senders, found ", of.receivers.sym_size(0));
  check_matrix("x", of.x, of.x.dim() == 2 ? of.x.sym_size(0) : c10::SymInt(0), p.product.irreps_in.dim(),
               of.x.scalar_type());
  check_matrix("y", of.y, edges, p.irreps_edge.dim(), of.x.scalar_type());
  check_matrix("w", of.w, edges, p.product.num_weights(), of.x.scalar_type());
  return p;
}

void check_cotangent(const Inputs &of, const EdgeProduct &p, const Tensor &g) {
  check_matrix("the gradient of the result", g, g.dim() == 2 ? g.sym_size(0) : c10::SymInt(0),
               p.product.irreps_out.dim(), of.x.scalar_type());
}

Tensor empty_as(const Tensor &t) {
  return at::empty_symint(t.sym_sizes(), t.options());
}

// ---- CPU

void parallel(int count, const std::function<void(int)> &f) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++) f(static_cast<int>(part));
  });
}

// Calls f(convolution, edges, x, y, w, T()) for the type of x; all of it is contiguous.
template <class F>
void dispatch(const Inputs &of, int64_t num_nodes, const F &f) {
  const Tensor x = of.x.contiguous(), y = of.y.contiguous(), w = of.w.contiguous();
  const Tensor senders = of.senders.to(at::kLong).contiguous(), receivers = of.receivers.to(at::kLong).contiguous();
  const EdgeList edges{senders.numel(), senders.const_data_ptr<int64_t>(), receivers.const_data_ptr<int64_t>(),
                       x.size(0), num_nodes};
  const auto call = [&](auto number) {
    using T = decltype(number);
    try {
      f(convolution_of<T>(of.product), edges, x.const_data_ptr<T>(), y.const_data_ptr<T>(), w.const_data_ptr<T>(), T());
    } catch (const std::out_of_range &e) {
      TORCH_CHECK_INDEX(false, "equi: ", e.what());
    }
  };
  if (x.scalar_type() == at::kDouble)
    call(double());
  else
    call(float());
}

Tensor convolution_cpu(const Tensor &x, const Tensor &y, const Tensor &w, const Tensor &senders,
                       const Tensor &receivers, int64_t num_nodes, std::string_view product) {
  const Inputs of{x, y, w, senders, receivers, product};
  const EdgeProduct &p = check(of);
  TORCH_CHECK_VALUE(num_nodes >= 0, "equi: num_nodes: expected 0 or more, found ", num_nodes);
  Tensor out = at::empty({num_nodes, p.product.irreps_out.dim()}, x.options());
  dispatch(of, num_nodes, [&](const auto &convolution, const EdgeList &edges, auto px, auto py, auto pw, auto number) {
    convolution.forward(parallel, at::get_num_threads(), edges, px, py, pw, out.data_ptr<decltype(number)>());
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> backward_cpu(const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                                                const Tensor &senders, const Tensor &receivers,
                                                std::string_view product) {
  const Inputs of{x, y, w, senders, receivers, product};
  check_cotangent(of, check(of), g);
  const Tensor gc = g.contiguous();
  Tensor x_adj = empty_as(x), y_adj = empty_as(y), w_adj = empty_as(w);
  dispatch(of, g.size(0), [&](const auto &convolution, const EdgeList &edges, auto px, auto py, auto pw, auto number) {
    using T = decltype(number);
    convolution.backward(parallel, at::get_num_threads(), edges, px, py, pw, gc.const_data_ptr<T>(),
                         x_adj.data_ptr<T>(), y_adj.data_ptr<T>(), w_adj.data_ptr<T>());
  });
  return {x_adj, y_adj, w_adj};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> double_backward_cpu(const OptionalTensor &x_tangent,
                                                               const OptionalTensor &y_tangent,
                                                               const OptionalTensor &w_tangent, const Tensor &g,
                                                               const Tensor &x, const Tensor &y, const Tensor &w,
                                                               const Tensor &senders, const Tensor &receivers,
                                                               std::string_view product) {
  const Inputs of{x, y, w, senders, receivers, product};
  check_cotangent(of, check(of), g);
  const auto tangent = [&](const char *name, const OptionalTensor &t, const Tensor &value) {
    if (!t || !t->defined()) return Tensor();
    check_matrix(name, *t, value.sym_size(0), value.size(1), x.scalar_type());
    return t->contiguous();
  };
  const Tensor gc = g.contiguous(), xt = tangent("the tangent of x", x_tangent, x),
               yt = tangent("the tangent of y", y_tangent, y), wt = tangent("the tangent of w", w_tangent, w);
  Tensor g_adj = empty_as(g), x_adj = empty_as(x), y_adj = empty_as(y), w_adj = empty_as(w);
  dispatch(of, g.size(0), [&](const auto &convolution, const EdgeList &edges, auto px, auto py, auto pw, auto number) {
    using T = decltype(number);
    const auto data = [](const Tensor &t) { return t.defined() ? t.const_data_ptr<T>() : nullptr; };
    convolution.double_backward(parallel, at::get_num_threads(), edges, {px, data(xt)}, {py, data(yt)}, {pw, data(wt)},
                                gc.const_data_ptr<T>(), g_adj.data_ptr<T>(), x_adj.data_ptr<T>(), y_adj.data_ptr<T>(),
                                w_adj.data_ptr<T>());
  });
  return {g_adj, x_adj, y_adj, w_adj};
}

// ---- shapes alone

Tensor convolution_meta(const Tensor &x, const Tensor &y, const Tensor &w, const Tensor &senders,
                        const Tensor &receivers, c10::SymInt num_nodes, std::string_view product) {
  const EdgeProduct &p = check({x, y, w, senders, receivers, product});
  return at::empty_symint({num_nodes, p.product.irreps_out.dim()}, x.options());
}

std::tuple<Tensor, Tensor, Tensor> backward_meta(const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                                                 const Tensor &senders, const Tensor &receivers,
                                                 std::string_view product) {
  const Inputs of{x, y, w, senders, receivers, product};
  check_cotangent(of, check(of), g);
  return {empty_as(x), empty_as(y), empty_as(w)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> double_backward_meta(const OptionalTensor &, const OptionalTensor &,
                                                                const OptionalTensor &, const Tensor &g,
                                                                const Tensor &x, const Tensor &y, const Tensor &w,
                                                                const Tensor &senders, const Tensor &receivers,
                                                                std::string_view product) {
  const Inputs of{x, y, w, senders, receivers, product};
  check_cotangent(of, check(of), g);
  return {empty_as(g), empty_as(x), empty_as(y), empty_as(w)};
}

// ---- autograd

// An operator by name, called through the dispatcher.
template <class Result, class... Arguments>
Result call(const char *name, Arguments... arguments) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Result(Arguments...)>().call(
      std::forward<Arguments>(arguments)...);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> call_double_backward(const OptionalTensor &x_tangent,
                                                                const OptionalTensor &y_tangent,
                                                                const OptionalTensor &w_tangent, const Tensor &g,
                                                                const Tensor &x, const Tensor &y, const Tensor &w,
                                                                const Tensor &senders, const Tensor &receivers,
                                                                std::string_view product) {
  return call<std::tuple<Tensor, Tensor, Tensor, Tensor>, const OptionalTensor &, const OptionalTensor &,
              const OptionalTensor &, const Tensor &, const Tensor &, const Tensor &, const Tensor &, const Tensor &,
              const Tensor &, std::string_view>("equi::convolution_double_backward", x_tangent, y_tangent, w_tangent, g,
                                                x, y, w, senders, receivers, product);
}

std::tuple<Tensor, Tensor, Tensor> call_backward(const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                                                 const Tensor &senders, const Tensor &receivers,
                                                 std::string_view product) {
  return call<std::tuple<Tensor, Tensor, Tensor>, const Tensor &, const Tensor &, const Tensor &, const Tensor &,
              const Tensor &, const Tensor &, std::string_view>("equi::convolution_backward", g, x, y, w, senders,
                                                                receivers, product);
}

Tensor call_convolution(const Tensor &x, const Tensor &y, const Tensor &w, const Tensor &senders,
                        const Tensor &receivers, c10::SymInt num_nodes, std::string_view product) {
  return call<Tensor, const Tensor &, const Tensor &, const Tensor &, const Tensor &, const Tensor &, c10::SymInt,
              std::string_view>("equi::convolution", x, y, w, senders, receivers, num_nodes, product);
}

// What the inputs of an operator are, in its context.
void save(AutogradContext *context, Tensors tensors, std::string_view product) {
  context->set_materialize_grads(false);
  context->save_for_backward(std::move(tensors));
  context->saved_data["product"] = std::string(product);
}

std::string product_of(AutogradContext *context) {
  return context->saved_data["product"].toStringRef();
}

struct DoubleBackward : torch::autograd::Function<DoubleBackward> {
  static Tensors forward(AutogradContext *, const OptionalTensor &x_tangent, const OptionalTensor &y_tangent,
                         const OptionalTensor &w_tangent, const Tensor &g, const Tensor &x, const Tensor &y,
                         const Tensor &w, const Tensor &senders, const Tensor &receivers, std::string_view product) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [g_adj, x_adj, y_adj, w_adj] =
        call_double_backward(x_tangent, y_tangent, w_tangent, g, x, y, w, senders, receivers, product);
    return {g_adj, x_adj, y_adj, w_adj};
  }
  static Tensors backward(AutogradContext *, const Tensors &) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "equi: the convolution has first and second derivatives; a third was asked for");
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor> double_backward_autograd(const OptionalTensor &x_tangent,
                                                                    const OptionalTensor &y_tangent,
                                                                    const OptionalTensor &w_tangent, const Tensor &g,
                                                                    const Tensor &x, const Tensor &y, const Tensor &w,
                                                                    const Tensor &senders, const Tensor &receivers,
                                                                    std::string_view product) {
  const Tensors r = DoubleBackward::apply(x_tangent, y_tangent, w_tangent, g, x, y, w, senders, receivers, product);
  return {r[0], r[1], r[2], r[3]};
}

struct Backward : torch::autograd::Function<Backward> {
  static Tensors forward(AutogradContext *context, const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                         const Tensor &senders, const Tensor &receivers, std::string_view product) {
    save(context, {g, x, y, w, senders, receivers}, product);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [x_adj, y_adj, w_adj] = call_backward(g, x, y, w, senders, receivers, product);
    return {x_adj, y_adj, w_adj};
  }
  static Tensors backward(AutogradContext *context, const Tensors &tangents) {
    const Tensors s = context->get_saved_variables();
    const auto tangent = [&](int k) { return tangents[k].defined() ? OptionalTensor(tangents[k]) : OptionalTensor(); };
    const auto [g_adj, x_adj, y_adj, w_adj] = call_double_backward(tangent(0), tangent(1), tangent(2), s[0], s[1], s[2],
                                                                   s[3], s[4], s[5], product_of(context));
    return {g_adj, x_adj, y_adj, w_adj, Tensor(), Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> backward_autograd(const Tensor &g, const Tensor &x, const Tensor &y, const Tensor &w,
                                                     const Tensor &senders, const Tensor &receivers,
                                                     std::string_view product) {
  const Tensors r = Backward::apply(g, x, y, w, senders, receivers, product);
  return {r[0], r[1], r[2]};
}

struct Forward : torch::autograd::Function<Forward> {
  static Tensor forward(AutogradContext *context, const Tensor &x, const Tensor &y, const Tensor &w,
                        const Tensor &senders, const Tensor &receivers, c10::SymInt num_nodes,
                        std::string_view product) {
    save(context, {x, y, w, senders, receivers}, product);
    const at::AutoDispatchBelowADInplaceOrView below;
    return call_convolution(x, y, w, senders, receivers, std::move(num_nodes), product);
  }
  static Tensors backward(AutogradContext *context, const Tensors &cotangents) {
    if (!cotangents[0].defined()) return Tensors(7);
    const Tensors s = context->get_saved_variables();
    const auto [x_adj, y_adj, w_adj] = call_backward(cotangents[0], s[0], s[1], s[2], s[3], s[4], product_of(context));
    return {x_adj, y_adj, w_adj, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor convolution_autograd(const Tensor &x, const Tensor &y, const Tensor &w, const Tensor &senders,
                            const Tensor &receivers, c10::SymInt num_nodes, std::string_view product) {
  return Forward::apply(x, y, w, senders, receivers, std::move(num_nodes), product);
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
  m.impl("convolution", convolution_cpu);
  m.impl("convolution_backward", backward_cpu);
  m.impl("convolution_double_backward", double_backward_cpu);
}

TORCH_LIBRARY_IMPL(equi, Meta, m) {
  m.impl("convolution", convolution_meta);
  m.impl("convolution_backward", backward_meta);
  m.impl("convolution_double_backward", double_backward_meta);
}

TORCH_LIBRARY_IMPL(equi, Autograd, m) {
  m.impl("convolution", convolution_autograd);
  m.impl("convolution_backward", backward_autograd);
  m.impl("convolution_double_backward", double_backward_autograd);
}

}    // namespace equi
