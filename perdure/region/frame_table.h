// SPDX-License-Identifier: BSD-3-Clause
// FrameTable: the crash-consistent core of a frame pool: which page of which file is in which
//             frame, on media and in an index.
//
// Frames are few, files are large: a page is brought into a frame when it is needed and swapped out
// to its file when the frame is. Between the two the frame alone holds the page, over any number of
// restarts. Nothing here knows mappings or faults (frame_pool.h does), so the crash explorer runs
// this very code.
//
// Source: Mnemosyne (ASPLOS 2011) §4.2, the region manager's persistent mapping table.
// Differences: in user space, over a file; a backing file is known by its name, not by its inode.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perdure/base/check.h"
#include "perdure/base/crc32c.h"
#include "perdure/base/word_buffer.h"
#include "perdure/domain/domain.h"
#include "perdure/error.h"
#include "perdure/region/frame_index.h"
#include "perdure/region/frame_layout.h"

namespace perdure {

/// The files behind the frames. Pages are frame_bytes long.
/// read_page   fills `to`, with zeros beyond the file's end.
/// write_page  hands a page over; it may be lost until sync.
/// sync        returns when every page handed over for the file is durable.
template <class S>
concept BackingStore =
    requires(S s, FilePage page, FileNumber file, std::byte* to, const std::byte* from) {
      { s.read_page(page, to) } -> std::same_as<Result<void>>;
      { s.write_page(page, from) } -> std::same_as<Result<void>>;
      { s.sync(file) } -> std::same_as<Result<void>>;
    };

/// A superblock with all its offsets and its seal.
/// Errors: kInvalid, naming the number that is out of its range.
Result<FrameSuperblock> make_frame_superblock(const FrameGeometry& geometry,
                                              const std::string& where);
/// The superblock of an untrusted file of which `available` bytes are there.
/// Errors: kForeign, kVersion, kTruncated, kCorrupt; the message begins with `where`.
Result<FrameSuperblock> check_frame_superblock(const std::byte* bytes, std::uint64_t available,
                                               const std::string& where);
/// Superblock and tables of an empty pool, to be put at byte 0; frames need no format.
std::vector<std::byte> frame_format(const FrameSuperblock& super);

/// Threads: none; the caller's lock.
template <Domain D>
class FrameTable {
 public:
  /// Reconstruction: reads and checks every entry, rebuilds the index and the free list.
  ///
  /// A process may have been killed with table words in its caches; they are seen now, and a power
  /// cut could still take them back. What is believed is therefore made durable first.
  ///
  /// Requires: `base` is the pool of `super`, which check_frame_superblock() made.
  /// Errors:   kCorrupt, naming the byte: an entry that fails its check, names no file of the file
  ///           table, or names a page that another frame has; kPoisoned.
  static Result<FrameTable> open(D domain, std::byte* base, const FrameSuperblock& super,
                                 std::string where) {
    FrameTable table(std::move(domain), base, super, std::move(where));
    if (auto files = table.read_files(); !files) return files.error();
    if (auto frames = table.read_entries(); !frames) return frames.error();
    table.domain_.flush(base + super.file_table_offset,
                        table.end_of_entries() - super.file_table_offset, Site::kFrameAdopt);
    // Orders: what was believed before what anybody builds on it. Without it a page that was found
    // in its frame, and updated there, may be looked for in its file.
    if (!table.domain_.fence(Site::kFrameAdoptFence)) return table.poisoned();
    return table;
  }

  const FrameGeometry& geometry() const { return super_.geometry; }
  std::byte* frame(FrameNumber number) const {
    return base_ + super_.frame_offset + number * super_.geometry.frame_bytes;
  }
  /// Where the frame begins in the pool's file.
  Offset offset_of(FrameNumber number) const {
    return super_.frame_offset + number * super_.geometry.frame_bytes;
  }
  std::size_t free_frames() const { return free_.size(); }
  bool holds(FrameNumber number) const { return index_.key_of(number) != 0; }
  /// Requires: holds(number).
  FilePage page_of(FrameNumber number) const { return FilePage::of(index_.key_of(number)); }
  /// The frame that has the page, or FrameIndex::kNone: then its file has it.
  FrameNumber find(FilePage page) const { return index_.find(page.payload()); }

  // ---- files ------------------------------------------------------------------------------------

  /// Empty for a number that no file has.
  std::string_view name_of(FileNumber file) const { return names_[file]; }
  /// 0 when it is not registered.
  FileNumber find_file(std::string_view name) const {
    for (FileNumber file = 1; file < names_.size(); ++file) {
      if (names_[file] == name) return file;
    }
    return 0;
  }

  /// Gives the file a number, unless it has one.
  ///
  ///   1. write the name; flush; fence      crash here ⇒ the entry is free still
  ///   2. seal the entry's state; flush; fence
  ///
  /// Durable: on return. Errors: kInvalid (the name is empty or longer than 504 bytes), kNoSpace
  /// (all entries are taken), kPoisoned.
  Result<FileNumber> register_file(std::string_view name) {
    if (const FileNumber known = find_file(name); known != 0) return known;
    if (name.empty() || name.size() > kFileNameBytes)
      return Error{Code::kInvalid, where_ + ": the backing file's name has " +
                                       std::to_string(name.size()) + " bytes, must have 1 to " +
                                       std::to_string(kFileNameBytes) + ": " + std::string(name)};
    FileNumber file = 1;
    while (file < names_.size() && !names_[file].empty()) ++file;
    if (file == names_.size())
      return Error{Code::kNoSpace, where_ + ": all " +
                                       std::to_string(super_.geometry.file_entries) +
                                       " entries for backing files are taken; detach one with its "
                                       "pages written out, or create the pool with more"};
    FileEntry* entry = file_entry(file);
    std::array<Word, kFileNameBytes / kWordBytes> words{};
    std::memcpy(words.data(), name.data(), name.size());
    auto* home = reinterpret_cast<Word*>(entry->name.data());
    const std::size_t count = round_up(name.size(), kWordBytes) / kWordBytes;
    for (std::size_t i = 0; i < count; ++i) domain_.store(home + i, words[i]);
    domain_.flush(home, count * kWordBytes, Site::kFrameName);
    // Orders: the whole name before the state that vouches for it.
    if (!domain_.fence(Site::kFrameNameFence)) return poisoned();
    domain_.store(&entry->state, file_state(file, name));
    domain_.flush(&entry->state, kWordBytes, Site::kFrameFile);
    // Orders: the file before the first frame that names it, by whichever thread.
    if (!domain_.fence(Site::kFrameFileFence)) return poisoned();
    names_[file] = name;
    return file;
  }

  /// Gives the number back. Requires: no frame holds a page of the file.
  /// Durable: on return. Errors: kPoisoned.
  Result<void> forget_file(FileNumber file) {
    for (FrameNumber f = 0; f < geometry().frame_count; ++f)
      PERDURE_CHECK(!holds(f) || page_of(f).file != file, "a frame holds a page of the file");
    FileEntry* entry = file_entry(file);
    domain_.store(&entry->state, file_state(file, {}));
    domain_.flush(&entry->state, kWordBytes, Site::kFrameForget);
    // Orders: the end of the old name before the first word of the next one in this entry.
    if (!domain_.fence(Site::kFrameForgetFence)) return poisoned();
    names_[file].clear();
    return {};
  }

  // ---- pages ------------------------------------------------------------------------------------

  /// Brings the page into a free frame.
  ///
  ///   1. read the file's page into a free frame; flush; fence   crash here ⇒ the frame is free yet
  ///   2. seal the entry; flush; fence        crash here ⇒ frame or file has the page; both are
  ///                                          equal
  ///   3. (the caller) map the frame
  ///
  /// Requires: a free frame; no frame has the page; the file is registered.
  /// Durable:  on return: from now on the frame alone speaks for the page.
  /// Errors:   what the store answers, kPoisoned; the frame is free still.
  template <BackingStore S>
  Result<FrameNumber> bring_in(S& store, FilePage page) {
    PERDURE_CHECK(!free_.empty(), "no frame is free");
    PERDURE_CHECK(!names_[page.file].empty() && page.page < kMaxFramePages, "no such page");
    const FrameNumber number = free_.back();
    const std::size_t words = super_.geometry.frame_bytes / kWordBytes;
    // By way of a buffer, because only the domain stores to frames.
    Word* copy = buffer_.room(words);
    if (auto read = store.read_page(page, reinterpret_cast<std::byte*>(copy)); !read)
      return read.error();
    domain_.write_through(reinterpret_cast<Word*>(frame(number)), copy, words, Site::kFrameData);
    // Orders: the page before the entry that sends readers here and not to the file.
    if (!domain_.fence(Site::kFrameDataFence)) return poisoned();
    domain_.store(entry(number), seal_frame(number, page.payload()));
    domain_.flush(entry(number), kWordBytes, Site::kFrameEntry);
    // Orders: the entry before the program's first store to the page. The program waits for its own
    // stores only; without this fence they are durable in a frame that nobody names.
    if (!domain_.fence(Site::kFrameEntryFence)) return poisoned();
    free_.pop_back();
    PERDURE_CHECK(index_.insert(page.payload(), number) == FrameIndex::kNone,
                  "the page is in a frame already");
    differs_[number] = false;
    return number;
  }

  /// To be called before anybody may store to the frame; else swap_out() believes that the file
  /// holds the same.
  void may_be_stored_to(FrameNumber number) { differs_[number] = true; }

  /// Writes the frames to their files and frees them. Several at once share the syncs.
  ///
  ///   1. (the caller) unmap the frames, so that nobody stores to them any more
  ///   2. write each frame to its file; sync the files    crash here ⇒ frame and file are the same
  ///   3. clear the entries; flush; fence                 crash here ⇒ of each, the same
  ///   4. the frames are free
  ///
  /// Requires: each holds a page; nobody stores to them.
  /// Durable:  on return.
  /// Errors:   what the store answers, kPoisoned; then each frame still holds its page.
  template <BackingStore S>
  Result<void> swap_out(S& store, std::span<const FrameNumber> frames) {
    if (auto written = write_back(store, frames); !written) return written;
    for (const FrameNumber number : frames) {
      domain_.store(entry(number), seal_frame(number, 0));
      domain_.flush(entry(number), kWordBytes, Site::kFrameClear);
    }
    // Orders: the cleared entries before another page's words in these frames.
    if (!domain_.fence(Site::kFrameClearFence)) return poisoned();
    for (const FrameNumber number : frames) {
      index_.erase(number);
      free_.push_back(number);
    }
    return {};
  }

  /// Step 2 alone: the files get what the frames hold. Threads may go on storing to a frame, which
  /// keeps the page. Durable: on return. Errors: as swap_out().
  template <BackingStore S>
  Result<void> write_back(S& store, std::span<const FrameNumber> frames) {
    std::vector<FileNumber> files;
    for (const FrameNumber number : frames) {
      PERDURE_CHECK(holds(number), "the frame holds no page");
      if (!differs_[number]) continue;
      if (auto put = store.write_page(page_of(number), frame(number)); !put) return put;
      files.push_back(page_of(number).file);
    }
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    for (const FileNumber file : files) {
      if (auto synced = store.sync(file); !synced) return synced;
    }
    return {};
  }

 private:
  FrameTable(D domain, std::byte* base, const FrameSuperblock& super, std::string where)
      : domain_(std::move(domain)),
        base_(base),
        super_(super),
        where_(std::move(where)),
        names_(super.geometry.file_entries + 1),
        index_(super.geometry.frame_count),
        differs_(super.geometry.frame_count, true) {}

  Offset entry_offset(FrameNumber number) const {
    return super_.entry_offset + number * kWordBytes;
  }
  Offset end_of_entries() const { return entry_offset(super_.geometry.frame_count); }
  Word* entry(FrameNumber number) const {
    return reinterpret_cast<Word*>(base_ + entry_offset(number));
  }
  Offset file_offset(FileNumber file) const {
    return super_.file_table_offset + (file - 1) * sizeof(FileEntry);
  }
  FileEntry* file_entry(FileNumber file) const {
    return reinterpret_cast<FileEntry*>(base_ + file_offset(file));
  }
  static Word file_state(FileNumber file, std::string_view name) {
    const std::uint64_t crc = name.empty() ? 0 : crc32c(name.data(), name.size());
    return seal(crc << 16 | name.size(), file_salt(file));
  }

  Result<void> read_files() {
    for (FileNumber file = 1; file < names_.size(); ++file) {
      const FileEntry* entry = file_entry(file);
      const Word state = load_word(&entry->state);
      const auto payload = unseal(state, file_salt(file));
      const std::size_t bytes = payload.value_or(0) & 0xffff;
      const std::string_view name(entry->name.data(), std::min(bytes, kFileNameBytes));
      if (!payload || bytes > kFileNameBytes || state != file_state(file, name))
        return damaged("the entry of backing file " + std::to_string(file), file_offset(file),
                       "fails its check");
      names_[file] = name;
    }
    return {};
  }

  Result<void> read_entries() {
    // Backwards, so that the free list hands out the lowest frame first: pages that are touched in
    // order then lie in order, and need one mapping for all.
    for (FrameNumber number = super_.geometry.frame_count; number-- > 0;) {
      const auto payload = unseal_frame(number, load_word(entry(number)));
      if (!payload) return damaged_frame(number, "fails its check");
      if (*payload == 0) {
        free_.push_back(number);
        continue;
      }
      const FilePage page = FilePage::of(*payload);
      if (page.file >= names_.size() || names_[page.file].empty())
        return damaged_frame(number, "names backing file " + std::to_string(page.file) +
                                         ", which is not registered");
      const FrameNumber other = index_.insert(*payload, number);
      if (other != FrameIndex::kNone)
        return damaged_frame(number, "names page " + std::to_string(page.page) + " of " +
                                         names_[page.file] + ", which frame " +
                                         std::to_string(other) + " has");
    }
    return {};
  }

  Error damaged_frame(FrameNumber number, const std::string& how) const {
    return damaged("the entry of frame " + std::to_string(number), entry_offset(number), how);
  }
  Error damaged(const std::string& what, Offset byte, const std::string& how) const {
    return {Code::kCorrupt, where_ + ": " + what + " (byte " + std::to_string(byte) + ") " + how +
                                "; restore the pool and its files from a backup"};
  }
  Error poisoned() const {
    return {Code::kPoisoned, where_ + ": the storage under the frames failed; reopen the pool"};
  }

  [[no_unique_address]] D domain_;
  std::byte* base_;
  FrameSuperblock super_;
  std::string where_;
  std::vector<std::string> names_;  // by file number; empty: not registered
  FrameIndex index_;
  std::vector<FrameNumber> free_;  // the next one last
  // Whether the frame may hold what its file does not; true for all that an earlier process left.
  std::vector<std::uint8_t> differs_;
  WordBuffer buffer_;
};

}  // namespace perdure
