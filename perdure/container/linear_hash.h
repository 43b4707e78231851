// SPDX-License-Identifier: BSD-3-Clause
// The buckets of a hash table in persistent memory, by linear hashing whose splits are local. Its
// users decide what stands in the buckets and how it is found: hash_map's entries, the items of the
// memcached server.
//
// Buckets are opened in groups of 64, in order, and an opened bucket is *unsplit*: its nodes still
// stand in the nearest ancestor (its number without the highest bit, repeatedly) that is not. The
// first insertion that falls into an unsplit bucket moves its nodes over. So no transaction ever
// does more than one split and one opening, and threads meet only in a bucket, or at the opening of
// a group.
//
// All of it is part of the media format of every table: never change it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "perdure/base/growing_array.h"
#include "perdure/base/words.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/pptr.h"

namespace perdure::detail {

/// `Table`, in persistent memory, has among its members
///   buckets    how many are open, a word
///   segments   an array of pptr<pptr<Node>>: where the links to the first nodes of buckets are,
///              those of [0, 16) in segment 0, those of [16 << i, 32 << i) in segment 1 + i
///   kName      what messages call it
/// and `Node` begins with `next`, a pptr<Node>.
/// Durable: with the transaction.
/// Errors: throws Exception kCorrupt when it meets what no table holds; those of the
/// transaction unless told.   Threads: as the transaction.
template <class Table, class Node>
struct LinearHash {
  static constexpr std::uint64_t kFirst = 16;  // buckets of a new table
  static constexpr std::uint64_t kGroup = 64;  // buckets opened at a time
  static constexpr std::size_t kSegments = std::tuple_size_v<decltype(Table::segments)>;
  static constexpr std::uint64_t kMost = kFirst << (kSegments - 1);
  /// The head of an opened bucket whose nodes are still in an ancestor. No object starts at an odd
  /// offset.
  static constexpr pptr<Node> kUnsplit{1};

  struct Segment {
    std::size_t index;
    std::uint64_t first;  // of its buckets
    std::uint64_t end;
  };
  static constexpr Segment segment_of(std::uint64_t number) {
    // Those below kFirst as if they were of a segment of half as many, but from 0 on.
    const auto bits = static_cast<unsigned>(std::bit_width(number | (kFirst / 2)));
    return {bits - std::bit_width(kFirst / 2), (std::uint64_t{1} << (bits - 1)) & ~(kFirst - 1),
            std::uint64_t{1} << bits};
  }

  /// The bucket of a hash: its lowest bits, as many as give an open bucket.
  static constexpr std::uint64_t address(std::uint64_t hash, std::uint64_t buckets) {
    const std::uint64_t low = std::bit_floor(buckets);
    const std::uint64_t number = hash & (2 * low - 1);
    return number < buckets ? number : number - low;
  }
  /// How many bits of a hash tell that it belongs to bucket `number`.
  static constexpr unsigned address_bits(std::uint64_t number, std::uint64_t buckets) {
    const std::uint64_t low = std::bit_floor(buckets);
    return static_cast<unsigned>(std::countr_zero(low)) + ((number | low) < buckets ? 1 : 0);
  }

  /// How many buckets are open. A number that no table can have is refused here, because addresses
  /// are computed from it.
  template <class Tx>
  static std::uint64_t open_buckets(Tx& tx, const Table& table) {
    const std::uint64_t buckets = tx.load(table.buckets);
    if (buckets - 1 >= kMost) [[unlikely]]
      refuse(claims, buckets);
    return buckets;
  }
  template <class Tx>
  static pptr<Node>* head_of(Tx& tx, const Table& table, std::uint64_t number) {
    const Segment segment = segment_of(number);
    const pptr<pptr<Node>> heads = tx.load(table.segments[segment.index]);
    if (!heads) [[unlikely]]
      refuse(no_segment, segment.index);
    pptr<Node>* const first = tx.at(heads);
    check_bytes(tx, first, (number - segment.first + 1) * sizeof(pptr<Node>));
    return first + (number - segment.first);
  }

  struct Bucket {
    std::uint64_t number;
    pptr<Node>* head;
    pptr<Node> first;
  };
  /// The bucket where the nodes of bucket `number` stand: itself or its nearest ancestor that is
  /// not unsplit.
  template <class Tx>
  [[gnu::always_inline]] static Bucket locate(Tx& tx, const Table& table, std::uint64_t number) {
    for (;;) {
      pptr<Node>* head = head_of(tx, table, number);
      const pptr<Node> first = tx.load(*head);
      if (first != kUnsplit) return {number, head, first};
      if (number == 0) [[unlikely]]
        refuse(no_ancestor, number);
      number -= std::bit_floor(number);
    }
  }

  /// Gives a new table its first buckets. If there is no room for them, nothing has changed.
  template <class Tx>
  static void make(Tx& tx, Table& table) {
    auto* heads = static_cast<pptr<Node>*>(tx.allocate(kFirst * sizeof(pptr<Node>)));
    for (std::uint64_t i = 0; i < kFirst; ++i) tx.store(heads[i], {});
    tx.store(table.buckets, kFirst);
    tx.store(table.segments[0], tx.link_to(heads));
  }
  /// Opens the next buckets, unsplit, unless there is no room for their heads: a table that cannot
  /// grow takes nodes all the same.
  template <class Tx>
  static void open_group(Tx& tx, Table& table, std::uint64_t buckets) {
    const Segment segment = segment_of(buckets);
    if (segment.index >= kSegments) return;
    if (segment.first == buckets) {
      void* heads = allocate_if_room(tx, (segment.end - segment.first) * sizeof(pptr<Node>));
      if (heads == nullptr) return;
      tx.store(table.segments[segment.index], tx.link_to(static_cast<pptr<Node>*>(heads)));
    }
    const std::uint64_t group_end = round_down(buckets, kGroup) + kGroup;
    const std::uint64_t end = segment.end < group_end ? segment.end : group_end;
    std::array<pptr<Node>, kGroup> unsplit;
    unsplit.fill(kUnsplit);
    tx.write(head_of(tx, table, buckets), unsplit.data(), (end - buckets) * sizeof(pptr<Node>));
    tx.store(table.buckets, end);
  }

  /// Moves the nodes of the unsplit bucket `number` there, out of its ancestor `from`, storing only
  /// the links that change. Returns the bucket, with its first node. `hash_of(node)` is a node's
  /// hash.
  template <class Tx, class HashOf>
  static Bucket split(Tx& tx, const Table& table, const Bucket& from, std::uint64_t number,
                      HashOf&& hash_of) {
    const std::uint64_t mask = (std::uint64_t{1} << std::bit_width(number)) - 1;
    Bucket into{number, head_of(tx, table, number), {}};
    Tail staying{from.head, from.first};
    Tail moving{into.head, kUnsplit};
    ChainLength length;
    for (pptr<Node> at = from.first; at;) {
      length.count();
      Node* node = tx.at(at);
      const pptr<Node> next = tx.load(node->next);
      const bool moves = (hash_of(node) & mask) == number;
      if (moves && !into.first) into.first = at;
      Tail& tail = moves ? moving : staying;
      tail.set(tx, at);
      tail = {&node->next, next};
      at = next;
    }
    staying.set(tx, {});
    moving.set(tx, {});
    return into;
  }

  /// The hash that a node says it has, unless something is wrong with it.
  struct Looked {
    std::uint64_t hash = 0;
    const char* wrong = nullptr;
  };
  /// Verifies a table of so many nodes. Calls `visit(offset)` for each segment and each node,
  /// before it looks into it, and `look(node, room)` for each node, with the room that its object
  /// has. See hash_map::audit().
  template <class Tx, class Visit, class Look>
  static std::optional<std::string> audit(Tx& tx, const Table& table, std::uint64_t nodes,
                                          Visit&& visit, Look&& look) {
    const std::uint64_t buckets = tx.load(table.buckets);
    if (buckets - 1 >= kMost) return claims(buckets);
    for (std::uint64_t first = 0; first < buckets; first = segment_of(first).end) {
      const Segment segment = segment_of(first);
      if (!room_at(visit, tx.load(table.segments[segment.index]))
               .holds((segment.end - segment.first) * sizeof(pptr<Node>)))
        return std::string(Table::kName) + ": segment " + std::to_string(segment.index) +
               " overruns its object";
    }
    std::uint64_t seen = 0;
    GrowingArray<std::uint64_t> hashes;  // of one chain: a key stands in it once
    for (std::uint64_t number = 0; number < buckets; ++number) {
      pptr<Node> next = tx.load(*head_of(tx, table, number));
      if (next == kUnsplit) {
        if (number == 0) return no_ancestor(number);
        continue;
      }
      hashes.clear();
      while (next) {
        // Counted before it is followed, so that a circle ends here.
        if (++seen > nodes)
          return where(number) + ": more entries than the " + std::to_string(nodes) +
                 " counted, or a circle";
        const Room room = room_at(visit, next);
        const Node* node = tx.at(next);
        Looked looked = look(node, room);
        if (looked.wrong == nullptr &&
            locate(tx, table, address(looked.hash, buckets)).number != number)
          looked.wrong = "belongs to another bucket";
        if (looked.wrong != nullptr)
          return where(number) + ": the entry at offset " + std::to_string(next.offset) + " " +
                 looked.wrong;
        hashes.push_back(looked.hash);
        next = tx.load(node->next);
      }
      if (any_twice(hashes)) return where(number) + " holds a key twice";
    }
    if (seen != nodes)
      return std::string(Table::kName) + ": " + std::to_string(nodes) + " entries counted, " +
             std::to_string(seen) + " found";
    return std::nullopt;
  }

 private:
  static std::string where(std::uint64_t number) {
    return std::string(Table::kName) + ": bucket " + std::to_string(number);
  }
  static std::string claims(std::uint64_t buckets) {
    return std::string(Table::kName) + ": claims " + std::to_string(buckets) + " buckets";
  }
  static std::string no_segment(std::uint64_t index) {
    return std::string(Table::kName) + ": has no segment " + std::to_string(index);
  }
  static std::string no_ancestor(std::uint64_t number) {
    return where(number) + " is unsplit, and has no ancestor";
  }
  /// A function of its own, so that the code of the usual path stays short.
  [[noreturn, gnu::cold, gnu::noinline]] static void refuse(std::string (*what)(std::uint64_t),
                                                            std::uint64_t number) {
    throw Exception(Code::kCorrupt, what(number));
  }

  /// One end of a chain that is being rebuilt.
  struct Tail {
    pptr<Node>* slot;
    pptr<Node> value;  // what `slot` holds now

    template <class Tx>
    void set(Tx& tx, pptr<Node> to) {
      if (value != to) tx.store(*slot, to);
    }
  };

  template <class Tx>
  static void* allocate_if_room(Tx& tx, std::size_t size) {
    try {
      return tx.allocate(size);
    } catch (const std::bad_alloc&) {
      return nullptr;
    } catch (const Exception& error) {
      if (error.code() != Code::kNoSpace) throw;
      return nullptr;
    }
  }
};

}  // namespace perdure::detail
