// The paragraph on how the runs of a table were made: every number in it is one of the records.
// SPDX-License-Identifier: Apache-2.0
#include "plots/test_records.h"

namespace crosstalk::protocol_test {

class ProtocolTest : public FigureTest {
 protected:
  static LabelledRecords runs() {
    RecordMap records;
    for (const double rate : {1e-3, 3e-3})
      for (int seed = 1; seed <= 3; ++seed)
        for (const int pairs : {4, 8, 16}) {
          Record& record = add_record(records, "a_b", seed, 0,
                                      {{"task.name", "mqar"},
                                       {"task.pairs", pairs},
                                       {"task.examples", 1000},
                                       {"task.filler", "none"},
                                       {"task.power", 0},
                                       {"model.name", "language"},
                                       {"model.width", 32},
                                       {"model.layers", 2},
                                       {"model.heads", 1},
                                       {"model.d_key", 16},
                                       {"model.d_value", 32},
                                       {"model.layer", "published"},
                                       {"model.stack", "base_conv memory"},
                                       {"model.mlp", "none"},
                                       {"train.learning_rate", rate},
                                       {"train.optimizer", "adamw"},
                                       {"train.weight_decay", 0.1},
                                       {"train.beta1", 0.9},
                                       {"train.beta2", 0.999},
                                       {"train.batch", 64},
                                       {"train.schedule", "cosine_epoch"},
                                       {"train.warmup_steps", 0},
                                       {"train.clip_norm", 0},
                                       {"train.precision", "fp32"},
                                       {"train.max_steps", 1000},
                                       {"train.stop_loss", 0},
                                       {"train.stop_accuracy", 0.99},
                                       {"train.patience", 10},
                                       {"eval.every", 100},
                                       {"eval.sequences", 64},
                                       {"eval.protocol", "uniform"}},
                                      rate);
          record.metrics["test_loss"] = 0.5;
        }
    return rows_of(records);
  }
};

TEST_F(ProtocolTest, Golden) {
  options_.best = {"train.learning_rate"};
  EXPECT_EQ(
      protocol_text("final", runs(), options_),
      "\\paragraph{Protocol.} Task \\texttt{mqar} (examples 1000; pairs 4, 8 and 16). Training goes over a fixed set of sequences again and again. "
      "Every 100 steps the model is evaluated on 64 validation sequences; shown is \\texttt{test\\_loss} on sequences of the test split, which "
      "nothing was chosen by. Language model of width 32, 2 layers, 1 head, keys of 16 and values of 32 numbers, layer published, stack base\\_conv "
      "memory. AdamW on batches of 64 sequences, $\\beta_1$ 0.9, $\\beta_2$ 0.999, weight decay 0.1, learning rate by the schedule cosine\\_epoch. "
      "The learning rate is chosen for each memory and point among 0.001 and 0.003 by the smallest loss of the validation data, median over seeds. 3 "
      "seeds (1, 2 and 3), each of both data and initialisation; medians over seeds. Training stops when the validation accuracy is at least 0.99, "
      "or 1000 steps are done.\n");
  // 10 evaluations in a row are all that there are: with fewer a run may end.
  LabelledRecords sooner = runs();
  for (auto& [id, record] : sooner.rows) record.config["train.patience"] = 3;
  EXPECT_THAT(
      protocol_text("final", sooner, options_),
      HasSubstr("at least 0.99, more than 3 evaluations in a row bring no new best loss, or 1000 steps"));
}

TEST_F(ProtocolTest, SaysWhatWasNotChosenAndWhatDiverged) {
  LabelledRecords rows = runs();
  rows.rows.begin()->second.status = RunStatus::diverged;
  const std::string text = protocol_text("final", rows, options_);
  EXPECT_THAT(text, HasSubstr("shown is \\texttt{eval\\_loss} on these validation sequences."));
  EXPECT_THAT(text, HasSubstr("Learning rate 0.001 and 0.003."));
  EXPECT_THAT(text, HasSubstr("1 of 18 runs diverged and count as the worst."));
  EXPECT_THAT(text, Not(HasSubstr("chosen for each")));
}

TEST_F(ProtocolTest, RefusesRowsOfWhichNoTrainingIsKnown) {
  RecordMap records;
  add_recall(records, "mine", 1, 4, 8, 0.1);
  EXPECT_THROW(protocol_text("final", rows_of(records), options_), std::invalid_argument);
}

TEST_F(ProtocolTest, SaysWhatIsSoAndLeavesNoSettingOut) {
  LabelledRecords rows = runs();
  for (auto& [id, record] : rows.rows) {
    record.config["task.fresh"] = true;
    record.config["task.test_segments"] = "16:2:5 16:3:7 16:4";
    record.config["data_seed"] = 5;
    record.config["init_seed"] = record.seed;
    record.config["model.out_act"] = "silu";
    record.config["model.norm"] = "layer";
  }
  options_.default_of = [](const Record&, const std::string& key) {
    return std::optional<std::string>(key == "model.norm" ? "layer" : "none");
  };
  const std::string text = protocol_text("final", rows, options_);
  EXPECT_THAT(text, HasSubstr("Every training step draws new sequences."));
  EXPECT_THAT(text, HasSubstr("evaluated on 76 validation sequences"));
  EXPECT_THAT(text, HasSubstr("3 seeds (1, 2 and 3), data drawn by data\\_seed 5; medians"));
  EXPECT_THAT(text, HasSubstr("Settings beside these: model.out\\_act silu.\n"));
}

// Arrays of one's own are trained on over and over, and read as far as they go.
TEST_F(ProtocolTest, FilesAreFixedSets) {
  LabelledRecords rows = runs();
  for (auto& [id, record] : rows.rows) {
    record.config["task.name"] = "tokens";
    record.config["task.examples"] = 0;
    record.config["task.folder"] = "data/own";
  }
  const std::string text = protocol_text("final", rows, options_);
  EXPECT_THAT(text, HasSubstr("Training goes over a fixed set of sequences again and again."));
  EXPECT_THAT(text, HasSubstr("evaluated on at most 64 validation sequences"));
  EXPECT_THAT(text, Not(HasSubstr("draws new")));
}

TEST_F(ProtocolTest, SaysWhatTheTableShowsAndWhatGoesByTheTask) {
  LabelledRecords rows = runs();
  int i = 0;
  for (auto& [id, record] : rows.rows) {
    const bool compresses = i++ % 2 == 0;
    record.config["task.name"] = compresses ? "compression" : "memorise";
    record.config["model.decoder"] = compresses ? "last" : "none";
    record.metrics["test_accuracy"] = 0.5;
  }
  EXPECT_THAT(protocol_text("mad", rows, options_), HasSubstr("shown is \\texttt{eval\\_accuracy} on"));
  const std::string text = protocol_text("mad", rows, options_);
  EXPECT_THAT(text, HasSubstr("decoder last (compression) and none (memorise)"));
}

// What studies and tables of others say is text, and no order of LaTeX.
TEST_F(ProtocolTest, HostileTextIsEscaped) {
  LabelledRecords rows = runs();
  for (auto& [id, record] : rows.rows) record.config["task.filler"] = "\\input{x} 50% $a";
  const std::string text = protocol_text("final", rows, options_);
  EXPECT_THAT(text, Not(HasSubstr("\\input{")));
  EXPECT_THAT(text, HasSubstr("50\\%"));
}

}  // namespace crosstalk::protocol_test
