/* The NPU of Corstone-300: its driver is initialized before main, its interrupt handled.

   Where there is no NPU, a program without a delegate runs all the same. */
#include <stdint.h>

#include "ethosu_driver.h"

#define NPU_BASE 0x48102000u
#define NPU_IRQ 56u

static struct ethosu_driver driver;
/* Linked so that who reads the ELF can tell the driver's version. */
struct ethosu_driver_version npu_driver_version;

void npu_interrupt(void) { ethosu_irq_handler(&driver); }

__attribute__((constructor)) static void start_npu(void) {
  ethosu_get_driver_version(&npu_driver_version);
  if (ethosu_init(&driver, (void *)NPU_BASE, NULL, 0, 1, 1)) return;
  /* NVIC: enable the interrupt. */
  *(volatile uint32_t *)(0xE000E100u + 4 * (NPU_IRQ / 32)) = 1u << NPU_IRQ % 32;
}
