// SPDX-License-Identifier: BSD-3-Clause
// Session: one client's conversation in memcached's text protocol, without its socket: bytes in, replies out.
//
// Commands and their meaning: doc/protocol.txt of memcached 1.6, classic and meta. docs/MEMCACHED.md has what differs.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "apps/memcached/buffer.h"
#include "apps/memcached/counters.h"
#include "apps/memcached/item_store.h"
#include "apps/memcached/words.h"

namespace perdure::memcached {

/// As clients are told; the numbers say which of memcached's protocols is spoken.
inline constexpr std::string_view kVersionText = "1.6.18-perdure";

/// What sessions share. The functions may be called from any worker.
struct Service {
  ItemStore* store = nullptr;
  const Clock* clock = nullptr;
  std::uint64_t item_size_max = 1 << 20;
  bool allow_shutdown = false;
  bool evict = true;  // told by `stats settings`
  /// Appends lines of `stats` (general, or of a group that the session does not know): `say(name, value)`. False: no such.
  using Say = FunctionRef<void(std::string_view name, std::string_view value)>;
  std::function<bool(std::string_view group, Say say)> stats;
  std::function<void()> reset_stats;
  /// Ends the server.
  std::function<void()> shutdown;
};

/// Threads: one.
class Session {
 public:
  Session(Service& service, Counters& counters) : service_(&service), counters_(&counters) {}

  /// Answers what commands are whole in `input`, and appends to `out`. Returns how many bytes of the input are done with:
  /// the rest belongs to a command whose end has not come, or to commands for which `out` is too full now.
  /// A store that fails (not: is full) ends the conversation.   Errors: throws std::bad_alloc.
  std::size_t feed(std::string_view input, Buffer& out);
  /// The key that the first command of an input names, if it names one: its second word.
  static std::string_view first_key(std::string_view input);
  /// The connection is to be closed when the replies so far are sent.
  bool closing() const { return closing_; }
  /// As far as that is known, so many bytes of input make the command whole that feed() left.
  std::size_t wanted() const { return wanted_; }

  /// When replies are more than that, the client has to take them before it is answered on.
  static constexpr std::size_t kFull = 256 << 10;

 private:
  static constexpr std::size_t kMaxLineBytes = 2048;  // of any command but a retrieval

  enum class Gets : std::uint8_t { kNone, kGet, kGets, kGat, kGats };
  enum class Verb : std::uint8_t { kSet, kAdd, kReplace, kAppend, kPrepend, kCas };
  struct Meta;

  // session.cc
  std::size_t converse(std::string_view input, Buffer& out);

  // retrieval.cc
  bool begin_gets(std::string_view input, std::size_t line_end, Buffer& out, std::size_t& used);
  std::size_t go_on_getting(std::string_view input, Buffer& out);
  void get(std::span<const std::string_view> keys, Buffer& out);
  void get_and_touch(std::string_view key, Buffer& out);
  void append_item(std::string_view key, const ItemView& item, bool with_cas, Buffer& out);
  void refuse_gets(std::string_view why, Buffer& out);

  // session.cc: the other classic commands
  /// Runs the command of a line; `data` is what follows it. Returns how much of that belongs to the command, or nothing
  /// when it is not all there.
  std::optional<std::size_t> run(const Words& words, std::string_view data, Buffer& out);
  std::optional<std::size_t> store(Verb verb, const Words& words, std::string_view data,
                                   Buffer& out);
  void arithmetic(bool up, const Words& words, Buffer& out);
  void touch(const Words& words, Buffer& out);
  void remove(const Words& words, Buffer& out);
  void flush_all(const Words& words, Buffer& out);
  void limit_memory(const Words& words, Buffer& out);
  void shut_down(const Words& words, Buffer& out);
  /// Passes over a data block that will not be stored; the reply was given.
  std::size_t swallow(std::uint64_t bytes, std::string_view data);
  /// The data block of `bytes` at the start of `data`: whether it is whole, and ends as it must.
  enum class Block : std::uint8_t { kPartial, kBad, kGood };
  Block block(std::uint64_t bytes, std::string_view data);

  // stats_command.cc
  void stats(const Words& words, Buffer& out);

  // meta_commands.cc
  std::optional<std::size_t> meta(char command, const Words& words, std::string_view data,
                                  Buffer& out);
  void meta_debug(const Words& words, Buffer& out);
  void meta_get(Meta& asked, Buffer& out);
  std::optional<std::size_t> meta_set(const Words& words, std::string_view data, Buffer& out);
  void meta_delete(Meta& asked, Buffer& out);
  void meta_arithmetic(Meta& asked, Buffer& out);

  /// Calls the store; of one that is full says so, and returns nothing.
  std::optional<std::uint64_t> alter(std::string_view key, std::uint64_t room, ItemStore::Use use,
                                     ItemStore::Decide decide, Buffer& out);
  void drop(std::string_view key, Buffer& out);
  static void say(Buffer& out, std::string_view line, bool quiet = false) {
    if (!quiet) out.append(line);
  }
  void count(Counter counter) { counters_->add(counter); }
  std::uint32_t now() const { return service_->clock->now(); }

  Service* service_;
  Counters* counters_;
  std::uint64_t swallow_ = 0;  // bytes still to be passed over
  std::size_t wanted_ = 0;
  std::size_t line_from_ = 0;  // no end of line stands before it in what was left
  Gets gets_ = Gets::kNone;    // a retrieval is under way, and more of its keys are to come
  bool gets_any_ = false;
  bool skip_line_ = false;
  bool closing_ = false;
  std::uint32_t gat_expires_ = 0;
};

}  // namespace perdure::memcached
