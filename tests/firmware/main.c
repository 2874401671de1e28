/* Checks the delivered program and input codes on a simulated Cortex-M55, by semihosting. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model_input.h"
#ifdef FROM_HEADER
#include "model.h"
#else
extern const unsigned char model_pte[];
extern const unsigned int model_pte_len;
#endif

extern unsigned char stack_top;
extern void initialise_monitor_handles(void);
int main(void);

void reset(void) {
  /* Enable the floating-point and vector unit. */
  *(volatile uint32_t *)0xE000ED88u |= 0x00F00000u;
  __asm volatile("dsb\n isb");
  initialise_monitor_handles();
  const int code = main();
  fflush(stdout);
  _exit(code);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    &stack_top, (void *)reset, (void *)abort, (void *)abort, (void *)abort};

static uint32_t fnv(const unsigned char *data, unsigned int length) {
  uint32_t hash = 2166136261u;
  for (unsigned int i = 0; i < length; ++i) hash = (hash ^ data[i]) * 16777619u;
  return hash;
}

static uint8_t pixels[MODEL_INPUT_HEIGHT * MODEL_INPUT_WIDTH * MODEL_INPUT_CHANNELS];
static int8_t input[sizeof pixels];

int main(void) {
  for (unsigned int i = 0; i < sizeof pixels; ++i) pixels[i] = (uint8_t)(i * 7u);
  model_fill_input(pixels, input);
  printf("program %08lx %u aligned %u\n", (unsigned long)fnv(model_pte, model_pte_len),
         model_pte_len, (unsigned int)((uintptr_t)model_pte % 16u == 0u));
  printf("input %08lx\n", (unsigned long)fnv((const unsigned char *)input, sizeof input));
  return 0;
}
