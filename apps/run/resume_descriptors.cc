// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/resume_descriptors.h"

#include <fcntl.h>
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/run/resume_sockets.h"

namespace perdure::run {
namespace {

constexpr int kPatienceTenths = 20;  // The killed process may still be giving things back.

[[noreturn]] void refuse(const std::string& what) {
  throw Exception(Code::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Another open file of the same thing.
int open_again(int file, int flags) {
  return ::open(fmt::format("/proc/self/fd/{}", file).c_str(),
                flags & ~(O_CREAT | O_EXCL | O_TRUNC));
}

class Maker {
 public:
  Maker(const Image& image, int least) : image_(image), least_(least) {}

  std::map<int, int> make_all() {
    for (const OpenFile& each : image_.files) {
      const Object* const object = image_.belongings.object(each.file.descriptor);
      if (object == nullptr || each.file.same_as >= 0 || made_.contains(each.file.descriptor))
        continue;
      keep(each.file.descriptor, make(each, *object));
      set_flags(each);
    }
    return std::move(made_);
  }

 private:
  void keep(int descriptor, int file) {
    if (file < 0) refuse(fmt::format("descriptor {}", descriptor));
    const int high = ::fcntl(file, F_DUPFD, least_);
    if (high < 0) refuse("no descriptors are left; raise the limit (ulimit -n)");
    ::close(file);
    made_[descriptor] = high;
  }

  void set_flags(const OpenFile& each) {
    constexpr int kSettable = O_NONBLOCK | O_APPEND | O_DIRECT;
    const int now = ::fcntl(made_[each.file.descriptor], F_GETFL);
    const int wanted = (now & ~kSettable) | (static_cast<int>(each.file.flags) & kSettable);
    if (now != wanted) ::fcntl(made_[each.file.descriptor], F_SETFL, wanted);
  }

  /// An earlier descriptor of the same pipe, memfd or pair; -1: this is the first.
  int sibling(const OpenFile& each, bool same_access = false) const {
    for (const OpenFile& other : image_.files) {
      if (other.file.inode == each.file.inode && other.file.device == each.file.device &&
          made_.contains(other.file.descriptor) &&
          (!same_access || (other.file.flags & O_ACCMODE) == (each.file.flags & O_ACCMODE)))
        return made_.at(other.file.descriptor);
    }
    return -1;
  }

  int make(const OpenFile& each, const Object& object) {
    switch (object.record.kind) {
      case ObjectKind::kPipe: return make_pipe(each, object);
      case ObjectKind::kEvent: {
        const int event = ::eventfd(0, static_cast<int>(object.record.flags));
        const std::uint64_t count = object.record.value;
        if (event >= 0 && count != 0 && ::write(event, &count, sizeof count) != sizeof count)
          return -1;
        return event;
      }
      // It is started by the restorer, at the last moment.
      case ObjectKind::kTimer: return ::timerfd_create(object.as<TimerSetting>().front().clock, 0);
      case ObjectKind::kPoll: return ::epoll_create1(0);
      case ObjectKind::kSignals: {
        const std::uint64_t mask = object.record.value;
        return static_cast<int>(::syscall(SYS_signalfd4, -1, &mask, sizeof mask, 0));
      }
      case ObjectKind::kMemory: return make_memory(each, object);
      case ObjectKind::kSocket: return make_socket(each, object);
      case ObjectKind::kMessages: return make_queue(each, object);
    }
    return -1;
  }

  int make_pipe(const OpenFile& each, const Object& object) {
    const int before = sibling(each);
    if (before >= 0) return open_again(before, static_cast<int>(each.file.flags) & ~O_CLOEXEC);
    // Packets are a matter of the writing end.
    int packets = 0;
    for (const OpenFile& other : image_.files) {
      if (other.file.inode == each.file.inode && other.file.device == each.file.device)
        packets |= static_cast<int>(other.file.flags) & O_DIRECT;
    }
    int ends[2];
    if (::pipe2(ends, packets | O_NONBLOCK) != 0) return -1;
    ::fcntl(ends[1], F_SETPIPE_SZ, object.record.value);
    for (const ObjectPiece& piece : object.pieces) {
      if (::write(ends[1], piece.bytes.data(), piece.bytes.size()) !=
          static_cast<ssize_t>(piece.bytes.size()))
        return -1;
    }
    // This descriptor's end; the other one waits for the first descriptor that it is of.
    const int access = static_cast<int>(each.file.flags) & O_ACCMODE;
    if (access == O_RDWR) {
      const int both = open_again(ends[1], O_RDWR);
      ::close(ends[0]);
      ::close(ends[1]);
      return both;
    }
    const int mine = access == O_RDONLY ? 0 : 1;
    for (const OpenFile& other : image_.files) {
      if (other.file.inode != each.file.inode || other.file.device != each.file.device ||
          other.file.same_as >= 0 || (static_cast<int>(other.file.flags) & O_ACCMODE) == access ||
          image_.belongings.object(other.file.descriptor) == nullptr)
        continue;
      if ((static_cast<int>(other.file.flags) & O_ACCMODE) == O_RDWR) {
        keep(other.file.descriptor, open_again(ends[1], O_RDWR));
        ::close(ends[1 - mine]);
      } else {
        keep(other.file.descriptor, ends[1 - mine]);
      }
      set_flags(other);
      return ends[mine];
    }
    ::close(ends[1 - mine]);
    return ends[mine];
  }

  int make_memory(const OpenFile& each, const Object& object) {
    int file = sibling(each);
    if (file >= 0) {
      file = open_again(file, static_cast<int>(each.file.flags) & ~O_CLOEXEC);
    } else {
      file = ::memfd_create(object.detail.c_str(), MFD_ALLOW_SEALING);
      if (file < 0 || ::ftruncate(file, static_cast<off_t>(object.record.value)) != 0) return -1;
      for (const ObjectPiece& piece : object.pieces) {
        if (::pwrite(file, piece.bytes.data(), piece.bytes.size(),
                     static_cast<off_t>(piece.offset)) != static_cast<ssize_t>(piece.bytes.size()))
          return -1;
      }
      if (::fcntl(file, F_ADD_SEALS, object.record.flags) != 0) return -1;
    }
    if (file >= 0) ::lseek(file, static_cast<off_t>(each.file.offset), SEEK_SET);
    return file;
  }

  int make_socket(const OpenFile& each, const Object& object) {
    const SocketState& state = object.as<SocketState>().front();
    if (state.phase == SocketPhase::kGone) return socket_gone(state);
    if (state.phase != SocketPhase::kPaired) return socket_apart(state);
    const OpenFile* other = nullptr;
    for (const OpenFile& file : image_.files) {
      if (file.file.inode == state.peer_inode && file.file.device == each.file.device &&
          file.file.same_as < 0 && file.file.descriptor != each.file.descriptor)
        other = &file;
    }
    const Object* peer =
        other == nullptr ? nullptr : image_.belongings.object(other->file.descriptor);
    if (peer != nullptr && peer->record.kind != ObjectKind::kSocket) peer = nullptr;
    int ends[2];
    if (::socketpair(state.domain, state.type, state.protocol, ends) != 0) return -1;
    if (peer == nullptr) {
      ::close(ends[1]);
      return ends[0];
    }
    const SocketState& peer_state = peer->as<SocketState>().front();
    send_unread(object, ends[1]);
    send_unread(*peer, ends[0]);
    set_options(ends[0], state);
    set_options(ends[1], peer_state);
    close_ways(ends[0], state.closed);
    close_ways(ends[1], peer_state.closed);
    keep(other->file.descriptor, ends[1]);
    set_flags(*other);
    return ends[0];
  }

  int make_queue(const OpenFile& each, const Object& object) {
    const int flags = static_cast<int>(each.file.flags) & (O_ACCMODE | O_NONBLOCK);
    const int queue = ::mq_open(object.detail.c_str(), flags);
    if (queue < 0) refuse(object.detail + ": a message queue that the program had open");
    return queue;
  }

  const Image& image_;
  const int least_;
  std::map<int, int> made_;
};

void fill_poll(const Object& poll) {
  for (const PollMember& member : poll.as<PollMember>()) {
    epoll_event event{};
    event.events = member.events;
    event.data.u64 = member.data;
    // What is a terminal no more, after a resume with another one, cannot be waited for.
    if (::epoll_ctl(poll.record.descriptor, EPOLL_CTL_ADD, member.descriptor, &event) != 0 &&
        errno != EPERM)
      refuse(
          fmt::format("descriptor {}, in the epoll {}", member.descriptor, poll.record.descriptor));
  }
}

std::string path_of(const Image& image, int descriptor) {
  for (const OpenFile& each : image.files) {
    if (each.file.descriptor == descriptor) return each.path;
  }
  return fmt::format("descriptor {}", descriptor);
}

bool take_lock(const LockRecord& lock) {
  if (lock.kind == LockKind::kWhole)
    return ::flock(lock.descriptor, (lock.exclusive != 0 ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0;
  struct flock range{};
  range.l_type = lock.exclusive != 0 ? F_WRLCK : F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(lock.begin);
  range.l_len = static_cast<off_t>(lock.bytes);
  return ::fcntl(lock.descriptor, lock.kind == LockKind::kProcess ? F_SETLK : F_OFD_SETLK,
                 &range) == 0;
}

}  // namespace

std::map<int, int> make_objects(const Image& image, int least) {
  return Maker(image, least).make_all();
}

void connect_objects(const Image& image) {
  for (const Object& object : image.belongings.objects) {
    if (object.record.kind == ObjectKind::kPoll) fill_poll(object);
  }
  for (const LockRecord& lock : image.belongings.locks) {
    int tenths = 0;
    while (!take_lock(lock)) {
      if (++tenths <= kPatienceTenths && (errno == EAGAIN || errno == EACCES)) {
        ::usleep(100'000);
        continue;
      }
      throw Exception(Code::kBusy,
                      path_of(image, lock.descriptor) +
                          ": somebody else has taken the lock that the program held on it; end "
                          "that one, and resume again");
    }
  }
}

}  // namespace perdure::run
