// SPDX-License-Identifier: BSD-3-Clause
// The part of `perdure run` that lives in the program's process: loaded by LD_PRELOAD, it starts a
// thread that libc does not know and that has a table of descriptors of its own. That thread ends
// the epochs. Nothing here allocates memory, uses thread-local storage or calls what does, except
// the constructor (start.cc) and the wrappers of waits (waits.cc).
//
// One epoch:
//   1. the supervisor has committed the epoch before
//   2. every other thread is sent kParkSignal and waits in its handler (park.cc). The frame that the
//      kernel pushed on its stack is its registers, and as memory it is part of the image
//   3. threads, files and the process's attributes are recorded, then what of the memory was written
//      since the epoch before (capture.cc, memory.cc); what differs from the shadow is copied there (shadow.cc)
//   4. the threads go on
//   5. the supervisor is told, and commits (shared.h)
// What fails in 2 or 3 makes the epoch void: the program goes on, and the next epoch takes with it what was
// copied so far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/run/layout.h"
#include "apps/run/shared.h"

struct stat;

namespace perdure::run {

// glibc's own (SIGSETXID): its functions on signal sets never block it. Ours carries a value; what
// glibc sends itself is handed to its handler.
inline constexpr int kParkSignal = 33;
inline constexpr std::size_t kMostThreads = 1024;
inline constexpr int kMostDescriptors = 4096;
inline constexpr std::size_t kBufferBytes = std::size_t{16} << 20;  // kMostAreas in maps
inline constexpr std::size_t kMostAreas = 1 << 17;
inline constexpr std::size_t kBounceBytes = std::size_t{1} << 18;

/// At kRuntimeBase, outside every image.
struct Workspace {
  char stack[256 << 10];
  char maps[kBufferBytes];
  char text[64 << 10];
  char path[8192];
  char bounce[kBounceBytes];
  ProcessRecord process;
  struct {
    std::uint64_t begin, end;
  } areas[2][kMostAreas];  // with private memory: as they are, and as they were
  char table[kMostTableBytes];
};

extern std::int32_t process_id;
inline Shared& shared() { return *reinterpret_cast<Shared*>(kSharedBase); }
inline Workspace& workspace() { return *reinterpret_cast<Workspace*>(kRuntimeBase); }

/// Maps what is shared with the supervisor, closes these descriptors, and starts the thread that ends epochs.
/// `resumed`: the program was brought back; else it begins. Errors: minus an error number.
long start_controller(int shared_file, int shadow_file, bool resumed);
/// What the restorer calls.
long resume_controller(const ResumeNotice* notice);

/// Until the program may begin: 1; or may not: 2, and the cause was said.
std::uint32_t wait_for_controller();

// --- pace.cc: when the next epoch ends. For the controller alone.
/// When the program begins or is back.
void begin_pace();
/// In ns; 0: the epoch is due.
std::uint64_t time_until_next();
/// Pages that the program has touched since the last epoch.
std::uint64_t touched_pages();
/// Of an epoch that has just ended, or failed to: how long the threads stood still, how many pages they had written, and
/// what touched_pages() was before.
void plan_next(std::uint64_t pause_ns, std::uint64_t written_pages, std::uint64_t touched);
/// After that, with all that the runtime itself touches for it.
void begin_next(bool ended);

// --- park.cc
void install_park_handler();
/// Stops every thread but the caller. False: one of them did not stop in time; all go on.
bool stop_threads();
void release_threads();
std::size_t parked_threads();
const ThreadRecord& parked_thread(std::size_t index);

/// What the system call returns that the epoch's signal, and no other, has cut short: -EINTR, or the
/// bytes that it has moved. For waits.h, which sets it to 0 before. Initial-exec: its access calls
/// nothing.
extern constinit thread_local long cut_short __attribute__((tls_model("initial-exec")));

// --- shadow.cc
/// After all is mapped. Errors: minus an error number.
long open_shadow(bool resumed);
void begin_staging();
/// All of these return false, with a cause in `why`, when there is no room.
bool append(RecordKind kind, const void* a, std::size_t a_bytes, const void* b = nullptr,
            std::size_t b_bytes = 0);
/// A page of memory, which stays readable at `now` until stage_pending() returns.
bool stage_page(std::uint64_t address, const char* now);
bool stage_pending();
bool finish_staging();
/// After an epoch's end, while the program runs: room for as much new memory as the epoch brought.
void prepare_for_next();
/// Whether the image holds the page, or any of the range.
bool is_recorded(std::uint64_t address);
bool any_recorded(std::uint64_t begin, std::uint64_t end);
/// The range is not mapped any more, or holds what is in a mapped file.
void drop_pages(std::uint64_t begin, std::uint64_t end);
/// All that is there of the range was staged in this epoch.
void drop_pages_not_staged(std::uint64_t begin, std::uint64_t end);

// --- memory.cc
void open_trackers();
bool tracks_writes();
/// What the kernel's note of a first write costs the program.
std::uint64_t fault_ns();
/// Records all areas, and their pages that were written. `all`: all their pages.
/// Errors: false with a cause in `why`.
bool capture_memory(bool all);
/// The memory is that of an epoch: from now on writes are seen.
void watch_all();

// --- capture.cc
/// Machine, process, threads, files. False with a cause in `why` when an epoch cannot end here.
bool capture_process();
bool capture_threads();
bool capture_files();
bool has_children();
std::uint64_t now_ns(int clock);

/// Where what follows `name` begins; the end when it is not there.
const char* find_text(const char* text, long bytes, const char* name);
/// The number after `name` and blanks; 0 when it is not there.
std::uint64_t field_of(const char* text, long bytes, const char* name, std::uint32_t base);

// --- descriptors.cc
/// True when the descriptor is of no file, though it may look like one.
bool is_object(std::int32_t number, const struct stat& attributes, const char* path);
void begin_objects();
/// Descriptors of what is no file are noted, with their copies, and then captured all at once: two
/// may be the ends of one pipe.
void note_object(const FileRecord& file, const struct stat& attributes);
/// False with a cause in `why` when an epoch cannot end here. Says once what is not carried.
bool capture_objects();

// --- attributes.cc
/// How long the program was not there, in all, between epochs and their resumes.
extern std::uint64_t away_ns;
/// Takes what is of use from /proc/self/status, which is slow to read twice.
void note_status(const char* text, long bytes);
/// Limits, pending signals, timers, priorities. False as above.
bool capture_attributes();
/// The locks that the program holds by this descriptor, from what /proc says of it.
bool append_locks(std::int32_t descriptor, const char* information, long bytes);

// --- say.cc
/// Why the current epoch cannot end.
extern char why[512];
void because(const char* text, const char* detail = nullptr, std::uint32_t detail_bytes = 512);
/// "perdure: <text><detail>" on the program's stderr.
void say(const char* text, const char* detail = nullptr);
char* put_text(char* at, const char* end, const char* text);
char* put_number(char* at, const char* end, std::uint64_t value, std::uint32_t base = 10);
/// In the controller's own table of descriptors: closes all but what the supervisor gave it.
void keep_own_descriptors();
/// In the stop phase: how much the program has written to each pipe of held output.
void capture_output();

// --- libc-free helpers
std::size_t length_of(const char* text);
bool equal_bytes(const void* a, const void* b, std::size_t bytes);

}  // namespace perdure::run
