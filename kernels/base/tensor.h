// Tensor views: dense, row-major, replica-major. The first dimension of every tensor is the replica R.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/host_device.h"

namespace crosstalk {

/// A view of R replicas of a dense row-major array of `rank` dimensions. Replicas lie `replica_stride`
/// elements apart (a multiple of 64 bytes, so that every replica has the same alignment and hence the same
/// bits). Owns nothing.
template <class T>
struct Tensor {
  static constexpr int kMaxRank = 5;
  T* data = nullptr;
  std::int64_t replica_stride = 0;
  int R = 0;
  int rank = 0;
  int dims[kMaxRank] = {0, 0, 0, 0, 0};  ///< without the replica dimension

  CT_HD T* at(int r) const { return data + r * replica_stride; }
  CT_HD int dim(int i) const { return dims[i]; }
  CT_HD explicit operator bool() const { return data != nullptr; }
  /// Elements of one replica.
  CT_HD std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  /// The last dimension and the product of the others: the tensor as a matrix of rows.
  CT_HD int columns() const { return rank == 0 ? 1 : dims[rank - 1]; }
  CT_HD std::int64_t rows() const { return columns() == 0 ? 0 : size() / columns(); }
};

/// What a backward pass does to the gradient of one input.
enum class Write : int {
  none,       ///< leave it: nobody wants it
  overwrite,  ///< first contribution
  add,        ///< further contribution
};

/// Rounds an element count up so that replicas keep 64-byte alignment.
template <class T>
constexpr std::int64_t padded(std::int64_t n) {
  constexpr std::int64_t unit = 64 / static_cast<std::int64_t>(sizeof(T));
  return (n + unit - 1) / unit * unit;
}

}  // namespace crosstalk
