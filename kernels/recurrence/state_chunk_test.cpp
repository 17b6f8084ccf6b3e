// The chunkwise recurrence on the GPU at the sizes of its kernels' tiles and between them, every gate, erase
// and format, against the recurrent form in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "kernels/recurrence/state_read_case.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/shared_limit.h"

namespace crosstalk::checks::state::state_chunk_test {
namespace {

/// Keys of length 1, gains in (0, 1), decays from none to 1e-4 a token, or to 0.37: with those of key channels, chunks are direct
/// (state_channels.cuh).
Values drawn(const Choice& c, bool mild) {
  Values in;
  RandomStream random(7, RandomDomain::initialisation, 0);
  std::int64_t next = 0;
  const auto draw = [&](const std::vector<int>& dims, const Fill& fill) {
    Numbers x(1, 0);
    for (int d : dims) x.resize(x.size() * static_cast<std::size_t>(d));
    for (double& e : x) e = fill(random, 0, next++);
    return x;
  };
  for (const auto& [name, dims] : inputs(c)) {
    const bool gain = name == "write_gain" || name == "erase_gain";
    Numbers& x = in.real[name] = draw(dims, gain                  ? uniform(0, 1)
                                            : name == "log_decay" ? uniform(-3, mild ? 0 : 1)
                                                                  : normal());
    if (name == "log_decay") {
      for (double& e : x) e = -std::pow(10, e) * (e < -2.5 ? 0 : 1);
    } else if (name == "q" || name == "k" || name == "erase_read" || name == "erase_write") {
      for (auto row = x.begin(); row != x.end(); row += c.K) {
        double square = 0;
        for (int i = 0; i < c.K; ++i) square += row[i] * row[i];
        for (int i = 0; i < c.K; ++i) row[i] /= std::sqrt(square);
      }
    }
  }
  for (int i = 0; i < c.B * c.Q; ++i) {  // some see nothing, some the same tokens
    const auto seen = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(c.T + 1)));
    in.integer["position"].push_back(i % 7 == 0 ? 0 : i % 7 == 1 ? c.T : seen);
  }
  in.real["d_o"] = draw({c.B, c.queries(), c.H, c.V}, normal());
  if (c.end) in.real["d_end"] = draw({c.B, c.H, c.V, c.K}, normal());
  return in;
}

/// Under a tool that makes each launch slow, every seventh of a test's choices: seven divides no number of gates, erases or sizes.
bool left_out(int& choices) { return few_replicas() && choices++ % 7 != 0; }

class StateChunkOnCuda : public CudaTest {
 protected:
  /// Largest errors are those of a few roundings of the operands' format.
  static void check(const Choice& shape) {
    check(shape, false);
    if (shape.gate == Gate::channel) check(shape, true);
  }
  static void check(const Choice& shape, bool mild) {
    Choice c = shape;
    const Values in = drawn(c, mild);
    const auto want = run<double>(c, StateForm::recurrent, in);
    for (auto [products, limit] :
         {std::pair{Precision::full, 3e-6}, {Precision::tf32, 2.5e-3}, {Precision::bf16, 2e-2}}) {
      if (mild && products != Precision::bf16) continue;
      c.products = products;
      const auto got = run<float>(c, StateForm::chunkwise, in, Device::cuda);
      for (const auto& [field, x] : want) {
        EXPECT_LE(relative_error(got.at(field), x), limit) << fmt::format(
            "K {} V {} T {} N {} Q {}, {} {}{}{}{}, format {}: {}", c.K, c.V, c.T, c.N, c.Q, name_of(c.erase),
            name_of(c.gate), mild ? ", mild" : "", c.before ? ", reads before" : "",
            c.decayed ? "" : ", undecayed", static_cast<int>(products), field);
      }
      if (few_replicas()) continue;
      EXPECT_EQ(got, run<float>(c, StateForm::chunkwise, in, Device::cuda)) << "another launch, other bits";
    }
  }
};

TEST_F(StateChunkOnCuda, TilesOfAllSizes) {
  int choices = 0;
  for (auto [K, V] :
       {std::pair{32, 32}, {64, 64}, {128, 128}, {33, 100}, {100, 7}, {7, 40}, {16, 16}, {1, 1}}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (Erase erase : {Erase::none, Erase::delta, Erase::tied}) {
        if (left_out(choices)) continue;
        Choice c;
        c.T = 71, c.H = 2, c.K = K, c.V = V, c.erase = erase, c.gate = gate;
        c.write_gain = true, c.erase_gain = c.reads(), c.start = c.end = K != V;
        check(c);
      }
    }
  }
}

// A factor of backward's products in bf16 is kept in bf16.
TEST_F(StateChunkOnCuda, FormatsOfWhatIsKept) {
  struct Case {
    int K, N;
    Gate gate;
    Precision products;
    Format states, solved;
  };
  constexpr Format kNative = Format::native, kBf16 = Format::bf16;
  for (const Case& of : {Case{32, 1, Gate::scalar, Precision::bf16, kBf16, kBf16},
                         {32, 1, Gate::scalar, Precision::tf32, kNative, kNative},
                         {33, 1, Gate::scalar, Precision::bf16, kNative, kNative},
                         {32, 2, Gate::scalar, Precision::bf16, kBf16, kNative},
                         {32, 1, Gate::channel, Precision::bf16, kBf16, kNative}}) {
    Choice c;
    c.T = 40, c.K = c.V = of.K, c.N = of.N, c.erase = Erase::delta, c.gate = of.gate;
    c.products = of.products, c.write_gain = true;
    TensorSet<float> set(Device::cuda);
    for (const auto& [name, dims] : inputs(c)) set.reals.add(name, 1, dims);
    set.allocate();
    auto op = checks::planned<StateRead, float>(set, [&](auto& o) { c.configure(o, StateForm::chunkwise); });
    EXPECT_EQ(op.states.value.format, of.states) << of.K;
    EXPECT_EQ(op.inverse.value.format, of.states) << of.K;
    EXPECT_EQ(op.solved.value.format, of.solved) << of.K;
    op.states.value.format = of.states == kBf16 ? kNative : kBf16;
    Exec exec;
    exec.device = Device::cuda;
    EXPECT_THROW(forward(exec, op), std::logic_error) << "kernels of another format";
  }
}

TEST_F(StateChunkOnCuda, ReadsBeforeTheWriteAndUndecayedErases) {
  int choices = 0;
  for (int size : {16, 64, 128}) {
    for (Gate gate : {Gate::scalar, Gate::channel}) {
      for (Erase erase : {Erase::none, Erase::delta, Erase::tied}) {
        for (int mode : {1, 2, 3}) {
          if (left_out(choices)) continue;
          Choice c;
          c.T = 70, c.K = c.V = size, c.erase = erase, c.gate = gate, c.write_gain = true;
          c.before = mode & 1, c.decayed = !(mode & 2);
          check(c);
        }
      }
    }
  }
}

TEST_F(StateChunkOnCuda, ReadsAtPositions) {
  int choices = 0;
  for (auto [K, V] : {std::pair{20, 13}, {32, 32}, {64, 64}, {128, 128}}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (Erase erase : {Erase::none, Erase::delta, Erase::free}) {
        for (int Q : {9, 100}) {
          if (left_out(choices)) continue;
          Choice c;
          c.B = 2, c.T = 100, c.H = 2, c.Q = Q, c.K = K, c.V = V, c.erase = erase, c.gate = gate;
          c.write_gain = true, c.erase_gain = c.reads(), c.end = Q == 9;
          check(c);
        }
      }
    }
  }
}

TEST_F(StateChunkOnCuda, BlocksOfKeyChannels) {
  int choices = 0;
  for (auto [K, V] : {std::pair{129, 7}, {256, 64}, {325, 64}, {384, 128}, {325, 100}}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (int Q : {0, 9}) {
        if (left_out(choices)) continue;
        Choice c;
        c.T = 100, c.H = 2, c.Q = Q, c.K = K, c.V = V, c.gate = gate, c.write_gain = true;
        c.start = c.end = Q == 0;
        check(c);
      }
    }
  }
}

TEST_F(StateChunkOnCuda, SeveralWritesAndFreeErases) {
  int choices = 0;
  for (auto [K, V] : {std::pair{20, 13}, {32, 32}, {64, 64}, {128, 128}}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (Erase erase : {Erase::none, Erase::delta, Erase::tied, Erase::free}) {
        for (int N : {1, 2, 3}) {
          if (left_out(choices)) continue;
          Choice c;
          c.T = 50, c.H = 2, c.N = N, c.K = K, c.V = V, c.erase = erase, c.gate = gate;
          c.write_gain = true, c.erase_gain = c.reads(), c.start = c.end = K == 20;
          c.before = N == 2, c.decayed = N < 3;
          check(c);
        }
      }
    }
  }
}

/// An op for a GPU of shapes alone: tensors lie at places of their own, which nobody reads.
StateRead<float> shaped_op(const Choice& c, bool in_bf16) {
  StateRead<float> op;
  c.configure(op, StateForm::chunkwise);
  op.device = Device::cuda;
  alignas(16) static float places[16][4];
  float* next = places[0];
  const auto place = [&](auto& field, const std::vector<int>& dims, bool narrow) {
    Tensor<float> x;
    x.R = 1, x.rank = static_cast<int>(dims.size()), x.data = next, next += 4;
    std::copy(dims.begin(), dims.end(), x.dims);
    x.format = in_bf16 && narrow ? Format::bf16 : Format::native;
    field.value = field.gradient = x;
  };
  for (const auto& [name, dims] : inputs(c)) {
    op.fields([&, &of = name, &shape = dims]<class Field>(const char* field_name, Field& field) {
      if constexpr (std::is_same_v<Field, In<float>>) {
        if (field_name == of) place(field, shape, may_be_bf16(c, of));
      }
    });
  }
  if (c.Q) op.position.value = shaped<std::int32_t>(1, {c.B, c.Q});
  place(op.o, {c.B, c.queries(), c.H, c.V}, true);
  return op;
}

/// Sizes, gates and erases of which kernels take tokens in bf16 where they fit shared memory.
void for_narrow_choices(const auto& f) {
  for (int size : {32, 64, 128}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (Erase erase : {Erase::none, Erase::delta, Erase::tied, Erase::free}) {
        for (const auto& [N, Q] : {std::pair{1, 0}, {2, 0}, {1, 9}}) {
          Choice c;
          c.B = 2, c.T = 70, c.H = 2, c.N = N, c.Q = Q, c.K = c.V = size, c.erase = erase, c.gate = gate;
          c.write_gain = true, c.erase_gain = c.reads(), c.products = Precision::bf16;
          c.start = c.end = Q == 0, c.decayed = size != 64;
          f(c, fmt::format("size {} N {} Q {} {} {}", size, N, Q, name_of(erase), name_of(gate)));
        }
      }
    }
  }
}

constexpr const char* kRefused =
    "only chunks of products in bf16 whose rows are not padded take tokens in bf16";

// What a pass asks of tokens as floats (takes_bf16()) holds of the same tokens in bf16, in any shared memory: else a graph would
// have a tensor that its reader refuses.
TEST(StateChunkTest, TokensInBf16AreTakenWhereThePassAsks) {
  if (!built_with_cuda()) {
    GTEST_SKIP() << "no kernels in chunks";
  }
  int taken = 0, refused = 0;
  for (const int kib : {99, 120, 163, 200, 227}) {
    const SharedLimit limit(kib);
    for_narrow_choices([&](const Choice& c, const std::string& what) {
      if (shaped_op(c, false).takes_bf16()) {
        ++taken;
        EXPECT_NO_THROW(shaped_op(c, true).plan()) << what << " in " << kib << " KiB";
      } else {
        ++refused;
        EXPECT_THAT([&] { shaped_op(c, true).plan(); },
                    ::testing::ThrowsMessage<std::logic_error>(::testing::HasSubstr(kRefused)))
            << what << " in " << kib << " KiB";
      }
    });
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

// Of numbers that bf16 holds, tokens in bf16 give what tokens as floats give, rounded where it is kept. Where several queries see
// the same tokens, gradients are added up in bf16.
TEST_F(StateChunkOnCuda, TokensInBf16) {
  int choices = 0;
  for_narrow_choices([&](Choice c, const std::string& what) {
    if (left_out(choices)) return;
    Values in = drawn(c, c.K == 64);
    for (auto& [name, x] : in.real)
      for (double& e : x) e = rounded(Precision::bf16, static_cast<float>(e));
    const bool takes = shaped_op(c, false).takes_bf16();
    EXPECT_TRUE(takes || shared_memory_limit() < 227 * 1024) << what;
    const auto want =
        takes ? run<float>(c, StateForm::chunkwise, in, Device::cuda) : std::map<std::string, Numbers>{};
    c.in_bf16 = true;
    if (!takes) {
      EXPECT_THAT([&] { run<float>(c, StateForm::chunkwise, in, Device::cuda); },
                  ::testing::ThrowsMessage<std::logic_error>(::testing::HasSubstr(kRefused)))
          << what;
      return;
    }
    const auto got = run<float>(c, StateForm::chunkwise, in, Device::cuda);
    for (const auto& [field, x] : want) {
      const bool gain = field.find("gain") != std::string::npos || field == "d_log_decay" || field == "end" ||
                        field == "d_start" || (c.erase == Erase::free && field == "d_v");
      Numbers as_kept = x;
      if (!gain)
        for (double& e : as_kept) e = rounded(Precision::bf16, static_cast<float>(e));
      if (c.Q == 0) {
        EXPECT_EQ(got.at(field), as_kept) << what << ": " << field;
      } else {
        EXPECT_LE(relative_error(got.at(field), x), 1e-2) << what << ": " << field;
      }
    }
  });
}

TEST_F(StateChunkOnCuda, TokensInBf16AreRefusedWhereRowsArePadded) {
  for (const auto& [size, products, takes] :
       {std::tuple{64, Precision::bf16, true}, {64, Precision::tf32, false}, {33, Precision::bf16, false}}) {
    StateRead<float> op;
    op.form = StateForm::chunkwise, op.device = Device::cuda, op.products = products;
    alignas(16) float places[3][4];  // three tensors, not one read three times; plan() reads none
    float* next = places[0];
    for (auto* field : {&op.q, &op.k, &op.v}) {
      field->value = field->gradient = shaped<float>(1, {2, 40, 1, size});
      field->value.data = field->gradient.data = next, next += 4;
    }
    op.q.value.format = op.q.gradient.format = Format::bf16;
    if (takes) {
      EXPECT_NO_THROW(op.plan());
    } else {
      EXPECT_THROW(op.plan(), std::logic_error);
    }
  }
}

TEST_F(StateChunkOnCuda, ManyChunks) {
  for (Gate gate : {Gate::scalar, Gate::channel}) {
    Choice c;
    c.B = 2, c.T = few_replicas() ? 200 : 1000, c.K = c.V = 64, c.erase = Erase::delta, c.gate = gate,
    c.write_gain = true;
    check(c);
  }
}

}  // namespace
}  // namespace crosstalk::checks::state::state_chunk_test
