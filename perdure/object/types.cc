// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object/types.h"

#include <algorithm>
#include <sstream>

namespace perdure {
namespace {

constexpr const char* kKinds[] = {"value", "ref", "weak"};

std::string line_of(const Member& member) {
  return std::string(kKinds[static_cast<std::size_t>(member.kind)]) + " " + member.name + " " +
         member.type + " " + std::to_string(member.offset) + " " + std::to_string(member.bytes) +
         " " + std::to_string(member.count);
}

std::string for_people(const Member& member) {
  const std::string row = member.count > 1 ? "[" + std::to_string(member.count) + "]" : "";
  const std::string kind = member.kind == MemberKind::kRef       ? "ref<" + member.type + ">"
                           : member.kind == MemberKind::kWeakRef ? "weak_ref<" + member.type + ">"
                                                                 : member.type;
  return kind + " " + member.name + row + " at byte " + std::to_string(member.offset) + ", " +
         std::to_string(member.bytes * member.count) + " bytes";
}

bool is_reserved(const Member& member) {
  constexpr std::string_view kName = "reserved";
  return member.kind == MemberKind::kValue && member.name.starts_with(kName) &&
         member.name.find_first_not_of("_0123456789", kName.size()) == std::string::npos;
}

}  // namespace

std::string TypeInfo::text() const {
  std::string text = name + " " + std::to_string(bytes) + (is_array ? " array" : " class") + "\n";
  for (const Member& member : members) text += line_of(member) + "\n";
  return text;
}

Result<TypeInfo> TypeInfo::parse(std::string_view text) {
  const auto corrupt = [&] {
    return Error{Code::kCorrupt,
                 "the description of a class reads '" + std::string(text.substr(0, 80)) + "'"};
  };
  std::istringstream lines{std::string(text)};
  TypeInfo info;
  std::string what;
  std::string line;
  if (!std::getline(lines, line)) return corrupt();
  std::istringstream head(line);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  if (!(head >> info.name >> info.bytes >> what) || (what != "class" && what != "array") ||
      info.bytes > kMost)
    return corrupt();
  info.is_array = what == "array";
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Member member;
    if (!(words >> what >> member.name >> member.type >> member.offset >> member.bytes >>
          member.count))
      return corrupt();
    const auto* kind = std::find(std::begin(kKinds), std::end(kKinds), what);
    if (kind == std::end(kKinds) || member.offset > kMost || member.bytes == 0 ||
        member.bytes > kMost || member.count == 0 || member.count > kMost ||
        (!info.is_array && member.end() > info.bytes))
      return corrupt();
    member.kind = static_cast<MemberKind>(kind - std::begin(kKinds));
    if (member.kind != MemberKind::kValue && (member.bytes != 8 || member.offset % 8 != 0))
      return corrupt();
    info.members.push_back(std::move(member));
  }
  if (info.is_array && (info.members.size() != 1 || info.members[0].offset != 8)) return corrupt();
  return info;
}

bool TypeInfo::can_stand_for(const TypeInfo& recorded) const {
  if (bytes != recorded.bytes || is_array != recorded.is_array) return false;
  // What is here must have been there, or lie in what was reserved; what was there must be here, or
  // have been reserved.
  const auto has = [](const std::vector<Member>& in, const Member& member) {
    return std::find(in.begin(), in.end(), member) != in.end();
  };
  const auto in_reserved = [&](const Member& member) {
    return std::any_of(recorded.members.begin(), recorded.members.end(), [&](const Member& place) {
      return is_reserved(place) && place.offset <= member.offset && member.end() <= place.end();
    });
  };
  return std::all_of(members.begin(), members.end(),
                     [&](const Member& member) {
                       return has(recorded.members, member) || in_reserved(member);
                     }) &&
         std::all_of(recorded.members.begin(), recorded.members.end(), [&](const Member& member) {
           return has(members, member) || is_reserved(member);
         });
}

std::string TypeInfo::difference(const TypeInfo& recorded) const {
  std::string text;
  if (bytes != recorded.bytes)
    text += "\n  the heap's objects have " + std::to_string(recorded.bytes) +
            " bytes, the program's " + std::to_string(bytes);
  for (const Member& member : recorded.members) {
    if (std::find(members.begin(), members.end(), member) == members.end())
      text += "\n  only in the heap:    " + for_people(member);
  }
  for (const Member& member : members) {
    if (std::find(recorded.members.begin(), recorded.members.end(), member) ==
        recorded.members.end())
      text += "\n  only in the program: " + for_people(member);
  }
  return text;
}

}  // namespace perdure
