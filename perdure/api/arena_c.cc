// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/arena_c.h.
#include "perdure/arena_c.h"

#include <cstring>
#include <string_view>

#include "perdure/api/c_face.h"
#include "perdure/arena.h"

using namespace perdure;  // NOLINT: this file is the C face of that namespace
using c_face::last_error;
using c_face::note;
using c_face::report;

struct perdure_arena {
  Arena arena;
};

namespace {

ArenaOptions options_of(const perdure_arena_settings* settings) {
  ArenaOptions options;
  if (settings == nullptr) return options;
  options.epoch = std::chrono::milliseconds(settings->epoch_ms);
  switch (settings->durable) {
    case PERDURE_ARENA_POWER: options.durable = ArenaDurable::kPower; break;
    case PERDURE_ARENA_PROCESS: options.durable = ArenaDurable::kProcess; break;
    default:
      throw Exception(Code::kInvalid, "perdure_arena_settings: durable is " +
                                          std::to_string(settings->durable) + ", must be 0 or 1");
  }
  switch (settings->tracking) {
    case PERDURE_ARENA_AUTO: options.tracking = ArenaTracking::kAuto; break;
    case PERDURE_ARENA_USERFAULT: options.tracking = ArenaTracking::kUserfault; break;
    case PERDURE_ARENA_MPROTECT: options.tracking = ArenaTracking::kMprotect; break;
    default:
      throw Exception(Code::kInvalid, "perdure_arena_settings: tracking is " +
                                          std::to_string(settings->tracking) + ", must be 0 to 2");
  }
  options.log_bytes = settings->log_bytes;
  options.accept_older = settings->accept_older != 0;
  if (settings->capacity_bytes != 0) options.capacity_bytes = settings->capacity_bytes;
  options.address = settings->address;
  if (settings->mode != 0) options.mode = settings->mode;
  return options;
}

perdure_arena* opened_by(Result<Arena> (*open)(const std::string&, const ArenaOptions&),
                         const char* path, const perdure_arena_settings* settings) {
  return report<perdure_arena*>(nullptr, [&] {
    if (path == nullptr) throw Exception(Code::kInvalid, "an arena without a path");
    return new perdure_arena{open(path, options_of(settings)).value()};
  });
}

/// As C++ programs know the type: without the keyword that C puts before it.
std::uint64_t type_of(const char* name, const char* type, std::size_t size) {
  if (name == nullptr || type == nullptr || size == 0)
    throw Exception(Code::kInvalid, "a root has a name, a type with a name, and a byte at least");
  std::string_view spelled(type);
  for (const std::string_view keyword : {"struct ", "union ", "enum "}) {
    if (spelled.starts_with(keyword)) spelled.remove_prefix(keyword.size());
  }
  return type_id_of(spelled, size);
}

}  // namespace

perdure_arena* perdure_arena_create(const char* path, const perdure_arena_settings* settings) {
  return opened_by(Arena::create, path, settings);
}
perdure_arena* perdure_arena_open(const char* path, const perdure_arena_settings* settings) {
  return opened_by(Arena::open, path, settings);
}
perdure_arena* perdure_arena_open_or_create(const char* path,
                                            const perdure_arena_settings* settings) {
  return opened_by(Arena::open_or_create, path, settings);
}

int perdure_arena_close(perdure_arena* arena) {
  return report(-1, [&] {
    if (arena != nullptr && arena->arena.entered_here())
      throw Exception(Code::kMisuse, "this thread has entered the arena; leave before closing it");
    delete arena;
    return 0;
  });
}

int perdure_arena_persist(perdure_arena* arena) {
  return report(-1, [&] {
    arena->arena.persist().value();
    return 0;
  });
}

void perdure_arena_enter(perdure_arena* arena) { arena->arena.enter(); }
void perdure_arena_leave(perdure_arena* arena) { arena->arena.leave(); }

void* perdure_arena_allocate(perdure_arena* arena, std::size_t size) {
  return perdure_arena_allocate_aligned(arena, size, alignof(std::max_align_t));
}
void* perdure_arena_allocate_aligned(perdure_arena* arena, std::size_t size,
                                     std::size_t alignment) {
  return report<void*>(nullptr, [&] {
    const auto guard = arena->arena.pause();
    return arena->arena.allocate(size, alignment);
  });
}
void* perdure_arena_resize(perdure_arena* arena, void* object, std::size_t size) {
  return report<void*>(nullptr, [&] {
    const auto guard = arena->arena.pause();
    return arena->arena.resize(object, size);
  });
}
void perdure_arena_free(perdure_arena* arena, void* object) {
  const auto guard = arena->arena.pause();
  arena->arena.deallocate(object);
}

void* perdure_arena_root(perdure_arena* arena, const char* name, const char* type,
                         std::size_t size) {
  return report<void*>(nullptr, [&] {
    void* const object = arena->arena.root_of(name, type_of(name, type, size));
    if (object == nullptr)
      note(ENOENT, "root \"" + std::string(name) + "\" was not set in this arena");
    return object;
  });
}
void* perdure_arena_make_root(perdure_arena* arena, const char* name, const char* type,
                              std::size_t size) {
  return report<void*>(nullptr, [&] {
    const std::uint64_t id = type_of(name, type, size);
    const auto guard = arena->arena.pause();
    if (void* object = arena->arena.root_of(name, id)) return object;
    void* const object = arena->arena.allocate(size);
    std::memset(object, 0, size);
    try {
      arena->arena.set_root_of(name, id, object);
    } catch (...) {
      arena->arena.deallocate(object);
      throw;
    }
    return object;
  });
}
int perdure_arena_set_root(perdure_arena* arena, const char* name, const char* type,
                           std::size_t size, void* object) {
  return report(-1, [&] {
    const auto guard = arena->arena.pause();
    arena->arena.set_root_of(name, type_of(name, type, size), object);
    return 0;
  });
}

struct perdure_arena_counts perdure_arena_stats(perdure_arena* arena) {
  const ArenaStats stats = arena->arena.epoch();
  const auto ns = [](std::chrono::nanoseconds time) {
    return static_cast<std::uint64_t>(time.count());
  };
  struct perdure_arena_counts told{};
  told.epoch = stats.epoch;
  told.ended = stats.ended;
  told.late = stats.late;
  told.written_pages = stats.written_pages;
  told.whole_pages = stats.whole_pages;
  told.blocks = stats.blocks;
  told.hot_pages = stats.hot_pages;
  told.log_bytes = stats.log_bytes;
  told.home_bytes = stats.home_bytes;
  told.pause_p50_ns = ns(stats.pause_p50);
  told.pause_p99_ns = ns(stats.pause_p99);
  told.pause_max_ns = ns(stats.pause_max);
  told.capacity_bytes = arena->arena.capacity();
  told.used_bytes = arena->arena.used_bytes();
  told.tracking = arena->arena.tracking() == ArenaTracking::kUserfault ? PERDURE_ARENA_USERFAULT
                                                                       : PERDURE_ARENA_MPROTECT;
  return told;
}

const char* perdure_arena_error() { return last_error.text.c_str(); }
