// SPDX-License-Identifier: MIT
// Files for all systems: the numbers that the reader computes from the mixture, compared with explicit sums, and what
// it refuses.
#include "unittest/support/expect_refusal.h"
#include "unittest/support/mixture_builder.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <functional>

namespace equi {
namespace testing {
namespace {

constexpr double SAME = 1e-14;
using Vector = std::vector<double>;

ModelDocument document() {
  return with_mixture(make_tiny_model({}));
}

Model model(const ModelDocument &d, const AtomicSystem &system) {
  return parse_model(d.bytes(), "tiny.equi", system);
}

Vector silu_of(const ModelDocument &d, const Vector &x, const char *weight, const char *bias) {
  const DocumentTensor &w = d.tensors.at(weight);
  Vector y = d.tensors.at(bias).values;
  for (size_t j = 0; j < y.size(); ++j) {
    for (size_t i = 0; i < x.size(); ++i) y[j] += x[i] * w.values[i * y.size() + j];
    y[j] *= 1.0 / (1.0 + std::exp(-y[j]));
  }
  return y;
}

void append(Vector &to, const ModelDocument &d, const char *name, int row) {
  const DocumentTensor &t = d.tensors.at(name);
  to.insert(to.end(), t.values.begin() + row * t.shape[1], t.values.begin() + (row + 1) * t.shape[1]);
}

// fractions: of the two elements; with further atoms their sum is not one.
void expect_made_for(const ModelDocument &d, const Model &m, int charge, int spin, int task, const Vector &fractions) {
  Vector x;
  append(x, d, "system.charge", charge + 2);
  append(x, d, "system.spin", spin);
  append(x, d, "system.task", task);
  const Vector embedding = silu_of(d, x, "system.weight", "system.bias");
  x.assign(4, 0.0);
  for (int s = 0; s < 2; ++s)
    for (int k = 0; k < 4; ++k) x[k] += fractions[s] * d.tensors.at("composition").values[4 * s + k];
  x.insert(x.end(), embedding.begin(), embedding.end());
  Vector c = silu_of(d, silu_of(d, x, "mix.0", "mix.0.bias"), "mix.1", "mix.1.bias");
  // A long double holds the exponentials.
  std::vector<long double> exponentials;
  long double sum = 0.0;
  for (const double v : c) {
    exponentials.push_back(std::exp(static_cast<long double>(v)));
    sum += exponentials.back();
  }
  for (size_t e = 0; e < c.size(); ++e) c[e] = static_cast<double>(exponentials[e] / sum + 0.005L);

  bool has_linear = false;
  for (const Layer &layer : m.layers) {
    if (const auto *e = std::get_if<SpeciesEmbedding>(&layer)) {
      for (size_t i = 0; i < e->weight.data.size(); ++i)
        EXPECT_NEAR(e->weight.data[i], d.tensors.at("embedding").values[i] + embedding[i % embedding.size()], SAME);
    }
    if (const auto *s = std::get_if<ScaleShift>(&layer)) {
      EXPECT_EQ(s->shift, Vector(d.tensors.at("shift").values.begin() + 2 * task,
                                 d.tensors.at("shift").values.begin() + 2 * task + 2));
    }
    if (const auto *l = std::get_if<Linear>(&layer); l && !has_linear) {
      has_linear = true;
      const Json field = *std::find_if(d.document["layers"].begin(), d.document["layers"].end(),
                                       [](const Json &f) { return f["type"] == "linear"; });
      const Vector &all = d.tensors.at(field["blocks"][0]["weight"]).values;
      const Vector &found = l->blocks[0].weight[0].data;
      ASSERT_EQ(3 * found.size(), all.size());
      const double scale = field["blocks"][0]["scale"];
      for (size_t i = 0; i < found.size(); ++i) {
        double mixed = 0.0;
        for (size_t e = 0; e < 3; ++e) mixed += c[e] * all[e * found.size() + i];
        EXPECT_NEAR(found[i], scale * mixed, SAME * 10);
      }
    }
  }
  EXPECT_TRUE(has_linear);
}

TEST(Mixture, is_made_for_charge_spin_task_and_composition) {
  const ModelDocument d = document();
  expect_made_for(d, model(d, {}), 0, 0, 0, {0.5, 0.5});
  expect_made_for(d, model(d, {"b", {}, {}, {}}), 0, 1, 1, {0.5, 0.5});
  expect_made_for(d, model(d, {"a", -2, 2, {{"Na", 3}, {"Cl", 1}}}), -2, 2, 0, {0.75, 0.25});
  expect_made_for(d, model(d, {"b", 2, 0, {{"Cl", 4}}}), 2, 0, 1, {0.0, 1.0});
  ModelDocument further = d;
  further.document["mixture"]["experts"]["extra_atoms"] = 1;
  expect_made_for(further, model(further, {"b", 2, 0, {{"Na", 2}, {"Cl", 1}}}), 2, 0, 1, {0.5, 0.25});
}

TEST(Mixture, has_coefficients_of_any_size) {
  ModelDocument d = document();
  for (const Vector &numbers : {Vector{1000.0, 1001.5, -2000.0}, Vector{-800.0, -5000.0, -720.0}}) {
    d.tensors.at("mix.1.bias").values = numbers;
    expect_made_for(d, model(d, {"b", 1, 2, {}}), 1, 2, 1, {0.5, 0.5});
  }
}

TEST(Mixture, multiplies_targets_by_the_charge_and_the_spin) {
  TinyModelOptions o;
  o.balanced_channels = 2;
  for (const bool is_charge : {true, false}) {
    ModelDocument d = with_mixture(make_tiny_model(o));
    std::string target;
    for (const Json &layer : d.document["layers"])
      if (layer["type"] == "channel_balance") target = layer["target"];
    d.document["mixture"]["tensors"][target] = is_charge ? "charge" : "spin";
    const Model m = model(d, {"b", -2, 0, {{"Na", 1}, {"Cl", 1}}});
    const ChannelBalance *last = nullptr;
    for (const Layer &layer : m.layers)
      if (const auto *b = std::get_if<ChannelBalance>(&layer)) last = b;
    ASSERT_TRUE(last);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_EQ(last->target[k], d.tensors.at(target).values[k] * (is_charge ? -2.0 : -1.0));
  }
}

// A mixture that depends only on the charge, as in TensorNet2: no tasks, no embedding.
ModelDocument charged_document() {
  TinyModelOptions o;
  o.balanced_channels = 2;
  ModelDocument d = make_tiny_model(o);
  for (const Json &layer : d.document["layers"])
    if (layer["type"] == "channel_balance") d.document["mixture"]["tensors"][std::string(layer["target"])] = "charge";
  return d;
}

TEST(Mixture, may_depend_on_the_charge_alone) {
  ModelDocument d = charged_document();
  d.document["self_check"] = {{{"name", "atom"},
                               {"symbols", {"Na"}},
                               {"pbc", {false, false, false}},
                               {"positions", {{0.0, 0.0, 0.0}}},
                               {"energy", 1.0},
                               {"forces", {{0.0, 0.0, 0.0}}}}};
  for (const int charge : {0, 3, -2}) {
    const Model m = model(d, {"", charge, {}, {{"Na", 1}}});
    std::vector<Vector> found, expected;
    for (const Layer &layer : m.layers)
      if (const auto *b = std::get_if<ChannelBalance>(&layer)) found.push_back(b->target);
    for (const Json &layer : d.document["layers"])
      if (layer["type"] == "channel_balance") {
        expected.push_back(d.tensors.at(layer["target"]).values);
        for (double &v : expected.back()) v *= charge;
      }
    EXPECT_EQ(found, expected);
    EXPECT_GE(found.size(), 1U);
    EXPECT_EQ(m.mixture->describe(), "charge " + std::to_string(charge));
    EXPECT_TRUE(m.mixture->tasks.empty() && m.composition.empty());
    // Stored values belong to a neutral system.
    EXPECT_EQ(m.self_check.size(), charge == 0 ? 1U : 0U);
  }
  EXPECT_EQ(model(d, {}).mixture->charge, 0);
}

// What a charge or a number of unpaired electrons adds to the scalars of a species.
Vector share_of(const ModelDocument &d, const std::string &kind, int number, int species, const Vector &atoms) {
  const auto at = [&](const char *part, size_t i) { return d.tensors.at(kind + "." + part).values[i]; };
  const size_t sign = number < 0 ? 1 : 0, channels = d.tensors.at("embedding").shape[1];
  const auto weight = [&](size_t s) {
    double score = 0.0;
    for (size_t k = 0; k < 4; ++k) score += 0.5 * at("query", 4 * s + k) * at("key", 4 * sign + k);
    return std::log(1.0 + std::exp(score));
  };
  double sum = 0.01;
  for (size_t s = 0; s < atoms.size(); ++s) sum += atoms[s] * weight(s);
  const auto silu = [](double x) { return x / (1.0 + std::exp(-x)); };
  Vector x(channels), hidden(6, 0.0);
  for (size_t c = 0; c < channels; ++c) x[c] = number * weight(species) / sum * at("value", sign * channels + c);
  Vector y = x;
  for (size_t h = 0; h < 6; ++h) {
    for (size_t c = 0; c < channels; ++c) hidden[h] += silu(x[c]) * at("first", 6 * c + h);
    for (size_t c = 0; c < channels; ++c) y[c] += silu(hidden[h]) * at("second", channels * h + c);
  }
  return y;
}

TEST(Mixture, divides_a_charge_and_a_spin_among_the_atoms) {
  const ModelDocument d = with_shares(make_tiny_model({}));
  const Vector &stored = d.tensors.at("embedding").values;
  const size_t channels = d.tensors.at("embedding").shape[1];
  for (const auto &[charge, spin] : {std::pair{0, 1}, {2, 1}, {-1, 2}, {0, 4}}) {
    const Model m = model(d, {"", charge, spin, {{"Na", 3}, {"Cl", 1}}});
    const auto *e = std::get_if<SpeciesEmbedding>(&m.layers.front());
    ASSERT_TRUE(e);
    for (int s = 0; s < 2; ++s) {
      const Vector of_charge = share_of(d, "charge", charge, s, {3.0, 1.0}),
                   of_spin = share_of(d, "spin", spin - 1, s, {3.0, 1.0});
      for (size_t c = 0; c < channels; ++c)
        EXPECT_NEAR(e->weight.data[s * channels + c], stored[s * channels + c] + of_charge[c] + of_spin[c], SAME * 10);
    }
    EXPECT_EQ(m.mixture->describe(), "charge " + std::to_string(charge) + ", spin " + std::to_string(spin));
    // The numbers of atoms matter only if there is something to divide.
    EXPECT_EQ(m.mixture->depends_on_number, charge != 0 || spin != 1);
    EXPECT_EQ(m.mixture->depends_on_composition, charge != 0 || spin != 1);
  }
  EXPECT_EQ(model(d, {}).mixture->spin, 1);
}

TEST(Mixture, refuses_shares_that_do_not_fit) {
  const auto refused = [](const std::function<void(Json &, ModelDocument &)> &change,
                          const std::vector<std::string> &parts) {
    ModelDocument d = with_shares(make_tiny_model({}));
    change(d.document["mixture"], d);
    expect_refusal(d.bytes(), parts);
  };
  refused([](Json &m, ModelDocument &) { m["shares"]["charge"]["query"] = "charge.first"; },
          {"mixture.shares.charge.query", "[2, n]"});
  refused([](Json &m, ModelDocument &) { m["shares"]["charge"]["weights"].erase(1); }, {"shares.charge.weights"});
  refused([](Json &m, ModelDocument &) { m["shares"]["spin"]["epsilon"] = 0.0; }, {"shares.spin.epsilon"});
  refused([](Json &m, ModelDocument &) { m["shares"]["task"] = m["shares"]["spin"]; }, {"task"});
  refused([](Json &m, ModelDocument &) { m["tensors"]["shift"] = "shares"; },
          {"mixture.tensors", "as many as the shares"});
  refused([](Json &m, ModelDocument &) { m.erase("shares"); }, {"mixture.tensors"});
  refused(
      [](Json &m, ModelDocument &d) {
        const Json shares = m["shares"];
        d = document();
        d.document["mixture"]["shares"] = shares;
      },
      {"mixture.shares", "no shares beside tasks"});
}

// The rows of the embedding and the shifts for two numbers of the system.
void expect_inputs(const ModelDocument &d, const Model &m, double temperature, int charge) {
  const auto at = [&](const char *name) { return d.tensors.at(name).values; };
  const auto silu = [](double x) { return x / (1.0 + std::exp(-x)); };
  Vector e(6, 0.0);
  for (int j = 0; j < 4; ++j) {
    e[j] = at("in.second.bias")[j];
    for (int i = 0; i < 3; ++i)
      e[j] += at("in.second")[4 * i + j] * silu(at("in.first")[i] * temperature + at("in.first.bias")[i]);
  }
  for (int j = 0; j < 2; ++j) e[4 + j] = at("in.charge")[2 * (charge + 2) + j];
  const auto *rows = std::get_if<SpeciesEmbedding>(&m.layers.front());
  ASSERT_TRUE(rows);
  const size_t channels = d.tensors.at("embedding").shape[1];
  Vector shifts = at("shift");
  for (size_t s = 0; s < 2; ++s)
    for (size_t c = 0; c < channels; ++c) {
      double v = 0.0;
      for (int i = 0; i < 6; ++i) v += e[i] * at("in.weight")[channels * i + c];
      const double row = at("embedding")[channels * s + c] + silu(v);
      EXPECT_NEAR(rows->weight.data[channels * s + c], row, SAME * 10);
      shifts[s] += at("in.readout")[c] * row;
    }
  for (size_t s = 0; s < 2; ++s) EXPECT_NEAR(m.energy_scale().shift[s], shifts[s], SAME * 100);
}

TEST(Mixture, has_inputs_by_the_names_of_the_file) {
  const ModelDocument d = with_inputs(make_tiny_model({}));
  expect_inputs(d, model(d, {}), 0.5, 0);
  expect_inputs(d, model(d, {"", -2, {}, {{"Na", 1}}}), 0.5, -2);
  expect_inputs(d, model(d, {"", {}, {}, {}, {{"elec_temp", -7.25}, {"total_charge", 2.0}}}), -7.25, 2);
  const Model m = model(d, {"", 1, {}, {}, {{"elec_temp", 3.0}}});
  expect_inputs(d, m, 3.0, 1);
  EXPECT_EQ(m.mixture->describe(), "charge 1, elec_temp 3");
  EXPECT_FALSE(m.mixture->depends_on_composition || m.mixture->depends_on_number || m.mixture->is_usual());
  EXPECT_TRUE(model(d, {}).mixture->is_usual());
  const AtomicSystem usual, hot{"", {}, {}, {}, {{"elec_temp", 3.0}}};
  EXPECT_TRUE(m.mixture->is_same_for(hot, hot));
  EXPECT_FALSE(m.mixture->is_same_for(usual, hot));
}

TEST(Mixture, refuses_inputs_that_do_not_fit) {
  const auto refused = [](
                           const AtomicSystem &system, const std::string &part,
                           const std::function<void(Json &)> &change = [](Json &) {}) {
    ModelDocument d = with_inputs(make_tiny_model({}));
    change(d.document["mixture"]);
    try {
      model(d, system);
      ADD_FAILURE() << "accepted; expected " << part;
    } catch (const ModelFileError &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused({"", 3, {}, {}}, "total_charge 3: the model knows those from -2 to 2");
  refused({"", {}, 2, {}}, "no spin: the model does not depend on it");
  refused({"", {}, {}, {}, {{"total_charge", 0.5}}}, "total_charge 0.5: the model knows only whole numbers");
  refused({"", 1, {}, {}, {{"total_charge", 1.0}}}, "two values of total_charge: it is the charge of the system");
  refused({"", {}, {}, {}, {{"pressure", 1.0}}}, "no input pressure: the model has elec_temp, total_charge");
  refused({"", {}, {}, {}, {{"elec_temp", 1e7}}}, "elec_temp 10000000: expected a number of at most 1000000");
  refused({"", {}, {}, {}, {{"elec_temp", NAN}}}, "elec_temp nan");
  refused({"a", {}, {}, {}}, "no task a");
  refused({}, "mixture.inputs.values", [](Json &m) { m["inputs"]["values"] = Json::array(); });
  refused({}, "each name once", [](Json &m) { m["inputs"]["values"][1]["name"] = "elec_temp"; });
  refused({}, "charge, spin or other", [](Json &m) { m["inputs"]["values"][1]["meaning"] = "field"; });
  refused({}, "one input that is the charge", [](Json &m) { m["inputs"]["values"][0]["meaning"] = "charge"; });
  refused({}, "inputs.weight", [](Json &m) { m["inputs"]["values"].erase(1); });
  refused({}, "mixture.tensors.shift", [](Json &m) { m["inputs"].erase("readout"); });
  refused({}, "mixture.tensors", [](Json &m) { m["tensors"]["shift"] = "inputs"; });
  refused({}, "mixture.tensors", [](Json &m) { m["tensors"].erase("embedding"); });
  refused({}, "no inputs beside tasks or shares", [](Json &m) { m["shares"] = Json::object(); });
}

TEST(Mixture, says_what_it_has_been_made_for) {
  const Model m = model(document(), {"b", -1, {}, {{"Na", 3}}});
  ASSERT_TRUE(m.mixture);
  EXPECT_EQ(m.mixture->describe(), "task b, charge -1, spin 1");
  EXPECT_EQ(m.mixture->tasks, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(m.mixture->depends_on_composition);
  EXPECT_FALSE(m.mixture->depends_on_number);
  EXPECT_EQ(m.composition, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(formula(m.composition, m.elements), "Na3");
  EXPECT_TRUE(model(document(), {}).composition.empty());
  EXPECT_FALSE(make_tiny_model({}).model().mixture);
}

TEST(Mixture, is_the_same_for_systems_of_the_same_fractions) {
  const AtomicSystem few{"b", -1, {}, {{"Cl", 1}, {"Na", 3}}}, many{"b", -1, {}, {{"Cl", 7}, {"Na", 21}}},
      other{"b", -1, {}, {{"Cl", 7}, {"Na", 20}}}, nothing{"b", -1, {}, {}}, sodium{"b", -1, {}, {{"Na", 4}}};
  Mixture m;
  m.depends_on_composition = true;
  EXPECT_TRUE(m.is_same_for(few, many));
  EXPECT_TRUE(m.is_same_for(many, few));
  for (const AtomicSystem *system : {&other, &nothing, &sodium}) {
    EXPECT_FALSE(m.is_same_for(few, *system));
    EXPECT_FALSE(m.is_same_for(*system, few));
  }
  AtomicSystem charged = many, turned = many, trained = many;
  charged.charge = 0;
  turned.spin = 1;
  trained.task = "a";
  for (const AtomicSystem *system : {&charged, &turned, &trained}) EXPECT_FALSE(m.is_same_for(few, *system));

  m.depends_on_number = true;
  EXPECT_FALSE(m.is_same_for(few, many));
  EXPECT_TRUE(m.is_same_for(many, many));
  m.depends_on_composition = m.depends_on_number = false;
  EXPECT_TRUE(m.is_same_for(few, other));
  EXPECT_FALSE(m.is_same_for(few, charged));
}

TEST(Mixture, refuses_systems_that_it_does_not_know) {
  const auto refused = [](const AtomicSystem &system, const char *part, const ModelDocument &d = document()) {
    try {
      model(d, system);
      ADD_FAILURE() << "accepted; expected " << part;
    } catch (const ModelFileError &e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused({"c", {}, {}, {}}, "no task c; the model has a, b");
  refused({"", 3, {}, {}}, "charge 3: the model knows those from -2 to 2");
  refused({"", {}, -1, {}}, "spin -1: the model knows those from 0 to 2");
  refused({"", {}, {}, {{"O", 1}}}, "does not know element O");
  refused({"", 0, {}, {}}, "expected no task, charge, spin or other input", make_tiny_model({}));
  refused({"a", {}, {}, {}}, "no task a: the model has no tasks", charged_document());
  refused({"", 1, 2, {}}, "no spin: the model does not depend on it", charged_document());
  ModelDocument of_spin = charged_document();
  for (auto &kind : of_spin.document["mixture"]["tensors"]) kind = "spin";
  refused({"", 1, 2, {}}, "no charge: the model does not depend on it", of_spin);
}

TEST(Mixture, refuses_documents_that_do_not_fit) {
  const auto refused = [](const std::function<void(Json &, ModelDocument &)> &change,
                          const std::vector<std::string> &parts) {
    ModelDocument d = document();
    change(d.document["mixture"], d);
    expect_refusal(d.bytes(), parts);
  };
  refused(
      [](Json &m, ModelDocument &) {
        m["tasks"].push_back({{"name", "c"}, {"spin", 0}});
      },
      {"embedding.task", "[3, n]"});
  refused([](Json &m, ModelDocument &) { m["tensors"]["shift"] = "experts"; }, {"mixture.tensors", "3 experts"});
  refused([](Json &m, ModelDocument &) { m["tensors"]["shift"] = "embedding"; }, {"mixture.tensors", "rows of 5"});
  refused([](Json &m, ModelDocument &) { m["tensors"]["shift"] = "other"; },
          {"mixture.tensors", "embedding, experts, shares, inputs, inputs_energy, task, charge, spin or spin_charges"});
  refused([](Json &m, ModelDocument &) { m["tensors"]["system.task"] = "task"; }, {"mixture.tensors", "nothing else"});
  refused([](Json &m, ModelDocument &) { m["tensors"].erase("shift"); }, {"shape [2]", "[2, 2]"});
  refused([](Json &m, ModelDocument &) { m.erase("experts"); }, {"mixture.tensors"});
  refused([](Json &m, ModelDocument &) { m["more"] = 1; }, {"more"});
  refused([](Json &m, ModelDocument &) { m["tasks"] = Json::array(); }, {"mixture.tasks"});
  refused([](Json &m, ModelDocument &) { m["experts"]["biases"].erase(1); }, {"mixture.experts.biases"});
  refused([](Json &m, ModelDocument &) { m["experts"]["least"] = -0.1; }, {"mixture.experts.least"});
  refused([](Json &m, ModelDocument &) { m["embedding"]["spin"]["first"] = 1; }, {"spin 0"});
  refused([](Json &, ModelDocument &d) { d.document["composition"] = {{"Na", 1}, {"Cl", 1}}; }, {"composition"});
  for (const char *missing : {"tasks", "embedding"})
    refused([&](Json &m, ModelDocument &) { m.erase(missing); }, {"mixture." + std::string(missing)});
  for (const char *kind : {"task", "experts", "embedding"}) {
    ModelDocument charged = charged_document();
    for (auto &of_tensor : charged.document["mixture"]["tensors"]) of_tensor = kind;
    expect_refusal(charged.bytes(), {"mixture.tensors"});
  }
}

}    // namespace
}    // namespace testing
}    // namespace equi
