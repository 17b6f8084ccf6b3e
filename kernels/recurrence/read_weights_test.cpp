// Read weights against the state itself, formed write after write with one-hot values; a GPU against the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/read_weights.h"

#include <numeric>

#include "kernels/recurrence/state_read_case.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::read_weights_test {
namespace {

using Wide = std::vector<long double>;

struct Shape {
  int B = 2, T = 5, Q = 2, H = 2, K = 3, N = 1;
  int channels = 0;  ///< of the decay; 0: none
  Erase erase = Erase::none;
  bool decayed = true, before = false, positions = true, write_gain = true, erase_gain = true;
  bool factor = false;     ///< the decay is given as e^g; channels = 1
  bool erase_read = true;  ///< tied: a key of its own
  bool contracting = false;
  Precision products = Precision::full;
};

/// a_m = row m of S q, where row m of the state holds what value onehot(m) is bound to.
Numbers weights(const Shape& s, const Values& in) {
  Numbers a;
  const int M = s.T * s.N;
  const auto entry = [&](const std::string& name, int b, int n, int h, int count, int width,
                         int j) -> long double {
    return in[name][(((b * count) + n) * s.H + h) * width + j];
  };
  for (int b = 0; b < s.B; ++b) {
    for (int h = 0; h < s.H; ++h) {
      std::vector<Wide> after{Wide(static_cast<std::size_t>(M * s.K), 0)};  // by tokens
      for (int t = 0; t < s.T; ++t) {
        Wide S = after.back();
        for (int n = 0; n < s.N; ++n) {
          const int m = t * s.N + n;
          const Wide old = S;
          for (int i = 0; i < M && n == 0 && s.channels > 0; ++i) {
            for (int j = 0; j < s.K; ++j)
              S[i * s.K + j] *=
                  s.factor ? entry("decay", b, t, h, s.T, 1, 0)
                           : std::exp(entry("log_decay", b, t, h, s.T, s.channels, s.channels == 1 ? 0 : j));
          }
          const long double w = s.write_gain ? entry("write_gain", b, m, h, M, 1, 0) : 1;
          const bool delta = s.erase == Erase::delta;
          const bool gain = s.erase_gain && s.erase != Erase::none;
          const long double e = delta ? w : gain ? entry("erase_gain", b, m, h, M, 1, 0) : 1;
          const auto x = [&](int j) {
            return entry(delta || !s.erase_read ? "k" : "erase_read", b, m, h, M, s.K, j);
          };
          const auto y = [&](int j) {
            return entry(s.erase == Erase::free ? "erase_write" : "k", b, m, h, M, s.K, j);
          };
          const Wide seen = s.decayed ? S : old;
          for (int i = 0; i < M; ++i) {
            long double bound = 0;
            for (int j = 0; j < s.K && s.erase != Erase::none; ++j) bound += seen[i * s.K + j] * x(j);
            for (int j = 0; j < s.K; ++j) {
              long double& cell = S[i * s.K + j];
              if (s.erase != Erase::none) cell -= e * bound * y(j);
              if (i == m) cell += w * entry("k", b, m, h, M, s.K, j);
            }
          }
        }
        after.push_back(S);
      }
      for (int q = 0; q < s.Q; ++q) {
        const int n = s.positions ? in.integer.at("position")[b * s.Q + q] : s.before ? q : q + 1;
        for (int m = 0; m < M; ++m) {
          long double sum = 0;
          for (int j = 0; j < s.K; ++j) sum += after[n][m * s.K + j] * entry("q", b, q, h, s.Q, s.K, j);
          a.push_back(static_cast<double>(sum));
        }
      }
    }
  }
  return a;
}

OpCase make(const std::string& name, const Shape& s, double size = 0.6, const Fill& gate = uniform(-1.5, 0)) {
  OpCase op(name);
  const int M = s.T * s.N;
  op.input("q", {s.B, s.Q, s.H, s.K}, normal()).input("k", {s.B, M, s.H, s.K}, normal(size));
  const bool tied = s.erase == Erase::tied, free = s.erase == Erase::free;
  op.optional(s.write_gain, "write_gain", {s.B, M, s.H}, uniform(-0.5, 1.5));
  op.optional(s.channels > 0 && !s.factor, "log_decay", {s.B, s.T, s.H, s.channels}, gate);
  op.optional(s.factor, "decay", {s.B, s.T, s.H}, gate);
  op.optional((tied && s.erase_read) || free, "erase_read", {s.B, M, s.H, s.K}, normal(size));
  op.optional(free, "erase_write", {s.B, M, s.H, s.K}, normal(size));
  op.optional((tied || free) && s.erase_gain, "erase_gain", {s.B, M, s.H}, uniform(-0.5, 1.5));
  if (s.positions) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("a", {s.B, s.H, s.Q, M});
  call_planned<ReadWeights>(op, [s](auto& o) {
    o.erase = s.erase, o.writes = s.N, o.decayed = s.decayed, o.before = s.before,
    o.contracting = s.contracting, o.products = s.products;
  });
  op.oracle([s](const Values& in, Values& out) { out.real["a"] = weights(s, in); });
  return op.roundings(s.K + 4 * M).condition(2).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto with = [](Erase erase, int channels, bool decayed) {
    Shape s;
    s.erase = erase, s.channels = channels, s.decayed = decayed;
    return s;
  };
  for (const auto& [word, erase] : {std::pair("Plain", Erase::none), std::pair("Delta", Erase::delta),
                                    std::pair("Tied", Erase::tied), std::pair("Free", Erase::free)}) {
    for (int channels : {0, 1, 3}) {
      const std::string name = word + std::string(channels == 0 ? "" : channels == 1 ? "Scalar" : "Channel");
      all.push_back(make(name, with(erase, channels, true)));
      if (erase != Erase::none && channels > 0)
        all.push_back(make(name + "Undecayed", with(erase, channels, false)));
    }
  }
  const auto add = [&](const std::string& name, const Shape& s, double size = 0.6,
                       const Fill& gate = uniform(-1.5, 0)) -> OpCase& {
    return all.emplace_back(make(name, s, size, gate));
  };
  add("TwoWrites", {.N = 2, .channels = 3, .erase = Erase::tied});
  add("ThreeWritesUndecayed",
      {.T = 3, .Q = 1, .N = 3, .channels = 1, .erase = Erase::free, .decayed = false});
  add("EveryToken", {.Q = 5, .channels = 1, .erase = Erase::delta, .positions = false});
  add("EveryTokenBefore", {.Q = 5, .channels = 1, .erase = Erase::delta, .before = true, .positions = false});
  add("DeltaNoGain", {.erase = Erase::delta, .write_gain = false}, 0.4);
  add("FreeNoGains", {.erase = Erase::free, .write_gain = false, .erase_gain = false}, 0.4);
  add("Ones", {.B = 1, .T = 1, .Q = 1, .H = 1, .K = 1, .channels = 1, .erase = Erase::delta});
  add("OneDimension", {.T = 4, .H = 1, .K = 1, .channels = 1, .erase = Erase::free});
  Shape wide = {.B = 1, .T = 9, .Q = 3, .H = 3, .K = 37, .channels = 37, .erase = Erase::delta};
  wide.decayed = false;
  add("Wide", wide, 0.2);
  add("Wider", {.B = 1, .T = 5, .H = 1, .K = 300, .channels = 1, .erase = Erase::tied}, 0.06);
  add("Long", {.B = 1, .T = 37, .H = 1, .K = 77, .channels = 77, .erase = Erase::free}, 0.1,
      uniform(-0.2, 0));
  add("VeryWide", {.B = 1, .T = 3, .Q = 1, .H = 1, .K = 1030, .channels = 1, .erase = Erase::delta}, 0.03)
      .gradient_elements(5);
  for (bool decayed : {true, false}) {
    for (const auto& [word, channels] : {std::pair("Resets", 3), {"ScalarResets", 1}})
      add(std::string(word) + (decayed ? "" : "Undecayed"),
          {.T = 7, .channels = channels, .erase = Erase::delta, .decayed = decayed}, 0.6, resets());
  }
  add("ZeroKeys", {.channels = 1, .erase = Erase::delta}).edit("k", [](int, Numbers& k) {
    std::fill_n(k.begin() + 6, 12, 0);
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(ReadWeights, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// One head whose keys erase themselves. `gates` are there: w(rite gain), e(rase gain), d(ecay factor).
Shape own_keys(int B, int T, int Q, int K, const std::string& gates) {
  const auto has = [&](char gate) { return gates.find(gate) != std::string::npos; };
  return {.B = B,
          .T = T,
          .Q = Q,
          .H = 1,
          .K = K,
          .channels = has('d') ? 1 : 0,
          .erase = has('e') ? Erase::tied : Erase::none,
          .decayed = false,
          .write_gain = has('w'),
          .factor = has('d'),
          .erase_read = false};
}

/// |k| about 1: nothing explodes.
OpCase make_own(const std::string& name, Shape s, bool contracting = false) {
  s.contracting = contracting;
  OpCase op = make(name, s, 1 / std::sqrt(s.K), uniform(0.1, 1));
  for (const char* gain : {"write_gain", "erase_gain"}) {
    const bool there = std::string(gain) == "write_gain" ? s.write_gain : s.erase == Erase::tied;
    if (there)
      op.edit(gain, [](int, Numbers& x) {
        for (double& g : x) g = 0.1 + 0.9 * std::abs(g) / 1.5;
      });
  }
  return op.roundings(3.0 * s.T + s.K).condition(4).gradient_elements(60);
}

std::vector<OpCase> own_key_cases() {
  std::vector<OpCase> all;
  for (const char* gates : {"", "w", "e", "d", "we", "wd", "ed", "wed"}) {
    for (int Q : {1, 3})
      all.push_back(
          make_own(fmt::format("Gates{}_Q{}", *gates ? gates : "None", Q), own_keys(4, 7, Q, 5, gates)));
  }
  all.push_back(make_own("OneToken", own_keys(3, 1, 1, 4, "wed")));
  all.push_back(make_own("OneTokenManyQueries", own_keys(2, 1, 4, 3, "wed")));
  all.push_back(make_own("OneDimension", own_keys(4, 6, 1, 1, "wed")));
  all.push_back(make_own("Wide", own_keys(2, 9, 1, 37, "wed")));
  all.push_back(make_own("Long_Q1", own_keys(3, 45, 1, 19, "wed")));
  all.push_back(make_own("Long_Q5", own_keys(2, 45, 5, 19, "wed")));
  Shape decayed = own_keys(3, 8, 1, 5, "wed");
  decayed.decayed = true;
  all.push_back(make_own("Decayed", decayed));
  for (const char* gates : {"", "e", "we"}) {
    all.push_back(make_own(fmt::format("Trail{}", gates), own_keys(4, 7, 1, 5, gates), true));
    Shape heads = own_keys(3, 6, 1, 4, gates);
    heads.H = 2, heads.N = 2;
    all.push_back(make_own(fmt::format("TrailOfTwoHeadsAndWrites{}", gates), heads, true));
  }
  Shape tied = own_keys(3, 9, 1, 5, "we");
  tied.erase_read = true;
  all.push_back(make_own("TrailOfAnotherKey", tied, true));
  all.push_back(make_own("TrailLong", own_keys(3, 45, 1, 19, "we"), true));
  all.push_back(make_own("TrailLongByFour", own_keys(3, 45, 1, 20, "we"), true));
  Shape writes = own_keys(3, 11, 1, 20, "we");
  writes.N = 3;
  all.push_back(make_own("ChunksOfThreeWritesAToken", writes, true));
  all.push_back(make_own("ChunksWithStates", own_keys(3, 45, 1, 20, "we")));
  for (int Q : {1, 3}) {
    OpCase op = make_own(fmt::format("HardKeys_Q{}", Q), own_keys(4, 8, Q, 6, "wed"));
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
    OpCase hard = make_own(fmt::format("HardGates_Q{}", Q), own_keys(4, 8, Q, 6, "wed"));
    hard.edit("write_gain", zero_and_one).edit("erase_gain", zero_and_one).edit("decay", zero_and_one);
    all.push_back(hard);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ReadWeightsOfOwnKeys, OpCheck, ::testing::ValuesIn(own_key_cases()), case_name);

/// Shapes that cut the CUDA forms' warps, tiles and chunks; without a trail and with one.
std::vector<OpCase> size_cases() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& kind, const ReadShape& s, const std::string& gates, bool trail) {
    all.push_back(make_own(fmt::format("{}{}_B{}_T{}_K{}_Q{}", kind, gates, s.B, s.T, s.P, s.Q),
                           own_keys(s.B, s.T, s.Q, s.P, gates), trail)
                      .condition(8));
  };
  for (const ReadShape& s : kReadShapes)
    for (const char* gates : {"", "w", "we", "wd", "wed"}) add("Gates", s, gates, false);
  const ReadShape trails[] = {{1, 1, 1, 1},     {3, 5, 4, 1},    {4, 33, 20, 1},
                              {2, 200, 128, 1}, {3, 47, 64, 1},  {2, 61, 132, 1},
                              {2, 50, 256, 1},  {2, 37, 400, 1}, {2, 21, 700, 1}};
  for (const ReadShape& s : trails) {
    add("Trail", s, "we", true);
    Shape delta = own_keys(s.B, s.T, 1, s.P, "w");
    delta.erase = Erase::delta;
    all.push_back(make_own(fmt::format("TrailDelta_B{}_T{}_K{}", s.B, s.T, s.P), delta, true).condition(8));
  }
  return all;
}

class ReadWeightsSizes : public CudaTest, public ::testing::WithParamInterface<OpCase> {};
TEST_P(ReadWeightsSizes, OnCudaAreThoseOfTheCpu) { GetParam().check_cuda(); }
INSTANTIATE_TEST_SUITE_P(Cuda, ReadWeightsSizes, ::testing::ValuesIn(size_cases()), case_name);

// q and k the same variable: the first overwrites the gradient, the second adds.
TEST(ReadWeightsTest, OneVariableInTwoFields) {
  Shape s = {2, 5, 5, 2, 3, 1, 1, Erase::delta, true, false, false, true, true};
  const OpCase op = make("Twice", s);
  TensorSet<double> two, one;
  op.fill(two, {0}), op.fill(one, {0});
  std::copy_n(two.real("k").at(0), two.real("k").size(), two.real("q").at(0));
  op.run_forward({}, two), op.run_backward({}, two);
  auto tied = planned<ReadWeights, double>(one, [](auto& o) { o.erase = Erase::delta; });
  tied.q = tied.k;
  tied.q.write = Write::add;
  forward({}, tied), backward({}, tied);
  for (std::int64_t i = 0; i < two.real("d_k").size(); ++i)
    two.real("d_k").at(0)[i] += two.real("d_q").at(0)[i];
  EXPECT_TRUE(close("d_k", one.real("d_k"), two.real("d_k"), 1e-13));
  EXPECT_TRUE(close("d_log_decay", one.real("d_log_decay"), two.real("d_log_decay"), 1e-13));
}

class ReadWeightsOnCuda : public CudaTest {};

TEST_F(ReadWeightsOnCuda, KeysThatAreTooWideAreNamed) {
  const OpCase op = make_own("TooWide", own_keys(1, 2, 1, 40000, ""));
  TensorSet<float> set(Device::cuda);
  op.fill(set, {0});
  Exec exec;
  exec.device = Device::cuda;
  try {
    op.run_forward(exec, set);
    FAIL() << "40000 dimensions were taken";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("read_weights"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("40000"), std::string::npos) << error.what();
  }
}

/// Blocks of tokens (read_weights_tiles_form.cu) in bf16 against the CPU's doubles: largest errors are those of a few
/// roundings. Replicas alone and two launches give the same bits.
void check_tiles(const std::string& name, Shape shape) {
  SCOPED_TRACE(name);
  shape.products = Precision::bf16;
  OpCase op = make(name, shape, 1, uniform(-1, 0));
  const auto has = [&](const char* field) {  // of the inputs
    const bool free = shape.erase == Erase::free;
    return field == std::string("k")            ? true
           : field == std::string("write_gain") ? shape.write_gain
           : field == std::string("erase_gain") ? (free || shape.erase == Erase::tied) && shape.erase_gain
                                                : free;
  };
  for (const char* key : {"k", "erase_read", "erase_write"}) {
    if (has(key))
      op.edit(key, [&](int, Numbers& rows) {
        for (auto row = rows.begin(); row != rows.end(); row += shape.K) {
          const double square = std::inner_product(row, row + shape.K, row, 0.0);
          std::for_each(row, row + shape.K, [&](double& x) { x /= std::sqrt(square); });
        }
      });
  }
  for (const char* gain : {"write_gain", "erase_gain"}) {
    if (has(gain))
      op.edit(gain, [](int, Numbers& x) {
        for (double& g : x) g = (g + 0.5) / 2;
      });
  }
  TensorSet<double> want;
  op.fill(want, {0, 1});
  op.run_forward({}, want), op.run_backward({}, want);
  const auto on_cuda = [&](const std::vector<int>& replicas) {
    TensorSet<float> set(Device::cuda);
    op.fill(set, replicas);
    const auto planned_op = planned<ReadWeights, float>(
        set, [&](auto& o) { o.erase = shape.erase, o.before = shape.before, o.products = shape.products; });
    const auto& forms = known_forms<ReadWeights<float>>();
    const bool there = std::any_of(forms.begin(), forms.end(),
                                   [](const auto& form) { return form.name == std::string("tiles"); });
    EXPECT_STREQ(planned_op.form_name(Device::cuda),
                 there && shared_memory_limit() >= 163 * 1024 ? "tiles" : "recurrent");
    const Exec exec = {.device = Device::cuda};
    op.run_forward(exec, set), op.run_backward(exec, set);
    std::map<std::string, std::vector<Numbers>> all;
    for (const char* field : {"a", "d_q", "d_k", "d_write_gain", "d_log_decay", "d_erase_read",
                              "d_erase_write", "d_erase_gain"}) {
      if (!want.reals.has(field) || !want.real(field).data) continue;
      for (std::size_t r = 0; r < replicas.size(); ++r) {
        const auto x = download(Device::cuda, set.real(field), static_cast<int>(r));
        all[field].emplace_back(x.begin(), x.end());
      }
    }
    return all;
  };
  const auto got = on_cuda({0, 1}), again = on_cuda({0, 1}), alone = on_cuda({1});
  EXPECT_EQ(got, again) << "another launch, other bits";
  for (const auto& [field, replicas] : got) {
    for (int r = 0; r < 2; ++r)
      EXPECT_LE(relative_error(replicas.at(r), download(Device::cpu, want.real(field), r)), 2e-2) << field;
    EXPECT_EQ(replicas.at(1), alone.at(field).at(0)) << field << " of a replica alone";
  }
}

/// Each erase, with decays and without, at every token and at positions.
void check_tiles(int B, int T, int Q, int H, int K) {
  for (bool positions : {false, true}) {
    if (!positions && Q != T) continue;
    Shape s = {.B = B, .T = T, .Q = Q, .H = H, .K = K, .positions = positions};
    const std::string name = fmt::format("T{}_Q{}_K{}_{}", T, Q, K, positions);
    for (int channels : {0, 1}) {
      s.channels = channels, s.write_gain = s.erase_read = true, s.before = false;
      for (Erase erase : {Erase::none, Erase::delta}) {
        s.erase = erase;
        check_tiles(fmt::format("{}_{}_{}", erase == Erase::none ? "Plain" : "Delta", name, channels), s);
      }
      s.erase = Erase::tied, s.erase_read = false, s.before = !positions;
      check_tiles(fmt::format("Tied_{}_{}", name, channels), s);
    }
    s.channels = 0, s.erase = Erase::free, s.erase_read = true, s.write_gain = s.before = false;
    check_tiles("Free_" + name, s);
    s.erase_gain = false;
    if (T <= 64) check_tiles("FreeWithoutGain_" + name, s);
  }
}

TEST_F(ReadWeightsOnCuda, TilesAreTheRecurrence) {
  if (few_replicas()) {
    GTEST_SKIP() << "too slow";
  }
  check_tiles(1, 256, 256, 2, 64);
  check_tiles(1, 150, 150, 2, 64);
  check_tiles(2, 131, 131, 1, 36);
  check_tiles(1, 300, 129, 1, 60);
  check_tiles(3, 64, 16, 2, 8);
  check_tiles(2, 100, 3, 2, 20);
}
TEST_F(ReadWeightsOnCuda, TilesOfFewTokens) {
  if (!few_replicas()) check_tiles(1, 70, 140, 1, 28);
  check_tiles(2, 20, 20, 1, 64);
}

// The delta rule passes one tensor as write and as erase gate; the graph then asks for two contributions to
// one gradient, in the order of the arguments.
TEST(ReadWeightsTest, OneTensorMayBeBothGates) {
  for (int Q : {1, 3}) {
    OpCase op = make_own(fmt::format("BothGates_Q{}", Q), own_keys(3, 6, Q, 5, "we"));
    TensorSet<double> separate, shared;
    op.edit("erase_gain", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0.6); });
    op.edit("write_gain", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0.6); });
    op.fill(separate, {0, 1});
    op.fill(shared, {0, 1});
    const auto configure = [](auto& o) { o.erase = Erase::tied, o.decayed = false; };
    op.run_forward(Exec{}, separate), op.run_backward(Exec{}, separate);
    op.run_forward(Exec{}, shared);
    ReadWeights<double> args = planned<ReadWeights, double>(shared, configure);
    args.k.write = args.q.write = Write::none;
    args.erase_gain = args.write_gain;
    args.erase_gain.write = Write::add;
    backward(Exec{}, args);
    const auto got = shared.real("d_write_gain"), one = separate.real("d_write_gain"),
               two = separate.real("d_erase_gain");
    for (int r = 0; r < 2; ++r) {
      Numbers sum;
      for (std::int64_t i = 0; i < one.size(); ++i) sum.push_back(one.at(r)[i] + two.at(r)[i]);
      EXPECT_TRUE(close("d_gate", got.at(r), sum.data(), got.size(), 1e-13));
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::read_weights_test
