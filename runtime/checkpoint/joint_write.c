#include "runtime/checkpoint/joint_write.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"

static enum status begin(const struct joint_write *joint, struct fault *fault) {
    char parent[PATH_BYTES];
    file_folder_of(joint->folder, parent, sizeof parent);
    enum status status = file_exists(parent) ? OK : file_make_folders(parent, fault);
    if (status == OK) {
        status = folder_make_empty(joint->folder, fault);
    }
    for (int i = 0; i < joint->file_count && status == OK; i++) {
        status = tensor_file_begin(&joint->files[i], joint->folder, fault);
    }
    return status;
}

static enum status fill(const struct joint_write *joint, const struct staging *staging,
                        struct fault *fault) {
    for (int i = 0; i < joint->file_count; i++) {
        TRY(tensor_file_fill(&joint->files[i], joint->folder, staging, fault));
    }
    return OK;
}

static void give_up(const struct joint_write *joint) {
    struct fault ignored; /* the first fault is the one to tell */
    enum status cleaned = folder_remove(joint->folder, &ignored);
    (void)cleaned;
}

enum status joint_write_run(const struct joint_write *joint, const struct staging *staging,
                            struct fault *fault) {
    const struct checkpoint_ranks *site = joint->site;
    bool leads = checkpoint_is_rank0(site);
    bool replaced = false;
    enum status status = leads ? begin(joint, fault) : OK;
    status = checkpoint_site_agree(site, status, fault);
    if (status == OK) {
        status = checkpoint_site_agree(site, fill(joint, staging, fault), fault);
    }
    bool filled = status == OK;
    if (filled && leads) {
        status = joint->put_in_place(joint->context, staging, &replaced, fault);
    }
    if (leads && !replaced) {
        give_up(joint);
    }
    if (!filled) {
        checkpoint_ranks_wait(site); /* until nothing is left */
        return status;
    }
    return checkpoint_site_agree(site, status, fault);
}
