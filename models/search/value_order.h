// An order of values that is the same whatever their graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/base/text/digest.h"
#include "models/rules/graph.h"
#include "models/rules/text.h"

namespace crosstalk::search {

class ValueOrder {
 public:
  /// Leaves and what looks at no state first, and smaller ones, then numbers, states, what is given; by what they say but for names of quantities, then with these.
  bool operator()(rules::Value a, rules::Value b) {
    const auto key = [&](rules::Value x) { return std::tuple(size(x), said(x, false), said(x, true)); };
    return a != b && key(a) < key(b);
  }

 private:
  int size(rules::Value x) {
    int& n = sizes_[x];
    if (n > 0) return n;
    int all = x->kind == rules::Kind::transpose ? 0 : 1;
    for (rules::Value a : x->args)
      all = std::min(1000000, all + size(a) + (a->kind == rules::Kind::state ? 1000 : 0));
    return sizes_[x] = all;
  }
  const std::string& said(rules::Value x, bool names) {
    std::string& text = said_[{x, names}];
    if (!text.empty()) return text;
    const bool named = names || !rules::is_learned_kind(x->kind);
    const char* first = x->kind == rules::Kind::number  ? "0"
                        : x->kind == rules::Kind::state ? "1"
                        : x->is_leaf()                  ? "2"
                                                        : "3";
    std::string out = fmt::format("{}{}.{}.{}.{}.{}(", first, static_cast<int>(x->kind), named ? x->name : "",
                                  x->shape.rows, x->shape.columns, rules::number_text(x->value));
    for (rules::Value a : x->args) out += said(a, names) + ",";
    if (out.size() > 200) out = out.substr(0, 40) + digest_text(XXH3_128bits(out.data(), out.size()));
    return said_[{x, names}] = out + ")";
  }

  std::map<rules::Value, int> sizes_;
  std::map<std::pair<rules::Value, bool>, std::string> said_;
};

}  // namespace crosstalk::search
