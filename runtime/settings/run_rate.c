/* settings_learning_rate: the learning rate over the steps of a run. */
#include "runtime/settings/run.h"

#include <math.h>

static const double COSINE_FLOOR = 0.1;    /* of the peak rate */
static const double WSD_DECAY_SHARE = 0.2; /* of all steps */
static const double PI = 3.14159265358979323846;

/* Share of the way from the end of the warm-up to the end of the run. */
static double done_share(const struct run *run, int64_t step) {
    int64_t span = run->steps - run->warmup_steps;
    double done = (double)(step - run->warmup_steps) / (double)(span > 1 ? span : 1);
    return fmin(fmax(done, 0), 1);
}

double settings_learning_rate(const struct run *run, int64_t step) {
    bool warm = step >= run->warmup_steps;
    double rise = warm ? 1 : (double)(step + 1) / (double)run->warmup_steps;
    switch ((enum learning_rate_kind)run->schedule) {
    case RATE_CONSTANT:
        return run->lr * rise;
    case RATE_COSINE: {
        double wave = 0.5 * (1 + cos(PI * done_share(run, step)));
        return run->lr * (warm ? COSINE_FLOOR + (1 - COSINE_FLOOR) * wave : rise);
    }
    case RATE_WSD: {
        double left = (double)(run->steps - step) / (WSD_DECAY_SHARE * (double)run->steps);
        return run->lr * fmin(rise, fmax(left, 0));
    }
    }
    ASSERT(false && "an unknown schedule");
    return 0;
}
