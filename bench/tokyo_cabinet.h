// SPDX-License-Identifier: BSD-3-Clause
// Tokyo Cabinet as the benchmarks use it: its B+ tree and its hash table behind one face.
#pragma once

#include <tcbdb.h>
#include <tchdb.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "perdure/error.h"

namespace perdure::bench {

struct TokyoTreeCalls {
  using Handle = TCBDB;
  static constexpr auto kMake = ::tcbdbnew;
  static constexpr auto kDelete = ::tcbdbdel;  // closes, too
  static constexpr auto kSetMutex = ::tcbdbsetmutex;
  static constexpr auto kOpen = ::tcbdbopen;
  static constexpr auto kPut = ::tcbdbput;
  static constexpr auto kOut = ::tcbdbout;
  static constexpr auto kGet = ::tcbdbget;
  static constexpr auto kSync = ::tcbdbsync;
  static constexpr auto kBegin = ::tcbdbtranbegin;
  static constexpr auto kCommit = ::tcbdbtrancommit;
  static constexpr auto kAbort = ::tcbdbtranabort;
  static constexpr auto kErrorCode = ::tcbdbecode;
  static constexpr auto kErrorText = ::tcbdberrmsg;
  static constexpr int kModes = BDBOWRITER | BDBOCREAT;
  static constexpr int kSyncedTransactions = BDBOTSYNC;
};

struct TokyoHashCalls {
  using Handle = TCHDB;
  static constexpr auto kMake = ::tchdbnew;
  static constexpr auto kDelete = ::tchdbdel;
  static constexpr auto kSetMutex = ::tchdbsetmutex;
  static constexpr auto kOpen = ::tchdbopen;
  static constexpr auto kPut = ::tchdbput;
  static constexpr auto kOut = ::tchdbout;
  static constexpr auto kGet = ::tchdbget;
  static constexpr auto kSync = ::tchdbsync;
  static constexpr auto kBegin = ::tchdbtranbegin;
  static constexpr auto kCommit = ::tchdbtrancommit;
  static constexpr auto kAbort = ::tchdbtranabort;
  static constexpr auto kErrorCode = ::tchdbecode;
  static constexpr auto kErrorText = ::tchdberrmsg;
  static constexpr int kModes = HDBOWRITER | HDBOCREAT;
  static constexpr int kSyncedTransactions = HDBOTSYNC;
};

/// One database file, created if it is not there.
/// Errors: throws Exception kIo, with the file and what the library says.
/// Threads: any; but a transaction is the database's, not the thread's: one at a time.
template <class Calls>
class TokyoCabinet {
 public:
  /// `more_modes`: Calls::kSyncedTransactions, or 0 where there are none.
  TokyoCabinet(const std::string& path, int more_modes) : path_(path), handle_(Calls::kMake()) {
    check(Calls::kSetMutex(handle_.get()), "setmutex");
    check(Calls::kOpen(handle_.get(), path.c_str(), Calls::kModes | more_modes), "open");
  }

  void put(std::string_view key, std::string_view value) {
    check(Calls::kPut(handle_.get(), key.data(), static_cast<int>(key.size()), value.data(),
                      static_cast<int>(value.size())),
          "put");
  }
  void erase(std::string_view key) {
    check(Calls::kOut(handle_.get(), key.data(), static_cast<int>(key.size())), "out");
  }
  /// False, and `value` is as it was, when there is none.
  bool get(std::string_view key, std::string& value) {
    int bytes = 0;
    void* const found =
        Calls::kGet(handle_.get(), key.data(), static_cast<int>(key.size()), &bytes);
    if (found == nullptr) return false;
    value.assign(static_cast<const char*>(found), static_cast<std::size_t>(bytes));
    std::free(found);
    return true;
  }
  void sync() { check(Calls::kSync(handle_.get()), "sync"); }

  /// Runs `work()` as a transaction; it is durable on return with kSyncedTransactions.
  template <class Work>
  void in_transaction(const Work& work) {
    check(Calls::kBegin(handle_.get()), "tranbegin");
    try {
      work();
    } catch (...) {
      Calls::kAbort(handle_.get());
      throw;
    }
    check(Calls::kCommit(handle_.get()), "trancommit");
  }

  void check(bool done, const char* what) const {
    if (!done)
      throw Exception(Code::kIo, path_ + ": Tokyo Cabinet: " + what + ": " +
                                     Calls::kErrorText(Calls::kErrorCode(handle_.get())));
  }
  typename Calls::Handle* handle() const { return handle_.get(); }

 private:
  struct Delete {
    void operator()(typename Calls::Handle* handle) const { Calls::kDelete(handle); }
  };
  std::string path_;
  std::unique_ptr<typename Calls::Handle, Delete> handle_;
};

}  // namespace perdure::bench
