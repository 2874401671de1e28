/* The start of a Cortex-M55 with ExecuTorch's linker script, and text by semihosting. */
#include <stdint.h>
#include <stdlib.h>

extern unsigned char __StackTop;
extern const uint32_t __copy_table_start__, __copy_table_end__;
extern const uint32_t __zero_table_start__, __zero_table_end__;
extern void initialise_monitor_handles(void);
extern void __libc_init_array(void);
extern int main(void);

/* What the compiler's start files have, which are left out. */
void *__dso_handle;
void _init(void) {}
void _fini(void) {}

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
  exit(main());
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    &__StackTop, (void *)Reset_Handler, (void *)abort, (void *)abort, (void *)abort};
