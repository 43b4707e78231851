// SPDX-License-Identifier: BSD-3-Clause
// The address space of a program that includes perdure/mnemosyne.h: opened before main(), as the
// environment says.
#pragma once

#include "perdure/address_space.h"

namespace perdure::mnemosyne {

/// The address space that this thread's C calls and transactions work on: the program's, unless
/// bind() gave it another. Ends the program with a message when there is none.
AddressSpace& space();
/// For the crash explorer: this thread, and those that bind too, work on `space` from now on; null:
/// on the program's.
/// Requires: no transaction is running in this thread.
void bind(AddressSpace* space);
/// Changes with every bind(), in any thread: what was remembered about a space is to be asked
/// again.
std::uint64_t generation();

/// Says why the program cannot go on, and ends it before anything is written. What was acknowledged
/// is safe.
[[noreturn]] void stop(const std::string& why);

}  // namespace perdure::mnemosyne
