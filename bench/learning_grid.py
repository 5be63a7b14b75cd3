"""The experiments of the learning bench: which settings, lengths and seeds each stage has.

    screen   6,000 steps, two seeds, all settings of GRIDS. Shorter runs rank settings wrongly.
    tune     18,000 steps, the same two seeds: the TUNED best screened settings of each family, so
             that every baseline gets as many full-length runs as a swarm.
    result   18,000 steps, eight other seeds: the best tuned setting of each family.
    confirm  the same settings with another model shape, on another text, two further seeds.

A stage depends only on the stored results of the stage before, so it can run on separate days.
"""

import itertools
import statistics

from learning_settings import setting
from learning_store import best_setting, losses_of

SCREEN_STEPS, FULL_STEPS = 6000, 18000
TUNING_SEEDS = (11, 12)
RESULT_SEEDS = tuple(range(21, 29))
CONFIRM_SEEDS = (31, 32)
TUNED = 4
STAGES = ("screen", "tune", "result", "confirm")


def product(kind, fixed, **values):
    """One setting for each combination; the last name varies fastest."""
    return [{"kind": kind, **fixed, **dict(zip(values, chosen))}
            for chosen in itertools.product(*values.values())]


def swarm_grid(members, lrs, betas, more):
    """Settings of a swarm: the middle of the range first, then `more` outer momenta and decays, and
    last the settings that follow from the number of members: for three quotients of the best rates
    of data parallel and of members, and with the divisor for which these rates should be equal."""
    fixed = {"members": members}
    grid = product("swarm", fixed, lr=lrs, betas=betas)
    for changes in more:
        grid += product("swarm", {**fixed, **changes}, lr=lrs[:2], betas=betas[:2])
    if members > 1:  # one member has the given betas and decay, and a momentum for each gain
        grid += product("swarm", {**fixed, "betas": betas[0], **BY_MEMBERS},
                        outer_gain=(1.4, 1, 2), lr=lrs[:2])
        grid += product("swarm", {**fixed, "betas": betas[0], **BY_MEMBERS, "outer_gain": 1,
                                  "member_variance": "auto"}, lr=(1.4e-3, 2e-3, 1e-3))
    return grid


def sparse_grid(members, lr):
    """The default form at three outer rates, then all other forms at the first of them."""
    fixed = {"members": members, "codec": "sparse", "lr": lr}
    return (product("swarm", fixed, outer_lr=(1.0, 0.7, 1.4)) +
            product("swarm", fixed, **SPARSE_FORMS)[1:])


# Loss against bits: all forms of the sparse codec at the rates of the swarms above.
SPARSE_FORMS = {"sparse_values": (64, 32, 128, 256), "sparse_bits": (2, 1, 4)}
# Settings from the middle of the range come first. The longer betas are those of 0.9 and 0.99 for a
# quarter of the batch, which divides 1 - beta by the number of members (Malladi et al. 2022,
# arXiv:2205.10287), and half of the way there. Data parallel gets the same candidates.
BETAS = ([0.9, 0.99], [0.975, 0.9975], [0.95, 0.995])
# Without churn, a swarm with `auto` computes what one with the betas and the decay written down
# computes; the other rows of the grids have no such betas and decay together.
BY_MEMBERS = {"member_betas": "auto", "member_decay": "auto"}
GRIDS = {
    "data parallel":
        product("data parallel", {}, lr=(1.4e-3, 2e-3, 1e-3, 2.8e-3), betas=BETAS) +
        product("data parallel", {"lr": 1.4e-3}, weight_decay=(0.3, 0.03)),
    "swarm of 4": swarm_grid(
        4, (1e-3, 1.4e-3, 7e-4, 2e-3), BETAS,
        ({"outer_momentum": 0.65}, {"outer_momentum": 0.3}, {"weight_decay": 0.025})),
    "swarm of 1": swarm_grid(
        1, (1.4e-3, 1e-3), ([0.9, 0.99], [0.95, 0.995]),
        ({"outer_momentum": 0.3}, {"outer_lr": 0.7, "outer_momentum": 0.6})),
    "swarm of 2": swarm_grid(
        2, (1e-3, 1.4e-3), ([0.9, 0.99], [0.95, 0.995]), ({"outer_momentum": 0.3},)),
    "swarm of 8": swarm_grid(
        8, (1e-3, 7e-4), ([0.9, 0.99], [0.9875, 0.99875], [0.95, 0.995]),
        ({"outer_momentum": 0.65},)),
    "sparse swarm of 4": sparse_grid(4, 1e-3),
    "sparse swarm of 8": sparse_grid(8, 7e-4),
    "muon": product("muon", {}, lr=(1e-2, 5e-3, 2e-2), embedding_lr=(2e-3, 1e-3)) +
            product("muon", {}, momentum=(0.9,), lr=(1e-2, 5e-3)),
}


def screened(name, text):
    return [setting(**made, text=text, steps=SCREEN_STEPS) for made in GRIDS[name]]


def tuned(name, text, table):
    """The best screened settings at full length; [] while the screening is incomplete."""
    ranked = []
    for made in screened(name, text):
        losses = losses_of(table, made, TUNING_SEEDS)
        if len(losses) < len(TUNING_SEEDS):
            return []
        ranked.append((statistics.mean(losses.values()), len(ranked), made))
    return [at(made, steps=FULL_STEPS) for _, _, made in sorted(ranked)[:TUNED]]


def winner(name, text, table):
    """[the best tuned setting], or [] while the tuning is incomplete."""
    candidates = tuned(name, text, table)
    missing = [made for made in candidates
               if len(losses_of(table, made, TUNING_SEEDS)) < len(TUNING_SEEDS)]
    best = best_setting(table, candidates, TUNING_SEEDS)
    return [best] if best and not missing else []


def at(made, **changes):
    """A setting with changes; what follows from the others is computed again."""
    plain = {name: value for name, value in made.items() if name not in ("shape", "microbatch")}
    return setting(**{**plain, **changes})


def stage_settings(stage, name, text, table, other_text=None):
    """The settings of one grid in a stage, as far as the stored results determine them."""
    if stage == "screen":
        return screened(name, text)
    if stage == "tune":
        return tuned(name, text, table)
    best = winner(name, text, table)
    if stage == "result":
        return best
    return [at(made, model="gpt2-0.9m", text=other_text) for made in best if other_text]


def seeds_of(stage):
    return {"result": RESULT_SEEDS, "confirm": CONFIRM_SEEDS}.get(stage, TUNING_SEEDS)


def cells(stage, names, text, table, other_text=None):
    """[(setting, seed)] of a stage: in turn one setting of each grid, so that all of them grow."""
    columns = [stage_settings(stage, name, text, table, other_text) for name in names]
    rows = itertools.zip_longest(*columns)
    settings = [made for row in rows for made in row if made is not None]
    return [(made, seed) for made in settings for seed in seeds_of(stage)]


def missing_cells(wanted, table):
    return [(made, seed) for made, seed in wanted if not losses_of(table, made, [seed])]
