// SPDX-License-Identifier: BSD-3-Clause
// How a program that is measured under the emulator speaks to the simulator: by stores to words at an
// address where nothing else lies, by a system call that changes nothing, and by an instruction that
// does nothing. Outside the emulator all of it is harmless (papers/thynvm/guest/measured.h maps the
// words).
//
//   begin      everything before was preparation: the system call getpid with the argument
//              PERDURE_MARK_BEGIN (the kernel ignores it), then a store to
//              PERDURE_MARK_BEGIN_WORD. With skip_to_mark, recording begins between the two, so
//              that the store is among the first records.
//   operation  one more is finished: a store to PERDURE_MARK_OPERATION_WORD
//   end of epoch  the instruction of the paper's section 6: a nop of seven bytes with a displacement
//              that no compiler gives it. It ends the epoch, and is over when all that the program
//              stored before it would survive a power cut. In records it is a store to
//              PERDURE_MARK_END_EPOCH_WORD, which nobody has to map.
//
// The simulator recognises the words by their virtual address; they are no memory traffic.
#pragma once

#define PERDURE_MARK_BEGIN 0x706572647572ULL
#define PERDURE_MARK_BEGIN_WORD 0x500000000000ULL
#define PERDURE_MARK_OPERATION_WORD 0x500000000008ULL
#define PERDURE_MARK_END_EPOCH_WORD 0x500000000010ULL

/* nopl 0x70657264(%rax): for an assembler, and as the emulator's plugin finds it. */
#define PERDURE_END_EPOCH_INSTRUCTION "nopl 0x70657264(%%rax)"
#define PERDURE_END_EPOCH_BYTES {0x0f, 0x1f, 0x80, 0x64, 0x72, 0x65, 0x70}
