// Memories on arrays: a planned graph whose tensors Python looks into, and a pool of plans that are not in use.
//
// Making a plan takes as long as running it, so that plans are kept: by memory, options, sizes, inputs and precision. A Call
// has one for itself until it is let go.
// SPDX-License-Identifier: Apache-2.0
#include "models/apply_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>

#include "kernels/base/error.h"
#include "models/rules/rule_memory.h"
#include "python/core/convert.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

/// A planned graph in either precision.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual nb::object input(const std::string& name, nb::handle owner) = 0;
  virtual nb::object gradient(const std::string& name,
                              nb::handle owner) = 0;  ///< None: o does not depend on it
  virtual nb::object output(nb::handle owner) = 0;
  virtual nb::object cotangent(nb::handle owner) = 0;
  virtual nb::dict states(nb::handle owner) = 0;
  virtual void pass(int threads, bool back) = 0;
  virtual std::size_t bytes() const = 0;
};

template <class Real>
class PlanOf : public Plan {
 public:
  PlanOf(const Memory& memory, const Options& options, const ApplySizes& sizes,
         const std::vector<std::string>& present, bool backward, Precision products)
      : memory_(memory),
        sizes_(sizes),
        model_(memory, options, sizes, present, Device::cpu, backward, products) {
    for (const ApplyInput& input : apply_inputs(memory, sizes)) shapes_[input.name] = input.dims;
  }
  nb::object input(const std::string& name, nb::handle owner) override {
    return show(model_.input(name), shapes_.at(name), owner);
  }
  nb::object gradient(const std::string& name, nb::handle owner) override {
    if (!model_.differentiated(name)) return nb::none();
    return show(model_.gradient(name), shapes_.at(name), owner);
  }
  nb::object output(nb::handle owner) override { return show(model_.output(), read_dims(), owner); }
  nb::object cotangent(nb::handle owner) override { return show(model_.cotangent(), read_dims(), owner); }
  nb::dict states(nb::handle owner) override {
    nb::dict all;
    for (const auto& [name, state] : model_.states()) {
      const Tensor<Real>& t = state->value;
      const std::vector<int> dims(t.dims, t.dims + t.rank);
      all[name.c_str()] = show(t, state_dims(memory_, sizes_, name, dims), owner);
    }
    return all;
  }
  void pass(int threads, bool back) override {
    Exec exec;
    exec.threads = threads;
    if (back)
      model_.graph().backward(exec);
    else
      model_.graph().forward(exec);
  }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::vector<int> read_dims() const { return {sizes_.B, sizes_.T, sizes_.H, sizes_.V}; }
  static nb::object show(const Tensor<Real>& tensor, const std::vector<int>& dims, nb::handle owner) {
    const std::vector<std::size_t> shape(dims.begin(), dims.end());
    return nb::cast(
        nb::ndarray<nb::numpy, Real, nb::c_contig>(tensor.at(0), shape.size(), shape.data(), owner));
  }
  const Memory& memory_;
  const ApplySizes sizes_;
  std::map<std::string, std::vector<int>> shapes_;
  ApplyModel<Real> model_;
  const std::size_t bytes_ = model_.graph().bytes();
};

/// Plans that nobody uses, the latest first, in no more memory than this.
class Pool {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  static Pool& instance() {
    static auto* pool = new Pool;  // arrays may outlive everything that ends with the process
    return *pool;
  }
  std::unique_ptr<Plan> take(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at =
        std::find_if(idle_.begin(), idle_.end(), [&](const auto& one) { return one.first == key; });
    if (at == idle_.end()) return nullptr;
    std::unique_ptr<Plan> plan = std::move(at->second);
    idle_.erase(at);
    return plan;
  }
  void give(const std::string& key, std::unique_ptr<Plan> plan) {
    std::list<std::pair<std::string, std::unique_ptr<Plan>>> gone;
    const std::lock_guard lock(mutex_);
    idle_.emplace_front(key, std::move(plan));
    std::size_t bytes = 0;
    for (auto at = idle_.begin(); at != idle_.end(); ++at) {
      bytes += at->second->bytes();
      if (bytes <= kMostBytes) continue;
      gone.splice(gone.begin(), idle_, at, idle_.end());
      break;
    }
  }
  std::pair<std::size_t, std::size_t> size() {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [key, plan] : idle_) bytes += plan->bytes();
    return {idle_.size(), bytes};
  }
  void clear() {
    std::list<std::pair<std::string, std::unique_ptr<Plan>>> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(idle_);
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<std::string, std::unique_ptr<Plan>>> idle_;
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

/// One use of a plan: inputs filled in by the caller, passes, results. The arrays are the plan's own memory and keep the call.
class Call {
 public:
  Call(const std::string& name, const std::vector<int>& sizes, const std::vector<std::string>& present,
       const nb::dict& given, const std::string& form, const std::string& precision, bool backward) {
    const Memory& registered = named_memory(name);
    std::map<std::string, OptionValue> settings = settings_of(registered, given);
    const nb::gil_scoped_release release;
    const Memory& memory = with_settings(registered, settings);
    if (form != "automatic") {
      const std::vector<std::string> forms = apply_forms(memory);
      if (std::find(forms.begin(), forms.end(), form) == forms.end())
        throw OptionError("memory.form",
                          fmt::format("form '{}': {} has {}", form, name, fmt::join(forms, ", ")));
      if (forms.size() > 1) settings["form"] = form;
    }
    const ApplySizes with = sizes_of(memory, sizes, settings);
    key_ = fmt::format("{} {} {} {} {}", name, fmt::join(sizes, " "), precision, backward,
                       fmt::join(present, " "));
    for (const auto& [option, value] : settings) key_ += fmt::format(" {}={}", option, to_text(value));
    plan_ = Pool::instance().take(key_);
    if (plan_) return;
    const Options options = apply_options(memory, with, settings);
    const Precision products = precision == "tf32"   ? Precision::tf32
                               : precision == "bf16" ? Precision::bf16
                                                     : Precision::full;
    if (precision == "fp64")
      plan_ = std::make_unique<PlanOf<double>>(memory, options, with, present, backward, products);
    else
      plan_ = std::make_unique<PlanOf<float>>(memory, options, with, present, backward, products);
  }
  ~Call() {
    if (plan_) Pool::instance().give(key_, std::move(plan_));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Plan& plan() const { return *plan_; }
  void pass(int threads, bool back) {
    const nb::gil_scoped_release release;
    plan_->pass(std::max(1, threads), back);
  }

 private:
  std::string key_;
  std::unique_ptr<Plan> plan_;
};

Call& call_of(nb::handle self) { return nb::cast<Call&>(self); }

nb::list inputs_of(const std::string& name, const nb::dict& given, const std::vector<int>& sizes) {
  const Memory& registered = named_memory(name);
  const std::map<std::string, OptionValue> settings = settings_of(registered, given);
  const Memory& memory = with_settings(registered, settings);
  nb::list all;
  for (const ApplyInput& input : apply_inputs(memory, sizes_of(memory, sizes, settings)))
    all.append(nb::make_tuple(input.name, input.dims, input.shape, input.optional));
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
  return all;
}

}  // namespace

void bind_apply(nb::module_& m) {
  m.def("memories", [] {
    std::vector<std::string> names;
    for (const Memory& memory : all_memories()) names.push_back(memory.name);
    return names;
  });
  m.def("describe_memory", &describe_memory, "name"_a);
  m.def("inputs", &inputs_of, "memory"_a, "options"_a, "sizes"_a,
        "Name, dimensions, letters and whether it may be left out, of each input.");
  m.def("release", [] { Pool::instance().clear(); });
  m.def("pooled", [] {
    const auto [plans, bytes] = Pool::instance().size();
    return nb::make_tuple(plans, bytes);
  });
  nb::class_<Call>(m, "Call")
      .def(nb::init<const std::string&, const std::vector<int>&, const std::vector<std::string>&,
                    const nb::dict&, const std::string&, const std::string&, bool>(),
           "memory"_a, "sizes"_a, "present"_a, "options"_a, "form"_a, "precision"_a, "backward"_a)
      .def(
          "input", [](nb::handle self, const std::string& n) { return call_of(self).plan().input(n, self); },
          "name"_a)
      .def(
          "gradient",
          [](nb::handle self, const std::string& n) { return call_of(self).plan().gradient(n, self); },
          "name"_a)
      .def("output", [](nb::handle self) { return call_of(self).plan().output(self); })
      .def("cotangent", [](nb::handle self) { return call_of(self).plan().cotangent(self); })
      .def("states", [](nb::handle self) { return call_of(self).plan().states(self); })
      .def(
          "forward", [](Call& call, int threads) { call.pass(threads, false); }, "threads"_a)
      .def(
          "backward", [](Call& call, int threads) { call.pass(threads, true); }, "threads"_a)
      .def_prop_ro("bytes", [](const Call& call) { return call.plan().bytes(); });
}

}  // namespace crosstalk::python
