// Requests by other programs: damaged ones are left out, and soon.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/requests.h"

#include <gtest/gtest.h>

#include <chrono>

#include "experiments/common/request_fuzz.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk::program {
namespace {

using crosstalk::testing::spill;
using crosstalk::testing::TemporaryFolder;

const Request kGood = {"s", "[study]\nname = \"s\"\n", {"seeds=1,2"}, "0123abcd"};

TEST(Requests, AnyBytesAreARequestOrNone) {
  const std::string good = text_of(kGood);
  EXPECT_EQ(request_of(good).set, kGood.set);
  crosstalk::testing::check_mutations(good, {'"', '{', '}', '[', ']', ',', ':', '\\', '0', '\0', '\xff', '/'},
                                      check_request_reader);
  check_request_reader(std::string(100000, '['));
}

TEST(Requests, WhatIsTooLargeOrAPathIsLeftOut) {
  const TemporaryFolder folder;
  const auto studies = folder.path() / "studies";
  keep_request(folder.path(), kGood);
  std::string large = text_of(kGood);
  large.insert(1, std::size_t{70} << 20, ' ');
  spill(studies / "large.request-00000001.json", large);
  Request other = kGood;
  other.study = "../../s";
  spill(studies / "other.request-00000002.json", text_of(other));
  spill(studies / "deep.request-00000003.json", std::string(100000, '['));
  std::vector<std::string> warnings;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Request> requests = read_requests(folder.path(), warnings);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].text, kGood.text);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("deep.request-00000003.json"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("larger than"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[2].find("path"), std::string::npos) << warnings[2];
}

}  // namespace
}  // namespace crosstalk::program
