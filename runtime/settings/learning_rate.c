/* learning_rate: the learning rate of each step of a run. */
#include "runtime/settings/settings.h"

#include <math.h>

static const double COSINE_FLOOR = 0.1; /* Final learning rate, as a fraction of the peak rate. */
static const double WSD_DECAY_SHARE = 0.2; /* of all steps */
static const double PI = 3.14159265358979323846;

/* Returns the completed fraction of the steps after the warm-up, in [0, 1]. */
static double decay_progress(const struct settings *settings, int64_t step) {
    int64_t span = settings->steps - settings->warmup_steps;
    double done = (double)(step - settings->warmup_steps) / (double)(span > 1 ? span : 1);
    return fmin(fmax(done, 0), 1);
}

double settings_learning_rate(const struct settings *settings, int64_t step) {
    bool is_warm = step >= settings->warmup_steps;
    double rise = is_warm ? 1 : (double)(step + 1) / (double)settings->warmup_steps;
    switch ((enum learning_rate_kind)settings->learning_rate_kind) {
    case RATE_CONSTANT:
        return settings->learning_rate * rise;
    case RATE_COSINE: {
        double wave = 0.5 * (1 + cos(PI * decay_progress(settings, step)));
        return settings->learning_rate *
               (is_warm ? COSINE_FLOOR + (1 - COSINE_FLOOR) * wave : rise);
    }
    case RATE_WSD: {
        double left =
            (double)(settings->steps - step) / (WSD_DECAY_SHARE * (double)settings->steps);
        return settings->learning_rate * fmin(rise, fmax(left, 0));
    }
    }
    ASSERT(false && "the kind of schedule is known");
    return 0;
}
