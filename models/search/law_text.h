// Laws of candidates between graph and text: what is needed of them, with names of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "models/rules/law.h"

namespace crosstalk::search {

/// The steps of a law whose graph was changed, joined by "; ": states on which the reading depends, all names given anew in the order
/// in which the reading comes to them. Throws rules::LawError where none is left.
std::string text_of(rules::Law& law);

/// Tells whether -w starts as w does, so that nothing but the draw tells them apart.
bool signed_freely(const rules::Learned& one);

}  // namespace crosstalk::search
