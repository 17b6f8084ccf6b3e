// SPDX-License-Identifier: Apache-2.0
#include "models/rules/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

namespace crosstalk::rules {
namespace {

const std::vector<std::string> kMaps = {"exp",  "log",      "sigmoid", "softplus", "log_sigmoid",
                                        "tanh", "relu",     "silu",    "sqrt",     "abs",
                                        "sign", "positive", "inverse", "sin"};
const std::vector<std::string> kOthers = {
    "max",         "min",  "sum",   "mean",    "norm",     "unit",  "rms",  "layernorm",
    "softmax",     "dot",  "outer", "diag",    "diagonal", "ones",  "fill", "row_sums",
    "column_sums", "grad", "cos",   "largest", "solve",    "share", "fit"};
const std::vector<std::string> kInits = {"constant",         "normal",     "uniform",     "log_uniform",
                                         "inverse_softplus", "logit_step", "signed_step", "ramp"};

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Token {
  enum class Kind { number, name, sign, word, end };
  Kind kind;
  std::string text;
  int column;
  double number = 0;
};

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

/// Counts the characters from `at` on that are a number.
std::size_t number_length(std::string_view text, std::size_t at) {
  std::size_t i = at, digits = 0;
  for (; i < text.size() && digit(text[i]); ++i) ++digits;
  if (i < text.size() && text[i] == '.') {
    ++i;
    for (; i < text.size() && digit(text[i]); ++i) ++digits;
  }
  if (digits == 0) return 0;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    std::size_t j = i + 1;
    if (j < text.size() && (text[j] == '+' || text[j] == '-')) ++j;
    if (j < text.size() && digit(text[j])) {
      for (; j < text.size() && digit(text[j]); ++j) {
      }
      i = j;
    }
  }
  return i - at;
}

/// Names what stands first in the text and is no token, as a message: a letter of another alphabet by itself, not by its bytes;
/// of signs that papers and programs have, what is written here.
std::string unknown_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  bool whole = length == 1 ? first >= 0x20 && first < 0x7F : first < 0xF8 && text.size() >= length;
  for (std::size_t i = 1; whole && i < length; ++i) whole = (byte(i) & 0xC0) == 0x80;
  static const std::map<std::string_view, const char*> kMeant = {
      {"@", "A B is the product of matrices, a b^T an outer product"},
      {"{", "names have no indices: on the right of its step, S is what it was before"},
      {"<", "a step says NAME = ..., and positive(x) is 1 where x > 0"},
      {">", "a step says NAME = ..., and positive(x) is 1 where x > 0"},
      {".", "the transpose is x^T; numbers begin with a digit or a point and a digit"},
      {"|", "abs(x) goes entry by entry, and norm(x) is the length"},
      {"\xE2\x8A\x97", "an outer product is a b^T"},                        // circled times
      {"\xE2\x8A\x99", "* goes entry by entry"},                            // circled dot
      {"\xE2\x88\x98", "* goes entry by entry"},                            // ring
      {"\xC2\xB7", "a number times a value is a x, entry by entry a * b"},  // middle dot
      {"\xC3\x97", "a number times a value is a x, entry by entry a * b"},  // times
      {"\xE2\x88\x92", "the minus is -"},                                   // minus
      {"\xE2\x8A\xA4", "the transpose is x^T"},                             // top
      {"\xE1\xB5\x80", "the transpose is x^T"},                             // raised T
      {"\xE2\x88\x87", "the gradient is grad(loss, x)"},                    // nabla
      {"\xE2\x80\x96", "the length is norm(x)"},                            // double bar
  };
  const std::string shown = whole ? std::string(text.substr(0, length)) : fmt::format("byte {}", first);
  if (const auto it = kMeant.find(text.substr(0, length)); whole && it != kMeant.end())
    return fmt::format("'{}' means nothing here; {}", shown, it->second);
  if (whole && length > 1)
    return fmt::format("'{}' means nothing here; names have the letters a to z, A to Z and _", shown);
  return fmt::format("'{}' means nothing here; there are + - * / ^ ( ) [ ] , and names", shown);
}

std::vector<Token> tokens_of(std::string_view text, int step) {
  if (text.size() > static_cast<std::size_t>(kLongestStep))
    throw LawError(step, kLongestStep,
                   fmt::format("a step of more than {} characters; take it apart", kLongestStep));
  std::vector<Token> tokens;
  std::size_t at = 0, end = 0;
  while (true) {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
    if (at == text.size()) break;
    const int column = static_cast<int>(at) + 1;
    const char c = text[at];
    const auto sign = [&](std::size_t length) {
      tokens.push_back({Token::Kind::sign, std::string(text.substr(at, length)), column});
      at += length;
    };
    const char next = at + 1 < text.size() ? text[at + 1] : ' ';
    const char third = at + 2 < text.size() ? text[at + 2] : ' ';
    const std::size_t digits = number_length(text, at);
    if (digits > 0) {
      Token token{Token::Kind::number, std::string(text.substr(at, digits)), column};
      const auto read =
          std::from_chars(token.text.data(), token.text.data() + token.text.size(), token.number);
      if (read.ec != std::errc() || token.number > 1e300)
        throw LawError(step, column, "a number is at most 1e300, and not smaller than 1e-300 unless it is 0");
      tokens.push_back(token);
      at += digits;
      if (at < text.size() && text[at] == '.') {
        while (at < text.size() && (digit(text[at]) || text[at] == '.')) ++at;
        const std::size_t from = static_cast<std::size_t>(column) - 1;
        throw LawError(
            step, column,
            fmt::format("{} is no number; numbers are 12, 1.5, .5 and 1e-3", text.substr(from, at - from)));
      }
    } else if (letter(c)) {
      std::size_t n = 1;
      while (at + n < text.size() && (letter(text[at + n]) || digit(text[at + n]))) ++n;
      tokens.push_back({Token::Kind::name, std::string(text.substr(at, n)), column});
      at += n;
    } else if (const std::size_t close = text.find('"', at + 1); c == '"' && close != text.npos) {
      tokens.push_back({Token::Kind::word, std::string(text.substr(at + 1, close - at - 1)), column});
      at = close + 1;
    } else if (c == '^' && next == 'T' && !letter(third) && !digit(third)) {
      sign(2);
    } else if ((c == '+' || c == '-' || c == '=') && next == '=') {
      sign(2);
    } else if (std::string_view("-+*/^()[],='?:").find(c) != std::string_view::npos) {
      sign(1);
    } else {
      throw LawError(step, column, unknown_character(text.substr(at)));
    }
    end = at;
  }
  tokens.push_back({Token::Kind::end, "the end", static_cast<int>(end) + 1});
  return tokens;
}

class Parser {
 public:
  Parser(std::string_view text, int step) : tokens_(tokens_of(text, step)), step_(step) {}

  Step step() {
    Step out;
    out.column = now().column;
    if (now().kind == Token::Kind::name && now().text == "state") {
      ++at_;
      out.kind = Step::Kind::state;
      out.column = now().column;
      out.name = name("the state's name");
      take("[", "the state's size, such as [V, K],");
      out.sizes.push_back(choice());
      while (sees(",")) {
        ++at_;
        out.sizes.push_back(choice());
      }
      take("]", "]");
      if (sees("=")) {
        ++at_;
        out.value = choice();
      }
    } else if (now().kind == Token::Kind::name && now().text == "read" && tokens_[at_ + 1].text != "=") {
      ++at_;
      out.kind = Step::Kind::read;
      out.value = choice();
    } else {
      out.name = name("a name, state or read");
      if (!sees("=") && !sees("+=") && !sees("-="))
        fail(out.name == "return" || out.name == "output"
                 ? "what is read stands behind read: read S q"
                 : fmt::format("=, += or -= is wanted behind {}, not {}", out.name, now().text));
      out.kind = sees("=") ? Step::Kind::set : sees("+=") ? Step::Kind::add : Step::Kind::subtract;
      ++at_;
      out.value = choice();
    }
    if (now().kind != Token::Kind::end)
      fail("nothing belongs behind the end of the expression, but here is " + now().text);
    return out;
  }

 private:
  using Kind = Tree::Kind;
  using Branch = std::unique_ptr<Tree>;

  const Token& now() const { return tokens_[at_]; }
  bool sees(const char* sign) const { return now().kind == Token::Kind::sign && now().text == sign; }
  [[noreturn]] void fail(const std::string& message, int column = 0) const {
    throw LawError(step_, column > 0 ? column : now().column, message);
  }
  void take(const char* sign, const char* what) {
    if (!sees(sign)) fail(fmt::format("{} is wanted here, not {}", what, now().text));
    ++at_;
  }
  std::string name(const char* what) {
    if (now().kind != Token::Kind::name) fail(fmt::format("{} is wanted here, not {}", what, now().text));
    return tokens_[at_++].text;
  }

  template <class... Parts>
  Branch tree(Kind kind, int column, Parts... parts) {
    auto out = std::make_unique<Tree>();
    out->kind = kind, out->column = column;
    (add(*out, std::move(parts)), ...);
    return out;
  }
  void add(Tree& to, Branch part, const std::string& called = "") {
    to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > kDeepestTree)
      fail(fmt::format("more than {} operations inside each other; name a part of it", kDeepestTree));
    to.parts.push_back(std::move(part));
    to.names.push_back(called);
  }

  Branch choice() {
    if (++depth_ > kDeepestParentheses)
      fail(fmt::format("parentheses are more than {} deep; name a part of it", kDeepestParentheses));
    Branch out = sum();
    if (const int at = now().column; sees("==")) {
      ++at_;
      out = tree(Kind::equal, at, std::move(out), sum());
      if (!sees("?")) fail("a comparison stands before ? alone: NAME == \"word\" ? a : b", at);
    }
    if (const int at = now().column; sees("?")) {
      ++at_;
      Branch yes = choice();
      take(":", "the : of a ? b : c");
      out = tree(Kind::choice, at, std::move(out), std::move(yes), choice());
    }
    --depth_;
    return out;
  }

  Branch sum() {
    const int column = now().column;
    Branch left;
    if (sees("-")) {
      ++at_;
      left = tree(Kind::negative, column, product());
    } else {
      left = product();
    }
    while (sees("+") || sees("-")) {
      const Kind kind = sees("+") ? Kind::add : Kind::subtract;
      const int at = now().column;
      ++at_;
      Branch right = product();
      left = tree(kind, at, std::move(left), std::move(right));
    }
    return left;
  }

  Branch product() {
    Branch left = joined();
    while (sees("*") || sees("/")) {
      const Kind kind = sees("*") ? Kind::times : Kind::divide;
      const int at = now().column;
      ++at_;
      if (kind == Kind::times && sees("*")) fail("a power is x^2; the root is sqrt(x)");
      Branch right = joined();
      if (kind == Kind::divide && right->kind == Kind::joined && !right->enclosed)
        fail("what does / divide by here? write parentheses: a / (b c) or (a / b) c", right->column);
      left = tree(kind, at, std::move(left), std::move(right));
    }
    return left;
  }

  Branch joined() {
    Branch left = power();
    while (now().kind == Token::Kind::number || now().kind == Token::Kind::name || sees("(")) {
      const int at = now().column;
      Branch right = power();
      left = tree(Kind::joined, at, std::move(left), std::move(right));
    }
    return left;
  }

  Branch power() {
    Branch base = atom();
    while (sees("^T") || sees("'") || sees("^")) {
      const int at = now().column;
      const bool number = sees("^");
      if (number && base->kind == Tree::Kind::power && !base->enclosed)
        fail("a power of a power wants parentheses: (a^b)^c, or the product of both");
      ++at_;
      if (!number) {
        base = tree(Kind::transpose, at, std::move(base));
        continue;
      }
      if (sees("(") || now().kind == Token::Kind::name) {  // of numbers above 0, but x^(2) is x^2
        Branch exponent = atom();
        const bool minus = exponent->kind == Kind::negative;
        const Tree& size = minus ? *exponent->parts[0] : *exponent;
        if (size.kind == Kind::number && size.number >= 1 && size.number <= 8 &&
            size.number == std::floor(size.number)) {
          base = tree(Kind::power, at, std::move(base));
          base->power = static_cast<int>(minus ? -size.number : size.number);
        } else {
          base = tree(Kind::power, at, std::move(base), std::move(exponent));
        }
        continue;
      }
      const bool negative = sees("-");
      if (negative) ++at_;
      if (now().kind != Token::Kind::number || now().text.size() != 1 || now().text[0] < '1' ||
          now().text[0] > '8')
        fail(
            "a power is a whole number from -8 to 8 without 0, a value in parentheses, or T for the transpose; sqrt(x) is the root");
      const int n = now().text[0] - '0';
      ++at_;
      base = tree(Kind::power, at, std::move(base));
      base->power = negative ? -n : n;
    }
    return base;
  }

  Branch atom() {
    const Token token = now();
    if (token.kind == Token::Kind::number) {
      ++at_;
      auto out = tree(Kind::number, token.column);
      out->number = token.number;
      return out;
    }
    if (token.kind == Token::Kind::word) {
      ++at_;
      auto out = tree(Kind::word, token.column);
      out->name = token.text;
      return out;
    }
    if (token.kind == Token::Kind::name) {
      ++at_;
      const bool learned = is_learned(token.text);
      if (sees("(") && (is_function(token.text) || is_init(token.text) || learned)) return call(token);
      if (is_function(token.text)) fail(fmt::format("{0} wants parentheses: {0}(...)", token.text));
      auto out = tree(learned ? Kind::call : Kind::name, token.column);
      out->name = token.text;
      return out;
    }
    if (sees("(")) {
      const bool named = at_ > 0 && tokens_[at_ - 1].kind == Token::Kind::name;
      const Token before = named ? tokens_[at_ - 1] : token;
      ++at_;
      Branch inner = choice();
      if (named && sees(","))
        fail(fmt::format("{} is no function; docs/rules.md lists them", before.text), before.column);
      take(")", "the ) of the parenthesis");
      inner->enclosed = true;
      return inner;
    }
    fail(fmt::format("a value is wanted here, not {}", token.text));
  }

  Branch call(const Token& function) {
    auto out = tree(Kind::call, function.column);
    out->name = function.text;
    take("(", "(");
    while (!sees(")")) {
      if (!out->parts.empty()) take(",", "a comma or )");
      std::string called;
      if (now().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::sign &&
          tokens_[at_ + 1].text == "=") {
        called = now().text;
        at_ += 2;
      }
      add(*out, choice(), called);
    }
    ++at_;
    return out;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int step_, depth_ = 0;
};

}  // namespace

Step parse_step(std::string_view text, int number) { return Parser(text, number).step(); }

std::vector<std::string> steps_of(const std::string& law) {
  std::vector<std::string> steps;
  std::size_t at = 0;
  while (true) {
    const std::size_t end = law.find(';', at);
    const std::string part = law.substr(at, end == std::string::npos ? end : end - at);
    const bool blank = part.find_first_not_of(" \t\n\r") == std::string::npos;
    if (end != std::string::npos || !blank || steps.empty()) steps.push_back(part);
    if (end == std::string::npos) return steps;
    at = end + 1;
  }
}

std::string number_text(double x) {
  if (x == std::floor(x) && std::abs(x) < 1e15) return fmt::format("{}", static_cast<long long>(x));
  return fmt::format("{}", x);
}

bool is_map(const std::string& name) { return among(kMaps, name); }
bool is_function(const std::string& name) { return is_map(name) || among(kOthers, name); }
bool is_init(const std::string& name) { return among(kInits, name); }
bool is_learned(const std::string& name) {
  return name == "token" || name == "asking" || name == "parameter";
}

const std::vector<std::string>& function_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names = kMaps;
    names.insert(names.end(), kOthers.begin(), kOthers.end());
    return names;
  }();
  return all;
}

}  // namespace crosstalk::rules
