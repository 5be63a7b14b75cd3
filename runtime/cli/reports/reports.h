/* reports: what commands print on standard output: the long reports, as text for people and as
 * JSON, ids and texts of lines (data_ids.h, token_ids.h), generated text while it is sampled
 * (sampling.h, generated_text.h), and the questions that such texts answer (dialog.h). A command
 * computes a report's struct, or lets runtime/session, runtime/swarm_setup or runtime/diagnose
 * compute it, and this module prints it. This module computes only sums and ratios for its tables.
 * Every JSON document is written through json_stdout. Only runtime/cli calls it.
 *
 * public   data_ids.h dialog.h generated_text.h json_stdout.h sampling.h token_ids.h */
#ifndef SKEP_CLI_REPORTS_REPORTS_H
#define SKEP_CLI_REPORTS_REPORTS_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/corpus.h"
#include "runtime/diagnose/comm.h"
#include "runtime/diagnose/plan_site.h"
#include "runtime/shard/mesh.h"
#include "runtime/swarm_setup/preflight.h"

#include <stdbool.h>

/* ---- skep inspect ---- */

enum { INSPECT_SHARDS_MAX = 4096 /* maximum number of shards to report */ };

struct inspect_report {
    const char *model;   /* name of the model, as the user gave it */
    const char *weights; /* file that contains or lists the weights, or NULL */
    const struct blueprint *blueprint;
    const struct unit_table *units;
    int64_t tokenizer_ids; /* number of ids of the tokenizer; 0: none is supported */
    const char
        *tokenizer_problem; /* why the tokenizer cannot be used; NULL: it can, or is absent */
    bool has_chat_template;
    int64_t sequence;        /* sequence length for which FLOPs are computed */
    int64_t shards;          /* number of shards; 0: not requested */
    bool is_full;            /* the text lists each rank's parts of every parameter */
    struct unit_part *parts; /* [units->param_count] scratch memory */
};

void inspect_print_text(const struct inspect_report *report);
void inspect_print_json(const struct inspect_report *report);

/* ---- skep data ---- */

/* data_print_report, data_print_json: print the result of writing token files from text.
 * chats_print_report, chats_print_json: print the result of writing token files from
 * conversations. */
void data_print_report(const struct corpus_options *options, const struct corpus_report *report);
void data_print_json(const struct corpus_options *options, const struct corpus_report *report);
void chats_print_report(const struct chat_corpus_options *options,
                        const struct chat_corpus_report *report);
void chats_print_json(const struct chat_corpus_options *options,
                      const struct chat_corpus_report *report);

/* ---- skep plan ---- */

/* plan_print_json: prints the plan as one JSON document. If `fits` is false, the document includes
 * the extents at the peak and the remedies for the memory, and *remedy_count, which the caller set
 * to 0, becomes the number of remedies.
 * site    report on the ranks, or NULL for one rank
 * errors  STATUS_FAILED when the proof of a remedy's plan fails; part of the document may have been
 *         printed */
MUST_CHECK enum status plan_print_json(struct session *session, const struct site_report *site,
                                       bool fits, int *remedy_count, struct fault *fault);

/* remedies_add_json: adds the array "remedies". Each remedy has its changes of settings and the
 * peak with these changes. */
void remedies_add_json(const struct remedy *remedies, int count, struct json_writer *json);

/* plan_site_print: prints the part of a plan report that concerns ranks, as text. */
void plan_site_print(const struct site_report *report);

/* plan_draw: draws the device arena over the whole program as an SVG file, `path`.
 * errors  STATUS_FAILED when the file cannot be written */
MUST_CHECK enum status plan_draw(struct session *session, const char *path, struct fault *fault);

/* ---- skep mesh ---- */

struct mesh_report {
    struct mesh mesh;
    int ranks_per_node;          /* ranks per node; 0: no placement is printed */
    double bytes[MESH_DIMS_MAX]; /* number of bytes that a rank receives along each dimension */
    bool has_bytes;     /* whether --bytes was given; if not, every entry of `bytes` is 1 */
    struct mesh placed; /* `mesh` with the suggested order of ranks */
};

void mesh_report_text(const struct mesh_report *report);
void mesh_report_json(const struct mesh_report *report);

/* ---- skep comm ---- */

struct comm_report {
    struct comm comm;
    bool is_tested; /* whether `verdicts` is valid: the collectives were checked */
    /* whether each collective gave the expected result in each group */
    struct comm_verdict verdicts[COMM_CHECK_COUNT][COMM_GROUP_COUNT];
    /* [rate_count]: measured speeds */
    struct comm_rate rates[COMM_RATE_COUNT * COMM_SIZES_MAX];
    int rate_count; /* number of measured speeds; 0: none was measured */
};

void comm_report_print(const struct comm_report *report, bool json);

/* ---- skep snapshot ---- */

/* snapshot_print_list: prints one line or JSON object for each snapshot. `is_verified`: the hashes
 * of all files were checked, not only their sizes. */
void snapshot_print_list(const char *folder, const struct snapshot_list_item *listed, int count,
                         bool is_verified);
void snapshot_print_list_json(const char *folder, const struct snapshot_list_item *listed,
                              int count, bool is_verified);

/* snapshot_print_details: prints the contents of one snapshot, with the keys of its run at the
 * end. */
void snapshot_print_details(const struct snapshot *snapshot);
void snapshot_print_details_json(const struct snapshot *snapshot);

/* snapshot_print_export: reports that a snapshot was exported to the model folder `out`. */
void snapshot_print_export(const struct snapshot *snapshot, const char *out);
void snapshot_print_export_json(const struct snapshot *snapshot, const char *out);

/* ---- skep plan, skep join ---- */

/* rates_report_append, rates_report_add_json: add the betas, the weight decay and the outer
 * momentum for the `present` number of members, or, if that is 0, for 1, 2, 4 ... up to
 * swarm.members_max members. The functions add nothing if the settings are not those of a swarm, or
 * if none of these rates depends on the number of members. */
void rates_report_append(const struct settings *settings, uint32_t present, struct text *text);
void rates_report_add_json(const struct settings *settings, uint32_t present,
                           struct json_writer *json);

/* ---- skep join ---- */

enum { FIT_REPORT_BYTES = 32 * 1024 }; /* maximum size of the text of a member's report */

/* fit_report_append: appends the report of a member's needs to `text`. */
void fit_report_append(const struct fit_report *report, struct text *text);

/* The result of a check of something that a member needs besides memory and disk. */
struct fit_check {
    const char *name; /* what was checked: "data", "tracker", "access" or "peers" */
    /* what is missing, or why it is not known; NULL: nothing is missing */
    const struct fault *fault;
    bool is_unknown; /* `fault` states why this was not checked */
};

struct fit_report_request {
    const struct swarm_terms *terms; /* settings of the swarm that determine the needs */
    struct fit_link link;            /* link to the swarm, if it was measured */
    /* number of members for which fit_report_make computes the needs */
    int members;
    /* number of members in the current round, for rates only; 0: unknown */
    uint32_t present_members;
    /* [check_count]: results of checks; they are printed only as JSON */
    const struct fit_check *checks;
    int check_count;
};

/* fit_report_write: computes the report and appends it to `text`, whether the member fits or not.
 * text    has a capacity of FIT_REPORT_BYTES
 * errors  those of fit_report_make, with nothing written; STATUS_FIT when the member does not
 *         fit */
MUST_CHECK enum status fit_report_write(struct session *session,
                                        const struct fit_report_request *request, struct text *text,
                                        struct fault *fault);

/* fit_report_print_json: computes the report and prints it as one JSON document, whether the member
 * fits or not.
 * errors  those of fit_report_write */
MUST_CHECK enum status fit_report_print_json(struct session *session,
                                             const struct fit_report_request *request,
                                             struct fault *fault);

#endif
