/* parts: what the parts of a simulated world offer each other. world.h has their list, and the
 * structures. */
#ifndef SKEP_TESTS_SIM_PARTS_H
#define SKEP_TESTS_SIM_PARTS_H

#include "tests/sim/world.h"

/* What goes wrong (faults.c). */
enum { FAULTS_MS = 8000 /* faults happen up to here */ };
void faults_plan(struct world *world);
void faults_happen(struct world *world, const struct happening *happening);
void faults_heal(struct world *world);
/* faults_copy: node 1 starts on a copy of the store. Members move to it, and some back. */
void faults_copy(struct world *world);
/* faults_return: a member has left. Where a store is copied and members give leases, most come back
 * soon, half of them to the other tracker: what they promised must bind them there. */
void faults_return(struct world *world, uint32_t index);
/* faults_operate: the operator looks after a tracker. If it has said for some seconds that a fork
 * is possible, the operator stops the other copy, if there is one, and orders this one to continue
 * with the members that are ready. */
void faults_operate(struct world *world, uint32_t tracker);

/* Messages (post.c).
 * post_send    Send the message of an action through the network.
 * post_attach  Add the bytes that follow a message, as the sender has them; false: it has none.
 * post_accept  The checks of a process before a machine sees a message; false: it is dropped.
 *              `open` is the newest OPEN that a member has, or NULL.
 * post_sign    The signature of an entry.
 * post_sign_message  Sign a message, and what it states, with the key of an identity. */
void post_send(struct world *world, uint32_t from, const struct action *action);
bool post_attach(struct world *world, uint32_t from, uint32_t to, struct parcel *parcel);
bool post_accept(const struct world *world, const struct entry *open, struct parcel *parcel);
struct signature post_sign(const struct identity *id, const struct hash *hash);
void post_sign_message(const struct world *world, const struct identity *id,
                       struct message *message);

/* Lies (lies.c). Honest members pass all of them unchanged.
 * lie_name           The name of a lie, as --rate takes it.
 * lie_has_teller     Whether any member lies.
 * lie_explains       Whether a member that tells it may be suspended for a reason.
 * lie_withholds      Whether a member keeps a message to itself.
 * lie_message        Change a message, and sign it again where its sender can. False: the reader of
 *                    the wire rejects it.
 * lie_bytes          Change the bytes of a contribution on their way to one owner.
 * lie_contribution   Change the contribution of a round, before it is declared.
 * lie_swapped        The values of the same norm that a liar adds in place of its contribution.
 * lie_own_addend     What a member adds to a slice that it owns.
 * lie_wait_ms        How long the member waits before it sends the next slice.
 * lie_slowness       The factor by which its slices take longer on its uplink. */
const char *lie_name(enum hostility hostility);
bool lie_has_teller(const struct world *world);
bool lie_explains(enum hostility hostility, uint32_t reason);
bool lie_withholds(const struct world *world, uint32_t node, const struct message *message);
bool lie_message(struct world *world, uint32_t node, struct parcel *parcel);
void lie_bytes(const struct world *world, uint32_t node, uint32_t to, struct coded *coded);
void lie_contribution(struct world *world, uint32_t node);
struct coded lie_swapped(const struct world *world, const struct coded *coded);
struct coded lie_own_addend(const struct world *world, uint32_t node, uint32_t slice);
int64_t lie_wait_ms(const struct world *world, uint32_t node, enum message_kind kind);
void lie_mark_sent(struct world *world, uint32_t node, enum message_kind kind);
uint64_t lie_slowness(const struct world *world, uint32_t node);

/* Members that declare the contributions of others (theft.c).
 * theft_is_lie      Whether a lie is such a theft.
 * theft_tick        Request what is missing, at a heartbeat.
 * theft_take        A parcel has arrived.
 * theft_contribute  Change the contribution of a round, before it is declared.
 * theft_check       No member declares what an honest one contributes to the same commit: it cannot
 *                   have it in time. */
bool theft_is_lie(enum hostility hostility);
void theft_tick(struct world *world, uint32_t node);
void theft_take(struct world *world, uint32_t node, const struct parcel *parcel);
void theft_contribute(struct world *world, uint32_t node);
void theft_check(struct world *world, const struct entry *entry);

/* Copies of messages (parcel.c).
 * parcel_bytes      The size of a message on the wire, with the bytes that follow it.
 * parcel_pass_wire  Write and read the message: fields get the width of the wire. False if the
 *                   reader rejects it. */
bool parcel_pass_wire(const struct world *world, struct parcel *parcel);
struct parcel *parcel_copy(const struct world *world, const struct message *message);
void parcel_free(struct parcel *parcel);
uint64_t parcel_bytes(const struct world *world, const struct message *message);

/* The network (net.c).
 * net_start, net_stop   A node starts or stops; what it had queued is lost.
 * net_post              Send a parcel without bulk data, which net_post frees if it is lost.
 * net_queue             Queue the bytes of a contribution or a result, after all others if it is
 *                       the last.
 * net_flush             Send queued bytes while the uplink is free.
 * net_arrive            The first byte of a parcel is here: deliver it when its last one is.
 * net_send_control      Send bytes of a control message; ms until the first one arrives.
 * net_is_connected      Whether a connection between two nodes works.
 * net_mark_arriving     Tell a member's machine from whom slices are arriving. */
void net_start(struct world *world, uint32_t node);
void net_stop(struct world *world, uint32_t node);
void net_post(struct world *world, uint32_t from, uint32_t to, struct parcel *parcel);
void net_queue(struct world *world, uint32_t from, uint32_t to, const struct message *message,
               bool is_last);
void net_flush(struct world *world, uint32_t node);
void net_arrive(struct world *world, struct happening *happening);
int64_t net_send_control(struct world *world, uint32_t from, uint64_t bytes);
bool net_is_connected(const struct world *world, uint32_t from, uint32_t to);
void net_mark_arriving(struct world *world, uint32_t node);

/* Measurements of a member (measure.c). Each is made when the real process makes it.
 * measure_draw    Report random values from now on, if the world does not measure.
 * measure_report  Report the medians of the measured values, if it does. */
void measure_draw(struct world *world, uint32_t node);
void measure_ping(struct world *world, uint32_t node);
void measure_answer(struct world *world, const struct happening *ping);
void measure_pong(struct world *world, const struct happening *pong);
void measure_training(struct node *node, int64_t step_ms);
void measure_message(struct world *world, uint32_t node, const struct message *message);
void measure_result(struct world *world, uint32_t node);
void measure_sent(struct node *node, int64_t sent_us, uint64_t bytes);
void measure_report(struct world *world, uint32_t node);

/* The data plane (plane.c): do a machine's actions. `parcel` is the one being handled, or NULL.
 * plane_leaf    a leaf of the state that a node adopts comes, or does not
 * plane_stored  the results of the newest round on disk, as reports; their round */
void plane_act(struct world *world, uint32_t node, const struct actions *actions,
               const struct parcel *parcel);
void plane_leaf(struct world *world, uint32_t node, uint32_t job);
uint32_t plane_stored(const struct world *world, const struct node *node,
                      struct slice_report *reports);
struct stored *plane_find(struct node *node, uint32_t round, uint32_t slice,
                          const struct hash *hash);
struct hash plane_root(const struct world *world, const struct outer *outer);
/* plane_made_result: whether the newest sum of a slice by this start of a member is the one that an
 * entry commits. */
bool plane_made_result(const struct world *world, uint32_t node, const struct entry *entry,
                       uint32_t slice);
/* plane_entry_hash: of an entry with this root in the place of its own. */
struct hash plane_entry_hash(const struct entry *entry, const struct hash *root);

/* Training (training.c): begin that of an action; end that of a round after the current sample;
 * replace the contribution of a round with that of a theft, unless it is declared. */
void training_begin(struct world *world, uint32_t index, const struct action *action);
void training_end(struct world *world, uint32_t index, uint32_t round);
void training_replace(struct world *world, uint32_t index, uint32_t round);

/* Checks of sums (check.c): do the machine's actions of these kinds. */
void check_act(struct world *world, uint32_t node, const struct action *action);

/* A tracker that lies (equivocate.c).
 * equivocate          Change a message to a member. False: the tracker withholds it.
 * equivocate_propose  The machine of the tracker sends a message.
 * equivocate_vote     Whether the machine of the tracker gets a message that has arrived. */
const char *equivocate_name(enum equivocation kind);
bool equivocate(struct world *world, uint32_t to, struct parcel *parcel);
void equivocate_propose(struct world *world, const struct message *message);
bool equivocate_vote(struct world *world, const struct message *message);

/* Keys (keys.c): those of all nodes follow from their identity. Both trackers have the same. */
extern const struct identity TRACKER_ID, OPERATOR_ID;
struct key_pairs keys_of(const struct identity *id);

/* A member's copy of the ledger (chain.c). Functions that return a message return the next one for
 * the state machine, or NULL.
 * chain_start, chain_stop  The member starts, or stops.
 * chain_connect            It has a new connection to a tracker.
 * chain_is_rejecting       Whether it has rejected the ledger of its tracker.
 * chain_is_synced          Whether the tracker has shown that its ledger continues the copy.
 * chain_receive            A parcel has arrived. NULL: the real member would drop it.
 * chain_on_applied         The state machine has applied a commit, or adopted a state.
 * chain_on_fetch           It begins to fetch the state after an entry.
 * chain_next_message       It has begun that.
 * chain_request            Request entries, if some are missing.
 * chain_answer             A tracker answers a request.
 * chain_on_page            A page of the ledger has arrived. */
void chain_start(struct world *world, uint32_t node);
void chain_stop(struct world *world, uint32_t node);
void chain_connect(struct world *world, uint32_t node);
bool chain_is_rejecting(const struct world *world, uint32_t node);
bool chain_is_synced(const struct world *world, uint32_t node);
const struct message *chain_receive(struct world *world, uint32_t node, struct parcel *parcel);
const struct message *chain_on_applied(struct world *world, uint32_t node);
void chain_on_fetch(struct world *world, uint32_t node, const struct entry *target);
const struct message *chain_next_message(struct world *world, uint32_t node);
void chain_request(struct world *world, uint32_t node);
void chain_answer(struct world *world, const struct happening *request);
const struct message *chain_on_page(struct world *world, const struct happening *page);

/* The disks of trackers (store.c).
 * store_of      The store of a tracker, or of a member's tracker.
 * store_copy    Copy the first store, with all that is durable, for node 1. */
struct tracker_store *store_of(struct world *world, uint32_t node);
void store_copy(struct world *world);
void store_begin(struct world *world);
void store_finish(struct world *world);
void store_transaction(struct world *world, uint32_t node, const struct action *action);
void store_written(struct world *world, struct happening *happening);
void store_free(struct tracker_record *record);

/* The oracles (oracle.c).
 * oracle_append    an entry is durable in a store
 * oracle_applied   a member has a new root, from an entry or by adopting it (0)
 * oracle_rechecked a member audited a slice
 * oracle_trained   a member is about to encode with its feedback
 * oracle_restarted a member forgets its feedback
 * oracle_behind    a member that is on an old root, or 0; the store was not copied
 * Results of a commit (oracle_sums.c):
 * oracle_node_of      the node of a seat
 * oracle_truth_of     The contribution of a node to a round of a store's ledger. Where copies of
 *                     the store have the same round, it may have been made for the other copy.
 * oracle_find_mean    the mean of a slice, before it is encoded
 * oracle_check_slice  result and owner of a slice
 * oracle_check_step   the state of a member that has applied an entry; `before` is its state before
 */
static inline uint32_t oracle_node_of(const struct entry *entry, uint32_t seat) {
    return entry->seats[seat].id.bytes[0];
}
const struct truth *oracle_truth_of(const struct world *world, const struct tracker_store *store,
                                    uint32_t round, uint32_t node);
void oracle_find_mean(const struct world *world, const struct tracker_store *store,
                      const struct entry *entry, uint32_t slice, float *mean);
void oracle_check_slice(struct world *world, const struct tracker_store *store,
                        const struct entry *entry, uint32_t slice);
void oracle_check_step(struct world *world, uint32_t node, const struct entry *entry,
                       const float *before);
void oracle_append(struct world *world, struct tracker_store *store, const struct entry *entry);
void oracle_applied(struct world *world, uint32_t node, const struct hash *root, int is_adopted);
void oracle_rechecked(struct world *world, uint32_t node, const struct action *action,
                      const struct message_refusal *refusal);
void oracle_trained(struct world *world, uint32_t node);
void oracle_restarted(struct world *world, uint32_t node);
uint32_t oracle_behind(const struct world *world);

#endif
