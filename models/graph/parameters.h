// The parameters of a pack: one flat block a replica, with gradients and Adam's moments in blocks of the same
// layout. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/tensor.h"

namespace crosstalk {

/// How a parameter starts: normal(0, scale) or uniform(-scale, scale).
struct Init {
  enum class Kind { normal, uniform } kind = Kind::uniform;
  double scale = 1;
};

/// Layout first (add), then memory (allocate), then values (initialise). Shared by all graphs of a pack.
template <class Real>
class ParameterBlock {
 public:
  ParameterBlock(Device device, int R) : device_(device), R_(R) {}

  /// Adds a parameter and returns its index. Names are unique ("key_embedding"); they key the initialisation
  /// stream.
  int add(const std::string& name, std::initializer_list<int> dims, Init init);
  void allocate();

  /// Draws every parameter of replica r: a pure function of (init_seed, name). Clears gradient and moments.
  void initialise(int r, std::uint64_t init_seed);

  /// Bytes of replica r's values and moments, and their way back. Throws std::runtime_error if the size does
  /// not fit.
  std::string snapshot(int r) const;
  void restore(int r, const std::string& bytes);

  Tensor<Real> value(int i) const { return view(values_, i); }
  Tensor<Real> gradient(int i) const { return view(gradients_, i); }
  const std::string& name(int i) const { return entries_[static_cast<std::size_t>(i)].name; }
  int count() const { return static_cast<int>(entries_.size()); }

  /// Whole blocks [R, size]: for the optimizer and for checks.
  Tensor<Real> values() const { return whole(values_); }
  Tensor<Real> gradients() const { return whole(gradients_); }
  Tensor<Real> first_moments() const { return whole(first_moments_); }
  Tensor<Real> second_moments() const { return whole(second_moments_); }
  std::int64_t trainable() const;  ///< numbers that training changes, a replica

 private:
  struct Entry {
    std::string name;
    Tensor<Real> shape;  ///< no memory
    Init init;
    std::int64_t offset;
  };
  Tensor<Real> view(const Buffer& buffer, int i) const;
  Tensor<Real> whole(const Buffer& buffer) const;

  Device device_;
  int R_;
  std::int64_t size_ = 0;  ///< elements a replica, padded
  std::vector<Entry> entries_;
  Buffer values_, gradients_, first_moments_, second_moments_;
};

}  // namespace crosstalk
