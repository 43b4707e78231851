// SPDX-License-Identifier: BSD-3-Clause
// What a resume does about files: are machine and files such that the program can go on, and opening them again.
#pragma once

#include <string>

#include "apps/run/image.h"

namespace perdure::run {

/// Forgets the last epoch, once it is known that the one before can be resumed. Errors: Exception; nothing is changed.
void go_back(const std::string& directory);

/// Brings the files back to the last epoch, once it is known that the program can be brought back here.
/// Errors: Exception, as of launch.h's resume_program().
void bring_files_back(const std::string& directory);

/// A descriptor of a file or folder that the program had open, as it had it. Less than 0: errno says why not.
int open_again(const OpenFile& each, const std::string& directory);

}  // namespace perdure::run
