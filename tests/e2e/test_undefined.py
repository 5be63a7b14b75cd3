"""What runs after the seal does not even refer to anything that allocates.

usage: test_undefined.py NM LIBRARY...: every object of the libraries is looked at; an object that
holds code from before the seal as well is listed with the calls it may name, and why.
"""
import re
import subprocess
import sys

ALLOCATING = set("""malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign
valloc pvalloc strdup strndup asprintf vasprintf getline getdelim open_memstream fmemopen fopen
fopen64 fdopen freopen fclose fread fwrite fgets fputs puts printf vprintf fprintf vfprintf putchar
perror opendir fdopendir readdir readdir64 closedir scandir glob glob64 popen system dlopen
mmap mmap64 munmap mremap brk sbrk qsort qsort_r setenv putenv getaddrinfo pthread_create tmpfile
region_alloc region_copy_text region_format region_grow json_parse yaml_parse
thread_start""".split())

BEFORE = "before the seal only: "

# Objects that run after the seal, by what they name; any other object of the libraries given is
# one that must name none of the above.
ALLOWED = {
    "batch.c": {"region_alloc": BEFORE + "batch_fill_rope_table"},
    "bind.c": {"region_alloc": BEFORE + "the tables of addresses, calls and lanes"},
    "compute_copies.c": {"region_alloc": BEFORE + "compute_copies_plan"},
    "connect.c": {"region_alloc": BEFORE + "session_connect"},
    "groups.c": {"region_alloc": BEFORE + "groups_copy"},
    "nccl.c": {"region_alloc": BEFORE + "nccl_open"},
    "cuda_program.c": {"region_alloc": BEFORE + "cuda_program_bind"},
    "data.c": {"region_alloc": BEFORE + "data_open", "region_copy_text": BEFORE + "data_open"},
    "fingerprint.c": {"region_alloc": BEFORE + "fingerprint_compute"},
    "inner_weights.c": {"region_alloc": BEFORE + "inner_weights_plan"},
    "member_run.c": {"region_alloc": BEFORE + "allocating the member",
                     "region_copy_text": BEFORE + "opening the ledger copy"},
    "lockstep.c": {"region_alloc": BEFORE + "planning, and taking the manifest over"},
    "member_outer_state.c": {"region_alloc": BEFORE + "planning the snapshot"},
    "messages.c": {"region_alloc": BEFORE + "messenger_open"},
    "messages_accept.c": {"region_alloc": BEFORE + "messenger_open"},
    "messages_poll.c": {"region_alloc": BEFORE + "messenger_open"},
    "messages_read.c": {"region_alloc": BEFORE + "messenger_open"},
    "messages_table.c": {"region_alloc": BEFORE + "messenger_open"},
    "metrics.c": {"region_alloc": BEFORE + "metrics_write_start"},
    "file.c": {"region_alloc": BEFORE + "file_read_into_region"},
    "lanes.c": {name: BEFORE + "lanes_init" for name in ("thread_start", "region_alloc")},
    "nvml.c": {"dlopen": BEFORE + "nvml_open"},
    "pool.c": {"thread_start": BEFORE + "pool_init"},
    "region.c": {name: BEFORE + "block_add asserts it" for name in
                 ("aligned_alloc", "free", "fprintf")},
    "rollback_setup.c": {"region_alloc": "only `skep track --rollback`, which trains nothing"},
    "round_record.c": {"region_alloc": BEFORE + "round_record_plan"},
    "sample_order.c": {"region_alloc": BEFORE + "sample_order_init"},
    "shm.c": {"region_alloc": BEFORE + "shm_open_communicator and shm_register"},
    "site.c": {"region_alloc": BEFORE + "site_open"},
    "site_watch.c": {"thread_start": BEFORE + "site_start_watch"},
    "snapshot_files.c": {"region_alloc": BEFORE + "planning the files",
                         "region_copy_text": BEFORE + "planning the files"},
    "snapshot_json.c": {name: BEFORE + "snapshot_json_parse" for name in
                        ("json_parse", "region_copy_text")},
    "snapshot_save.c": {"region_alloc": BEFORE + "snapshot_writer_init"},
    "step_trace.c": {"region_alloc": BEFORE + "step_trace_plan"},
    "token_cache.c": {name: BEFORE + "token_cache_list" for name in
                      ("json_parse", "region_alloc", "region_format")},
    "trainer.c": {"region_alloc": BEFORE + "trainer_begin"},
    "tensor_file.c": {"region_alloc": BEFORE + "tensor_file_plan"},
    "trace.c": {"region_alloc": BEFORE + "trace_init"},
    "weights_save.c": {"region_alloc": BEFORE + "weights_save_plan",
                       "region_copy_text": BEFORE + "weights_save_plan"},
}
# Objects of these libraries that never run after the seal.
EARLY = {
    "targets": {"profile.c", "targets.c", "embedded_profiles.c"},
    "os": {"machine.c", "mapping.c", "thread.c"},
    "ports": {"cuda_driver.c", "port_cpu.c"},
    "probe": {"detect.c", "detect_cuda.c", "probe.c", "probe_cuda.c", "probe_loops.c"},
    "program": {"compile.c", "print.c"},
    "settings": {"comma_list.c", "model_config.c", "path_list.c", "setting_keys.c",
                 "setting_value.c", "settings.c", "settings_model.c", "settings_print.c"},
    "data": {"cache_folder.c", "data_match.c", "text_tokens.c", "token_file.c"},
    "session": {"disk.c", "load_weights.c", "rank_parts.c", "ranks_check.c", "remedies.c",
                "session.c", "what_if.c"},
    "swarm_setup": {"genesis.c", "manifest_make.c", "member_session.c", "preflight.c",
                    "state_folder.c", "swarm_memory.c", "swarm_settings.c", "tracker_setup.c"},
    "training": {"alone_prepare.c", "resume.c"},
    "inner_training": {"member_replica.c", "member_settings.c"},
    "checkpoint": {"config_text.c", "json_scan.c", "safetensors.c", "safetensors_parse.c",
                   "snapshot_export.c", "snapshot_read.c", "weight_files.c",
                   "weights_load.c"},
    "identity": {"address.c"},
    "site": {"launch_children.c", "launch_detect.c", "site_accept.c", "site_join.c",
             "site_socket.c"},
    "collectives": {"nccl_library.c", "shm_ticket.c"},
    "base": {"json.c", "yaml.c", "yaml_read.c"},
}


def references(nm, library):
    """object source name -> undefined symbols."""
    listing = subprocess.run([nm, "-A", "--undefined-only", "--format=posix", library], check=True,
                             capture_output=True, text=True).stdout
    found = {}
    for line in listing.splitlines():
        match = re.match(r".*?\[(?:.*/)?([^/\]]+)\.o\]: (\S+) U", line)
        if match:
            name = match.group(1)
            # meson flattens "cpu/norm.c" to "cpu_norm.c"
            found.setdefault(name, set()).add(match.group(2).split("@")[0])
    return found


def check(nm, libraries):
    problems, looked_at = [], 0
    for library in libraries:
        folder = re.sub(r"^.*/lib|\.a$", "", library)
        objects = references(nm, library)
        if not objects:
            problems.append(f"{library}: no object was read")
        for name, symbols in sorted(objects.items()):
            if name in EARLY.get(folder, ()):
                continue
            looked_at += 1
            for symbol in sorted(symbols & ALLOCATING - set(ALLOWED.get(name, {}))):
                problems.append(f"{folder}/{name} refers to {symbol}")
            for symbol in sorted(set(ALLOWED.get(name, {})) - symbols):
                problems.append(f"{folder}/{name} refers to {symbol} no longer: unlist it")
    return problems, looked_at


def main():
    problems, looked_at = check(sys.argv[1], sys.argv[2:])
    print("\n".join(problems))
    print(f"{looked_at} objects, {len(problems)} problems")
    return 1 if problems or looked_at < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
