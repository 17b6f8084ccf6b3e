// Forms of a recurrence by their names, and which of them cover it (engines.h).
// SPDX-License-Identifier: Apache-2.0
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

}  // namespace crosstalk
