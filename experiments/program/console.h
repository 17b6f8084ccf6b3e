// Where the program writes: results to `out`, everything else to `err`; colour only where a person looks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::program {

/// Stream buffer over a file descriptor that remembers the first write error, which std::cout forgets.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor);
  ~DescriptorBuffer() override;
  int error() const { return error_; }  ///< errno of the first failed write, or 0

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  int descriptor_;
  int error_ = 0;
  std::vector<char> buffer_;
};

enum class ColorChoice { automatic, always, never };

/// The two streams and how to dress them.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool err_terminal = false;           ///< err is a terminal that understands redrawing
  bool color = false;                  ///< err takes colour
  std::string program = "crosstalk";   ///< as the user called it, for commands to copy
  std::vector<std::string> arguments;  ///< as given, without the program
};

/// Whether stderr takes colour: `always` and `never` win; else a terminal, TERM not dumb, NO_COLOR unset or
/// empty.
bool use_color(ColorChoice choice, bool terminal);

/// Whether stderr is a terminal on which a line can be redrawn.
bool error_terminal();

/// "crosstalk: error: MESSAGE"; several lines keep their order.
void print_error(Console& console, std::string_view message);
/// "crosstalk: warning: MESSAGE".
void print_warning(Console& console, std::string_view message);
/// "crosstalk: MESSAGE".
void print_note(Console& console, std::string_view message);

/// Opens /dev/null in place of a standard descriptor that the caller closed, so that no file of ours gets its
/// number and with it what we print.
void ensure_standard_descriptors();

}  // namespace crosstalk::program
