// The recurrence's read against the state itself, formed step by step with one-hot values; and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/recurrence.h"

#include "kernels/attention/attention.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/gradcheck.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

using State = std::vector<long double>;  // [T,P]: row i holds what onehot(i) was bound to

/// S_t for t = 0..T, values v_t = onehot(t).
std::vector<State> states(const Values& in, int b, int T, int P) {
  const auto at = [&](const std::string& name, std::size_t i, double otherwise) -> long double {
    return in[name].empty() ? otherwise : in[name][i];
  };
  std::vector<State> all{State(static_cast<std::size_t>(T * P), 0)};
  for (int t = 0; t < T; ++t) {
    const std::size_t bt = static_cast<std::size_t>(b * T + t);
    const double* k = in["k"].data() + bt * static_cast<std::size_t>(P);
    const State& old = all.back();
    State next(old.size());
    for (int i = 0; i < T; ++i) {
      const auto row = static_cast<std::size_t>(i * P);
      long double bound = 0;
      for (int p = 0; p < P; ++p) bound += old[row + static_cast<std::size_t>(p)] * k[p];
      const long double change = (i == t ? at("write", bt, 1) : 0.0L) - at("erase", bt, 0) * bound;
      for (int p = 0; p < P; ++p) {
        const std::size_t ip = row + static_cast<std::size_t>(p);
        next[ip] = at("decay", bt, 1) * old[ip] + change * k[p];
      }
    }
    all.push_back(std::move(next));
  }
  return all;
}

std::function<Values(const Values&)> oracle(int B, int T, int Q, int P) {
  return [=](const Values& in) {
    Values out;
    Numbers& a = out.real["a"];
    for (int b = 0; b < B; ++b) {
      const auto S = states(in, b, T, P);
      for (int j = 0; j < Q; ++j) {
        const auto bq = static_cast<std::size_t>(b * Q + j);
        const State& seen = S[static_cast<std::size_t>(in.integer.at("position")[bq])];
        for (int i = 0; i < T; ++i) {
          long double sum = 0;
          for (int p = 0; p < P; ++p)
            sum += seen[static_cast<std::size_t>(i * P + p)] *
                   in["q"][bq * static_cast<std::size_t>(P) + static_cast<std::size_t>(p)];
          a.push_back(static_cast<double>(sum));
        }
      }
    }
    return out;
  };
}

struct Shape {
  int B, T, Q, P;
};

const auto plain = [](auto&) {};
const auto read_forward = []<class Real>(const Exec& exec, TensorSet<Real>& s) {
  forward(exec, bound<RecurrentRead, Real>(s, plain));
};

/// `gates` names the gates that are present: w(rite), e(rase), d(ecay). A trail instead of a history where
/// asked.
OpCase make(const std::string& name, Shape s, const std::string& gates, bool trail, const Fill& keys) {
  OpCase op(name);
  op.input("k", {s.B, s.T, s.P}, keys).input("q", {s.B, s.Q, s.P}, normal());
  for (const auto& [letter, gate] : {std::pair{'w', "write"}, {'e', "erase"}, {'d', "decay"}}) {
    if (gates.find(letter) == std::string::npos) {
      op.absent(gate);
    } else {
      op.input(gate, {s.B, s.T}, uniform(0.1, 1));
    }
  }
  op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("a", {s.B, s.Q, s.T});
  if (trail) {
    op.workspace("trail", {s.B, s.P + (s.T + 3) / 4 * 4}).absent("history");
  } else {
    op.workspace("history", {s.B, s.T, s.P}).absent("trail");
  }
  call<RecurrentRead>(op, plain);
  op.oracle(oracle(s.B, s.T, s.Q, s.P));
  op.roundings(3.0 * s.T + s.P).condition(4);
  return op;
}

OpCase make(const std::string& name, Shape s, const std::string& gates, bool trail = false) {
  // |k| about 1: nothing explodes
  return make(name, s, gates, trail, normal(1 / std::sqrt(static_cast<double>(s.P))));
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const char* gates : {"", "w", "e", "d", "we", "wd", "ed", "wed"}) {
    for (int Q : {1, 3})
      all.push_back(make(fmt::format("Gates{}_Q{}", *gates ? gates : "None", Q), {4, 7, Q, 5}, gates));
  }
  all.push_back(make("OneToken", {3, 1, 1, 4}, "wed"));
  all.push_back(make("OneTokenManyQueries", {2, 1, 4, 3}, "wed"));
  all.push_back(make("OneDimension", {4, 6, 1, 1}, "wed"));
  all.push_back(make("Wide", {2, 9, 1, 37}, "wed").gradient_elements(60));
  all.push_back(make("Long_Q1", {3, 45, 1, 19}, "wed").gradient_elements(60));
  all.push_back(make("Long_Q5", {2, 45, 5, 19}, "wed").gradient_elements(60));
  for (const char* gates : {"", "e", "we"})
    all.push_back(make(fmt::format("Trail{}", gates), {4, 7, 1, 5}, gates, true));
  all.push_back(make("TrailLong", {3, 45, 1, 19}, "we", true).gradient_elements(60));
  all.push_back(make("TrailLongByFour", {3, 45, 1, 20}, "we", true).gradient_elements(60));
  for (int Q : {1, 3}) {
    OpCase op = make(fmt::format("HardKeys_Q{}", Q), {4, 8, Q, 6}, "wed");
    op.edit("k", [](int, Numbers& k) {
      for (std::size_t b = 0; b < 4; ++b) {
        for (std::size_t p = 0; p < 6; ++p) {
          k[(b * 8 + 2) * 6 + p] = 0;                        // a zero key
          k[(b * 8 + 5) * 6 + p] = k[(b * 8 + 1) * 6 + p];   // a repeated key
          k[(b * 8 + 6) * 6 + p] = -k[(b * 8 + 1) * 6 + p];  // and its opposite
        }
      }
    });
    all.push_back(op);
    const auto zero_and_one = [](int r, Numbers& gate) {
      for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = static_cast<double>((i * 5 + static_cast<std::size_t>(r)) / 2 % 2);
    };
    OpCase hard = make(fmt::format("HardGates_Q{}", Q), {4, 8, Q, 6}, "wed");
    hard.edit("write", zero_and_one).edit("erase", zero_and_one).edit("decay", zero_and_one);
    all.push_back(hard);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recurrence, OpCheck, ::testing::ValuesIn(cases()), case_name);

std::vector<OpCase> reads() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& kind, ReadShape s, const std::string& gates, bool trail) {
    const double size = std::sqrt(3.0 / s.P), length = s.T + s.P;
    OpCase op = make(fmt::format("{}{}x{}x{}x{}", kind, s.B, s.T, s.P, s.Q), {s.B, s.T, s.Q, s.P}, gates,
                     trail, uniform(-size, size));
    all.push_back(op.on_cuda({length, 4}, {length + (trail ? 0 : s.Q), 8}));
  };
  for (const ReadShape& s : kReadShapes) {
    for (const char* gates : {"", "w", "we", "wd", "wed"})
      add(fmt::format("Gates{}_", gates), s, gates, false);
  }
  for (const auto& [B, T, P] : {std::tuple{1, 1, 1},
                                {3, 5, 4},
                                {4, 33, 20},
                                {2, 200, 128},
                                {3, 47, 64},
                                {2, 61, 132},
                                {2, 50, 256},
                                {2, 37, 400},
                                {2, 21, 700}})
    add("Trail", {B, T, P, 1}, "we", true);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recurrence, CudaOpCheck, ::testing::ValuesIn(reads()), case_name);

class RecurrenceOnCuda : public CudaTest {};

TEST_F(RecurrenceOnCuda, KeysThatAreTooWideAreNamed) {
  OpCase op = make("TooWide", {1, 2, 1, 5000}, "");
  TensorSet<float> set(Device::cuda);
  op.fill(set, {0});
  Exec exec;
  exec.device = Device::cuda;
  try {
    op.run_forward(exec, set);
    FAIL() << "5000 dimensions were taken";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("recurrent read"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("5000"), std::string::npos) << error.what();
  }
}

/// A memory of one sequence in double precision, one query a call, for the laws below.
class Reader {
 public:
  explicit Reader(std::vector<Numbers> keys) : keys_(std::move(keys)) {}
  Numbers write, erase, decay;  ///< empty: absent

  /// Weights a_t of each stored value.
  Numbers read(const Numbers& q) const {
    const int T = static_cast<int>(keys_.size()), P = static_cast<int>(q.size());
    TensorSet<double> s;
    s.reals.add("k", 1, {1, T, P});
    s.reals.add("q", 1, {1, 1, P});
    s.reals.add("a", 1, {1, 1, T});
    s.reals.add("history", 1, {1, T, P});
    s.reals.add_absent("trail");
    for (const auto& [name, gate] : gates()) {
      if (gate->empty()) {
        s.reals.add_absent(name);
      } else {
        s.reals.add(name, 1, {1, T});
      }
    }
    s.integers.add("position", 1, {1, 1});
    s.allocate();
    Numbers k;
    for (const Numbers& key : keys_) k.insert(k.end(), key.begin(), key.end());
    upload(Device::cpu, s.real("k"), 0, k);
    upload(Device::cpu, s.real("q"), 0, q);
    upload(Device::cpu, s.integer("position"), 0, Integers{T});
    for (const auto& [name, gate] : gates()) {
      if (!gate->empty()) upload(Device::cpu, s.real(name), 0, *gate);
    }
    read_forward(Exec{}, s);
    return download(Device::cpu, s.real("a"), 0);
  }

 private:
  std::vector<std::pair<std::string, const Numbers*>> gates() const {
    return {{"write", &write}, {"erase", &erase}, {"decay", &decay}};
  }
  std::vector<Numbers> keys_;
};

void expect_weights(const Numbers& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_TRUE(close("weights", got.data(), want.data(), static_cast<std::int64_t>(got.size()), 1e-12));
}

Numbers unit(std::uint32_t n, int P) {
  RandomStream random(5, RandomDomain::initialisation, n);
  Numbers x;
  double square = 0;
  for (int p = 0; p < P; ++p) {
    x.push_back(normal_from_uniform(random.uniform()));
    square += x.back() * x.back();
  }
  for (double& e : x) e /= std::sqrt(square);
  return x;
}

TEST(RecurrenceLaws, FullDeltaWriteWithUnitKeyOverwritesExactly) {
  const Numbers key = unit(2, 9);
  Reader memory({unit(0, 9), unit(1, 9), key});
  memory.write = memory.erase = {0.7, 0.4, 1};
  expect_weights(memory.read(key), {0, 0, 1});
}

TEST(RecurrenceLaws, PartialDeltaWriteMixesOldAndNew) {
  const Numbers key = unit(2, 9);
  Reader before({unit(0, 9), unit(1, 9), key});
  before.write = before.erase = {0.7, 0.4, 0};
  const Numbers old = before.read(key);
  Reader after = before;
  after.write = after.erase = {0.7, 0.4, 0.3};
  expect_weights(after.read(key), {0.7 * old[0], 0.7 * old[1], 0.3});
}

TEST(RecurrenceLaws, DirectionsOrthogonalToTheKeyAreUntouched) {
  Numbers key = unit(2, 9), q = unit(3, 9);
  double along = 0;
  for (int p = 0; p < 9; ++p) along += key[static_cast<std::size_t>(p)] * q[static_cast<std::size_t>(p)];
  for (int p = 0; p < 9; ++p) q[static_cast<std::size_t>(p)] -= along * key[static_cast<std::size_t>(p)];
  Reader before({unit(0, 9), unit(1, 9), key}), after = before;
  before.write = before.erase = {1, 0.5, 0};
  after.write = after.erase = {1, 0.5, 0.8};
  expect_weights(after.read(q), before.read(q));
}

TEST(RecurrenceLaws, ZeroBetaIsNoOperation) {
  const Numbers q = unit(7, 6);
  Reader shorter({unit(0, 6), unit(1, 6)}), longer({unit(0, 6), unit(4, 6), unit(1, 6)});
  shorter.write = shorter.erase = {0.9, 0.6};
  longer.write = longer.erase = {0.9, 0, 0.6};
  const Numbers a = shorter.read(q);
  expect_weights(longer.read(q), {a[0], 0, a[1]});
}

TEST(RecurrenceLaws, WritingTwiceIsWritingOnce) {
  const Numbers key = unit(1, 6), q = unit(7, 6);
  Reader once({unit(0, 6), key}), twice({unit(0, 6), key, key});
  once.write = once.erase = {1, 1};
  twice.write = twice.erase = {1, 1, 1};
  const Numbers a = once.read(q), b = twice.read(q);
  expect_weights({b[0], b[1] + b[2]}, a);
}

// Householder reflection: the step that state tracking needs and that erase <= 1 cannot do.
TEST(RecurrenceLaws, ReflectionSwapsTwoValues) {
  const double h = std::sqrt(0.5);
  const Numbers e1 = {1, 0, 0}, e2 = {0, 1, 0}, e3 = {0, 0, 1};
  Reader memory({e1, e2, e3, {h, -h, 0}});
  memory.erase = {1, 1, 1, 2};
  memory.write = {1, 1, 1, 0};
  expect_weights(memory.read(e1), {0, 1, 0, 0});
  expect_weights(memory.read(e2), {1, 0, 0, 0});
  expect_weights(memory.read(e3), {0, 0, 1, 0});
}

TEST(RecurrenceLaws, PengGateScalesOrthogonalValueByOneMinusBeta) {
  const double beta = 0.37;
  Reader memory({{1, 0}, {0, 1}});
  memory.write = {1, beta};
  memory.decay = {0, 1 - beta};
  EXPECT_EQ(memory.read({1, 0})[0], 1 - beta);
  expect_weights(memory.read({0, 1}), {0, beta});
}

TEST(RecurrenceLaws, OrthonormalKeysMakeDeltaEqualSum) {
  const Numbers q = unit(3, 4);
  Reader sum({{1, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}}), delta = sum;
  delta.write = delta.erase = {1, 1, 1};
  expect_weights(delta.read(q), sum.read(q));
}

TEST(RecurrenceLaws, DeltaWithoutEraseEqualsSum) {
  const Numbers q = unit(3, 7);
  Reader sum({unit(0, 7), unit(1, 7), unit(2, 7)}), delta = sum;
  delta.erase = {0, 0, 0};
  expect_weights(delta.read(q), sum.read(q));
}

// Without gates the recurrence is unnormalised linear attention.
TEST(RecurrenceLaws, WithoutGatesItIsAttention) {
  OpCase op = make("WithoutGatesItIsAttention", {3, 11, 2, 13}, "");
  TensorSet<double> s, t;
  op.fill(s, {0, 1});
  op.fill(t, {0, 1});
  read_forward(Exec{}, s);
  forward(Exec{}, bound<Scores, double>(t, plain));
  EXPECT_TRUE(close("a", s.real("a"), t.real("a"), 1e-13));
}

// The delta rule passes one tensor as write and as erase gate; the graph then asks for two contributions to
// one gradient, in the order of the arguments.
TEST(RecurrenceLaws, OneTensorMayBeBothGates) {
  for (int Q : {1, 3}) {
    OpCase op = make(fmt::format("BothGates_Q{}", Q), {3, 6, Q, 5}, "we");
    TensorSet<double> separate, shared;
    op.edit("erase", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0.6); });
    op.edit("write", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0.6); });
    op.fill(separate, {0, 1});
    op.fill(shared, {0, 1});
    read_forward(Exec{}, separate);
    backward(Exec{}, bound<RecurrentRead, double>(separate, plain));
    read_forward(Exec{}, shared);
    RecurrentRead<double> args = bound<RecurrentRead, double>(shared, plain);
    args.k.write = args.q.write = Write::none;
    args.erase = args.write;
    args.erase.write = Write::add;
    backward(Exec{}, args);
    const auto got = shared.real("d_write"), one = separate.real("d_write"), two = separate.real("d_erase");
    for (int r = 0; r < 2; ++r) {
      Numbers sum;
      for (std::int64_t i = 0; i < one.size(); ++i) sum.push_back(one.at(r)[i] + two.at(r)[i]);
      EXPECT_TRUE(close("d_gate", got.at(r), sum.data(), got.size(), 1e-13));
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks
