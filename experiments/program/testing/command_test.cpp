// Command lines: what is parsed, what is refused and how.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "experiments/common/exit_codes.h"
#include "experiments/sharing/signals.h"
#include "results/test_refusal.h"

namespace crosstalk::program {
namespace {

const Command& command() {
  static const Command made = {"test",
                               "a command",
                               "STUDY",
                               "Text.\n",
                               1,
                               2,
                               "needs a study",
                               {{"set", "KEY=VALUE", "Set", true, {}},
                                {"out,o", "STORE", "Out", false, {}},
                                {"format", "FORMAT", "Format", false, {"csv", "jsonl"}},
                                {"count,n", "N", "Count", false, {}},
                                {"json", "", "JSON", false, {}}},
                               nullptr};
  return made;
}

std::string refusal(const std::vector<std::string>& words) {
  return crosstalk::testing::refusal_of<UsageError>([&] { parse_arguments(command(), words); }, "accepted");
}

TEST(Arguments, AreParsedInAnyOrder) {
  const Arguments a = parse_arguments(
      command(), {"--set", "a=1", "s.toml", "-o", "x", "--set=b=-2", "--json", "-n4", "--", "--odd"});
  EXPECT_EQ(a.positional, (std::vector<std::string>{"s.toml", "--odd"}));
  EXPECT_EQ(a.all("set"), (std::vector<std::string>{"a=1", "b=-2"}));
  EXPECT_EQ(a.get("out"), "x");
  EXPECT_EQ(a.integer("count", 0, 1), 4);
  EXPECT_TRUE(a.has("json"));
  EXPECT_FALSE(a.has("format"));
  EXPECT_EQ(a.get("format", "csv"), "csv");
}

TEST(Arguments, UnknownOptionsNameTheNearest) {
  EXPECT_EQ(
      refusal({"s", "--fromat", "csv"}),
      "test: unknown option --fromat; did you mean --format? ('crosstalk test --help' shows how it is used)");
  EXPECT_EQ(refusal({"s", "--zzzzzz"}).find("did you mean"), std::string::npos);
  // No abbreviations: scripts that use them break when an option is added. The whole name is said.
  EXPECT_NE(refusal({"s", "--form", "csv"}).find("unknown option --form"), std::string::npos);
}

std::string refusal_of(const char* name, const std::string& option) {
  return crosstalk::testing::refusal_of<UsageError>(
      [&] {
        parse_arguments(*find_command(name), {"study.toml", option, "1"});
      },
      "accepted");
}

TEST(Arguments, OptionsOfOtherProgramsAreAnswered) {
  EXPECT_EQ(
      refusal_of("run", "--seeds"),
      "run: unknown option --seeds: seeds belong to the study, and --set replaces them: --set seeds=1,2,3");
  EXPECT_EQ(refusal_of("export", "--seed"),
            "export: unknown option --seed: to take some of the seeds: --where seed=1,2,3");
  EXPECT_NE(refusal_of("run", "--gpu").find("--device cuda:0"), std::string::npos);
  EXPECT_NE(refusal_of("run", "--resume").find("trains what is missing"), std::string::npos);
  EXPECT_EQ(
      refusal_of("plan", "--lr"),
      "plan: unknown option --lr: train.learning_rate is a key of the study, and --set replaces it: --set train.learning_rate=VALUE");
  EXPECT_NE(refusal_of("run", "--epochs").find("--set train.epochs=VALUE"), std::string::npos);
  EXPECT_NE(refusal_of("run", "--batch-size").find("--set train.batch=VALUE"), std::string::npos);
  EXPECT_NE(refusal_of("run", "--d-key").find("--set model.d_key=VALUE"), std::string::npos);
  EXPECT_NE(refusal_of("run", "--train.learning_rate").find("--set train.learning_rate=VALUE"),
            std::string::npos);
  EXPECT_NE(refusal_of("run", "--output-dir").find("did you mean --out?"), std::string::npos);
  EXPECT_NE(refusal_of("run", "--config").find("the study stands without an option"), std::string::npos);
  EXPECT_NE(refusal_of("run", "-j").find("did you mean --threads?"), std::string::npos);
  EXPECT_EQ(
      refusal_of("inspect", "--heads"),
      "inspect: unknown option --heads: did you mean --head? (The study's model.heads is replaced by --set model.heads=VALUE)");
  EXPECT_NE(refusal_of("run", "--heads").find(": model.heads is a key of the study"), std::string::npos);
  EXPECT_NE(refusal_of("doctor", "--lr").find("unknown option --lr ("), std::string::npos);
}

TEST(Arguments, AreNamedAsTheyWereWritten) {
  for (const auto& [words, wanted] :
       {std::pair<std::vector<std::string>, std::string>{{"s", "-n", "0"}, "-n needs"},
        {{"s", "-n0"}, "-n needs"},
        {{"s", "--count", "0"}, "--count needs"},
        {{"s", "--count=0"}, "--count needs"}}) {
    EXPECT_THAT(crosstalk::testing::refusal_of<UsageError>(
                    [&] { parse_arguments(command(), words).integer("count", 1, 1); }),
                ::testing::StartsWith(wanted));
  }
}

TEST(Arguments, WrongOnesAreRefused) {
  EXPECT_NE(refusal({}).find("needs a study"), std::string::npos);
  EXPECT_NE(refusal({"a", "b", "c"}).find("unexpected argument 'c'"), std::string::npos);
  EXPECT_NE(refusal({"a", "--format", "xml"}).find("--format is csv or jsonl, not 'xml'"), std::string::npos);
  EXPECT_NE(refusal({"a", "--out"}).find("--out"), std::string::npos);
  EXPECT_NE(refusal({"a", "--out", "x", "--out", "y"}).find("--out"), std::string::npos);
  EXPECT_NE(refusal({"a", "--json=yes"}).find("--json"), std::string::npos);
}

TEST(Arguments, NumbersAreChecked) {
  for (const char* bad : {"x", "", "1.5", "0", "-1", "11", "99999999999999999999", "1 "}) {
    Arguments a;
    a.options["n"] = {bad};
    EXPECT_THROW(a.integer("n", 1, 1, 10), UsageError) << bad;
  }
  for (const char* bad : {"x", "nan", "inf", "-0.5", "1e999", "1,5"}) {
    Arguments a;
    a.options["x"] = {bad};
    EXPECT_THROW(a.number("x", 1, 0), UsageError) << bad;
  }
  Arguments a;
  a.options["x"] = {"1e-3"};
  EXPECT_EQ(a.number("x", 1, 0), 1e-3);
  EXPECT_EQ(a.number("y", 7, 0), 7);
}

TEST(Commands, AllAreInTheHelpAndTeach) {
  const std::string overview = program_help();
  for (const Command* each : commands()) {
    SCOPED_TRACE(each->name);
    EXPECT_EQ(find_command(each->name), each);
    EXPECT_NE(overview.find("  " + each->name + " "), std::string::npos);
    EXPECT_FALSE(each->summary.empty());
    EXPECT_TRUE(each->run != nullptr);
    EXPECT_TRUE(each->min_positional == 0 || !each->missing.empty());
    const std::string help = command_help(*each);
    EXPECT_NE(help.find("Example"), std::string::npos);
    EXPECT_NE(help.find("crosstalk " + each->name), std::string::npos);
    for (const CommandOption& option : each->options)
      EXPECT_EQ(help.find("--" + option.name.substr(0, option.name.find(','))) == std::string::npos,
                option.help.empty())
          << option.name;
  }
}

TEST(Commands, ExamplesInTheHelpParse) {
  for (const Command* each : commands()) {
    std::size_t at = 0;
    while ((at = each->text.find("\n  crosstalk " + each->name, at)) != std::string::npos) {
      const std::size_t begin = at + 3 + std::string("crosstalk ").size() + each->name.size();
      std::string line = each->text.substr(begin, each->text.find_first_of("|>\\\n", begin) - begin);
      std::vector<std::string> words;
      for (std::size_t i = line.find_first_not_of(' '); i != std::string::npos;
           i = line.find_first_not_of(' ', i)) {
        const std::size_t end = std::min(line.find(' ', i), line.size());
        words.push_back(line.substr(i, end - i));
        i = end;
      }
      EXPECT_NO_THROW(parse_arguments(*each, words)) << each->name << line;
      at = begin;
    }
  }
}

TEST(Console, ColorFollowsTerminalAndNoColor) {
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(use_color(ColorChoice::automatic, true));
  EXPECT_FALSE(use_color(ColorChoice::automatic, false));
  setenv("NO_COLOR", "", 1);  // empty counts as unset
  EXPECT_TRUE(use_color(ColorChoice::automatic, true));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(use_color(ColorChoice::automatic, true));
  EXPECT_TRUE(use_color(ColorChoice::always, false));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(use_color(ColorChoice::automatic, true));
  EXPECT_FALSE(use_color(ColorChoice::never, true));
}

TEST(Console, BufferRemembersWhyWritingFailed) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  DescriptorBuffer buffer(full);
  std::ostream out(&buffer);
  out << "text" << std::flush;
  EXPECT_EQ(buffer.error(), ENOSPC);
  out.clear();
  out << std::string(1 << 18, 'x') << std::flush;  // goes on without harm
  EXPECT_EQ(buffer.error(), ENOSPC);
  ::close(full);
}

// Spelled out, a control character takes six bytes.
TEST(Console, AMessageIsShortWhateverStandsInIt) {
  using Print = void (*)(Console&, std::string_view);
  for (const char letter : {'\x01', 'x', '\xff'}) {
    const std::string name(100000, letter);
    for (const Print print : std::vector<Print>{print_error, print_warning, print_note, print_plain}) {
      std::ostringstream out, err;
      Console console{out, err, false, false, "crosstalk", {}};
      print(console, name);
      const std::string text = err.str();
      EXPECT_LT(text.size(), 4200u);
      EXPECT_EQ(std::ranges::count(text, '\n'), 1);
    }
  }
}

TEST(Signals, FromTheVeryStartEndWithTheCodeOfAStop) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    EXPECT_EXIT(
        {
          leave_on_early_signals("stopped early\n");
          std::raise(signal);
        },
        ::testing::ExitedWithCode(exit_stopped), "stopped early");
  }
  EXPECT_EXIT(
      {
        leave_on_early_signals("stopped early\n");
        catch_stop_signals();  // by the command, which does not know of it
        { const NothingBegun words("nothing begun"); }
        std::raise(SIGTERM);
        std::exit(stop_flag() ? 3 : 4);
      },
      ::testing::ExitedWithCode(3), "");
}

TEST(Console, BufferWritesEverything) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text(50000, 'x');
  {
    DescriptorBuffer buffer(ends[1]);
    std::ostream out(&buffer);
    out << text << 'y';
  }
  ::close(ends[1]);
  std::string read(60000, '\0');
  std::size_t got = 0;
  for (ssize_t n; (n = ::read(ends[0], read.data() + got, read.size() - got)) > 0;)
    got += static_cast<std::size_t>(n);
  ::close(ends[0]);
  EXPECT_EQ(read.substr(0, got), text + "y");
}

}  // namespace
}  // namespace crosstalk::program
