// SPDX-License-Identifier: BSD-3-Clause
// Boost.Serialization as the peer of the red-black tree: a whole std::map into a binary archive in
// a file.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/serialization/array.hpp>
#include <boost/serialization/map.hpp>

#include "papers/mnemosyne/evaluation/stores.h"

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, perdure::bench::reproduce::TreeValue& value, unsigned) {
  archive & value.words;
}

}  // namespace boost::serialization

namespace perdure::bench::reproduce {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Exception(Code::kIo, path + ": " + std::strerror(errno));
}

const bool kRegistered = [] {
  peers().serialize = [](const VolatileTree& tree, const std::string& path) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    boost::archive::binary_oarchive(file) << tree;
    const auto bytes = static_cast<std::uint64_t>(file.tellp());
    file.close();
    if (!file) fail(path);
    return bytes;
  };
  peers().load = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(path);
    VolatileTree tree;
    boost::archive::binary_iarchive(file) >> tree;
    return tree;
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::reproduce
