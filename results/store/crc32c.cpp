// CRC-32C by the processor's instruction where it has one, else by tables, eight bytes a step ("slicing by
// 8"): opening a large store checks every line.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace crosstalk {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b] is the checksum's change by byte b followed by k zero bytes.
constexpr Tables make_tables() {
  constexpr std::uint32_t reflected_polynomial = 0x82F63B78U;
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? reflected_polynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::string_view bytes, std::uint32_t before) {
  std::uint64_t crc = before ^ 0xFFFFFFFFU;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*at));
  return rest ^ 0xFFFFFFFFU;
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(bytes, before);
#endif
  return crc32c_by_tables(bytes, before);
}

std::uint32_t crc32c_by_tables(std::string_view bytes, std::uint32_t before) {
  std::uint32_t crc = before ^ 0xFFFFFFFFU;
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    // Bytes are put together by hand, so that the result does not depend on the machine's byte order.
    const std::uint32_t low = crc ^ (std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8 |
                                     std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24);
    crc = tables[7][low & 0xFFU] ^ tables[6][(low >> 8) & 0xFFU] ^ tables[5][(low >> 16) & 0xFFU] ^
          tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFFU];
  return crc ^ 0xFFFFFFFFU;
}

}  // namespace crosstalk
