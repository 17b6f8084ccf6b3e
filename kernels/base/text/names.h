// Names that somebody gave and nothing has: what they may have meant.
//
// Every message that says "did you mean" asks here. What other programs and papers call a thing of ours
// stands in one table; a test holds its entries against the registries, so that none points to nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

/// The name in `names` that somebody meant who wrote `name`, or "" if none is near. In this order: the same
/// but for case, - and _, or its plural; what others call it (synonyms()); the only one whose last dotted part it is; the only one
/// that begins with it; the nearest by letters left out, added, changed or swapped, at most one in four.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

/// Takes the second step of these alone: train.learning_rate for lr.
std::string synonym_of(std::string_view name, const std::vector<std::string>& names);

/// A name of ours (a memory, task, feature map, key, value of a key, metric), and what else it is called.
struct Synonym {
  std::string_view ours;
  std::vector<std::string_view> others;  ///< small letters and digits only
};
const std::vector<Synonym>& synonyms();

}  // namespace crosstalk
