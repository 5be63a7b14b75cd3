/* other_trainers: the names that other trainers give to settings, and the settings of Skep that
 * correspond to them. */
#ifndef SKEP_SETTINGS_OTHER_TRAINERS_H
#define SKEP_SETTINGS_OTHER_TRAINERS_H

/* other_trainers_remedy: return the remedy for a setting with the name `name` in another trainer,
 * such as "learning_rate": a text that names the setting here; NULL if the name is unknown. The
 * comparison ignores case and treats "-" and "_" as equal.
 * source  the arguments of transformers' Trainer, Accelerate, axolotl, torchtitan, nanoGPT and
 *         Megatron-LM */
const char *other_trainers_remedy(const char *name);

#endif
