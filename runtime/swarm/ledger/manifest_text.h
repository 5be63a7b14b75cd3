/* manifest_text: constants that writer and reader of a manifest share. */
#ifndef SKEP_SWARM_LEDGER_MANIFEST_TEXT_H
#define SKEP_SWARM_LEDGER_MANIFEST_TEXT_H

#define MANIFEST_SIGN_CONTEXT  "skep manifest"
#define MANIFEST_SIGNATURE_KEY "signature: " /* begins the last line */

#endif
