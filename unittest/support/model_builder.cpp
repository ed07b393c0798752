// SPDX-License-Identifier: MIT
// Makes tiny random models.
#include "unittest/support/model_builder.h"

#include "src/algebra/irreps.h"
#include "unittest/support/layer_maker.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

namespace {

class TinyModelMaker : LayerMaker {
 public:
  using LayerMaker::LayerMaker;

  ModelDocument make() {
    Json &doc = d_.document;
    doc["format"] = "equi";
    doc["format_version"] = MODEL_FORMAT_VERSION;
    doc["framework"] = {{"name", "test"}, {"version", "1"}};
    doc["architecture"] = "SevenNet";
    doc["elements"] = o_.elements;
    doc["cutoff"] = o_.cutoff;
    doc["lmax_edge"] = o_.lmax_edge;
    doc["edge_parity"] = o_.parity;
    doc["provenance"] = {{"source", "unittest/support/model_builder.h"}};
    doc["units"] = {{"energy", "eV"}, {"length", "Angstrom"}};
    doc["self_check"] = Json::array();

    if (o_.nearest > 0) doc["nearest_neighbors"] = {{"count", o_.nearest}};
    if (o_.nearest > 0 && o_.nearest_tolerance >= 0.0) doc["nearest_neighbors"]["tolerance"] = o_.nearest_tolerance;

    doc["radial_basis"] = radial_basis();

    doc["layers"] = Json::array();
    if (o_.local_layers > 0 && o_.local_alone) {
      local_network();
      scale_shift();
      return d_;
    }
    Irreps x(std::vector<IrrepBlock>{{o_.embedding_channels, {0, 1}}});
    add({{"type", "species_embedding"},
         {"output", "x0"},
         {"irreps", x.to_string()},
         {"weight", tensor("embedding", {num_species(), o_.embedding_channels}, 1.0)},
         {"scale", 1.0}});
    for (size_t t = 0; t < o_.hidden.size(); ++t) {
      const Irreps next = Irreps::parse(o_.hidden[t]);
      interaction(static_cast<int>(t), x, next);
      if (o_.balanced_channels > 0) balance(static_cast<int>(t) + 1, next);
      x = next;
    }

    std::string last = "x" + std::to_string(o_.hidden.size());
    if (o_.layer_norm) last = layer_norm(last, x);
    int block = 0;
    while (x[block].irrep != Irrep{0, 1}) ++block;
    std::vector<int> widths = {x[block].mul};
    widths.insert(widths.end(), o_.readout_hidden.begin(), o_.readout_hidden.end());
    widths.push_back(1);
    add({{"type", "readout"},
         {"input", last},
         {"irreps_in", x.to_string()},
         {"block", block},
         {"network", network("readout", widths)}});
    if (o_.direct_forces) direct_forces(static_cast<int>(o_.hidden.size()), x);
    if (o_.repulsion_inside) repulsion("inside");
    if (o_.dispersion_cutoff > 0.0)
      coulomb_and_dispersion(last, x);
    else if (o_.coulomb_cutoff > 0.0)
      coulomb(last, x);
    if (o_.ewald_width > 0.0) ewald(last, x);
    if (o_.potential_width > 0.0) potentials(last, x);
    scale_shift();
    if (o_.local_layers > 0) local_network();
    if (o_.repulsion_outside) repulsion("outside");
    return d_;
  }

 private:
  void scale_shift() {
    add({{"type", "scale_shift"},
         {"scale", tensor("scale", {num_species()}, 1.0)},
         {"shift", tensor("shift", {num_species()}, 1.0)}});
  }

  void direct_forces(int t, const Irreps &x) {
    const Irreps wide = o_.so2_blocks ? x : Irreps::parse(o_.parity ? "3x0e+2x1o" : "3x0e+2x1e");
    const Irreps force = Irreps::parse(o_.parity ? "1x1o" : "1x1e");
    interaction(t, x, wide);
    add(linear("force", "x" + std::to_string(t + 1), wide, "force", force, false, false));
    add({{"type", "direct_forces"},
         {"input", "force"},
         {"irreps_in", force.to_string()},
         {"block", 0},
         {"scale", 1.7}});
  }

  // x_t -> z_t = x_t + SO(2) convolution of its norm -> x_{t+1} = z_t + network of its norm's scalars, as in eSEN.
  void so2_block(int t, const Irreps &x) {
    const std::string n = std::to_string(t), x_name = "x" + n, next_name = "x" + std::to_string(t + 1);
    const Irreps scalars = Irreps::parse("8x0e");
    spherical_norm(x_name, "y" + n, x);
    so2_convolution("so2_" + n, "y" + n, "m" + n);
    add(linear("copy_x" + n, x_name, x, "z" + n, x, false, false));
    add(linear("copy_m" + n, "m" + n, x, "z" + n, x, false, true));
    spherical_norm("z" + n, "v" + n, x);
    if (o_.grid_rings > 0) {
      grid_network("grid" + n, "v" + n, "h" + n, x);
      add(linear("copy_z" + n, "z" + n, x, next_name, x, false, false));
      add(linear("network_out" + n, "h" + n, x, next_name, x, false, true));
      return;
    }
    add(linear("network_in" + n, "v" + n, x, "u" + n, scalars, false, false));
    add({{"type", "gate"},
         {"input", "u" + n},
         {"irreps_in", scalars.to_string()},
         {"output", "h" + n},
         {"irreps_out", scalars.to_string()},
         {"terms", Json::array({{{"out", 0}, {"in", 0}, {"offset", 0}, {"activation", "silu"}, {"scale", 1.0}}})}});
    add(linear("copy_z" + n, "z" + n, x, next_name, x, false, false));
    add(linear("network_out" + n, "h" + n, scalars, next_name, x, false, true));
  }

  // x_t -> self-connection and convolution -> gate -> x_{t+1}, as in SevenNet.
  void interaction(int t, const Irreps &x, const Irreps &next) {
    if (o_.so2_blocks && t >= o_.so2_begin) return so2_block(t, x);
    const std::string n = std::to_string(t), x_name = "x" + n;

    // Gate input: scalars of each parity with the gates behind the even ones, then the gated blocks.
    int even = 0, odd = 0, gates = 0;
    std::vector<IrrepBlock> gated;
    for (const IrrepBlock &b : next) {
      if (b.irrep.l > 0) {
        gated.push_back(b);
        gates += b.mul;
      } else {
        (b.irrep.p > 0 ? even : odd) += b.mul;
      }
    }
    std::vector<IrrepBlock> gate_blocks;
    if (odd > 0) gate_blocks.push_back({odd, {0, -1}});
    const int even_block = static_cast<int>(gate_blocks.size());
    if (even + gates > 0) gate_blocks.push_back({even + gates, {0, 1}});
    const int first_gated = static_cast<int>(gate_blocks.size());
    gate_blocks.insert(gate_blocks.end(), gated.begin(), gated.end());
    const Irreps z(gate_blocks);

    const bool reads_messages = t == 2 && o_.message_reader == "convolution";
    const Irreps sent = reads_messages ? messages_ : x;    // what the convolution reads
    // Paths to every irrep of the gate input, sorted by it.
    struct Path {
      int in, l2;
      IrrepBlock out;
    };
    std::vector<Path> paths;
    for (int i = 0; i < sent.size(); ++i)
      for (int l2 = 0; l2 <= o_.lmax_edge; ++l2)
        for (int l3 = std::abs(sent[i].irrep.l - l2); l3 <= sent[i].irrep.l + l2; ++l3) {
          const Irrep r{l3, sent[i].irrep.p * (o_.parity && l2 % 2 ? -1 : 1)};
          if (std::any_of(z.begin(), z.end(), [&](const IrrepBlock &b) { return b.irrep == r; }))
            paths.push_back({i, l2, {sent[i].mul, r}});
        }
    std::stable_sort(paths.begin(), paths.end(), [](const Path &a, const Path &b) {
      return 2 * a.out.irrep.l + a.out.irrep.p < 2 * b.out.irrep.l + b.out.irrep.p;
    });
    std::vector<IrrepBlock> mid;
    Json path_list = Json::array();
    int num_weights = 0;
    std::map<std::pair<int, int>, int> connected;    // the block of an irrep that uvw paths share
    for (const Path &p : paths) {
      Json item = {
          {"in", p.in}, {"l", p.l2}, {"out", mid.size()}, {"scale", std::sqrt(p.out.irrep.dim()) / o_.denominator}};
      if (o_.r_power && p.l2 > 0) item["r_power"] = p.l2;
      if (o_.connected_channels > 0 && (p.in > 0 || p.l2 > 0)) {
        const auto [block, is_new] =
            connected.try_emplace({p.out.irrep.l, p.out.irrep.p}, static_cast<int>(mid.size()));
        if (is_new) mid.push_back({o_.connected_channels, p.out.irrep});
        item["out"] = block->second;
        item["connection"] = "uvw";
        num_weights += p.out.mul * o_.connected_channels;
      } else {
        mid.push_back(p.out);
        num_weights += p.out.mul;
      }
      path_list.push_back(item);
    }

    const bool adds = o_.adds_self_connection;
    if (!adds) add(linear("sc" + n, x_name, x, "z" + n, z, o_.per_species_linear, false));
    if (o_.late_inputs && t > 0 && t + 1 < static_cast<int>(o_.hidden.size())) {
      const std::string later = std::to_string(t + 1);
      add(linear("late" + n, x_name, x, "w" + later, Irreps(std::vector<IrrepBlock>{{3, {0, 1}}}), false, false));
    }
    const bool is_so2 = o_.so2_lmax >= 0 && t >= o_.so2_begin;
    if (is_so2) {
      const Irreps messages = spherical_irreps(o_.so2_out);
      mid.assign(messages.begin(), messages.end());
    }
    const bool is_attention = o_.attention_heads > 0 && t >= o_.attention_begin;
    if (is_attention) {
      const Irreps messages = attention_irreps(false, t);
      mid.assign(messages.begin(), messages.end());
    }
    const Irreps input = is_so2 ? spherical_irreps(o_.so2_in) : is_attention ? attention_irreps(true, t) : sent;
    std::vector<IrrepBlock> y(input.begin(), input.end());
    const int queries = o_.gates && o_.receiver_scalars > 0 ? num_weights : 0;
    for (const int num : {o_.sender_scalars, o_.receiver_scalars + queries})
      if (num > 0) y.push_back({num, {0, 1}});
    if (!reads_messages) add(linear("lin1_" + n, x_name, x, "y" + n, Irreps(y), false, false));
    if (is_so2)
      so2_convolution("so2_" + n, "y" + n, "m" + n);
    else if (is_attention)
      pair_attention(t, "y" + n, "m" + n);
    else
      add({{"type", "convolution"},
           {"input", reads_messages ? "m1" : "y" + n},
           {"irreps_in", Irreps(y).to_string()},
           {"output", "m" + n},
           {"irreps_out", Irreps(mid).to_string()},
           {"paths", path_list},
           {"radial", radial_network("radial" + n, num_weights, sent.size())}});
    std::string messages = "m" + n;
    if (o_.density) {
      add({{"type", "density_normalization"},
           {"input", messages},
           {"irreps_in", Irreps(mid).to_string()},
           {"output", "d" + n},
           {"irreps_out", Irreps(mid).to_string()},
           {"radial", radial_network("density" + n, 1)},
           {"offset", 0.8},
           {"factor", 0.3}});
      messages = "d" + n;
    }
    add(linear("lin2_" + n, messages, Irreps(mid), "z" + n, z, false, !adds));
    if (adds) add(linear("sc" + n, x_name, x, "z" + n, z, o_.per_species_linear, true));
    if (t == 1 && o_.message_reader == "norm_scale") {
      norm_scale("m1", "n1", Irreps(mid));
      add(linear("lin3_1", "n1", Irreps(mid), "z1", z, false, true));
    }
    if (t == 2 && o_.message_reader == "later") add(linear("lin3_2", "m1", messages_, "z2", z, false, true));
    messages_ = Irreps(mid);
    if (o_.late_inputs && t > 1) {
      const std::string scalars = "3x0e";
      add({{"type", "convolution"},
           {"input", "w" + n},
           {"irreps_in", scalars},
           {"output", "v" + n},
           {"irreps_out", scalars},
           {"paths", {{{"in", 0}, {"l", 0}, {"out", 0}, {"scale", 1.0 / o_.denominator}}}},
           {"radial", radial_network("late_radial" + n, 3, 1)}});
      add(linear("late_out" + n, "v" + n, Irreps::parse(scalars), "z" + n, z, false, true));
    }

    Json terms = Json::array();
    int even_at = 0, odd_at = 0, gate_at = even, gated_at = first_gated;
    for (int k = 0; k < next.size(); ++k) {
      const IrrepBlock &b = next[k];
      Json term = {{"out", k}, {"activation", "silu"}, {"scale", 1.68}};
      if (b.irrep.l > 0) {
        term.update({{"in", gated_at++}, {"offset", 0}, {"gate_in", even_block}, {"gate_offset", gate_at}});
        gate_at += b.mul;
      } else if (b.irrep.p > 0) {
        term.update({{"in", even_block}, {"offset", even_at}});
        even_at += b.mul;
      } else {
        term.update({{"in", 0}, {"offset", odd_at}, {"activation", "tanh"}, {"scale", 1.59}});
        odd_at += b.mul;
      }
      terms.push_back(term);
    }
    const std::string next_name = (o_.balanced_channels > 0 ? "u" : "x") + std::to_string(t + 1);
    const bool is_contracted = o_.contraction_degree > 0, is_normed = !o_.spherical_norm.empty() && !o_.so2_blocks;
    const bool is_last = !is_contracted && !is_normed && o_.grid_rings == 0 && o_.node_product.empty();
    add({{"type", "gate"},
         {"input", "z" + n},
         {"irreps_in", z.to_string()},
         {"output", is_last ? next_name : "a" + n},
         {"irreps_out", next.to_string()},
         {"terms", terms}});
    if (is_contracted) contraction("contraction" + n, "a" + n, next_name, next);
    if (is_normed) spherical_norm("a" + n, next_name, next);
    if (o_.grid_rings > 0) grid_network("grid" + n, "a" + n, next_name, next);
    if (o_.node_product.empty()) return;
    const bool is_pair = o_.node_product == "pair", takes_input = is_pair && t > 0 && x[0].mul == next[0].mul;
    if (!takes_input) norm_scale("a" + n, "s" + n, next);
    if (takes_input)
      node_product({"a" + n, x_name}, {next, x}, next_name, next);
    else if (is_pair)
      node_product({"a" + n, "s" + n}, {next, next}, next_name, next);
    else
      node_product({"s" + n}, {next}, next_name, next);
  }

  Irreps messages_;    // those of the last interaction
};

}    // namespace

ModelDocument make_tiny_model(const TinyModelOptions &options) {
  return TinyModelMaker(options).make();
}

}    // namespace testing
}    // namespace equi
