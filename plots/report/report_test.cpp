// The page of `crosstalk report`: what it says, that nothing in it acts, and how large it is.
// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "plots/report/html.h"
#include "plots/report/suggest.h"
#include "plots/report/svg.h"
#include "plots/test_records.h"

namespace crosstalk::report_test {

constexpr const char* kHostile = "<script>alert(1)</script>\"'&</td></table><img src=x onerror=alert(2)>";

/// Whether the page says it; a failure shows what was looked for, not the whole page.
::testing::AssertionResult has(const std::string& page, const std::string& part) {
  const bool found = page.find(part) != std::string::npos;
  return (found ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << (found ? "has: " : "lacks: ") << part;
}

class Report : public FigureTest {
 protected:
  void SetUp() override {
    FigureTest::SetUp();
    input_.title = "Invented";
    input_.command = [](const std::string& command, const std::string& name, const FigureOptions& options) {
      std::string text = "crosstalk " + command + " " + name;
      for (const std::string& key : options.best) text += " --best " + key;
      return text + (options.facet.empty() ? "" : " --facet " + options.facet);
    };
    input_.commands = {{"This page", "crosstalk report runs/x"}};
  }

  std::string page(const LabelledRecords& rows) {
    notes_.str("");
    return report_page(rows, options_, input_, notes_);
  }
  std::string page(const RecordMap& records) { return page(rows_of(records)); }

  /// Two memories at three loads; the larger rate is the better one everywhere.
  static RecordMap rates() {
    RecordMap records;
    for (const char* label : {"linear", "delta"})
      for (const int load : {4, 8, 16})
        for (const double rate : {0.001, 0.01})
          for (int seed = 1; seed <= 3; ++seed) {
            Record& record =
                add_recall(records, label, seed, 4, load, load / 100.0 + 0.1 * (rate < 0.005) + 0.001 * seed);
            record.config["train.learning_rate"] = rate;
            record.metrics["test_loss"] = record.eval_loss + 0.25;
            record.steps = 300;
            record.curves["eval_loss"] = {{100, 200, 300}, {0.5, 0.25, record.eval_loss}};
            record.provenance = {{"commit", "abc123"}, {"device", "cpu"}, {"wall_s", 2.0}};
          }
    return records;
  }

  ReportInput input_;
};

// A band that tapers to a point would look like certainty.
TEST_F(Report, OneSeedHasNoBand) {
  RecordMap records = rates();
  std::erase_if(records, [](const auto& entry) {
    const Record& record = entry.second;
    return record.label != "delta" || (record.seed > 1 && record.config["task.associations"] == 16);
  });
  const std::string text = page(records);
  const std::regex band(R"re(<path d="([^"]*)Z" fill="[^"]*" fill-opacity="0.18")re");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(text, found, band));
  const std::string path = found[1];
  EXPECT_EQ(std::ranges::count(path, 'L'), 3) << "two places, both ends of each: " << path;
}

TEST_F(Report, SaysWhatWasAskedInTwoSentences) {
  input_.tasks = {{"recall", "store pairs & read them"}};
  input_.asked = 40;
  const std::string text = page(rates());
  EXPECT_THAT(
      text,
      HasSubstr(
          "This study trains 2 memories (Delta and Linear) on the task <strong>recall</strong> (store pairs &amp; read them). It compares them over "
          "<code>task.associations</code> = 4, 8 and 16; and <code>train.learning_rate</code> = 0.001 and 0.01, with seeds 1, 2 and 3: 36 runs (36 "
          "done and 4 not yet trained)."));
}

TEST_F(Report, TheTableOfAFigureHoldsWhatItShowsAndDoubtsStandAbove) {
  RecordMap records;
  for (const char* label : {"deltanet", "gated"})
    for (const int pairs : {4, 8, 16}) {
      Record& record = add_record(records, label, 1, 8,
                                  {{"task.name", "mqar"},
                                   {"task.pairs", pairs},
                                   {"model.name", "language"},
                                   {"memory.feature_map", label[0] == 'd' ? "silu" : "identity"}},
                                  3.4);
      record.eval_accuracy = 0.03;
      record.metrics = {{"chance_accuracy", 1. / 32}, {"chance_loss", 3.4657}};
    }
  const std::string text = page(records);
  EXPECT_TRUE(has(text, "Evaluation accuracy against Key-value pairs"));
  EXPECT_TRUE(has(text, "\\caption{Evaluation accuracy."));
  EXPECT_TRUE(has(text, "Chance: accuracy 0.0312, loss 3.47; all 6 runs lie within its noise."));
  EXPECT_TRUE(has(text, "Labels differ in feature_map: identity (gated), silu (deltanet)."));
}

// The finding comes first: where a label is ahead, by how much, and what is not told.
TEST_F(Report, OpensWithTheFinding) {
  const auto mqar = [](int seeds) {
    RecordMap records;
    for (const char* label : {"deltanet", "gla"})
      for (int seed = 1; seed <= seeds; ++seed)
        for (const int pairs : {4, 8, 16, 32}) {
          Record& record = add_record(records, label, seed, 8,
                                      {{"task.name", "mqar"},
                                       {"task.pairs", pairs},
                                       {"model.name", "language"},
                                       {"train.stop_accuracy", 0.99}},
                                      1);
          const double sign = seed % 2 == 0 ? 1 : -1, better = label[0] == 'g' ? 1 : 0;
          record.eval_accuracy = pairs == 4    ? 1
                                 : pairs == 8  ? 0.5 + 0.01 * seed + 0.1 * better
                                 : pairs == 16 ? 0.5 + 0.01 * better * sign * seed
                                               : 0.03;
          record.metrics["chance_accuracy"] = 1. / 32;
        }
    return records;
  };
  const std::string text = page(mqar(9));
  EXPECT_TRUE(has(
      text,
      "<p class=\"lead\"><strong>Finding.</strong> Held against deltanet by evaluation accuracy, paired by seed: gla is ahead at 1 of 4 points (by "
      "0.1 [0.1, 0.1] at pairs = 8); undecided at 1 of 4 points; solved like it at 1 of 4 points; and at chance like it at 1 of 4 points. By the "
      "signed-rank test, Holm over 4.</p>"));
  EXPECT_LT(text.find("Finding."), text.find("This study trains"));
  EXPECT_TRUE(has(
      page(mqar(2)),
      "gla is undecided at 2 of 4 points, solved like it at 1 of 4 points and at chance like it at 1 of 4 points. No difference can be "
      "told from 0: 4 comparisons need 8 shared seeds, 6 more than there are."));
  RecordMap records = mqar(9);
  for (auto& [id, record] : records) record.eval_accuracy = 0.03;
  EXPECT_TRUE(
      has(page(records), "paired by seed: all runs lie within the noise of chance; nothing is to be seen."));
  options_.against = "gla";
  EXPECT_TRUE(has(
      page(mqar(9)),
      "Held against gla by evaluation accuracy, paired by seed: deltanet is behind at 1 of 4 points (by 0.1 [0.1, 0.1] at pairs = 8)"));
  std::erase_if(records, [](const auto& one) { return one.second.label == "gla"; });
  options_.against = "";
  EXPECT_TRUE(
      has(page(records), "There is one label, deltanet, and nothing to hold it against. Its 36 runs: "));
}

// What was asked for by an option and is not there is no section that is left out.
TEST_F(Report, RefusesOptionsThatMeanNothingHere) {
  const auto refusal_of = [&](const RecordMap& records) {
    try {
      page(records);
    } catch (const std::invalid_argument& wrong) {
      return std::string(wrong.what());
    }
    return std::string("(made)");
  };
  RecordMap alone = rates();
  std::erase_if(alone, [](const auto& one) { return one.second.label == "delta"; });
  options_.against = "gla";
  EXPECT_THAT(refusal_of(rates()),
              HasSubstr("--against gla: no label of that name; there are delta, linear"));
  EXPECT_THAT(refusal_of(alone), HasSubstr("--against gla: "));
  options_.against = "", options_.by = {"model.widht"};
  EXPECT_THAT(refusal_of(rates()), HasSubstr("--by model.widht: no record has the key"));
  options_.by = {}, options_.facet = "task.pears";
  EXPECT_THAT(refusal_of(rates()), HasSubstr("--facet task.pears: no record has the key"));
  options_.facet = "", options_.metric = "test_los";
  EXPECT_THAT(refusal_of(rates()), HasSubstr("--metric test_los: no record has it; did you mean test_loss?"));
}

TEST_F(Report, OneMemoryIsComparedWithNone) {
  RecordMap records;
  for (const int load : {4, 8}) add_recall(records, "delta", 1, 4, load, 0.1);
  EXPECT_THAT(page(records), HasSubstr("It varies <code>task.associations</code> = 4 and 8, with seed 1"));
}

TEST_F(Report, NamesWithCommasAreToldApart) {
  LabelledRecords rows = rows_of(rates());
  rows.labels = {{"linear", "Linear, beta in (0, 1)", {}}, {"delta", "Delta", {}}};
  EXPECT_TRUE(has(page(rows), "2 memories (Linear, beta in (0, 1); and Delta)"));
}

TEST_F(Report, ChoosesTheRateShowsTheTestSplitAndWarnsAtTheEdge) {
  const std::string text = page(rates());
  EXPECT_TRUE(has(text, "crosstalk plot capacity --best train.learning_rate"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "Linear (d_dot = 4): associations = 8: 0.332 [0.331, 0.333], 3 seeds, train.learning_rate=0.01"));
  EXPECT_THAT(
      text,
      HasSubstr("role=\"note\"><strong>Warning:</strong> The best learning rate is the largest tried for"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "<td>0.001, 0.01</td><td>0.01 (3 settings)</td><td><span class=\"diverged\">at the edge of the grid: the largest in 3 of 3</span></td>"));
}

TEST_F(Report, HasEveryRunWithItsCurveAndItsOrigin) {
  const std::string text = page(rates());
  const std::string runs = text.substr(text.find("id=\"runs-table\""));
  const std::string body = runs.substr(runs.find("<tbody>"), runs.find("</tbody>") - runs.find("<tbody>"));
  EXPECT_EQ(std::ranges::count(body, '\n'), 36 + 1);
  EXPECT_TRUE(has(text, R"("curves":[[0,[0.5,0.25,)"));
  EXPECT_TRUE(has(text, R"("steps":[[100.0,200.0,300.0]])"));
  EXPECT_TRUE(has(text, "<th scope=\"row\">commit</th><td>abc123</td>"));
  EXPECT_TRUE(has(text, "<th scope=\"row\">time, summed over runs</th><td>72 s</td>"));
  EXPECT_TRUE(has(text, "\\begin{tabular}"));
  EXPECT_TRUE(has(text, "crosstalk report runs/x"));
}

TEST_F(Report, DrawsSeveralSizesAsPanelsAndTasksApart) {
  RecordMap records = rates();
  for (auto& [id, record] : rates()) {
    Record& other = records["second" + id] = record;
    other.config["task.name"] = "reassign";
    other.id = "second" + id;
    other.config["model.d_key"] = record.seed == 1 ? 4 : 8;
    other.config["seed"] = other.seed = record.seed == 3 ? 1 : record.seed;
    if (other.seed == 2) records.erase(other.id);
  }
  const std::string text = page(records);
  EXPECT_TRUE(has(text, "(task recall)</h3>"));
  EXPECT_TRUE(has(text, "(task reassign)</h3>"));
  EXPECT_TRUE(has(text, "crosstalk plot updates --best train.learning_rate --facet model.d_key"));
}

/// A memory of several sizes, which solves up to d_dot / part associations.
RecordMap sizes(int part) {
  RecordMap records;
  for (const int d_dot : {8, 16, 32, 64})
    for (const int load : {4, 8, 16, 32, 64, 128})
      for (int seed = 1; seed <= 2; ++seed)
        add_recall(records, "linear", seed, d_dot, load, load <= d_dot / part ? 0.001 : 0.3, d_dot);
  return records;
}

// The figure's CSV has d_key in its third column; d_dot is on the axis.
TEST_F(Report, PutsCapacitiesWhereTheirDDotIs) {
  const RecordMap records = sizes(1);
  input_.figure = "capacity-vs-ddot";
  const std::string text = page(records);
  for (const int d_dot : {8, 16, 32, 64})
    EXPECT_TRUE(has(text, "Linear: d_dot = " + std::to_string(d_dot) + ": " + std::to_string(d_dot) + " ["));
}

TEST_F(Report, AnInterceptBelowZeroIsNoCapacity) {
  RecordMap records = sizes(2);
  input_.figure = "capacity-vs-ddot";
  EXPECT_FALSE(has(page(records), "Below the smallest number tested"));
  for (int seed = 1; seed <= 2; ++seed) add_recall(records, "delta", seed, 8, 4, 0.3, 8);
  EXPECT_TRUE(has(page(records), "Below the smallest number tested"));
}

/// Where markers stand on the page.
std::set<std::string> places_of_spots(const std::string& text) {
  std::set<std::string> places;
  const std::regex spot("class=\"spot\"><(?:path transform=\"translate\\(|circle cx=\")([0-9.]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), spot); at != std::sregex_iterator(); ++at)
    places.insert((*at)[1]);
  return places;
}

TEST_F(Report, LinesOfOnePlaceStandSideBySide) {
  RecordMap records;
  for (const char* label : {"linear", "delta"}) add_recall(records, label, 1, 4, 8, 0.1);
  input_.figure = "capacity";
  const std::string text = page(records);
  EXPECT_EQ(places_of_spots(text).size(), 2u);
}

TEST_F(Report, CapacitiesOfOneDDotStandSideBySideAndTheirXIsMarked) {
  RecordMap records;
  for (const char* label : {"linear", "delta"})
    for (const int d_dot : {8, 32})
      for (const int load : {4, 8, 16, 32, 64})
        add_recall(records, label, 1, d_dot, load, load <= d_dot ? 0.001 : 0.3, d_dot);
  input_.figure = "capacity-vs-ddot";
  const std::string text = page(records);
  EXPECT_EQ(places_of_spots(text).size(), 4u);
  EXPECT_TRUE(has(text, "True x of the markers beside it"));
  std::erase_if(records, [](const auto& entry) { return entry.second.label == "delta"; });
  EXPECT_FALSE(has(page(records), "True x of the markers beside it"));
}

TEST_F(Report, IsBuiltSoThatNothingInItActs) {
  RecordMap records = rates();
  for (auto& [id, record] : records) {
    if (record.label == "delta") record.label = kHostile;
    record.config["task.name"] = "recall</script><script>alert(3)</script>";
    record.config["task.note"] = kHostile + std::to_string(record.seed % 1);
    record.provenance["host"] = kHostile;
  }
  LabelledRecords rows = rows_of(records);
  rows.labels = {{"linear", std::string(kHostile) + " $\\beta_{<b>}$", {}}};
  input_.title = input_.study_file = kHostile;
  input_.tasks = {{"recall</script><script>alert(3)</script>", kHostile}};
  input_.commands = {{kHostile, kHostile}};
  const std::string text = page(rows);
  // Whatever follows a '<' was written by the template or by report.cpp.
  static const std::set<std::string> known = {
      "!DOCTYPE", "html",    "head",   "meta",       "title",   "style",    "body",    "header",  "h1",
      "h2",       "h3",      "p",      "strong",     "code",    "nav",      "ul",      "li",      "a",
      "main",     "section", "figure", "figcaption", "div",     "svg",      "g",       "path",    "line",
      "text",     "tspan",   "rect",   "circle",     "polygon", "clipPath", "details", "summary", "button",
      "table",    "caption", "thead",  "tbody",      "tr",      "th",       "td",      "pre",     "span",
      "label",    "input",   "select", "option",     "sub",     "sup",      "script"};
  const std::string outside =
      std::regex_replace(text, std::regex("<script>\"use strict\"[^]*</script>\n</body>"), "");
  for (std::size_t at = outside.find('<'); at != std::string::npos; at = outside.find('<', at + 1)) {
    std::size_t from = at + 1 + (outside[at + 1] == '/');
    const std::string name = outside.substr(from, outside.find_first_of(" >\n", from) - from);
    EXPECT_EQ(known.count(name), 1u) << outside.substr(at, 60);
  }
  EXPECT_FALSE(has(outside, "<img"));
  std::size_t scripts = 0;  // the data and the page's own
  for (std::size_t at = text.find("<script"); at != std::string::npos; at = text.find("<script", at + 1))
    ++scripts;
  EXPECT_EQ(scripts, 2u);
  EXPECT_TRUE(has(text, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
  EXPECT_TRUE(has(text, "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e"));
  EXPECT_TRUE(has(text, "β<sub>&lt;b&gt;</sub>"));
}

TEST_F(Report, NeedsNoNetworkAndMayRunOneScript) {
  const std::string text = page(rates());
  EXPECT_TRUE(has(text, "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
  EXPECT_FALSE(has(text, "src="));
  const std::string page_and_data = std::regex_replace(text, std::regex("http://www.w3.org/2000/svg"), "");
  EXPECT_FALSE(has(page_and_data, "://")) << page_and_data.substr(page_and_data.find("://"), 80);
}

TEST_F(Report, IsBelowThreeMegabytesForAThousandRuns) {
  RecordMap records;
  for (int i = 0; i < 1000; ++i) {
    Record& record = add_recall(records, "memory " + std::to_string(i % 10), 1 + i / 10 % 5, 16,
                                8 * (1 + i / 50), 0.1234567 + i);
    for (int key = 0; key < 80; ++key) record.config["model.option_" + std::to_string(key)] = key;
    for (const char* name : {"eval_loss", "eval_accuracy"})
      for (int step = 0; step < 1000; ++step) {
        record.curves[name].x.push_back(100 * step + i % 7);
        record.curves[name].y.push_back(1.0 / (3 + step + i));
      }
  }
  const std::string text = page(records);
  EXPECT_LT(text.size(), 3'000'000u);
  EXPECT_GT(text.size(), 600'000u);  // curves are there
}

TEST_F(Report, IsBelowThreeMegabytesForManyRunsAndSaysWhichItShows) {
  RecordMap records;
  for (int i = 0; i < 3000; ++i) {
    Record& record = add_recall(records, "memory " + std::to_string(i % 10), 1 + i / 10 % 5, 16,
                                8 * (1 + i / 50), 0.1234567 + i);
    for (int key = 0; key < 80; ++key) record.config["model.option_" + std::to_string(key)] = key;
    for (int step = 0; step < 20; ++step) {
      record.curves["eval_loss"].x.push_back(100 * step);
      record.curves["eval_loss"].y.push_back(1.0 / (3 + step + i));
    }
  }
  const std::string text = page(records);
  EXPECT_LT(text.size(), 3'000'000u);
  EXPECT_THAT(text, HasSubstr("<strong>The first 2000 of 3000 runs</strong>"));
  EXPECT_THAT(text, HasSubstr("3000 runs"));
}

TEST_F(Report, TheSameRecordsAreTheSameBytes) { EXPECT_EQ(page(rates()), page(rates())); }

TEST_F(Report, SaysWhatFailedAndWhatHasNoFigure) {
  RecordMap records;
  for (int seed = 1; seed <= 2; ++seed)
    add_record(records, "odd", seed, 0, {{"model.name", "retrieval"}}, std::nan(""));
  records.begin()->second.status = RunStatus::failed;
  const std::string text = page(records);
  EXPECT_TRUE(has(text, "2 runs (1 done and 1 failed)"));
  EXPECT_TRUE(has(text, "<td class=\"failed\">failed</td>"));
  EXPECT_TRUE(has(text, "No figure suits these records"));
  EXPECT_THAT(notes(), HasSubstr("no figure accuracy: "));
  EXPECT_THROW(page(RecordMap{}), std::invalid_argument);
  input_.figure = "tracking";
  EXPECT_THROW(page(records), std::invalid_argument);
}

TEST(TellingKeys, LeavesOutWhatFollowsFromOthers) {
  RecordMap records;
  for (const int load : {4, 8})
    for (const int d_key : {4, 8}) {
      Record& record = add_recall(records, "linear", 1, d_key, load, 0.1, d_key);
      record.config["memory.d_dot"] = d_key;
      record.config["task.values"] = load;
      record.config["data_seed"] = load + d_key;
    }
  EXPECT_THAT(differing_keys(list_of(records)), ElementsAre("task.associations", "model.d_key"));
}

TEST(SvgTicks, AreRoundAndFew) {
  EXPECT_THAT(ticks_of(0, 80, "linear"), ElementsAre(0, 20, 40, 60, 80));
  EXPECT_THAT(ticks_of(6, 70, "log2"), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(ticks_of(0.5e-3, 2, "log"),
              ElementsAre(::testing::DoubleNear(1e-3, 1e-12), ::testing::DoubleNear(1e-2, 1e-12),
                          ::testing::DoubleNear(1e-1, 1e-12), 1));
  EXPECT_THAT(ticks_of(1, 1, "linear"), ElementsAre());
}

TEST(Html, FormulasBecomeLetters) {
  EXPECT_EQ(html_of("$d_{\\mathrm{dot}}$ = 64"), "d<sub>dot</sub> = 64");
  EXPECT_EQ(html_of("$\\frac{1}{2}|y-\\hat{y}|^2$"), "1/2|y-y\u0302|<sup>2</sup>");
  EXPECT_EQ(html_of("costs 5 $ & more"), "costs 5 $ &amp; more");
  EXPECT_EQ(html_of("\\$5 and \\$6"), "$5 and $6");
  EXPECT_EQ(plain_of("$\\beta_{\\max}$"), "β_max");
  EXPECT_EQ(svg_of("$x_1$y"), "x<tspan dy=\"4\" font-size=\"80%\">1</tspan><tspan dy=\"-4\">y</tspan>");
  EXPECT_EQ(script_json({{"a", "</script><!--"}}), R"({"a":"\u003c/script\u003e\u003c!--"})");
}

// Whatever opens a part of a formula; the title then stands as it was written.
TEST(Html, FormulasThatNestDeeplyAreNotRead) {
  for (const char* open :
       {"{", "_", "^", "_{", "\\frac", "\\frac{", "\\hat", "\\tilde{", "\\bar", "\\mathrm{"}) {
    std::string title = "a $";
    for (int i = 0; i < 200000; ++i) title += open;
    title += "$ b";
    EXPECT_EQ(html_of(title), title) << open;
    EXPECT_EQ(svg_of(title), title) << open;
    EXPECT_EQ(plain_of(title), title) << open;
  }
  EXPECT_EQ(html_of("$x_{a_{\\hat{\\mathrm{b}}}}$"), "x<sub>ab\u0302</sub>");
}

}  // namespace crosstalk::report_test
