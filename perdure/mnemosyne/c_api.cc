// SPDX-License-Identifier: BSD-3-Clause
// The functions of perdure/mnemosyne.h.
#include <sys/mman.h>

#include <cstring>

#include "perdure/api/c_face.h"
#include "perdure/append_log.h"
#include "perdure/mnemosyne.h"
#include "perdure/mnemosyne/tm_thread.h"

using namespace perdure;  // NOLINT: this file is the C face of that namespace
using c_face::note;
using c_face::report;
using perdure::mnemosyne::space;

namespace {

/// Runs `body(tx)` in the compiled transaction that the thread is in, or as a transaction of its
/// own.
template <class T, class Body>
T in_transaction(T failed, Body body) {
  compiled::Thread& thread = compiled::Thread::self();
  if (!thread.active()) return report(failed, [&] { return space().pool().atomically(body); });
  // A conflict ends the attempt; every other failure is the caller's to handle, inside the
  // transaction.
  bool conflict = false;
  T result = failed;
  try {
    result = body(thread.tx());
  } catch (const Conflict&) {
    conflict = true;
  } catch (const Exception& error) {
    note(error.error());
  } catch (const std::bad_alloc&) {
    note(ENOMEM, "out of memory");
  }
  if (conflict) thread.guarded([](Tx&) { throw Conflict{}; });
  return result;
}

}  // namespace

struct perdure_log {
  Log log;
};

namespace {

/// Whether a pointer may be stored there by a transaction of its own.
bool receives_addresses(const void* variable) {
  return space().is_writable(space().fixed_address(variable), sizeof(void*));
}

}  // namespace

// ---- heap ---------------------------------------------------------------------------------------

void* perdure_pmalloc(std::size_t size, void* pointer) {
  compiled::Thread& thread = compiled::Thread::self();
  const bool on_own_stack = thread.active() && thread.on_own_stack(pointer);
  if (!thread.active() && !receives_addresses(pointer)) {
    note(EINVAL,
         "pmalloc: the variable that receives the address must be persistent itself and writable; "
         "else a crash would leak the memory (inside a transaction it may be a local variable)");
    return nullptr;
  }
  if (thread.active() && thread.irrevocable())
    mnemosyne::stop("pmalloc in an irrevocable transaction, which cannot be durable");
  return in_transaction<void*>(nullptr, [&](Tx& tx) {
    void* const object = tx.allocate(size);
    if (on_own_stack) {
      thread.before_direct_store(pointer, sizeof(object));
      std::memcpy(pointer, &object, sizeof(object));
    } else {
      tx.write_exact(space().fixed_address(pointer), &object, sizeof(object));
    }
    return object;
  });
}

int perdure_pfree(void* pointer) {
  compiled::Thread& thread = compiled::Thread::self();
  const bool on_own_stack = thread.active() && thread.on_own_stack(pointer);
  if (thread.active() && thread.irrevocable())
    mnemosyne::stop("pfree in an irrevocable transaction, which cannot be durable");
  const bool is_volatile = !space().contains(pointer);
  if (!is_volatile && !thread.active() && !receives_addresses(pointer)) {
    note(EINVAL, "pfree: the pointer variable is not in memory that can be written to");
    return -1;
  }
  void* const nothing = nullptr;
  const int status = in_transaction<int>(-1, [&](Tx& tx) {
    void* object = nullptr;
    if (on_own_stack) {
      std::memcpy(&object, pointer, sizeof(object));
    } else {
      tx.read_exact(&object, space().fixed_address(pointer), sizeof(object));
    }
    if (object == nullptr) return 0;
    try {
      tx.free(object);
    } catch (const Exception& error) {
      if (error.code() != Code::kMisuse) throw;
      throw Exception(Code::kInvalid, error.error().message);
    }
    if (on_own_stack) {
      thread.before_direct_store(pointer, sizeof(object));
      std::memcpy(pointer, &nothing, sizeof(nothing));
    } else if (thread.active() || !is_volatile) {
      tx.write_exact(space().fixed_address(pointer), &nothing, sizeof(nothing));
    }
    return 0;
  });
  // Not before the memory is given back: a failure leaves the variable alone.
  if (status == 0 && is_volatile && !thread.active())
    std::memcpy(pointer, &nothing, sizeof(nothing));
  return status;
}

// What compiled transactions call: the clones of the two, by the names that gcc gives them. If the
// two were "pure" functions, which have no clones, gcc would leave out a transaction that does
// nothing but allocate and free, and each call would take effect on its own.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {
void* _ZGTt15perdure_pmalloc(std::size_t size, void* pointer) {
  return perdure_pmalloc(size, pointer);
}
int _ZGTt13perdure_pfree(void* pointer) { return perdure_pfree(pointer); }
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)

// ---- regions ------------------------------------------------------------------------------------

void* perdure_pmap(void* address, std::size_t length, int protection, int flags) {
  if ((flags & ~(MAP_FIXED | MAP_SHARED)) != 0) {
    note(EINVAL, "pmap: flags may be 0 or MAP_FIXED");
    return nullptr;
  }
  return report<void*>(nullptr, [&] {
    return space()
        .map(static_cast<void**>(address), length, protection, (flags & MAP_FIXED) != 0)
        .value();
  });
}

int perdure_punmap(void* address, std::size_t length) {
  return report(-1, [&] {
    space().unmap(address, length).value();
    return 0;
  });
}

// ---- primitives ---------------------------------------------------------------------------------

namespace {

/// The words that [to, to + size) touches, with the new bytes merged in by `put(word address,
/// value, mask)`.
template <class Put>
void for_each_word(void* to, const void* from, std::size_t size, Put put) {
  auto* at = reinterpret_cast<std::byte*>(space().fixed_address(to));
  if (!space().contains(at)) mnemosyne::stop("store or wtstore to memory that is not persistent");
  const auto* in = static_cast<const std::byte*>(from);
  while (size > 0) {
    const std::size_t skip = reinterpret_cast<std::uintptr_t>(at) % kWordBytes;
    const std::size_t here = std::min(size, kWordBytes - skip);
    Word piece = 0;
    std::memcpy(&piece, in, here);
    put(reinterpret_cast<Word*>(at - skip), piece << (8 * skip), byte_mask(skip, here));
    at += here;
    in += here;
    size -= here;
  }
}

void merge_word(AnyDomain& domain, Word* word, Word value, Word mask) {
  if (mask == kWholeWord) return domain.store(word, value);
  domain.merge(word, value, mask);
}

/// What goes past the transactions must not be undone by their records.
void settle(const void* address, std::size_t size) {
  const std::byte* const at = space().fixed_address(static_cast<const std::byte*>(address));
  if (!space().contains(at)) return;  // the caller says so
  try {
    core_of(space().pool()).settle(static_cast<Offset>(at - space().base()), size);
  } catch (const Exception& error) {
    mnemosyne::stop(error.what());
  }
}

}  // namespace

void perdure_store(void* to, const void* from, std::size_t size) {
  AnyDomain domain(core_of(space().pool()).engine());
  for_each_word(to, from, size,
                [&](Word* word, Word value, Word mask) { merge_word(domain, word, value, mask); });
}

void perdure_wtstore(void* to, const void* from, std::size_t size) {
  settle(to, size);
  AnyDomain domain(core_of(space().pool()).engine());
  for_each_word(to, from, size, [&](Word* word, Word value, Word mask) {
    if (mask == kWholeWord) return domain.write_through(word, &value, 1, Site::kUserFlush);
    merge_word(domain, word, value, mask);
    domain.flush(word, kWordBytes, Site::kUserFlush);
  });
}

void perdure_flush(const void* address) {
  if (!space().contains(address)) mnemosyne::stop("flush of memory that is not persistent");
  settle(address, 1);
  core_of(space().pool()).engine().flush(space().fixed_address(address), 1, Site::kUserFlush);
}

void perdure_fence() {
  if (!core_of(space().pool()).engine().fence(Site::kUserFence))
    mnemosyne::stop("a write or sync to the storage failed; what was acknowledged before is safe");
}

// ---- logs ---------------------------------------------------------------------------------------

perdure_log* perdure_log_create(const char* name, std::size_t size, int flags,
                                perdure_log_callback recover, void* argument) {
  if (name == nullptr || (flags & ~PERDURE_LOG_TRUNCATE) != 0) {
    note(EINVAL, "log_create: needs a name, and flags 0 or PERDURE_LOG_TRUNCATE");
    return nullptr;
  }
  return report<perdure_log*>(nullptr, [&] {
    auto log = std::make_unique<perdure_log>(
        perdure_log{Log::open_or_create(space().pool(), name, size).value()});
    if (recover != nullptr) {
      log->log.for_each([&](std::span<const std::byte> record) {
        recover(record.data(), record.size(), argument);
      });
    }
    if ((flags & PERDURE_LOG_TRUNCATE) != 0) log->log.truncate();
    return log.release();
  });
}

int perdure_log_append(perdure_log* log, const void* record, std::size_t size) {
  return report(-1, [&] {
    if (log->log.append(record, size)) return 0;
    note(ENOSPC, "log_append: the log is full; log_truncate() it, or make a larger one");
    return -1;
  });
}

int perdure_log_flush(perdure_log* log) {
  return report(-1, [&] {
    log->log.flush();
    return 0;
  });
}

int perdure_log_truncate(perdure_log* log) {
  return report(-1, [&] {
    log->log.truncate();
    return 0;
  });
}

void perdure_log_close(perdure_log* log) { delete log; }

// ---- beside the paper ---------------------------------------------------------------------------

void* perdure_fixed_address(const void* address) {
  return const_cast<void*>(space().fixed_address(address));
}
int perdure_is_persistent(const void* address) { return space().contains(address) ? 1 : 0; }

int perdure_set_truncation(const char* when) {
  for (const Truncation each : {Truncation::kAuto, Truncation::kEachCommit, Truncation::kNextCommit,
                                Truncation::kWhenFull, Truncation::kBackground}) {
    if (when == nullptr || truncation_name(each) != when) continue;
    return report(-1, [&] {
      space().pool().set_truncation(each);
      return 0;
    });
  }
  note(EINVAL, "perdure_set_truncation: auto, each-commit, next-commit, when-full or background");
  return -1;
}

const char* perdure_error() { return c_face::last_error.text.c_str(); }
const char* perdure_guarantee() { return space().pool().guarantee().data(); }
