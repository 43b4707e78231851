// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/scrub.h"

#include <array>
#include <cstring>

#include "perdure/api/device_reader.h"
#include "perdure/region/region.h"

namespace perdure {

Result<PageSumsReport> scrub_pool(const std::string& path, const ShowAreas& show) {
  auto super = Region::read_superblock(path);
  if (!super) return super.error();
  auto opened = DeviceReader::open(path);
  if (!opened) return opened.error();
  DeviceReader& device = opened.value();
  std::array<Word, kPageBytes / kWordBytes> page{};
  if (auto got = device.read(kStateOffset, reinterpret_cast<std::byte*>(page.data()), kPageBytes);
      !got)
    return got.error();
  StatePage state{};
  std::memcpy(&state, page.data(), sizeof(state));
  const auto grown = unseal(state.grown_bytes.word, kSaltGrown);
  if (!grown || *grown < super->heap_offset || *grown > super->geometry.capacity_bytes)
    return Error{Code::kCorrupt,
                 path + ": grown_bytes (byte 4096) fails its check; `perdure check` tells more"};
  return check_page_sums(
      super.value(), *grown,
      [&](Offset at, std::byte* to, std::uint64_t bytes) { return device.read(at, to, bytes); },
      show);
}

Result<void> complete_sums(const std::string& path) {
  auto super = Region::read_superblock(path);
  if (!super) return super.error();
  Region::OpenOptions how;
  how.features = super->incompatible;
  auto region = Region::open_file(path, DomainKind::kAuto, Region::Access::kReadWrite, how);
  if (!region) return region.error();
  if (region.value()->sums() == nullptr)
    return Error{Code::kInvalid, path + ": is of format version " + std::to_string(super->version) +
                                     ", which has no checksums of pages; raising a limit with "
                                     "`perdure grow` brings a pool to the newest version"};
  PageSums& sums = *region.value()->sums();
  if (!sums.open_all())
    return Error{Code::kIo, path + ": the words of the page sums cannot be written"};
  if (!sums.rest(~std::uint64_t{0}))
    return Error{Code::kIo, path +
                                ": pages cannot be read, or their checksums not be written (is "
                                "the device full?); the pool has no checksums now"};
  return {};
}

}  // namespace perdure
