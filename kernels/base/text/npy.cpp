// NumPy files: header and data, read without trusting either.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

void put_in_c_order(const std::vector<std::int64_t>& shape, std::size_t width, const char* from, char* to) {
  const std::int64_t count = element_count(shape);
  std::vector<std::int64_t> step(shape.size(), 1), index(shape.size(), 0);
  for (std::size_t d = 1; d < shape.size(); ++d) step[d] = step[d - 1] * shape[d - 1];
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i, to += width) {
    std::memcpy(to, from + at * static_cast<std::int64_t>(width), width);
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += step[d];
      if (++index[d] < shape[d]) break;
      at -= step[d] * shape[d];
      index[d] = 0;
    }
  }
}

template <typename T>
std::string npy_bytes(const NpyArray<T>& array, const std::string& path) {
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

  std::string bytes(magic, magic_size);
  bytes += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size() * sizeof(T));
  return bytes;
}

template <typename T>
void write_npy(const std::string& path, const NpyArray<T>& array) {
  const std::string bytes = npy_bytes(array, path);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) broken(path, fmt::format("cannot be written ({})", std::strerror(errno)));
}

namespace {

/// A file, or its bytes, whose header is read; the stream stands at its data.
struct OpenNpy {
  std::unique_ptr<std::istream> stream;
  std::string type;  ///< as the header has it, with quotes
  std::vector<std::int64_t> shape;
  std::int64_t count = 0, bytes = 0;  ///< elements that the shape says, bytes that follow
  bool fortran = false;
};

OpenNpy read_header(std::unique_ptr<std::istream> stream, const std::string& path) {
  OpenNpy npy{std::move(stream), {}, {}};
  std::istream& file = *npy.stream;
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

  npy.type = header_field(path, header, "descr", ',');
  npy.fortran = header_field(path, header, "fortran_order", ',') == "True";
  npy.shape = parse_shape(path, header_field(path, header, "shape", ')'));
  npy.count = element_count(npy.shape);
  if (npy.count < 0) broken(path, "has an impossible shape");
  const auto data_start = file.tellg();
  file.seekg(0, std::ios::end);
  npy.bytes = file.tellg() - data_start;
  file.seekg(data_start);
  return npy;
}

OpenNpy open_npy(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    broken(path, "is no regular file");  // a pipe may never end, nor ever begin
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) broken(path, fmt::format("cannot be read ({})", std::strerror(errno)));
  return read_header(std::move(file), path);
}

template <typename T>
std::vector<T> read_elements(const std::string& path, OpenNpy& npy) {
  // Compare with the file's size before allocating: a damaged header must not ask for all memory.
  const std::int64_t expected = npy.count * static_cast<std::int64_t>(sizeof(T));
  if (npy.bytes != expected)
    broken(path, fmt::format("holds {} bytes of data where its shape says {}", npy.bytes, expected));
  std::vector<T> data(static_cast<std::size_t>(npy.count));
  npy.stream->read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(expected));
  if (!*npy.stream) broken(path, "cannot be read to its end");
  if (!npy.fortran) return data;
  std::vector<T> ordered(data.size());
  put_in_c_order(npy.shape, sizeof(T), reinterpret_cast<const char*>(data.data()),
                 reinterpret_cast<char*>(ordered.data()));
  return ordered;
}

template <typename T>
NpyArray<std::int64_t> widened(const std::string& path, OpenNpy& npy) {
  NpyArray<std::int64_t> array{npy.shape, {}};
  const std::vector<T> data = read_elements<T>(path, npy);
  array.data.reserve(data.size());
  for (const T element : data) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (element > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        broken(path, fmt::format("holds {}, more than an int64 can", element));
    }
    array.data.push_back(static_cast<std::int64_t>(element));
  }
  return array;
}

}  // namespace

namespace {

template <typename T>
NpyArray<T> array_of(OpenNpy npy, const std::string& path) {
  if (npy.type != fmt::format("'{}'", descr<T>))
    broken(path, fmt::format("holds elements of type {}, not '{}'", npy.type, descr<T>));
  NpyArray<T> array{npy.shape, {}};
  array.data = read_elements<T>(path, npy);
  return array;
}

}  // namespace

template <typename T>
NpyArray<T> read_npy(const std::string& path) {
  return array_of<T>(open_npy(path), path);
}

template <typename T>
NpyArray<T> npy_array(const std::string& bytes, const std::string& name) {
  return array_of<T>(read_header(std::make_unique<std::istringstream>(bytes), name), name);
}

std::string npy_type(const std::string& bytes, const std::string& name) {
  const std::string type = read_header(std::make_unique<std::istringstream>(bytes), name).type;
  return type.size() > 2 ? type.substr(1, type.size() - 2) : type;
}

NpyLayout npy_layout(const std::string& path) {
  const OpenNpy npy = open_npy(path);
  NpyLayout layout{npy.type, npy.shape, npy.stream->tellg(), npy.bytes, npy.fortran};
  if (layout.type.size() > 2) layout.type = layout.type.substr(1, layout.type.size() - 2);
  return layout;
}

NpyArray<std::int64_t> read_npy_integers(const std::string& path) {
  OpenNpy npy = open_npy(path);
  if (npy.type == "'|i1'") return widened<std::int8_t>(path, npy);
  if (npy.type == "'|u1'") return widened<std::uint8_t>(path, npy);
  if (npy.type == "'<i2'") return widened<std::int16_t>(path, npy);
  if (npy.type == "'<u2'") return widened<std::uint16_t>(path, npy);
  if (npy.type == "'<i4'") return widened<std::int32_t>(path, npy);
  if (npy.type == "'<u4'") return widened<std::uint32_t>(path, npy);
  if (npy.type == "'<i8'") return widened<std::int64_t>(path, npy);
  if (npy.type == "'<u8'") return widened<std::uint64_t>(path, npy);
  broken(path,
         fmt::format("holds elements of type {}, not whole numbers; save array.astype('int64')", npy.type));
}

template void write_npy(const std::string&, const NpyArray<std::int32_t>&);
template void write_npy(const std::string&, const NpyArray<std::int64_t>&);
template void write_npy(const std::string&, const NpyArray<float>&);
template void write_npy(const std::string&, const NpyArray<double>&);
template NpyArray<std::int32_t> read_npy(const std::string&);
template NpyArray<std::int64_t> read_npy(const std::string&);
template NpyArray<float> read_npy(const std::string&);
template NpyArray<double> read_npy(const std::string&);
template std::string npy_bytes(const NpyArray<std::int32_t>&, const std::string&);
template NpyArray<std::int32_t> npy_array(const std::string&, const std::string&);
template std::string npy_bytes(const NpyArray<std::int64_t>&, const std::string&);
template NpyArray<std::int64_t> npy_array(const std::string&, const std::string&);
template std::string npy_bytes(const NpyArray<float>&, const std::string&);
template NpyArray<float> npy_array(const std::string&, const std::string&);
template std::string npy_bytes(const NpyArray<double>&, const std::string&);
template NpyArray<double> npy_array(const std::string&, const std::string&);

}  // namespace crosstalk
