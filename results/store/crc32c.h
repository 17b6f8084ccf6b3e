// CRC-32C (Castagnoli), the checksum of a record's line; check value 0xE3069283 for "123456789".
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace crosstalk {

/// CRC-32C: polynomial 0x1EDC6F41, reflected, initial value and final xor 0xFFFFFFFF (RFC 3720, appendix
/// B.4). `before` is the checksum of what stands before `bytes`: crc32c(b, crc32c(a)) == crc32c(ab).
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);
/// The same without the processor's instruction for it.
std::uint32_t crc32c_by_tables(std::string_view bytes, std::uint32_t before = 0);

}  // namespace crosstalk
