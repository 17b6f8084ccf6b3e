// mLSTM of xLSTM (Beck et al. 2024, arXiv 2405.04517): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/language.h"
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mlstm_test {

CROSSTALK_HALF_LIFE(mlstm, 14.27);

// The weights of the gates start at 0: every token has these half-lives, whatever it is.
TEST(MlstmGates, AreThoseOfNoTokenAtTheStart) {
  for (const bool drawn : {false, true}) {
    Settings settings = {{"model.heads", 2}};
    if (drawn) settings.emplace_back("memory.gate_weights", "drawn");
    ModelRun<double> run(language_options_of("mlstm", settings), language_shape(), 1, false);
    run.model.initialise(0, 1);
    for (const char* gate : {"forget_gate", "input_gate"}) {
      const Tensor<double> w = run.parameter(std::string("layers.0.") + gate + ".weight");
      EXPECT_EQ(std::all_of(w.at(0), w.at(0) + w.size(), [](double x) { return x == 0; }), !drawn) << gate;
    }
  }
}

TEST(Mlstm, GoesOnFromAStateWithoutItsScale) {
  Sequence s{.T = 1, .K = 1, .V = 1, .options = no_options(), .q = {{1}}, .k = {{1}}, .v = {{1}}};
  s.in["log_decay"] = s.in["log_input"] = {{0}}, s.in["s0"] = {{10}};
  expect_close(read("mlstm", s), {{11}});  // S = 10 + 1, n = 1
  s.in["n0"] = {{4}};
  expect_close(read("mlstm", s), {{11. / 5}});
  s.in["m0"] = {{std::log(2.)}};  // S and n are kept by half
  expect_close(read("mlstm", s), {{21. / 9}});
}

// A token after one whose gate is e^20 as large reads the first alone, and nothing where a query asks for nothing.
TEST(Mlstm, FadesToTheLastDigits) {
  Sequence s{.T = 2, .K = 2, .V = 1, .options = no_options(), .q = {{1, 0}, {1, 0}}, .k = {{1, 0}, {0, 1}}};
  s.v = {{3}, {5}};
  s.in["log_decay"] = {{0}, {0}}, s.in["log_input"] = {{0}, {20}};
  expect_close(read("mlstm", s), {{3}, {3}});
  s.in["log_input"] = {{0}, {800}}, s.q[1] = {0, 0};
  expect_close(read("mlstm", s), {{3}, {0}});
}

TEST(MlstmOracle, AConstantOnAllInputGatesDropsOutOnceTheDenominatorRules) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 4);
  s.k = uniform_rows(6, 4, 0.5, 1, 5), s.q = uniform_rows(6, 4, 0.5, 1, 6);  // n.q far from 0
  s.in["log_decay"] = constant_rows(6, 1, 0), s.in["log_input"] = constant_rows(6, 1, 1);
  const Matrix o = read("mlstm", s);
  s.in["log_input"] = constant_rows(6, 1, 700);
  expect_close(read("mlstm", s), o);
}

TEST(MlstmOracle, StaysFiniteAtHugeGates) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 7);
  s.in["log_decay"] = constant_rows(6, 1, -30);
  s.in["log_input"] = {{500}, {-500}, {0}, {300}, {-300}, {800}};
  for (const Vector& o : read("mlstm", s))
    for (const double e : o) EXPECT_TRUE(std::isfinite(e));
}

}  // namespace crosstalk::checks::mlstm_test
