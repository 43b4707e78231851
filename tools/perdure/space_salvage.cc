// SPDX-License-Identifier: BSD-3-Clause
// salvage, of an address space: programs hold addresses, so everything stays at its place. Heap, region
// table, regions and static variables are copied as they are, with the logs applied; what tells where
// they are is put right where it can be proved, and left out or refused where it cannot.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "perdure/address_space.h"
#include "perdure/api/framed_files.h"
#include "perdure/checkpoint/storage_with_gaps.h"
#include "perdure/heap/heap.h"
#include "perdure/heap/heap_mend.h"
#include "perdure/log/log_area.h"
#include "perdure/region/space_layout.h"
#include "tools/perdure/heap_image.h"
#include "tools/perdure/new_directory.h"
#include "tools/perdure/salvage.h"
#include "tools/perdure/space.h"
#include "tools/perdure/statics_mend.h"
#include "tools/wreck.h"

namespace perdure::tools {
namespace {

using checkpoint::StorageWithGaps;

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

std::uint64_t check_of(const RegionTableHeader& header) {
  return crc32c(&header, offsetof(RegionTableHeader, check));
}
std::uint64_t check_of(const RegionTrailer& trailer) {
  return crc32c(&trailer, offsetof(RegionTrailer, check));
}
template <class T>
bool is_zero(const T& value) {
  const T none{};
  return std::memcmp(&value, &none, sizeof(value)) == 0;
}
/// As it was before one of its bits changed. False: it cannot be told.
template <class T, class Whole>
bool mend_bit(T& value, Whole is_whole_now) {
  auto* const bytes = reinterpret_cast<unsigned char*>(&value);
  for (std::size_t bit = 0; bit < 8 * sizeof(value); ++bit) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    if (is_whole_now(value)) return true;
    bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
  }
  return false;
}
bool is_zero(const std::byte* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::byte byte) { return byte == std::byte{0}; });
}

class SpaceWreck {
 public:
  SpaceWreck(const std::string& directory, bool zero_lost_pages)
      : directory_(directory),
        zero_lost_pages_(zero_lost_pages),
        region_(Region::open_file(heap_of(directory), DomainKind::kAuto, Region::Access::kInspect,
                                  {.base = nullptr,
                                   .features = kFeatureAddressSpace,
                                   .range_bytes = 0,
                                   .look_on = false})
                    .value()),
        range_(range_of_heap(region_->geometry().capacity_bytes)),
        statics_begin_(heap_part(range_)),
        regions_begin_(statics_begin_ + statics_part(range_)),
        framed_(!FramedFiles::backing_of(directory).empty()) {
    if (const std::string& damage = region_->superblock_damage(); !damage.empty())
      mended_.push_back(damage);
    const PageSumsReport differing = region_->check_sums().value();
    replay();
    MendedHeap heap = mend_heap(*region_);
    for (std::string& what : heap.mended) mended_.push_back(std::move(what));
    for (std::string& what : heap.kept) lost_.push_back(std::move(what));
    find_objects();
    find_files();
    mend_roots();
    find_regions();
    judge_pages(differing);
  }

  Region& region() { return *region_; }
  const std::vector<RegionEntry>& regions() const { return regions_; }
  std::vector<std::string>& lost() { return lost_; }
  const std::vector<std::string>& mended() const { return mended_; }
  std::size_t objects() const { return objects_.size(); }

  void write(const std::string& directory) {
    DirectoryFiles files(directory, nullptr, *region_, false);
    copy_region_files(regions_, files,
                      [&](int fd, const RegionEntry& piece) { copy_piece(fd, piece); });
    copy_statics(files);
    struct stat status{};
    const std::string heap = heap_of(directory);
    const mode_t mode =
        ::stat(heap_of(directory_).c_str(), &status) == 0 ? status.st_mode & 0777 : 0600;
    const HeapImage image(*region_);
    create_whole_file(heap, mode, [&](int fd) { return image.write(fd, heap); }).value();
  }

 private:
  std::string name(std::uint64_t file) const {
    const std::string in = file != SpaceFiles::kStatics && framed_
                               ? directory_ + "/" + FramedFiles::kLink
                               : directory_;
    return in + "/" + (file == SpaceFiles::kStatics ? "statics" : std::to_string(file)) + ".region";
  }
  std::string root_name(const RootEntry& entry) const {
    return {entry.name.data(), ::strnlen(entry.name.data(), entry.name.size())};
  }
  RootEntry* roots() const { return region_->at<RootEntry>(region_->superblock().root_offset); }

  /// Pages that differ from their checksums, also after what could be put right has been.
  void judge_pages(const PageSumsReport& before) {
    const auto read = [&](Offset at, std::byte* to, std::uint64_t bytes) -> Result<void> {
      std::memcpy(to, region_->base() + at, bytes);
      return {};
    };
    const PageSumsReport after =
        check_page_sums(region_->superblock(), region_->grown_bytes(), read).value();
    for (const auto& damage : after.damage) {
      const bool was =
          std::any_of(before.damage.begin(), before.damage.end(), [&](const auto& old) {
            return old.offset < damage.offset + damage.bytes &&
                   damage.offset < old.offset + old.bytes;
          });
      if (!was) continue;  // what was put right, or came from the logs, has another sum by that
      lost_.push_back(damage.what() + (damage.in_sums
                                           ? "; of what is there nothing more is known"
                                           : "; what was copied from there may be wrong"));
    }
  }

  /// What the logs hold goes to the private copy of the heap; the rest is kept for regions and statics.
  void replay() {
    LogArea logs(*region_);
    logs.take_what_is_whole(lost_);
    logs.open().value();
    std::uint64_t last = 0;
    for (const LogArea::Record& record : logs.collect(last, false).value()) {
      LogArea::for_each_write(record, [&](const MaskedWrite& write) {
        const auto merge = [&](Word word) {
          return (word & ~write.mask) | (write.value & write.mask);
        };
        if (!is_aligned(write.offset, kWordBytes)) return;
        if (inside(write.offset, kWordBytes, 2 * kPageBytes, region_->grown_bytes())) {
          *region_->word(write.offset) = merge(*region_->word(write.offset));
        } else {
          MaskedWrite& pending = elsewhere_.try_emplace(write.offset).first->second;
          pending.value = merge(pending.value);
          pending.mask |= write.mask;
        }
      });
    }
  }

  void find_objects() {
    Heap heap(*region_);
    heap.open().value();
    heap.for_each_object(
        [&](Offset offset, std::uint64_t bytes) { objects_.push_back({offset, bytes}); });
    std::sort(objects_.begin(), objects_.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
  }
  bool holds(Offset offset, std::uint64_t bytes) const {
    return std::any_of(objects_.begin(), objects_.end(), [&](const Reachability::Object& object) {
      return object.offset == offset && object.bytes >= bytes;
    });
  }

  void mend_roots() {
    for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
      RootEntry& entry = roots()[i];
      if (is_zero(entry) || is_whole(entry)) continue;
      const std::string what = "entry " + std::to_string(i) + " of the root table";
      if (mend_root(entry, objects_)) {
        mended_.push_back(what + ": root '" + root_name(entry) + "'");
      } else {
        lost_.push_back(what + ": cannot be told; it is left out");
        entry = RootEntry{};
      }
    }
  }

  /// The region files that are there: their numbers, and what each says of itself.
  void find_files() {
    std::error_code ignored;
    const std::string in = framed_ ? directory_ + "/" + FramedFiles::kLink : directory_;
    for (const auto& entry : std::filesystem::directory_iterator(in, ignored)) {
      const std::string stem = entry.path().stem();
      if (entry.path().extension() != ".region" || stem.empty() || stem.size() > 18 ||
          stem.find_first_not_of("0123456789") != stem.npos)
        continue;
      const std::uint64_t number = std::stoull(stem);
      std::error_code unknown;
      const auto bytes = std::filesystem::file_size(entry.path(), unknown);
      if (number != 0 && !unknown) there_[number] = bytes > kPageBytes ? bytes - kPageBytes : 0;
    }
  }

  bool is_sound_entry(const RegionEntry& entry) const {
    return is_sound(entry, regions_begin_, range_);
  }
  /// Its fields repeat what the files say, but for its address.
  bool mend_entry(RegionEntry& entry) const {
    const auto sound = [&](const RegionEntry& now) { return is_sound_entry(now); };
    if (mend_bit(entry, sound)) return true;
    std::set<std::uint64_t> values = {0};
    for (const auto& [number, bytes] : there_) values.insert({number, bytes});
    for (std::uint64_t state = 1; state <= 3; ++state) {
      for (std::uint64_t protection = 0; protection <= 7; ++protection)
        values.insert(state | protection << 32);
    }
    std::array<std::uint64_t, sizeof(RegionEntry) / kWordBytes> words;
    std::memcpy(words.data(), &entry, sizeof(entry));
    for (std::uint64_t& word : words) {
      const std::uint64_t was = word;
      for (const std::uint64_t value : values) {
        word = value;
        RegionEntry changed{};
        std::memcpy(&changed, words.data(), sizeof(changed));
        if (!sound(changed)) continue;
        entry = changed;
        return true;
      }
      word = was;
    }
    RegionEntry changed = entry;
    changed.check = check_of_region(changed);
    const auto file = there_.find(changed.file);
    if (!sound(changed) || file == there_.end() || file->second != changed.file_bytes) return false;
    entry = changed;
    return true;
  }

  /// The first page of the table; 0: there is none.
  Offset find_table() {
    RootEntry* vacant = nullptr;
    for (std::uint32_t i = 0; i < region_->geometry().root_entries; ++i) {
      RootEntry& entry = roots()[i];
      if (is_zero(entry)) {
        if (vacant == nullptr) vacant = &entry;
      } else if (root_name(entry) == kRegionTableRoot && entry.bytes == kRegionTableBytes) {
        return holds(entry.object, kRegionTableBytes) ? entry.object : 0;
      }
    }
    // Its root is lost. Only a table begins with such a header, and has sound entries behind it.
    for (const Reachability::Object& object : objects_) {
      if (object.bytes < kRegionTableBytes || vacant == nullptr) continue;
      const auto& first = *region_->at<RegionEntry>(object.offset + sizeof(RegionEntry));
      if (!is_sound_entry(first)) continue;
      std::memcpy(vacant->name.data(), kRegionTableRoot, sizeof(kRegionTableRoot) - 1);
      vacant->type = kTypeOfRegionTable;
      vacant->object = object.offset;
      vacant->bytes = kRegionTableBytes;
      vacant->check = crc32c(vacant, offsetof(RootEntry, check));
      mended_.push_back("the root of the region table");
      return object.offset;
    }
    return 0;
  }

  void find_regions() {
    Offset page = find_table();
    std::uint64_t bytes = kRegionTableBytes;
    std::set<std::uint64_t> named;
    for (std::size_t pages = 0; page != 0 && pages <= kMaxOverflowPages; ++pages) {
      auto& header = *region_->at<RegionTableHeader>(page);
      mend_header(header, page);
      for (Offset at = page + sizeof(RegionEntry); at < page + bytes; at += sizeof(RegionEntry)) {
        RegionEntry& entry = *region_->at<RegionEntry>(at);
        if (is_zero(entry)) continue;
        const std::string what = "the region table's entry at byte " + std::to_string(at);
        if (!is_sound_entry(entry)) {
          if (mend_entry(entry)) {
            mended_.push_back(what);
          } else {
            lost_.push_back(what + ": where its region was cannot be told; it is left out");
            entry = RegionEntry{};
          }
        }
        named.insert(entry.file);
        if (entry.state == RegionState::kLive) {
          regions_.push_back(entry);
        } else {
          entry = RegionEntry{};  // being made or destroyed: it goes at the next start anyway
        }
      }
      page = header.overflow;
      bytes = kOverflowBytes;
    }
    std::sort(regions_.begin(), regions_.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (const auto& [number, size] : there_) {
      if (!named.contains(number))
        lost_.push_back(name(number) + ": no entry of the region table names it; it is left out");
    }
  }

  void mend_header(RegionTableHeader& header, Offset page) {
    const auto whole = [&](const RegionTableHeader& now) {
      return now.check == check_of(now) &&
             (now.overflow == 0 || holds(now.overflow, kOverflowBytes));
    };
    if (is_zero(header) || whole(header)) return;
    const std::string what = "the region table at byte " + std::to_string(page);
    if (mend_bit(header, whole)) {
      mended_.push_back(what);
      return;
    }
    lost_.push_back(what + ": whether it goes on elsewhere cannot be told");
    header = RegionTableHeader{};
    header.next_file = there_.empty() ? 0 : there_.rbegin()->first;
    header.check = check_of(header);
  }

  /// Null: it is not there.
  std::unique_ptr<StorageWithGaps> open_part(std::uint64_t file) const {
    const std::string path = name(file);
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd.get() < 0 && errno == ENOENT) return nullptr;
    struct stat status{};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0) throw Exception(io_error(path));
    if (!S_ISREG(status.st_mode))
      throw Exception(Code::kForeign, path + ": not a regular file; put the right one there");
    return std::make_unique<StorageWithGaps>(std::move(fd),
                                             static_cast<std::uint64_t>(status.st_size));
  }
  /// What the last page says must not be of another file. `bytes`: before that page.
  void judge_trailer(StorageWithGaps& part, std::uint64_t file, std::uint64_t bytes) {
    RegionTrailer trailer{};
    (void)part.read(&trailer, sizeof(trailer), bytes);
    if (trailer.magic != kRegionMagic || trailer.check != check_of(trailer) ||
        trailer.bytes != bytes) {
      mended_.push_back(name(file) + ": its last page");
    } else if (trailer.space != region_->superblock().uuid || trailer.file != file) {
      throw Exception(Code::kForeign, name(file) +
                                          ": is another region's, or of another address space; put "
                                          "the right file there");
    }
  }

  void copy_piece(int fd, const RegionEntry& piece) {
    const std::string path = name(piece.file);
    std::unique_ptr<StorageWithGaps> part = open_part(piece.file);
    std::set<Offset> missing;
    if (part != nullptr) {
      part->lengthen(piece.file_bytes + kPageBytes);
      if (part->file_bytes() >= piece.file_bytes + kPageBytes && judged_.insert(piece.file).second)
        judge_trailer(*part, piece.file, piece.file_bytes);
      copy(*part, fd, piece, path);
    }
    for (Offset at = piece.file_offset; at < piece.file_offset + piece.bytes; at += kPageBytes) {
      if (part == nullptr || part->has_gap(at, kPageBytes)) missing.insert(at);
    }
    if (framed_) overlay_frames(fd, piece, missing);
    refuse_missing(missing, piece, path);
    replay_to(fd, piece.begin, piece.file_offset, piece.bytes, path);
  }
  static void copy(StorageWithGaps& part, int fd, const RegionEntry& piece,
                   const std::string& path) {
    std::vector<std::byte> buffer(kCopyBytes);
    const Offset end = piece.file_offset + piece.bytes;
    for (Offset at = piece.file_offset; at < end; at += buffer.size()) {
      at = std::max(at, round_down(part.next_data(at), kPageBytes));
      if (at >= end) return;
      buffer.resize(std::min<std::uint64_t>(kCopyBytes, end - at));
      (void)part.read(buffer.data(), buffer.size(), at);
      for (std::size_t i = 0; i < buffer.size(); i += kPageBytes) {
        if (!is_zero(buffer.data() + i, kPageBytes) &&
            !write_at(fd, buffer.data() + i, kPageBytes, at + i))
          throw Exception(io_error(path + ": writing its copy"));
      }
    }
  }
  /// Pages that are in frames are newer than their files.
  void overlay_frames(int fd, const RegionEntry& piece, std::set<Offset>& missing) const {
    const std::string frames = directory_ + "/" + FramedFiles::kFrames;
    FramePool::inspect(frames, name(piece.file), [&](Offset at, std::span<const std::byte> page) {
      if (!inside(at, page.size(), piece.file_offset, piece.file_offset + piece.bytes)) return;
      if (!write_at(fd, page.data(), page.size(), at))
        throw Exception(io_error(name(piece.file) + ": writing its copy"));
      missing.erase(at);
    }).value();
  }
  void refuse_missing(const std::set<Offset>& missing, const RegionEntry& piece,
                      const std::string& path) {
    if (missing.empty()) return;
    if (!zero_lost_pages_)
      throw Exception(Code::kTruncated,
                      path + ": " + std::to_string(missing.size()) + " pages, the first at byte " +
                          std::to_string(*missing.begin()) +
                          ", cannot be read; restore it from a backup, or take them as zeros with "
                          "--zero-lost-pages");
    for (const Offset at : missing)
      lost_.push_back(path + ": the page at byte " + std::to_string(at) + ", address " +
                      std::to_string(region_->superblock().preferred_base + piece.begin + at -
                                     piece.file_offset) +
                      ": cannot be read; zeros");
  }
  void replay_to(int fd, Offset begin, Offset file_offset, std::uint64_t bytes,
                 const std::string& path) {
    for (auto at = elsewhere_.lower_bound(begin);
         at != elsewhere_.end() && inside(at->first, kWordBytes, begin, begin + bytes); ++at) {
      Word word = 0;
      const Offset to = file_offset + (at->first - begin);
      bool written = read_at(fd, &word, sizeof(word), to);
      word = (word & ~at->second.mask) | (at->second.value & at->second.mask);
      written = written && write_at(fd, &word, sizeof(word), to);
      if (!written) throw Exception(io_error(path + ": writing its copy"));
    }
  }

  void copy_statics(DirectoryFiles& files) {
    const std::string path = name(SpaceFiles::kStatics);
    const std::unique_ptr<StorageWithGaps> part = open_part(SpaceFiles::kStatics);
    if (part == nullptr) return;  // removed, to start over
    if (part->file_bytes() < 2 * kPageBytes || !is_aligned(part->file_bytes(), kPageBytes))
      throw Exception(Code::kTruncated,
                      path +
                          ": was cut off; restore it from a backup, or remove it to start the "
                          "static variables over");
    std::vector<std::byte> all(part->file_bytes() - kPageBytes);
    judge_trailer(*part, SpaceFiles::kStatics, all.size());
    (void)part->read(all.data(), all.size(), 0);
    if (!part->gaps().empty())
      throw Exception(Code::kIo, path + ": cannot be read; restore it from a backup");
    for (auto at = elsewhere_.lower_bound(statics_begin_);
         at != elsewhere_.end() &&
         inside(at->first, kWordBytes, statics_begin_, statics_begin_ + all.size());
         ++at) {
      Word word = 0;
      std::byte* const to = all.data() + (at->first - statics_begin_);
      std::memcpy(&word, to, sizeof(word));
      word = (word & ~at->second.mask) | (at->second.value & at->second.mask);
      std::memcpy(to, &word, sizeof(word));
    }
    if (mend_statics(all, path, mended_, lost_)) files.replace(SpaceFiles::kStatics, all).value();
  }

  std::string directory_;
  bool zero_lost_pages_;
  std::unique_ptr<Region> region_;
  std::uint64_t range_;
  Offset statics_begin_;
  Offset regions_begin_;
  bool framed_;
  std::map<Offset, MaskedWrite> elsewhere_;  // what the logs hold of regions and statics
  std::vector<Reachability::Object> objects_;
  std::map<std::uint64_t, std::uint64_t> there_;  // region files, and their bytes
  std::vector<RegionEntry> regions_;
  std::set<std::uint64_t> judged_;
  std::vector<std::string> mended_, lost_;
};

}  // namespace

Salvaged salvage_space(const std::string& from, const std::string& to, bool zero_lost_pages) {
  SpaceWreck wreck(from, zero_lost_pages);
  NewDirectory directory(to, ".salvaging");
  wreck.write(directory.building());
  {
    // Read back as any other.
    std::vector<std::string> findings;
    auto opened = AddressSpace::inspect(directory.building(), &findings);
    if (!opened) findings.insert(findings.begin(), opened.error().message);
    if (!findings.empty())
      throw Exception(Code::kCorrupt,
                      from + ": cannot be put right (" + findings.front() +
                          "); what was made of it is removed: restore it from a backup");
    const auto& copy = opened.value();
    if (copy->regions().size() != wreck.regions().size())
      throw Exception(Code::kIo, to + ": read back, the copy differs; it was removed; check the "
                                      "device");
  }
  directory.name_it();
  Report mended = Report::array();
  for (const std::string& what : wreck.mended()) mended.push_back({{"put_right", what}});
  return {{{"from", from},
           {"to", to},
           {"kind", "address space"},
           {"objects", wreck.objects()},
           {"regions", wreck.regions().size()},
           {"what_was_put_right", mended}},
          wreck.lost()};
}

}  // namespace perdure::tools
