// Cases of messages in a file: what is read and what is said of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace crosstalk::testing {

/// Cases of a file: lines of a text, then "=> " and what `said` answers to it ("=> ..." and a part of that), several such lines
/// where it has several. Empty lines and those that begin with ## are for readers.
template <class Said>
void check_said(const std::string& file, const Said& said) {
  std::ifstream lines(file);
  std::string text, due;
  int cases = 0;
  const auto check = [&] {
    if (due.empty()) return;
    const std::string found = said(text);
    if (due.starts_with("...")) {
      EXPECT_NE(found.find(due.substr(3)), std::string::npos)
          << found << "\nwhere this was due: " << due << "\n"
          << text;
    } else {
      EXPECT_EQ(found, due) << text;
    }
    text.clear(), due.clear();
    ++cases;
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("##")) continue;
    if (line.starts_with("=> ")) {
      if (!due.empty()) due += '\n';
      due.append(line, 3);
      continue;
    }
    check();
    text += line + "\n";
  }
  check();
  EXPECT_GT(cases, 0) << file;
}

}  // namespace crosstalk::testing
