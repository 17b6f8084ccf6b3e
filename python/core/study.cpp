// Studies as runs.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study.h"

#include "experiments/common/stores.h"
#include "python/core/convert.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

nb::dict study_of(const std::string& path, const std::vector<std::string>& set) {
  const Study study = [&] {
    const nb::gil_scoped_release release;
    return program::study_named(path, {.set = set});
  }();
  nb::dict all;
  all["name"] = study.name, all["title"] = study.title, all["text"] = study.text,
  all["product"] = study.product;
  nb::list labels, runs;
  for (const StudyLabel& label : study.labels) labels.append(nb::make_tuple(label.label, label.title));
  for (const Run& run : study.runs) {
    nb::dict one;
    one["id"] = run.id, one["label"] = run.label, one["labels"] = run.labels, one["seed"] = run.seed;
    one["config"] = dict_of(run.config), one["d_dot"] = run.d_dot;
    one["state_size"] = run.state_size > 0 ? nb::cast(run.state_size) : nb::none();
    one["keep_weights"] = run.keep_weights;
    runs.append(one);
  }
  all["labels"] = labels, all["runs"] = runs;
  return all;
}

}  // namespace

void bind_study(nb::module_& m) {
  m.def("study", &study_of, "path"_a, "set"_a);
  m.def(
      "run_id", [](const nb::dict& config) { return run_id(options_of(config)); }, "config"_a);
}

}  // namespace crosstalk::python
