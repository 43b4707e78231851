// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/statics_mend.h"

#include <algorithm>
#include <cstring>

#include "perdure/error.h"
#include "perdure/region/space_layout.h"

namespace perdure::tools {

bool mend_statics(std::vector<std::byte>& all, const std::string& path,
                  std::vector<std::string>& mended, std::vector<std::string>& lost) {
  StaticsHeader header{};
  std::memcpy(&header, all.data(), sizeof(header));
  const auto names_fit = [&](std::uint64_t bytes, std::uint32_t crc) {
    return bytes <= kMaxNamesBytes && kPageBytes + round_up(bytes, kPageBytes) <= all.size() &&
           crc32c(all.data() + kPageBytes, bytes) == crc;
  };
  const auto whole = [&](const StaticsHeader& now) {
    return now.magic == kStaticsMagic && now.check == check_of_statics(now) &&
           unseal(now.ready, kSaltReady) == std::uint64_t{1} &&
           now.build_id_bytes <= now.build_id.size() &&
           names_fit(now.names_bytes, static_cast<std::uint32_t>(now.names_crc)) &&
           variables_offset(now) + now.variables_bytes == all.size();
  };
  if (header.ready == 0 && header.magic == StaticsHeader{}.magic) return false;
  if (whole(header)) return true;
  const auto refuse = [&](const std::string& what) {
    throw Exception(Code::kCorrupt, path + ": " + what +
                                        "; restore it from a backup, or remove it to start the "
                                        "static variables over");
  };
  const bool known = header.check == check_of_statics(header);
  header.magic = kStaticsMagic;
  header.ready = seal(1, kSaltReady);
  header.build_id_bytes = std::min<std::uint64_t>(header.build_id_bytes, header.build_id.size());
  if (!names_fit(header.names_bytes, static_cast<std::uint32_t>(header.names_crc))) {
    if (known) refuse("the names of its variables (byte 4096) fail their check");
    // So many bytes that their check holds.
    std::uint64_t end = 0;
    std::uint32_t crc = 0;
    const std::uint64_t most = std::min<std::uint64_t>(all.size() - kPageBytes, kMaxNamesBytes);
    while (end < most && crc != header.names_crc)
      crc = crc32c(all.data() + kPageBytes + end++, 1, crc);
    if (!names_fit(end, static_cast<std::uint32_t>(header.names_crc)))
      refuse("its first page fails its check, and where the variables begin cannot be told");
    header.names_bytes = end;
  }
  header.variables_bytes = all.size() - variables_offset(header);
  if (header.check == check_of_statics(header)) {
    mended.push_back(path + ": its first page");
  } else {
    header.check = check_of_statics(header);
    lost.push_back(path +
                   ": its first page fails its check; which program made it may be wrong there");
  }
  std::memcpy(all.data(), &header, sizeof(header));
  return true;
}

}  // namespace perdure::tools
