// mad_recall: in-context, noisy and fuzzy recall of MAD (Poli et al. 2024, arXiv 2403.17844; law and labels are those of
// mad-lab's mad/data/instances.py with multi_query).
//
// motif = 1:  pairs k v, k uniform with replacement, v drawn at a key's first showing and the same ever after; a pair gives
//             way to two tokens of noise with probability `noise`; the last key is one that was shown.
// motif = m:  keys and values are 1 .. m different tokens (keys of evaluation m); one pair is shown for certain and is the
//             last again; blanks in front fill the length.
//
// An answer is due before each token of a value whose key was shown before; in training, where `next` is set, before every token.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/put_labels.h"

namespace crosstalk {

struct MadRecallSpec {
  std::int32_t keys = 0;    ///< ids 0 .. keys - 1
  std::int32_t values = 0;  ///< ids keys .. keys + values - 1; above them noise, and a blank where motif > 1
  std::int32_t noises = 0;  ///< ids of noise
  std::int32_t noise = 0;   ///< probability of noise in units of 2^-24
  std::int32_t length = 0;  ///< tokens before the shift by one
  std::int32_t motif = 1;   ///< largest number of tokens of a key or a value; at most 4
  bool next = true;         ///< training labels every next token
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t tokens() const { return motif == 1 ? length - 1 : length; }
  CT_HD std::int32_t blank() const { return keys + values + noises; }
};

namespace mad {

constexpr std::int32_t kProbability = 1 << 24, kLongestMotif = 4;

struct Motif {
  std::int32_t token[kLongestMotif] = {0, 0, 0, 0};
  std::int32_t size = 0, code = 0;  ///< equal motifs have equal codes
};

/// A uniform arrangement of `size` different numbers below n, plus `first`.
CT_HD inline Motif draw_motif(RandomStream& random, std::int32_t size, std::int32_t n, std::int32_t first) {
  Motif motif;
  motif.size = size;
  std::int32_t sorted[kLongestMotif];
  for (std::int32_t i = 0; i < size; ++i) {
    std::int32_t x = draw_below(random, n - i), at = 0;
    for (; at < i && x >= sorted[at]; ++at) ++x;
    for (std::int32_t j = i; j > at; --j) sorted[j] = sorted[j - 1];
    sorted[at] = x;
    motif.token[i] = first + x;
    motif.code = motif.code * (n + 1) + x + 1;
  }
  return motif;
}

/// What a sequence is made of while it is written: tokens, what each may be asked as, and the keys that were shown.
struct Writer {
  std::int32_t *stream, *asked, *codes,
      *places;  ///< asked: 1 where a value stands whose key was shown before
  std::int32_t size = 0, known = 0;

  CT_HD void put(const Motif& motif, std::int32_t ask) {
    for (std::int32_t i = 0; i < motif.size; ++i) {
      stream[size] = motif.token[i];
      asked[size++] = ask;
    }
  }
  CT_HD std::int32_t find(std::int32_t code) const {
    std::int32_t i = 0;
    while (i < known && codes[i] != code) ++i;
    return i;
  }
  CT_HD void learn(std::int32_t code) {
    codes[known] = code;
    places[known++] = size;  // where its value begins
  }
};

/// Pairs of one token each.
CT_HD inline void write_pairs(RandomStream& random, const MadRecallSpec& spec, Writer& out) {
  const std::int32_t pairs = spec.length / 2, quiet = draw_below(random, pairs);
  const auto put_pair = [&](std::int32_t key, std::int32_t value, std::int32_t ask) {
    out.stream[out.size] = key, out.asked[out.size++] = 0;
    out.stream[out.size] = value, out.asked[out.size++] = ask;
  };
  for (std::int32_t i = 0; i + 1 < pairs; ++i) {
    const bool noise = spec.noise > 0 && i != quiet && draw_below(random, kProbability) < spec.noise;
    if (noise && !(i + 2 == pairs && out.known == 0)) {
      const std::int32_t a = draw_below(random, spec.noises), b = draw_below(random, spec.noises);
      put_pair(spec.keys + spec.values + a, spec.keys + spec.values + b, 0);
      continue;
    }
    const std::int32_t key = draw_below(random, spec.keys), at = out.find(key);
    if (at < out.known) {
      put_pair(key, out.stream[out.places[at] + 1], 1);
      continue;
    }
    out.learn(key);
    put_pair(key, spec.keys + draw_below(random, spec.values), 0);
  }
  const std::int32_t at = draw_below(random, out.known);
  put_pair(out.codes[at], out.stream[out.places[at] + 1], 1);
}

/// Keys and values of several tokens.
CT_HD inline void write_motifs(RandomStream& random, const MadRecallSpec& spec, bool train, Writer& out) {
  const std::int32_t most = spec.motif;
  const auto draw_key = [&] {
    return draw_motif(random, train ? 1 + draw_below(random, most) : most, spec.keys, 0);
  };
  const auto draw_value = [&] {
    return draw_motif(random, 1 + draw_below(random, most), spec.values, spec.keys);
  };
  const Motif key = draw_key(), value = draw_value();
  const std::int32_t size = key.size + value.size, end = spec.length - size - 2 * most,
                     latest = end - 2 * most + 1,  // so that it is shown
      due = draw_below(random, latest > 1 ? latest : 1);
  bool shown = false;
  while (out.size < end) {
    Motif k = key, v = value;
    if (shown || out.size < due) {
      k = draw_key();
      v = draw_value();
    }
    if (k.code == key.code) {
      v = value;
      shown = true;
    }
    const std::int32_t at = out.find(k.code);
    out.put(k, 0);
    if (at == out.known) {
      out.learn(k.code);
      out.put(v, 0);
      continue;
    }
    for (std::int32_t i = out.places[at]; i < out.size && out.stream[i] >= spec.keys;
         ++i) {  // its value ends where a key begins
      out.stream[out.size] = out.stream[i];
      out.asked[out.size++] = 1;
    }
  }
  out.put(key, 0);
  out.put(value, 1);
}

}  // namespace mad

/// [tokens | whether they are asked | labels | codes of keys | places of their values]
CT_HD inline std::int32_t mad_recall_scratch_size(const MadRecallSpec& spec) { return 5 * (spec.length + 2); }

CT_HD inline void mad_recall_sequence(const MadRecallSpec& spec, std::uint64_t data_seed, Split split,
                                      std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t room = spec.length + 2, T = out.shape.T;
  mad::Writer writer{scratch, scratch + room, scratch + 3 * room, scratch + 4 * room};
  std::int32_t* labels = scratch + 2 * room;
  if (spec.motif == 1) {
    mad::write_pairs(random, spec, writer);
  } else {
    mad::write_motifs(random, spec, is_train(split), writer);
  }
  const std::int32_t blanks = T + 1 - writer.size;
  const bool every = is_train(split) && spec.next;
  for (std::int32_t t = 0; t < T; ++t) {
    const std::int32_t i = t - blanks;  // in the stream
    out.tokens[t] = i < 0 ? spec.blank() : writer.stream[i];
    const bool asked = i + 1 >= 0 && writer.asked[i + 1] != 0;
    labels[t] = every || asked ? (i + 1 < 0 ? spec.blank() : writer.stream[i + 1]) : -1;
  }
  put_labels(out, labels, T);
}

}  // namespace crosstalk
