// Features of looked-up keys on the CPU: the chain of ops, sixteen rows at a time, so that what lies between stays in the first cache.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/base/parallel.h"
#include "kernels/fused/table_features.h"

namespace crosstalk {
namespace {

// Rows at a time: with so many the bits are those of the chain (feature_map_cpu.cpp).
constexpr std::int64_t kRows = 16;
constexpr std::int64_t kItem = 256;  // rows of one work item

/// Rows begin .. begin + n - 1 of replica r, as a tensor by itself.
template <class T>
Tensor<T> rows_of(const Tensor<T>& t, int r, std::int64_t begin, std::int64_t n, int columns) {
  Tensor<T> rows;
  rows.data = t.at(r) + begin * columns;
  rows.R = 1, rows.rank = 2, rows.dims[0] = static_cast<int>(n), rows.dims[1] = columns;
  return rows;
}

/// The chain for a few rows of one replica. What lies between its ops has room for kRows rows here.
template <class Real>
class Chain {
 public:
  Chain(const TableFeatures<Real>& from, int r)
      : from_(from),
        r_(r),
        d_(from.keys.table[0].columns()),
        p_(map_width(from.keys.map, d_, from.keys.nu, 0)) {
    const std::int64_t x = padded<Real>(kRows * d_), phi = padded<Real>(kRows * p_);
    room_.reset(
        static_cast<Real*>(std::aligned_alloc(64, static_cast<std::size_t>(x + 2 * phi) * sizeof(Real))));
    if (!room_) throw std::bad_alloc();
    x_.data = room_.get(), phi_.data = x_.data + x, d_phi_.data = phi_.data + phi;
  }

  void forward(std::int64_t begin, std::int64_t n, const TableFeaturesForward<Real>& a) {
    const Tensor<Real> y = rows_of(a.y, r_, begin, n, p_);
    MapFeatures<Real> map = map_of(begin, n);
    if (!from_.normalised) map.y.value = y;
    forward_cpu(Exec{}, map);
    if (from_.normalised) forward_cpu(Exec{}, norm_of(begin, n, y, a.inverse));
  }

  void backward(std::int64_t begin, std::int64_t n, const TableFeaturesBackward<Real>& a) {
    const Tensor<Real> d_y = rows_of(a.d_y, r_, begin, n, p_);
    MapFeatures<Real> map = map_of(begin, n);
    map.x.gradient = rows_of(a.d_x, r_, begin, n, d_), map.x.write = Write::overwrite;
    map.y.gradient = d_y;
    if (from_.normalised) {
      Normalize<Real> norm = norm_of(begin, n, rows_of(a.y, r_, begin, n, p_), a.inverse);
      norm.x.gradient = map.y.gradient = rows_of(d_phi_, 0, 0, n, p_), norm.x.write = Write::overwrite;
      norm.y.gradient = d_y;
      backward_cpu(Exec{}, norm);
    }
    backward_cpu(Exec{}, map);
  }

 private:
  struct Free {
    void operator()(Real* p) const { std::free(p); }
  };

  /// The map, its rows looked up.
  MapFeatures<Real> map_of(std::int64_t begin, std::int64_t n) {
    const TableKeys<Real>& keys = from_.keys;
    Lookup<Real> lookup;
    lookup.tables = keys.tables;
    lookup.ids.value = rows_of(keys.ids, r_, begin, n, keys.ids.columns());
    for (int i = 0; i < keys.tables; ++i) {
      lookup.channel[i] = keys.channel[i];
      lookup.table[i].value = rows_of(keys.table[i], r_, 0, keys.table[i].rows(), d_);
    }
    lookup.y.value = rows_of(x_, 0, 0, n, d_);
    forward_cpu(Exec{}, lookup);
    MapFeatures<Real> map;
    map.map = keys.map, map.number = keys.nu;
    map.x.value = lookup.y.value, map.y.value = rows_of(phi_, 0, 0, n, p_);
    return map;
  }
  Normalize<Real> norm_of(std::int64_t begin, std::int64_t n, const Tensor<Real>& y,
                          const Tensor<Real>& inverse) {
    Normalize<Real> norm;
    norm.norm = from_.norm, norm.eps = from_.eps;
    norm.x.value = rows_of(phi_, 0, 0, n, p_), norm.y.value = y;
    norm.inverse.value = rows_of(inverse, r_, begin, n, 1);
    return norm;
  }

  const TableFeatures<Real>& from_;
  int r_, d_, p_;
  // No Buffer: those are a device's memory, of which packs know beforehand.
  std::unique_ptr<Real, Free> room_;
  Tensor<Real> x_, phi_, d_phi_;
};

/// Calls f(chain, begin, n) for kRows rows after the other.
template <class Real, class F>
void by_rows(const Exec& exec, const TableFeatures<Real>& from, const Tensor<Real>& y, F&& f) {
  parallel_blocks(exec, y.R, y.rows(), kItem, [&](int r, std::int64_t begin, std::int64_t end) {
    Chain<Real> chain(from, r);
    for (; begin < end; begin += kRows) f(chain, begin, std::min(kRows, end - begin));
  });
}

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const TableFeaturesForward<Real>& a) {
  by_rows(exec, a.from, a.y,
          [&](Chain<Real>& chain, std::int64_t begin, std::int64_t n) { chain.forward(begin, n, a); });
}

template <class Real>
void run_cpu(const Exec& exec, const TableFeaturesBackward<Real>& a) {
  by_rows(exec, a.from, a.d_y,
          [&](Chain<Real>& chain, std::int64_t begin, std::int64_t n) { chain.backward(begin, n, a); });
}

CROSSTALK_INSTANTIATE_STEP(cpu, TableFeaturesForward)
CROSSTALK_INSTANTIATE_STEP(cpu, TableFeaturesBackward)

}  // namespace crosstalk
