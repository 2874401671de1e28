/* A driver of ours, as small as it can be, with the functions of Arm's that main.c calls. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETHOSU_DRIVER_VERSION_MAJOR 0
#define ETHOSU_DRIVER_VERSION_MINOR 0
#define ETHOSU_DRIVER_VERSION_PATCH 1

struct ethosu_driver {
  volatile uint32_t *registers;
  uint64_t fast_memory;
  volatile int done;
  volatile uint32_t status;
};

struct ethosu_driver_version {
  uint8_t major, minor, patch;
};

void ethosu_get_driver_version(struct ethosu_driver_version *version);
int ethosu_init(struct ethosu_driver *driver, void *base, const void *fast, size_t fast_bytes,
                uint32_t secure, uint32_t privileged);
int ethosu_invoke_v3(struct ethosu_driver *driver, const void *payload, int bytes, uint64_t *bases,
                     const size_t *sizes, int count, void *argument);
int ethosu_invoke_async(struct ethosu_driver *driver, const void *payload, int bytes,
                        uint64_t *bases, const size_t *sizes, int count, void *argument);
int ethosu_wait(struct ethosu_driver *driver, bool block);
void ethosu_irq_handler(struct ethosu_driver *driver);
void ethosu_flush_dcache(const uint64_t *bases, const size_t *sizes, int count);
void ethosu_invalidate_dcache(const uint64_t *bases, const size_t *sizes, int count);
unsigned int ethosu_config_select(uint64_t address, int index);
