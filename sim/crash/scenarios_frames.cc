// SPDX-License-Identifier: BSD-3-Clause
// The frame pool's table, with the backing files in the lab's own memory: a file's write is a
// write-through there and its sync a fence, because that is what they mean to whoever has them done.
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "perdure/region/frame_table.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

constexpr FrameGeometry kGeometry = {
    .frame_bytes = kMinFrameBytes, .frame_count = 3, .file_entries = 2};
constexpr std::size_t kFiles = 3;  // one more than are known at a time
constexpr std::size_t kPages = 3;  // of each file
constexpr std::size_t kWords = kGeometry.frame_bytes / kWordBytes;

FrameSuperblock superblock() { return make_frame_superblock(kGeometry, "memory").value(); }
Offset backing_offset() { return round_up(file_bytes_of(superblock()), kPageBytes); }

/// Longer than a cache line, so that a power cut can tear it.
std::string name_of(std::size_t file) {
  return "/backing/" + std::string(70, static_cast<char>('a' + file));
}
std::optional<std::size_t> file_of(std::string_view name) {
  for (std::size_t file = 0; file < kFiles; ++file) {
    if (name == name_of(file)) return file;
  }
  return std::nullopt;
}

/// The page that a step stores to, or only looks at.
struct Visit {
  std::size_t file;
  std::size_t page;
  bool stores;
};
Visit visit_of(std::uint64_t step) { return {step / 3 % kFiles, step * 2 % kPages, step % 4 != 3}; }

/// The last step up to `step` that stored to the page; 0: none did.
std::uint64_t last_store(std::size_t file, std::size_t page, std::uint64_t step) {
  for (; step > 0; --step) {
    const Visit visit = visit_of(step);
    if (visit.file == file && visit.page == page && visit.stores) return step;
  }
  return 0;
}

/// Word 0 is the last step that stored to the page; the rest tell pages apart.
std::array<Word, kWords> page_after(std::size_t file, std::size_t page, std::uint64_t step) {
  std::array<Word, kWords> words;
  for (std::size_t i = 0; i < kWords; ++i) words[i] = 0x1000 * (file + 1) + 0x100 * page + i;
  words[0] = last_store(file, page, step);
  return words;
}

Word* backing_page(std::byte* base, std::size_t file, std::size_t page) {
  return reinterpret_cast<Word*>(base + backing_offset()) + (file * kPages + page) * kWords;
}

class Frames final : public Session {
 public:
  explicit Frames(Lab& lab) : lab_(lab), domain_(lab.domain()), table_(open(lab)) {
    // A killed program's stores may be in caches only. The pool cannot know which of them count; the
    // program's own recovery makes durable what it believes, as any recovery must.
    on_second_thread([&] {
      for (FrameNumber f = 0; f < kGeometry.frame_count; ++f)
        domain_.flush(table_.frame(f), kGeometry.frame_bytes, Site::kUserFlush);
      (void)domain_.fence(Site::kUserFence);
    });
  }

  /// The manager is this thread; the program, whose fences vouch for its own stores only, another.
  void step(std::uint64_t step) override {
    const Visit visit = visit_of(step);
    const FilePage page{attach(visit.file), visit.page};
    FrameNumber frame = table_.find(page);
    if (frame == FrameIndex::kNone) {
      if (table_.free_frames() == 0) make_room();
      frame = table_.bring_in(*this, page).value();
    }
    if (!visit.stores) return;
    table_.may_be_stored_to(frame);
    on_second_thread([&] {
      auto* word = reinterpret_cast<Word*>(table_.frame(frame));
      domain_.store(word, step);
      domain_.flush(word, kWordBytes, Site::kUserFlush);
      // Orders: the program's store before its word that the step is done.
      (void)domain_.fence(Site::kUserFence);
    });
  }

  std::optional<std::string> check(std::uint64_t step) override {
    for (std::size_t file = 0; file < kFiles; ++file) {
      const FileNumber number = table_.find_file(name_of(file));
      for (std::size_t page = 0; page < kPages; ++page) {
        const FrameNumber frame =
            number == 0 ? FrameIndex::kNone : table_.find(FilePage{number, page});
        const bool in_file = frame == FrameIndex::kNone;
        const void* found = in_file ? static_cast<void*>(backing_page(lab_.base(), file, page))
                                    : static_cast<void*>(table_.frame(frame));
        const auto expected = page_after(file, page, step);
        if (std::memcmp(found, expected.data(), sizeof(expected)) != 0)
          return "page " + std::to_string(page) + " of file " + std::to_string(file) +
                 " is wrong " + (in_file ? "in its file" : "in frame " + std::to_string(frame));
      }
    }
    return std::nullopt;
  }

  // ---- the backing store ------------------------------------------------------------------------
  Result<void> read_page(FilePage page, std::byte* to) {
    std::memcpy(to, home_of(page), kGeometry.frame_bytes);
    return {};
  }
  Result<void> write_page(FilePage page, const std::byte* from) {
    domain_.write_through(home_of(page), reinterpret_cast<const Word*>(from), kWords,
                          Site::kFrameBacking);
    return {};
  }
  Result<void> sync(FileNumber) {
    // Orders: the file's pages before the entries that are cleared next.
    (void)domain_.fence(Site::kFrameBackingFence);
    return {};
  }

 private:
  using Table = FrameTable<Lab::LabDomain>;

  static Table open(Lab& lab) {
    const FrameSuperblock super =
        check_frame_superblock(lab.base(), lab.file_bytes(), "memory").value();
    return Table::open(lab.domain(), lab.base(), super, "memory").value();
  }
  Word* home_of(FilePage page) {
    const auto file = file_of(table_.name_of(page.file));
    if (!file) throw Exception(Code::kCorrupt, "an entry names a file that never was");
    return backing_page(lab_.base(), *file, page.page);
  }

  /// The file's number. If two others have the entries, one of them goes, with all its pages.
  FileNumber attach(std::size_t file) {
    if (const FileNumber known = table_.find_file(name_of(file)); known != 0) return known;
    if (!table_.name_of(1).empty() && !table_.name_of(2).empty()) {
      const FileNumber dropped = *file_of(table_.name_of(1)) == (file + 1) % kFiles ? 1 : 2;
      std::vector<FrameNumber> frames;
      for (FrameNumber f = 0; f < kGeometry.frame_count; ++f) {
        if (table_.holds(f) && table_.page_of(f).file == dropped) frames.push_back(f);
      }
      table_.swap_out(*this, frames).value();
      table_.forget_file(dropped).value();
    }
    FileNumber number = 0;
    on_second_thread([&] { number = table_.register_file(name_of(file)).value(); });
    return number;
  }

  /// Two at once share a sync.
  void make_room() {
    const std::array<FrameNumber, 2> victims = {hand_, (hand_ + 1) % kGeometry.frame_count};
    hand_ = (hand_ + 2) % kGeometry.frame_count;
    table_.swap_out(*this, victims).value();
  }

  Lab& lab_;
  Lab::LabDomain domain_;
  Table table_;
  FrameNumber hand_ = 0;
};

}  // namespace

std::vector<Subject> frame_scenarios() {
  Subject subject{};
  subject.name = "frames";
  subject.claim = "a page is whole in its frame or its file, wherever swapping is cut";
  subject.bytes = backing_offset() + round_up(kFiles * kPages * kGeometry.frame_bytes, kPageBytes);
  subject.steps = 24;
  subject.resume_steps = 6;
  // A frame pool is memory, shared with the program's stores: there is none in a private mapping.
  subject.memory = true;
  subject.file = false;
  subject.format = [bytes = subject.bytes](std::byte* base) {
    const std::vector<std::byte> tables = frame_format(superblock());
    std::memcpy(base, tables.data(), tables.size());
    for (std::size_t file = 0; file < kFiles; ++file) {
      for (std::size_t page = 0; page < kPages; ++page) {
        const auto words = page_after(file, page, 0);
        std::memcpy(backing_page(base, file, page), words.data(), sizeof(words));
      }
    }
    return bytes;
  };
  subject.open = [](Lab& lab) { return std::make_unique<Frames>(lab); };
  return {subject};
}

}  // namespace perdure::crash
