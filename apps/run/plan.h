// SPDX-License-Identifier: BSD-3-Clause
// What the restorer is told, by the tool that has read and checked an image: a file of one Plan and
// arrays, mapped at kPlanBase. Never kept.
#pragma once

#include <cstdint>

#include "apps/run/layout.h"

namespace perdure::run {

struct PlanArea {
  std::uint64_t begin, end, file_offset;
  std::uint32_t protection, flags;  // kVma*
  VmaKind kind;
  std::uint32_t path;  // offset in the texts; of a file
};

struct PlanPages {  // what of a file goes where
  std::uint64_t address, bytes, offset;
  std::uint32_t file;  // descriptor
  std::uint32_t reserved;
};

struct PlanTimer {  // a timerfd
  std::int32_t descriptor;
  std::uint32_t reserved;
  TimerSetting setting;
};

struct Plan {
  std::uint64_t bytes;  // of the whole file
  std::uint64_t areas, area_count;
  std::uint64_t pages, page_count;
  std::uint64_t threads, thread_count;               // ThreadRecord; the first is the main thread
  std::uint64_t close_on_exec, close_on_exec_count;  // std::int32_t
  std::uint64_t sources, source_count;               // std::int32_t: descriptors to close
  std::uint64_t tasks, task_count;                   // TaskRecord
  std::uint64_t timers, timer_count;                 // TimerRecord
  std::uint64_t timer_files, timer_file_count;       // PlanTimer
  std::uint64_t locks, lock_count;                   // LockRecord
  std::uint64_t texts;
  std::uint32_t drop_capabilities;
  std::uint32_t program;  // offset in the texts
  AttributesRecord attributes;
  ProcessRecord process;
  ResumeNotice notice;
};

}  // namespace perdure::run
