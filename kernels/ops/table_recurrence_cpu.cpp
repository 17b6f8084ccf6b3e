// The two ops one after the other, with the features between them in memory of their own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/table_recurrence.h"

#include <vector>

namespace crosstalk {
namespace {

/// Scratch [R,B,T,columns], each replica at 64 bytes.
template <class Real>
struct Scratch {
  std::vector<Real> memory;
  Tensor<Real> tensor;
  Scratch(int R, int B, int T, int columns) {
    tensor.R = R;
    tensor.rank = 3;
    tensor.dims[0] = B, tensor.dims[1] = T, tensor.dims[2] = columns;
    tensor.replica_stride = padded<Real>(tensor.size());
    constexpr std::size_t unit = 64 / sizeof(Real);
    memory.resize(static_cast<std::size_t>(R * tensor.replica_stride) + unit);
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(Real);
    tensor.data = memory.data() + (unit - at % unit) % unit;
  }
};

/// k and what it was divided by.
template <class Real>
struct Keys {
  Scratch<Real> k, inverse;
  Keys(const Exec& exec, const TableFeatures<Real>& from, int R, int B, int T, int P)
      : k(R, B, T, P), inverse(R, B, T, 1) {
    run_cpu(exec, TableFeaturesForward<Real>{from, k.tensor, inverse.tensor});
  }
};

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceForward<Real>& a) {
  const Keys<Real> keys(exec, a.from, a.read.a.R, a.read.a.dim(0), a.read.a.dim(2), a.read.q.columns());
  RecurrentReadForward<Real> read = a.read;
  read.k = keys.k.tensor;
  run_cpu(exec, read);
}

template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceBackward<Real>& a) {
  const int R = a.read.d_a.R, B = a.read.d_a.dim(0), T = a.read.d_a.dim(2), P = a.read.q.columns();
  const Keys<Real> keys(exec, a.from, R, B, T, P);
  const Scratch<Real> d_k(R, B, T, P);
  RecurrentReadBackward<Real> read = a.read;
  read.k = keys.k.tensor, read.d_k = d_k.tensor, read.write_k = Write::overwrite;
  run_cpu(exec, read);
  run_cpu(exec, TableFeaturesBackward<Real>{a.from, keys.inverse.tensor, d_k.tensor, a.d_x});
}

template void run_cpu(const Exec&, const TableRecurrenceForward<float>&);
template void run_cpu(const Exec&, const TableRecurrenceForward<double>&);
template void run_cpu(const Exec&, const TableRecurrenceBackward<float>&);
template void run_cpu(const Exec&, const TableRecurrenceBackward<double>&);

}  // namespace crosstalk
