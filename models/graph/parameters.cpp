// SPDX-License-Identifier: Apache-2.0
#include "models/graph/parameters.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/base/random.h"

namespace crosstalk {
namespace {

// FNV-1a: the initialisation stream of a parameter is named by its name, so adding another one does not move
// it.
std::uint32_t stream_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

template <class Real>
int ParameterBlock<Real>::add(const std::string& name, std::initializer_list<int> dims, Init init) {
  for (const Entry& entry : entries_) {
    if (entry.name == name) throw std::logic_error(fmt::format("[parameters] {} was added twice", name));
  }
  entries_.push_back({name, shaped<Real>(R_, dims), init, size_});
  size_ += padded<Real>(entries_.back().shape.size());
  return count() - 1;
}

template <class Real>
void ParameterBlock<Real>::allocate() {
  const std::size_t bytes = static_cast<std::size_t>(size_) * static_cast<std::size_t>(R_) * sizeof(Real);
  for (Buffer* buffer : {&values_, &gradients_, &first_moments_, &second_moments_}) {
    *buffer = Buffer(device_, bytes);
    buffer->fill_zero();
  }
}

template <class Real>
void ParameterBlock<Real>::initialise(int r, std::uint64_t init_seed) {
  std::vector<Real> host(static_cast<std::size_t>(size_), Real(0));
  const std::size_t bytes = host.size() * sizeof(Real), offset = static_cast<std::size_t>(r) * bytes;
  for (Buffer* buffer : {&gradients_, &first_moments_, &second_moments_})
    buffer->copy_from_host(host.data(), bytes, offset);
  for (const Entry& entry : entries_) {
    RandomStream stream(init_seed, RandomDomain::initialisation, stream_of(entry.name));
    for (std::int64_t i = 0; i < entry.shape.size(); ++i) {
      const double u = stream.uniform();
      const double x = entry.init.kind == Init::Kind::normal ? normal_from_uniform(u) : 2 * u - 1;
      host[static_cast<std::size_t>(entry.offset + i)] = static_cast<Real>(entry.init.scale * x);
    }
  }
  values_.copy_from_host(host.data(), bytes, offset);
}

template <class Real>
std::string ParameterBlock<Real>::snapshot(int r) const {
  const std::size_t bytes = static_cast<std::size_t>(size_) * sizeof(Real);
  std::string result(3 * bytes, '\0');
  std::size_t at = 0;
  for (const Buffer* buffer : {&values_, &first_moments_, &second_moments_}) {
    buffer->copy_to_host(result.data() + at, bytes, static_cast<std::size_t>(r) * bytes);
    at += bytes;
  }
  return result;
}

template <class Real>
void ParameterBlock<Real>::restore(int r, const std::string& snapshot) {
  const std::size_t bytes = static_cast<std::size_t>(size_) * sizeof(Real);
  if (snapshot.size() != 3 * bytes) {
    throw std::runtime_error(
        fmt::format("saved parameters have {} bytes, this model has {}", snapshot.size(), 3 * bytes));
  }
  std::size_t at = 0;
  for (Buffer* buffer : {&values_, &first_moments_, &second_moments_}) {
    buffer->copy_from_host(snapshot.data() + at, bytes, static_cast<std::size_t>(r) * bytes);
    at += bytes;
  }
}

template <class Real>
Tensor<Real> ParameterBlock<Real>::view(const Buffer& buffer, int i) const {
  const Entry& entry = entries_[static_cast<std::size_t>(i)];
  Tensor<Real> tensor = entry.shape;
  tensor.data = static_cast<Real*>(buffer.data()) + entry.offset;
  tensor.replica_stride = size_;
  return tensor;
}

template <class Real>
Tensor<Real> ParameterBlock<Real>::whole(const Buffer& buffer) const {
  Tensor<Real> tensor = shaped<Real>(R_, {static_cast<int>(size_)});
  tensor.data = static_cast<Real*>(buffer.data());
  tensor.replica_stride = size_;
  return tensor;
}

template <class Real>
std::int64_t ParameterBlock<Real>::trainable() const {
  std::int64_t n = 0;
  for (const Entry& entry : entries_) n += entry.shape.size();
  return n;
}

template class ParameterBlock<float>;
template class ParameterBlock<double>;

}  // namespace crosstalk
