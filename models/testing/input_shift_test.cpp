// The part of a layer's input that projections see (model.input_shift), and the bonus of the own token (model.bonus), number by number.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/parts/look.h"
#include "models/parts/ramps.h"
#include "models/testing/language.h"

namespace crosstalk::checks {
namespace {

constexpr int kLength = 6;

/// One sequence of tokens 0, 1, .. in a model with these settings, its parameters random but for some: what is looked at, and
/// the logits.
class Seen {
 public:
  explicit Seen(const Settings& settings, const std::map<std::string, double>& constants = {})
      : run_(language_options_of("linear_attention", settings), language_shape(kLength, kLength, 0, 1), 1,
             true) {
    // The same number for a parameter of a name whatever else the model has.
    for (auto& [name, values] : run_.parameters(0)) {
      Vector drawn = values;
      for (std::size_t i = 0; i < drawn.size(); ++i)
        drawn[i] =
            0.4 * std::sin(1 + static_cast<double>(i) + 7 * static_cast<double>(name.size()) + name.back());
      for (const auto& [part, value] : constants)
        if (part.back() == '.' ? name.find(part) != std::string::npos : name.ends_with(part))
          drawn.assign(drawn.size(), value);
      run_.set_parameter(0, name, drawn);
    }
    graph_ = run_.model.look({kLength, 1, kLength}, look_);
    for (int t = 0; t < kLength; ++t) {
      graph_->batch.tokens->at(0)[t] = t;
      graph_->batch.position->at(0)[t] = t + 1;
      graph_->batch.query->at(0)[t] = graph_->batch.target->at(0)[t] = 0;
    }
    graph_->graph.forward({});
  }
  /// Row t of a tensor that was noted.
  Vector row(const std::string& name, int t) const {
    for (const auto& tensor : look_.tensors) {
      if (tensor.name != name) continue;
      const Tensor<double>& x = tensor.value->value;
      const auto n = x.size() / kLength;
      return Vector(x.at(0) + t * n, x.at(0) + (t + 1) * n);
    }
    throw std::out_of_range("nothing is noted as " + name);
  }
  Vector logits(int t) const {
    const Tensor<double>& y = graph_->output->value;
    return Vector(y.at(0) + t * kTokens, y.at(0) + (t + 1) * kTokens);
  }
  ModelRun<double>& run() { return run_; }

 private:
  ModelRun<double> run_;
  Look<double> look_;
  std::unique_ptr<ModelGraph<double>> graph_;
};

void expect_near(const Vector& got, const Vector& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(InputShift, AShareOfZeroIsNoShift) {
  const Seen plain(Settings{{"model.out_gate", "silu"}});
  const Seen shifted({{"model.input_shift", "static"}, {"model.out_gate", "silu"}}, {{"input_shift.", 0}});
  for (int t = 0; t < kLength; ++t) expect_near(shifted.logits(t), plain.logits(t));
}

TEST(InputShift, AShareOfOneSeesTheTokenBefore) {
  const Seen plain({}), shifted({{"model.input_shift", "static"}}, {{"input_shift.", 1}});
  for (const char* name : {"q", "k", "v"}) {
    for (int t = 1; t < kLength; ++t) expect_near(shifted.row(name, t), plain.row(name, t - 1));
    expect_near(shifted.row(name, 0), Vector(shifted.row(name, 0).size(), 0));  // nothing stands before it
  }
}

TEST(InputShift, EveryProjectionHasAShareOfItsOwn) {
  const Seen plain({}),
      shifted({{"model.input_shift", "static"}},
              {{"input_shift.query", 0}, {"input_shift.key", 1}, {"input_shift.value", 0.25}});
  for (int t = 1; t < kLength; ++t) {
    expect_near(shifted.row("q", t), plain.row("q", t));
    expect_near(shifted.row("k", t), plain.row("k", t - 1));
    Vector mixed = plain.row("v", t);
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += 0.25 * (plain.row("v", t - 1)[i] - mixed[i]);
    expect_near(shifted.row("v", t), mixed);
  }
}

// With weights of 0 behind the tanh the token decides nothing; with others it does.
TEST(InputShift, ATokenDecidesByWhatPassesItsTanh) {
  const Settings token = {{"model.input_shift", "token"}}, fixed = {{"model.input_shift", "static"}};
  const std::map<std::string, double> share = {{"input_shift.query", 0.5},
                                               {"input_shift.key", 0.5},
                                               {"input_shift.value", 0.5},
                                               {"input_shift.all", 0.5}};
  std::map<std::string, double> silent = share, loud = share;
  silent[".down.weight"] = 0;
  const Seen decided(token, silent), same(fixed, share);
  for (int t = 0; t < kLength; ++t) expect_near(decided.logits(t), same.logits(t));
  loud["key.down.weight"] = 0.5, loud["query.down.weight"] = 0, loud["value.down.weight"] = 0;
  const Seen other(token, loud);
  expect_near(other.row("q", 3), same.row("q", 3));
  EXPECT_GT(std::abs(other.row("k", 3)[0] - same.row("k", 3)[0]), 1e-7);
}

// RWKV-7, layer 0 of 2: 1 - (n / N)^0.2 for what asks, 0.9 for decays, 0.7 for keys; half of the exponents in layer 1.
TEST(InputShift, StartsAsTheRampsOfItsSource) {
  const Options options = language_options_of(
      "linear_attention",
      {{"model.input_shift", "static"}, {"model.input_shift_start", "rwkv7"}, {"model.layers", 2}});
  ModelRun<double> run(options, language_shape(), 1, true);
  run.model.initialise(0, 1);
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [name, power] : {std::pair{"query", 0.2}, {"key", 0.7}, {"value", 0.7}}) {
      const Tensor<double> mu =
          run.parameter("layers." + std::to_string(layer) + ".input_shift." + std::string(name));
      for (int n = 0; n < kWidth; ++n)
        EXPECT_NEAR(mu.at(0)[n], 1 - std::pow(n / static_cast<double>(kWidth), power * (1 - layer / 2.)),
                    1e-14);
    }
  }
  const std::vector<double> lifted = shift_starts(4, 1, 0.3);
  EXPECT_NEAR(lifted[2], 1 - 0.5 - 0.3, 1e-15);
}

// logits = E norm(e + W (o + (q.(r k)) v)).
TEST(Bonus, IsTheOwnTokensValueTimesItsProductOfQueryAndKey) {
  Seen seen({{"model.bonus", true}}, {{".bonus", 0.3}, {"norm.gain", 1}, {"norm.bias", 0}});
  const Parameters p = seen.run().parameters(0);
  for (int t = 0; t < kLength; ++t) {
    const Vector q = seen.row("q", t), k = seen.row("k", t), v = seen.row("v", t);
    Vector o = seen.row("retrieved", t);
    double own = 0;
    for (std::size_t i = 0; i < q.size(); ++i) own += 0.3 * q[i] * k[i];
    for (std::size_t i = 0; i < o.size(); ++i) o[i] += own * v[i];
    const auto n = static_cast<std::size_t>(kWidth);
    Vector x(n);
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = p.at("embedding")[static_cast<std::size_t>(t) * n + i];
      for (std::size_t j = 0; j < o.size(); ++j)
        x[i] += p.at("layers.0.output.weight")[i * o.size() + j] * o[j];
      mean += x[i] / static_cast<double>(n);
    }
    for (const double e : x) squares += (e - mean) * (e - mean) / static_cast<double>(n);
    Vector logits(kTokens, 0);
    for (std::size_t a = 0; a < logits.size(); ++a)
      for (std::size_t i = 0; i < n; ++i)
        logits[a] += p.at("embedding")[a * n + i] * (x[i] - mean) / std::sqrt(squares + 1e-5);
    expect_near(seen.logits(t), logits);
  }
}

}  // namespace
}  // namespace crosstalk::checks
