// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "apps/run/raw_syscall.h"
#include "apps/run/runtime/runtime.h"

namespace perdure::run {
namespace {

int own[1 + kOutputs] = {-1, -1, -1};  // the controller's: for errors, and pipes of held output

}  // namespace

char why[512];

std::size_t length_of(const char* text) {
  std::size_t bytes = 0;
  while (text[bytes] != 0) ++bytes;
  return bytes;
}

bool equal_bytes(const void* a, const void* b, std::size_t bytes) {
  return __builtin_memcmp(a, b, bytes) == 0;
}

char* put_text(char* at, const char* end, const char* text) {
  while (*text != 0 && at + 1 < end) *at++ = *text++;
  *at = 0;
  return at;
}

char* put_number(char* at, const char* end, std::uint64_t value, std::uint32_t base) {
  char digits[24];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  while (count > 0 && at + 1 < end) *at++ = digits[--count];
  *at = 0;
  return at;
}

void because(const char* text, const char* detail, std::uint32_t detail_bytes) {
  char* at = put_text(why, why + sizeof why, text);
  const char* const end = why + sizeof why;
  for (std::uint32_t i = 0; detail != nullptr && i < detail_bytes && detail[i] != 0; ++i) {
    if (at + 1 < end) *at++ = detail[i];
  }
  *at = 0;
}

void keep_own_descriptors() {
  // A pipe whose writing end stayed open in the controller would never end for its reader, but for those whose
  // reader is the supervisor.
  const Shared& with = shared();
  std::int32_t wanted[1 + kOutputs];
  for (int i = 0; i <= kOutputs; ++i) wanted[i] = with.given[kGivenErrors + i];
  int least = 0;
  for (const std::int32_t each : wanted) least = each >= least ? each + 1 : least;
  for (std::int32_t& each : wanted) {
    if (each >= 0)
      each = static_cast<std::int32_t>(
          syscall(SYS_fcntl, each, F_DUPFD_CLOEXEC, least < 8 ? 8 : least));
  }
  for (int i = 0; i <= kOutputs; ++i) {
    own[i] = wanted[i] >= 0 && !failed(syscall(SYS_dup3, wanted[i], i, O_CLOEXEC)) ? i : -1;
  }
  syscall(SYS_close_range, 1 + kOutputs, ~0U, 0);
  for (int i = 0; i <= kOutputs; ++i) {
    if (own[i] < 0) syscall(SYS_close, i);
  }
}

void capture_output() {
  Shared& with = shared();
  for (int i = 0; i < kOutputs; ++i) {
    if (own[1 + i] < 0) continue;
    for (;;) {
      const std::uint32_t before = with.draining[i];
      int unread = 0;
      syscall(SYS_ioctl, own[1 + i], FIONREAD, &unread);
      with.output_end[i] = with.drained[i] + static_cast<std::uint32_t>(unread);
      if (before % 2 == 0 && with.draining[i] == before) break;
      const std::uint64_t moment[2] = {0, 10'000};
      syscall(SYS_nanosleep, moment, nullptr);
    }
  }
}

void say(const char* text, const char* detail) {
  char line[1024];
  char* at = put_text(line, line + sizeof line, "perdure: ");
  at = put_text(at, line + sizeof line, text);
  if (detail != nullptr) at = put_text(at, line + sizeof line, detail);
  at = put_text(at, line + sizeof line, "\n");
  syscall(SYS_write, own[0], line, at - line);
}

}  // namespace perdure::run
