// One request, and the text of its file.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk::program {

struct Request {
  std::string study, text;
  std::vector<std::string> set;
  std::string version = "";  ///< Asked::version of the study; "": not known
};

std::string text_of(const Request& request);
/// Throws std::exception for text of another form.
Request request_of(const std::string& text);

}  // namespace crosstalk::program
