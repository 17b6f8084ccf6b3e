// Table rows chosen by tokens; gradients are sums over lists of where each id stands (lookup_lists.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/base/device/each.cuh"
#include "kernels/embedding/lookup.h"
#include "kernels/embedding/lookup_lists.cuh"
#include "kernels/matmul/column_sum.cuh"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real>
CT_DEVICE void load_piece(const Real* p, Real (&x)[1]) {
  x[0] = *p;
}
template <class Real>
CT_DEVICE void load_piece(const Real* p, Real (&x)[4]) {
  load4(p, 4, true, x);
}

// kBatch pieces of rows a thread, all on their way at once: 4 columns each where kWide, else 1.
constexpr int kBatch = 4;
template <class Real, bool kWide>
__global__ void __launch_bounds__(kThreads) gather_rows(const __grid_constant__ Lookup<Real> a) {
  wait_for_earlier();
  constexpr int kColumns = kWide ? 4 : 1;
  const int d = a.y.value.columns(), c = a.ids.value.columns(), r = blockIdx.y;
  const unsigned quads = static_cast<unsigned>(d / kColumns);  // pieces of a replica: fewer than 2^32
  const auto rows = static_cast<unsigned>(a.y.value.rows());
  Real sum[kBatch][kColumns] = {};
  unsigned n[kBatch];
  int j[kBatch];
  CT_FOR(m, kBatch) {
    const unsigned i = (blockIdx.x * kBatch + static_cast<unsigned>(m)) * kThreads + threadIdx.x;
    n[m] = i / quads, j[m] = static_cast<int>(i % quads) * kColumns;
    if (a.bias.value && n[m] < rows)
      load_piece(a.bias.value.at(r) + n[m] % static_cast<unsigned>(a.bias_rows()) * d + j[m], sum[m]);
  }
  for (int t = 0; t < a.tables; ++t) {
    std::int32_t id[kBatch];
    Real x[kBatch][kColumns] = {};
    CT_FOR(m, kBatch)
      id[m] = n[m] < rows ? a.ids.value.at(r)[std::int64_t{n[m]} * c + a.channel[t]] : std::int32_t(-1);
    CT_FOR(m, kBatch)
      if (id[m] >= 0) load_piece(a.table[t].value.at(r) + std::int64_t{id[m]} * d + j[m], x[m]);
    CT_FOR2(m, kBatch, k, kColumns) sum[m][k] += x[m][k];
  }
  CT_FOR(m, kBatch) {
    if (n[m] >= rows) continue;
    Real* y = a.y.value.at(r) + std::int64_t{n[m]} * d + j[m];
    if constexpr (kWide)
      *reinterpret_cast<Four<Real>*>(y) = {{sum[m][0], sum[m][1], sum[m][2], sum[m][3]}};
    else
      *y = sum[m][0];
  }
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Lookup<Real>& a) {
  const int d = a.y.value.columns();
  const std::int64_t pieces = a.y.value.rows() * (d % 4 == 0 ? d / 4 : d);
  launch_early(exec, "lookup", d % 4 == 0 ? gather_rows<Real, true> : gather_rows<Real, false>,
               per_replica(blocks_for(pieces, kBatch * kThreads), a.y.value.R), kThreads, 0, a);
}

template <class Real>
void backward_cuda(const Exec& exec, const Lookup<Real>& a) {
  sum_by_lists(exec, a);
  if (!a.bias.wanted()) return;
  ColumnSum<Real> sum;  // sequences are rows where the bias has a row for each position
  const int positions = a.bias_rows();
  sum.rows = a.y.gradient.rows() / positions, sum.columns = a.y.gradient.columns() * positions;
  sum.x = a.y.gradient.data, sum.x_replica = a.y.gradient.replica_stride;
  sum.out = a.bias.gradient.data, sum.out_replica = a.bias.gradient.replica_stride;
  sum.mode = a.bias.write;
  column_sum(exec, "lookup backward (bias)", sum, a.y.gradient.R);
  if (a.bias.write == Write::add) return;
  each(exec, "lookup backward (bias)", a.y.gradient.R, a.bias.gradient.size() - sum.columns,
       [=] __device__(int r, std::int64_t i) { a.bias.gradient.at(r)[sum.columns + i] = 0; });
}

CROSSTALK_INSTANTIATE(cuda, Lookup)

}  // namespace crosstalk
