// A team of several lanes writes what one thread writes: the lanes are threads here, as those of a warp are on CUDA.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "tasks/kinds/mqar_sequence.h"
#include "tasks/task.h"

namespace crosstalk::team_test {

struct Crew {
  explicit Crew(int lanes) : barrier(lanes), said(static_cast<std::size_t>(lanes)) {}
  std::barrier<> barrier;
  std::vector<std::int32_t> said;
};

class Member {
 public:
  Member(Crew& crew, int lane) : crew_(&crew), lane_(lane) {}
  int lane() const { return lane_; }
  int lanes() const { return static_cast<int>(crew_->said.size()); }
  void sync() const { crew_->barrier.arrive_and_wait(); }
  int rank(bool yes, int& all) const {
    say(yes ? 1 : 0);
    const auto first = crew_->said.begin(), own = first + lane_;
    const auto before = std::count(first, own, 1);
    all = static_cast<int>(before + std::count(own, crew_->said.end(), 1));
    sync();
    return static_cast<int>(before);
  }
  bool first_of(std::int32_t x) const {
    say(x);
    const bool first = std::find(crew_->said.begin(), crew_->said.end(), x) == crew_->said.begin() + lane_;
    sync();
    return first;
  }
  void set_bits(std::uint32_t* word, std::uint32_t bits) const { std::atomic_ref(*word).fetch_or(bits); }

 private:
  void say(std::int32_t x) const {
    crew_->said[static_cast<std::size_t>(lane_)] = x;
    sync();
  }
  Crew* crew_;
  int lane_;
};

/// Tokens, queries, positions, targets and meta of sequence n, written by `lanes` lanes; 0 is Solo.
std::vector<std::int32_t> written(const MqarSpec& spec, int lanes, std::uint64_t n, int Q) {
  const SequenceShape shape{spec.length, 1, Q};
  std::vector<std::int32_t> all(static_cast<std::size_t>(shape.T + Q * (3 + meta_count)), -7);
  std::vector<std::uint64_t> scratch(static_cast<std::size_t>(mqar_scratch_size(spec)) / 2 + 1, ~0ull);
  std::int32_t* query = all.data() + shape.T;
  const SequenceView view{shape, all.data(), nullptr, query, query + Q, query + 2 * Q, query + 3 * Q};
  auto* room = reinterpret_cast<std::int32_t*>(scratch.data());
  if (lanes == 0) {
    mqar_sequence(spec, 11, Split::train, n, view, room);
    return all;
  }
  Crew crew(lanes);
  std::vector<std::jthread> threads;
  for (int lane = 0; lane < lanes; ++lane)
    threads.emplace_back(
        [&, lane] { mqar_write(Member(crew, lane), spec, 11, Split::train, n, view, room); });
  threads.clear();
  return all;
}

TEST(Team, WritesTheSequenceOfOneThread) {
  const MqarSpec specs[] = {
      {.keys = 4095, .values = 4096, .length = 64, .pairs = 4, .random_filler = true},
      {.keys = 9, .values = 8, .length = 46, .pairs = 8, .passes = 1, .updates = 3, .power = 1.0},
      {.keys = 40, .values = 33, .length = 90, .pairs = 5, .passes = 3, .random_filler = true, .part = 2},
      {.keys = 127, .values = 128, .length = 64, .pairs = 16}};
  std::uint64_t n = 0;
  for (const MqarSpec& spec : specs)
    for (const int Q : {spec.pairs, 2}) {
      ++n;
      EXPECT_EQ(written(spec, 3, n, Q), written(spec, 0, n, Q)) << n;
    }
}

TEST(Team, SortsInRisingOrder) {
  for (int size = 1; size <= 64; size *= 2) {
    std::vector<std::uint64_t> x;
    for (int i = 0; i < size; ++i) x.push_back(static_cast<std::uint64_t>(i) * 2654435761u % 97);
    std::vector<std::uint64_t> sorted = x;
    std::sort(sorted.begin(), sorted.end());
    sort_rising(Solo(), x.data(), size);
    EXPECT_EQ(x, sorted);
  }
}

}  // namespace crosstalk::team_test
