// NumPy's .npz: several .npy files in one zip archive, not compressed, as numpy.savez writes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace crosstalk {

/// Name without ".npy", and the bytes of the .npy file.
using NpzMembers = std::vector<std::pair<std::string, std::string>>;

/// The bytes of an archive that holds `members` in this order. The same members give the same bytes.
/// Throws std::runtime_error where they are too large for a zip archive (4 GB).
std::string npz_bytes(const NpzMembers& members);

/// The members of an archive. Throws std::runtime_error that says what is wrong; `path` is for messages.
NpzMembers npz_members(const std::string& bytes, const std::string& path);

/// The comment of an archive, or "". Throws as npz_members() does.
std::string npz_comment(const std::string& bytes, const std::string& path);

}  // namespace crosstalk
