// Arrays in NumPy's .npy format, little endian (numpy.lib.format): written in C order as version 1.0, read in either order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

template <typename T>
struct NpyArray {
  std::vector<std::int64_t> shape;  ///< empty = one scalar
  std::vector<T> data;              ///< product of shape elements, last index fastest
};

/// Writes `array` to `path`; T is int32, int64, float or double. Throws std::runtime_error when the file
/// cannot be written, std::logic_error when shape and data disagree.
template <typename T>
void write_npy(const std::string& path, const NpyArray<T>& array);

/// Reads a regular file of exactly this element type; of Fortran order it is brought into C order. Throws std::runtime_error that
/// says what the file holds instead.
template <typename T>
NpyArray<T> read_npy(const std::string& path);

/// The same for whole numbers of any width, signed or not.
NpyArray<std::int64_t> read_npy_integers(const std::string& path);

/// Place of the elements of a regular file, for those who read it piece by piece.
struct NpyLayout {
  std::string type;  ///< "<i4", ...
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< of the first element, in bytes
  std::int64_t bytes = 0;   ///< that follow
  bool fortran = false;     ///< the first index is the fastest: put_in_c_order() of all elements
};
NpyLayout npy_layout(const std::string& path);

/// Elements of `width` bytes each, the first index fastest in `from`, the last in `to`.
void put_in_c_order(const std::vector<std::int64_t>& shape, std::size_t width, const char* from, char* to);

/// The bytes of such a file, and what bytes hold; `name` is for messages. npy_type: "<f4", ...
template <typename T>
std::string npy_bytes(const NpyArray<T>& array, const std::string& name);
template <typename T>
NpyArray<T> npy_array(const std::string& bytes, const std::string& name);
std::string npy_type(const std::string& bytes, const std::string& name);

}  // namespace crosstalk
