// A small schema in the shape of the program's, and the example study, for tests and the fuzzer of the
// reader.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "experiments/study/schema.h"

namespace crosstalk {

const Schema& fixture_schema();

/// The study that shows every part of the format.
std::string example_study();

/// example_study() after `from` was replaced by `to` (which must occur).
std::string example_with(const std::string& from, const std::string& to);

}  // namespace crosstalk
