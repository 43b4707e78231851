// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/pool_core.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "perdure/base/crc32c.h"
#include "perdure/base/waiting.h"

namespace perdure {

constinit thread_local detail::LastUsed detail::last_used;

namespace {

std::atomic<std::uint64_t> fork_count{0};

/// Counts forks in the child, so that a pool that the parent opened knows that this is another
/// process.
std::uint64_t watch_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    ++fork_count;
    detail::last_used = {};
  });
  (void)registered;
  return fork_count.load(std::memory_order_relaxed);
}

std::uint64_t nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

}  // namespace

/// The contexts of a pool and who may have them, and so for its logs' slots. Outlives the pool while
/// a thread still holds a context.
///
/// A thread keeps the slot of its last update. Where the engine lends slots, and none is free,
/// another thread takes it from one that is in no transaction; or waits until one ends an update and
/// passes its slot on, first come, first served.
struct PoolCore::Hub {
  struct Owned {
    std::unique_ptr<Tx> tx;
    std::unique_ptr<Context> context;
  };
  struct Waiting {
    std::size_t slot = Tx::kNoSlot;  // that it was given
  };

  /// A slot that nobody uses; Tx::kNoSlot: there is none.
  std::size_t find_slot() {
    if (!free_slots.empty()) {
      const std::size_t slot = free_slots.back();
      free_slots.pop_back();
      return slot;
    }
    if (!lends_slots) return Tx::kNoSlot;
    for (const Owned& owned : contexts) {
      const std::size_t slot = owned.tx->take_slot_away();
      if (slot != Tx::kNoSlot) return slot;
    }
    return Tx::kNoSlot;
  }
  void give_back(std::size_t slot) {
    if (waiting.empty()) return free_slots.push_back(slot);
    waiting.front()->slot = slot;
    waiting.pop_front();
    passed_on.notify_all();
  }

  std::mutex mutex;
  std::vector<Owned> contexts;
  std::vector<Context*> idle;
  std::vector<std::size_t> free_slots;
  std::deque<Waiting*> waiting;
  std::condition_variable passed_on;
  bool lends_slots = false;
  bool closed = false;  // the pool is gone
};

/// Whether this thread's contexts were given back already. Destructors that run later, when the
/// thread or the program ends, get none.
thread_local constinit bool thread_has_ended = false;

/// The contexts that one thread holds, given back when the thread ends.
struct PoolCore::ThreadEntries {
  struct Entry {
    std::uint64_t pool;
    std::weak_ptr<Hub> hub;
    Context* context;
  };
  static ThreadEntries& of_this_thread() {
    thread_local ThreadEntries mine;
    return mine;
  }

  std::vector<Entry> entries;
  const std::uint64_t forks = watch_forks();

  ~ThreadEntries() {
    thread_has_ended = true;
    detail::last_used = {};
    // In a child the hubs are copies, whose locks may be held by threads that are not there.
    if (forks != fork_count.load(std::memory_order_relaxed)) return;
    for (const Entry& entry : entries) {
      const std::shared_ptr<Hub> hub = entry.hub.lock();
      if (hub == nullptr) continue;
      const std::lock_guard lock(hub->mutex);
      Tx& tx = entry.context->tx;
      if (!hub->closed) tx.give_back();
      if (hub->lends_slots) {
        if (const std::size_t slot = tx.let_slot_go(); slot != Tx::kNoSlot) hub->give_back(slot);
      }
      hub->idle.push_back(entry.context);
    }
  }
};

PoolCore::PoolCore(std::unique_ptr<Region> region, unsigned lock_bits)
    : region_(std::move(region)), locks_(lock_bits), fork_generation_(watch_forks()) {
  static std::atomic<std::uint64_t> next_id{1};
  id_ = next_id.fetch_add(1, std::memory_order_relaxed);
}

Result<std::unique_ptr<PoolCore>> PoolCore::open(std::unique_ptr<Region> region,
                                                 const EngineSource& source, unsigned lock_bits,
                                                 std::shared_ptr<void> storage,
                                                 std::vector<std::string>* findings) {
  std::unique_ptr<PoolCore> core(new PoolCore(std::move(region), lock_bits));
  core->storage_ = std::move(storage);
  // What was found wrong may come from a page that could not be read.
  const auto refused = [&](const Error& error) { return core->region_->loss().value_or(error); };
  // Before recovery writes to it. Who takes findings compares all pages.
  if (findings == nullptr) {
    if (auto whole = core->region_->check_sums_of_roots(); !whole) return refused(whole.error());
  }
  core->logs_ = std::make_unique<LogArea>(*core->region_, source.side_logs);
  if (auto opened = core->logs_->open(); !opened) return refused(opened.error());
  if (source.log_damage != nullptr) core->logs_->take_what_is_whole(*source.log_damage);
  core->heap_ = std::make_unique<Heap>(*core->region_);
  core->engine_ =
      source.make({core->region_.get(), &core->clock_, core->heap_.get(), core->logs_.get()});
  // No biased locking in an address space: settle() looks at the ownership records.
  const bool allows_biased_locking =
      core->region_->range_bytes() == ~std::uint64_t{0} && core->engine_->allows_biased_locking();
  const Superblock& super = core->region_->superblock();
  core->world_ = {.base = core->region_->base(),
                  .heap_begin = super.heap_offset,
                  .heap_end = &core->region_->grown_end(),
                  .region = core->region_.get(),
                  .locks = &core->locks_,
                  .clock = &core->clock_,
                  .heap = core->heap_.get(),
                  .engine = core->engine_.get(),
                  .range_bytes = core->region_->range_bytes(),
                  .biased_locking = allows_biased_locking ? &core->biased_locking_ : nullptr};

  const auto start = std::chrono::steady_clock::now();
  auto recovered = core->engine_->recover();
  if (!recovered) return refused(recovered.error());
  core->recovery_ = recovered.value();
  core->recovery_.nanoseconds = nanoseconds_since(start);
  core->recovery_.superblock_damaged = !core->region_->superblock_damage().empty();
  core->clock_.start_after(core->recovery_.last_stamp);

  const auto heap_start = std::chrono::steady_clock::now();
  if (auto opened = core->heap_->open(findings); !opened) return refused(opened.error());
  core->heap_nanoseconds_ = nanoseconds_since(heap_start);
  if (auto sound = core->check_roots(findings); !sound) return refused(sound.error());

  if (auto lost = core->region_->loss()) return *lost;
  if (auto begun = core->region_->begin_stores(); !begun) return begun.error();

  core->hub_ = std::make_shared<Hub>();
  core->hub_->lends_slots = has_barriers() && core->engine_->lends_slots();
  for (std::size_t slot = core->logs_->slot_count(); slot > 0; --slot)
    core->hub_->free_slots.push_back(slot - 1);
  return core;
}

PoolCore::~PoolCore() {
  if (hub_ == nullptr) return;  // never opened
  if (fork_generation_ != fork_count.load(std::memory_order_relaxed)) {
    // In the child what other threads were changing at the fork stays as they left it, half changed
    // perhaps: it is left alone, not destroyed.
    (void)engine_.release();
    (void)scrubber_.release();
    (void)logs_.release();
    (void)heap_.release();
    (void)new std::shared_ptr<Hub>(std::move(hub_));
    return;
  }
  {
    const std::lock_guard lock(hub_->mutex);
    hub_->closed = true;
  }
  scrubber_.reset();
  if (engine_->poisoned()) return;
  try {
    engine_->close();  // so that the next open has nothing to replay
    if (engine_->is_durable()) region_->rest();
    if (!logs_->is_unchanged() && engine_->is_durable()) logs_->begin_unchanged();
  } catch (const std::exception&) {
    // The storage failed just now, or memory. The logs still hold everything acknowledged.
  }
}

Result<void> PoolCore::scrub_every(Milliseconds interval) {
  if (interval.count == 0 || region_->sums() == nullptr || region_->domain() != DomainKind::kSync)
    return {};
  auto started = Scrubber::start(*region_, std::chrono::milliseconds(interval.count));
  if (!started) return started.error();
  scrubber_ = std::move(started).value();
  return {};
}

void PoolCore::refuse_after_fork() const {
  if (fork_generation_ != fork_count.load(std::memory_order_relaxed)) [[unlikely]]
    throw Exception(
        Code::kMisuse,
        region_->path() + ": opened before fork(); the child must open the pool itself");
}

PoolCore::Context& PoolCore::find_context(bool& inside_another) {
  if (thread_has_ended)
    throw Exception(Code::kMisuse,
                    region_->path() + ": used by what outlives the thread's transactions");
  refuse_after_fork();
  ThreadEntries& mine = ThreadEntries::of_this_thread();
  Context* found = nullptr;
  for (const ThreadEntries::Entry& entry : mine.entries) {
    if (entry.pool == id_) {
      found = entry.context;
    } else if (const std::shared_ptr<Hub> hub = entry.hub.lock()) {
      inside_another = inside_another || entry.context->tx.active();
    }
  }
  if (found == nullptr) {
    std::erase_if(mine.entries,
                  [](const ThreadEntries::Entry& entry) { return entry.hub.expired(); });
    found = &attach();
    mine.entries.push_back({id_, hub_, found});
  }
  inside_another = inside_another && !found->tx.active();
  // Inside a transaction on another pool, each one on this pool has to come here.
  if (!inside_another) detail::last_used = {id_, found};
  return *found;
}

PoolCore::Context& PoolCore::context() {
  bool inside_another = false;
  return find_context(inside_another);
}

PoolCore::Context& PoolCore::context_for(bool read_only) {
  bool inside_another = false;
  Context& mine = find_context(inside_another);
  if (inside_another && !read_only)
    throw Exception(Code::kMisuse,
                    region_->path() +
                        ": an update inside a transaction on another pool; that one may run again "
                        "after a conflict, and could not take this one back: run one after the "
                        "other, or keep both in one pool");
  return mine;
}

PoolCore::Context& PoolCore::attach() {
  const std::lock_guard lock(hub_->mutex);
  if (!hub_->idle.empty()) {
    Context* context = hub_->idle.back();
    hub_->idle.pop_back();
    context->tx.belongs_to_this_thread();
    return *context;
  }
  std::size_t slot = Tx::kNoSlot;
  if (!hub_->lends_slots) {
    slot = hub_->find_slot();
    if (slot == Tx::kNoSlot)
      throw Exception(Code::kMisuse,
                      region_->path() + ": more threads at the same time than the pool has logs (" +
                          std::to_string(logs_->slot_count()) +
                          "); raise log_slots with `perdure grow FILE --slots N`");
  }
  std::unique_ptr<Tx> tx;
  try {
    tx = engine_->make_tx(world_, slot);
  } catch (...) {
    if (slot != Tx::kNoSlot) hub_->free_slots.push_back(slot);
    throw;
  }
  Context* const older = newest_.load(std::memory_order_relaxed);
  auto made = std::make_unique<Context>(*tx, hub_->contexts.size(), older);
  if (world_.biased_locking != nullptr) world_.biased_locking->add(tx->place());
  Context& context = *made;
  hub_->contexts.push_back({std::move(tx), std::move(made)});
  // Release: whoever finds this context finds it whole. Sequentially consistent: before the thread's
  // first announcement.
  newest_.store(&context, std::memory_order_seq_cst);
  return context;
}

void PoolCore::take_slot(Context& context) {
  Tx& tx = context.tx;
  const auto patience_ends = std::chrono::steady_clock::now() + kSlotPatience;
  // A thread that is in no transaction passes nothing on: its slot has to be looked for.
  constexpr std::chrono::milliseconds kBetweenLooks(1);
  std::unique_lock lock(hub_->mutex);
  if (tx.has_slot()) return;  // who wanted to take it has found it in use
  Hub::Waiting me;
  if (hub_->waiting.empty()) me.slot = hub_->find_slot();
  if (me.slot == Tx::kNoSlot) {
    hub_->waiting.push_back(&me);
    slots_wanted_.fetch_add(1, std::memory_order_relaxed);
    while (me.slot == Tx::kNoSlot && std::chrono::steady_clock::now() < patience_ends) {
      hub_->passed_on.wait_for(lock, kBetweenLooks);
      if (hub_->waiting.empty() || hub_->waiting.front() != &me) continue;
      if (const std::size_t found = hub_->find_slot(); found != Tx::kNoSlot) hub_->give_back(found);
    }
    std::erase(hub_->waiting, &me);
    slots_wanted_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (me.slot != Tx::kNoSlot) return tx.give_slot(me.slot);
  tx.rest();
  throw Exception(
      Code::kBusy,
      region_->path() + ": " + std::to_string(logs_->slot_count()) +
          " updates, as many as the pool has logs, have been running for ten seconds; end "
          "some, or raise log_slots with `perdure grow FILE --slots N`");
}

void PoolCore::pass_slot_on(Context& context) {
  const std::lock_guard lock(hub_->mutex);
  if (hub_->waiting.empty()) return;
  if (const std::size_t slot = context.tx.let_slot_go(); slot != Tx::kNoSlot) hub_->give_back(slot);
}

void PoolCore::settle(Offset begin, std::uint64_t bytes) {
  const std::uint64_t retired = logs_->retired_timestamp();
  for (Offset line = round_down(begin, kLineBytes); line < begin + bytes; line += kLineBytes) {
    // Acquire: a transaction of any thread that ended before this call is seen. One that has the
    // lock now writes another line, or other words of this one; it hides when this line was written
    // last.
    const std::uint64_t orec = locks_.of(line).load(std::memory_order_acquire);
    if (LockTable::locked(orec) || LockTable::version(orec) > retired) return engine_->truncate();
  }
}

void PoolCore::quiesce(std::uint64_t timestamp) const {
  // Orders: the commit's timestamp, drawn before, and the announcements read below. Pairs with
  //         Tx::announce(): a transaction whose announcement is not seen here draws a snapshot that
  //         is not older than the timestamp.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Context* context = newest_.load(std::memory_order_acquire); context != nullptr;
       context = context->older) {
    const Tx& other = context->tx;
    for (unsigned waited = 0; other.announced() < timestamp; ++waited) {
      if (waited < 100) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
}

void PoolCore::begin(Context& context, bool read_only) {
  // After a few untracked attempts a reader remembers what it read, so that its snapshot can follow
  // the writers.
  if (!read_only && !context.tx.keep_slot()) [[unlikely]]
    take_slot(context);
  const bool tracked = !read_only || context.attempts > 2;
  context.tx.begin(read_only, tracked, context.attempts != 0);
}

void PoolCore::commit(Context& context, Durability durability) {
  Tx& tx = context.tx;
  if (lost_a_page()) [[unlikely]]
    throw Exception(*region_->loss());
  if (tx.doomed()) throw Conflict{};
  if ((tx.has_updates() || tx.has_volatile_updates()) && !tx.claim_commit()) throw Conflict{};
  if (tx.has_updates()) tx.collect_heap_writes();
  if (tx.nothing_to_log()) {  // nothing to make durable: no flush, no fence
    std::uint64_t timestamp = tx.snapshot();
    if (tx.has_volatile_updates()) {
      timestamp = clock_.draw().timestamp;
      tx.validate_at(timestamp);
    }
    tx.make_visible(timestamp);
    if (tx.seen() != 0 && durability == Durability::kStrict) {
      tx.let_go();
      engine_->await(tx.seen());
    }
    tx.finish();
  } else {
    engine_->commit(tx, tx.slot(), durability);
  }
  forget_attempts(context);
  pass_slot_on_if_wanted(context);
}

void PoolCore::abandon(Context& context) noexcept {
  const std::uint64_t seen = context.tx.seen();
  context.tx.roll_back();
  forget_attempts(context);
  pass_slot_on_if_wanted(context);
  if (seen == 0) return;
  try {
    engine_->await(seen);
  } catch (const std::exception&) {
    // The storage has failed. The exception that is under way goes on; the next call says it.
  }
}

void PoolCore::wait_for_starving(const Context& me) const {
  // The wait is bounded: the body of that transaction may wait for something that the calling
  // thread has.
  constexpr auto kCourtesy = std::chrono::seconds(1);
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned looked = 0;; ++looked) {
    const Context* const starving = starving_.load(std::memory_order_relaxed);
    if (starving == nullptr || starving == &me) return;
    if (looked < 100) {
      std::this_thread::yield();
    } else {
      if (std::chrono::steady_clock::now() - begin > kCourtesy) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

void PoolCore::retry_later(Context& context) {
  context.tx.roll_back();
  pass_slot_on_if_wanted(context);
  if (++context.attempts >= kPatience) {
    // Each of the others ends its transaction and then waits before the next, so the starving one
    // may be overtaken that often.
    const Context* nobody = nullptr;
    starving_.compare_exchange_strong(nobody, &context, std::memory_order_relaxed);
  }
  const unsigned attempt = context.attempts;
  if (attempt > 3) {
    // The rival may not even be running: on few cores, giving the core away is the best wait.
    std::this_thread::yield();
    return;
  }
  thread_local std::uint64_t random = reinterpret_cast<std::uint64_t>(&context) | 1;
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  for (std::uint64_t spins = random % (std::uint64_t{64} << attempt); spins > 0; --spins) {
    __builtin_ia32_pause();
  }
}

namespace detail {

PoolContext& context_of(PoolCore& core, bool read_only) { return core.context_for(read_only); }
void begin_attempt(PoolCore& core, PoolContext& context, bool read_only) {
  core.make_way(context);
  core.begin(context, read_only);
}
void commit_attempt(PoolCore& core, PoolContext& context, Durability durability) {
  core.commit(context, durability);
}
void retry_later(PoolCore& core, PoolContext& context) { core.retry_later(context); }
void abandon(PoolCore& core, PoolContext& context) {
  core.abandon(context);
  if (core.lost_a_page()) throw Exception(*core.region().loss());
}

}  // namespace detail

namespace {

std::uint64_t check_of_entry(const RootEntry& entry) {
  return crc32c(&entry, offsetof(RootEntry, check));
}

RootEntry* root_table(const TxWorld& world) {
  return reinterpret_cast<RootEntry*>(world.base + world.region->superblock().root_offset);
}

RootEntry read_entry(Tx& tx, const TxWorld& world, std::uint32_t index) {
  RootEntry entry;
  tx.read(&entry, root_table(world) + index, sizeof(entry));
  return entry;
}

/// An entry with the name filled in. Errors: throws Exception kInvalid.
RootEntry entry_named(std::string_view name) {
  if (name.empty() || name.size() > kRootNameBytes || name.find('\0') != std::string_view::npos)
    throw Exception(Code::kInvalid, "root name '" + std::string(name) +
                                        "': must have 1 to 32 bytes, none of them zero");
  RootEntry wanted{};
  std::copy(name.begin(), name.end(), wanted.name.begin());
  return wanted;
}

bool is_vacant(const RootEntry& entry) {
  const RootEntry vacant{};
  return std::memcmp(&entry, &vacant, sizeof(entry)) == 0;
}

bool is_whole(const RootEntry& entry) {
  return entry.name[0] != '\0' && entry.check == check_of_entry(entry);
}

Error damaged_entry(const Region& region, std::uint32_t index, const std::string& how) {
  return {Code::kCorrupt,
          region.path() + ": root table entry " + std::to_string(index) + " (byte " +
              std::to_string(region.superblock().root_offset + index * sizeof(RootEntry)) + ") " +
              how + "; restore the pool from a backup"};
}

/// Whether the entry is in use. Errors: throws Exception kCorrupt for one that is neither free nor
/// whole.
bool in_use(const RootEntry& entry, std::uint32_t index, const Region& region) {
  if (is_vacant(entry)) return false;
  if (is_whole(entry)) return true;
  throw Exception(damaged_entry(region, index, "fails its check"));
}

}  // namespace

Result<void> PoolCore::check_roots(std::vector<std::string>* findings) const {
  for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
    const RootEntry& entry = root_table(world_)[i];
    if (is_vacant(entry)) continue;
    std::string how;
    if (!is_whole(entry)) {
      how = "fails its check";
    } else if (!heap_->holds(entry.object, entry.bytes)) {
      how = "names " + std::to_string(entry.bytes) + " bytes at offset " +
            std::to_string(entry.object) + ", where the heap has no such object";
    }
    if (how.empty()) continue;
    Error error = damaged_entry(*region_, i, how);
    if (findings == nullptr) return error;
    findings->push_back(std::move(error.message));
  }
  return {};
}

std::optional<PoolCore::Root> PoolCore::find_root(Tx& tx, std::string_view name, std::uint64_t type,
                                                  std::uint64_t bytes, bool create) {
  RootEntry wanted = entry_named(name);
  std::optional<std::uint32_t> vacant;
  for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
    const RootEntry entry = read_entry(tx, world_, i);
    if (!in_use(entry, i, *region_)) {
      if (!vacant) vacant = i;
      continue;
    }
    if (entry.name != wanted.name) continue;
    const std::string where = region_->path() + ": root '" + std::string(name) + "'";
    if (type != 0 && (entry.type != type || entry.bytes != bytes))
      throw Exception(Code::kTypeMismatch,
                      where + " was created as another type (" + std::to_string(entry.bytes) +
                          " bytes), not as one of " + std::to_string(bytes) +
                          " bytes; open it as the type it has, or use another name");
    return Root{world_.base + entry.object, false};
  }
  if (!create) return std::nullopt;
  if (!vacant)
    throw Exception(Code::kNoSpace,
                    region_->path() + ": all " + std::to_string(region_->geometry().root_entries) +
                        " root entries are taken; raise them with `perdure grow FILE --roots N`");
  auto* object = static_cast<std::byte*>(tx.allocate(bytes));
  const std::vector<std::byte> zeroes(bytes);
  tx.write(object, zeroes.data(), bytes);
  wanted.type = type;
  wanted.object = static_cast<Offset>(object - world_.base);
  wanted.bytes = bytes;
  wanted.check = check_of_entry(wanted);
  tx.write(root_table(world_) + *vacant, &wanted, sizeof(wanted));
  return Root{object, true};
}

bool PoolCore::remove_root(Tx& tx, std::string_view name) {
  if (name.empty() || name.size() > kRootNameBytes) return false;
  const RootEntry wanted = entry_named(name);
  for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
    if (read_entry(tx, world_, i).name != wanted.name) continue;
    const RootEntry vacant{};
    tx.write(root_table(world_) + i, &vacant, sizeof(vacant));
    return true;
  }
  return false;
}

std::vector<RootEntry> PoolCore::roots(Tx& tx) {
  std::vector<RootEntry> found;
  for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
    const RootEntry entry = read_entry(tx, world_, i);
    if (is_whole(entry)) found.push_back(entry);
  }
  return found;
}

}  // namespace perdure
