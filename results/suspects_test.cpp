// SPDX-License-Identifier: Apache-2.0
#include "results/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/test_records.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;

Record old_record(int n, const std::string& law) {
  Record record = testing::make_record(n);
  record.provenance["semantics"] = kLastSuspectSemantics;
  record.config["memory.name"] = "rule";
  record.config["memory.law"] = law;
  return record;
}

TEST(Suspects, AreLawsAndArraysOfEarlierVersions) {
  const auto faults = [](const std::string& law) { return suspects(old_record(0, law)).size(); };
  EXPECT_EQ(faults("S += v k^T; read S q"), 0U);
  EXPECT_EQ(faults("S += v k^T; read S q + sum(fill(0.3, V) * (S q))"), 1U);
  EXPECT_EQ(faults("a = mean (k); S += a v k^T; read S q"), 1U);
  EXPECT_EQ(faults("summary = token(1); S += summary v k^T; read S q"), 0U);
  EXPECT_EQ(faults("key = token(K); S += v (sigmoid(key) * k)^T; read S q"), 1U);
  EXPECT_EQ(faults("S += v k^T\n  query=token(K); read S (q * query)"), 1U);
  EXPECT_EQ(faults("my_key = token(K); S += v (my_key * k)^T; read S q"), 0U);
  EXPECT_EQ(faults("value = ones(V); S += (value * v) k^T; read S q"), 2U);
  Record later = old_record(0, "read sum(k)");
  later.provenance["semantics"] = kLastSuspectSemantics + 1;
  EXPECT_TRUE(suspects(later).empty());
  later.provenance.erase("semantics");
  EXPECT_TRUE(suspects(later).empty());
  for (const char* task : {"tokens", "file"}) {
    Record arrays = testing::make_record(1);
    arrays.provenance["semantics"] = 1;
    arrays.config["task.name"] = task;
    EXPECT_EQ(suspects(arrays).size(), 1U) << task;
  }
}

TEST(Suspects, AreCountedOnceARun) {
  Record one = old_record(1, "read sum(k)"), again = one, other = old_record(2, "read mean(k)");
  again.label = "the same under another label";
  const auto lines = suspects_text({&one, &again, &other});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("2 runs of semantics 4 or less may be recorded wrongly (laws with sum"));
  EXPECT_TRUE(suspects_text({}).empty());
}

}  // namespace
}  // namespace crosstalk
