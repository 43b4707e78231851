// SPDX-License-Identifier: BSD-3-Clause
// Opening an object heap: checks that it is one and that the program's classes fit, and completes
// what a crash interrupted.
#include <algorithm>
#include <cstring>
#include <set>

#include "perdure/object/core.h"

namespace perdure::detail {

using object_layout::Control;
using object_layout::OrphanTable;
using object_layout::TypeRecord;

namespace {

Error corrupt(Pool& pool, const std::string& what) {
  return {Code::kCorrupt, core_of(pool).region().path() + ": " + what +
                              "; `perdure check` tells more, restore the heap from a backup"};
}

/// Classes are known by their names, and their descriptions have words.
Result<void> check_names(const std::string& path, const std::vector<TypeInfo>& types) {
  std::set<std::string> names;
  for (const TypeInfo& type : types) {
    if (type.name.empty() || type.name.find_first_of(" \t\n") != std::string::npos)
      return Error{Code::kMisuse, path + ": the class name '" + type.name +
                                      "' is empty or has spaces; choose another persistent_name"};
    if (!names.insert(type.name).second)
      return Error{Code::kMisuse, path + ": two classes are called " + type.name +
                                      "; give one another persistent_name"};
  }
  return {};
}

}  // namespace

ObjectCore::ObjectCore(Pool& pool, std::vector<TypeInfo> types, std::vector<const void*> keys)
    : pool_(&pool),
      types_(std::move(types)),
      keys_(std::move(keys)),
      first_object_(core_of(pool).region().superblock().heap_offset + object_layout::kHeaderBytes),
      handles_(new HandleTable(*this)) {}

Result<std::unique_ptr<ObjectCore>> ObjectCore::open(Pool& pool, std::vector<TypeInfo> types,
                                                     std::vector<const void*> keys, bool create,
                                                     const ObjectOptions& options) {
  const std::string& path = core_of(pool).region().path();
  if (options.deaths_at_once == 0)
    return Error{Code::kInvalid, path + ": deaths_at_once is 0, must be at least 1"};
  if (Session::current != nullptr)
    return Error{Code::kMisuse, path + ": a heap is opened inside a transaction on objects"};
  if (auto named = check_names(path, types); !named) return named.error();
  try {
    std::unique_ptr<ObjectCore> core(new ObjectCore(pool, std::move(types), std::move(keys)));
    if (!core->claim())
      return Error{Code::kBusy, path + ": an object heap is open on this pool already"};
    core->options_ = options;
    core->control_ = create ? pool.root<Control>(object_layout::kControlRoot)
                            : pool.find_root<Control>(object_layout::kControlRoot);
    Control control{};
    if (core->control_ != nullptr)
      pool.read_only([&](Tx& tx) { tx.read(&control, core->control_, sizeof(control)); });
    // The root was made, and then the process died before anything else.
    if (control.magic == 0 && !create)
      return Error{Code::kNotFound,
                   path + ": a pool without objects; make a heap in it with open_or_create"};
    if (control.magic == 0) {
      core->create();
    } else if (control.magic != object_layout::kMagic) {
      return corrupt(pool, "the root 'objects' is not that of an object heap");
    } else if (control.version > object_layout::kVersion) {
      return Error{Code::kVersion, path + ": the objects are of version " +
                                       std::to_string(control.version) +
                                       ", this library knows version " +
                                       std::to_string(object_layout::kVersion) + "; update it"};
    }
    core->judge_types();
    core->find_orphan_tables();
    core->go_on();
    return core;
  } catch (const Exception& exception) {
    return exception.error();
  }
}

namespace {

// Which pools of this process have a heap open.
std::mutex claims_mutex;
std::set<const PoolCore*>& claims() {
  static std::set<const PoolCore*> all;
  return all;
}

}  // namespace

bool ObjectCore::claim() {
  const std::lock_guard lock(claims_mutex);
  return claimed_ = claims().insert(&core_of(*pool_)).second;
}

ObjectCore::~ObjectCore() {
  handles_->close();
  const std::lock_guard lock(claims_mutex);
  if (claimed_) claims().erase(&core_of(*pool_));
}

void ObjectCore::create() {
  numbers_.clear();
  for (std::size_t i = 0; i < types_.size(); ++i)
    numbers_.push_back(static_cast<std::uint16_t>(i + 1));
  run_own(
      [&](Session& session) {
        for (const TypeInfo& type : types_) record_type(session, type);
        const Offset root = make(0, types_[0].bytes);
        add_reference(session, root);
        session.store(control_->root, root);
        session.store(control_->version, std::uint64_t{object_layout::kVersion});
        session.store(control_->magic, Word{object_layout::kMagic});
      },
      false, Durability::kStrict);
}

void ObjectCore::record_type(Session& session, const TypeInfo& type) {
  const std::string text = type.text();
  auto* const record =
      static_cast<TypeRecord*>(allocate(session, sizeof(TypeRecord) + text.size()));
  const TypeRecord head{session.load(control_->types), text.size()};
  session.tx->write(record, &head, sizeof(head));
  session.tx->write(record + 1, text.data(), text.size());
  session.store(control_->types, session.offset_of(record));
}

std::vector<TypeInfo> recorded_types(Pool& pool, Tx& tx, const Control& control,
                                     std::vector<Offset>* places) {
  std::vector<TypeInfo> found;
  const std::byte* const base = core_of(pool).world().base;
  const Heap& heap = core_of(pool).heap();
  for (Offset at = tx.load(control.types); at != 0;) {
    if (!heap.holds(at, sizeof(TypeRecord)) || found.size() == object_layout::kMostTypes)
      throw Exception(corrupt(
          pool, "the list of classes leads to byte " + std::to_string(at) + ", where none is"));
    TypeRecord record{};
    tx.read(&record, base + at, sizeof(record));
    if (record.bytes > (1 << 20) || !heap.holds(at, sizeof(TypeRecord) + record.bytes))
      throw Exception(corrupt(pool, "the description of a class at byte " + std::to_string(at) +
                                        " is longer than its place"));
    std::string text(record.bytes, '\0');
    tx.read(text.data(), base + at + sizeof(record), text.size());
    auto type = TypeInfo::parse(text);
    if (!type) throw Exception(corrupt(pool, type.error().message));
    found.push_back(std::move(type).value());
    if (places != nullptr) places->push_back(at);
    at = record.next;
  }
  // The newest is the first in the list; numbers were given in the other order.
  std::reverse(found.begin(), found.end());
  if (places != nullptr) std::reverse(places->begin(), places->end());
  return found;
}

void ObjectCore::judge_types() {
  std::vector<Offset> places;
  const auto recorded = pool_->read_only([&](Tx& tx) {
    places.clear();
    return recorded_types(*pool_, tx, *control_, &places);
  });
  const std::string& path = core_of(*pool_).region().path();
  std::vector<std::size_t> fresh;
  std::vector<std::pair<std::size_t, std::size_t>> changed;  // the program's, the heap's
  numbers_.assign(types_.size(), 0);
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const auto at = std::find_if(recorded.begin(), recorded.end(),
                                 [&](const TypeInfo& type) { return type.name == types_[i].name; });
    if (at == recorded.end()) {
      fresh.push_back(i);
      continue;
    }
    const auto index = static_cast<std::size_t>(at - recorded.begin());
    numbers_[i] = static_cast<std::uint16_t>(index + 1);
    if (at->text() == types_[i].text()) continue;
    if (!types_[i].can_stand_for(*at))
      throw Exception(Code::kTypeMismatch,
                      path + ": the heap's class " + at->name +
                          " is not the program's:" + types_[i].difference(*at) +
                          "\n  copy the objects into a new heap (docs/OBJECTS.md, \"When a class "
                          "changes\"), or use the program that wrote it");
    changed.emplace_back(i, index);
  }
  // Judged before anything is written.
  const Offset root = pool_->read_only([&](Tx& tx) { return tx.load(control_->root); });
  const std::byte* const base = core_of(*pool_).world().base;
  if (root < first_object_ || !core_of(*pool_).heap().holds(root - object_layout::kHeaderBytes, 16))
    throw Exception(corrupt(*pool_, "the heap's root is not an object"));
  const Word state = pool_->read_only([&](Tx& tx) {
    return tx.load(reinterpret_cast<const object_layout::Header*>(base + root - 16)->state);
  });
  if (object_layout::type_of(state) != numbers_[0]) {
    const std::size_t number = object_layout::type_of(state);
    throw Exception(
        Code::kTypeMismatch,
        path + ": the heap's root is of the class " +
            (number >= 1 && number <= recorded.size() ? recorded[number - 1].name : "(unknown)") +
            ", not " + types_[0].name + "; open it as object_heap of that class");
  }

  for (std::size_t i = 0; i < fresh.size(); ++i)
    numbers_[fresh[i]] = static_cast<std::uint16_t>(recorded.size() + 1 + i);
  if (recorded.size() + fresh.size() > object_layout::kMostTypes)
    throw Exception(Code::kNoSpace, path + ": more than 65535 classes");
  run_own(
      [&](Session& session) {
        for (const std::size_t i : fresh) record_type(session, types_[i]);
        for (const auto& [mine, theirs] : changed) {
          // The same place in the list, the same number: the text alone is new.
          const std::string text = types_[mine].text();
          auto* const record =
              static_cast<TypeRecord*>(allocate(session, sizeof(TypeRecord) + text.size()));
          auto* const old = reinterpret_cast<TypeRecord*>(session.base + places[theirs]);
          const TypeRecord head{session.load(old->next), text.size()};
          session.tx->write(record, &head, sizeof(head));
          session.tx->write(record + 1, text.data(), text.size());
          Offset* before = &control_->types;
          while (session.load(*before) != places[theirs])
            before = &reinterpret_cast<TypeRecord*>(session.base + session.load(*before))->next;
          session.store(*before, session.offset_of(record));
          free(session, old);
        }
        session.store(control_->generation, session.load(control_->generation) + 1);
      },
      false, Durability::kStrict);
  recovery_.generation = pool_->read_only([&](Tx& tx) { return tx.load(control_->generation); });
  by_number_.assign(recorded.size() + fresh.size() + 1, nullptr);
  for (std::size_t i = 0; i < types_.size(); ++i) by_number_[numbers_[i]] = &types_[i];
}

void ObjectCore::find_orphan_tables() {
  const std::byte* const base = core_of(*pool_).world().base;
  pool_->read_only([&](Tx& tx) {
    orphan_tables_.clear();
    for (Offset at = tx.load(control_->orphans); at != 0;) {
      if (!core_of(*pool_).heap().holds(at, sizeof(OrphanTable)) ||
          orphan_tables_.size() > (1 << 24))
        throw Exception(corrupt(*pool_, "the list of orphans leads to byte " + std::to_string(at) +
                                            ", where none are"));
      orphan_tables_.push_back(at);
      at = tx.load(reinterpret_cast<const OrphanTable*>(base + at)->next);
    }
  });
  std::reverse(orphan_tables_.begin(), orphan_tables_.end());
  const std::size_t places = orphan_tables_.size() * OrphanTable::kSlots;
  free_places_.reserve(places);
  pool_->read_only([&](Tx& tx) {
    free_places_.clear();
    for (std::size_t place = places; place-- > 0;) {
      if (tx.load(place_at(static_cast<std::uint32_t>(place))) == 0)
        free_places_.push_back(static_cast<std::uint32_t>(place));
    }
  });
}

/// A destructor that throws does not keep the heap from opening.
template <class Work>
void ObjectCore::go_on_with(Work work) {
  try {
    work();
  } catch (const Exception& exception) {
    if (exception.code() != Code::kMisuse && exception.code() != Code::kInvalid) throw;
    ++recovery_.failed;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    ++recovery_.failed;
  }
}

void ObjectCore::go_on() {
  for (std::size_t i = 0; i < object_layout::kStripes; ++i) {
    if (pool_->read_only([&](Tx& tx) { return tx.load(control_->stripes[i].dead); }) == 0) continue;
    ++recovery_.lists;
    go_on_with([&] { end_dead_list(i); });
  }
  const std::size_t places = orphan_tables_.size() * OrphanTable::kSlots;
  for (std::uint32_t place = 0; place < places; ++place) {
    const Offset orphan = pool_->read_only([&](Tx& tx) { return tx.load(place_at(place)); });
    if (orphan == 0) continue;
    ++recovery_.orphans;
    go_on_with([&] {
      run_own(
          [&](Session& session) {
            require_object(session, orphan, 0);
            if (!is_orphan(session, orphan))
              throw Exception(corrupt(*pool_, "the table of orphans names byte " +
                                                  std::to_string(orphan) + ", where none is"));
            consider(session, orphan);
          },
          false, Durability::kStrict);
    });
  }
  recovery_.ended = ended_.load(std::memory_order_relaxed);
}

}  // namespace perdure::detail
