// Properties of the reader of requests for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "experiments/common/request_text.h"

namespace crosstalk::program {

/// Aborts where the reader breaks its promise: a request that is written back to the same, or std::exception.
inline void check_request_reader(std::string_view bytes) {
  try {
    const Request request = request_of(std::string(bytes));
    if (request.study.find('/') != std::string::npos) std::abort();
    const std::string written = text_of(request);
    if (text_of(request_of(written)) != written) std::abort();
  } catch (const std::exception&) {
  }
}

}  // namespace crosstalk::program
