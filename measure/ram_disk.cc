// SPDX-License-Identifier: BSD-3-Clause
#include "measure/ram_disk.h"

#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "perdure/error.h"
#include "tools/process.h"

namespace perdure::bench::reproduce {
namespace {

constexpr const char* kControl = "/sys/class/zram-control/";

std::string device_of(const std::string& number) { return "/dev/zram" + number; }
std::string attribute_of(const std::string& number, const std::string& name) {
  return "/sys/block/zram" + number + "/" + name;
}

[[noreturn]] void lacks(const std::string& what) {
  throw Exception(Code::kIo, "a disk in memory: " + what);
}

bool write_attribute(const std::string& path, const std::string& text) {
  std::ofstream stream(path);
  stream << text << std::flush;
  return stream.good();
}

std::string new_device() {
  if (::geteuid() != 0) lacks("only root may mount one");
  std::string number;
  std::ifstream(std::string(kControl) + "hot_add") >> number;
  if (number.empty()) lacks(std::string(kControl) + "hot_add: no device to be had (modprobe zram)");
  return number;
}

void remove_device(const std::string& number) {
  // What holds it may need a moment to let it go.
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (write_attribute(std::string(kControl) + "hot_remove", number)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

RamDisk::RamDisk(const std::string& dir, std::uint64_t bytes)
    : mount_point_(dir, "ram-disk"), number_(new_device()) {
  try {
    write_attribute(attribute_of(number_, "comp_algorithm"), "lz4");  // else what it has
    if (!write_attribute(attribute_of(number_, "disksize"), std::to_string(bytes)))
      lacks("no room for " + std::to_string(bytes) + " bytes");
    const std::string log = path() + ".log";
    const int code =
        tools::Process(
            {"mkfs.ext2", "-q", "-b", "4096", "-N", "4096", "-m", "0", device_of(number_)}, log)
            .wait();
    const std::string said = tools::end_of(log);
    ::unlink(log.c_str());
    if (code != 0) lacks("mkfs.ext2 failed: " + said);
    if (::mount(device_of(number_).c_str(), path().c_str(), "ext2", MS_NOATIME, nullptr) != 0)
      lacks(std::string("mount: ") + std::strerror(errno));
  } catch (...) {
    remove_device(number_);
    throw;
  }
}

RamDisk::~RamDisk() {
  for (int attempt = 0; ::umount(path().c_str()) != 0 && attempt < 50; ++attempt)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  remove_device(number_);
}

double RamDisk::blocks_written() const {
  // Requests and sectors read, requests and sectors written (Documentation/block/stat.rst): 512
  // bytes each.
  std::ifstream stream(attribute_of(number_, "stat"));
  double field = 0;
  for (int i = 0; i < 7; ++i) stream >> field;
  return stream ? field * 512 / 4096 : 0;
}

}  // namespace perdure::bench::reproduce
