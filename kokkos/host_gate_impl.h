// The gates of one instruction set, included by host_kernels_impl.h.
//
// Channels are taken in blocks that the compiler vectorises. The exponential is glibc's vector version where there is
// one (errors to 4 units in the last place); its declaration says so to the compiler without the unsafe options that
// the C library's header asks for.
#if defined(__GLIBC__) && defined(__x86_64__)
extern "C" {
__attribute__((simd("notinbranch"), const)) float expf(float) noexcept;
__attribute__((simd("notinbranch"), const)) double exp(double) noexcept;
}
#endif

namespace equi {
namespace EQUI_ISA {

constexpr int GATE_BLOCK = 16;

inline float exponential(float x) {
  return expf(x);
}
inline double exponential(double x) {
  return exp(x);
}

// value[k] = scale a(z[k]), derivative[k] = scale a'(z[k]) for a block of channels; those beyond `count` are taken as
// 0.
template <class T>
static void activate_block(Activation activation, T scale, const T *z, int count, T *value, T *derivative) {
  T x[GATE_BLOCK];
  for (int k = 0; k < GATE_BLOCK; k++) x[k] = k < count ? z[k] : T(0);
  if (activation == Activation::silu) {
    T e[GATE_BLOCK];
    for (int k = 0; k < GATE_BLOCK; k++) e[k] = exponential(-x[k]);
    for (int k = 0; k < GATE_BLOCK; k++) {
      const T s = T(1) / (T(1) + e[k]);
      value[k] = scale * (x[k] * s);
      derivative[k] = scale * (s * (T(1) + x[k] * (T(1) - s)));
    }
    return;
  }
  for (int k = 0; k < count; k++) {
    const auto a = activate(activation, x[k]);
    value[k] = scale * a.value;
    derivative[k] = scale * a.derivative;
  }
}

template <class T>
static void gate_forward(const GateCall<T> &g) {
  T value[GATE_BLOCK], derivative[GATE_BLOCK];
  for (int64_t r = 0; r < g.rows; r++)
    for (int u = 0; u < g.mul; u += GATE_BLOCK) {
      const int count = g.mul - u < GATE_BLOCK ? g.mul - u : GATE_BLOCK;
      const T *z = g.z + r * g.z_width + u;
      T *x = g.x + r * g.x_width + u;
      activate_block(g.activation, g.scale, g.gate ? g.gate + r * g.gate_width + u : z, count, value, derivative);
      if (!g.gate)
        for (int k = 0; k < count; k++) x[k] = value[k];
      else
        for (int m = 0; m < g.dim; m++)
          for (int k = 0; k < count; k++) x[m * g.x_stride + k] = z[m * g.z_stride + k] * value[k];
      // What reads x may multiply these channels with zero weights, which must not meet NaN.
      if (u + GATE_BLOCK >= g.mul)
        for (int m = 0; m < g.dim; m++)
          for (int k = count; k < count + g.padding; k++) x[m * g.x_stride + k] = 0;
    }
}

template <class T>
static void gate_backward(const GateCall<T> &g) {
  T value[GATE_BLOCK], derivative[GATE_BLOCK], sum[GATE_BLOCK];
  for (int64_t r = 0; r < g.rows; r++)
    for (int u = 0; u < g.mul; u += GATE_BLOCK) {
      const int count = g.mul - u < GATE_BLOCK ? g.mul - u : GATE_BLOCK;
      T *z = g.z + r * g.z_width + u, *gate = g.gate ? g.gate + r * g.gate_width + u : nullptr;
      const T *x = g.x + r * g.x_width + u;
      activate_block(g.activation, g.scale, gate ? gate : z, count, value, derivative);
      if (!gate) {
        for (int k = 0; k < count; k++) z[k] = x[k] * derivative[k];
        continue;
      }
      for (int k = 0; k < count; k++) sum[k] = 0;
      for (int m = 0; m < g.dim; m++)
        for (int k = 0; k < count; k++) {
          T &zm = z[m * g.z_stride + k];
          const T xm = x[m * g.x_stride + k];
          sum[k] += zm * xm;
          zm = xm * value[k];
        }
      for (int k = 0; k < count; k++) gate[k] = derivative[k] * sum[k];
    }
}

}    // namespace EQUI_ISA
}    // namespace equi
