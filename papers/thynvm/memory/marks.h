// SPDX-License-Identifier: BSD-3-Clause
// How a program that is measured under the emulator speaks to the simulator: by stores to two words
// at an address where nothing else lies, and by a system call that changes nothing. Outside the
// emulator all of it is harmless (papers/thynvm/guest/measured.h maps the words).
//
//   begin      everything before was preparation: the system call getpid with the argument
//              PERDURE_MARK_BEGIN (the kernel ignores it), then a store to
//              PERDURE_MARK_BEGIN_WORD. With skip_to_mark, recording begins between the two, so
//              that the store is among the first records.
//   operation  one more is finished: a store to PERDURE_MARK_OPERATION_WORD
//
// The simulator recognises the two words by their virtual address; they are no memory traffic.
#pragma once

#define PERDURE_MARK_BEGIN 0x706572647572ULL
#define PERDURE_MARK_BEGIN_WORD 0x500000000000ULL
#define PERDURE_MARK_OPERATION_WORD 0x500000000008ULL
