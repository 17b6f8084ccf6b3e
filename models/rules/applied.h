// One call of a memory on inputs that depend on their names alone: reads, states at the end, gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/testing/cuda_test.h"
#include "models/apply_model.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::rules {

using Numbers = std::map<std::string, std::vector<double>>;

/// Reads, states and gradients of one call with inputs that depend on their names alone.
template <class Real>
Numbers applied(const std::string& memory, const std::map<std::string, OptionValue>& given,
                const ApplySizes& sizes, const std::vector<std::string>& present,
                Device device = Device::cpu) {
  const Memory* kind = &memory_named(memory);
  if (const auto law = given.find("law"); law != given.end())
    kind = &rule_of(std::get<std::string>(law->second), {}).memory;
  const Options options = apply_options(*kind, sizes, given);
  ApplyModel<Real> model(*kind, options, sizes, present, device, true);
  const auto put = [&](const std::string& name, const Tensor<Real>& x) {
    double shift = 0;
    for (const char c : name) shift = shift * 1.3 + c;
    std::vector<Real> numbers;
    const auto is = [&](std::initializer_list<const char*> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    const bool decay = name.starts_with("log_decay"), whole = is({"v", "d_o", "signed_decay"});
    const bool vector = is({"k", "q"}), small = is({"a", "b", "erase_key"});
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double y = std::sin(shift + 1.7 * static_cast<double>(i) + 0.01 * static_cast<double>(i * i));
      numbers.push_back(static_cast<Real>(decay    ? -0.45 - 0.35 * y
                                          : whole  ? y
                                          : vector ? 0.8 * y
                                          : small  ? 0.4 * y
                                                   : 0.45 + 0.35 * y));
    }
    if (device == Device::cpu) {
      std::copy(numbers.begin(), numbers.end(), x.at(0));
    } else {
      cuda_copy_to_device(x.at(0), numbers.data(), numbers.size() * sizeof(Real));
    }
  };
  const auto get = [&](const Tensor<Real>& x) {
    std::vector<Real> numbers(static_cast<std::size_t>(x.size()));
    copy_to_host(device, numbers.data(), x.at(0), numbers.size() * sizeof(Real));
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  for (const ApplyInput& input : apply_inputs(*kind, sizes)) {
    const bool there = !input.optional || std::count(present.begin(), present.end(), input.name) > 0;
    if (there) put(input.name, model.input(input.name));
  }
  put("d_o", model.cotangent());
  std::optional<CudaStream> stream;
  Exec exec{.device = device};
  if (device == Device::cuda) stream.emplace(), exec.stream = stream->get();
  model.graph().forward(exec);
  model.graph().backward(exec);
  if (stream) stream->synchronise();
  Numbers out;
  out["o"] = get(model.output());
  for (const auto& [name, variable] : model.states()) out["state " + name] = get(variable->value);
  for (const ApplyInput& input : apply_inputs(*kind, sizes)) {
    const bool there = !input.optional || std::count(present.begin(), present.end(), input.name) > 0;
    if (there && model.differentiated(input.name))
      out["gradient of " + input.name] = get(model.gradient(input.name));
  }
  model.graph().check_guards();
  return out;
}

inline void expect_close(const Numbers& got, const Numbers& want, double limit) {
  for (const auto& [name, x] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    const auto& y = got.at(name);
    ASSERT_EQ(y.size(), x.size()) << name;
    double most = 1;
    for (const double e : x) most = std::max(most, std::abs(e));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(std::abs(y[i] - x[i]) <= limit * most)
          << name << " " << i << ": " << y[i] << ", not " << x[i];
  }
}

}  // namespace crosstalk::rules
