// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/belongings.h"

#include <algorithm>

namespace perdure::run {
namespace {

template <class T>
bool take_whole(std::span<const char> payload, std::vector<T>& all) {
  return payload.size() == sizeof(T) && take(payload, all.emplace_back());
}

bool can_be(const SocketState& state) {
  return state.phase >= SocketPhase::kApart && state.phase <= SocketPhase::kGone &&
         state.address_bytes <= sizeof state.address && state.peer_bytes <= sizeof state.peer;
}

bool can_be(const Object& object) {
  const std::size_t bytes = object.detail.size();
  switch (object.record.kind) {
    case ObjectKind::kPipe:
    case ObjectKind::kEvent:
    case ObjectKind::kSignals: return bytes == 0;
    case ObjectKind::kTimer: return bytes == sizeof(TimerSetting);
    case ObjectKind::kPoll: return bytes == object.record.value * sizeof(PollMember);
    case ObjectKind::kMemory:
      return object.record.value <= kMostMemoryBytes && bytes < 250 &&
             object.detail.find('\0') == std::string::npos;
    case ObjectKind::kSocket:
      return bytes == sizeof(SocketState) && can_be(object.as<SocketState>().front());
    case ObjectKind::kMessages:
      return object.detail.starts_with('/') && object.detail.find('\0') == std::string::npos;
  }
  return false;
}

bool take_object(std::span<const char> payload, Object& object) {
  if (!take(payload, object.record) || object.record.descriptor < 0 ||
      payload.size() != sizeof object.record + object.record.detail_bytes)
    return false;
  object.detail.assign(payload.data() + sizeof object.record, object.record.detail_bytes);
  return can_be(object);
}

bool take_bytes(std::span<const char> payload, std::vector<Object>& objects) {
  ObjectBytesRecord head{};
  if (!take(payload, head) || objects.empty() ||
      objects.back().record.descriptor != head.descriptor)
    return false;
  const std::uint64_t bytes = payload.size() - sizeof head;
  if (objects.back().record.kind == ObjectKind::kMemory &&
      (head.offset > objects.back().record.value ||
       bytes > objects.back().record.value - head.offset))
    return false;
  objects.back().pieces.push_back({head.offset, std::string(payload.data() + sizeof head, bytes)});
  return true;
}

bool take_attributes(std::span<const char> payload, Belongings& belongings) {
  AttributesRecord& attributes = belongings.attributes.emplace();
  if (!take(payload, attributes) || payload.size() != sizeof attributes + attributes.program_bytes)
    return false;
  belongings.program.assign(payload.data() + sizeof attributes, attributes.program_bytes);
  return belongings.program.find('\0') == std::string::npos &&
         attributes.away_address < kUserEnd - sizeof(std::uint64_t);
}

}  // namespace

const Object* Belongings::object(std::int32_t descriptor) const {
  const auto found = std::find_if(objects.begin(), objects.end(), [&](const Object& each) {
    return each.record.descriptor == descriptor;
  });
  return found == objects.end() ? nullptr : &*found;
}

bool take_belonging(RecordKind kind, std::span<const char> payload, Belongings& belongings) {
  switch (kind) {
    case RecordKind::kObject: return take_object(payload, belongings.objects.emplace_back());
    case RecordKind::kObjectBytes: return take_bytes(payload, belongings.objects);
    case RecordKind::kAttributes: return take_attributes(payload, belongings);
    case RecordKind::kTask: return take_whole(payload, belongings.tasks);
    case RecordKind::kTimer: return take_whole(payload, belongings.timers);
    case RecordKind::kLock:
      return take_whole(payload, belongings.locks) &&
             belongings.locks.back().kind >= LockKind::kProcess &&
             belongings.locks.back().kind <= LockKind::kWhole;
    default: return false;
  }
}

}  // namespace perdure::run
