// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/statics.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

#include "perdure/base/words.h"

namespace perdure {
namespace {

/// Read access to an ELF file, every offset checked.
class Elf {
 public:
  explicit Elf(std::vector<char> bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  bool read(std::uint64_t offset, T& out) const {
    if (!inside(offset, sizeof(T), 0, bytes_.size())) return false;
    std::memcpy(&out, bytes_.data() + offset, sizeof(T));
    return true;
  }
  std::string text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    return {bytes_.data() + offset, ::strnlen(bytes_.data() + offset, bytes_.size() - offset)};
  }
  bool header(Elf64_Ehdr& header) const {
    return read(0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
           header.e_ident[EI_CLASS] == ELFCLASS64;
  }
  bool section(const Elf64_Ehdr& header, std::uint64_t index, Elf64_Shdr& out) const {
    return index < header.e_shnum && read(header.e_shoff + index * sizeof(Elf64_Shdr), out);
  }

 private:
  std::vector<char> bytes_;
};

std::vector<std::uint8_t> build_id_in(const Elf& elf, const Elf64_Shdr& notes) {
  Elf64_Nhdr note;
  if (!elf.read(notes.sh_offset, note) || note.n_type != NT_GNU_BUILD_ID || note.n_descsz > 64)
    return {};
  std::vector<std::uint8_t> id(note.n_descsz);
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (!elf.read(notes.sh_offset + sizeof(note) + round_up(note.n_namesz, 4) + i, id[i]))
      return {};
  }
  return id;
}

}  // namespace

Result<Statics> statics_of_this_program(std::byte* begin, std::byte* end) {
  Statics statics;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  if (!is_aligned(first, kPageBytes) ||
      !is_aligned(reinterpret_cast<std::uintptr_t>(end), kPageBytes))
    return Error{
        Code::kInvalid,
        "the section of the pstatic variables does not fill whole pages; link with perdure-gcc, "
        "or put libperdure.a behind everything that declares pstatic variables"};
  statics.begin = begin;
  statics.bytes = static_cast<std::uint64_t>(end - begin);
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return Error{Code::kIo, "/proc/self/exe: cannot be read"};
  path.resize(static_cast<std::size_t>(length));
  statics.program = path.substr(path.rfind('/') + 1);

  std::ifstream file("/proc/self/exe", std::ios::binary);
  // In one piece: every start of the program waits for it.
  file.seekg(0, std::ios::end);
  std::vector<char> bytes(static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0)));
  file.seekg(0);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return Error{Code::kIo, path + ": cannot be read"};
  const Elf elf(std::move(bytes));
  Elf64_Ehdr header;
  Elf64_Shdr names;
  if (!elf.header(header) || !elf.section(header, header.e_shstrndx, names))
    return Error{Code::kIo, path + ": cannot be read as an executable"};
  std::uint64_t persistent = 0;  // index of the section
  Elf64_Shdr place{};
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!elf.section(header, i, section)) continue;
    const std::string name = elf.text(names.sh_offset + section.sh_name);
    if (name == ".note.gnu.build-id") statics.build_id = build_id_in(elf, section);
    if (name != "persistent") continue;
    persistent = i;
    place = section;
  }
  std::map<std::string, unsigned> seen;
  for (std::uint64_t i = 0; persistent != 0 && i < header.e_shnum; ++i) {
    Elf64_Shdr table;
    Elf64_Shdr strings;
    if (!elf.section(header, i, table) || table.sh_type != SHT_SYMTAB ||
        !elf.section(header, table.sh_link, strings))
      continue;
    for (std::uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!elf.read(table.sh_offset + at, symbol)) break;
      if (symbol.st_shndx != persistent || ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) continue;
      statics.variables.push_back({elf.text(strings.sh_offset + symbol.st_name),
                                   symbol.st_value - place.sh_addr, symbol.st_size});
    }
  }
  std::sort(statics.variables.begin(), statics.variables.end(),
            [](const StaticVariable& a, const StaticVariable& b) { return a.offset < b.offset; });
  // `static` variables of two files may share a name: told apart by their order.
  for (StaticVariable& variable : statics.variables) {
    const unsigned before = seen[variable.name]++;
    if (before > 0) variable.name += "#" + std::to_string(before + 1);
  }
  return statics;
}

std::string to_text(const std::vector<StaticVariable>& variables) {
  std::string text;
  for (const StaticVariable& variable : variables) {
    text += std::to_string(variable.offset) + " " + std::to_string(variable.bytes) + " " +
            variable.name + "\n";
  }
  return text;
}

Result<std::vector<StaticVariable>> variables_from_text(std::string_view text) {
  std::vector<StaticVariable> variables;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    StaticVariable variable;
    bool sound = end != text.npos;
    for (std::uint64_t* number : {&variable.offset, &variable.bytes}) {
      const auto parsed = std::from_chars(line.data(), line.data() + line.size(), *number);
      sound = sound && parsed.ec == std::errc() && parsed.ptr != line.data() + line.size() &&
              *parsed.ptr == ' ';
      if (!sound) return Error{Code::kCorrupt, "the list of its variables cannot be read"};
      line.remove_prefix(static_cast<std::size_t>(parsed.ptr - line.data()) + 1);
    }
    variable.name = line;
    variables.push_back(std::move(variable));
    text.remove_prefix(end + 1);
  }
  return variables;
}

std::string describe_change(const std::vector<StaticVariable>& before,
                            const std::vector<StaticVariable>& now, std::size_t limit) {
  const auto find = [](const std::vector<StaticVariable>& in, const std::string& name) {
    return std::find_if(in.begin(), in.end(),
                        [&](const StaticVariable& variable) { return variable.name == name; });
  };
  std::vector<std::string> lines;
  for (const StaticVariable& old : before) {
    const auto fresh = find(now, old.name);
    if (fresh == now.end()) {
      lines.push_back(old.name + " (" + std::to_string(old.bytes) + " bytes) is gone");
    } else if (fresh->bytes != old.bytes) {
      lines.push_back(old.name + " had " + std::to_string(old.bytes) + " bytes, has " +
                      std::to_string(fresh->bytes));
    } else if (fresh->offset != old.offset) {
      lines.push_back(old.name + " moved from byte " + std::to_string(old.offset) + " to " +
                      std::to_string(fresh->offset));
    }
  }
  for (const StaticVariable& fresh : now) {
    if (find(before, fresh.name) == before.end())
      lines.push_back(fresh.name + " (" + std::to_string(fresh.bytes) + " bytes) is new");
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == limit) return text + "... and " + std::to_string(lines.size() - limit) + " more";
    text += (i == 0 ? "" : ", ") + lines[i];
  }
  return text;
}

}  // namespace perdure
