// The two ops one after the other, with the features between them in memory of their own.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/table_recurrence.h"

#include "kernels/base/buffer.h"

namespace crosstalk {
namespace {

/// k and what it was divided by, and room for d_k.
template <class Real>
struct Keys {
  Arena memory{Device::cpu};
  Tensor<Real> k, inverse, d_k;
  Keys(const Exec& exec, const TableFeatures<Real>& from, int R, int B, int T, int P, bool with_d_k)
      : k(shaped<Real>(R, {B, T, P})), inverse(shaped<Real>(R, {B, T})), d_k(k) {
    memory.reserve(&k), memory.reserve(&inverse);
    if (with_d_k) memory.reserve(&d_k);
    memory.allocate();
    run_cpu(exec, TableFeaturesForward<Real>{from, k, inverse});
  }
};

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceForward<Real>& a) {
  const Keys<Real> keys(exec, a.from, a.read.a.R, a.read.a.dim(0), a.read.a.dim(2), a.read.q.columns(),
                        false);
  RecurrentReadForward<Real> read = a.read;
  read.k = keys.k;
  run_cpu(exec, read);
}

template <class Real>
void run_cpu(const Exec& exec, const TableRecurrenceBackward<Real>& a) {
  const int R = a.read.d_a.R, B = a.read.d_a.dim(0), T = a.read.d_a.dim(2), P = a.read.q.columns();
  const Keys<Real> keys(exec, a.from, R, B, T, P, true);
  RecurrentReadBackward<Real> read = a.read;
  read.k = keys.k, read.d_k = keys.d_k, read.write_k = Write::overwrite;
  run_cpu(exec, read);
  run_cpu(exec, TableFeaturesBackward<Real>{a.from, keys.inverse, keys.d_k, a.d_x});
}

template void run_cpu(const Exec&, const TableRecurrenceForward<float>&);
template void run_cpu(const Exec&, const TableRecurrenceForward<double>&);
template void run_cpu(const Exec&, const TableRecurrenceBackward<float>&);
template void run_cpu(const Exec&, const TableRecurrenceBackward<double>&);

}  // namespace crosstalk
