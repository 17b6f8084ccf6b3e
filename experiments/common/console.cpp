// Streams of the program.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "results/printable.h"

namespace crosstalk::program {

DescriptorBuffer::DescriptorBuffer(int descriptor, bool harmless)
    : descriptor_(descriptor), harmless_(harmless), buffer_(1 << 16) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

DescriptorBuffer::~DescriptorBuffer() {
  sync();
  write_out(printable(cut_));
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int DescriptorBuffer::sync() {
  const std::string_view bytes(pbase(), static_cast<std::size_t>(pptr() - pbase()));
  if (harmless_) {
    std::string text = cut_.append(bytes);
    const std::size_t whole = text.size() - cut_character(text);
    cut_ = text.substr(whole);
    text.resize(whole);
    write_out(printable(text));
  } else {
    write_out(bytes);
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

void DescriptorBuffer::write_out(std::string_view bytes) {
  while (error_ == 0 && !bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      error_ = errno;
  }
}

namespace {

/// An environment variable that is set and not empty (no-color.org).
bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

// Spelled out, a character may take six times its room.
std::string harmless(std::string_view message) { return shortened(printable(message)); }

void print(Console& console, const char* word, const char* code, std::string_view message) {
  if (console.color)
    console.err << fmt::format("crosstalk: \x1b[{}m{}:\x1b[0m {}\n", code, word, harmless(message));
  else
    console.err << fmt::format("crosstalk: {}: {}\n", word, harmless(message));
  console.err.flush();
}

}  // namespace

bool use_color(ColorChoice choice, bool terminal) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  return terminal && !is_set("NO_COLOR") && !dumb_terminal();
}

bool error_terminal() { return ::isatty(STDERR_FILENO) == 1 && !dumb_terminal(); }

void print_error(Console& console, std::string_view message) { print(console, "error", "1;31", message); }
void print_warning(Console& console, std::string_view message) {
  print(console, "warning", "33", printable_line(message));  // names of somebody's store stand in it
}
void print_note(Console& console, std::string_view message) {
  console.err << fmt::format("crosstalk: {}\n", harmless(message));
  console.err.flush();
}
void print_plain(Console& console, std::string_view message) {
  console.err << harmless(message) << "\n";
  console.err.flush();
}

void ensure_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
      // The lowest free number is this one, since the ones below are open by now.
      if (::open("/dev/null", O_RDWR) == -1) return;
}

}  // namespace crosstalk::program
