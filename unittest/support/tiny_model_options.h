// SPDX-License-Identifier: MIT
// What a tiny random model of model_builder.h has.
#ifndef EQUI_TEST_TINY_MODEL_OPTIONS_H
#define EQUI_TEST_TINY_MODEL_OPTIONS_H

#include <string>
#include <vector>

namespace equi {
namespace testing {

struct TinyModelOptions {
  std::vector<std::string> elements = {"Na", "Cl"};
  double cutoff = 4.0;
  int lmax_edge = 2;
  bool parity = false;    // harmonics with parity (-1)^l; then hidden may hold odd irreps
  int embedding_channels = 5;
  // What each interaction layer (convolution and gate) produces; the last must hold a 0e block. 0o scalars pass tanh,
  // everything else silu.
  std::vector<std::string> hidden = {"5x0e+3x1e+2x2e", "5x0e"};
  bool per_species_linear = false;      // self-connection with weights of the atom's species
  bool adds_self_connection = false;    // to the messages; else these are added to it
  bool biases = false;                  // on the 0e blocks of the linears, in the radial and readout networks
  bool xplor = true;                    // else the polynomial
  bool cosine = false;                  // neither of the two
  double p = 6.0, r_on = 3.5;
  int num_basis = 4;
  std::vector<int> radial_hidden = {8, 8};
  std::vector<int> readout_hidden = {};    // empty: one matrix
  bool r_power = false;                    // weights times r^l2
  std::string basis = "bessel";            // or gaussian, chebyshev, exp_normal, bernstein, cosine_bump
  int span = 3;                            // cosine_bump
  double gamma = 0.9;                      // bernstein
  std::string transform = "";              // or agnesi, soft
  bool symmetric_r0 = false;               // of the transform
  bool pair_cutoffs = false;               // not with a transform or xplor
  bool late_cutoff = false;                // on the radial weights, not on the basis
  int sender_columns = 0;                  // rows of the species as further inputs of the radial networks
  int receiver_columns = 0;
  // Scalars of these numbers, appended to the input of each convolution, as further inputs of its radial network.
  int sender_scalars = 0;
  int receiver_scalars = 0;
  bool norms = false;                // in the radial networks
  bool activate_last = false;        // in the radial networks of convolutions
  bool pair_factor = false;          // on their outputs
  bool charge_potentials = false;    // as factors of these outputs
  bool gates = false;                // of their outputs, with queries behind the inputs of the receiver
  bool density = false;              // a density normalization behind each convolution
  int contraction_degree = 0;        // a contraction behind each gate up to this degree; then all blocks of an entry of
  int contraction_paths = 3;         // `hidden` have equal multiplicities. Paths per degree and block, at most.
  bool contraction_per_species = true;
  // Behind each gate products of its output ("square": after a scale by norms; "pair": with what a scale by norms makes
  // of it, or with the input of the convolution if that has as many channels and is not of the species alone). Then all
  // blocks of an entry of `hidden` have equal multiplicities.
  std::string node_product = "";
  bool gaunt = false;    // these are products of functions on the sphere; then orders of blocks differ in each entry
  // Behind each gate a spherical norm with the blocks in one group ("all"), with the first one in a group of its own
  // ("first_alone"), or with each in one of its own ("each"). With biases the first one is the only 0e block.
  std::string spherical_norm = "";
  bool channel_weights = false;    // whether the weights of these norms differ by channel
  // Behind each gate a network with hidden layers of these widths at points on so many rings of the sphere; not 0 only
  // where all blocks of an entry of `hidden` have equal multiplicities.
  int grid_rings = 0;
  std::vector<int> grid_hidden = {};
  bool layer_norm = false;          // of what the readout reads; then the last entry of `hidden` has scalars alone
  int balanced_channels = 0;        // of the first 0e block behind each interaction
  bool balance_shares = false;      // by shares that the last channels of the first 0e block say
  bool balance_hardness = false;    // by hardnesses instead, which these channels are after 2 is added to them
  bool late_inputs = false;         // from the third interaction on, also a convolution of the one before the last
  // What also reads the messages of the second interaction: "norm_scale" besides the linear layer, "later" a linear
  // layer of the third interaction, "convolution" that of the third interaction.
  std::string message_reader = "";
  bool repulsion_inside = false;    // before scale_shift
  bool repulsion_outside = false;
  bool repulsion_switch = false, cosine_repulsion = false;
  double coulomb_cutoff = 0.0;    // not 0: a Coulomb energy of the scalars that the readout's input has
  double permittivity = 0.0;      // of its reaction field; 0: it is one of all pairs or has a width
  double coulomb_width = 0.0;     // not 0: of the charges, whose kernel is shifted
  double ewald_width = 0.0;       // not 0: an Ewald sum of charges of three channels with this width
  double ewald_cutoff = 3.2;      // of its wave vectors
  std::string ewald_set = "sphere";
  bool ewald_removes_self = true;
  double potential_width = 0.0;    // not 0: an energy of multipoles of two channels in each other's potentials
  int potential_updates = 1;       // how often they have changed in these potentials
  bool potential_dipoles = false, potential_gradients = false;
  // Not 0: of a dispersion energy, with balanced charges for the Coulomb energy. The two read one feature or two.
  double dispersion_cutoff = 0.0;
  bool far_features = false;
  bool direct_forces = false;    // of one interaction more, which the energy does not see
  int connected_channels = 0;    // not 0: all paths but those of block 0 with l2 = 0 are uvw, to blocks of so many
  // Not -1: from interaction so2_begin on the convolutions are SO(2) convolutions up to this l and so2_mmax, between
  // features of so2_in and so2_out channels for each l, with linears of so2_hidden channels between them.
  int so2_lmax = -1;
  int so2_mmax = 0, so2_begin = 1, so2_in = 5, so2_out = 3;
  std::vector<int> so2_hidden = {4};
  std::string so2_scalars = "silu",
              so2_gates = "sigmoid";    // activations; of the last linear, too, with so2_gate_last
  bool so2_gate_last = false;
  // From interaction so2_begin on blocks are those of eSEN: messages of normalized features, then a network of each
  // atom, each added to what it begins with. All features have so2_in = so2_out channels of each l.
  bool so2_blocks = false;
  // The first linear has a product of functions in place of the gate, its channels twice so2_hidden[0]; with heads,
  // attention with so2_scores scores each.
  bool so2_product = false;
  int so2_heads = 0, so2_scores = 5;
  double so2_gain = 1.0;          // of the linears, for features that a softmax leaves little of
  double so2_vector = 0.4;        // the size of the scores
  double so2_score_bias = 0.3;    // size of the biases of their norm, which moves all scores of a head alike
  // Linear number so2_points has an activation at points on so many rings in place of the gate, with scalars or not;
  // the radial factors are those of linear so2_radial.
  int so2_points = -1, so2_rings = 4, so2_radial = 0;
  bool so2_point_scalars = true;
  // Not 0: from interaction attention_begin on the convolutions are pair attentions with so many heads of
  // attention_channels channels each, and groups of attention_group_channels channels for each of these degrees. From
  // interaction attention_tensors on, their inputs have tensors.
  int attention_heads = 0, attention_channels = 5, attention_group_channels = 7;
  int attention_begin = 0, attention_tensors = 1;
  std::vector<int> attention_degrees = {1, 2};
  std::vector<int> attention_hidden = {6};    // hidden layers of difference networks
  // Not 0: a local network with so many products of tensors, as in Allegro, after all other layers. local_alone: in
  // place of all but scale_shift, which follows. The tensors before and after each product have these irreps, of
  // local_channels channels; the first ones are those of the harmonics. local_more: also steps that Allegro does not
  // have.
  int local_layers = 0;
  std::vector<std::string> local_irreps = {"0e+1o+2e", "0e+1o+2e", "0e"};
  int local_channels = 5, local_scalars = 7, local_embedding = 6;
  std::vector<int> local_first_hidden = {8}, local_hidden = {9};    // of the network of distances, and of all others
  std::string local_activation = "silu";
  double local_gain = 1.5;    // of the functions of the distance
  bool local_alone = true, local_more = false;
  bool local_pairs = false;           // matrices of pairs for the radial basis
  bool local_shared = false;          // one factor of the harmonics for all degrees
  bool local_channelwise = true;      // weights of paths differ by channel
  int nearest = 0;                    // neighbors that an atom sees; 0: all
  double nearest_tolerance = -1.0;    // negative: none
  bool without_cutoff = false;        // no cutoff function
  double denominator = 3.0;
  bool is_double = true;    // F64 tensors, else F32
  unsigned seed = 1;
};

}    // namespace testing
}    // namespace equi

#endif
