// SPDX-License-Identifier: BSD-3-Clause
// Opens and uses address spaces whose files an attacker wrote. The input is a list of mutations of the files of a small one:
// damaged words, and well-sealed lies in the region table, in the file of static variables and in the trailers.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target space_fuzz
//   build/fuzz/targets/space_fuzz -timeout=5 -max_len=512 -max_total_time=60
//
// It must never crash, and whatever it opens it must be able to use.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"
#include "tests/fuzz/input.h"

namespace {

using namespace perdure;  // NOLINT
using fuzz::Input;
using File = std::vector<std::byte>;

constexpr std::array<const char*, 4> kNames = {"heap.pool", "statics.region", "1.region",
                                               "2.region"};
using Files = std::array<File, kNames.size()>;

struct Variables {
  std::array<std::uint64_t, 2> address;
};

/// The program's section of static variables.
std::byte* section() {
  static void* const pages =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::byte*>(pages);
}

AddressSpace::Options options(std::uint8_t build_id) {
  AddressSpace::Options options;
  options.pool.domain = DomainKind::kDram;
  options.pool.segment_bytes = std::uint64_t{128} << 10;
  options.pool.ring_bytes = 8192;
  options.pool.log_slots = 2;
  options.pool.root_entries = 8;
  options.pool.lock_bits = 6;
  options.range_bytes = std::uint64_t{1} << 30;
  options.statics.begin = section();
  options.statics.bytes = kPageBytes;
  options.statics.build_id = {build_id};
  options.statics.program = "program";
  options.statics.variables = {{"first", 0, 8}, {"second", build_id * std::uint64_t{8}, 8}};
  options.statics.on_change = Statics::OnChange::kMigrateAndDrop;
  return options;
}

/// A directory that goes when the program does.
const std::string& directory() {
  static const struct Scratch {
    Scratch() {
      char name[] = "/dev/shm/perdure-space-fuzz-XXXXXX";
      path = ::mkdtemp(name);
    }
    ~Scratch() { std::filesystem::remove_all(path); }
    std::string path;
  } scratch;
  return scratch.path;
}

/// The files of a sound address space, and where its region table is.
struct Specimen {
  Files files;
  Offset table = 0;
};

Specimen make_specimen() {
  Specimen specimen;
  {
    const auto space = AddressSpace::open_or_create(directory(), options(1)).value();
    auto* variables = space->pool().root<Variables>("variables");
    for (std::uint64_t& address : variables->address) {
      space->map(reinterpret_cast<void**>(&address), 4 * kPageBytes, PROT_READ | PROT_WRITE)
          .value();
    }
    space->unmap(reinterpret_cast<std::byte*>(variables->address[0]) + kPageBytes, kPageBytes)
        .value();
    space->pool().read_only([&](Tx& tx) {
      for (const RootEntry& root : core_of(space->pool()).roots(tx)) {
        if (std::strcmp(root.name.data(), kRegionTableRoot) == 0) specimen.table = root.object;
      }
    });
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::ifstream in(directory() + "/" + kNames[i], std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    specimen.files[i].resize(text.size());
    std::memcpy(specimen.files[i].data(), text.data(), text.size());
  }
  return specimen;
}

/// Changes one word of a struct, and makes its checksum right again.
template <class T>
void lie(File& file, Offset at, Input& input) {
  if (at + sizeof(T) > file.size()) return;
  std::array<std::uint64_t, sizeof(T) / kWordBytes> words;
  std::memcpy(&words, file.data() + at, sizeof(words));
  std::uint64_t& word = words[input.take<std::uint8_t>() % words.size()];
  const auto value = input.take<std::uint64_t>();
  switch (input.take<std::uint8_t>() % 6) {
    case 0: word = value; break;
    case 1: word ^= value & 0xff; break;
    case 2: word += kPageBytes * (value % 16); break;
    case 3: word -= kPageBytes * (value % 16); break;
    case 4: word = std::uint64_t{1} << (value % 64); break;
    default: word = value % 8; break;
  }
  T changed;
  std::memcpy(&changed, &words, sizeof(changed));
  changed.check = crc32c(&changed, offsetof(T, check));
  std::memcpy(file.data() + at, &changed, sizeof(changed));
}

void mutate(const Specimen& specimen, Files& files, Input& input) {
  const auto which = input.take<std::uint8_t>();
  File& file = files[input.take<std::uint8_t>() % files.size()];
  switch (which % 8) {
    case 0: {
      const Offset at = input.take<std::uint32_t>();
      const auto value = input.take<std::uint8_t>();
      if (!file.empty()) file[at % file.size()] ^= std::byte{value};
      break;
    }
    case 1:
    case 2:
      lie<RegionEntry>(files[0], specimen.table + (1 + input.take<std::uint8_t>() % 8) * 64, input);
      break;
    case 3: lie<RegionTableHeader>(files[0], specimen.table, input); break;
    case 4: lie<StaticsHeader>(files[1], 0, input); break;
    case 5: {  // names, with the right checksum
      StaticsHeader header{};
      if (files[1].size() < 2 * kPageBytes) break;
      std::memcpy(&header, files[1].data(), sizeof(header));
      files[1][kPageBytes + input.take<std::uint8_t>() % 64] =
          std::byte{input.take<std::uint8_t>()};
      if (header.names_bytes > files[1].size() - kPageBytes) break;
      header.names_crc = crc32c(files[1].data() + kPageBytes, header.names_bytes);
      header.check = crc32c(&header, offsetof(StaticsHeader, check));
      std::memcpy(files[1].data(), &header, sizeof(header));
      break;
    }
    case 6:
      if (file.size() >= kPageBytes) lie<RegionTrailer>(file, file.size() - kPageBytes, input);
      break;
    default: file.resize(input.take<std::uint32_t>() % (file.size() + kPageBytes)); break;
  }
}

void open_and_use() {
  try {
    std::vector<std::string> findings;
    if (auto space = AddressSpace::inspect(directory(), &findings)) (void)space.value()->regions();
  } catch (const Exception&) {  // a clean refusal
  }
  try {
    auto space = AddressSpace::open_or_create(directory(), options(2));
    if (!space) return;
    auto* variables = space.value()->pool().root<Variables>("variables");
    for (const RegionEntry& entry : space.value()->regions()) {
      // What is mapped can be read to its end.
      volatile std::byte sink{};
      if ((entry.protection & PROT_READ) != 0)
        sink = space.value()->base()[entry.begin + entry.bytes - 1];
      (void)sink;
      (void)space.value()->unmap(space.value()->base() + entry.begin, entry.bytes);
    }
    variables->address[0] = 0;
    (void)space.value()->map(reinterpret_cast<void**>(&variables->address[0]), kPageBytes,
                             PROT_READ | PROT_WRITE);
  } catch (const Exception&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const Specimen specimen = make_specimen();
  Files files = specimen.files;
  Input input(data, bytes);
  for (int mutations = 0; !input.empty() && mutations < 16; ++mutations)
    mutate(specimen, files, input);
  for (const auto& left : std::filesystem::directory_iterator(directory()))
    std::filesystem::remove(left);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::ofstream out(directory() + "/" + kNames[i], std::ios::binary);
    out.write(reinterpret_cast<const char*>(files[i].data()),
              static_cast<std::streamsize>(files[i].size()));
  }
  open_and_use();
  open_and_use();
  return 0;
}
