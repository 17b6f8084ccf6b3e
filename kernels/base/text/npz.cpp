// Archives of NumPy files.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/npz.h"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace crosstalk {
namespace {

// Sections of the zip format (PKWARE's APPNOTE 4.3): signatures and sizes without names.
constexpr std::uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50,
                        end_signature = 0x06054b50;
constexpr std::size_t local_size = 30, central_size = 46, end_size = 22, longest_comment = 0xffff;
constexpr std::uint64_t largest = 0xfffffffe;  // 0xffffffff says that zip64 fields follow
constexpr std::uint16_t zip64_extra = 1;

void put(std::string& bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t get(std::string_view bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

std::uint32_t crc_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

/// The part that local and central headers share, from "version needed" to the length of the extra field.
void put_common(std::string& bytes, std::uint32_t crc, std::size_t size, std::size_t name) {
  put(bytes, 20, 2);      // version 2.0
  put(bytes, 0, 2);       // no flags
  put(bytes, 0, 2);       // stored
  put(bytes, 0, 2);       // midnight
  put(bytes, 0x0021, 2);  // 1 January 1980: no clock in what must be the same bytes
  put(bytes, crc, 4);
  put(bytes, size, 4);
  put(bytes, size, 4);
  put(bytes, name, 2);
  put(bytes, 0, 2);
}

[[noreturn]] void broken(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", path, what));
}

/// Sizes and place of a member; zip64 fields, which numpy.savez writes for large arrays, replace those that
/// do not fit into 32 bits.
struct Entry {
  std::string name;
  std::uint64_t method = 0, crc = 0, packed = 0, size = 0, offset = 0, next = 0;
};

Entry entry_at(std::string_view bytes, std::size_t at, const std::string& path) {
  if (at > bytes.size() || bytes.size() - at < central_size || get(bytes, at, 4) != central_signature)
    broken(path, "its list of members is damaged");
  Entry entry;
  const std::size_t name = get(bytes, at + 28, 2), extra = get(bytes, at + 30, 2),
                    comment = get(bytes, at + 32, 2);
  if (bytes.size() - at - central_size < name + extra + comment) broken(path, "its list of members is cut");
  entry.method = get(bytes, at + 10, 2);
  entry.crc = get(bytes, at + 16, 4);
  entry.packed = get(bytes, at + 20, 4);
  entry.size = get(bytes, at + 24, 4);
  entry.offset = get(bytes, at + 42, 4);
  entry.name = bytes.substr(at + central_size, name);
  entry.next = at + central_size + name + extra + comment;
  const std::size_t end = at + central_size + name + extra;
  for (std::size_t field = at + central_size + name; field + 4 <= end;) {
    const std::size_t size = get(bytes, field + 2, 2);
    std::size_t from = field + 4;
    if (get(bytes, field, 2) == zip64_extra) {
      for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
        if (*value != 0xffffffff || from + 8 > end) continue;
        *value = get(bytes, from, 8);
        from += 8;
      }
    }
    field += 4 + size;
  }
  return entry;
}

std::string content_of(std::string_view bytes, const Entry& entry, const std::string& path) {
  if (entry.method != 0)
    broken(path, fmt::format("{} is compressed; save it with numpy.savez, not savez_compressed", entry.name));
  if (entry.offset > bytes.size() || bytes.size() - entry.offset < local_size ||
      get(bytes, entry.offset, 4) != local_signature)
    broken(path, fmt::format("{} is not where the list of members says", entry.name));
  const std::uint64_t begin =
      entry.offset + local_size + get(bytes, entry.offset + 26, 2) + get(bytes, entry.offset + 28, 2);
  if (entry.packed != entry.size || begin > bytes.size() || bytes.size() - begin < entry.size)
    broken(path, fmt::format("{} is cut short", entry.name));
  const std::string_view content = bytes.substr(begin, entry.size);
  if (crc_of(content) != entry.crc)
    broken(path, fmt::format("the checksum of {} does not match", entry.name));
  return std::string(content);
}

/// Where the end record begins; a comment may follow it.
std::size_t end_of(std::string_view bytes, const std::string& path) {
  if (bytes.size() < end_size || bytes.substr(0, 2) != "PK") broken(path, "is not an .npz file");
  std::size_t end = bytes.size() - end_size;
  while (get(bytes, end, 4) != end_signature) {
    if (end == 0 || bytes.size() - end > end_size + longest_comment)
      broken(path, "has no end as .npz files have; it may be cut short");
    --end;
  }
  return end;
}

}  // namespace

std::string npz_bytes(const NpzMembers& members) {
  std::string bytes, list;
  for (const auto& [name, content] : members) {
    const std::string file = name + ".npy";
    const std::uint32_t crc = crc_of(content);
    const std::size_t offset = bytes.size();
    if (content.size() > largest || offset > largest)
      throw std::runtime_error("the arrays are too large for one .npz file (4 GB)");
    put(bytes, local_signature, 4);
    put_common(bytes, crc, content.size(), file.size());
    bytes += file;
    bytes += content;
    put(list, central_signature, 4);
    put(list, 20, 2);  // made by version 2.0
    put_common(list, crc, content.size(), file.size());
    put(list, 0, 2);  // no comment
    put(list, 0, 2);  // first disk
    put(list, 0, 2);  // no attributes
    put(list, 0, 4);
    put(list, offset, 4);
    list += file;
  }
  const std::size_t offset = bytes.size();
  if (offset + list.size() > largest || members.size() >= 0xffff)
    throw std::runtime_error("the arrays are too large for one .npz file (4 GB)");
  bytes += list;
  put(bytes, end_signature, 4);
  put(bytes, 0, 2);  // this disk, and that of the list
  put(bytes, 0, 2);
  put(bytes, members.size(), 2);
  put(bytes, members.size(), 2);
  put(bytes, list.size(), 4);
  put(bytes, offset, 4);
  put(bytes, 0, 2);  // no comment
  return bytes;
}

NpzMembers npz_members(const std::string& all, const std::string& path) {
  const std::string_view bytes = all;
  const std::size_t end = end_of(bytes, path);
  const std::uint64_t count = get(bytes, end + 10, 2);
  std::size_t at = get(bytes, end + 16, 4);
  NpzMembers members;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Entry entry = entry_at(bytes, at, path);
    at = entry.next;
    std::string name = entry.name;
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    members.emplace_back(std::move(name), content_of(bytes, entry, path));
  }
  return members;
}

std::string npz_comment(const std::string& bytes, const std::string& path) {
  return bytes.substr(end_of(bytes, path) + end_size);
}

}  // namespace crosstalk
