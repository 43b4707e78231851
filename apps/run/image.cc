// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/image.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>

#include "perdure/base/crc32c.h"

namespace perdure::run {
namespace {

using checkpoint::Piece;

/// A path behind a fixed part: as long as that says, and absolute or a name of the kernel's.
template <class T>
bool take_path(std::span<const char> payload, std::uint32_t bytes, std::string& path) {
  if (payload.size() != sizeof(T) + bytes) return false;
  path.assign(payload.data() + sizeof(T), bytes);
  return path.find('\0') == std::string::npos;
}

bool in_user_memory(std::uint64_t begin, std::uint64_t bytes) {
  return begin % kPageBytes == 0 && bytes % kPageBytes == 0 && bytes != 0 && begin < kUserEnd &&
         bytes <= kUserEnd - begin && (begin + bytes <= kReservedBegin || begin >= kReservedEnd);
}

bool take_area(std::span<const char> payload, Area& area) {
  return take(payload, area.vma) && take_path<VmaRecord>(payload, area.vma.path_bytes, area.path) &&
         area.vma.begin < area.vma.end &&
         in_user_memory(area.vma.begin, area.vma.end - area.vma.begin) &&
         area.vma.kind >= VmaKind::kAnonymous && area.vma.kind <= VmaKind::kVdso &&
         area.vma.protection < 8 && area.vma.file_offset % kPageBytes == 0 &&
         (area.vma.kind != VmaKind::kFile || area.path.starts_with('/'));
}

bool take_file(std::span<const char> payload, OpenFile& file) {
  return take(payload, file.file) &&
         take_path<FileRecord>(payload, file.file.path_bytes, file.path) &&
         file.file.descriptor >= 0 && file.file.descriptor < (1 << 20) &&
         file.file.same_as < file.file.descriptor && file.file.kind >= FileKind::kRegular &&
         file.file.kind <= FileKind::kLost && file.file.offset <= INT64_MAX &&
         file.file.bytes <= INT64_MAX;
}

bool take_process(std::span<const char> payload, ProcessRecord& process) {
  return payload.size() == sizeof process && take(payload, process) && process.pid > 1 &&
         process.auxv_bytes <= sizeof process.auxv && process.cwd_bytes < sizeof process.cwd &&
         process.cwd[0] == '/' && process.cwd[process.cwd_bytes] == 0;
}

bool take_contents(std::span<const char> payload, OpenFile& file) {
  ContentsRecord contents{};
  if (!take(payload, contents) || payload.size() != sizeof contents + contents.bytes) return false;
  file.contents.append(payload.data() + sizeof contents, contents.bytes);
  return contents.descriptor == file.file.descriptor &&
         contents.offset + contents.bytes == file.contents.size();
}

/// Adds a record to the image. False: it cannot be true.
bool add(Image& image, RecordKind kind, std::span<const char> payload) {
  switch (kind) {
    case RecordKind::kMachine:
      return payload.size() == sizeof image.machine && take(payload, image.machine) &&
             image.machine.kernel_release[sizeof image.machine.kernel_release - 1] == 0;
    case RecordKind::kProcess: return take_process(payload, image.process);
    case RecordKind::kThread: {
      ThreadRecord& thread = image.threads.emplace_back();
      return payload.size() == sizeof thread && take(payload, thread) && thread.tid > 0 &&
             thread.name[sizeof thread.name - 1] == 0 && thread.frame < kUserEnd;
    }
    case RecordKind::kVma: {
      const std::uint64_t before = image.areas.empty() ? 0 : image.areas.back().vma.end;
      return take_area(payload, image.areas.emplace_back()) &&
             image.areas.back().vma.begin >= before;
    }
    case RecordKind::kFile: return take_file(payload, image.files.emplace_back());
    case RecordKind::kContents:
      return !image.files.empty() && take_contents(payload, image.files.back());
    default: return take_belonging(kind, payload, image.belongings);
  }
}

/// Takes the records one after the other. Returns where one is wrong, or the end.
std::size_t add_all(Image& image, std::span<const char> table) {
  std::size_t at = 0;
  while (at < table.size()) {
    RecordHeader header{};
    if (!take(table.subspan(at), header) ||
        header.crc != crc32c(&header, sizeof header - sizeof header.crc) ||
        table.size() - at - sizeof header < padded(header.payload_bytes))
      return at;
    const auto payload = table.subspan(at + sizeof header, header.payload_bytes);
    if (header.payload_crc != crc32c(payload.data(), payload.size()) ||
        !add(image, header.kind, payload))
      return at;
    at += sizeof header + padded(header.payload_bytes);
  }
  return at;
}

}  // namespace

ImageReader::ImageReader(checkpoint::EpochStore& store, checkpoint::Storage& storage,
                         std::string name)
    : store_(store), storage_(storage), name_(std::move(name)) {
  store
      .for_each_piece_of_last([&](const Piece& piece) {
        std::vector<std::byte>& page = newest_[static_cast<std::uint32_t>(piece.page)];
        if (page.empty()) {
          page.resize(kPageBytes);
          if (!storage_.read(page.data(), kPageBytes,
                             home_offset(static_cast<std::uint32_t>(piece.page))))
            throw Exception(io_error(name_));
        }
        if (piece.data == nullptr) {
          std::memset(page.data() + piece.at, 0, piece.bytes);
        } else {
          std::memcpy(page.data() + piece.at, piece.data, piece.bytes);
        }
      })
      .value();
}

std::uint64_t ImageReader::home_offset(std::uint32_t slot) const {
  return store_.superblock().home_offset + std::uint64_t{slot} * kPageBytes;
}

void ImageReader::read(std::uint32_t slot, std::byte* page) {
  if (const auto here = newest_.find(slot); here != newest_.end()) {
    std::memcpy(page, here->second.data(), kPageBytes);
  } else if (!storage_.read(page, kPageBytes, home_offset(slot))) {
    throw Exception(io_error(name_));
  }
}

void ImageReader::damaged(const std::string& what) const {
  throw Exception(Code::kCorrupt, name_ + ": epoch " + std::to_string(store_.epoch()) + ": " +
                                      what + "; `perdure resume --back` takes the epoch before it");
}

ImageHead ImageReader::head() {
  if (store_.epoch() == 0)
    throw Exception(
        Code::kNotFound,
        name_ +
            ": no epoch was committed; remove the directory, and run the program from the start");
  std::vector<std::byte> page(kPageBytes);
  read(0, page.data());
  ImageHead head{};
  std::memcpy(&head, page.data(), sizeof head);
  if (head.magic == kImageMagic && head.version > kFormatVersion)
    throw Exception(Code::kVersion, name_ + ": has format " + std::to_string(head.version) +
                                        ", and this perdure knows " +
                                        std::to_string(kFormatVersion) +
                                        "; resume it with the release that wrote it");
  if (head.magic != kImageMagic || head.version != kFormatVersion ||
      head.head_bytes != sizeof head || head.crc != crc32c(&head, sizeof head - sizeof head.crc))
    damaged("slot 0, its head, is damaged");
  const std::uint64_t slots = store_.superblock().capacity_bytes / kPageBytes;
  if (slots <= kMemorySlot || head.table_bytes > kMostTableBytes ||
      head.memory_slots > slots - kMemorySlot)
    damaged("its head says more than there is room for");
  return head;
}

std::uint32_t ImageReader::fill_shadow(std::byte* shadow) {
  const ImageHead all = head();
  const auto copy = [&](std::uint64_t first, std::uint64_t bytes) {
    for (std::uint64_t slot = first; slot < first + (bytes + kPageBytes - 1) / kPageBytes; ++slot)
      read(static_cast<std::uint32_t>(slot), shadow + slot * kPageBytes);
  };
  copy(0, kPageBytes);
  copy(kTableSlot, all.table_bytes);
  copy(kMapSlot, std::uint64_t{all.memory_slots} * sizeof(std::uint64_t));
  return all.memory_slots;
}

Image ImageReader::image() {
  const ImageHead all = head();
  Image image;
  image.epoch = store_.epoch();
  std::vector<std::byte> page(kPageBytes);
  std::string table;
  for (std::uint32_t slot = kTableSlot; table.size() < all.table_bytes; ++slot) {
    read(slot, page.data());
    table.append(reinterpret_cast<const char*>(page.data()), kPageBytes);
  }
  table.resize(all.table_bytes);
  if (const std::size_t end = add_all(image, table); end != table.size())
    damaged("the record at byte " + std::to_string(end) + " of its table is damaged");
  std::stable_partition(image.threads.begin(), image.threads.end(),
                        [&](const auto& each) { return each.tid == image.process.pid; });
  if (image.process.pid == 0 || !image.belongings.attributes || image.machine.vdso_bytes == 0 ||
      image.areas.empty() || image.threads.empty() || image.threads[0].tid != image.process.pid)
    damaged("its table lacks a record");

  for (std::uint32_t slot = 0; slot < all.memory_slots; ++slot) {
    constexpr std::uint32_t kInPage = kPageBytes / sizeof(std::uint64_t);
    if (slot % kInPage == 0) read(kMapSlot + slot / kInPage, page.data());
    std::uint64_t address = 0;
    std::memcpy(&address, page.data() + slot % kInPage * sizeof address, sizeof address);
    if (address != 0) image.pages.push_back({address, kMemorySlot + slot});
  }
  std::sort(image.pages.begin(), image.pages.end(),
            [](const PageAt& a, const PageAt& b) { return a.address < b.address; });
  auto area = image.areas.begin();
  std::uint64_t free_from = 0;
  for (const PageAt& each : image.pages) {
    while (area != image.areas.end() && area->vma.end <= each.address) ++area;
    if (!in_user_memory(each.address, kPageBytes) || each.address < free_from ||
        area == image.areas.end() || each.address < area->vma.begin)
      damaged("its map names a page where no memory is, or twice");
    free_from = each.address + kPageBytes;
  }
  return image;
}

std::optional<std::string> ending_of(const std::string& directory) {
  std::ifstream file(directory + "/ended");
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

}  // namespace perdure::run
