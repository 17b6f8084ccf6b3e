// Text as LaTeX.
// SPDX-License-Identifier: Apache-2.0
#include "plots/tables/latex.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "results/printable.h"

namespace crosstalk {
namespace {

/// Letters that become formulas.
const std::map<std::string, std::string>& greek() {
  static const std::map<std::string, std::string> all = {
      {"α", "\\alpha"}, {"β", "\\beta"},   {"γ", "\\gamma"}, {"δ", "\\delta"},  {"ε", "\\epsilon"},
      {"η", "\\eta"},   {"θ", "\\theta"},  {"κ", "\\kappa"}, {"λ", "\\lambda"}, {"μ", "\\mu"},
      {"ν", "\\nu"},    {"φ", "\\varphi"}, {"ϕ", "\\phi"},   {"σ", "\\sigma"},  {"τ", "\\tau"},
      {"ω", "\\omega"}, {"Δ", "\\Delta"},  {"Φ", "\\Phi"},   {"∈", "\\in"},     {"×", "\\times"},
      {"≤", "\\leq"},   {"≥", "\\geq"},    {"→", "\\to"},    {"∞", "\\infty"},  {"–", "\\textrm{--}"}};
  return all;
}

/// Commands that only set a formula. All but \mathbb stand in LaTeX itself.
bool is_allowed(const std::string& command) {
  static const std::set<std::string> all = {
      // Letters.
      "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota",
      "kappa", "lambda", "mu", "nu", "xi", "pi", "varpi", "rho", "varrho", "sigma", "varsigma", "tau",
      "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
      "Sigma", "Upsilon", "Phi", "Psi", "Omega", "ell", "hbar", "imath", "jmath", "Re", "Im", "aleph",
      // Fonts and accents.
      "mathrm", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "mathbb", "textrm", "hat", "widehat",
      "bar", "overline", "underline", "tilde", "widetilde", "vec", "dot", "ddot", "acute", "grave", "breve",
      "check",
      // Functions and what is built of parts.
      "frac", "sqrt", "sum", "prod", "int", "oint", "max", "min", "sup", "inf", "lim", "limsup", "liminf",
      "log", "ln", "lg", "exp", "arg", "sin", "cos", "tan", "sinh", "cosh", "tanh", "det", "dim", "ker",
      "deg", "gcd", "hom", "Pr",
      // Relations, operators, arrows.
      "leq", "le", "geq", "ge", "neq", "ne", "approx", "sim", "simeq", "cong", "equiv", "propto", "ll", "gg",
      "in", "ni", "notin", "subset", "subseteq", "supset", "supseteq", "cup", "cap", "setminus", "pm", "mp",
      "times", "div", "cdot", "circ", "bullet", "ast", "star", "odot", "otimes", "oplus", "ominus", "wedge",
      "vee", "bigoplus", "bigotimes", "bigodot", "to", "gets", "rightarrow", "leftarrow", "leftrightarrow",
      "Rightarrow", "Leftarrow", "Leftrightarrow", "mapsto", "uparrow", "downarrow", "top", "bot", "perp",
      "parallel", "mid", "not",
      // Signs, brackets, spaces.
      "infty", "partial", "nabla", "forall", "exists", "neg", "emptyset", "prime", "dagger", "ddagger",
      "ldots", "cdots", "vdots", "ddots", "dots", "langle", "rangle", "lfloor", "rfloor", "lceil", "rceil",
      "vert", "Vert", "lVert", "rVert", "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "quad",
      "qquad"};
  return all.count(command) != 0;
}

std::size_t length_of(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw std::invalid_argument(fmt::format(
      "\"{}\" cannot stand in a LaTeX table: {}. Between $ stand letters, digits, signs, braces in pairs and commands that only set a formula, such "
      "as \\alpha, \\mathrm{{...}}, \\frac, \\hat, \\leq; a dollar sign is \\$. Change the title in the study, or take --format markdown",
      printable_line(text), why));
}

/// One formula, without its dollars; `text` is for the message.
std::string formula(std::string_view math, const std::string& text) {
  std::string out;
  int depth = 0, brackets = 0;
  if (math.find_first_not_of(' ') == std::string_view::npos) refuse(text, "a formula is empty");
  for (std::size_t i = 0; i < math.size();) {
    const char c = math[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const std::string letter(math.substr(i, length_of(c)));
      const auto known = greek().find(letter);
      out += known == greek().end() ? letter : known->second + " ";
      i += letter.size();
      continue;
    }
    ++i;
    if (c == '\\') {
      std::size_t end = i;
      while (end < math.size() && std::isalpha(static_cast<unsigned char>(math[end])) != 0) ++end;
      const std::string command(math.substr(i, end - i));
      if (command.empty()) {
        const char sign = i < math.size() ? math[i] : '\0';
        if (sign == '\0' || std::string_view(",;:! {}|%_&#$").find(sign) == std::string_view::npos)
          refuse(text,
                 sign == '\0' ? "a formula ends in \\" : fmt::format("\\{} is no command of formulas", sign));
        out += {'\\', sign};
        ++i;
        continue;
      }
      const bool is_text = command == "text";  // needs a package; the same letters in \textrm
      if (!is_text && !is_allowed(command))
        refuse(text, fmt::format("\\{} is no command of formulas", command));
      brackets += command == "left" ? 1 : command == "right" ? -1 : 0;
      if (brackets < 0) break;
      out += is_text ? "\\textrm" : "\\" + command;
      i = end;
      continue;
    }
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth < 0) break;
    if (depth > 64)
      refuse(text, "braces stand more than 64 deep in each other");  // TeX takes 255, scripts fewer
    const bool is_sign = std::string_view(" +-*/=<>()[]|.,:;!?'^_{}").find(c) != std::string_view::npos;
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && !is_sign)
      refuse(text, fmt::format("'{}' has another meaning in a formula", printable_line(std::string(1, c))));
    if (c == '^' && i < math.size() && math[i] == '^') refuse(text, "'^^' writes any character");
    out.push_back(c);
  }
  if (depth != 0) refuse(text, "a brace has no partner");
  if (brackets != 0) refuse(text, "\\left and \\right are no pairs");
  return out;
}

void add_word(std::string& out, char c) {
  if (std::string_view("&%#_{}$").find(c) != std::string_view::npos)
    out += {'\\', c};
  else if (c == '~')
    out += "\\textasciitilde{}";
  else if (c == '^')
    out += "\\textasciicircum{}";
  else if (c == '\\')
    out += "\\textbackslash{}";
  else if (c == '<' || c == '>' || c == '|')
    out += {'$', c, '$'};
  else
    out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);  // an empty line would end the cell
}

}  // namespace

std::string latex_of(const std::string& mathtext) {
  std::size_t dollars = 0;
  for (std::size_t i = 0; i < mathtext.size(); ++i) {
    if (mathtext.compare(i, 2, "\\$") == 0)
      ++i;
    else
      dollars += mathtext[i] == '$';
  }
  const bool has_formulas = dollars % 2 == 0;
  std::string out;
  for (std::size_t i = 0; i < mathtext.size();)
    if (mathtext.compare(i, 2, "\\$") == 0) {
      out += "\\$";
      i += 2;
    } else if (mathtext[i] == '$' && has_formulas) {
      std::size_t end = i + 1;
      while (end < mathtext.size() && mathtext[end] != '$') end += mathtext[end] == '\\' ? 2 : 1;
      if (end >= mathtext.size()) refuse(mathtext, "a formula has no end");
      out += fmt::format("${}$", formula(std::string_view(mathtext).substr(i + 1, end - i - 1), mathtext));
      i = end + 1;
    } else if (static_cast<unsigned char>(mathtext[i]) >= 0x80) {
      const std::string letter = mathtext.substr(i, length_of(mathtext[i]));
      const auto known = greek().find(letter);
      out += known == greek().end() ? letter : fmt::format("${}$", known->second);
      i += letter.size();
    } else {
      add_word(out, mathtext[i++]);
    }
  return out;
}

std::string packages_of(const std::string& latex) {
  return latex.find("\\mathbb") == std::string::npos ? "" : ",amssymb";
}

std::string mathtext_of(const std::string& plain) {
  std::string out;
  for (const char c : plain) out += c == '$' ? std::string("\\$") : std::string(1, c);
  return out;
}

}  // namespace crosstalk
