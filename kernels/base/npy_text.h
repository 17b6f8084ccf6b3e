// One .npy file of floats as bytes in memory: what an archive of them (npz.h) holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

/// Floats are kept exactly as doubles.
struct FloatArray {
  std::vector<std::int64_t> shape;
  std::vector<double> data;
  bool is_double = true;  ///< float64 in the file, else float32
};

std::string npy_of(const FloatArray& array);

/// Throws std::runtime_error that says what the bytes hold instead; `name` is for messages.
FloatArray floats_of_npy(const std::string& bytes, const std::string& name);

}  // namespace crosstalk
