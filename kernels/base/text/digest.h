// XXH3 of 64 and 128 bits, and the latter as text: what ids and contents are called.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#define XXH_INLINE_ALL
#define XXH_VECTOR 0  // scalar: g++ 12 warns about the library's own AVX-512 headers
#include <fmt/format.h>
#include <xxhash.h>

#include <string>

namespace crosstalk {

/// 32 hexadecimal digits.
inline std::string digest_text(XXH128_hash_t hash) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, hash);
  std::string text;
  for (const unsigned char byte : digest.digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace crosstalk
