/* base: the foundation that all other modules use. It has assertions and faults, bounded text,
 * files, JSON and YAML, hashes, random values, clocks, the log, memory that is allocated before the
 * seal, and the limits of the program. It includes no other module, and no other module includes
 * the headers of jansson and libfyaml. Each header has its own description, and all are public.
 *
 * public   bytes.h check.h clock.h device_memory.h dtype.h fault.h file.h hash.h hex.h json.h
 *          json_write.h limits.h log.h random.h region.h space.h statistics.h text.h
 *          token_bucket.h yaml.h */
#ifndef SKEP_BASE_BASE_H
#define SKEP_BASE_BASE_H

#endif
