// Recurrent reads and prefix sums on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/testing/cuda_op.h"

namespace crosstalk {
namespace {

using namespace checks;
using CudaOps = CudaTest;

TEST_F(CudaOps, PrefixDot) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q);
    check<PrefixDotForward>(T + P, 2, [=](Fields& f, auto& a) {
      f.in(a.k, {B, T, P});
      f.in(a.q, {B, Q, P});
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.zk, {B, T});
      f.out(a.zq, {B, Q});
    });
    for_writes([=](Write mode) {
      check<PrefixDotBackward>(2 * T + Q, 2, [=](Fields& f, auto& a) {
        a.write_k = a.write_q = mode;
        f.in(a.k, {B, T, P});
        f.in(a.q, {B, Q, P});
        f.in(a.d_zk, {B, T});
        f.in(a.d_zq, {B, Q});
        f.in(a.position, {B, Q}, 0, T + 1);
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, Q, P});
      });
    });
  }
}

// The same with a trail instead of the history.
TEST_F(CudaOps, RecurrentReadByTrail) {
  for (auto [B, T, P] : {std::array{1, 1, 1},
                         {3, 5, 4},
                         {4, 33, 20},
                         {2, 200, 128},
                         {3, 47, 64},
                         {2, 61, 132},
                         {2, 50, 256},
                         {2, 37, 400},
                         {2, 21, 700}}) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P);
    const int columns = P + (T + 3) / 4 * 4;
    const auto inputs = [=, B = B, T = T, P = P](Fields& f, auto& a) {
      f.in(a.k, {B, T, P}, -unit(P), unit(P));
      f.in(a.q, {B, 1, P});
      f.in(a.write, {B, T}, 0, 1);
      f.in(a.erase, {B, T}, 0, 1);
      f.in(a.position, {B, 1}, 0, T + 1);
    };
    check<RecurrentReadForward>(T + P, 4, [=, B = B, T = T](Fields& f, auto& a) {
      inputs(f, a);
      f.out(a.a, {B, 1, T});
      f.work(a.trail, {B, columns});
    });
    for_writes([=, B = B, T = T, P = P](Write mode) {
      check<RecurrentReadBackward>(T + P, 8, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.in(a.trail, {B, columns});
        f.in(a.d_a, {B, 1, T});
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, 1, P});
        f.out(a.d_write, {B, T});
        f.out(a.d_erase, {B, T});
        a.write_k = a.write_q = a.write_write = a.write_erase = mode;
      });
    });
  }
}

// The same with keys made from tables. Forward and backward pass in one call, since the trail belongs to
// both.
template <class Real>
struct TableRecurrence {
  TableRecurrenceForward<Real> forward;
  TableRecurrenceBackward<Real> backward;
};
template <class Real>
void complete(TableRecurrence<Real>& a) {
  a.backward.from = a.forward.from;
  auto &from = a.forward.read, &to = a.backward.read;
  to.q = from.q, to.write = from.write, to.erase = from.erase;
  to.position = from.position, to.trail = from.trail;
}
template <class Real>
void run_cpu(const Exec& exec, const TableRecurrence<Real>& a) {
  run_cpu(exec, a.forward);
  run_cpu(exec, a.backward);
}
template <class Real>
void run_cuda(const Exec& exec, const TableRecurrence<Real>& a) {
  run_cuda(exec, a.forward);
  run_cuda(exec, a.backward);
}

TEST_F(CudaOps, TableRecurrence) {
  struct Shape {
    FeatureMap map;
    int nu, norm, B, T, tables;
  };
  for (auto [map, nu, norm, B, T, tables] :
       {Shape{FeatureMap::dpfp, 1, 0, 3, 200, 2}, Shape{FeatureMap::dpfp, 2, 0, 2, 83, 2},
        Shape{FeatureMap::dpfp, 2, 1, 2, 33, 3}, Shape{FeatureMap::dpfp, 1, 1, 4, 16, 1},
        Shape{FeatureMap::dpfp, 1, -1, 2, 50, 2}, Shape{FeatureMap::elu1, 1, 0, 3, 100, 2},
        Shape{FeatureMap::relu, 1, 1, 2, 47, 3}, Shape{FeatureMap::identity, 1, 1, 2, 65, 2},
        Shape{FeatureMap::tanh, 1, 1, 5, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(map) << " " << nu << " " << norm << " " << B << " "
                                    << T << " " << tables);
    const int d = 64, p = map == FeatureMap::dpfp ? 2 * d * nu : d, columns = p + (T + 3) / 4 * 4;
    const double size = norm < 0 ? 0.3 : 1;  // keys about as long as 1 even if not normalised
    for_writes([=, map = map, nu = nu, norm = norm, B = B, T = T, tables = tables](Write mode) {
      check<TableRecurrence>(T + p, 8, [=](Fields& f, auto& a) {
        auto& keys = a.forward.from.keys;
        keys.map = map, keys.nu = nu, a.forward.from.normalised = norm >= 0,
        a.forward.from.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum;
        a.forward.from.eps = 1e-6;
        f.in(keys.ids, {B, T, 3}, norm == 0 ? 0 : -1, 40);
        keys.tables = tables;
        for (int i = 0; i < tables; ++i) {
          f.in(keys.table[i], {40 + i, d}, -size, size);
          keys.channel[i] = 2 - i;
        }
        auto &read = a.forward.read, &back = a.backward.read;
        f.in(read.q, {B, 1, p});
        f.in(read.write, {B, T}, 0, 1);
        f.in(read.erase, {B, T}, 0, 1);
        f.in(read.position, {B, 1}, 0, T + 1);
        f.out(read.a, {B, 1, T});
        f.work(read.trail, {B, columns});
        f.in(back.d_a, {B, 1, T});
        f.out(a.backward.d_x, {B, T, d});
        f.out(back.d_q, {B, 1, p});
        f.out(back.d_write, {B, T});
        f.out(back.d_erase, {B, T});
        back.write_q = back.write_write = back.write_erase = mode;
        f.after([&a] { complete(a); });
      });
    });
  }
}

TEST_F(CudaOps, RecurrentRead) {
  for (auto [B, T, P, Q] : kReadShapes) {
    for (int gates = 0; gates < 8; gates += gates == 0 ? 1 : 2) {  // none, write, write+erase, ..., all
      SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << ", gates " << gates);
      const auto inputs = [=](Fields& f, auto& a) {
        f.in(a.k, {B, T, P}, -unit(P), unit(P));
        f.in(a.q, {B, Q, P});
        if (gates & 1) f.in(a.write, {B, T}, 0, 1);
        if (gates & 2) f.in(a.erase, {B, T}, 0, 1);
        if (gates & 4) f.in(a.decay, {B, T}, 0.9, 1);
        f.in(a.position, {B, Q}, 0, T + 1);
      };
      check<RecurrentReadForward>(T + P, 4, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.out(a.a, {B, Q, T});
        if (Q == 1) {
          f.out(a.history, {B, T, P});
        } else {
          f.work(a.history, {B, T, P});
        }
      });
      for_writes([=](Write mode) {
        check<RecurrentReadBackward>(T + P + Q, 8, [=](Fields& f, auto& a) {
          inputs(f, a);
          if (Q == 1) {
            f.in(a.history, {B, T, P});
          } else {
            f.work(a.history, {B, T, P});
          }
          f.in(a.d_a, {B, Q, T});
          f.out(a.d_k, {B, T, P});
          f.out(a.d_q, {B, Q, P});
          a.write_k = a.write_q = mode;
          if (gates & 1) f.out(a.d_write, {B, T}), a.write_write = mode;
          if (gates & 2) f.out(a.d_erase, {B, T}), a.write_erase = mode;
          if (gates & 4) f.out(a.d_decay, {B, T}), a.write_decay = mode;
        });
      });
    }
  }
}

}  // namespace
}  // namespace crosstalk
