// The fine ops, one after the other, over blocks of rows that stay in the cache.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Core>

#include "kernels/base/parallel.h"
#include "kernels/fused/table_features.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kRows = 64;  // a multiple of 16: every work item starts at 64 bytes

// A view of rows begin .. begin + n - 1 of one replica.
template <class T>
Tensor<T> view(T* data, std::int64_t n, int columns) {
  Tensor<T> t;
  t.data = data;
  t.R = 1;
  t.rank = 2;
  t.dims[0] = static_cast<int>(n);
  t.dims[1] = columns;
  return t;
}

// x, phi(x) and y of a block of rows.
template <class Real>
struct Block {
  Eigen::Array<Real, Eigen::Dynamic, 1> x_data, phi_data, inverse_data;
  Tensor<Real> x, phi, inverse;
  Exec alone;  // one replica, one thread

  Block(const TableKeys<Real>& a, int r, std::int64_t begin, std::int64_t n, int p)
      : x_data(n * a.table[0].columns()), phi_data(n * p), inverse_data(n) {
    x = view(x_data.data(), n, a.table[0].columns());
    phi = view(phi_data.data(), n, p);
    inverse = view(inverse_data.data(), n, 1);
    Lookup<Real> lookup;
    const int c = a.ids.columns();
    lookup.ids.value = view(a.ids.at(r) + begin * c, n, c);
    lookup.tables = a.tables;
    for (int t = 0; t < a.tables; ++t) {
      lookup.table[t].value = view(a.table[t].at(r), a.table[t].rows(), a.table[t].columns());
      lookup.channel[t] = a.channel[t];
    }
    lookup.y.value = x;
    forward_cpu(alone, lookup);
    run_cpu(alone, FeatureMapForward<Real>{a.map, a.nu, x, {}, phi});
  }
};

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const TableFeaturesForward<Real>& a) {
  const int p = a.y.columns();
  parallel_blocks(exec, a.y.R, a.y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    Block<Real> block(a.from.keys, r, begin, end - begin, p);
    const Tensor<Real> y = view(a.y.at(r) + begin * p, end - begin, p);
    if (!a.from.normalised) {
      std::copy_n(block.phi.data, y.size(), y.data);
      return;
    }
    Normalize<Real> normalize;
    normalize.norm = a.from.norm, normalize.eps = a.from.eps;
    normalize.x.value = block.phi, normalize.y.value = y, normalize.inverse.value = block.inverse;
    forward_cpu(block.alone, normalize);
    std::copy_n(block.inverse.data, end - begin, a.inverse.at(r) + begin);
  });
}

template <class Real>
void run_cpu(const Exec& exec, const TableFeaturesBackward<Real>& a) {
  const int p = a.d_y.columns(), d = a.d_x.columns();
  parallel_blocks(exec, a.d_y.R, a.d_y.rows(), kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    Block<Real> block(a.from.keys, r, begin, n, p);
    Tensor<Real> d_phi = view(a.d_y.at(r) + begin * p, n, p);
    Eigen::Array<Real, Eigen::Dynamic, 1> y_data, d_phi_data;
    if (a.from.normalised) {
      y_data.resize(n * p), d_phi_data.resize(n * p);
      const Tensor<Real> y = view(y_data.data(), n, p), d_y = d_phi;
      d_phi = view(d_phi_data.data(), n, p);
      const Tensor<Real> inverse = view(a.inverse.at(r) + begin, n, 1);
      for (std::int64_t i = 0; i < n * p; ++i) y.data[i] = block.phi.data[i] * inverse.data[i / p];
      Normalize<Real> normalize;
      normalize.norm = a.from.norm;
      normalize.y.value = y, normalize.y.gradient = d_y, normalize.inverse.value = inverse;
      normalize.x.gradient = d_phi, normalize.x.write = Write::overwrite;
      backward_cpu(block.alone, normalize);
    }
    run_cpu(block.alone, FeatureMapBackward<Real>{a.from.keys.map,
                                                  a.from.keys.nu,
                                                  block.x,
                                                  {},
                                                  block.phi,
                                                  d_phi,
                                                  view(a.d_x.at(r) + begin * d, n, d),
                                                  Write::overwrite});
  });
}

template void run_cpu(const Exec&, const TableFeaturesForward<float>&);
template void run_cpu(const Exec&, const TableFeaturesForward<double>&);
template void run_cpu(const Exec&, const TableFeaturesBackward<float>&);
template void run_cpu(const Exec&, const TableFeaturesBackward<double>&);

}  // namespace crosstalk
