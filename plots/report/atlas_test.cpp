// The atlas of invented records: what becomes of each kind of cell, places of one's own, and that its three forms say the same.
// SPDX-License-Identifier: Apache-2.0
#include "plots/report/atlas.h"

#include "plots/test_records.h"

namespace crosstalk::atlas_test {

class AtlasTest : public FigureTest {
 protected:
  /// A run of mqar; `accuracy` is that of both splits.
  Record& add(const std::string& label, int pairs, double rate, std::int64_t seed, double accuracy,
              const std::string& layer = "published") {
    Record& record = add_record(records_, label, seed, 0,
                                {{"task.name", "mqar"},
                                 {"task.pairs", pairs},
                                 {"model.name", "language"},
                                 {"model.layer", layer},
                                 {"memory.name", label},
                                 {"train.learning_rate", rate},
                                 {"train.max_steps", 100}},
                                1 - accuracy);
    record.eval_accuracy = accuracy;
    record.metrics = {{"test_accuracy", accuracy}, {"chance_accuracy", 0.1}, {"parameters", 500}};
    record.state_size = 64 * pairs;
    record.steps = 100;
    record.provenance = {{"wall_s", 2.0}, {"pack", 4}};
    return record;
  }
  /// Three rates by one seed, and two more seeds at the middle one, which is the best.
  void add_cell(const std::string& label, int pairs, double best, const std::string& layer = "published") {
    add(label, pairs, 1e-3, 1, best - 0.2, layer), add(label, pairs, 1e-1, 1, best - 0.1, layer);
    for (const int seed : {1, 2, 3}) add(label, pairs, 1e-2, seed, best + 0.01 * (seed - 2), layer);
  }
  Atlas make() {
    rows_ = rows_of(records_);
    rows_.missing = missing_;
    return make_atlas(rows_, options_, input_, notes_);
  }
  std::string text(std::optional<TableFormat> format) {
    LabelledRecords rows = rows_of(records_);
    rows.missing = missing_;
    return atlas_text(std::move(rows), options_, input_, format, notes_);
  }

  RecordMap records_;
  std::vector<Record> missing_;
  LabelledRecords rows_;
  ReportInput input_;
};

TEST_F(AtlasTest, TakesTheBestRateOfEachCellAndSaysWhatIsKnownOfIt) {
  add_cell("gla", 4, 0.95), add_cell("gla", 8, 0.5), add_cell("rope", 4, 0.8);
  const Atlas atlas = make();
  ASSERT_EQ(atlas.columns.size(), 2u);
  EXPECT_EQ(atlas.columns[0].title, "mqar, pairs = 4");
  EXPECT_EQ(atlas.columns[0].metric.name, "test_accuracy");
  EXPECT_EQ(atlas.columns[0].chance, 0.1);
  ASSERT_EQ(atlas.rows.size(), 2u);
  const AtlasCell& cell = atlas.cells[0][0];
  EXPECT_EQ(atlas.rows[0].label, "gla");
  EXPECT_EQ(cell.state, CellState::value);
  EXPECT_EQ(cell.rate, 1e-2);
  EXPECT_EQ(cell.edge, "");
  EXPECT_EQ(cell.row.n, 3);
  EXPECT_DOUBLE_EQ(cell.row.median, 0.95);
  EXPECT_DOUBLE_EQ(cell.row.lo, 0.94);
  EXPECT_DOUBLE_EQ(cell.row.hi, 0.96);
  EXPECT_EQ(cell.window.tried, 3);
  EXPECT_EQ(cell.window.good, 1);  // an accuracy of 0.9 or more
  EXPECT_DOUBLE_EQ(cell.milliseconds, 2.0 * 1000 / 100 / 4);
  EXPECT_EQ(cell.state_size, 256);
  EXPECT_EQ(cell.parameters, 500);
  EXPECT_EQ(atlas.cells[1][1].state, CellState::not_asked);
}

TEST_F(AtlasTest, NothingButAResultIsShownAsOne) {
  add_cell("gla", 4, 0.95);
  for (const double rate : {1e-3, 1e-2}) add("chance", 4, rate, 1, 0.1);
  add("edge", 4, 1e-3, 1, 0.9), add("edge", 4, 1e-2, 1, 0.7);
  Record &gone = add("gone", 4, 1e-2, 1, 0.3), &broken = add("broken", 4, 1e-2, 1, 0.3);
  gone.status = RunStatus::diverged, broken.status = RunStatus::failed;
  missing_.push_back(add("later", 4, 1e-2, 1, 0));
  records_.erase(missing_.back().id);
  const Atlas atlas = make();
  std::map<std::string, CellState> states;
  for (std::size_t i = 0; i < atlas.rows.size(); ++i) states[atlas.rows[i].label] = atlas.cells[i][0].state;
  EXPECT_EQ(states, (std::map<std::string, CellState>{{"gla", CellState::value},
                                                      {"chance", CellState::at_chance},
                                                      {"edge", CellState::value},
                                                      {"gone", CellState::diverged},
                                                      {"broken", CellState::failed},
                                                      {"later", CellState::missing}}));
  for (const auto format : {std::optional<TableFormat>(), std::optional(TableFormat::latex)}) {
    const std::string page = text(format);
    for (const char* word : {"at chance", "diverged", "failed", "missing"})
      EXPECT_THAT(page, HasSubstr(word));
  }
  EXPECT_THAT(text(std::nullopt), HasSubstr(">0.9*</td>"));
  EXPECT_THAT(text(TableFormat::latex), HasSubstr("0.9$^*$"));
  EXPECT_THAT(
      text(std::nullopt),
      HasSubstr("2 of 6 cells have a result; 1 at chance, 1 diverged, 1 failed and 1 not yet trained"));
  EXPECT_THAT(
      text(TableFormat::csv),
      HasSubstr("\nchance,chance,chance,,mqar,mqar,task.name=mqar,test_accuracy,0.1,,at chance,0.1,"));
}

// A read that takes the newest value is right in half of the answers: no memory of what was asked.
TEST_F(AtlasTest, NoBetterThanAShortcutIsNoResult) {
  add_cell("gla", 4, 0.95), add_cell("newest", 4, 0.5), add_cell("more", 4, 0.55);
  for (auto& [id, record] : records_) record.metrics["baseline_most_recent_accuracy"] = 0.5;
  const Atlas atlas = make();
  EXPECT_EQ(atlas.columns[0].shortcut, 0.5);
  std::map<std::string, CellState> states;
  for (std::size_t i = 0; i < atlas.rows.size(); ++i) states[atlas.rows[i].label] = atlas.cells[i][0].state;
  EXPECT_EQ(states,
            (std::map<std::string, CellState>{
                {"gla", CellState::value}, {"newest", CellState::by_shortcut}, {"more", CellState::value}}));
  EXPECT_THAT(text(std::nullopt), HasSubstr("2 of 3 cells have a result; 1 by shortcut."));
  for (auto& [id, record] : records_)
    record.metrics["baseline_most_recent_accuracy"] = 1;  // it solves the task
  EXPECT_TRUE(std::isnan(make().columns[0].shortcut));
}

TEST_F(AtlasTest, BareAndPublishedAreTwoRows) {
  add_cell("gla", 4, 0.95), add_cell("gla", 4, 0.5, "bare"), add_cell("s4d", 4, 0.4, "bare");
  const Atlas atlas = make();
  std::vector<std::string> labels;
  for (const AtlasRow& row : atlas.rows) labels.push_back(row.label + ":" + row.base);
  EXPECT_THAT(labels, ElementsAre("gla:gla", "gla (bare):gla", "s4d:s4d"));
  EXPECT_DOUBLE_EQ(atlas.cells[1][0].row.median, 0.5);
}

TEST_F(AtlasTest, RunsOfOneCellDifferInRateAndSeedAlone) {
  add_cell("gla", 4, 0.95);
  add("gla", 4, 1e-2, 4, 0.9).config["train.max_steps"] = 200;
  EXPECT_THAT(crosstalk::testing::refusal_of([&] { make(); }), HasSubstr("train.max_steps"));
}

TEST_F(AtlasTest, YoursStandsBetweenItsNeighboursByTheSameSeeds) {
  add_cell("gla", 4, 0.95), add_cell("rope", 4, 0.6), add_cell("mine", 4, 0.8), add_cell("s4d", 4, 0.3);
  for (auto& [key, record] : records_)
    if (record.label == "mine") record.config["train.max_steps"] = 50;
  input_.mine = {"mine"};
  const Atlas atlas = make();
  EXPECT_EQ(atlas.rows[0].label, "mine");
  std::string told_by;
  const std::vector<AtlasPlace> places = atlas_places(atlas, told_by);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].place, 2u);
  EXPECT_EQ(places[0].of, 4u);
  ASSERT_EQ(places[0].neighbours.size(), 2u);
  EXPECT_EQ(atlas.rows[places[0].neighbours[0].row].label, "gla");
  EXPECT_NEAR(places[0].neighbours[0].difference.summary.median, -0.15, 1e-12);
  EXPECT_EQ(places[0].neighbours[0].difference.wins, 0);
  EXPECT_EQ(atlas.rows[places[0].neighbours[1].row].label, "rope");
  EXPECT_EQ(places[0].neighbours[1].difference.wins, 3);
  EXPECT_FALSE(places[0].neighbours[1].told);  // by three seeds
  EXPECT_THAT(told_by, HasSubstr("shared seeds"));
  EXPECT_THAT(text(std::nullopt), HasSubstr("train.max_steps 50 (100)"));
}

TEST_F(AtlasTest, SettingsThatRankMemoriesAlikeAgree) {
  int rank = 0;
  for (const char* label : {"a", "b", "c", "d", "e"}) {
    add_cell(label, 4, 0.9 - 0.1 * rank), add_cell(label, 8, 0.8 - 0.1 * rank),
        add_cell(label, 16, 0.45 + 0.1 * rank);
    ++rank;
  }
  const Atlas atlas = make();
  EXPECT_DOUBLE_EQ(atlas.agreement(0, 1).value, 1);
  EXPECT_DOUBLE_EQ(atlas.agreement(0, 2).value, -1);
  EXPECT_EQ(atlas.agreement(0, 2).n, 5);
}

TEST_F(AtlasTest, NoNameActsInThePage) {
  const std::string hostile = "<img src=x onerror=alert(1)>";
  add_cell(hostile, 4, 0.9);
  input_.title = hostile;
  const std::string page = text(std::nullopt);
  EXPECT_THAT(page, Not(HasSubstr(hostile)));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x"));
  EXPECT_EQ(page, text(std::nullopt));  // the same bytes again
}

}  // namespace crosstalk::atlas_test
