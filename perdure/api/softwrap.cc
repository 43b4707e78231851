// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/softwrap.h.
#include "perdure/softwrap.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "perdure/api/c_face.h"
#include "perdure/api/pool_core.h"
#include "perdure/expert.h"
#include "perdure/wraps.h"

using namespace perdure;  // NOLINT: this file is the C face of that namespace
using c_face::last_error;
using c_face::note;
using c_face::report;

namespace {

struct Attached {
  explicit Attached(Pool opened) : pool(std::move(opened)) {}
  Pool pool;
  std::optional<Wraps> wraps;
};
std::unique_ptr<Attached> attached;  // NOLINT: a process has one

Attached& here() {
  if (attached == nullptr)
    throw Exception(Code::kMisuse, "no pool is attached; call wrapAttach(path, settings) first");
  return *attached;
}
Wraps& wraps() { return *here().wraps; }

/// The first of `kinds` whose name is `name`; `fallback` for null.
/// Errors: throws Exception kInvalid.
template <class Kind, std::size_t kCount, class Name>
Kind choice(const char* what, const char* name, Kind fallback,
            const std::array<Kind, kCount>& kinds, Name name_of) {
  if (name == nullptr) return fallback;
  std::string known;
  for (const Kind kind : kinds) {
    if (name_of(kind) == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  throw Exception(Code::kInvalid, std::string(what) + " '" + name + "' is not one of " + known);
}

void set(std::uint64_t& option, std::size_t setting) {
  if (setting != 0) option = setting;
}

std::unique_ptr<Attached> attach(const char* path, const perdure_wrap_settings& asked) {
  if (path == nullptr) throw Exception(Code::kInvalid, "wrapAttach: no path");
  ExpertOptions options;
  options.placement = choice("placement", asked.placement, Placement::kPrivatePages,
                             std::array{Placement::kPrivatePages, Placement::kShared},
                             placement_name);
  options.domain = choice("domain", asked.domain, DomainKind::kAuto,
                          std::array{DomainKind::kAuto, DomainKind::kAdr, DomainKind::kEadr,
                                     DomainKind::kSync, DomainKind::kDram},
                          domain_name);
  set(options.capacity_bytes, asked.capacity);
  WrapSettings settings;
  set(settings.open.words, asked.words);
  set(settings.open.pages, asked.pages);
  set(settings.open.page_bytes, asked.page_bytes);
  set(settings.threshold, asked.threshold);
  if (asked.patience_ms != 0) settings.patience = std::chrono::milliseconds(asked.patience_ms);

  auto opened = std::make_unique<Attached>(Pool::open_or_create(path, options).value());
  const Region& region = core_of(opened->pool).region();
  const std::uint64_t wanted = region.superblock().preferred_base;
  if (reinterpret_cast<std::uint64_t>(region.base()) != wanted)
    throw Exception(Code::kBusy,
                    std::string(path) +
                        ": the addresses that pointers in it name are taken in this process, by "
                        "another pool perhaps; close that one first");
  opened->wraps.emplace(opened->pool, settings);
  return opened;
}

constexpr std::uint64_t kRootType = 0x7065726475726557;  // of every root that this face makes

bool is_scalar(std::size_t size) {
  if (size >= 1 && size <= sizeof(std::uint64_t)) return true;
  note(EINVAL, "a scalar has 1 to 8 bytes, not " + std::to_string(size) +
                   "; use wrapRead() and wrapWrite() for extents");
  return false;
}

}  // namespace

int perdure_wrap_attach(const char* path, const perdure_wrap_settings* settings) {
  return report(-1, [&] {
    if (attached != nullptr)
      throw Exception(Code::kBusy,
                      core_of(attached->pool).region().path() +
                          " is attached already, and a process has one; call wrapDetach() first");
    attached = attach(path, settings != nullptr ? *settings : perdure_wrap_settings{});
    return 0;
  });
}

int perdure_wrap_detach() {
  return report(-1, [] {
    if (here().wraps->depth() != 0)
      throw Exception(Code::kMisuse, "this thread has a wrap open; close it before wrapDetach()");
    attached.reset();
    return 0;
  });
}

void* perdure_wrap_root(const char* name, std::size_t size) {
  return report<void*>(nullptr, [&] {
    Pool& pool = here().pool;
    if (name == nullptr || size == 0)
      throw Exception(Code::kInvalid, "wrapRoot: a root has a name, and a byte at least");
    return pool.atomically([&](Tx& tx) {
      const std::optional<PoolCore::Root> root =
          core_of(pool).find_root(tx, name, kRootType, size, true);
      return root->object;
    });
  });
}

int perdure_wrap_open(int options) {
  return report(-1, [&] {
    if ((options & ~(PERDURE_WRAP_LOCAL | PERDURE_WRAP_RELAXED)) != 0)
      throw Exception(Code::kInvalid, "wrapOpen: no such options: " + std::to_string(options));
    wraps().open({(options & PERDURE_WRAP_LOCAL) != 0, (options & PERDURE_WRAP_RELAXED) != 0
                                                           ? Durability::kRelaxed
                                                           : Durability::kStrict});
    return 0;
  });
}

int perdure_wrap_close() {
  return report(-1, [] {
    wraps().close();
    return 0;
  });
}

void perdure_wrap_abort() {
  if (attached != nullptr) attached->wraps->abort();
}

unsigned perdure_wrap_depth() { return attached != nullptr ? attached->wraps->depth() : 0; }

std::uint64_t perdure_wrap_load(const void* from, std::size_t size) {
  std::uint64_t word = 0;
  if (!is_scalar(size) || perdure_wrap_read(&word, from, size) != 0) {
    std::fprintf(stderr, "perdure: wrapLoad: %s\n", last_error.text.c_str());
    std::abort();
  }
  return word;
}

int perdure_wrap_store(void* to, std::uint64_t value, std::size_t size) {
  return is_scalar(size) ? perdure_wrap_write(to, &value, size) : -1;
}

int perdure_wrap_read(void* to, const void* from, std::size_t size) {
  return report(-1, [&] {
    wraps().read(to, from, size);
    return 0;
  });
}

int perdure_wrap_write(void* to, const void* from, std::size_t size) {
  return report(-1, [&] {
    wraps().write(to, from, size);
    return 0;
  });
}

void* perdure_wrap_malloc(std::size_t size) {
  return report<void*>(nullptr, [&] { return wraps().allocate(size); });
}

int perdure_wrap_free(void* object) {
  return report(-1, [&] {
    wraps().free(object);
    return 0;
  });
}

const char* perdure_wrap_error() { return last_error.text.c_str(); }

const char* perdure_wrap_guarantee() {
  return attached != nullptr ? attached->pool.guarantee().data() : nullptr;
}
