/* The shortest firmware that runs the delegates of a program on an Ethos-U.
 *
 * For each delegate: copy the inputs to their places in scratch, start the NPU through Arm's driver,
 * and compare the outputs. It prints one line for each output, and ends with 0 if all are equal.
 * Board: Arm MPS3 AN547 (Corstone-300), as QEMU emulates it. For another board change the three
 * numbers below, the linker script, and exit codes and printing (semihosting here).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ethosu_driver.h"
#include "program.h"

#ifndef NPU_BASE
#define NPU_BASE 0x48102000u
#endif
#ifndef NPU_IRQ
#define NPU_IRQ 56
#endif
#define LINE 32u /* bytes of a line of the data cache */

extern unsigned char stack_top;
extern void initialise_monitor_handles(void);
void reset(void);

static struct ethosu_driver driver;
/* Region 1: activations. Region 2, where a program uses it: fast memory. */
static uint8_t scratch[SCRATCH_BYTES] __attribute__((aligned(LINE), section(".npu_scratch")));
static uint8_t fast[FAST_BYTES] __attribute__((aligned(LINE), section(".npu_fast")));

static void npu_interrupt(void) { ethosu_irq_handler(&driver); }

/* Every other exception: bad code, bad addresses, interrupts without a handler. */
static void fault(void) { _exit(99); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16 + NPU_IRQ + 1] = {
    [0] = &stack_top,
    [1] = (void *)reset,
    [2 ... 15 + NPU_IRQ] = (void *)fault,
    [16 + NPU_IRQ] = (void *)npu_interrupt,
};

#define REGISTER(address) (*(volatile uint32_t *)(address))

#ifdef DATA_CACHE
/* What the NPU reads must be in memory before it starts, and what it wrote must be read from there. */
static void maintain(uintptr_t operation, const uint64_t *bases, const size_t *sizes, int count) {
  __asm volatile("dsb" ::: "memory");
  for (int i = 0; i < count; ++i)
    for (uint32_t at = (uint32_t)bases[i] & ~(LINE - 1); at < (uint32_t)bases[i] + sizes[i]; at += LINE)
      REGISTER(operation) = at;
  __asm volatile("dsb\n isb" ::: "memory");
}
void ethosu_flush_dcache(const uint64_t *bases, const size_t *sizes, int count) {
  maintain(0xE000EF68u, bases, sizes, count); /* DCCMVAC */
}
void ethosu_invalidate_dcache(const uint64_t *bases, const size_t *sizes, int count) {
  maintain(0xE000EF5Cu, bases, sizes, count); /* DCIMVAC */
}
#endif

static int run(const struct delegate *delegate) {
  int wrong = 0;
  memset(scratch, 0xA5, delegate->scratch_bytes);
  for (unsigned int i = 0; i < delegate->inputs; ++i) {
    const struct tensor *tensor = &delegate->tensors[i];
    memcpy(scratch + tensor->offset, tensor->data, tensor->bytes);
  }
  uint64_t bases[] = {(uintptr_t)delegate->constants, (uintptr_t)scratch, (uintptr_t)fast};
  const size_t sizes[] = {delegate->constant_bytes, delegate->scratch_bytes, sizeof fast};
  if (ethosu_invoke_v3(&driver, delegate->commands, (int)delegate->command_bytes, bases, sizes, 3, 0)) {
    printf("the driver ends with an error\n");
    return 1;
  }
  for (unsigned int i = 0; i < delegate->outputs; ++i) {
    const struct tensor *tensor = &delegate->tensors[delegate->inputs + i];
    const int differs = memcmp(scratch + tensor->offset, tensor->data, tensor->bytes) != 0;
    printf("output %u: %s\n", i, differs ? "differs" : "equal");
    wrong += differs;
  }
  return wrong;
}

int main(void) {
  int wrong = 0;
#ifdef DATA_CACHE
  REGISTER(0xE000ED14u) |= 1u << 16; /* CCR.DC */
  __asm volatile("dsb\n isb" ::: "memory");
#endif
  if (ethosu_init(&driver, (void *)NPU_BASE, fast, sizeof fast, 1, 1)) {
    printf("the driver finds no NPU\n");
    return 2;
  }
  REGISTER(0xE000E100u + 4 * (NPU_IRQ / 32)) = 1u << NPU_IRQ % 32; /* NVIC: enable */
  for (unsigned int i = 0; i < DELEGATES; ++i) {
    printf("delegate %u\n", i);
    wrong += run(&delegates[i]);
  }
  return wrong != 0;
}

void reset(void) {
  REGISTER(0xE000ED88u) |= 0x00F00000u; /* the floating-point and vector unit */
  REGISTER(0xE000ED08u) = (uintptr_t)vectors;
  __asm volatile("dsb\n isb");
  initialise_monitor_handles();
  const int code = main();
  fflush(stdout);
  _exit(code);
}
