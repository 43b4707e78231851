// SPDX-License-Identifier: BSD-3-Clause
// The static variables of an address space: what a start finds of them, and what becomes of them
// when the program changes.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"
#include "perdure/base/hex.h"
#include "perdure/region/space_layout.h"

namespace perdure {

namespace {

std::string id_of(std::span<const std::uint8_t> build_id) {
  return build_id.empty() ? "unknown" : hex_of(build_id);
}
/// Checked before a file is made: one that does not fit would make every later start fail.
Result<void> check_room(const std::string& file, std::uint64_t bytes, std::uint64_t room) {
  if (bytes <= room) return {};
  return Error{Code::kNoSpace, file + ": " + std::to_string(bytes) +
                                   " bytes of static variables do not fit into the " +
                                   std::to_string(room) +
                                   " bytes reserved for them; make a new address space with more "
                                   "(PERDURE_RESERVED_BYTES, of which they have a 256th)"};
}

}  // namespace

/// Before recovery: what records may name. `recorded_` is what the file says.
Result<void> AddressSpace::attach_statics() {
  auto bytes = files_->size(SpaceFiles::kStatics);
  if (!bytes) return bytes.error();
  if (!bytes.value()) {
    // The file was removed, to start over. The logs may still have records for it: these write to
    // memory that is discarded.
    const std::uint64_t nowhere = regions_begin_ - statics_begin_;
    if (auto mapped = files_->map_nowhere(statics_begin_, nowhere); !mapped) return mapped;
    region_->attach({statics_begin_, statics_begin_ + nowhere});
    return {};
  }
  if (auto mapped = map_statics(*bytes.value()); !mapped) return mapped;
  const auto& header = *region_->at<StaticsHeader>(statics_begin_);
  if (header.ready == 0) return {};  // never finished: nobody used it
  const std::string where = files_->name(SpaceFiles::kStatics) + ": ";
  if (header.magic != kStaticsMagic || header.check != check_of_statics(header) ||
      unseal(header.ready, kSaltReady) != std::uint64_t{1} || header.names_bytes > kMaxNamesBytes ||
      header.build_id_bytes > header.build_id.size() || header.variables_bytes > *bytes.value() ||
      variables_offset(header) + header.variables_bytes != *bytes.value() ||
      crc32c(region_->base() + statics_begin_ + kPageBytes, header.names_bytes) != header.names_crc)
    return Error{
        Code::kCorrupt,
        where +
            "its first pages fail their check; restore it from a backup, or remove it to start "
            "the static variables over"};
  recorded_ = header;
  statics_file_bytes_ = *bytes.value();
  return {};
}

Result<void> AddressSpace::map_statics(std::uint64_t bytes) {
  const auto fits =
      check_room(files_->name(SpaceFiles::kStatics), bytes, regions_begin_ - statics_begin_);
  if (!fits) return fits;
  auto part = files_->map(SpaceFiles::kStatics, 0, statics_begin_, bytes, PROT_READ | PROT_WRITE);
  if (!part) return part.error();
  region_->attach(part.value());
  return {};
}

/// After recovery: the program's variables become those of the file, or the file is made from the
/// program's.
Result<void> AddressSpace::settle_statics() {
  if (statics_.begin == nullptr) return {};
  const std::string names = to_text(statics_.variables);
  const std::uint64_t bytes = kPageBytes + round_up(names.size(), kPageBytes) + statics_.bytes;
  const auto fits =
      check_room(files_->name(SpaceFiles::kStatics), bytes, regions_begin_ - statics_begin_);
  if (!fits) return fits;
  if (recorded_) {
    const std::string_view text(
        reinterpret_cast<const char*>(region_->base() + statics_begin_ + kPageBytes),
        recorded_->names_bytes);
    const bool same_program =
        !statics_.build_id.empty() && recorded_->build_id_bytes == statics_.build_id.size() &&
        std::equal(statics_.build_id.begin(), statics_.build_id.end(), recorded_->build_id.begin());
    const bool same_layout = !names.empty() && names == text;
    const bool same_size = recorded_->variables_bytes == statics_.bytes;
    if (!(same_size && (same_program || same_layout))) {
      auto before = variables_from_text(text);
      if (!before) return before.error();
      if (auto changed = change_statics(before.value()); !changed) return changed;
    }
    // Orders: the word that vouches for the variables before the first transaction on them. Who
    //         stored it may have been killed before its fence; it is then in caches only, and a
    //         power cut would take it back, and the variables with it.
    Engine& engine = core_of(*pool_).engine();
    engine.flush(&region_->at<StaticsHeader>(statics_begin_)->ready, kWordBytes,
                 Site::kStaticsAdopt);
    if (!engine.fence(Site::kStaticsAdoptFence))
      throw Exception(Code::kPoisoned, files_->name(SpaceFiles::kStatics) + ": a sync failed");
  } else {
    // The file is new or was never finished; in either case nobody relies on what is there.
    hide(statics_begin_, regions_begin_ - statics_begin_);
    if (auto removed = files_->remove(SpaceFiles::kStatics); !removed) return removed;
    if (auto created = files_->create(SpaceFiles::kStatics, bytes); !created) return created;
    if (auto mapped = map_statics(bytes); !mapped) return mapped;
    write_statics(image_of_statics());
  }
  variables_begin_ = statics_begin_ + variables_offset(*region_->at<StaticsHeader>(statics_begin_));
  return files_->alias(variables_begin_, statics_.bytes, statics_.begin);
}

/// The whole file, with the values that the program's variables have now.
std::vector<std::byte> AddressSpace::image_of_statics() const {
  const std::string names = to_text(statics_.variables);
  StaticsHeader header{};
  header.magic = kStaticsMagic;
  header.names_bytes = names.size();
  header.variables_bytes = statics_.bytes;
  header.names_crc = crc32c(names.data(), names.size());
  header.build_id_bytes = std::min(statics_.build_id.size(), header.build_id.size());
  std::copy_n(statics_.build_id.begin(), header.build_id_bytes, header.build_id.begin());
  statics_.program.copy(header.program.data(), header.program.size() - 1);
  header.check = check_of_statics(header);
  header.ready = seal(1, kSaltReady);
  std::vector<std::byte> image(variables_offset(header) + statics_.bytes);
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + kPageBytes, names.data(), names.size());
  std::memcpy(image.data() + variables_offset(header), statics_.begin, statics_.bytes);
  return image;
}

/// Fills a new file.
///   1. everything but the word that says so; fence   crash here ⇒ not ready: made again from the
///                                                    executable
///   2. the word; fence                               from here on the variables keep their values
void AddressSpace::write_statics(std::vector<std::byte> image) {
  Engine& engine = core_of(*pool_).engine();
  const Word ready = seal(1, kSaltReady);
  auto* const words = reinterpret_cast<Word*>(image.data());
  words[offsetof(StaticsHeader, ready) / kWordBytes] = 0;
  engine.write_through(region_->word(statics_begin_), words, image.size() / kWordBytes,
                       Site::kStatics);
  // Orders: names and values before the word that vouches for them.
  bool durable = engine.fence(Site::kStaticsFence);
  auto* const header = region_->at<StaticsHeader>(statics_begin_);
  engine.store(&header->ready, ready);
  engine.flush(&header->ready, kWordBytes, Site::kStatics);
  // Orders: the word before the first transaction on these variables.
  durable = engine.fence(Site::kStaticsFence) && durable;
  if (!durable)
    throw Exception(Code::kPoisoned, files_->name(SpaceFiles::kStatics) +
                                         ": a sync failed while it was made; run again");
}

/// The program has other variables than the file: the user decides what to do.
Result<void> AddressSpace::change_statics(const std::vector<StaticVariable>& before) {
  const std::string where = files_->name(SpaceFiles::kStatics);
  const std::string by = std::string(
      recorded_->program.data(), ::strnlen(recorded_->program.data(), recorded_->program.size()));
  const bool named = !before.empty() && !statics_.variables.empty();
  std::string change =
      named ? describe_change(before, statics_.variables)
            : "their names are not known: an executable is stripped (keep its "
              "build id, with which the same one is always accepted: -Wl,--build-id)";
  if (change.empty()) change = "the section's size";
  const std::string what = where + ": was made by '" + by + "' (build " +
                           id_of({recorded_->build_id.data(), recorded_->build_id_bytes}) + ", " +
                           std::to_string(recorded_->variables_bytes) +
                           " bytes of pstatic variables); '" + statics_.program + "' (build " +
                           id_of(statics_.build_id) + ", " + std::to_string(statics_.bytes) +
                           " bytes) lays them out differently: " + change;
  using OnChange = Statics::OnChange;
  if (statics_.on_change == OnChange::kRefuse)
    return Error{Code::kTypeMismatch, what +
                                          "; run the old program, or run this one once with "
                                          "PERDURE_STATICS=migrate (values are kept by "
                                          "name and size), or PERDURE_STATICS=reset (start over)"};
  std::vector<std::byte> image = image_of_statics();
  if (statics_.on_change != OnChange::kReset) {
    if (!named)
      return Error{Code::kTypeMismatch,
                   what + "; without names only PERDURE_STATICS=reset is possible"};
    const std::byte* const from = region_->base() + statics_begin_ + variables_offset(*recorded_);
    std::byte* const to = image.data() + image.size() - statics_.bytes;
    for (const StaticVariable& old : before) {
      const auto now =
          std::find_if(statics_.variables.begin(), statics_.variables.end(),
                       [&](const StaticVariable& variable) {
                         return variable.name == old.name && variable.bytes == old.bytes;
                       });
      const bool sound = inside(old.offset, old.bytes, 0, recorded_->variables_bytes);
      if (now != statics_.variables.end() && sound) {
        std::memcpy(to + now->offset, from + old.offset, old.bytes);
      } else if (statics_.on_change == OnChange::kMigrate) {
        return Error{Code::kTypeMismatch,
                     what + "; '" + old.name +
                         "' would lose its value: PERDURE_STATICS=migrate,drop accepts that"};
      }
    }
  }
  pool_->checkpoint();  // no record names the old places any more
  hide(statics_begin_, regions_begin_ - statics_begin_);
  if (auto replaced = files_->replace(SpaceFiles::kStatics, image); !replaced) return replaced;
  return map_statics(image.size());
}

}  // namespace perdure
