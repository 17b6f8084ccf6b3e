// SPDX-License-Identifier: Apache-2.0
#include "results/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cmath>

#include "results/store/crc32c.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

/// Little-endian, as everything in these files.
template <class Number>
std::string bytes_of(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  return bytes;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes + static_cast<char>(number);
}

// Fields of protocol buffers: number and wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes), then the value.
std::string key(int field, int type) { return varint(static_cast<std::uint64_t>(field << 3 | type)); }
std::string bytes_field(int field, const std::string& bytes) {
  return key(field, 2) + varint(bytes.size()) + bytes;
}
std::string double_field(int field, double x) {
  return key(field, 1) + bytes_of(std::bit_cast<std::uint64_t>(x));
}

std::uint32_t masked_checksum(const std::string& bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xA282EAD8U;
}

}  // namespace

std::string tf_record(const std::string& data) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(data.size()));
  return length + bytes_of(masked_checksum(length)) + data + bytes_of(masked_checksum(data));
}

std::string scalar_event(const std::string& tag, std::int64_t step, double value, double seconds) {
  const std::string simple_value =
      key(2, 5) + bytes_of(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  const std::string summary = bytes_field(1, bytes_field(1, tag) + simple_value);
  return double_field(1, seconds) + key(2, 0) + varint(static_cast<std::uint64_t>(step)) +
         bytes_field(5, summary);
}

EventFile::EventFile(const std::filesystem::path& folder, double seconds)
    : path_(folder / "events.out.tfevents.0.crosstalk"), file_(FileSystem::real(), -1) {
  make_folders(FileSystem::real(), folder);
  file_ = open_file(FileSystem::real(), path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file_.is_open())
    throw StoreError(fmt::format("{}: cannot be written: {}", path_.string(), reason_of(errno)));
  write(tf_record(double_field(1, seconds) + bytes_field(3, "brain.Event:2")));
}

void EventFile::add(const std::map<std::string, Series>& curves, double seconds) {
  std::string bytes;
  for (const auto& [name, series] : curves) {
    double& last = written_.try_emplace(name, -1).first->second;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!(series.x[i] > last) || std::isnan(series.y[i])) continue;
      last = series.x[i];
      bytes += tf_record(scalar_event(name, static_cast<std::int64_t>(last), series.y[i], seconds));
    }
  }
  if (!bytes.empty()) write(bytes);
}

void EventFile::write(const std::string& bytes) {
  if (const int error = write_all(FileSystem::real(), file_, bytes))
    throw StoreError(fmt::format("{}: could not be written: {}", path_.string(), reason_of(error)));
}

}  // namespace crosstalk
