// The part of the algebra of gates (elementwise.h) that chooses, places or makes numbers and calculates nothing:
//
//   maximum  the largest of a row
//   swap     the second and the third dimension change places
//   constant numbers of the model
//   one_hot  y_n = onehot(id_n), 0 where the id is absent
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/sweep.h"

namespace crosstalk {

/// The largest of every row of the last dimension, x [R,..,D] -> y [R,..,1]. Of equally large ones the first
/// has the gradient.
template <class Real>
struct Maximum {
  In<Real> x;
  Out<Real> y;
  static constexpr const char* kName = "maximum";
  CROSSTALK_FIELDS(x, y)
  void plan() {
    if (x.value.columns() < 1) throw std::logic_error("[maximum] rows are empty");
    y.value = without_memory(x.value);
    y.value.dims[y.value.rank - 1] = 1;
  }
  /// Index of the largest entry of a row.
  CT_HD int place(const Real* row) const {
    int at = 0;
    for (int j = 1; j < x.value.columns(); ++j)
      if (row[j] > row[at]) at = j;
    return at;
  }
  CROSSTALK_SWEEP(x.value.rows(), take)
  CROSSTALK_SWEEP_BACK(x, x.value.rows(), give_back)
  CT_HD void take(int r, std::int64_t i) const {
    const Real* row = x.value.at(r) + i * x.value.columns();
    y.value.at(r)[i] = row[place(row)];
  }
  CT_HD void give_back(int r, std::int64_t i) const {
    const int D = x.value.columns(), at = place(x.value.at(r) + i * D);
    for (int j = 0; j < D; ++j)
      put(x.write, x.gradient.at(r) + i * D + j, j == at ? y.gradient.at(r)[i] : Real(0));
  }
};
CROSSTALK_SWEPT(Maximum)

/// x [R,A,B,C,D] -> y [R,A,C,B,D].
template <class Real>
struct Swap {
  In<Real> x;
  Out<Real> y;
  static constexpr const char* kName = "swap";
  CROSSTALK_FIELDS(x, y)
  void plan() {
    if (x.value.rank != 4) throw std::logic_error("[swap] wants four dimensions");
    y.value = shaped<Real>(x.value.R, {x.value.dims[0], x.value.dims[2], x.value.dims[1], x.value.dims[3]});
  }
  /// Index in x of element i of y.
  CT_HD std::int64_t index(std::int64_t i) const {
    const std::int64_t D = x.value.dims[3], B = x.value.dims[1], C = x.value.dims[2];
    const std::int64_t column = i % D, b = i / D % B, c = i / D / B % C, a = i / D / B / C;
    return ((a * B + b) * C + c) * D + column;
  }
  CROSSTALK_SWEEP(y.value.size(), take)
  CROSSTALK_SWEEP_BACK(x, y.value.size(), give_back)
  CT_HD void take(int r, std::int64_t i) const { y.value.at(r)[i] = x.value.at(r)[index(i)]; }
  CT_HD void give_back(int r, std::int64_t i) const {
    put(x.write, x.gradient.at(r) + index(i), y.gradient.at(r)[i]);
  }
};
CROSSTALK_SWEPT(Swap)

/// Numbers that a model fixes, one a head; without a gradient.
template <class Real>
struct Constant {
  static constexpr int kMost = 64;
  double number[kMost] = {};
  Out<Real> y;  ///< its shape, at most kMost elements, is set before plan()
  static constexpr const char* kName = "constant";
  static constexpr bool kWithoutGradient = true;
  CROSSTALK_FIELDS(y)
  void plan() const {
    if (y.value.size() > kMost) throw std::logic_error("[constant] too many numbers");
  }
  CROSSTALK_SWEEP(y.value.size(), give)
  CT_HD void give(int r, std::int64_t i) const { y.value.at(r)[i] = static_cast<Real>(number[i]); }
};
CROSSTALK_SWEPT(Constant)

/// ids int32 [R,..,C] -> y [R,..,size] of channel `channel`; without a gradient.
template <class Real>
struct OneHot {
  int channel = 0;
  Ids ids;
  Out<Real> y;  ///< its shape is set before plan()
  static constexpr const char* kName = "one_hot";
  static constexpr bool kWithoutGradient = true;
  CROSSTALK_FIELDS(ids, y)
  void plan() const {
    if (!ids || y.value.rows() != ids.value.rows() || channel >= ids.value.columns())
      throw std::logic_error("[one_hot] shapes do not fit");
  }
  CROSSTALK_SWEEP(y.value.size(), mark)
  CT_HD void mark(int r, std::int64_t i) const {
    const int size = y.value.columns();
    y.value.at(r)[i] =
        i % size == ids.value.at(r)[i / size * ids.value.columns() + channel] ? Real(1) : Real(0);
  }
};
CROSSTALK_SWEPT(OneHot)

}  // namespace crosstalk
