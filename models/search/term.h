// Terms of laws drawn at random, of a given shape, and the text of a law whose graph was changed.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "models/rules/law.h"
#include "models/search/candidate.h"

namespace crosstalk::search {

/// The steps of a law whose graph was changed, joined by "; ": states on which the reading depends, all names given anew in the order
/// in which the reading comes to them, and factors of projections that stand alone left to their weights. Throws rules::LawError where none is left.
std::string text_of(rules::Law& law);

/// Tells whether -w starts as w does, so that nothing but the draw tells them apart.
bool signed_freely(const rules::Learned& one);

class Terms {
 public:
  Terms(rules::Law& law, RandomStream& random, const Limits& limits)
      : law_(law), g_(law.graph), random_(random), limits_(limits) {}

  /// A term of this shape, operations at most about `deep` inside each other; `read`: over states and what asks, else over the
  /// states, k, v and projections of the token. Throws rules::ShapeRefused where nothing has the shape.
  rules::Value grow(rules::Shape shape, int deep, bool read);
  /// A function of a projection of the token: sigmoid(token), ...
  rules::Value gate(rules::Shape shape);
  /// x through a function.
  rules::Value mapped(rules::Value x);
  /// A quantity like this one, new, or where `known` one that is there.
  rules::Value learned(rules::Learned one, bool known = false);

  template <class T>
  T one_of(const std::vector<T>& all) {
    if (all.empty()) throw rules::ShapeRefused("nothing to choose from");
    return all[random_.below(static_cast<std::uint32_t>(all.size()))];
  }

 private:
  bool chance(int percent) { return static_cast<int>(random_.below(100)) < percent; }
  rules::Value leaf(rules::Shape shape, bool read);
  /// A state of this many columns, or rows and then transposed, times a vector.
  rules::Value product(int rows, int deep, bool read);

  rules::Law& law_;
  rules::LawGraph& g_;
  RandomStream& random_;
  const Limits& limits_;
};

}  // namespace crosstalk::search
