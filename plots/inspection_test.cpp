// Figures of a memory that was looked into.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::inspection_test {

namespace fs = std::filesystem;

class Inspected : public FigureTest {
 protected:
  std::string script(const std::string& name) const { return read(folder_ / (name + ".py")); }
};

TEST_F(Inspected, ScriptsStandAloneAndFollowTheArraysThatAreThere) {
  const auto written = draw_inspection(
      folder_, {"a \"title\"", {"read_weights", "key_overlap"}, {"3:7", "1:0"}, {}, 5.5}, notes_);
  ASSERT_EQ(written.size(), 2u);
  const std::string text = script("read_weights");
  EXPECT_NE(text.find("TITLE = \"a \\\"title\\\"\"\nWIDTH = 5.5"), std::string::npos) << text;
  EXPECT_NE(text.find("TOKENS = [\"3:7\", \"1:0\"]"), std::string::npos);
  EXPECT_NE(text.find("def maps("), std::string::npos) << "the style is in the script";
  EXPECT_FALSE(fs::exists(folder_ / "state.py"));
  EXPECT_FALSE(fs::exists(folder_ / "gates.py"));
  EXPECT_EQ(draw_inspection(folder_, {"", {"singular_values"}, {}, {"beta"}}, notes_).size(), 2u);
}

TEST_F(Inspected, EditedAndForeignScriptsAreKept) {
  const InspectedArrays arrays = {"", {"read_weights"}, {}, {}};
  draw_inspection(folder_, arrays, notes_);
  std::ofstream(folder_ / "read_weights.py", std::ios::app) << "# mine\n";
  const std::string mine = script("read_weights");
  draw_inspection(folder_, arrays, notes_);
  EXPECT_EQ(script("read_weights"), mine);
  EXPECT_NE(notes_.str().find("was edited by hand and is kept"), std::string::npos);
  std::ofstream(folder_ / "read_weights.py") << "print('something else')\n";
  EXPECT_THROW(draw_inspection(folder_, arrays, notes_), std::runtime_error);
}

}  // namespace crosstalk::inspection_test
