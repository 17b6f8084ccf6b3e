// Tables of keys on the GPU: lookups, lists of ids, features.
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

struct LookupShape {
  int N, D, rows0, rows1;
};
const LookupShape kLookupShapes[] = {{1, 1, 1, 1},      {7, 3, 2, 5},       {640, 64, 20, 44},
                                     {700, 1, 600, 3},  {333, 65, 37, 90},  {1300, 130, 5, 33},
                                     {3000, 2, 700, 1}, {2049, 12, 40, 17}, {32, 300, 9, 50}};

TEST_F(CudaOps, LookupForward) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    for (bool bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1);
      check<Lookup>(3, 1, [=](Fields& f, auto& a) {
        f.in(a.ids.value, {N, 2}, -1, std::min(rows0, rows1));
        a.tables = 2;
        f.in(a.table[0].value, {rows0, D});
        f.in(a.table[1].value, {rows1, D});
        a.channel[0] = 1;
        a.channel[1] = 0;
        if (bias) f.in(a.bias.value, {D});
        f.out(a.y.value, {N, D});
      });
    }
  }
}

TEST_F(CudaOps, LookupBackward) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1);
    for_writes([=](Write mode) {
      check_backward<Lookup>(N, 1, [=](Fields& f, auto& a) {
        f.in(a.ids.value, {N, 3}, -1, rows0);
        a.tables = 2;
        f.out(a.table[0].gradient, {rows0, D});
        f.out(a.table[1].gradient, {std::max(rows0, rows1), D});
        a.channel[0] = 2;
        a.channel[1] = 1;
        a.table[0].write = mode;
        a.table[1].write = Write::overwrite;
        f.in(a.y.gradient, {N, D});
        f.out(a.bias.gradient, {D});
        a.bias.write = mode;
      });
    });
  }
}

// The op takes the shapes of one batch; the memory holds all of them.
template <class Real>
struct BucketCopies {
  BucketIds<Real> all;
};
template <class Real>
BucketIds<Real> of_one_batch(BucketIds<Real> a) {
  for (auto* t : {&a.ids, &a.order}) t->dims[0] /= a.copies;
  a.start.dims[0] /= a.copies;
  return a;
}
template <class Real>
void run_cpu(const Exec& exec, const BucketCopies<Real>& a) {
  run_cpu(exec, of_one_batch(a.all));
}
template <class Real>
void run_cuda(const Exec& exec, const BucketCopies<Real>& a) {
  run_cuda(exec, of_one_batch(a.all));
}

TEST_F(CudaOps, BucketIds) {
  std::vector<LookupShape> shapes(std::begin(kLookupShapes), std::end(kLookupShapes));
  for (const int rows : {1024, 1025, 2049, 8192}) shapes.push_back({20'000, 1, rows, 1});
  for (auto [N, D, rows0, rows1] : shapes) {
    for (int copies : {1, 3}) {
      SCOPED_TRACE(testing::Message() << N << " " << rows0 << " " << copies);
      check<BucketCopies>(0, 1, [=](Fields& f, auto& a) {
        f.in(a.all.ids, {copies * N, 3}, -1, rows0);
        a.all.channel = 1;
        a.all.copies = copies;
        f.out(a.all.order, {copies * N});
        f.out(a.all.start, {copies * (rows0 + 1)});
      });
    }
  }
}

// Gradients summed from lists of ids; on the CPU they are searched.
template <class Real>
struct ListedLookupBackward {
  BucketIds<Real> lists[3];
  Lookup<Real> sum;
};
template <class Real>
void run_cpu(const Exec& exec, const ListedLookupBackward<Real>& a) {
  backward_cpu(exec, a.sum);
}
template <class Real>
void run_cuda(const Exec& exec, ListedLookupBackward<Real> a) {
  for (int i = 0; i < a.sum.tables; ++i) {
    run_cuda(exec, a.lists[i]);
    a.sum.order[i].value = a.lists[i].order;
    a.sum.start[i].value = a.lists[i].start;
  }
  backward_cuda(exec, a.sum);
}

// Three tables, the last of which is the first once more.
TEST_F(CudaOps, LookupBackwardFromLists) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    for (int tables : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1 << " " << tables);
      for_writes([=](Write mode) {
        check<ListedLookupBackward>(N, 1, [=](Fields& f, auto& a) {
          const int rows[3] = {rows0, std::max(rows0, rows1), rows0};
          f.in(a.sum.ids.value, {N, 3}, -1, rows0);
          f.in(a.sum.y.gradient, {N, D});
          for (int i = 0; i < tables; ++i) {
            f.work(a.lists[i].order, {N});
            f.work(a.lists[i].start, {rows[i] + 1});
            if (i < 2) f.out(a.sum.table[i].gradient, {rows[i], D});
            a.lists[i].channel = a.sum.channel[i] = 2 - i;
            a.sum.table[i].write = i < 2 ? mode : Write::add;
          }
          a.sum.tables = tables;
          f.after([&a] {
            for (auto& lists : a.lists) lists.ids = a.sum.ids.value;
            a.sum.table[2].gradient = a.sum.table[0].gradient;
          });
        });
      });
    }
  }
}

// A few tokens that stand nearly everywhere, as fillers do, among many that stand nowhere.
TEST_F(CudaOps, LookupBackwardFromLongLists) {
  for (auto [N, D, rows] : {std::array{7001, 70, 200}, std::array{90001, 36, 130}}) {
    SCOPED_TRACE(N);
    for_writes([=, N = N, D = D, rows = rows](Write mode) {
      check<ListedLookupBackward>(N, 1, [=](Fields& f, auto& a) {
        f.in(a.sum.ids.value, {N, 1}, -1, 3);
        f.in(a.sum.y.gradient, {N, D});
        f.work(a.lists[0].order, {N});
        f.work(a.lists[0].start, {rows + 1});
        f.out(a.sum.table[0].gradient, {rows, D});
        a.sum.table[0].write = mode;
        a.sum.tables = 1;
        f.after([&a] { a.lists[0].ids = a.sum.ids.value; });
      });
    });
  }
}

TEST_F(CudaOps, TableFeatures) {
  struct Shape {
    FeatureMap map;
    int nu, d, norm;
  };
  for (auto [map, nu, d, norm] : {Shape{FeatureMap::dpfp, 1, 64, 0}, Shape{FeatureMap::dpfp, 3, 64, -1},
                                  Shape{FeatureMap::dpfp, 2, 37, 1}, Shape{FeatureMap::elu1, 1, 64, 0},
                                  Shape{FeatureMap::tanh, 1, 64, -1}, Shape{FeatureMap::relu, 1, 33, 1},
                                  Shape{FeatureMap::identity, 1, 20, 1}, Shape{FeatureMap::dpfp, 8, 64, 0},
                                  Shape{FeatureMap::dpfp, 33, 32, 0}, Shape{FeatureMap::dpfp, 2, 128, 1},
                                  Shape{FeatureMap::elu1, 1, 32, 1}, Shape{FeatureMap::relu, 1, 128, 0},
                                  Shape{FeatureMap::silu, 1, 64, 1}, Shape{FeatureMap::exp, 1, 33, 0}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(map) << " " << nu << " " << d << " " << norm);
    const int p = map == FeatureMap::dpfp ? 2 * d * nu : d, N = 701;
    const auto from = [=, map = map, nu = nu, norm = norm, d = d](Fields& f, auto& a) {
      a.keys.map = map, a.keys.nu = nu, a.normalised = norm >= 0,
      a.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum;
      a.eps = 1e-6;
      f.in(a.keys.ids, {N, 2}, 0, 40);
      a.keys.tables = 2;
      f.in(a.keys.table[0], {40, d});
      f.in(a.keys.table[1], {53, d});
      a.keys.channel[0] = 1;
      a.keys.channel[1] = 0;
    };
    check<TableFeaturesForward>(p, 1, [=](Fields& f, auto& a) {
      from(f, a.from);
      f.out(a.y, {N, p});
      if (norm >= 0) {
        f.out(a.inverse, {N});
      } else {
        f.work(a.inverse, {N});
      }
    });
    check<TableFeaturesBackward>(p, 4, [=, d = d](Fields& f, auto& a) {
      from(f, a.from);
      f.in(a.inverse, {N}, 0.1, 1);  // need not be what the forward pass leaves
      f.in(a.d_y, {N, p});
      f.out(a.d_x, {N, d});
    });
  }
}

}  // namespace
}  // namespace crosstalk
