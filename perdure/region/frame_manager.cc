// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/frame_manager.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <tuple>
#include <utility>

namespace perdure {
namespace {

constexpr std::size_t kBatch = 32;          // frames evicted together, under one sync
constexpr std::size_t kMaxInactive = 1024;  // enough to see who is touched again
constexpr std::uint64_t kMappingsForOthers = 1024;
constexpr std::uint64_t kFewestMappings = 16;

/// What vm.max_map_count leaves to this process, less some for what it maps later.
std::uint64_t mappings_left() {
  std::uint64_t limit = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  std::ifstream maps("/proc/self/maps");
  const auto used = static_cast<std::uint64_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
  const std::uint64_t taken = used + kMappingsForOthers;
  return std::max(kFewestMappings, limit > taken ? limit - taken : 0);
}

std::byte* page_around(std::byte* address) {
  return address - reinterpret_cast<std::uintptr_t>(address) % kPageBytes;
}

}  // namespace

FrameManager::FrameManager(std::string path, std::uint64_t max_mappings)
    : path_(std::move(path)), max_mappings_(max_mappings) {}

FrameManager::~FrameManager() {
  const bool owner = owner_pid_ == ::getpid();
  if (owner) {
    // First: who waited for a fault goes on while its server is still on the way out.
    if (faults_ != nullptr) faults_->stop();
    for (const auto& [address, view] : views_)
      ::munmap(view.address, round_up(view.bytes, frame_bytes_));
  } else {
    // A forked child: the threads, and the locks that they wait for, are the parent's.
    std::ignore = faults_.release();
  }
  // Said aloud, because a forked child that lives on keeps the descriptor, and with it the lock.
  if (owner && fd_.get() >= 0) ::flock(fd_.get(), LOCK_UN);
  if (owner && base_ != nullptr) ::munmap(base_, mapped_bytes_);
}

/// The pool's file, locked, and what its superblock says.
Result<LockedFile> FrameManager::open_pool(bool inspect, FrameSuperblock& super) {
  auto locked = open_locked(path_, inspect);
  if (!locked) return locked.error();
  const std::uint64_t file_bytes = locked->bytes;
  std::byte head[sizeof(FrameSuperblock)] = {};
  if (!read_at(locked->fd.get(), head, std::min<std::uint64_t>(file_bytes, sizeof(head)), 0))
    return io_error(path_ + ": reading the superblock");
  auto checked = check_frame_superblock(head, file_bytes, path_);
  if (!checked) return checked.error();
  super = checked.value();
  frame_bytes_ = super.geometry.frame_bytes;
  if (frame_bytes_ < kPageBytes)
    return Error{Code::kInvalid, path_ + ": its frames of " + std::to_string(frame_bytes_) +
                                     " bytes are smaller than a page and cannot be mapped"};
  return locked;
}

/// Maps tables and frames, all of them, for this code alone: it never touches an attached address.
/// Then rebuilds the index.
Result<void> FrameManager::reconstruct(const FrameSuperblock& super) {
  mapped_bytes_ = file_bytes_of(super);
  void* base = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, map_flags_, fd_.get(), 0);
  if (base == MAP_FAILED)
    return io_error(path_ + ": mapping " + std::to_string(mapped_bytes_) + " bytes");
  base_ = static_cast<std::byte*>(base);
  ::madvise(base_, mapped_bytes_, MADV_DONTFORK);
  owner_pid_ = ::getpid();
  auto table = FrameTable<AnyMemory>::open(AnyMemory(), base_, super, path_);
  if (!table) return table.error();
  table_.emplace(std::move(table).value());
  return {};
}

Result<void> FrameManager::open_to_inspect() {
  FrameSuperblock super{};
  auto locked = open_pool(true, super);
  if (!locked) return locked.error();
  fd_ = std::move(locked->fd);
  map_flags_ = MAP_PRIVATE | MAP_NORESERVE;
  return reconstruct(super);
}

void FrameManager::visit(
    const std::string& backing_file,
    const std::function<void(Offset, std::span<const std::byte>)>& visit) const {
  const FileNumber file = table_->find_file(backing_file);
  for (FrameNumber frame = 0; file != 0 && frame < table_->geometry().frame_count; ++frame) {
    if (!table_->holds(frame) || table_->page_of(frame).file != file) continue;
    visit(table_->page_of(frame).page * frame_bytes_, {table_->frame(frame), frame_bytes_});
  }
}

Result<void> FrameManager::open(bool user_mode_only) {
  FrameSuperblock super{};
  auto locked = open_pool(false, super);
  if (!locked) return locked.error();
  fd_ = std::move(locked->fd);
  map_flags_ = MAP_SHARED_VALIDATE | MAP_SYNC;
  persistent_memory_ = domain_of_file(fd_.get(), locked->bytes) == DomainKind::kAdr;
  if (!persistent_memory_) map_flags_ = MAP_SHARED;
  if (auto rebuilt = reconstruct(super); !rebuilt) return rebuilt;
  lists_.emplace(super.geometry.frame_count);
  for (FrameNumber frame = 0; frame < super.geometry.frame_count; ++frame) {
    if (table_->holds(frame)) lists_->push_back(kInactive, frame);
  }
  files_.emplace(frame_bytes_, [this](FileNumber file) { return table_->name_of(file); });
  if (max_mappings_ == 0) max_mappings_ = mappings_left();

  auto faults = UserFaults::open({[this](std::byte* address) {
                                    const std::unique_lock lock(mutex_, std::try_to_lock);
                                    return lock.owns_lock() && serve(address, Patience::kNone);
                                  },
                                  [this](std::byte* address) {
                                    const std::lock_guard lock(mutex_);
                                    serve(address, Patience::kAll);
                                  }},
                                 user_mode_only);
  if (!faults) return Error{faults.error().code, path_ + ": " + faults.error().message};
  faults_ = std::move(faults).value();
  return {};
}

// ---- views --------------------------------------------------------------------------------------

Result<FramePool::View> FrameManager::attach(std::byte* address, std::uint64_t bytes,
                                             const std::string& backing_file, int protection,
                                             Offset file_offset) {
  const auto invalid = [&](const std::string& what) {
    return Error{Code::kInvalid, path_ + ": attaching " + backing_file + ": " + what};
  };
  if (reinterpret_cast<std::uintptr_t>(address) % kPageBytes != 0)
    return invalid("the address is not page-aligned");
  if (file_offset % frame_bytes_ != 0 || file_offset > kMaxFramePages * kPageBytes / 2)
    return invalid("the offset in the file is no multiple of the frames' size, or too large");
  if (bytes == 0 || bytes > kMaxFramePages * kPageBytes / 2)
    return invalid(std::to_string(bytes) + " bytes, must be from 1 to 128 TiB");
  if (protection != PROT_READ && protection != (PROT_READ | PROT_WRITE))
    return invalid("the protection must be PROT_READ or PROT_READ | PROT_WRITE");
  auto name = BackingFiles::prepare(backing_file);
  if (!name) return name.error();

  const std::lock_guard lock(mutex_);
  const std::uint64_t mapped = round_up(bytes, frame_bytes_);
  for (const auto& [begin, view] : views_) {
    if (address != nullptr && address < begin + round_up(view.bytes, frame_bytes_) &&
        begin < address + mapped)
      return invalid("another attached file is at that address; detach it first");
  }
  auto file = table_->register_file(name.value());
  if (!file) return file.error();
  const Attached wanted{address, bytes, file.value(), file_offset / frame_bytes_, protection};
  for (const auto& [begin, view] : views_) {
    if (shows(view, {wanted.file, wanted.first_page}) ||
        shows(wanted, {view.file, view.first_page}))
      return Error{Code::kBusy,
                   path_ + ": " + name.value() + " is attached already; detach it first"};
  }
  auto range = faults_->watch(address, mapped, protection);
  if (!range)
    return Error{range.error().code,
                 path_ + ": attaching " + backing_file + ": " + range.error().message};
  Attached& view = views_[range.value()] = wanted;
  view.address = range.value();
  ++mappings_;
  return FramePool::View{range.value(), bytes, file.value(), file_offset};
}

Result<void> FrameManager::detach(const FramePool::View& view) {
  const std::lock_guard lock(mutex_);
  const auto found = views_.find(view.address);
  if (found == views_.end() || found->second.bytes != view.bytes || found->second.file != view.file)
    return Error{Code::kInvalid, path_ + ": no such view; it was detached before"};
  const bool only = std::none_of(views_.begin(), views_.end(), [&](const auto& other) {
    return other.second.file == view.file && other.first != view.address;
  });
  if (!only) return Error{Code::kBusy, path_ + ": the file has another view; detach that first"};
  faults_->forget(view.address, round_up(view.bytes, frame_bytes_));
  --mappings_;
  release_frames(found->second);
  views_.erase(found);
  return write_out(view.file);
}

/// What was shown in the view is mapped nowhere any more.
void FrameManager::release_frames(const Attached& view) {
  for (FrameNumber frame = 0; frame < table_->geometry().frame_count; ++frame) {
    if (!lists_->contains(kActive, frame) || !shows(view, table_->page_of(frame))) continue;
    const std::uint64_t page = table_->page_of(frame).page;
    const std::uint64_t before = seams_around(view, page);
    lists_->push_back(kInactive, frame);
    mappings_ -= before - seams_around(view, page);
  }
}

/// The view around `address`, if any, becomes two that meet there.
void FrameManager::split_at(std::byte* address) {
  const Attached* whole = view_at(address);
  if (whole == nullptr || whole->address == address) return;
  Attached left = *whole;
  Attached right = *whole;
  left.bytes = static_cast<std::uint64_t>(address - whole->address);
  right.address = address;
  right.bytes = whole->bytes - left.bytes;
  right.first_page += left.bytes / frame_bytes_;
  // What lies in order across the border is one mapping still, counted as two.
  const FrameNumber before = shown_at(left, right.first_page - 1);
  const FrameNumber behind = shown_at(right, right.first_page);
  const bool one = before == kNone ? behind == kNone : behind == before + 1;
  mappings_ += one ? 1 : 0;
  views_[left.address] = left;
  views_[right.address] = right;
}

Result<void> FrameManager::cut(std::byte* address, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::byte* const end = address + bytes;
  for (std::byte* at = address; at < end;) {
    const Attached* view = view_at(at);
    const bool whole_frames = view != nullptr &&
                              static_cast<std::uint64_t>(at - view->address) % frame_bytes_ == 0 &&
                              (end >= view->address + view->bytes ||
                               static_cast<std::uint64_t>(end - view->address) % frame_bytes_ == 0);
    if (!whole_frames) return Error{Code::kInvalid, path_ + ": not whole frames of attached files"};
    at = view->address + round_up(view->bytes, frame_bytes_);
  }
  split_at(address);
  split_at(end);
  for (auto view = views_.lower_bound(address); view != views_.end() && view->first < end;) {
    faults_->leave_nothing(view->second.address, round_up(view->second.bytes, frame_bytes_));
    --mappings_;
    release_frames(view->second);
    view = views_.erase(view);
  }
  return {};
}

Result<void> FrameManager::protect(std::byte* address, std::uint64_t bytes, int protection) {
  const std::lock_guard lock(mutex_);
  const auto found = views_.find(address);
  if (found == views_.end() || found->second.bytes != bytes ||
      (protection != PROT_READ && protection != (PROT_READ | PROT_WRITE)))
    return Error{Code::kInvalid, path_ + ": no such view, or no such protection"};
  found->second.protection = protection;
  if (::mprotect(address, round_up(bytes, frame_bytes_), protection) != 0)
    return io_error(path_ + ": protecting a view");
  return {};
}

Result<void> FrameManager::forget(const std::string& backing_file) {
  const std::lock_guard lock(mutex_);
  const FileNumber file = table_->find_file(backing_file);
  if (file == 0) return {};
  if (has_view(file))
    return Error{Code::kBusy, path_ + ": " + backing_file + " is attached; detach it first"};
  return write_out(file);
}

Result<void> FrameManager::write_out(FileNumber file) {
  std::vector<FrameNumber> frames;
  for (FrameNumber frame = 0; frame < table_->geometry().frame_count; ++frame) {
    if (table_->holds(frame) && table_->page_of(frame).file == file) frames.push_back(frame);
  }
  if (auto out = table_->swap_out(*files_, frames); !out) return out;
  for (const FrameNumber frame : frames) lists_->remove(frame);
  files_->close(file);
  return table_->forget_file(file);
}

Result<void> FrameManager::write_back_all() {
  const std::lock_guard lock(mutex_);
  std::vector<FrameNumber> frames;
  for (FrameNumber frame = 0; frame < table_->geometry().frame_count; ++frame) {
    if (table_->holds(frame)) frames.push_back(frame);
  }
  return table_->write_back(*files_, frames);
}

const FrameManager::Attached* FrameManager::view_at(const std::byte* address) const {
  auto after = views_.upper_bound(address);
  if (after == views_.begin()) return nullptr;
  const Attached& view = std::prev(after)->second;
  return address < view.address + round_up(view.bytes, frame_bytes_) ? &view : nullptr;
}

const FrameManager::Attached* FrameManager::view_of(FilePage page) const {
  for (const auto& [address, view] : views_) {
    if (shows(view, page)) return &view;
  }
  return nullptr;
}

bool FrameManager::has_view(FileNumber file) const {
  return std::any_of(views_.begin(), views_.end(),
                     [&](const auto& view) { return view.second.file == file; });
}

FramePool::Statistics FrameManager::statistics() const {
  const std::lock_guard lock(mutex_);
  FramePool::Statistics now = counts_;
  now.frames = table_->geometry().frame_count;
  now.frames_free = table_->free_frames();
  now.frames_mapped = lists_->size(kActive);
  now.mappings = mappings_;
  return now;
}

std::optional<Error> FrameManager::last_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// ---- faults -------------------------------------------------------------------------------------

/// False if it takes more patience; nothing has changed then.
bool FrameManager::serve(std::byte* address, Patience patience) {
  const Attached* view = view_at(address);
  if (view == nullptr) {  // detached meanwhile, against the rules
    faults_->wake(page_around(address), kPageBytes);
    return true;
  }
  const std::uint64_t page =
      view->first_page + static_cast<std::uint64_t>(address - view->address) / frame_bytes_;
  auto served = bring_to(*view, page, patience);
  if (served) return served.value();
  note_failure(served.error());
  ++counts_.failures;
  faults_->break_at(address_of(*view, page), frame_bytes_);
  return true;
}

Result<bool> FrameManager::bring_to(const Attached& view, std::uint64_t page, Patience patience) {
  const FilePage wanted{view.file, page};
  FrameNumber frame = table_->find(wanted);
  if (frame != kNone && lists_->contains(kActive, frame)) {  // another thread wanted it, too
    faults_->wake(address_of(view, page), frame_bytes_);
    return true;
  }
  // Two more at most: the page's own, and what it cuts in two.
  if (mappings_ + 2 > max_mappings_) {
    if (patience == Patience::kNone) return false;
    keep_mappings_below(max_mappings_ - max_mappings_ / 8);
  }
  const bool hard = frame == kNone;
  if (hard) {
    if (table_->free_frames() == 0) {
      if (patience == Patience::kNone) return false;
      if (auto room = make_room(); !room) return room.error();
    }
    auto brought = table_->bring_in(*files_, wanted);
    if (!brought) return brought.error();
    frame = brought.value();
    lists_->push_back(kInactive, frame);
  }
  auto shown = show(view, page, frame, patience);
  if (shown && shown.value()) ++(hard ? counts_.hard_faults : counts_.soft_faults);
  return shown;
}

/// Step 3 of bringing in. The page is shown to every thread at once.
Result<bool> FrameManager::show(const Attached& view, std::uint64_t page, FrameNumber frame,
                                Patience patience) {
  if ((view.protection & PROT_WRITE) != 0) table_->may_be_stored_to(frame);
  const std::uint64_t before = seams_around(view, page);
  while (faults_->show(address_of(view, page), frame_bytes_, view.protection, fd_.get(),
                       table_->offset_of(frame), map_flags_) == UserFaults::Outcome::kFull) {
    if (patience == Patience::kNone) return false;
    if (!find_mappings())
      return Error{Code::kNoSpace, path_ +
                                       ": this process has no mapping left for a frame; raise "
                                       "vm.max_map_count, or create the pool with larger frames"};
  }
  lists_->push_back(kActive, frame);
  mappings_ += seams_around(view, page) - before;
  return true;
}

/// Step 1 of swapping out. False if the process has no mapping left for that.
bool FrameManager::hide(FrameNumber frame) {
  const FilePage at = table_->page_of(frame);
  const Attached& view = *view_of(at);
  const std::uint64_t before = seams_around(view, at.page);
  while (faults_->hide(address_of(view, at.page), frame_bytes_, view.protection) ==
         UserFaults::Outcome::kFull) {
    if (!faults_->spend_reserve()) return false;
  }
  lists_->push_back(kInactive, frame);
  mappings_ += seams_around(view, at.page) - before;
  ++counts_.unmaps;
  return true;
}

/// Frees at least one frame.
Result<void> FrameManager::make_room() {
  std::set<FileNumber> stuck;
  for (;;) {
    // More wait than are evicted now: victims() takes half of them at most, those that have waited
    // the longest, and the others get their chance to be touched.
    const std::size_t frames = table_->geometry().frame_count;
    const std::size_t waiting = std::clamp<std::size_t>(frames / 4, 2, kMaxInactive);
    for (std::size_t i = 0; i < 2 * kBatch || lists_->size(kInactive) == 0; ++i) {
      if (lists_->size(kInactive) >= waiting || lists_->size(kActive) == 0) break;
      if (!hide(lists_->front(kActive))) break;
    }
    faults_->refill_reserve();
    const std::vector<FrameNumber> chosen = victims(stuck);
    if (chosen.empty() && lists_->size(kActive) > 0 && hide(lists_->front(kActive))) continue;
    if (chosen.empty())
      return Error{failure_ ? failure_->code : Code::kNoSpace,
                   path_ + ": no frame can be freed" +
                       (failure_ ? "; " + failure_->message : std::string())};
    const auto out = table_->swap_out(*files_, chosen);
    if (out) {
      for (const FrameNumber frame : chosen) lists_->remove(frame);
      counts_.evictions += chosen.size();
      return {};
    }
    // Their pages stay; those of other files may still go.
    note_failure(out.error());
    stuck.insert(table_->page_of(chosen.front()).file);
  }
}

/// The inactive frames that have waited the longest, all of one file: they share its sync.
std::vector<FrameNumber> FrameManager::victims(const std::set<FileNumber>& stuck) {
  std::vector<FrameNumber> chosen;
  if (lists_->size(kInactive) == 0) return chosen;
  const std::size_t most = std::clamp<std::size_t>(lists_->size(kInactive) / 2, 1, kBatch);
  std::size_t looked_at = 0;
  for (FrameNumber frame = lists_->front(kInactive); frame != lists_->kEnd && chosen.size() < most;
       frame = lists_->after(frame)) {
    if (!chosen.empty() && ++looked_at > 4 * kBatch) break;
    const FileNumber file = table_->page_of(frame).file;
    if (stuck.contains(file)) continue;
    if (chosen.empty() || table_->page_of(chosen.front()).file == file) chosen.push_back(frame);
  }
  return chosen;
}

// ---- mappings -----------------------------------------------------------------------------------

bool FrameManager::keep_mappings_below(std::uint64_t wanted) {
  while (mappings_ > wanted && lists_->size(kActive) > 0) {
    if (!hide(lists_->front(kActive))) return false;
  }
  faults_->refill_reserve();
  return mappings_ <= wanted;
}

/// The process as a whole has come to its limit before this pool has: it makes do with less.
bool FrameManager::find_mappings() {
  if (lists_->size(kActive) == 0 || !faults_->spend_reserve()) return false;
  max_mappings_ = std::max(kFewestMappings, std::min(max_mappings_, mappings_) * 3 / 4);
  keep_mappings_below(max_mappings_);
  return true;
}

FrameNumber FrameManager::shown_at(const Attached& view, std::uint64_t page) const {
  const FrameNumber frame = table_->find({view.file, page});
  return frame != kNone && lists_->contains(kActive, frame) ? frame : kNone;
}

/// The places, of the two around a page, at which the kernel needs a new mapping.
std::uint64_t FrameManager::seams_around(const Attached& view, std::uint64_t page) const {
  const auto seam = [](FrameNumber left, FrameNumber right) {
    const bool same = left == kNone ? right == kNone : right == left + 1;
    return std::uint64_t{same ? 0u : 1u};
  };
  const std::uint64_t last = view.first_page + pages_of(view) - 1;
  const FrameNumber here = shown_at(view, page);
  return (page > view.first_page ? seam(shown_at(view, page - 1), here) : 0) +
         (page < last ? seam(here, shown_at(view, page + 1)) : 0);
}

}  // namespace perdure
