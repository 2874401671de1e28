/* A driver without a device. */
#include "ethosu_driver.h"

struct ethosu_driver *ethosu_reserve_driver(void) { return NULL; }

void ethosu_release_driver(struct ethosu_driver *driver) { (void)driver; }

int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int size,
                     uint64_t *const bases, const size_t *const sizes, const int count,
                     void *user) {
  (void)driver, (void)commands, (void)size, (void)bases, (void)sizes, (void)count, (void)user;
  return -1;
}
