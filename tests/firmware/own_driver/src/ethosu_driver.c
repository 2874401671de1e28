#include "ethosu_driver.h"

#include <stdio.h>

enum { ID = 0, STATUS = 1, CMD = 2, RESET = 3, QBASE = 4, QSIZE = 8, CONFIG = 10, REGIONCFG = 15,
       BASES = 32 };
enum { CONFIGURE = 1, STREAM = 2, ERRORS = 4 | 16 };

static const uint64_t *last_bases;
static const size_t *last_sizes;
static int last_count;

__attribute__((weak)) void ethosu_flush_dcache(const uint64_t *b, const size_t *s, int n) {
  (void)b, (void)s, (void)n;
}
__attribute__((weak)) void ethosu_invalidate_dcache(const uint64_t *b, const size_t *s, int n) {
  (void)b, (void)s, (void)n;
}
__attribute__((weak)) unsigned int ethosu_config_select(uint64_t address, int index) {
  (void)address;
  return index == 1 || index == 2 ? 0 : 3;
}

void ethosu_get_driver_version(struct ethosu_driver_version *version) {
  version->major = ETHOSU_DRIVER_VERSION_MAJOR;
  version->minor = ETHOSU_DRIVER_VERSION_MINOR;
  version->patch = ETHOSU_DRIVER_VERSION_PATCH;
}

int ethosu_init(struct ethosu_driver *driver, void *base, const void *fast, size_t fast_bytes,
                uint32_t secure, uint32_t privileged) {
  driver->registers = base;
  driver->fast_memory = fast_bytes ? (uintptr_t)fast : 0;
  if (driver->registers[ID] == 0) {
    printf("E: no NPU\n");
    return -1;
  }
  driver->registers[RESET] = (secure ? 0 : 2) | (privileged ? 1 : 0);
  return 0;
}

int ethosu_invoke_async(struct ethosu_driver *driver, const void *payload, int bytes,
                        uint64_t *bases, const size_t *sizes, int count, void *argument) {
  const uint32_t *word = (const uint32_t *)payload + 1, *end = (const uint32_t *)payload + bytes / 4;
  volatile uint32_t *registers = driver->registers;
  (void)argument;
  for (int i = 0; i < count; ++i)
    if (bases[i] & 15) {
      printf("E: base %d is not aligned\n", i);
      return -1;
    }
  if (count > 2 && driver->fast_memory) bases[2] = driver->fast_memory;
  while (word < end) {
    const uint32_t action = *word & 0xFF, length = *word >> 16 | (*word >> 8 & 0xFF) << 16;
    ++word;
    if (action == CONFIGURE) {
      if (word[0] != registers[CONFIG]) {
        printf("E: the program is for another NPU\n");
        return -1;
      }
      word += 2;
    } else if (action == STREAM) {
      unsigned int regions = 0;
      for (int i = 0; i < count; ++i) regions |= ethosu_config_select(bases[i], i) << 2 * i;
      ethosu_flush_dcache(bases, sizes, count);
      last_bases = bases, last_sizes = sizes, last_count = count;
      registers[QBASE] = (uintptr_t)word, registers[QBASE + 1] = 0;
      registers[QSIZE] = 4 * length;
      registers[REGIONCFG] = regions;
      for (int i = 0; i < count; ++i) {
        registers[BASES + 2 * i] = (uint32_t)bases[i];
        registers[BASES + 2 * i + 1] = (uint32_t)(bases[i] >> 32);
      }
      driver->done = 0;
      registers[CMD] = 1;
      word += length;
    }
  }
  return 0;
}

int ethosu_wait(struct ethosu_driver *driver, bool block) {
  (void)block;
  while (!driver->done) __asm volatile("wfe");
  ethosu_invalidate_dcache(last_bases, last_sizes, last_count);
  if (driver->status & ERRORS) {
    printf("E: status %#lx\n", (unsigned long)driver->status);
    return -1;
  }
  return 0;
}

int ethosu_invoke_v3(struct ethosu_driver *driver, const void *payload, int bytes, uint64_t *bases,
                     const size_t *sizes, int count, void *argument) {
  const int error = ethosu_invoke_async(driver, payload, bytes, bases, sizes, count, argument);
  return error ? error : ethosu_wait(driver, true);
}

void ethosu_irq_handler(struct ethosu_driver *driver) {
  driver->status = driver->registers[STATUS];
  driver->registers[CMD] = 2;
  driver->done = 1;
  __asm volatile("sev");
}
