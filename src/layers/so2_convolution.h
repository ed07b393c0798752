// SPDX-License-Identifier: MIT
// This layer sums over an atom's neighbors messages that are made in a frame whose second axis is the edge. Rotations
// about the edge couple components of one |m| alone, so that maps between features are small matrices for each m, the
// same for all edges (SO(2) convolution).
#ifndef EQUI_SO2_CONVOLUTION_H
#define EQUI_SO2_CONVOLUTION_H

#include "src/functions/radial_function.h"
#include "src/layers/layer.h"

#include <array>
#include <vector>

namespace equi {

// A map between features in the frame of an edge, with rows l = m .. lmax for each m: v_0 = u_0 W_0 + bias, v_m = u_m
// W_m - u_-m W'_m and v_-m = u_m W'_m + u_-m W_m. Indices of rows and columns run over l, then over channels.
struct So2Linear {
  int channels_in, channels_out;
  std::vector<std::array<Matrix, 2>> weights;    // of m = 0 .. mmax: W_m and W'_m, which m = 0 has not
  std::vector<double> bias;                      // of v_0, or empty
  // With a gate v_0 begins with lmax gates for each channel. Then l = 0 is activated, and orders l > 0 are multiplied
  // by the activated gate number l - 1.
  bool has_gate;
  Activation scalar_activation, gate_activation;

  int num_gates(int lmax) const { return has_gate ? lmax : 0; }
};

// Input and output have a block for each l = 0 .. lmax. With D the rotation into the frame of an edge, the message is
// f(r) D^T L(R(r) D [x_j, x_i]): the channels of sender and receiver side by side, orders m up to mmax; R, radial
// factors; L, the linears one after another; f, the cutoff function of the radial basis.
struct So2Convolution {
  int input, output;
  int lmax, mmax;
  RadialFunction radial;    // columns by |m|, then l, then channels of the sender and of the receiver
  std::vector<So2Linear> linears;

  static So2Convolution read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output}; }
  void restrict_to(const KeptSpecies &kept) { kept.radial(radial); }
};

}    // namespace equi

#endif
