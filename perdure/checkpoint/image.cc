// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/image.h"

#include <cstring>
#include <unordered_set>

#include "perdure/base/crc32c.h"
#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kMagic = 0x31544b4344525050;  // "PPRDCKT1"
constexpr std::uint32_t kVersion = 1;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t blocks;
  std::uint32_t pages;
  std::uint32_t tables_crc;
  std::uint64_t epoch;
  std::uint32_t header_crc;  // of all before
  std::uint32_t zero[7];
};
static_assert(sizeof(Header) == Image::kHeaderBytes);

std::uint32_t crc_of(const Header& header) { return crc32c(&header, offsetof(Header, header_crc)); }

}  // namespace

std::size_t Image::most_bytes(const Geometry& geometry) {
  return kHeaderBytes + (std::size_t{geometry.block_entries} + geometry.spill_entries +
                         geometry.page_entries + geometry.spill_pages) *
                            kEntryBytes;
}

std::vector<unsigned char> Image::tables() const {
  std::vector<unsigned char> bytes(table_bytes());
  if (!blocks.empty()) std::memcpy(bytes.data(), blocks.data(), blocks.size() * kEntryBytes);
  if (!pages.empty())
    std::memcpy(bytes.data() + blocks.size() * kEntryBytes, pages.data(),
                pages.size() * kEntryBytes);
  return bytes;
}

std::vector<unsigned char> Image::header() const {
  const std::vector<unsigned char> bytes = tables();
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.blocks = std::uint32_t(blocks.size());
  header.pages = std::uint32_t(pages.size());
  header.tables_crc = crc32c(bytes.data(), bytes.size());
  header.epoch = epoch;
  header.header_crc = crc_of(header);
  std::vector<unsigned char> result(sizeof header);
  std::memcpy(result.data(), &header, sizeof header);
  return result;
}

std::string Image::read(std::span<const unsigned char> backup, const Geometry& geometry,
                        Image& into) {
  Header header;
  if (backup.size() < sizeof header) return "shorter than a header";
  std::memcpy(&header, backup.data(), sizeof header);
  if (header.magic != kMagic) return "no backup of tables";
  if (header.version != kVersion) return "of another version";
  if (header.header_crc != crc_of(header)) return "the header's checksum does not hold";
  for (const std::uint32_t word : header.zero)
    if (word != 0) return "the header says what this version does not know";
  if (header.blocks > geometry.block_entries + geometry.spill_entries ||
      header.pages > geometry.page_entries + geometry.spill_pages)
    return "more entries than the tables have";
  Image image;
  image.epoch = header.epoch;
  image.blocks.resize(header.blocks);
  image.pages.resize(header.pages);
  if (backup.size() < sizeof header + image.table_bytes()) return "shorter than its tables";
  const unsigned char* tables = backup.data() + sizeof header;
  if (header.tables_crc != crc32c(tables, image.table_bytes()))
    return "the tables' checksum does not hold";
  if (header.blocks != 0) std::memcpy(image.blocks.data(), tables, header.blocks * kEntryBytes);
  if (header.pages != 0)
    std::memcpy(image.pages.data(), tables + header.blocks * kEntryBytes,
                header.pages * kEntryBytes);

  std::vector<bool> slots(geometry.block_slots),
      page_slots(geometry.page_entries + geometry.spill_pages);
  std::unordered_set<std::uint32_t> blocks, pages;
  for (const BlockAt& at : image.blocks) {
    if (at.slot >= slots.size() || slots[at.slot]) return "a slot is out of range or used twice";
    slots[at.slot] = true;
    if (at.block >= geometry.memory_blocks) return "a block lies beyond the memory";
    if (!blocks.insert(at.block).second) return "a block is named twice";
  }
  for (const PageAt& at : image.pages) {
    if (at.slot >= page_slots.size() || page_slots[at.slot])
      return "a slot of a page is out of range or used twice";
    page_slots[at.slot] = true;
    if (at.page >= geometry.memory_blocks / geometry.blocks_per_page)
      return "a page lies beyond the memory";
    if (!pages.insert(at.page).second) return "a page is named twice";
  }
  for (const BlockAt& at : image.blocks)
    if (pages.contains(at.block / geometry.blocks_per_page))
      return "a block is named beside its page";
  into = std::move(image);
  return {};
}

Recovered recover(std::span<const unsigned char> backup0, std::span<const unsigned char> backup1,
                  const Geometry& geometry) {
  Recovered newest;
  int number = 0;
  for (const auto& backup : {backup0, backup1}) {
    Image image;
    if (Image::read(backup, geometry, image).empty() && image.epoch > newest.image.epoch)
      newest = {std::move(image), number};
    ++number;
  }
  return newest;
}

}  // namespace perdure::checkpoint
