// SPDX-License-Identifier: BSD-3-Clause
// What the C faces have in common: exceptions become NULL or -1, errno, and a message for the
// thread.
#pragma once

#include <cerrno>
#include <new>
#include <string>

#include "perdure/error.h"

namespace perdure::c_face {

/// Not a std::string itself: an object file would then offer its destructor, and a linker that
/// looks for one elsewhere would take that file of the library, and with the one of
/// perdure/mnemosyne.h the address space that opens before main().
struct Story {
  std::string text;
};
/// Of the last function that failed in this thread.
inline thread_local Story last_error;  // NOLINT: its constructor does not throw

inline int errno_of(Code code) {
  switch (code) {
    case Code::kNotFound: return ENOENT;
    case Code::kExists: return EEXIST;
    case Code::kBusy: return EBUSY;
    case Code::kNoSpace: return ENOMEM;
    case Code::kMisuse: return EPERM;
    case Code::kAborted: return ECANCELED;
    case Code::kForeign:
    case Code::kVersion:
    case Code::kTruncated:
    case Code::kCorrupt: return EBADMSG;
    case Code::kInvalid:
    case Code::kTypeMismatch: return EINVAL;
    case Code::kIo:
    case Code::kPoisoned: return EIO;
  }
  return EIO;
}

inline void note(int code, std::string what) {
  last_error.text = std::move(what);
  errno = code;
}
inline void note(const Error& error) { note(errno_of(error.code), error.message); }

/// Runs `work`, which may throw; on failure notes why and returns `failed`.
template <class T, class Work>
T report(T failed, Work work) {
  try {
    return work();
  } catch (const Exception& error) {
    note(error.error());
  } catch (const std::bad_alloc&) {
    note(ENOMEM, "out of memory");
  } catch (const std::exception& error) {
    note(EIO, error.what());
  }
  return failed;
}

}  // namespace perdure::c_face
