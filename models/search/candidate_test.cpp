#include "models/search/candidate.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <chrono>
#include <set>
#include "models/rules/law_examples.h"
namespace crosstalk::search {
TEST(Try, Key) {
  for (const auto& [name, law] : rules::examples()) {
    std::string c = canonical_text(law);
    EXPECT_EQ(value_key(c), value_key(law)) << law << "\n" << c;
    EXPECT_EQ(price(c, 16, 16).why.empty(), price(law, 16, 16).why.empty()) << law << "\n"
                                                                            << c << price(c, 16, 16).why;
  }
}
TEST(Try, Change) {
  Limits limits;
  for (const char* start : {"S += v k^T; read S q", "g = sigmoid(token); S += g (v - S k) k^T; read S q"}) {
    for (unsigned i = 0; i < 40; ++i) {
      RandomStream r(1, RandomDomain::candidate, i);
      const Change c = mutated(start, r, limits);
      fmt::print("{}   <- {}\n", c.law, c.what);
    }
  }
  std::string last = "S += v k^T; read S q";
  for (unsigned i = 0; i < 40; ++i) {
    RandomStream r(1, RandomDomain::candidate, i);
    std::string n = random_candidate(r, limits);
    fmt::print("RANDOM {}\n", n);
    const Change c = crossed(n, last, r, limits);
    fmt::print("  CROSS {}  <- {}\n", c.law, c.what);
    last = n;
  }
}
TEST(Try, Speed) {
  Limits limits;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  double make = 0, key = 0, un = 0, de = 0, pr = 0;
  int unstables = 0, deads = 0, n = 0, engines = 0, found = 0;
  std::set<std::string> texts, keys;
  const std::string delta = value_key("S += (v - S k) k^T; read S q");
  for (unsigned i = 0; i < 3000; ++i) {
    RandomStream r(2, RandomDomain::candidate, i);
    const auto t = now();
    const std::string law = mutated("S += v k^T; read S q", r, limits).law;
    const auto t1 = now();
    make += std::chrono::duration<double>(t1 - t).count();
    if (!texts.insert(law).second) continue;
    const auto t2 = now();
    const bool d = dead(law);
    const auto t3 = now();
    de += std::chrono::duration<double>(t3 - t2).count();
    deads += d;
    if (d) continue;
    const bool u = unstable(law).has_value();
    const auto t4 = now();
    un += std::chrono::duration<double>(t4 - t3).count();
    unstables += u;
    if (u) continue;
    const std::string k = value_key(law);
    const auto t5 = now();
    key += std::chrono::duration<double>(t5 - t4).count();
    if (k == delta) ++found, fmt::print("DELTA {} {}\n", i, law);
    if (!keys.insert(k).second) continue;
    const double p = probe(law);
    pr += std::chrono::duration<double>(now() - t5).count();
    ++n;
    engines += price(law, 16, 16).engines;
    if (n % 10 == 0) fmt::print("{:.4f} {}\n", p, law);
  }
  fmt::print(
      "texts {} dead {} unstable {} keys {} engines {} found {}; ms a piece: make {} dead {} unst {} key {} probe {}\n",
      texts.size(), deads, unstables, n, engines, found, make / 3, de / texts.size() * 1e3,
      un / (texts.size() - deads) * 1e3, key / (texts.size() - deads - unstables) * 1e3, pr / n * 1e3);
}
}  // namespace crosstalk::search
