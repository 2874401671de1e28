/* What ExecuTorch's Ethos-U backend takes from the NPU's driver, without the driver.

   The declarations are those that backends/arm/runtime/EthosUBackend_Cortex_M.cpp calls. Reserving
   a device gives none, so that a program with a delegate ends with ExecuTorch's own error. */
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define ETHOSU_NUM_BASE_ADDRS 3

#ifdef __cplusplus
extern "C" {
#endif

struct ethosu_driver {
  int unused;
};

struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *driver);
int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int size,
                     uint64_t *const bases, const size_t *const sizes, const int count,
                     void *user);

#ifdef __cplusplus
}
#endif
#endif
