/* listener_filter: a program for the kernel's packet filter (classic BPF). The kernel runs it on
 * each packet to the listening socket. Accepted connections inherit the program, so it accepts all
 * packets except the first one of a connection.
 *
 *     SYN without ACK? no ──► accept      IPv4? ──► compare the source with each IPv4 host
 *                                         IPv6? ──► compare 64 bits of it with each IPv6 host */
#include "transport/messages/listener_filter.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <string.h>

enum {
    TCP_FLAGS = 13,    /* offset of the flags in a TCP header, where the filter's data begin */
    TCP_SYN = 0x02,    /* flag of a TCP header */
    TCP_ACK = 0x10,    /* flag of a TCP header */
    IP_SOURCE_V4 = 12, /* offset of the source in an IPv4 header */
    IP_SOURCE_V6 = 8,  /* offset of the source in an IPv6 header */
    INSTRUCTIONS_PER_HOST = 5, /* maximum number of instructions for one host */
    INSTRUCTIONS_FIXED = 12,   /* maximum number of instructions for no host in particular */
    INSTRUCTIONS_MAX = INSTRUCTIONS_FIXED + LISTENER_FILTER_HOSTS_MAX * INSTRUCTIONS_PER_HOST,
};

/* result that accepts a packet: the maximum number of its bytes to keep */
static const uint32_t ACCEPT = UINT32_MAX;
static const uint32_t DROP = 0;

struct filter_program {
    struct sock_filter code[INSTRUCTIONS_MAX];
    uint32_t count; /* number of instructions in `code` */
};

static void add_instruction(struct filter_program *program, struct sock_filter instruction) {
    ASSERT(program->count < INSTRUCTIONS_MAX);
    program->code[program->count++] = instruction;
}

static void add_return(struct filter_program *program, uint32_t verdict) {
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Adds an instruction that skips `skipped` instructions unless the loaded value equals `value`. */
static void add_skip_unless_equal(struct filter_program *program, uint32_t value, uint8_t skipped) {
    add_instruction(program,
                    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped));
}

/* Returns word `index` of a host's address as the kernel loads it from a packet header. */
static uint32_t address_word(const struct source *host, uint32_t index) {
    uint32_t word;
    memcpy(&word, host->bytes + index * sizeof word, sizeof word);
    return ntohl(word);
}

/* Adds instructions that load a word or a byte of the IP header. */
static void add_load_ip(struct filter_program *program, uint16_t size, uint32_t offset) {
    add_instruction(program, (struct sock_filter)BPF_STMT(BPF_LD | size | BPF_ABS,
                                                          (uint32_t)SKF_NET_OFF + offset));
}

static void add_hosts_v4(struct filter_program *program, const struct source *hosts,
                         uint32_t count) {
    add_load_ip(program, BPF_W, IP_SOURCE_V4);
    for (uint32_t i = 0; i < count; i++) {
        if (source_is_v4(&hosts[i])) {
            add_skip_unless_equal(program, address_word(&hosts[i], 3), 1);
            add_return(program, DROP);
        }
    }
    add_return(program, ACCEPT);
}

static void add_hosts_v6(struct filter_program *program, const struct source *hosts,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!source_is_v4(&hosts[i])) {
            add_load_ip(program, BPF_W, IP_SOURCE_V6);
            add_skip_unless_equal(program, address_word(&hosts[i], 0), 3);
            add_load_ip(program, BPF_W, IP_SOURCE_V6 + 4);
            add_skip_unless_equal(program, address_word(&hosts[i], 1), 1);
            add_return(program, DROP);
        }
    }
    add_return(program, ACCEPT);
}

void listener_filter_set_hosts(int listener, const struct source *hosts, uint32_t count) {
    ASSERT(count <= LISTENER_FILTER_HOSTS_MAX);
    struct filter_program program = {.count = 0};
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS));
    add_instruction(&program,
                    (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TCP_SYN | TCP_ACK));
    add_instruction(&program,
                    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_SYN, 1, 0));
    add_return(&program, ACCEPT);
    add_load_ip(&program, BPF_B, 0);
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4));
    add_instruction(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0));
    const uint32_t to_v6 = program.count; /* jump to the IPv6 part, whose distance is set below */
    add_instruction(&program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
    add_hosts_v4(&program, hosts, count);
    program.code[to_v6].k = program.count - to_v6 - 1;
    add_hosts_v6(&program, hosts, count);
    const struct sock_fprog filter = {.len = (unsigned short)program.count, .filter = program.code};
    (void)setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}
