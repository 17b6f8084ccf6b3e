// Where the program writes: results to `out`, everything else to `err`; colour only where a person looks.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk::program {

/// Stream buffer over a file descriptor that remembers the first write error, which std::cout forgets. With
/// `harmless` nothing that is written acts on a terminal (results/printable.h).
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor, bool harmless = false);
  ~DescriptorBuffer() override;
  int error() const { return error_; }  ///< errno of the first failed write, or 0

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  void write_out(std::string_view bytes);

  int descriptor_;
  bool harmless_;
  std::string cut_;  ///< the beginning of a character whose end is not there yet
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

/// "crosstalk: error: MESSAGE"; several lines keep their order. What acts on a terminal is spelled out and
/// what is endless is shortened: messages quote files.
void print_error(Console& console, std::string_view message);
/// "crosstalk: warning: MESSAGE".
void print_warning(Console& console, std::string_view message);
/// "crosstalk: MESSAGE".
void print_note(Console& console, std::string_view message);
/// The message alone ("study.toml:3:1: ...").
void print_plain(Console& console, std::string_view message);

/// Opens /dev/null in place of a standard descriptor that the caller closed, so that no file of ours gets its
/// number and with it what we print.
void ensure_standard_descriptors();

}  // namespace crosstalk::program
