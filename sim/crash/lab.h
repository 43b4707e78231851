// SPDX-License-Identifier: BSD-3-Clause
// Lab: the memory in which sessions run, and the persistence domain that writes down what they do.
//
// A session is one life of a process: it opens what a power cut left, works, and closes. Everything
// it stores goes through domain(), so that the explorer can undo it, and cut the session itself.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "perdure/domain/recorded.h"
#include "perdure/domain/sync.h"
#include "perdure/region/page_sums.h"
#include "perdure/region/region.h"
#include "sim/crash/media.h"
#include "sim/crash/working_view.h"

namespace perdure::crash {

/// The device under a simulated file. A durable write vouches for its own range only: that is all that a direct write
/// with RWF_DSYNC promises. A sync vouches for what was written since the last one: a pool may have many files, of which
/// only those are synced, and what a killed process wrote to another is on its way for ever.
class SimDevice {
 public:
  /// `sums`: of the region on it; null: there are none.
  SimDevice(Trace& trace, PageSums* const& sums) : trace_(&trace), sums_(&sums) {}
  bool write(Offset offset, const void* data, std::size_t bytes) {
    const PageSums::Writing summed(*sums_, offset, bytes);
    trace_->add_sectors(offset, static_cast<const std::byte*>(data), bytes);
    written_.emplace_back(offset, bytes);
    return true;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    const PageSums::Writing summed(*sums_, offset, bytes);
    trace_->add_sectors(offset, static_cast<const std::byte*>(data), bytes);
    trace_->add(TraceEvent::Kind::kSync, Site{}, offset, bytes);
    return true;
  }
  bool sync() {
    for (const auto& [offset, bytes] : written_)
      trace_->add(TraceEvent::Kind::kSync, Site{}, offset, bytes);
    written_.clear();
    return true;
  }

 private:
  Trace* trace_;
  PageSums* const* sums_;
  std::vector<std::pair<Offset, std::uint64_t>> written_;  // since the last sync
};

/// `work` runs once, when the calling thread is about to wait for what others can see already: how something is done in
/// the middle of a commit.
void while_waiting(std::function<void(Trace&)> work);
/// Runs it, if there is any.
void run_while_waiting(Trace& trace);

/// The domain under test: memory that is recorded, or a file whose device is. Home stores are
/// recorded in both, so that a session can be undone.
class SimDomain {
 public:
  SimDomain(Model model, Trace& trace, SyncGroup<SimDevice>& group)
      : model_(model), trace_(&trace), recorded_(trace), file_(group) {}
  void store(Word* home, Word value) { recorded_.store(home, value); }
  void merge(Word* home, Word value, Word mask) { recorded_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    if (model_ == Model::kMemory) return recorded_.write_through(home, words, count, site);
    // Eadr stores like any other.
    for (std::size_t i = 0; i < count; ++i) recorded_.store(home + i, words[i]);
    if (model_ == Model::kFile) file_.flush(home, count * kWordBytes, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    if (model_ == Model::kMemory) return recorded_.flush(address, bytes, site);
    if (model_ == Model::kFile) file_.flush(address, bytes, site);
  }
  bool fence(Site site) {
    return model_ == Model::kFile ? file_.fence(site) : recorded_.fence(site);
  }
  bool post(Site site, std::uint64_t mark) {
    return model_ == Model::kFile ? file_.post(site, mark) : fence(site);
  }
  bool wait_for(std::uint64_t mark, Site site) {
    run_while_waiting(*trace_);
    return file_.wait_for(mark, site);
  }
  const Shared<std::uint64_t>& durable_mark() const { return file_.durable_mark(); }

 private:
  Model model_;
  Trace* trace_;
  Recorded recorded_;
  Sync<SimDevice> file_;
};

class Lab final : private Backing {
 public:
  using LabDomain = DropNth<SimDomain>;

  /// Flushes and fences of `omission` are left out in every session.
  Lab(Model model, std::uint64_t bytes, const Omission& omission);
  ~Lab() override;
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // ---- for what is explored ---------------------------------------------------------------------
  std::byte* base() const { return memory_.base(); }
  std::uint64_t bytes() const { return bytes_; }
  const SharedMemory& memory() const { return memory_; }
  Model model() const { return model_; }
  LabDomain domain() { return {omission_, SimDomain(model_, trace_, *group_)}; }
  DomainKind domain_kind() const {
    switch (model_) {
      case Model::kMemory: return DomainKind::kAdr;
      case Model::kCaches: return DomainKind::kEadr;
      case Model::kFile: break;
    }
    return DomainKind::kSync;
  }
  /// What the file measures; grows through backing().
  std::uint64_t file_bytes() const { return file_bytes_; }
  Backing& backing() { return *this; }
  /// From now on regions that are opened keep the sums of their pages, if this is a file.
  void keep_sums() { keep_sums_ = true; }
  /// Called with the sums of each such region. Null: it is gone.
  void use_sums(PageSums* sums) { sums_ = sums; }
  Trace& trace() { return trace_; }

  // ---- for the explorer -------------------------------------------------------------------------
  /// The file's size from `event` of the current trace on.
  struct Growth {
    std::size_t event;
    std::uint64_t file_bytes;
  };
  /// A new process: an empty trace, over a file of `file_bytes`.
  void begin(std::uint64_t file_bytes);
  const std::vector<Growth>& growths() const { return growths_; }
  /// How often each site was executed so far, in all sessions.
  const std::array<std::uint64_t, kSiteCount>& executions();

 private:
  Result<void> extend(std::uint64_t from, std::uint64_t bytes) override;
  Result<void> allocate(Offset offset, std::uint64_t bytes) override;
  bool tell(Offset offset, Word value) override;
  bool keeps_sums() const override { return keep_sums_ && model_ == Model::kFile; }
  bool read(Offset offset, void* to, std::uint64_t bytes) override;
  bool write(Offset offset, const void* data, std::uint64_t bytes) override;
  bool sync(Site site) override;

  Model model_;
  std::uint64_t bytes_;
  SharedMemory memory_;
  Trace trace_;
  bool keep_sums_ = false;
  PageSums* sums_ = nullptr;
  std::optional<SyncGroup<SimDevice>> group_;              // each process has its own
  Omission omission_;
  std::uint64_t file_bytes_ = 0;
  std::vector<Growth> growths_;
  std::array<std::uint64_t, kSiteCount> executions_{};
};

/// Runs `work` on this thread's companion and waits for it: how a step is made in a second thread,
/// which has a log of its own, while the trace stays in one order. Exceptions come back.
void on_second_thread(const std::function<void()>& work);

}  // namespace perdure::crash
