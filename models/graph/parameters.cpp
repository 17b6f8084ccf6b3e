// SPDX-License-Identifier: Apache-2.0
#include "models/graph/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>

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

/// The finite decimal numbers that stand in `text` where `pattern` has a '#'; nothing where it has another form. Blanks may
/// stand anywhere but within a number.
std::optional<std::vector<double>> numbers_of(std::string_view text, std::string_view pattern) {
  std::vector<double> numbers;
  const auto skip_blanks = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size())); };
  for (const char c : pattern) {
    skip_blanks();
    if (c != '#') {
      if (text.empty() || text.front() != c) return std::nullopt;
      text.remove_prefix(1);
      continue;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    numbers.push_back(number);
  }
  skip_blanks();
  return text.empty() ? std::optional(numbers) : std::nullopt;
}

}  // namespace

std::string Init::text() const {
  switch (law) {
    case Law::uniform:
      return fmt::format("U({:.4g}, {:.4g})", low, high);
    case Law::normal:
      return fmt::format("N({:.4g}, {:.4g}^2)", low, high);
    case Law::constant:
      return fmt::format("{:.4g}", low);
    case Law::log_uniform:
      return fmt::format("log U({:.4g}, {:.4g})", low, high);
    case Law::inverse_softplus:
      return fmt::format("softplus^-1(exp U(log {:.4g}, log {:.4g}))", low, high);
  }
  return "";
}

Init Init::parse(const std::string& text) {
  const auto wrong = [&] {
    return std::invalid_argument(
        fmt::format("'{}' is no law; write for example 0.5, U(-0.1, 0.1), N(0, 0.02^2), log U(1, 16) or "
                    "softplus^-1(exp U(log 0.001, log 0.1))",
                    text));
  };
  struct Form {
    const char* pattern;
    Law law;
  };
  for (const auto& [pattern, law] :
       {Form{"U(#,#)", Law::uniform}, Form{"N(#,#^2)", Law::normal}, Form{"logU(#,#)", Law::log_uniform},
        Form{"softplus^-1(expU(log#,log#))", Law::inverse_softplus}, Form{"#", Law::constant}}) {
    const std::optional<std::vector<double>> numbers = numbers_of(text, pattern);
    if (!numbers) continue;
    if (law == Law::constant) return constant(numbers->at(0));
    const Init init{law, numbers->at(0), numbers->at(1)};
    const bool positive = law == Law::log_uniform || law == Law::inverse_softplus;
    if ((law == Law::normal ? init.high < 0 : init.low > init.high) || (positive && init.low <= 0)) throw wrong();
    return init;
  }
  throw wrong();
}

double Init::value(double u) const {
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
      const double y = portable_exp(portable_log(low) + u * (portable_log(high) - portable_log(low)));
      return y + portable_log(1 - portable_exp(-y));
    }
  }
  return 0;
}

template <class Real>
int ParameterBlock<Real>::add(const std::string& name, std::vector<int> dims, Init init) {
  for (const Entry& entry : entries_) {
    if (entry.name == name) throw std::logic_error(fmt::format("[parameters] {} was added twice", name));
  }
  if (allocated())
    throw std::logic_error(fmt::format("[parameters] {} was added after the memory was shared out", name));
  if (const auto own = inits_.find(name); own != inits_.end()) init = own->second;
  Tensor<Real> shape;
  shape.R = R_;
  for (const int d : dims) shape.dims[shape.rank++] = d;
  entries_.push_back({name, shape, init, size_});
  size_ += padded<Real>(shape.size());
  return count() - 1;
}

template <class Real>
int ParameterBlock<Real>::named(const std::string& name, const std::vector<int>& dims, Init init) {
  for (int i = 0; i < count(); ++i) {
    const Entry& entry = entries_[static_cast<std::size_t>(i)];
    if (entry.name != name) continue;
    if (std::vector<int>(entry.shape.dims, entry.shape.dims + entry.shape.rank) != dims)
      throw std::logic_error(fmt::format("[parameters] {} is asked for in two shapes", name));
    return i;
  }
  return add(name, dims, init);
}

template <class Real>
void ParameterBlock<Real>::set_inits(const std::string& text) {
  const auto trimmed = [](const std::string& s) {
    const auto first = s.find_first_not_of(" \t\n"), last = s.find_last_not_of(" \t\n");
    return first == std::string::npos ? std::string() : s.substr(first, last - first + 1);
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string entry = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos)
      throw std::invalid_argument(fmt::format("'{}' is no 'PARAMETER = LAW'", entry));
    const std::string name = trimmed(entry.substr(0, equals));
    if (!inits_.emplace(name, Init::parse(trimmed(entry.substr(equals + 1)))).second)
      throw std::invalid_argument(fmt::format("{} stands twice", name));
  }
}

template <class Real>
std::vector<std::string> ParameterBlock<Real>::unused_inits() const {
  std::vector<std::string> names;
  for (const auto& [name, init] : inits_) {
    if (std::none_of(entries_.begin(), entries_.end(), [&n = name](const Entry& e) { return e.name == n; }))
      names.push_back(name);
  }
  return names;
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
      host[static_cast<std::size_t>(entry.offset + i)] =
          static_cast<Real>(entry.init.value(stream.uniform()));
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
