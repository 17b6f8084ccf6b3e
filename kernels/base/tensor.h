// Tensor views: dense, row-major, replica-major. The first dimension of every tensor is the replica R.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/host_device.h"

namespace crosstalk {

/// Rounds an element count up so that replicas keep 64-byte alignment.
template <class T>
constexpr std::int64_t padded(std::int64_t n) {
  constexpr std::int64_t unit = 64 / static_cast<std::int64_t>(sizeof(T));
  return (n + unit - 1) / unit * unit;
}

/// Layout of a tensor's numbers in memory.
enum class Format : std::uint8_t {
  native,  ///< as T
  bf16,    ///< in two bytes, as products in bf16 round them (CUDA, T = float), where an op names the field
};

/// A view of R replicas of a dense row-major array of `rank` dimensions. Replicas lie `replica_stride` times
/// sizeof(T) bytes apart, whatever the format (a multiple of 64 bytes, so that every replica has the same
/// alignment and hence the same bits). Owns nothing.
template <class T>
struct Tensor {
  static constexpr int kMaxRank = 5;
  T* data = nullptr;
  std::int64_t replica_stride = 0;
  int R = 0;
  int rank = 0;
  int dims[kMaxRank] = {0, 0, 0, 0, 0};  ///< without the replica dimension
  Format format = Format::native;

  CT_HD bool is_bf16() const { return format == Format::bf16; }
  CT_HD T* at(int r) const { return data + r * replica_stride; }
  /// Start of replica r of a tensor in bf16.
  CT_HD std::uint16_t* bf16_at(int r) const { return reinterpret_cast<std::uint16_t*>(at(r)); }
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
  /// Bytes of the numbers of one replica.
  CT_HD std::int64_t bytes() const {
    return size() * static_cast<std::int64_t>(is_bf16() ? sizeof(std::uint16_t) : sizeof(T));
  }
  /// The stride of replicas that hold so many tensors of this shape one after the other.
  std::int64_t stride_for(int copies = 1) const {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(T));
    return padded<T>((bytes() * copies + unit - 1) / unit);
  }
};

/// A backward pass's way with the gradient of one input.
enum class Write : int {
  none,       ///< leave it: nobody wants it
  overwrite,  ///< first contribution
  add,        ///< further contribution
};

}  // namespace crosstalk
