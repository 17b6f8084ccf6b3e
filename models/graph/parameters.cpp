// Blocks of parameters: layout, initial values and copies.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/random.h"
#include "models/graph/init_text.h"

namespace crosstalk {
namespace {

// FNV-1a: the initialisation stream of a parameter is named by its name, so adding another one does not move
// it.
std::uint32_t stream_of(const std::string& name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

/// Vectors of length 1 in place of `count` vectors of `length` numbers, each without the parts that lie along those before it; twice,
/// for what rounding leaves of them.
void orthonormalise(std::vector<double>& vectors, std::size_t count, std::size_t length) {
  const auto product = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += vectors[a * length + i] * vectors[b * length + i];
    return sum;
  };
  for (std::size_t at = 0; at < count; ++at) {
    for (std::size_t k = 0; k < 2 * at; ++k) {
      const std::size_t other = k % at;
      const double along = product(at, other);
      for (std::size_t i = 0; i < length; ++i)
        vectors[at * length + i] -= along * vectors[other * length + i];
    }
    const double norm = std::sqrt(product(at, at));
    for (std::size_t i = 0; i < length; ++i) vectors[at * length + i] /= norm;
  }
}

/// Normal numbers [rows, columns] as an orthogonal matrix times `gain` (Saxe et al. 2013, arXiv 1312.6120).
void make_orthogonal(std::vector<double>& numbers, std::size_t rows, double gain) {
  const std::size_t columns = numbers.size() / rows, count = std::min(rows, columns),
                    length = std::max(rows, columns);
  orthonormalise(numbers, count, length);
  if (rows > columns) {  // the vectors are its columns
    std::vector<double> turned(numbers.size());
    for (std::size_t c = 0; c < columns; ++c)
      for (std::size_t r = 0; r < rows; ++r) turned[r * columns + c] = numbers[c * rows + r];
    numbers = turned;
  }
  for (double& x : numbers) x *= gain;
}

}  // namespace

double Init::step_of(double u) const {
  return portable_exp(portable_log(low) + u * (portable_log(high) - portable_log(low)));
}

Init Init::times(double factor) const {
  Init scaled = *this;
  scaled.low *= factor, scaled.high *= factor;
  return scaled;
}

double Init::value(double u, std::int64_t i) const {
  switch (law) {
    case Law::uniform:
      return (low + high) / 2 + (high - low) / 2 * (2 * u - 1);
    case Law::normal:
      return low + high * normal_from_uniform(u);
    case Law::constant:
      return low;
    case Law::log_uniform:
      return portable_log(low + (high - low) * u);
    case Law::inverse_softplus: {
      const double y = step_of(u);
      return y + portable_log(1 - portable_exp(-y));
    }
    case Law::logit_step: {
      const double p = step_of(u) / 5;
      return portable_log(p / (1 - p));
    }
    case Law::signed_step: {
      const bool negative = u < 0.5;
      const double floor = portable_exp(-5);
      const double z = (portable_exp(-step_of(negative ? 2 * u : 2 * u - 1)) - floor) / (1 - floor);
      const double x = portable_log((1 + z) / (1 - z));
      return negative ? -x : x;
    }
    case Law::orthogonal:
      return normal_from_uniform(u);
    case Law::listed:
      return list[static_cast<std::size_t>(i) % list.size()];
  }
  return 0;
}

template <class Real>
bool ParameterBlock<Real>::is_there(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
}

template <class Real>
std::string ParameterBlock<Real>::apart(const std::string& asked, const std::string& quantity) const {
  std::string name = asked;
  for (std::size_t at = asked.starts_with(quantity) ? quantity.size() : asked.size(); is_there(name);)
    name.insert(at, ".memory");
  return name;
}

template <class Real>
int ParameterBlock<Real>::add(const std::string& name, std::vector<int> dims, Init init) {
  if (is_there(name)) throw std::logic_error(fmt::format("[parameters] {} was added twice", name));
  if (allocated())
    throw std::logic_error(fmt::format("[parameters] {} was added after the memory was shared out", name));
  Tensor<Real> shape;
  shape.R = R_;
  for (const int d : dims) shape.dims[shape.rank++] = d;
  entries_.push_back({name, shape, init, size_, name, asking_});
  size_ += padded<Real>(shape.size());
  return count() - 1;
}

template <class Real>
int ParameterBlock<Real>::named(const std::string& name, const std::vector<int>& dims, Init init) {
  for (int i = 0; i < count(); ++i) {
    const Entry& entry = entries_[static_cast<std::size_t>(i)];
    if (entry.asked != name || entry.quantity != asking_) continue;
    if (std::vector<int>(entry.shape.dims, entry.shape.dims + entry.shape.rank) != dims)
      throw std::logic_error(fmt::format("[parameters] {} is asked for in two shapes", name));
    return i;
  }
  if (asking_.empty()) {
    for (Entry& entry : entries_)
      if (entry.name == name && !entry.quantity.empty()) entry.name = apart(name, entry.quantity);
  }
  const int added = add(asking_.empty() ? name : apart(name, asking_), dims, init);
  entries_.back().asked = name;
  return added;
}

template <class Real>
void ParameterBlock<Real>::set_inits(const std::string& text) {
  for (const auto& [name, init] : inits_of(text))
    if (!inits_.emplace(name, init).second) throw std::invalid_argument(fmt::format("{} stands twice", name));
}

template <class Real>
std::vector<std::string> ParameterBlock<Real>::unused_inits() const {
  std::vector<std::string> names;
  for (const auto& [name, init] : inits_)
    if (std::none_of(entries_.begin(), entries_.end(), [&n = name](const Entry& e) { return e.name == n; }))
      names.push_back(name);
  return names;
}

template <class Real>
void ParameterBlock<Real>::allocate() {
  for (Entry& entry : entries_)
    if (const auto own = inits_.find(entry.name); own != inits_.end()) entry.init = own->second;
  const std::size_t bytes = static_cast<std::size_t>(size_) * static_cast<std::size_t>(R_) * sizeof(Real);
  for (Buffer* buffer : {&values_, &gradients_, &first_moments_, &second_moments_}) {
    *buffer = Buffer::planned(device_, bytes);
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
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < entry.shape.size(); ++i)
      numbers.push_back(entry.init.value(stream.uniform(), i));
    if (entry.init.law == Init::Law::orthogonal)
      make_orthogonal(numbers, static_cast<std::size_t>(entry.shape.dims[0]), entry.init.low);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      host[static_cast<std::size_t>(entry.offset) + i] = static_cast<Real>(numbers[i]);
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
  if (snapshot.size() != 3 * bytes)
    throw std::runtime_error(
        fmt::format("saved parameters have {} bytes, this model has {}", snapshot.size(), 3 * bytes));
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
  Tensor<Real> tensor = shaped<Real>(R_, {size_});
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
