#include "runtime/checkpoint/joint_write.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"

static enum status create_files(const struct joint_write *joint, struct fault *fault) {
    char parent[PATH_BYTES];
    file_parent_folder(joint->folder, parent, sizeof parent);
    if (!file_exists(parent)) {
        TRY(file_make_folders(parent, fault));
    }
    TRY(folder_make_empty(joint->folder, fault));
    for (int i = 0; i < joint->file_count; i++) {
        TRY(tensor_file_create(&joint->files[i], joint->folder, fault));
    }
    return OK;
}

static enum status write_pieces(const struct joint_write *joint, const struct staging *staging,
                                struct fault *fault) {
    for (int i = 0; i < joint->file_count; i++) {
        TRY(tensor_file_write_pieces(&joint->files[i], joint->folder, staging, fault));
    }
    return OK;
}

static void remove_folder(const struct joint_write *joint) {
    struct fault ignored; /* ignored, because the caller reports the fault of the write */
    enum status status = folder_remove(joint->folder, &ignored);
    (void)status;
}

enum status joint_write_run(const struct joint_write *joint, const struct staging *staging,
                            struct fault *fault) {
    const struct checkpoint_ranks *ranks = joint->ranks;
    bool is_rank0 = checkpoint_is_rank0(ranks);
    bool replaced = false;
    enum status status = is_rank0 ? create_files(joint, fault) : OK;
    status = checkpoint_agree(ranks, status, fault);
    if (status == OK) {
        status = checkpoint_agree(ranks, write_pieces(joint, staging, fault), fault);
    }
    bool is_filled = status == OK;
    if (is_filled && is_rank0) {
        status = joint->publish_folder(joint->context, staging, &replaced, fault);
    }
    if (is_rank0 && !replaced) {
        remove_folder(joint);
    }
    if (!is_filled) {
        checkpoint_ranks_wait(ranks); /* wait until rank 0 has removed the folder */
        return status;
    }
    return checkpoint_agree(ranks, status, fault);
}
