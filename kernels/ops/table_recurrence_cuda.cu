// The chunked recurrence whose builder warps make their keys from table rows (ops/recurrence_chunked.cuh,
// ops/chunk_keys.cuh). SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/table_recurrence.h"

#include "kernels/ops/chunk_keys.cuh"
#include "kernels/ops/recurrence_chunked.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// Calls f(chain warps, keys).
template <class Real, class F>
void with_keys(const char* name, const TableFeatures<Real>& from, F&& f) {
  const TableKeys<Real>& keys = from.keys;
  if (!table_recurrence_covers(keys.map, keys.table[0].columns(), keys.nu))
    refuse_shape(name, "columns", keys.table[0].columns(), 64);
  const auto with_norm = [&](auto warps, auto nu) {
    constexpr int W = decltype(warps)::value, kNu = decltype(nu)::value;
    if (from.normalised && from.norm == RowNorm::sum) {
      f.template operator()<W, MadeKeys<Real, kNu, true>>();
    } else {
      f.template operator()<W, MadeKeys<Real, kNu, false>>();
    }
  };
  const std::integral_constant<int, 1> one;
  const std::integral_constant<int, 2> two;
  if (keys.map != FeatureMap::dpfp) {
    with_norm(one, std::integral_constant<int, 0>());
  } else if (keys.nu == 1) {
    with_norm(one, one);
  } else {
    with_norm(two, two);
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceForward<Real>& a) {
  if (a.read.a.size() == 0 || a.read.a.R == 0) return;
  with_keys("recurrence over tables", a.from, [&]<int W, class Keys>() {
    launch_chunks<W, Keys>(exec, a.read, typename Keys::Given{a.from, {}});
  });
  check_launch("recurrence over tables");
}

template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceBackward<Real>& a) {
  if (a.read.d_a.size() == 0 || a.read.d_a.R == 0) return;
  with_keys("recurrence over tables, backward", a.from, [&]<int W, class Keys>() {
    launch_chunks<W, Keys, true>(exec, a.read, typename Keys::Given{a.from, a.d_x});
  });
  check_launch("recurrence over tables, backward");
}

CROSSTALK_CUDA_OP(TableRecurrenceForward)
CROSSTALK_CUDA_OP(TableRecurrenceBackward)

}  // namespace crosstalk
