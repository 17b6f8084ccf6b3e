// SPDX-License-Identifier: Apache-2.0
#include "models/build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

template <class Real>
std::string shape_of(Var<Real> x) {
  const Tensor<Real>& t = x.variable->value;
  return fmt::format("[{}]", fmt::join(t.dims, t.dims + t.rank, ","));
}

std::string names_of(const std::vector<MemoryInput>& inputs) {
  std::vector<std::string> names;
  for (const MemoryInput& input : inputs) names.push_back(input.name);
  return names.empty() ? "lists none" : fmt::format("lists {}", fmt::join(names, ", "));
}

// Holds what a law gave against what `inputs` say of it. Numbers a token, a key, a value: 1 is repeated.
template <class Real>
void check_input(const Memory& memory, const Mixer<Real>& m, const typename Mixer<Real>::Asked& asked) {
  const auto input = std::find_if(memory.inputs.begin(), memory.inputs.end(),
                                  [&](const MemoryInput& one) { return one.name == asked.name; });
  if (input == memory.inputs.end())
    throw MemoryError(memory.name,
                      fmt::format("build() asks for the input {}, but .inputs {}; add {{\"{}\"}} to .inputs",
                                  asked.name, names_of(memory.inputs), asked.name));
  if (!asked.value) return;
  struct Width {
    const char* name;
    const char* shape;
    int columns;
  };
  const Width width = input->per == Per::key        ? Width{"Per::key", "[B,T,H,K]", m.K}
                      : input->per == Per::head_key ? Width{"Per::head_key", "[1,1,H,K]", m.K}
                      : input->per == Per::value    ? Width{"Per::value", "[B,T,H,V]", m.V}
                      : input->per == Per::head     ? Width{"Per::head", "[1,1,H,1]", 1}
                      : input->per == Per::write    ? Width{"Per::write", "[B,T N,H,1]", 1}
                                                    : Width{"Per::token", "[B,T,H,1]", 1};
  const Tensor<Real>& t = asked.value.variable->value;
  if (input->per == Per::other || (t.rank == 4 && (t.dims[3] == 1 || t.dims[3] == width.columns))) return;
  throw MemoryError(
      memory.name,
      fmt::format(
          "the law of the input {} gives {}, but .inputs declare it as {}, which is {} (here B = {}, T = {}, "
          "H = {}, K = {}, V = {}); give m.token() that width, or declare another Per",
          asked.name, shape_of(asked.value), width.name, width.shape, int{m.B}, int{m.T}, int{m.H}, int{m.K},
          int{m.V}));
}

}  // namespace

Var<float> Build::operator()(Mixer<float>& m) const { return single(m); }
Var<double> Build::operator()(Mixer<double>& m) const { return precise(m); }

MemoryError::MemoryError(const std::string& memory, const std::string& message)
    : std::logic_error(fmt::format("memory {0} (models/memories/{0}.cpp): {1}", memory, message)) {}

void rethrow_of(const std::string& memory, const std::string& what) {
  try {
    throw;
  } catch (const MemoryError&) {
    throw;
  } catch (const OptionError&) {
    throw;
  } catch (const DeviceError&) {
    throw;
  } catch (const ShapeError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw MemoryError(memory, fmt::format("{} failed: {}", what, error.what()));
  }
}

template <class Real>
Var<Real> build_memory(const Memory& memory, Mixer<Real>& m) {
  Var<Real> o;
  try {
    o = memory.build(m);
  } catch (...) {
    // An engine that is given a gate of a wrong width knows no names; .inputs do.
    for (const auto& asked : m.asked()) check_input(memory, m, asked);
    const std::string& law = m.law_at_work();
    rethrow_of(memory.name, law.empty() ? "build()" : fmt::format("the law of the input {}", law));
  }
  for (const auto& asked : m.asked()) check_input(memory, m, asked);
  if (!o) throw MemoryError(memory.name, "build() gives nothing; return what is read, [B,Q,H,V]");
  const Tensor<Real>& t = o.variable->value;
  if (t.rank != 4 || t.dims[0] != m.B || t.dims[1] != m.Q || t.dims[2] != m.H || t.dims[3] != m.V)
    throw MemoryError(memory.name, fmt::format("build() gives {}; what is read is [B,Q,H,V] = [{},{},{},{}]",
                                               shape_of(o), int{m.B}, int{m.Q}, int{m.H}, int{m.V}));
  return o;
}

template Var<float> build_memory(const Memory&, Mixer<float>&);
template Var<double> build_memory(const Memory&, Mixer<double>&);

}  // namespace crosstalk
