/* The start of a Cortex-M55 with ExecuTorch's linker script, and text by semihosting. */
#include <stdint.h>
#include <stdlib.h>

extern unsigned char __StackTop;
extern const uint32_t __copy_table_start__, __copy_table_end__;
extern const uint32_t __zero_table_start__, __zero_table_end__;
extern void initialise_monitor_handles(void);
extern void __libc_init_array(void);
extern int main(int argc, char **argv);

/* What the compiler's start files have, which are left out. */
void *__dso_handle;
void _init(void) {}
void _fini(void) {}

#define MOST_WORDS 16
static char line[512];
static char *words[MOST_WORDS];

/* Split the command line that the simulator gives (semihosting, SYS_GET_CMDLINE). */
static int read_words(void) {
  struct {
    char *text;
    int length;
  } block = {line, sizeof line};
  register int operation __asm("r0") = 0x15;
  register void *argument __asm("r1") = &block;
  __asm volatile("bkpt 0xab" : "+r"(operation) : "r"(argument) : "memory");
  int count = 0;
  for (char *at = line; *at && count < MOST_WORDS - 1; ++at) {
    while (*at == ' ') *at++ = 0;
    if (!*at) break;
    words[count++] = at;
    while (at[1] && at[1] != ' ') ++at;
  }
  return count;
}

void Reset_Handler(void) {
  /* Enable the floating-point and vector unit. */
  *(volatile uint32_t *)0xE000ED88u |= 0x00F00000u;
  __asm volatile("dsb\n isb");
  for (const uint32_t *row = &__copy_table_start__; row < &__copy_table_end__; row += 3)
    for (uint32_t i = 0; i < row[2]; ++i) ((uint32_t *)row[1])[i] = ((const uint32_t *)row[0])[i];
  for (const uint32_t *row = &__zero_table_start__; row < &__zero_table_end__; row += 2)
    for (uint32_t i = 0; i < row[1]; ++i) ((uint32_t *)row[0])[i] = 0;
  initialise_monitor_handles();
  __libc_init_array();
  const int count = read_words();
  exit(main(count, words));
}

/* The interrupt of the NPU, where there is one (npu.c). */
__attribute__((weak)) void npu_interrupt(void) { abort(); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16 + 57] = {
    [0] = &__StackTop,
    [1] = (void *)Reset_Handler,
    [2 ... 15 + 56] = (void *)abort,
    [16 + 56] = (void *)npu_interrupt,
};
