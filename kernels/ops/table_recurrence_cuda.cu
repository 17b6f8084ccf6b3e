// The chunked recurrence whose builder warps make their keys from table rows (ops/recurrence_chunked.cuh,
// ops/chunk_keys.cuh). SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/table_recurrence.h"

#include "kernels/ops/chunk_keys.cuh"
#include "kernels/ops/recurrence_chunked.cuh"

namespace crosstalk {
namespace {
using namespace device;

/// Calls f(chain warps, nu of MadeKeys).
template <class F>
void with_keys(const char* name, FeatureMap map, int d, int nu, F&& f) {
  if (!table_recurrence_covers(map, d, nu)) refuse_shape(name, "columns", d, 128);
  const auto one = std::integral_constant<int, 1>();
  const auto many = std::integral_constant<int, 4>();
  if (map != FeatureMap::dpfp) {
    f(one, std::integral_constant<int, 0>());
  } else if (2 * d * nu > 128) {
    f(std::integral_constant<int, 2>(), many);
  } else if (nu == 1) {
    f(one, one);
  } else {
    f(one, many);
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceForward<Real>& a) {
  if (a.read.a.size() == 0 || a.read.a.R == 0) return;
  const TableKeys<Real>& keys = a.from.keys;
  with_keys("recurrence over tables", keys.map, keys.table[0].columns(), keys.nu, [&](auto warps, auto nu) {
    using Keys = MadeKeys<Real, decltype(nu)::value>;
    launch_chunks<decltype(warps)::value, Keys>(exec, a.read, typename Keys::Given{a.from, {}});
  });
  check_launch("recurrence over tables");
}

template <class Real>
void run_cuda(const Exec& exec, const TableRecurrenceBackward<Real>& a) {
  if (a.read.d_a.size() == 0 || a.read.d_a.R == 0) return;
  const TableKeys<Real>& keys = a.from.keys;
  with_keys(
      "recurrence over tables, backward", keys.map, keys.table[0].columns(), keys.nu,
      [&](auto warps, auto nu) {
        using Keys = MadeKeys<Real, decltype(nu)::value>;
        launch_chunks<decltype(warps)::value, Keys, true>(exec, a.read, typename Keys::Given{a.from, a.d_x});
      });
  check_launch("recurrence over tables, backward");
}

CROSSTALK_CUDA_OP(TableRecurrenceForward)
CROSSTALK_CUDA_OP(TableRecurrenceBackward)

}  // namespace crosstalk
