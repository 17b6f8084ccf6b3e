// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/npy_text.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <regex>
#include <stdexcept>

namespace crosstalk {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

constexpr std::size_t before_header = 10, alignment = 64;  // of the data's start, as NumPy itself writes

template <class Real>
void append(std::string& bytes, const std::vector<double>& data) {
  const std::vector<Real> values(data.begin(), data.end());
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Real));
}

template <class Real>
std::vector<double> values_of(const char* bytes, std::size_t count) {
  std::vector<Real> values(count);
  std::memcpy(values.data(), bytes, count * sizeof(Real));
  return {values.begin(), values.end()};
}

}  // namespace

std::string npy_of(const FloatArray& array) {
  std::string shape;
  for (const std::int64_t size : array.shape) shape += fmt::format("{},", size);
  if (array.shape.size() > 1) shape.pop_back();  // Python: (3,) but (3,4)
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   array.is_double ? "<f8" : "<f4", shape);
  header.append((alignment - (before_header + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  array.is_double ? append<double>(bytes, array.data) : append<float>(bytes, array.data);
  return bytes;
}

FloatArray floats_of_npy(const std::string& bytes, const std::string& name) {
  const auto broken = [&](const std::string& what) {
    throw std::runtime_error(fmt::format("{}: {}", name, what));
  };
  if (bytes.size() < before_header || bytes.compare(0, 6, "\x93NUMPY") != 0) broken("is no .npy array");
  const std::size_t wide = bytes[6] == 1 ? 2 : 4;  // versions 2 and 3 have a longer length
  std::size_t size = 0;
  for (std::size_t i = wide; i-- > 0;) size = size << 8 | static_cast<unsigned char>(bytes[8 + i]);
  const std::size_t begin = 8 + wide + size;
  if (size > bytes.size() || begin > bytes.size()) broken("ends within its header");
  const std::string header = bytes.substr(8 + wide, size);
  static const std::regex form(
      R"(\s*\{'descr': '([^']*)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\),? *\}\s*)");
  std::smatch match;
  if (header.size() > 1000 || !std::regex_match(header, match, form)) broken("has a header of another form");
  if (match[1] != "<f4" && match[1] != "<f8")
    broken(fmt::format("holds elements of type '{}', not float32 or float64", match[1].str()));
  if (match[2] == "True") broken("is in Fortran order; save it with numpy.ascontiguousarray");
  FloatArray array;
  array.is_double = match[1] == "<f8";
  const std::size_t width = array.is_double ? 8 : 4, there = (bytes.size() - begin) / width;
  std::size_t count = 1;
  static const std::regex number("[0-9]+");
  const std::string shape = match[3];
  for (std::sregex_iterator at(shape.begin(), shape.end(), number), end; at != end; ++at) {
    const std::string digits = at->str();
    if (digits.size() > 15) broken("has an impossible shape");
    array.shape.push_back(std::stoll(digits));
    const auto n = static_cast<std::size_t>(array.shape.back());
    if (n > 0 && count > there / n) broken("holds less data than its shape says");
    count *= n;
  }
  if (bytes.size() - begin != count * width) broken("holds more or less data than its shape says");
  array.data = array.is_double ? values_of<double>(bytes.data() + begin, count)
                               : values_of<float>(bytes.data() + begin, count);
  return array;
}

}  // namespace crosstalk
