// SPDX-License-Identifier: BSD-3-Clause
// What of an epoch is neither memory, thread nor file (object_layout.h), as a reader sees it.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/run/layout.h"

namespace perdure::run {

/// A record's fixed part. False: there is less.
template <class T>
bool take(std::span<const char> payload, T& value) {
  if (payload.size() < sizeof value) return false;
  std::memcpy(&value, payload.data(), sizeof value);
  return true;
}

struct ObjectPiece {
  std::uint64_t offset;
  std::string bytes;
};

struct Object {
  ObjectRecord record;
  std::string detail;
  std::vector<ObjectPiece> pieces;

  /// The detail as an array; whole numbers of T are checked when it is read.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(detail.data()), detail.size() / sizeof(T)};
  }
};

struct Belongings {
  std::vector<Object> objects;
  std::optional<AttributesRecord> attributes;
  std::string program;  // path
  std::vector<TaskRecord> tasks;
  std::vector<TimerRecord> timers;
  std::vector<LockRecord> locks;

  const Object* object(std::int32_t descriptor) const;
};

/// Adds a record of these kinds. False: it cannot be true, or is of another kind. Not to be used further after false.
bool take_belonging(RecordKind kind, std::span<const char> payload, Belongings& belongings);

}  // namespace perdure::run
