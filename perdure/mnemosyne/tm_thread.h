// SPDX-License-Identifier: BSD-3-Clause
// One thread's transactions as compiled code runs them: __transaction_atomic on top of perdure::Tx.
//
// Which memory is what:
//   persistent   in the reserved range, or a pstatic variable: isolated, and logged at commit
//   volatile     everything else: isolated only; buffered, and stored at commit under the same
//                locks
//   own stack    the transaction's own stack frames (below the stack pointer that begin saw):
//                stored directly; an attempt that ends leaves nothing there that anybody looks at
// Attempts end by going back to begin with the registers that it saw, as longjmp does.
//
// Source:     Mnemosyne (ASPLOS 2011) §5, whose compiler and STM are Intel's and TinySTM's.
// Deviations: transactions are privatization-safe: an update waits, after its commit, for those
//             that still run on an older snapshot. gcc's own runtime promises that, so programs
//             rely on it.
#pragma once

#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/mnemosyne/program.h"
#include "perdure/mnemosyne/tm_abi.h"

namespace perdure::compiled {

class Thread {
 public:
  /// The calling thread's.
  static Thread& self() {
    Thread* const mine = self_;
    return mine != nullptr ? *mine : make();
  }

  bool active() const { return !levels_.empty(); }
  bool irrevocable() const { return irrevocable_; }
  AddressSpace& space() { return *space_; }
  Tx& tx() { return context_->tx; }

  std::uint32_t begin(std::uint32_t properties, const JumpBuffer& buffer);
  void commit(void* exception_in_flight);
  [[noreturn]] void abort(std::uint32_t reason);
  /// Makes the transaction irrevocable. Ends the program unless PERDURE_IRREVOCABLE allows it and
  /// the transaction stored nothing persistent.
  void become_irrevocable(const void* caller);

  /// Runs `access` on this thread's transaction. A conflict ends the attempt; misuse ends the
  /// program.
  template <class Access>
  auto guarded(Access access) -> decltype(access(std::declval<Tx&>())) {
    try {
      return access(context_->tx);
    } catch (const Conflict&) {
      // Left first: the exception object belongs to the handler.
    } catch (const Exception& error) {
      mnemosyne::stop(std::string("in a transaction: ") + error.what());
    }
    restart();
  }

  /// Whether `address` lies in a frame of the transaction's own.
  bool on_own_stack(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at < own_stack_end_ &&
           at >= reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  }
  /// Whether `address` lies where barriers, too, load and store directly: in those frames, or in an
  /// exception of this attempt that is not thrown yet. libstdc++'s transactional constructors store
  /// there past the barriers as well; a buffered store would go home on top of theirs.
  bool is_own(const void* address) const {
    return on_own_stack(address) || (!unthrown_.empty() && in_unthrown(address));
  }
  /// What to keep of a direct store to [address, address + bytes), so that an inner transaction can
  /// be cancelled.
  void before_direct_store(void* address, std::size_t bytes) {
    if (keeps_frames_from_ != 0 &&
        (reinterpret_cast<std::uintptr_t>(address) >= keeps_frames_from_ || !on_own_stack(address)))
      keep(address, bytes);
  }
  /// Where Tx knows the byte: a pstatic variable by its fixed address.
  template <class T>
  T* tracked(T* address) const {
    const std::uintptr_t into = reinterpret_cast<std::uintptr_t>(address) - statics_;
    return into < statics_bytes_ ? reinterpret_cast<T*>(statics_home_ + into) : address;
  }

  /// Remembers [address, address + bytes) of memory that only this thread uses, to be restored if
  /// the attempt ends.
  void keep(const void* address, std::size_t bytes);
  void on_commit(void (*action)(void*), void* argument) {
    commit_actions_.push_back({action, argument});
  }
  void on_undo(void (*action)(void*), void* argument) {
    undo_actions_.push_back({action, argument});
  }
  /// `release(memory)` runs if the attempt ends.
  void allocated(void* memory, void (*release)(void*)) {
    allocations_.push_back({release, memory});
  }
  /// `release(memory)` runs when the transaction has committed and nobody reads the memory any
  /// more.
  void freed(void* memory, void (*release)(void*)) { frees_.push_back({release, memory}); }

  /// The attempt no longer has to release `memory`.
  void forget_allocation(void* memory);
  /// Keeps an exception until the transaction has committed.
  void destroy_after_commit(std::exception_ptr exception) {
    destroyed_later_.push_back(std::move(exception));
  }
  /// From its allocation until it is thrown or given back, an exception is this thread's own.
  void own_exception(void* exception, std::size_t bytes) {
    unthrown_.push_back({exception, bytes});
  }
  void disown_exception(void* exception) {
    std::erase_if(unthrown_, [&](const Bytes& own) { return own.begin == exception; });
  }
  unsigned caught_exceptions = 0;  // catch blocks entered in this transaction and not left

 private:
  struct Action {
    void (*run)(void*);
    void* argument;
  };
  struct Bytes {
    void* begin;
    std::size_t bytes;
  };
  struct Kept {
    void* address;
    std::size_t bytes;
    std::size_t at;     // in kept_bytes_
    bool in_own_frame;  // of a function that the transaction called: it may have returned since
  };
  /// What an inner transaction that may be cancelled comes back to.
  struct Checkpoint {
    Tx::Savepoint savepoint;
    std::size_t kept, commit_actions, undo_actions, allocations, frees, destroyed_later;
    unsigned caught, uncaught;
  };
  struct Level {
    JumpBuffer buffer;
    std::optional<Checkpoint> checkpoint;
  };

  void adopt_space();
  void start_attempt();
  [[noreturn]] void restart();
  void undo_to(std::size_t kept, std::size_t undo_actions, std::size_t allocations,
               std::uintptr_t dead_below);
  void undo_exceptions(unsigned caught, unsigned uncaught, std::size_t destroyed_later);
  /// Frees an exception that was leaving the transaction when the commit failed, unless undo_to()
  /// will.
  void drop_in_flight(void* exception);
  /// The exception is gone without having been destroyed.
  static void forget_destructor(const std::exception_ptr& exception);
  bool in_unthrown(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return std::any_of(unthrown_.begin(), unthrown_.end(), [&](const Bytes& own) {
      return at - reinterpret_cast<std::uintptr_t>(own.begin) < own.bytes;
    });
  }
  void leave_serial();
  void forget();

  static Thread& make();
  // A pointer that starts as null, so that reaching it takes one instruction and no question.
  static constinit thread_local Thread* self_ __attribute__((tls_model("initial-exec")));

  AddressSpace* space_ = nullptr;
  std::uint64_t generation_ = 0;
  PoolCore::Context* context_ = nullptr;
  std::uintptr_t own_stack_end_ = 0;
  std::uintptr_t keeps_frames_from_ = 0;
  std::uintptr_t statics_ = 0;
  std::uint64_t statics_bytes_ = 0;
  std::uintptr_t statics_home_ = 0;
  bool irrevocable_ = false;
  bool serial_ = false;        // holds the serial lock alone
  bool wants_serial_ = false;  // the next attempt is to
  bool shares_serial_ = false;
  unsigned uncaught_before_ = 0;  // exceptions on their way when the transaction began
  std::vector<std::exception_ptr> destroyed_later_;
  std::vector<Bytes> unthrown_;
  std::vector<Level> levels_;
  std::vector<Kept> kept_;
  std::vector<std::byte> kept_bytes_;
  std::vector<Action> commit_actions_;
  std::vector<Action> undo_actions_;
  std::vector<Action> allocations_;
  std::vector<Action> frees_;
};

/// The clone that gcc made of `function` for transactions, or null. Of functions that compiled code
/// of this program or of its libraries has registered.
void* find_clone(void* function);

}  // namespace perdure::compiled
