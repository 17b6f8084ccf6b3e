// Text of studies and tables as HTML and SVG.
// SPDX-License-Identifier: Apache-2.0
#include "plots/report/html.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include "results/printable.h"

namespace crosstalk {
namespace {

/// Characters of one height: 0 on the line, below it, or above it.
struct Piece {
  std::string text;
  int level = 0;
};

const std::map<std::string, std::string>& characters() {
  static const std::map<std::string, std::string> all = {
      {"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"},  {"delta", "δ"},  {"epsilon", "ε"}, {"eta", "η"},
      {"theta", "θ"}, {"kappa", "κ"}, {"lambda", "λ"}, {"mu", "μ"},     {"nu", "ν"},      {"pi", "π"},
      {"rho", "ρ"},   {"sigma", "σ"}, {"tau", "τ"},    {"varphi", "φ"}, {"phi", "ϕ"},     {"psi", "ψ"},
      {"omega", "ω"}, {"Gamma", "Γ"}, {"Delta", "Δ"},  {"Lambda", "Λ"}, {"Sigma", "Σ"},   {"Phi", "Φ"},
      {"Omega", "Ω"}, {"in", "∈"},    {"times", "×"},  {"cdot", "·"},   {"leq", "≤"},     {"le", "≤"},
      {"geq", "≥"},   {"ge", "≥"},    {"neq", "≠"},    {"approx", "≈"}, {"to", "→"},      {"infty", "∞"},
      {"pm", "±"},    {"ell", "ℓ"},   {"odot", "⊙"},   {"otimes", "⊗"}, {"oplus", "⊕"},   {"top", "⊤"},
      {"ldots", "…"}, {"dots", "…"},  {"quad", " "},   {"sum", "Σ"},    {"prod", "Π"},    {"partial", "∂"}};
  return all;
}

/// A formula, piece by piece; commands of fonts leave their text as it is. One whose parts stand more than 32 deep in each
/// other, which nobody means, stands as it was written.
class Formula {
 public:
  Formula(std::string_view text, std::vector<Piece>& pieces) : text_(text), pieces_(pieces) {
    const std::vector<Piece> before = pieces;
    read(0, '\0');
    if (!too_deep_) return;
    pieces_ = before;
    for (const std::string_view part : {std::string_view("$"), text, std::string_view("$")}) put(part, 0);
  }

 private:
  void put(std::string_view text, int level) {
    if (pieces_.empty() || pieces_.back().level != level) pieces_.push_back({"", level});
    pieces_.back().text += text;
  }

  /// A group in braces, or one character or command.
  void argument(int level) {
    const Inside inside(*this);
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ < text_.size() && text_[at_] == '{') {
      ++at_;
      read(level, '}');
    } else if (at_ < text_.size()) {
      one(level);
    }
  }

  void command(int level) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    if (at_ == begin) {  // "\," and such are spaces; of others the sign stays
      if (at_ < text_.size())
        put(std::string_view(",;:! ").find(text_[at_]) == std::string_view::npos ? text_.substr(at_, 1) : " ",
            level);
      at_ = std::min(at_ + 1, text_.size());
      return;
    }
    const std::string name(text_.substr(begin, at_ - begin));
    if (name == "frac") {
      argument(level);
      put("/", level);
      argument(level);
    } else if (name == "hat" || name == "tilde" || name == "bar") {
      argument(level);
      put(name == "hat" ? "\u0302" : name == "bar" ? "\u0304" : "\u0303", level);
    } else if (const auto known = characters().find(name); known != characters().end()) {
      put(known->second, level);
    } else if (at_ >= text_.size() || text_[at_] != '{') {
      put(name, level);  // \max; of \mathrm{dot} the argument is all
    }
  }

  void one(int level) {
    const char c = text_[at_++];
    if (c == '\\') return command(level);
    if (c == '_' || c == '^') return argument(c == '_' ? -1 : 1);
    if (c == '{') return read(level, '}');
    if (c == '}') return;
    std::size_t length = 1;  // the rest of a character of several bytes
    while (at_ < text_.size() && (static_cast<unsigned char>(text_[at_]) & 0xC0) == 0x80) ++at_, ++length;
    put(text_.substr(at_ - length, length), level);
  }

  void read(int level, char end) {
    const Inside inside(*this);
    while (at_ < text_.size() && text_[at_] != end) one(level);
    at_ = std::min(at_ + 1, text_.size());
  }

  /// Counts how deep the calls are; what is too deep is read no further.
  struct Inside {
    explicit Inside(Formula& formula) : depth(formula.depth_) {
      if (++depth <= kDeepest) return;
      formula.too_deep_ = true;
      formula.at_ = formula.text_.size();
    }
    ~Inside() { --depth; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    int& depth;
  };
  static constexpr int kDeepest = 64;  ///< calls, two a part

  std::string_view text_;
  std::vector<Piece>& pieces_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool too_deep_ = false;
};

std::string escaped(const std::string& text, const std::map<char, const char*>& by) {
  std::string safe;
  for (const char c : text)
    if (const auto known = by.find(c); known != by.end())
      safe += known->second;
    else
      safe += c;
  return safe;
}

std::vector<Piece> pieces_of(const std::string& given) {
  const std::string text = printable_line(given);
  std::vector<std::size_t> dollars;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '$' && (i == 0 || text[i - 1] != '\\')) dollars.push_back(i);
  const bool formulas = dollars.size() % 2 == 0;  // as matplotlib has it, an odd number are dollars
  std::vector<Piece> pieces = {{"", 0}};
  std::size_t from = 0;
  const auto words = [&](std::size_t to) {
    if (pieces.back().level != 0) pieces.push_back({"", 0});
    for (; from < to; ++from)
      if (text[from] != '\\' || from + 1 >= text.size() || text[from + 1] != '$')
        pieces.back().text += text[from];
  };
  for (std::size_t i = 0; formulas && i + 1 < dollars.size(); i += 2) {
    words(dollars[i]);
    Formula(std::string_view(text).substr(dollars[i] + 1, dollars[i + 1] - dollars[i] - 1), pieces);
    from = dollars[i + 1] + 1;
  }
  words(text.size());
  return pieces;
}

}  // namespace

std::string html(std::string_view text) {
  return escaped(printable(text),
                 {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string html_of(const std::string& mathtext) {
  std::string text;
  for (const Piece& piece : pieces_of(mathtext)) {
    const char* tag = piece.level < 0 ? "sub" : "sup";
    text += piece.level == 0 ? html(piece.text)
                             : std::string("<") + tag + ">" + html(piece.text) + "</" + tag + ">";
  }
  return text;
}

std::string svg_of(const std::string& mathtext) {
  std::string text;
  int level = 0;
  for (const Piece& piece : pieces_of(mathtext)) {
    if (piece.text.empty()) continue;
    if (piece.level == 0 && level == 0) {
      text += html(piece.text);
      continue;
    }
    text += "<tspan dy=\"" + std::to_string(4 * (level - piece.level)) + '"' +
            (piece.level == 0 ? "" : " font-size=\"80%\"") + '>' + html(piece.text) + "</tspan>";
    level = piece.level;
  }
  return text;
}

std::string plain_of(const std::string& mathtext) {
  std::string text;
  for (const Piece& piece : pieces_of(mathtext))
    if (!piece.text.empty()) text += (piece.level < 0 ? "_" : piece.level > 0 ? "^" : "") + piece.text;
  return text;
}

std::string script_json(const nlohmann::ordered_json& value) {
  return escaped(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                 {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

}  // namespace crosstalk
