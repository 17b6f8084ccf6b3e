// Ops on the GPU against the CPU, at shapes that cut the kernels' tiles, warps and buffers in every way, on a
// stream of its own: linear maps, Adam, elementwise ops, feature maps; and what all ops have in common.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/base/cuda_runtime.h"
#include "kernels/testing/cuda_op.h"

namespace crosstalk {
namespace {

using namespace checks;
using CudaOps = CudaTest;

struct LinearShape {
  int N, I, O;
};
const LinearShape kLinearShapes[] = {
    {1, 1, 1},    {5, 3, 2},      {33, 65, 1},   {70, 64, 64},   {129, 37, 67},  {600, 64, 1}, {1100, 20, 5},
    {2100, 5, 1}, {900, 72, 600}, {32, 968, 64}, {440, 603, 64}, {20, 700, 130}, {64, 2500, 3}};

TEST_F(CudaOps, LinearForward) {
  for (auto [N, I, O] : kLinearShapes) {
    if (few_replicas() && N * I > 50000) continue;
    for (bool bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << N << " " << I << " " << O << (bias ? " with bias" : ""));
      check<Linear>(I, 1, [=](Fields& f, auto& a) {
        f.in(a.x.value, {N, I});
        f.in(a.w.value, {O, I});
        if (bias) f.in(a.b.value, {O});
        f.out(a.y.value, {N, O});
      });
    }
  }
}

TEST_F(CudaOps, LinearBackward) {
  for (auto [N, I, O] : kLinearShapes) {
    if (few_replicas() && N * I > 50000) continue;
    SCOPED_TRACE(testing::Message() << N << " " << I << " " << O);
    for_writes([=](Write mode) {
      check_backward<Linear>(std::max(N, O), 1, [=](Fields& f, auto& a) {
        f.in(a.x.value, {N, I});
        f.in(a.w.value, {O, I});
        f.in(a.y.gradient, {N, O});
        f.out(a.x.gradient, {N, I});
        f.out(a.w.gradient, {O, I});
        f.out(a.b.gradient, {O});
        a.x.write = a.w.write = a.b.write = mode;
      });
    });
  }
  check_backward<Linear>(40, 1,
                         [](Fields& f, auto& a) {  // nothing but d_w is wanted; the others stay as they are
                           f.in(a.x.value, {40, 8});
                           f.in(a.w.value, {6, 8});
                           f.in(a.y.gradient, {40, 6});
                           f.out(a.x.gradient, {40, 8});
                           f.out(a.w.gradient, {6, 8});
                           f.out(a.b.gradient, {6});
                           a.w.write = Write::overwrite;
                         });
}

// Rounded operands are the same on both devices, so the tolerance is that of the sums.
TEST_F(CudaOps, LinearRounded) {
  for (Precision precision : {Precision::tf32, Precision::bf16}) {
    for (auto [N, I, O] : kLinearShapes) {
      if (few_replicas() && N * I > 5000) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(precision) << " " << N << " " << I << " " << O);
      check<Linear>(I, 1, [=](Fields& f, auto& a) {
        a.precision = precision;
        f.in(a.x.value, {N, I});
        f.in(a.w.value, {O, I});
        f.in(a.b.value, {O});
        f.out(a.y.value, {N, O});
      });
      check_backward<Linear>(std::max(N, O), 1, [=](Fields& f, auto& a) {
        a.precision = precision;
        f.in(a.x.value, {N, I});
        f.in(a.w.value, {O, I});
        f.in(a.y.gradient, {N, O});
        f.out(a.x.gradient, {N, I});
        f.out(a.w.gradient, {O, I});
        f.out(a.b.gradient, {O});
        a.x.write = a.b.write = Write::overwrite, a.w.write = Write::add;
      });
    }
  }
}

TEST_F(CudaOps, Adam) {
  for (int P : {1, 3, 64, 2047, 5001}) {
    SCOPED_TRACE(P);
    check<AdamStep>(10, 10, [=](Fields& f, auto& a) {
      f.out(a.parameter, {P});
      f.in(a.gradient, {P});
      f.out(a.m, {P});
      f.out(a.v, {P}, 1e-3, 1);
      f.in(a.learning_rate, {}, 1e-3, 1e-2);
      f.in(a.step, {}, 1, 1000);
    });
    check<AdamStep>(10, 10, [=](Fields& f, auto& a) {
      f.out(a.parameter, {P});
      f.in(a.gradient, {P});
      f.out(a.m, {P});
      f.out(a.v, {P}, 1e-3, 1);
      f.in(a.learning_rate, {}, 1e-3, 1e-2);
      f.in(a.step, {}, 1, 1000);
      f.in(a.weight_decay, {}, 0, 0.1);
      f.in(a.gradient_scale, {}, 0.1, 1);
    });
  }
}

TEST_F(CudaOps, ClipScale) {
  for (int P : {1, 3, 4095, 4096, 20001}) {
    SCOPED_TRACE(P);
    check<ClipScale>(P, 1, [=](Fields& f, auto& a) {
      a.limit = 0.5;
      f.in(a.gradient, {P});
      f.work(a.partial, {clip_blocks(P)});
      f.out(a.scale, {1});
    });
  }
}

TEST_F(CudaOps, Pointwise) {
  for (PointMap map : {PointMap::sigmoid, PointMap::affine}) {
    for (int n : {1, 257, 1000}) {
      SCOPED_TRACE(n);
      check<Pointwise>(4, 1, [=](Fields& f, auto& a) {
        a.map = map, a.scale = 2, a.shift = map == PointMap::affine ? -0.5 : 0;
        f.in(a.x.value, {n, 3}, -5, 5);
        f.out(a.y.value, {n, 3});
      });
      for_writes([=](Write mode) {
        check_backward<Pointwise>(4, 1, [=](Fields& f, auto& a) {
          a.map = map, a.scale = 2, a.x.write = mode;
          f.in(a.y.value, {n, 3}, 0, 2);
          f.in(a.y.gradient, {n, 3});
          f.out(a.x.gradient, {n, 3});
        });
      });
    }
  }
}

TEST_F(CudaOps, EraseRatio) {
  for (int T : {1, 2, 45}) {
    SCOPED_TRACE(T);
    check<EraseRatio>(4, 1, [=](Fields& f, auto& a) {
      f.in(a.a.value, {9, T});
      f.in(a.b.value, {9, T}, 0.5, 3);
      f.out(a.y.value, {9, T});
    });
    for_writes([=](Write mode) {
      check_backward<EraseRatio>(4, 1, [=](Fields& f, auto& a) {
        f.in(a.b.value, {9, T}, 0.5, 3);
        f.in(a.y.value, {9, T});
        f.in(a.y.gradient, {9, T});
        f.out(a.a.gradient, {9, T});
        f.out(a.b.gradient, {9, T});
        a.a.write = mode, a.b.write = Write::add;
      });
    });
  }
}

TEST_F(CudaOps, RowDivide) {
  for (int D : {1, 31, 200}) {
    SCOPED_TRACE(D);
    check<RowDivide>(4, 1, [=](Fields& f, auto& a) {
      a.eps = 1e-5;
      f.in(a.a.value, {21, D});
      f.in(a.b.value, {21}, 0.5, 3);
      f.out(a.y.value, {21, D});
    });
    for_writes([=](Write mode) {
      check_backward<RowDivide>(D, 2, [=](Fields& f, auto& a) {
        a.eps = 1e-5, a.a.write = mode, a.b.write = mode;
        f.in(a.b.value, {21}, 0.5, 3);
        f.in(a.y.value, {21, D});
        f.in(a.y.gradient, {21, D});
        f.out(a.a.gradient, {21, D});
        f.out(a.b.gradient, {21});
      });
    });
  }
}

TEST_F(CudaOps, Normalize) {
  for (RowNorm norm : {RowNorm::sum, RowNorm::l2, RowNorm::layer, RowNorm::rms}) {
    for (int D : {1, 5, 64, 130, 300, 600}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(norm) << " " << D);
      check<Normalize>(D, 2, [=](Fields& f, auto& a) {
        a.norm = norm, a.eps = 1e-2;
        f.in(a.x.value, {19, D}, norm == RowNorm::layer ? -1 : 0.1, 1);
        f.out(a.y.value, {19, D});
        f.out(a.inverse.value, {19});
      });
      for_writes([=](Write mode) {
        check_backward<Normalize>(D, 4, [=](Fields& f, auto& a) {
          a.norm = norm, a.x.write = mode;
          f.in(a.y.value, {19, D});
          f.in(a.inverse.value, {19});
          f.in(a.y.gradient, {19, D});
          f.out(a.x.gradient, {19, D});
        });
      });
    }
  }
}

TEST_F(CudaOps, FeatureMap) {
  struct Shape {
    FeatureMap map;
    int d, number, m;
  };
  using M = FeatureMap;
  std::vector<Shape> shapes = {
      {M::identity, 5, 1, 0},  {M::elu1, 64, 1, 0},   {M::relu, 33, 1, 0},      {M::tanh, 40, 1, 0},
      {M::silu, 33, 1, 0},     {M::exp, 64, 1, 0},    {M::dpfp, 1, 1, 0},       {M::dpfp, 3, 7, 0},
      {M::dpfp, 64, 3, 0},     {M::favor, 5, 2, 3},   {M::favor, 17, 1, 9},     {M::favor, 64, 2, 128},
      {M::favor, 64, 2, 512},  {M::favor, 64, 1, 70}, {M::favor_relu, 7, 4, 0}, {M::favor_relu, 130, 64, 0},
      {M::rfa, 1, 1, 0},       {M::rfa, 128, 1, 0},   {M::hedgehog, 5, 1, 0},   {M::hedgehog, 64, 1, 0},
      {M::hedgehog, 33, 0, 0}, {M::taylor, 1, 1, 0},  {M::taylor, 64, 1, 0},    {M::taylor, 33, 2, 0},
      {M::taylor, 8, 4, 0},    {M::taylor, 2, 8, 0},  {M::power, 64, 2, 0},     {M::power, 7, 3, 0}};
  for (const Shape& s : shapes) {
    for (int N : {1, 32, 77, 200}) {
      if (few_replicas() && N > 77) continue;
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(s.map) << " " << s.d << " " << s.number << " " << N);
      const int p = map_width(s.map, s.d, s.number, s.m);
      check<FeatureMapForward>(s.d, 2, [=](Fields& f, auto& a) {
        a.map = s.map, a.number = s.number;
        f.in(a.x, {N, s.d});
        if (s.m > 0) f.in(a.omega, {s.m, s.d});
        f.out(a.y, {N, p});
      });
      for_writes([=](Write mode) {
        check<FeatureMapBackward>(2 * s.number + 2 * s.m + (is_entry_map(s.map) ? 0 : s.d), 2,
                                  [=](Fields& f, auto& a) {
                                    a.map = s.map, a.number = s.number, a.write_x = mode;
                                    f.in(a.x, {N, s.d});
                                    if (s.m > 0) f.in(a.omega, {s.m, s.d});
                                    f.in(a.y, {N, p}, 0, 1);
                                    f.in(a.d_y, {N, p});
                                    f.out(a.d_x, {N, s.d});
                                  });
      });
    }
  }
}

TEST_F(CudaOps, FavorFeatures) {
  for (auto [m, d] : {std::pair{1, 1}, {7, 3}, {64, 64}, {130, 64}, {20, 37}, {128, 128}, {40, 200}}) {
    SCOPED_TRACE(testing::Message() << m << " " << d);
    if (few_replicas() && d > 64) continue;
    // Rounding grows by the condition of the drawn matrices, typically a few d.
    check<FavorFeatures>(d, 20 * d, [m = m, d = d](Fields& f, auto& a) {
      f.in(a.seed, {2}, -1e9, 1e9);
      f.in(a.draw, {1}, 0, 1000);
      a.purpose = 3;
      f.work(a.workspace, {d, d});
      f.out(a.omega, {m, d});
    });
  }
}

// A captured step gives what the same ops give one by one, as often as it is launched.
TEST_F(CudaOps, GraphsRepeatOps) {
  const Build<AdamStep<float>> build = [](Fields& f, AdamStep<float>& a) {
    f.out(a.parameter, {100});
    f.in(a.gradient, {100});
    f.out(a.m, {100});
    f.out(a.v, {100}, 1e-3, 1);
    f.in(a.learning_rate, {}, 1e-3, 1e-2);
    f.in(a.step, {}, 5, 6);
  };
  const CudaStream stream;
  Exec exec;
  exec.device = Device::cuda;
  exec.stream = stream.get();
  Fields one(Device::cuda, 2), two(Device::cuda, 2);
  AdamStep<float> a, b;
  build(one, a);
  build(two, b);
  one.allocate();
  two.allocate();
  for (int i = 0; i < 6; ++i) run(exec, a);
  CudaGraph graph;
  EXPECT_FALSE(graph);
  graph.begin(stream);
  run(exec, b);
  run(exec, b);
  graph.end();
  EXPECT_TRUE(graph);
  EXPECT_EQ(graph.nodes(), 2u);
  CudaEvent before, after;
  before.record(stream);
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  after.record(stream);
  stream.synchronise();
  EXPECT_TRUE(stream.idle());
  EXPECT_GT(after.seconds_since(before), 0);
  EXPECT_EQ(one.results(1), two.results(1));  // no NaN: v starts positive
}

TEST_F(CudaOps, RuntimeCopies) {
  EXPECT_FALSE(cuda_device_name(0).empty());
  const CudaMemory memory = cuda_memory();
  EXPECT_GT(memory.free, 0u);
  EXPECT_GE(memory.total, memory.free);
  const CudaStream stream;
  Buffer device(Device::cuda, 4000), other(Device::cuda, 4000);
  auto* pinned = static_cast<int*>(cuda_allocate_pinned(4000));
  ASSERT_NE(pinned, nullptr);
  for (int i = 0; i < 1000; ++i) pinned[i] = i;
  stream.copy_to_device(device.data(), pinned, 4000);
  stream.copy_on_device(other.data(), device.data(), 4000);
  stream.fill_zero(other.data(), 400);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) pinned[i] = -1;
  stream.copy_to_host(pinned, other.data(), 4000);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(pinned[i], i < 100 ? 0 : i);
  cuda_free_pinned(pinned);
}

}  // namespace
}  // namespace crosstalk
