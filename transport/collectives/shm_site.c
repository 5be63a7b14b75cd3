/* shm_site: a communicator of all ranks of a site, opened by the exchanges of the site. */
#include "transport/collectives/shm.h"
#include "transport/site/site.h"

enum status shm_open_site(struct site *site, const struct collective_group *groups, int group_count,
                          struct region *region, struct communicator *communicator,
                          struct fault *fault) {
    const struct launch_info *place = site_launch_info(site);
    const struct shm_args args = {.rank = place->rank,
                                  .world = place->world,
                                  .groups = groups,
                                  .group_count = group_count,
                                  .exchange = groups_exchange_on_site,
                                  .context = site};
    return shm_open_communicator(&args, region, communicator, fault);
}
