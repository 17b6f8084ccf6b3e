// Between Python's objects and the project's: options, names, arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/options.h"
#include "models/memory.h"
#include "tasks/task.h"

namespace nb = nanobind;

namespace crosstalk::python {

/// A bool, an int, a float or a str. Throws TypeError for anything else.
OptionValue value_of(nb::handle value);
nb::object object_of(const OptionValue& value);
nb::dict dict_of(const Options& options);
Options options_of(const nb::dict& given);

/// What is given by name, each value checked against its specification. Throws OptionError, which names the nearest option.
std::map<std::string, OptionValue> checked(const nb::dict& given, const std::vector<OptionSpec>& specs,
                                           const std::string& prefix, const std::string& whose);

/// The registered thing of this name. Throws ValueError, which names the nearest.
const Memory& named_memory(const std::string& name);
const TaskKind& named_task(const std::string& name);

/// Name, type, default, smallest, largest, choices and help of each option.
nb::list list_of(const std::vector<OptionSpec>& specs);

/// An array of numpy that owns the values.
template <class T>
nb::object array_of(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {kept->size()}, owner));
}

// The parts of the module, each defined by the file of its name.
void bind_plan(nb::module_& m);
void bind_apply(nb::module_& m);
void bind_layer(nb::module_& m);
void bind_task(nb::module_& m);
void bind_study(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_course(nb::module_& m);

}  // namespace crosstalk::python
