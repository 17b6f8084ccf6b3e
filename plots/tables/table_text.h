// Tables of figures as LaTeX (booktabs) and Markdown.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk {

struct Cell {
  std::string text, interval;
  bool best = false;
  bool at_chance = false;  ///< said behind it, and never bold
};

/// A table before it is text: `head` and each row have the same number of cells.
struct Table {
  std::vector<std::string> head;  ///< mathtext
  std::size_t keys = 1;           ///< columns that say what a row is of; the others are values
  bool turns = false;             ///< whether rows and columns may change places: all values are of one kind
  std::vector<std::vector<Cell>> rows;
  std::string caption, label;
  std::string notes =
      {};  ///< what need not stand in a paper's caption: in LaTeX a comment, in Markdown behind it
};

std::string latex_table(const Table& table);
std::string markdown_table(const Table& table);

}  // namespace crosstalk
