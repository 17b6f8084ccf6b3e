// Every mode and size of the recurrence engine, in every form, against its query-driven form.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/state_read_case.h"

namespace crosstalk::checks::state::state_read_test {
namespace {

OpCase make(const std::string& name, const Choice& c, StateForm form) {
  OpCase op((form == StateForm::chunkwise ? "Chunk" : "Walk") + name);
  for (const auto& [field, dims] : inputs(c)) op.input(field, dims, fill_of(field, c));
  if (c.Q) op.integers("position", {c.B, c.Q}, positions(c.T));
  op.output("o", {c.B, c.queries(), c.H, c.V});
  if (c.end) op.output("end", {c.B, c.H, c.V, c.K});
  call_planned<StateRead>(op, [c, form](auto& o) { c.configure(o, form); });
  op.oracle([c](const Values& in, Values& out) { out = oracle(c, in); });
  return op.roundings(3.0 * c.M() + c.K + c.V).condition(4).gradient_elements(c.M() * c.K > 100 ? 12 : 40);
}

/// Every mode at a small shape; every size in some mode.
std::vector<std::pair<std::string, Choice>> choices() {
  std::vector<std::pair<std::string, Choice>> all;
  const auto add = [&](const std::string& name, const Choice& c) { all.emplace_back(name, c); };
  int i = 0;
  for (Erase erase : {Erase::none, Erase::delta, Erase::tied, Erase::free}) {
    for (Gate gate : {Gate::none, Gate::scalar, Gate::channel}) {
      for (bool decayed : {true, false}) {
        if (!decayed && (erase == Erase::none || gate == Gate::none)) continue;
        Choice c;
        c.erase = erase, c.gate = gate, c.decayed = decayed;
        c.B = 2, c.T = 7, c.K = 3, c.V = 4, c.H = 1 + i % 2, c.N = i % 3 == 0 ? 3 : 1;
        c.Q = i % 2 ? 5 : 0, c.before = i % 4 == 2;
        c.write_gain = i % 3 != 1, c.erase_gain = c.reads() && i % 4 != 3;
        c.start = i % 3 != 2, c.end = i % 2 == 0;
        add(std::string(name_of(erase)) + name_of(gate) + (decayed ? "" : "Undecayed"), c);
        ++i;
      }
    }
  }
  const auto sized = [&](const std::string& name, int T, int K, int V, int N, Erase erase, Gate gate, int Q,
                         bool decayed = true) {
    Choice c;
    c.T = T, c.K = K, c.V = V, c.N = N, c.erase = erase, c.gate = gate, c.Q = Q, c.decayed = decayed;
    c.H = T == 40 ? 2 : 1, c.write_gain = true, c.erase_gain = c.reads(), c.start = c.end = true;
    add(name, c);
  };
  sized("OneOfAll", 1, 1, 1, 1, Erase::free, Gate::channel, 2);
  sized("OneToken", 1, 16, 3, 3, Erase::delta, Gate::scalar, 0);
  sized("OneKeyChannel", 40, 1, 16, 1, Erase::delta, Gate::scalar, 3);
  sized("OneValue", 40, 16, 1, 1, Erase::tied, Gate::channel, 9);
  sized("TwoChunks", 40, 16, 16, 1, Erase::delta, Gate::channel, 0);
  sized("TwoChunksUndecayed", 40, 3, 3, 1, Erase::free, Gate::channel, 7, false);
  sized("TwoChunksOfWrites", 40, 3, 16, 3, Erase::tied, Gate::scalar, 9, false);
  sized("ThreeChunks", 70, 16, 3, 1, Erase::free, Gate::scalar, 11);
  sized("WideKeys", 70, 33, 3, 1, Erase::delta, Gate::channel, 6);
  sized("WideValues", 70, 3, 33, 1, Erase::none, Gate::channel, 0);
  sized("WideBoth", 70, 33, 33, 1, Erase::delta, Gate::scalar, 5);
  sized("LongRows", 2, 520, 3, 1, Erase::tied, Gate::channel, 3);
  sized("LongColumns", 5, 3, 300, 1, Erase::free, Gate::scalar, 3);
  sized("ManyWrites", 2, 3, 4, 70, Erase::delta, Gate::channel, 3, false);
  sized("BlocksOfKeys", 40, 137, 3, 1, Erase::none, Gate::scalar, 6);
  sized("WideWrites", 40, 33, 16, 3, Erase::free, Gate::channel, 5);
  // States that begin at 0 and end with the sequence: those of small ones stand in registers on a GPU.
  const auto small = [&](const std::string& name, int T, int K, int V, int H, Erase erase, Gate gate, int Q) {
    Choice c;
    c.B = 3, c.T = T, c.K = K, c.V = V, c.H = H, c.erase = erase, c.gate = gate, c.Q = Q;
    c.write_gain = T != 6, c.before = Q == 0 && T % 2 == 0;
    add("Small" + name, c);
  };
  small("Whole", 33, 16, 16, 2, Erase::delta, Gate::channel, 0);
  small("Listed", 9, 16, 16, 3, Erase::delta, Gate::channel, 40);
  small("Before", 8, 5, 9, 3, Erase::delta, Gate::scalar, 0);
  small("Sums", 6, 16, 1, 1, Erase::none, Gate::channel, 0);
  small("SumsListed", 5, 3, 16, 5, Erase::none, Gate::scalar, 7);
  small("Kept", 4, 1, 16, 1, Erase::delta, Gate::none, 3);
  return all;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const auto& [name, c] : choices())
    for (StateForm form : {StateForm::recurrent, StateForm::chunkwise}) all.push_back(make(name, c, form));
  return all;
}

TEST(StateRead, WithoutTokensIsRefused) {
  StateRead<double> op;
  op.q.value = op.k.value = op.v.value = shaped<double>(1, {2, 0, 1, 3});
  try {
    op.plan();
    FAIL() << "a sequence without tokens was planned";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "[state_read] there is no token");
  }
}

INSTANTIATE_TEST_SUITE_P(StateRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::state::state_read_test
