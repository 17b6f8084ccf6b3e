// Machine code that was compiled once, kept in a folder of the user's for later processes.
//
// A file is named by a fingerprint of what the code was made from, and begins with the same fingerprint and one of the code.
// It is written beside its place and renamed. What is broken, of something else or not the user's own is made again; where
// nothing can be written nothing is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>

namespace crosstalk {

class CodeCache {
 public:
  /// In a folder, made when first written to; "": keeps nothing.
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}
  /// $CROSSTALK_CODE_CACHE, where "off" keeps nothing; else crosstalk in $XDG_CACHE_HOME, or in ~/.cache.
  static CodeCache of_user();

  /// Returns what is kept for `key`, or else what make() gives, and keeps that.
  std::string get(const std::string& key, const std::function<std::string()>& make) const;
  /// Makes it again: what was kept is of no use.
  std::string renew(const std::string& key, const std::function<std::string()>& make) const;
  const std::string& folder() const { return folder_; }
  /// Path of a key's file.
  std::string path(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace crosstalk
