// Memories on arrays: the plan of one as Python fills and reads it, and what the registry says of them.
// SPDX-License-Identifier: Apache-2.0
#include "models/apply_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "kernels/base/error.h"
#include "models/documents.h"
#include "models/rules/rule_memory.h"
#include "python/core/plan.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

template <class Real>
class ApplyPlan final : public Plan {
 public:
  ApplyPlan(const Memory& memory, const Options& options, const ApplySizes& sizes,
            const std::vector<std::string>& present, Device device, bool backward, bool end_gradients,
            Precision products)
      : memory_(memory),
        sizes_(sizes),
        model_(memory, options, sizes, present, device, backward, products, true, end_gradients) {
    for (const ApplyInput& input : apply_inputs(memory, sizes))
      if (model_.has_input(input.name)) shapes_[input.name] = input.dims;
  }
  std::size_t word() const override { return sizeof(Real); }
  std::size_t bytes() const override { return bytes_; }
  std::optional<Place> input(const std::string& name) override {
    if (shapes_.count(name) == 0) return {};
    return place_of(model_.input(name), shapes_.at(name));
  }
  std::optional<Place> gradient(const std::string& name) override {
    if (shapes_.count(name) == 0 || !model_.differentiated(name)) return {};
    return place_of(model_.gradient(name), shapes_.at(name));
  }
  Place output() override { return place_of(model_.output(), read_dims()); }
  std::optional<Place> cotangent() override { return place_of(model_.cotangent(), read_dims()); }
  std::vector<std::string> states() const override {
    std::vector<std::string> names;
    for (const auto& [name, state] : model_.states()) names.push_back(name);
    return names;
  }
  std::optional<Place> state(const std::string& name) override {
    const auto at = model_.states().find(name);
    if (at == model_.states().end()) return {};
    return place_of(at->second->value, dims_of(name, at->second->value));
  }
  std::optional<Place> end_cotangent(const std::string& name) override {
    if (!model_.has_end_cotangent(name)) return {};
    const Tensor<Real> given = model_.end_cotangent(name);
    return place_of(given, dims_of(name, given));
  }
  void forward(const Exec& exec) override { model_.graph().forward(exec); }
  void backward(const Exec& exec) override { model_.graph().backward(exec); }
  bool bind(const std::string& what, const std::string& name, void* data) override {
    if ((what == "input" || what == "gradient") && shapes_.count(name) != 0)
      return bind_variable(model_.graph(), model_.input_variable(name), what == "gradient", data);
    if (what == "output") return bind_variable(model_.graph(), model_.output_variable(), false, data);
    if (what == "cotangent") return bind_variable(model_.graph(), model_.cotangent_variable(), false, data);
    if (what == "state")
      return bind_variable(model_.graph(), model_.states().at(name), false, data, /*alone=*/true);
    return false;
  }

 private:
  std::vector<int> read_dims() const { return {sizes_.B, sizes_.T, sizes_.H, sizes_.V}; }
  std::vector<int> dims_of(const std::string& state, const Tensor<Real>& t) const {
    return state_dims(memory_, sizes_, state, {t.dims, t.dims + t.rank});
  }
  const Memory& memory_;
  const ApplySizes sizes_;
  std::map<std::string, std::vector<int>> shapes_;
  ApplyModel<Real> model_;
  const std::size_t bytes_ = model_.graph().bytes();
};

std::vector<OptionSpec> option_specs(const Memory& memory) {
  std::vector<OptionSpec> specs = memory.options;
  const std::vector<OptionSpec> extra = apply_extra_options(memory);
  specs.insert(specs.end(), extra.begin(), extra.end());
  return specs;
}

std::map<std::string, OptionValue> settings_of(const Memory& memory, const nb::dict& given) {
  return checked(given, option_specs(memory), "memory", memory.name);
}

/// The memory with what its settings decide: of `rule` that of its law.
const Memory& with_settings(const Memory& memory, const std::map<std::string, OptionValue>& settings) {
  Options options;
  options.set("memory.name", memory.name);
  fill_defaults(options, "memory", memory.options);
  for (const auto& [name, value] : settings) options.set("memory." + name, value);
  return memory_of(options);
}

ApplySizes sizes_of(const Memory& memory, const std::vector<int>& s,
                    const std::map<std::string, OptionValue>& settings) {
  return with_letters(
      memory, {.B = s.at(0), .T = s.at(1), .H = s.at(2), .K = s.at(3), .V = s.at(4), .N = s.at(5)}, settings);
}

/// Of a memory with these sizes and optional inputs.
std::unique_ptr<Recipe> apply_recipe(const std::string& name, const std::vector<int>& sizes,
                                     const std::vector<std::string>& present, const nb::dict& given,
                                     const std::string& form, const std::string& precision) {
  const Memory& registered = named_memory(name);
  std::map<std::string, OptionValue> settings = settings_of(registered, given);
  const nb::gil_scoped_release release;
  const Memory& memory = with_settings(registered, settings);
  const ApplySizes with = sizes_of(memory, sizes, settings);
  if (form != "automatic") {
    const std::vector<std::string> forms = apply_forms(memory, settings, with);
    if (std::find(forms.begin(), forms.end(), form) == forms.end())
      throw OptionError("memory.form",
                        fmt::format("form '{}': {} has {}", form, name, fmt::join(forms, ", ")));
    if (forms.size() > 1) settings["form"] = form;
  }
  std::string key =
      fmt::format("apply {} {} {} {}", name, fmt::join(sizes, " "), precision, fmt::join(present, " "));
  for (const auto& [option, value] : settings) key += fmt::format(" {}={}", option, to_text(value));
  const auto make = [&memory, with, settings, present, precision](Device device,
                                                                  int gradients) -> std::unique_ptr<Plan> {
    const Options options = apply_options(memory, with, settings);
    const Precision products = precision_of(precision);
    const bool back = gradients > 0, ends = gradients > 1;
    if (precision == "fp64")
      return std::make_unique<ApplyPlan<double>>(memory, options, with, present, device, back, ends,
                                                 products);
    return std::make_unique<ApplyPlan<float>>(memory, options, with, present, device, back, ends, products);
  };
  return std::make_unique<Recipe>(Recipe{std::move(key), make});
}

nb::list inputs_of(const std::string& name, const nb::dict& given, const std::vector<int>& sizes) {
  const Memory& registered = named_memory(name);
  const std::map<std::string, OptionValue> settings = settings_of(registered, given);
  const Memory& memory = with_settings(registered, settings);
  nb::list all;
  for (const ApplyInput& input : apply_inputs(memory, sizes_of(memory, sizes, settings)))
    all.append(nb::make_tuple(input.name, input.dims, input.shape, input.optional));
  return all;
}

/// A law in canonical text, and what it says.
nb::dict rule_facts(const std::string& law, const nb::dict& numbers) {
  const Memory& registered = named_memory("rule");
  std::map<std::string, OptionValue> settings = settings_of(registered, numbers);
  settings["law"] = law;
  Options options;
  options.set("memory.name", registered.name);
  fill_defaults(options, "memory", registered.options);
  for (const auto& [name, value] : settings) options.set("memory." + name, value);
  const rules::Rule& rule = rules::rule_of(options);
  nb::dict all;
  all["text"] = rule.text, all["equation"] = rule.memory.equation, all["states"] = rule.memory.states;
  return all;
}

nb::dict describe_memory(const std::string& name) {
  const Memory& memory = named_memory(name);
  nb::dict all;
  all["name"] = memory.name, all["summary"] = memory.summary, all["equation"] = memory.equation;
  all["laws"] = memory.laws, all["source"] = memory.source, all["text"] = memory.description();
  all["inputs"] = inputs_of(name, {}, {1, 1, 1, 1, 1, 1});
  all["states"] = memory.states, all["forms"] = apply_forms(memory);
  all["options"] = list_of(option_specs(memory));
  nb::dict starts;
  try {
    const Options bare = apply_options(memory, {.T = 2, .K = 2}, {});
    for (const std::string option : {"feature_map", "key_norm", "read_norm"})
      if (bare.has("memory." + option)) starts[option.c_str()] = bare.get_string("memory." + option);
  } catch (const OptionError&) {  // of `rule` the law is missing
  }
  all["bare"] = starts;
  return all;
}

/// ([(length, goes_on, rows where its documents begin)], the last document of each sequence).
nb::tuple documents(const nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& reset,
                    bool starts) {
  const auto B = static_cast<int>(reset.shape(0)), T = static_cast<int>(reset.shape(1));
  const Documents found = documents_of({reset.data(), reset.data() + reset.size()}, B, T, starts);
  nb::list groups;
  for (const DocumentGroup& group : found.groups)
    groups.append(nb::make_tuple(group.length, group.goes_on, group.first));
  return nb::make_tuple(groups, found.last);
}

}  // namespace

void bind_apply(nb::module_& m) {
  m.def("documents", &documents, "reset"_a.noconvert(), "starts"_a);
  m.def("reset_of", &reset_of, "cu_seqlens"_a, "B"_a, "T"_a);
  m.def("memories", [] {
    std::vector<std::string> names;
    for (const Memory& memory : all_memories()) names.push_back(memory.name);
    return names;
  });
  m.def("describe_memory", &describe_memory, "name"_a);
  m.def("rule", &rule_facts, "law"_a, "numbers"_a);
  m.def("inputs", &inputs_of, "memory"_a, "options"_a, "sizes"_a,
        "Name, dimensions, letters and whether it may be left out, of each input.");
  m.def("apply_recipe", &apply_recipe, "memory"_a, "sizes"_a, "present"_a, "options"_a, "form"_a,
        "precision"_a);
}

}  // namespace crosstalk::python
