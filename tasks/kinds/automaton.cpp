// automaton: machines with a state, by name, by a table, or drawn at random.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <sstream>

#include "tasks/device_table.h"
#include "tasks/drawn_task.h"
#include "tasks/kinds/automaton_sequence.h"
#include "tasks/number_groups.h"

namespace crosstalk::automaton_task {

/// What a named machine is made of. Tables of "" are made from its sizes, or there are none.
struct Facts {
  const char* name;
  Machine machine;
  int states, inputs;                     ///< where no option says them
  const char *reveal, *uses;              ///< as published; options beside those of all machines
  const char *table = "", *answers = "";  ///< next states of states; their answers, "" the states themselves
  const char *letters = "", *words = "";  ///< tokens 1, 2, ..; words that inputs are, "" one token each
  int changes = 0;                        ///< inputs before the idle ones; 0 all of them
};
constexpr Facts kMachines[] = {
    {"parity", Machine::table, 2, 2, "every", "", "0 1; 1 0"},
    // States: nothing yet; first and last bit 00, 11, 01, 10.
    {"even_pairs", Machine::table, 5, 2, "every", "", "1 2; 1 3; 4 2; 1 3; 4 2", "0 0 0 1 1"},
    {"counter", Machine::table, 5, 2, "every", "states"},
    {"cycle", Machine::table, 5, 3, "every", "states", "", "", "0+-"},
    {"flip_flop", Machine::table, 2, 4, "shown", "ignore eval_ignore", "0 1 0 0; 0 1 1 1", "", "01wi",
     "w0 w1 i0 i1", 2},
    {"undo", Machine::undo, 0, 5, "marks", "ignore eval_ignore depth eval_undo", "", "", "01wiu",
     "w0 w1 u i0 i1", 3},
    {"majority", Machine::majority, 0, 2, "every", "inputs"},
    {"dyck", Machine::dyck, 0, 2, "next", "inputs depth"},
    {"language", Machine::language, 12, 18, "next", "states inputs string"},
    {"random", Machine::table, 5, 2, "every", "states inputs drawn_table"},
    {"table", Machine::table, 0, 0, "every", "table answers"}};

const Facts& facts_of(const Options& options) {
  const std::string& name = options.get_string("task.machine");
  return *std::find_if(std::begin(kMachines), std::end(kMachines),
                       [&](const Facts& facts) { return facts.name == name; });
}

bool listed(const char* words, const std::string& word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

/// A finite machine: next states [states, inputs] and the answer of each state.
struct Tables {
  std::vector<std::int32_t> next, answers;
  int states = 0, inputs = 0;
};

Tables given_tables(const std::string& rows, const std::string& answers) {
  constexpr std::int64_t most = 4096;
  const auto check = [](const std::string& key, bool right, const std::string& why) {
    if (!right) throw OptionError(key, fmt::format("{}: {}", key, why));
  };
  const auto read = number_rows("task.table", rows);
  const std::int64_t states = std::ssize(read), inputs = std::ssize(read[0]);
  check("task.table", states <= most && inputs <= most, "more than 4096 states or inputs are not supported");
  Tables tables{{}, {}, static_cast<int>(states), static_cast<int>(inputs)};
  for (const auto& row : read) {
    check("task.table", std::ssize(row) == inputs,
          fmt::format("row {} has {} numbers, row 0 has {}", tables.answers.size(), row.size(), inputs));
    for (const std::int64_t to : row) {
      check("task.table", to >= 0 && to < states,
            fmt::format("{} in row {} is no state; they are 0 .. {}", to, tables.answers.size(), states - 1));
      tables.next.push_back(static_cast<std::int32_t>(to));
    }
    tables.answers.push_back(static_cast<std::int32_t>(tables.answers.size()));
  }
  if (answers.empty()) return tables;
  const auto given = number_rows("task.answers", answers);
  check("task.answers", given.size() == 1 && std::ssize(given[0]) == states,
        fmt::format("it wants one row of {} numbers, one for each state", states));
  for (std::size_t s = 0; s < given[0].size(); ++s) {
    check("task.answers", given[0][s] >= 0 && given[0][s] < most,
          fmt::format("{} is no answer; they are 0 .. {}", given[0][s], most - 1));
    tables.answers[s] = static_cast<std::int32_t>(given[0][s]);
  }
  return tables;
}

Tables tables_of(const Options& options) {
  const Facts& facts = facts_of(options);
  const std::string name = facts.name;
  if (name == "table")
    return given_tables(options.get_string("task.table"), options.get_string("task.answers"));
  if (*facts.table != 0) return given_tables(facts.table, facts.answers);
  Tables tables;
  tables.states = facts.machine == Machine::table || name == "language" ? int_option(options, "states") : 0;
  tables.inputs = int_option(options, "inputs");
  RandomStream random(static_cast<std::uint64_t>(int_option(options, "drawn_table")),
                      RandomDomain::task_train, 0xffffffffu, 0xfffffffdu);
  for (int s = 0; facts.machine == Machine::table && s < tables.states; ++s)
    for (int x = 0; x < tables.inputs; ++x)
      tables.next.push_back(name == "random" ? draw_below(random, tables.states)
                                             : (s + (x == 2 ? tables.states - 1 : x)) % tables.states);
  for (int s = 0; s < tables.states; ++s) tables.answers.push_back(s);
  tables.next.resize(static_cast<std::size_t>(tables.states) * static_cast<std::size_t>(tables.inputs));
  return tables;
}

class Automaton final : public DrawnTask<Automaton, TokenTask, automaton_sequence, automaton_scratch_size> {
 public:
  explicit Automaton(const Options& options) : DrawnTask({}), facts_(&facts_of(options)) {
    static constexpr const char* reveals[] = {"every", "end", "marks", "shown", "next"};
    const std::string& reveal = options.get_string("task.reveal");
    const auto place = std::find(std::begin(reveals), std::end(reveals), reveal) - std::begin(reveals);
    std::istringstream words(facts_->words);
    const std::string letters = facts_->letters;
    const Tables tables = tables_of(options);
    std::vector<std::int32_t> all = tables.next;
    all.insert(all.end(), tables.answers.begin(), tables.answers.end());
    answers_ = facts_->machine == Machine::undo ? 2
               : facts_->machine == Machine::table
                   ? 1 + *std::max_element(tables.answers.begin(), tables.answers.end())
                   : tables.inputs;
    for (int x = 0; x < tables.inputs; ++x) {
      std::string word;
      words >> word;
      const auto letter = [&](std::size_t i) {
        return i < word.size() ? static_cast<std::int32_t>(letters.find(word[i]) + 1) : -1;
      };
      all.push_back(word.empty() ? x + 1 : letter(0));
      all.push_back(letter(1));
    }
    table_ = std::make_shared<DeviceTable>(std::move(all));
    spec_.table = table_->host();
    spec_.machine = int_option(options, "drawn_table") == 0 ? Machine::drawn : facts_->machine;
    spec_.reveal = static_cast<Reveal>(place);
    spec_.states = tables.states;
    spec_.inputs = tables.inputs;
    spec_.changes = facts_->changes > 0 ? facts_->changes : tables.inputs;
    const int inputs = *facts_->words != 0 ? static_cast<int>(letters.size()) : tables.inputs;
    spec_.mark = 1 + (facts_->machine == Machine::dyck ? 2 : 1) * inputs;
    spec_.answer = *facts_->words != 0 ? 1 : spec_.mark + 1;
    spec_.depth = int_option(options, "depth");
    spec_.string = int_option(options, "string");
    spec_.examples = examples_of(options);
    eval_ = spec_;
    for (AutomatonSpec* spec : {&spec_, &eval_}) {
      const std::string prefix = spec == &eval_ ? "eval_" : "";
      spec->shortest = int_option(options, prefix + "shortest");
      spec->longest = int_option(options, prefix + "longest");
      spec->ignore =
          static_cast<std::int32_t>(std::lround(options.get_double("task." + prefix + "ignore") * (1 << 24)));
    }
    eval_.undo = int_option(options, "eval_undo");
  }

  Vocabulary vocabulary() const override {
    const bool marks = spec_.tail() > 0 || facts_->machine == Machine::language;
    const int shown = spec_.reveal == Reveal::shown && spec_.answer > spec_.mark ? answers() : 0;
    return token_vocabulary(spec_.mark + (marks ? 1 : 0) + shown, answers());
  }
  SequenceShape full_shape(Split split) const override {
    const int T = of(split).longest;
    return {T, 1,
            spec_.reveal == Reveal::end                             ? 1
            : spec_.tail() == 2 || facts_->machine == Machine::dyck ? T / 2
                                                                    : T};
  }

  /// Runs the machine through what was read; of an automaton that a sequence draws, what stands there.
  std::int32_t reference_answer(const SequenceView& sequence, std::int32_t, int position) const override {
    if (spec_.machine == Machine::language) return sequence.tokens[position] - 1;
    if (spec_.machine == Machine::drawn) return sequence.tokens[position] - spec_.answer;
    if (spec_.machine != Machine::dyck) return answer_of(inputs_read(sequence, position));
    std::vector<std::int32_t> open;
    for (int t = 0; t < position; ++t) {
      if (sequence.tokens[t] <= spec_.inputs)
        open.push_back(sequence.tokens[t] - 1);
      else
        open.pop_back();
    }
    return open.back();
  }

  void lengthen(int factor) override {
    for (std::int32_t* size : {&eval_.shortest, &eval_.longest}) *size = lengthened_size(*size, factor);
  }
  int eval_load() const override { return eval_.longest; }
  void prepare(Device device) const override {
    if (device == Device::cuda) table_->upload();
  }

 protected:
  std::string word(const SequenceView& sequence, int t) const override {
    const std::int32_t token = sequence.tokens[t];
    if (token == 0) return ".";
    if (facts_->machine == Machine::language) return token == spec_.mark ? "|" : answer_word(token - 1);
    if (token >= spec_.mark)
      return token == spec_.mark ? "r" : fmt::format("={}", answer_word(token - spec_.answer));
    if (facts_->machine == Machine::dyck)
      return fmt::format("{}{}", "()"[(token - 1) / spec_.inputs], (token - 1) % spec_.inputs);
    return *facts_->letters != 0 ? std::string(1, facts_->letters[token - 1]) : answer_word(token - 1);
  }
  int answers() const override { return answers_; }

  /// last_answer: what was right at the question before. most_recent: what the last input sets by itself, the last bit seen, the bracket opened
  /// last, the commonest next symbol so far. latest_write: as if nothing was undone. toggle: an undone write turns the bit around.
  Shortcuts shortcuts(const SequenceView& sequence, int q) const override {
    const std::int32_t target = sequence.target[q];
    const auto is = [&](std::int32_t answer) { return answer == target ? 1.0 : 0.0; };
    Shortcuts all = {{"last_answer", q > 0 ? is(sequence.target[q - 1]) : 1.0 / answers()}};
    const int position = sequence.query_position[q];
    if (spec_.machine == Machine::language) {
      std::map<std::int32_t, int> next;
      for (int t = 0; t + 1 < position; ++t)
        if (sequence.tokens[t] == sequence.tokens[position - 1] && sequence.tokens[t + 1] != spec_.mark)
          ++next[sequence.tokens[t + 1] - 1];
      const auto most =
          std::max_element(next.begin(), next.end(), [](auto& a, auto& b) { return a.second < b.second; });
      all["most_recent"] = next.empty() ? 1.0 / answers() : is(most->first);
    } else if (spec_.machine == Machine::dyck) {
      int t = position - 1;
      while (sequence.tokens[t] > spec_.inputs) --t;
      all["most_recent"] = is(sequence.tokens[t] - 1);
    } else if (spec_.machine != Machine::drawn) {
      const std::vector<int> inputs = inputs_read(sequence, position);
      const bool bits = *facts_->words != 0;
      std::int32_t bit = 0, latest = 0, seen = 0;
      for (const int input : inputs) {
        const bool idle = input >= spec_.changes, undo = bits && input == 2 && !idle;
        if (!undo) seen = idle ? input - spec_.changes : input;
        if (!undo && !idle) latest = input;
        if (!idle) bit = undo ? 1 - bit : input;
      }
      all["most_recent"] = is(bits ? seen : answer_of(inputs.empty() ? inputs : std::vector{inputs.back()}));
      if (spec_.machine == Machine::undo) all["latest_write"] = is(latest), all["toggle"] = is(bit);
    }
    return all;
  }

 private:
  void draw_cuda(const Exec& exec, const DrawArgs& args) const override {
    AutomatonSpec spec = of(args.split);
    spec.table = table_->uploaded();
    draw_on_cuda(spec, exec, args);
  }

  /// Inputs whose words stand before `position`, in order.
  std::vector<int> inputs_read(const SequenceView& sequence, int position) const {
    std::vector<int> inputs;
    for (int t = 0; t < position; ++t) {
      if (sequence.tokens[t] == spec_.mark) {
        t += spec_.tail() - 1;
        continue;
      }
      int x = 0;
      const auto* word = spec_.words();
      while (word[2 * x] != sequence.tokens[t] ||
             (word[2 * x + 1] >= 0 && word[2 * x + 1] != sequence.tokens[t + 1]))
        ++x;
      inputs.push_back(x);
      if (word[2 * x + 1] >= 0) ++t;
    }
    return inputs;
  }
  std::int32_t answer_of(const std::vector<int>& inputs) const {
    std::vector<std::int32_t> history;
    std::map<int, int> counts;
    std::int32_t state = 0;
    for (const int x : inputs) {
      if (spec_.machine == Machine::majority)
        ++counts[x];
      else if (spec_.machine != Machine::undo)
        state = spec_.table[state * spec_.inputs + x];
      else if (x < 2)
        history.push_back(x);
      else if (x == 2)
        history.pop_back();
    }
    if (spec_.machine == Machine::undo) return history.back();
    if (spec_.machine != Machine::majority) return spec_.answers()[state];
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return most == counts.end() ? 0 : most->first;
  }

  const Facts* facts_;
  int answers_ = 0;
  std::shared_ptr<const DeviceTable> table_;
};

void resolve(Options& options) {
  const Facts& facts = facts_of(options);
  for (const auto& [key, usual] : {std::pair{"task.states", facts.states}, {"task.inputs", facts.inputs}})
    if (options.get_int(key) == 0) options.set(key, std::int64_t{usual});
  if (options.get_double("task.ignore") < 0)
    options.set("task.ignore", listed(facts.uses, "ignore") ? 0.8 : 0.0);
  if (options.get_double("task.eval_ignore") < 0)
    options.set("task.eval_ignore", options.get_double("task.ignore"));
  const std::pair<const char*, OptionValue> neutral[] = {{"states", std::int64_t{facts.states}},
                                                         {"inputs", std::int64_t{facts.inputs}},
                                                         {"table", std::string()},
                                                         {"answers", std::string()},
                                                         {"depth", 0},
                                                         {"eval_undo", 0},
                                                         {"string", 50},
                                                         {"drawn_table", 1},
                                                         {"ignore", 0.0},
                                                         {"eval_ignore", 0.0}};
  for (const auto& [option, value] : neutral)
    if (const std::string key = fmt::format("task.{}", option);
        options.at(key) != value && !listed(facts.uses, option))
      refuse(options, key,
             fmt::format(" has no meaning with task.machine = \"{}\"; leave it out", facts.name));
  const bool anew = options.get_int("task.drawn_table") == 0;
  if (options.get_string("task.reveal") == "usual")
    options.set("task.reveal", std::string(anew ? "shown" : facts.reveal));
  const std::string& reveal = options.get_string("task.reveal");
  const char* reveals = facts.reveal == std::string("next") ? "next"
                        : anew                              ? "shown"
                                                            : "every end marks shown";
  if (!listed(reveals, reveal))
    refuse(options, "task.reveal",
           fmt::format(" is not of task.machine = \"{}\"{}; give one of {}", facts.name,
                       anew ? " with a table for each sequence" : "", reveals));
  if (facts.machine == Machine::language)
    for (const char* option : {"task.states", "task.inputs"})
      if (options.get_int(option) < automaton::kEdges)
        refuse(options, option, ": a language has at least 4 states and 4 symbols");
  resolve_sizes(options);
  tables_of(options);
  const int tail = reveal == "shown"   ? 2
                   : reveal == "marks" ? 1
                                       : 0,
            least = (*facts.words != 0 || reveal == "next" ? 2 : 1) + tail;
  for (const auto& [key, size] :
       {std::pair{"task.shortest", std::int64_t{least}},
        {"task.eval_shortest", std::max<std::int64_t>(least, 3 * options.get_int("task.eval_undo") + 3)}})
    if (options.get_int(key) < size)
      refuse(options, key,
             fmt::format(": the shortest sequence that is asked anything has {} tokens; give at least that",
                         size));
}

TaskKind kind() {
  return {
      "automaton",
      "machines with a state: counters, flip-flops, undo, brackets, majority, a table, a random language",
      "A machine reads inputs, drawn uniformly where nothing else is said, and is asked for its answer: after every input (reveal = \"every\"), at the "
      "end, at marks (\"marks\"), at marks with the answer behind them (\"shown\"), or for the token that stands next (\"next\"). machine = \"parity\"; "
      "\"even_pairs\": whether first and last bit differ; \"cycle\": steps 0, +1, -1 around `states` places; \"counter\": ones modulo `states`; "
      "\"majority\": the input seen most often, the least of several; all of Deletang et al. 2023 (arXiv 2207.02098) and xLSTM (arXiv 2405.04517, 3 to "
      "40 tokens in training, 40 to 256 in evaluation). \"flip_flop\" (Liu et al. 2023, arXiv 2306.00946): w b writes a bit, i b is to be ignored, r asks "
      "for the bit, which stands behind it; a step is ignored with probability `ignore`, reads and writes share the rest; trained there on 512 tokens "
      "at 0.8, read at 0.98 (sparse) and 0.1 (dense): eval_ignore. \"undo\" (Zhou 2026, arXiv 2604.05923): u takes the last write back, so that bits lie "
      "on a stack; eval_undo = D evaluates on D + 1 writes of which D are undone, then idle words (two layers of Mamba-2: 41.10 % at 50 tokens and D = "
      "10, chance 50). \"dyck\": brackets of `inputs` kinds, at most `depth` open; due is what closes next. \"language\" (RegBench, Akyurek et al. 2024, "
      "arXiv 2401.12973): strings of 1 to `string` symbols from an automaton that each sequence draws anew, with 4 to `states` states, 4 to `inputs` "
      "symbols and 1 to 4 edges a state, taken alike; accuracy of the symbol drawn is at most one over the edges of its state. \"random\": a table drawn "
      "at random, drawn_table names which, 0 draws one for each sequence. \"table\": rows of next states, one for each state, and `answers` of states. "
      "shortest and longest count tokens; what follows is blank. chance_accuracy is one among the answers.",
      with_sizes(
          {choice("machine", "parity", "the machine",
                  {"parity", "even_pairs", "counter", "cycle", "flip_flop", "undo", "majority", "dyck",
                   "language", "random", "table"}),
           {"table", "", "next states: a row for each state, a number for each input"},
           {"answers", "", "answer of each state of task.table; empty means its number"},
           {"states", 0, "states, at most so many of a language; 0 means the machine's", 0, 4096},
           {"inputs", 0, "inputs, or kinds of brackets; 0 means the machine's", 0, 4096},
           {"drawn_table", 1, "names a random table; 0 draws one for each sequence", 0, 2147483647.0},
           choice("reveal", "usual", "where answers are due; usual is as published",
                  {"usual", "every", "end", "marks", "shown", "next"}),
           {"ignore", -1.0, "share of words to be ignored; below 0 means the machine's", -1, 1},
           {"eval_ignore", -1.0, "the same in evaluation; below 0 means as in training", -1, 1},
           {"depth", 0, "most that is open, or written and not undone; 0 means no bound", 0, 1 << 20},
           {"eval_undo", 0, "writes undone one after the other in evaluation; 0 means as drawn", 0, 1 << 18},
           {"string", 50, "most symbols of a string of a language", 1, 1 << 20},
           examples_option()},
          "tokens", 4),
      resolve,
      make<Automaton>};
}

}  // namespace crosstalk::automaton_task
