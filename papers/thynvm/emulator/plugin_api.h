/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of QEMU's interface for TCG plugins, version 1 (QEMU 6.0 to 8.x), this plugin calls. Debian
   packages the emulator without the header, so the names and types are declared here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERDURE_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t; /* opaque: how an access was made */
struct qemu_plugin_tb;                  /* a block of instructions being translated */
struct qemu_plugin_insn;

typedef struct {
  const char* target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  struct {
    int smp_vcpus;
    int max_vcpus;
  } system;
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS = 0 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };

typedef void (*simple_cb)(qemu_plugin_id_t);
typedef void (*vcpu_cb)(qemu_plugin_id_t, unsigned vcpu);
typedef void (*translation_cb)(qemu_plugin_id_t, struct qemu_plugin_tb*);
typedef void (*execution_cb)(unsigned vcpu, void* user);
typedef void (*memory_cb)(unsigned vcpu, qemu_plugin_meminfo_t, uint64_t address, void* user);
typedef void (*system_call_cb)(qemu_plugin_id_t, unsigned vcpu, int64_t number, uint64_t a1,
                               uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                               uint64_t a7, uint64_t a8);
typedef void (*exit_cb)(qemu_plugin_id_t, void* user);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translation_cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb*, execution_cb,
                                          enum qemu_plugin_cb_flags, void* user);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*, memory_cb,
                                      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw,
                                      void* user);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, execution_cb,
                                            enum qemu_plugin_cb_flags, void* user);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, enum qemu_plugin_op,
                                              void* word, uint64_t operand);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, system_call_cb);
/* Forgets every callback and every translated block, soon; then calls back. */
void qemu_plugin_reset(qemu_plugin_id_t, simple_cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, exit_cb, void* user);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
