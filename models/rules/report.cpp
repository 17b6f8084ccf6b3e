// SPDX-License-Identifier: Apache-2.0
#include "models/rules/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "models/engines.h"

namespace crosstalk::rules {
namespace {

std::string scan_text(const Law& law, const ScanPlan& plan) {
  return fmt::format("scan: times {}, plus {}", expression_text(law, plan.factor),
                     plan.addend ? expression_text(law, plan.addend) : "0");
}

std::string recurrence_text(const Law& law, const RecurrencePlan& plan) {
  std::vector<std::string> fields;
  const auto field = [&](const char* called, Value x) {
    if (x) fields.push_back(fmt::format("{} {}", called, expression_text(law, x)));
  };
  using Erases = RecurrencePlan::Erase;
  field("log decay", plan.log_decay), field("decay", plan.decay), field("sign", plan.sign);
  field("log decay of rows", plan.value_log_decay);
  field("key", plan.key), field("value", plan.value), field("gain", plan.gain);
  if (plan.erase == Erases::delta) fields.emplace_back("erases along the key, by the gain");
  if (plan.erase == Erases::tied) fields.emplace_back("erases along the key");
  if (plan.erase == Erases::free) fields.emplace_back("erases");
  field("erase reads", plan.erase_read), field("erase writes", plan.erase_write);
  field("erase gain", plan.erase_gain);
  if (plan.erase != Erases::none && !plan.decayed)
    fields.emplace_back("erase sees the state before its decay");
  for (const auto& write : plan.more)
    field("then, as the first, key", write.key), field("value", write.value), field("gain", write.gain);
  const auto wide = [](Value x) { return x && !x->shape.number(); };
  const RecurrenceKind kind{.channel_decay = wide(plan.log_decay) || wide(plan.decay),
                            .value_decay = plan.value_log_decay != nullptr,
                            .several_writes = !plan.more.empty(),
                            .erase = plan.erase == Erases::none    ? Erase::none
                                     : plan.erase == Erases::delta ? Erase::delta
                                     : plan.erase == Erases::tied  ? Erase::tied
                                                                   : Erase::free};
  std::vector<std::string> forms;
  for (const std::string& name : form_names())
    if (const Form form = form_of(name); form != Form::automatic && covers(form, kind)) forms.push_back(name);
  return fmt::format("recurrence: {}; forms {}", fmt::join(fields, ", "), fmt::join(forms, ", "));
}

/// 2 where a value is above 0 whatever tokens and parameters are, 1 where it is at least 0, else 0. bounds_of() knows less of sums,
/// and which engine runs a law depends on it.
int sign_of(Value root) {
  std::map<Value, int> known;
  for (Value node : order({root})) {
    int least = 2, most = 0;
    for (Value a : node->args) least = std::min(least, known.at(a)), most = std::max(most, known.at(a));
    const auto arg = [&](std::size_t i) { return node->args[i]; };
    static const std::set<std::string> kNotNegative = {"exp",  "sigmoid", "softplus", "abs",
                                                       "relu", "sqrt",    "positive"};
    int sign = 0;
    switch (node->kind) {
      case Kind::number:
        sign = node->value > 0 ? 2 : node->value == 0 ? 1 : 0;
        break;
      case Kind::ones:
        sign = 2;
        break;
      case Kind::softmax:
        sign = 1;
        break;
      case Kind::map:
        sign = kNotNegative.count(node->name) != 0 ? 1 : 0;
        break;
      case Kind::add:
        sign = least == 0 ? 0 : most;
        break;
      case Kind::max:
        sign = most;
        break;
      case Kind::mul:
        sign = arg(0) == arg(1) ? std::max(1, least) : least;
        break;
      case Kind::matmul:
        sign = arg(0)->kind == Kind::transpose && arg(0)->args[0] == arg(1) ? std::max(1, least) : least;
        break;
      case Kind::min:
      case Kind::div:
      case Kind::sum:
      case Kind::fill:
      case Kind::row_sums:
      case Kind::transpose:
        sign = least;
        break;
      default:
        break;
    }
    known[node] = sign;
  }
  return known.at(root);
}

/// What stands in the law and may be read otherwise.
std::vector<std::string> notes_of(const Law& law) {
  std::set<std::string> entrywise, outside;
  bool unit = false;
  for (Value node : order(law.roots())) {
    unit = unit || node->kind == Kind::unit;
    const bool square = node->shape.rows == node->shape.columns && !node->shape.number();
    const bool meant = node->name == "exp" || node->name == "log" || node->name == "sqrt";
    if (node->kind == Kind::map && square && meant) entrywise.insert(node->name);
    if (node->kind != Kind::map) continue;
    if (node->name == "log" && sign_of(node->args[0]) < 2)
      outside.insert(
          "log(x), also that of x^(y), which is e^(y log x), is log(1e-30) = -69.08 where x is less than 1e-30");
    if (node->name == "sqrt" && sign_of(node->args[0]) < 1)
      outside.insert("sqrt(x) is 0 where x is less than 0");
  }
  std::vector<std::string> notes;
  for (const std::string& note : law.notes)
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  notes.insert(notes.end(), outside.begin(), outside.end());
  if (unit) notes.emplace_back("unit(x) is x / sqrt(sum(x * x) + 1e-6), so a short x is not made 1 long");
  for (const std::string& f : entrywise)
    notes.push_back(
        fmt::format("{0} of a square matrix goes entry by entry; it is not the {0} of a matrix", f));
  return notes;
}

}  // namespace

std::vector<std::string> warnings_of(const Law& law) {
  std::vector<std::string> warnings;
  for (const LawState& one : law.states) {
    Value state = nullptr;
    for (Value node : order({one.step}))
      if (node->kind == Kind::state && node->name == one.name) state = node;
    const auto kept = state ? kept_of(one.step, state) : std::nullopt;
    if (!kept || (kept->low <= 1 && kept->high >= -1)) continue;
    const bool exact = kept->low == kept->high;
    warnings.push_back(fmt::format(
        "what {} holds is multiplied by {}{:.6g} at every token and grows without bound; a decay is a number up to 1",
        one.name,
        exact           ? ""
        : kept->low > 1 ? "more than "
                        : "less than ",
        kept->low > 1 ? kept->low : kept->high));
  }
  return warnings;
}

LawReport report(const Law& written, const Law& law, const Plan& plan) {
  LawReport out;
  for (Value node : order(written.roots())) {
    if (node->kind == Kind::given)
      out.names.push_back({node->name, shape_text(node->shape),
                           node->name == "q" ? "given, of what asks" : "given, of the token"});
    if (node->kind == Kind::number && !node->name.empty())
      out.names.push_back({node->name, "a number", fmt::format("memory.{}", node->name)});
  }
  for (const Learned& one : written.learned)
    out.names.push_back({one.name, shape_text(one.shape), "learned, " + learned_text(one)});
  for (const auto& [name, value] : written.values) {
    const bool learned = std::any_of(written.learned.begin(), written.learned.end(),
                                     [&, &of = name](const Learned& one) { return one.name == of; });
    if (!value->is_leaf())
      out.names.push_back({name, shape_text(value->shape), learned ? "value, of what is learned" : "value"});
  }
  for (const LawState& one : written.states)
    out.names.push_back(
        {one.name, shape_text(one.shape),
         one.start ? "state, starts at " + expression_text(written, one.start) : "state, starts at 0"});
  for (const StatePlan& one : plan.states) {
    std::string text = "token after token: " + one.reason;
    if (one.scan) text = scan_text(law, *one.scan);
    if (one.walked) text = "walked alone from token to token: its step is no a * z + b entry by entry";
    if (one.recurrence)
      text = (one.transposed ? "its transpose is a " : "") + recurrence_text(law, *one.recurrence);
    if (one.reason.empty() && !plan.reason.empty()) text = "token after token, as the law is: " + plan.reason;
    out.engines.push_back({one.name, text});
  }
  const std::string of_read = "read: ";
  if (plan.reason.rfind(of_read, 0) == 0) {
    out.engines.push_back({"read", "token after token: " + plan.reason.substr(of_read.size())});
  } else if (!plan.reason.empty()) {
    out.engines.push_back({"read", "token after token"});
  } else if (!plan.asked.empty()) {
    std::vector<std::string> asked;
    for (const Asked& one : plan.divided ? plan.divided->asked : plan.asked) {
      std::string text = fmt::format("{} with {}", one.state, expression_text(law, one.query));
      if (!one.sum.empty() && one.eps)
        text += fmt::format(", divided by {} with it + {}", one.sum, number_text(*one.eps));
      if (!one.sum.empty() && !one.eps)
        text += fmt::format(", divided by the size of {} with it, at least 1 (stabilised)", one.sum);
      asked.push_back(text);
    }
    out.engines.push_back({"read", fmt::format("asks {}{}", fmt::join(asked, ", "),
                                               law.before ? ", before the token is written" : "")});
  }
  const auto asks = [](Value n) {
    return n->kind == Kind::asking || (n->kind == Kind::given && n->name == "q");
  };
  if (!holds(law.read, asks))
    out.engines.push_back(
        {"", "nothing in read asks (no q, no asking): beside the sequence every query reads the same"});
  const std::vector<Value> nodes = order(law.roots());
  std::vector<Value> without, with;
  for (Value node : nodes) {
    const bool matrix = node->shape.rows != 1 && node->shape.columns != 1;
    (matrix || has_state(node) ? with : without).push_back(node);
  }
  out.notes = notes_of(written), out.warnings = warnings_of(law);
  out.without_state = operations_text(without), out.with_state = operations_text(with);
  return out;
}

namespace {

/// Operations by powers of V and K.
std::map<std::pair<int, int>, std::int64_t> counted(const std::vector<Value>& nodes) {
  std::map<std::pair<int, int>, std::int64_t> counts;  // by powers of V and K
  const auto count = [&](std::initializer_list<int> sizes) {
    std::pair<int, int> powers{0, 0};
    std::int64_t times = 1;
    for (const int n : sizes) {
      if (n == kV) ++powers.first;
      if (n == kK) ++powers.second;
      if (n == kM) ++powers.second, times *= 4;
      if (n > 0) times *= n;
    }
    counts[powers] += times;
  };
  for (Value node : nodes) {
    const Shape s = node->shape;
    switch (node->kind) {
      case Kind::transpose:
      case Kind::diag:
      case Kind::diagonal:
      case Kind::fill:
        break;
      case Kind::matmul: {
        const int inner = node->args[0]->shape.columns;
        count({s.rows, s.columns, inner});
        if (inner != 1) count({s.rows, s.columns, inner});
        break;
      }
      case Kind::sum:
      case Kind::row_sums:
        count({node->args[0]->shape.rows, node->args[0]->shape.columns});
        break;
      case Kind::solve: {  // a factor of the matrix, and both its halves
        const int n = s.rows;
        for (int i = 0; i < 2; ++i) count({n, n});
        count({n, n, n});
        break;
      }
      case Kind::softmax:  // the largest, exp, the sum, a product
      case Kind::unit:     // squares, their sum, a product
        for (int i = 0; i < (node->kind == Kind::softmax ? 4 : 3); ++i) count({s.rows, s.columns});
        break;
      default:
        if (!node->is_leaf()) count({s.rows, s.columns});
    }
  }
  return counts;
}

}  // namespace

double operations_of(const Law& law, double K, double V) {
  double all = 0;
  for (const auto& [powers, n] : counted(order(law.roots())))
    all += static_cast<double>(n) * std::pow(V, powers.first) * std::pow(K, powers.second);
  return all;
}

std::string operations_text(const std::vector<Value>& nodes) {
  const auto counts = counted(nodes);
  std::vector<std::pair<std::pair<int, int>, std::int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const int x = a.first.first + a.first.second, y = b.first.first + b.first.second;
    return x != y ? x > y : a.first > b.first;
  });
  const auto power = [](const char* letter, int n) {
    return n == 0 ? "" : n == 1 ? fmt::format(" {}", letter) : fmt::format(" {}^{}", letter, n);
  };
  std::vector<std::string> terms;
  for (const auto& [powers, n] : sorted) {
    const std::string letters = power("V", powers.first) + power("K", powers.second);
    terms.push_back(n == 1 && !letters.empty() ? letters.substr(1) : fmt::format("{}{}", n, letters));
  }
  return terms.empty() ? "0" : fmt::format("{}", fmt::join(terms, " + "));
}

}  // namespace crosstalk::rules
