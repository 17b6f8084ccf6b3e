// SPDX-License-Identifier: Apache-2.0
#include "experiments/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

namespace crosstalk {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

constexpr char magic[] = "\x93NUMPY";
constexpr std::size_t magic_size = 6;
constexpr std::size_t alignment = 64;  // of the data's start, as NumPy itself writes

template <typename T>
constexpr const char* descr = nullptr;
template <>
constexpr const char* descr<std::int32_t> = "<i4";
template <>
constexpr const char* descr<std::int64_t> = "<i8";
template <>
constexpr const char* descr<float> = "<f4";
template <>
constexpr const char* descr<double> = "<f8";

[[noreturn]] void broken(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", path, what));
}

/// Product of `shape`, or -1 if one is negative or the product does not fit.
std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return -1;
    if (size > 0 && count > std::numeric_limits<std::int64_t>::max() / 8 / size) return -1;
    count *= size;
  }
  return count;
}

/// The text after `'key':` in the header's dictionary, up to `end` exclusive.
std::string header_field(const std::string& path, const std::string& header, const std::string& key,
                         char end) {
  auto at = header.find("'" + key + "'");
  if (at != std::string::npos) at = header.find(':', at);
  const auto stop = at == std::string::npos ? at : header.find(end, at);
  if (stop == std::string::npos) broken(path, fmt::format("its .npy header has no {}", key));
  const auto first = header.find_first_not_of(' ', at + 1);
  return header.substr(first, stop - first);
}

std::vector<std::int64_t> parse_shape(const std::string& path, std::string text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == '(' || *at == ',' || *at == ' ') {
      ++at;
      continue;
    }
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc{}) broken(path, fmt::format("its .npy header has the shape {})", text));
    shape.push_back(size);
    at = stop;
  }
  return shape;
}

}  // namespace

template <typename T>
void write_npy(const std::string& path, const NpyArray<T>& array) {
  if (element_count(array.shape) != static_cast<std::int64_t>(array.data.size()))
    throw std::logic_error(fmt::format("[npy] {}: shape and number of elements disagree", path));
  std::string shape;
  for (const std::int64_t size : array.shape) shape += fmt::format("{},", size);
  if (array.shape.size() > 1) shape.pop_back();  // Python: (3,) but (3,4)
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr<T>, shape);
  const std::size_t before = magic_size + 4 + header.size() + 1;
  header.append((alignment - before % alignment) % alignment, ' ');
  header += '\n';

  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(magic, magic_size);
  const char version_and_size[] = {1, 0, static_cast<char>(header.size() & 0xff),
                                   static_cast<char>(header.size() >> 8)};
  file.write(version_and_size, sizeof version_and_size);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(array.data.data()),
             static_cast<std::streamsize>(array.data.size() * sizeof(T)));
  file.close();
  if (!file) broken(path, fmt::format("cannot be written ({})", std::strerror(errno)));
}

template <typename T>
NpyArray<T> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) broken(path, fmt::format("cannot be read ({})", std::strerror(errno)));
  char start[magic_size + 2] = {};
  file.read(start, sizeof start);
  if (!file || std::memcmp(start, magic, magic_size) != 0) broken(path, "is not an .npy file");
  const int version = start[magic_size];
  if (version < 1 || version > 3) broken(path, fmt::format("has the unknown .npy version {}", version));
  unsigned char size_bytes[4] = {};
  file.read(reinterpret_cast<char*>(size_bytes), version == 1 ? 2 : 4);
  std::uint32_t header_size = 0;
  for (int i = 3; i >= 0; --i) header_size = header_size << 8 | size_bytes[i];
  if (!file || header_size > 1u << 20) broken(path, "has a damaged .npy header");
  std::string header(header_size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file) broken(path, "ends within its .npy header");

  const std::string type = header_field(path, header, "descr", ',');
  if (type != fmt::format("'{}'", descr<T>))
    broken(path, fmt::format("holds elements of type {}, not '{}'", type, descr<T>));
  if (header_field(path, header, "fortran_order", ',') != "False")
    broken(path, "is in Fortran order; save it with numpy.ascontiguousarray");
  NpyArray<T> array;
  array.shape = parse_shape(path, header_field(path, header, "shape", ')'));
  const std::int64_t count = element_count(array.shape);
  if (count < 0) broken(path, "has an impossible shape");
  // Compare with the file's size before allocating: a damaged header must not ask for all memory.
  const auto data_start = file.tellg();
  file.seekg(0, std::ios::end);
  const std::int64_t bytes = file.tellg() - data_start;
  const std::int64_t expected = count * static_cast<std::int64_t>(sizeof(T));
  if (bytes != expected)
    broken(path, fmt::format("holds {} bytes of data where its shape says {}", bytes, expected));
  file.seekg(data_start);
  array.data.resize(static_cast<std::size_t>(count));
  file.read(reinterpret_cast<char*>(array.data.data()), static_cast<std::streamsize>(expected));
  if (!file) broken(path, "cannot be read to its end");
  return array;
}

template void write_npy(const std::string&, const NpyArray<std::int32_t>&);
template void write_npy(const std::string&, const NpyArray<std::int64_t>&);
template void write_npy(const std::string&, const NpyArray<float>&);
template void write_npy(const std::string&, const NpyArray<double>&);
template NpyArray<std::int32_t> read_npy(const std::string&);
template NpyArray<std::int64_t> read_npy(const std::string&);
template NpyArray<float> read_npy(const std::string&);
template NpyArray<double> read_npy(const std::string&);

}  // namespace crosstalk
