// Writes a file to the disk completely or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace qdq {

// An error of the operating system in words as Node has them: "no such file or directory".
std::string reason_of(int error);

// Why no new file can be made in a folder, found by making one that is removed at once; "": one can.
std::string why_no_file_in(const std::string& folder);

// Puts the bytes where a reader sees either the old file or the whole new one. A symbolic link stays, and the file that
// it names is written; an existing file keeps its permissions. A FIFO gets the bytes as a stream, once somebody reads
// it. The bytes are gathered in a file without a name where the file system has such, so that nothing is left behind by
// a process that is killed; elsewhere in PATH.PID.part, which the next write of PATH removes if PID has ended.
// Throws Error{kIo} with path and reason, for folders, devices and sockets too, which are never replaced.
// The bytes are parts, one behind the other; of those in scratch files (base/disk_blocks.h) nothing stays in memory.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace qdq
