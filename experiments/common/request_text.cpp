// One request, and the text of its file.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/request_text.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "results/json_bounds.h"

namespace crosstalk::program {

std::string text_of(const Request& request) {
  const nlohmann::ordered_json json = {
      {"study", request.study}, {"set", request.set}, {"text", request.text}, {"version", request.version}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Request request_of(const std::string& text) {
  if (nests_deeply(text)) throw std::invalid_argument("it nests too deeply");
  const nlohmann::json json = nlohmann::json::parse(text);
  Request request{json.at("study").get<std::string>(), json.at("text").get<std::string>(),
                  json.at("set").get<std::vector<std::string>>(), json.value("version", "")};
  if (request.study.find('/') != std::string::npos)  // it is the name of a file in the store
    throw std::invalid_argument("its study is a path, not a name");
  return request;
}

}  // namespace crosstalk::program
