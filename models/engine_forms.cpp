// Forms of a recurrence by their names, and which of them cover it (engines.h).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "models/engines.h"

namespace crosstalk {

const std::vector<std::string>& form_names() {
  static const std::vector<std::string> names = {"automatic", "query", "parallel", "chunk", "recurrent"};
  return names;
}
const char* name_of(Form form) { return form_names()[static_cast<std::size_t>(form)].c_str(); }
Form form_of(const std::string& name) {
  for (std::size_t i = 0; i < form_names().size(); ++i) {
    if (form_names()[i] == name) return static_cast<Form>(i);
  }
  throw std::logic_error("[engines] there is no form " + name);
}

bool covers(Form form, const RecurrenceKind& kind) {
  if (kind.value_decay) return form == Form::recurrent || form == Form::chunk;
  return form != Form::parallel || (!kind.channel_decay && !kind.several_writes && kind.erase != Erase::free);
}

int fewest_tokens_in_chunks(int K, int V, bool erases, Precision products) {
  // Crossings of the two forms' times, forward and backward, at 16,384 and 65,536 tokens of an H200 (benchmarks/README.md, "Short
  // sequences"); 65: between 64 and 128 tokens.
  struct Crossing {
    int size, sums_bf16, erases_bf16, sums, erases;
  };
  static constexpr Crossing kMeasured[] = {
      {32, 16, 16, 16, 16}, {64, 16, 16, 65, 48}, {128, 64, 32, 256, 65}};
  for (const Crossing& at : kMeasured) {
    if (std::max(K, V) > at.size) continue;
    if (products == Precision::bf16) return erases ? at.erases_bf16 : at.sums_bf16;
    return erases ? at.erases : at.sums;
  }
  return 0;
}

}  // namespace crosstalk
