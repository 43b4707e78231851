// SPDX-License-Identifier: BSD-3-Clause
#include "apps/kv/kv.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/core.h>

#include "apps/kv/formats.h"
#include "apps/kv/store.h"
#include "perdure/expert.h"
#include "tools/checked_tx.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/wreck.h"

namespace perdure::kv {
namespace {

using tools::Report;

struct KvOptions {
  std::string file;
  std::string key;
  std::string value;
  std::string prefix;
  std::string input = "-";
  Format format = Format::kTsv;
  std::uint64_t limit = ~std::uint64_t{0};
  std::uint64_t batch = 64;
  bool raw = false;
  bool must_exist = false;
  bool salvage = false;
  bool json = false;
  ExpertOptions pool;
};

// ---- opening ------------------------------------------------------------------------------------

Pool open_to_write(const KvOptions& options) {
  return (options.must_exist ? Pool::open(options.file, options.pool)
                             : Pool::open_or_create(options.file, options.pool))
      .value();
}

/// A store that is only read: a private copy, so that any number of readers may look at a time,
/// that the file stays as it is, and that damage in it ends in an error.
class Reader {
 public:
  explicit Reader(const KvOptions& options) : pool_(Pool::inspect(options.file).value()) {}

  Pool& pool() { return pool_; }
  /// What `body(tx, map)` answers, or nothing when the pool has no store.
  template <class Body>
  auto read(Body body) {
    using Answer = std::invoke_result_t<Body&, tools::CheckedTx&, Map&>;
    Map* map = pool_.find_root<Map>(kRoot);
    if (map == nullptr) return std::optional<Answer>();
    try {
      return pool_.read_only([&](Tx& tx) {
        tools::CheckedTx checked(tx, pool_);
        return std::optional<Answer>(body(checked, *map));
      });
    } catch (const Exception& error) {
      throw Exception(error.code(), pool_.path() + ": the store " + error.what() +
                                        "; `perdure check` tells more");
    }
  }
  /// Calls `visit(key, value)` for every record, outside of any transaction. Stops when it is
  /// false. Throws kCorrupt at the end when they were not as many as the store counts.
  template <class Visit>
  void for_each(Visit visit) {
    std::uint64_t cursor = 0;
    std::uint64_t found = 0;
    do {
      std::vector<Record> chunk;
      const auto next = read([&](tools::CheckedTx& tx, Map& map) {
        chunk.clear();
        return map.scan(tx, cursor, 256, [&](std::string_view key, std::string_view value) {
          if (chunk.size() == kLongestChain) throw Exception(Code::kCorrupt, "goes in circles");
          chunk.push_back({std::string(key), std::string(value)});
        });
      });
      cursor = next.value_or(0);
      found += chunk.size();
      for (const Record& record : chunk) {
        if (!visit(record.key, record.value)) return;
      }
    } while (cursor != 0);
    const std::uint64_t counted =
        read([](tools::CheckedTx& tx, Map& map) { return map.size(tx); }).value_or(0);
    if (found != counted)
      throw Exception(Code::kCorrupt, pool_.path() + ": the store counts " +
                                          std::to_string(counted) + " records, and " +
                                          std::to_string(found) +
                                          " were found; `perdure check` tells more, `perdure kv "
                                          "dump --salvage` prints all that can be proved");
  }

 private:
  /// A scan finishes the bucket that it is in.
  static constexpr std::size_t kLongestChain = 1 << 16;

  Pool pool_;
};

/// Refuses a store that is damaged where `key` belongs, before anything is written there.
void look_before(Pool& pool, Map& map, const std::string& key) {
  pool.read_only([&](Tx& tx) {
    tools::CheckedTx checked(tx, pool);
    (void)map.contains(checked, key);
  });
}

std::string all_of(std::istream& input) {
  std::ostringstream text;
  text << input.rdbuf();
  return std::move(text).str();
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw Exception(Code::kIo, "standard output: cannot be written");
}

// ---- the commands -------------------------------------------------------------------------------

void put(const KvOptions& options) {
  Pool pool = open_to_write(options);
  Map* map = pool.root<Map>(kRoot);
  look_before(pool, *map, options.key);
  const bool inserted =
      pool.atomically([&](Tx& tx) { return map->put(tx, options.key, options.value); });
  if (options.json) tools::print({{"inserted", inserted}}, true);
}

void get(const KvOptions& options) {
  const auto value =
      Reader(options)
          .read([&](tools::CheckedTx& tx, Map& map) { return map.get(tx, options.key); })
          .value_or(std::nullopt);
  if (options.json) {
    write_out(value ? encode(Format::kJsonl, options.key, *value) : "null\n");
  } else if (value) {
    write_out(*value);
    if (!options.raw) write_out("\n");
  } else {
    fmt::print(stderr, "perdure: {}: no such key\n", options.file);
  }
  if (!value) tools::leave_with(tools::kNegative);
}

void del(const KvOptions& options) {
  Pool pool = Pool::open(options.file, options.pool).value();
  Map* map = pool.find_root<Map>(kRoot);
  if (map != nullptr) look_before(pool, *map, options.key);
  const bool erased =
      map != nullptr && pool.atomically([&](Tx& tx) { return map->erase(tx, options.key); });
  if (options.json) tools::print({{"erased", erased}}, true);
  if (erased) return;
  if (!options.json) fmt::print(stderr, "perdure: {}: no such key\n", options.file);
  tools::leave_with(tools::kNegative);
}

void count(const KvOptions& options) {
  const std::uint64_t records =
      Reader(options).read([](tools::CheckedTx& tx, Map& map) { return map.size(tx); }).value_or(0);
  if (options.json) return tools::print({{"records", records}}, true);
  fmt::print("{}\n", records);
}

void scan(const KvOptions& options) {
  Reader reader(options);
  const Format format = options.json ? Format::kJsonl : options.format;
  std::uint64_t left = options.limit;
  if (left == 0) return;
  reader.for_each([&](const std::string& key, const std::string& value) {
    if (!key.starts_with(options.prefix)) return true;
    write_out(encode(format, key, value));
    return --left > 0;
  });
}

/// What can be proved of a damaged store; what cannot goes to standard error.
void dump_salvaged(const KvOptions& options) {
  tools::Wreck wreck(options.file);
  const Format format = options.json ? Format::kJsonl : options.format;
  for (const tools::Wreck::Root& root : wreck.roots()) {
    if (root.name == kRoot && root.type == type_id<Map>() && root.bytes == sizeof(Map))
      wreck.salvage<Map>(root, [&](std::string_view key, std::string_view value) {
        write_out(encode(format, key, value));
      });
  }
  for (const std::string& what : wreck.lost())
    fmt::print(stderr, "perdure: {}: left out: {}\n", options.file, what);
  if (!wreck.lost().empty()) tools::leave_with(tools::kNegative);
}
void dump(const KvOptions& options) { options.salvage ? dump_salvaged(options) : scan(options); }

void stats(const KvOptions& options) {
  Reader reader(options);
  std::uint64_t records = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;
  reader.for_each([&](const std::string& key, const std::string& value) {
    ++records;
    key_bytes += key.size();
    value_bytes += value.size();
    return true;
  });
  Pool& pool = reader.pool();
  const PoolUsage usage = pool.usage();
  Report report = tools::describe(pool, options.file);
  report["records"] = records;
  report["keys_bytes"] = key_bytes;
  report["values_bytes"] = value_bytes;
  report["objects"] = usage.objects;
  report["taken_by_objects_bytes"] = usage.object_bytes;
  report["pool_bytes"] = usage.file_bytes;
  report["records_to_recover"] = pool.recovery().records_replayed;
  tools::print(report, options.json);
}

/// Puts records, `batch` to a transaction; what was read before a malformed record stays.
class Loader {
 public:
  Loader(Pool& pool, std::uint64_t batch_records)
      : pool_(&pool), map_(pool.root<Map>(kRoot)), limit_(batch_records) {}

  void add(Record record) {
    batch_.push_back(std::move(record));
    if (batch_.size() >= limit_) flush();
  }
  void flush() {
    if (batch_.empty()) return;
    inserted_ += pool_->atomically([&](Tx& tx) {
      std::uint64_t fresh = 0;
      for (const Record& record : batch_) fresh += map_->put(tx, record.key, record.value) ? 1 : 0;
      return fresh;
    });
    records_ += batch_.size();
    batch_.clear();
  }
  std::uint64_t records() const { return records_; }
  std::uint64_t inserted() const { return inserted_; }

 private:
  Pool* pool_;
  Map* map_;
  std::uint64_t limit_;
  std::vector<Record> batch_;
  std::uint64_t records_ = 0;
  std::uint64_t inserted_ = 0;
};

void load(const KvOptions& options) {
  std::ifstream file;
  std::uint64_t total_bytes = 0;
  if (options.input != "-") {
    file.open(options.input, std::ios::binary);
    if (!file || std::filesystem::is_directory(options.input))
      throw Exception(Code::kNotFound, options.input + ": cannot be read");
    std::error_code ignored;
    total_bytes = std::filesystem::file_size(options.input, ignored);
    if (ignored) total_bytes = 0;  // a pipe has no size
  }
  Pool pool = open_to_write(options);
  RecordReader reader(options.input == "-" ? std::cin : file, options.format);
  Loader loader(pool, options.batch);
  const auto start = std::chrono::steady_clock::now();
  try {
    tools::Progress progress("loading", total_bytes);
    for (Record record; reader.next(record);) {
      loader.add(std::move(record));
      progress.show(total_bytes != 0 ? reader.bytes() : loader.records());
    }
    loader.flush();
  } catch (const Exception& error) {
    if (error.code() != Code::kInvalid) throw;
    loader.flush();
    const std::string input = options.input == "-" ? "standard input" : options.input;
    throw Exception(Code::kInvalid, input + ": " + error.what() + "; the " +
                                        std::to_string(loader.records()) +
                                        " records before it are stored, correct it and load again");
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tools::print({{"records", loader.records()},
                {"inserted", loader.inserted()},
                {"replaced", loader.records() - loader.inserted()},
                {"load_ns", seconds * 1e9},
                {"records_per_second",
                 static_cast<std::uint64_t>(static_cast<double>(loader.records()) / seconds)},
                {"acknowledged_survives", pool.guarantee()}},
               options.json);
}

// ---- the command line ---------------------------------------------------------------------------

constexpr const char* kKeyHelp = "The key; - takes all of standard input as it is";

void add_format(tools::Command command, KvOptions& options) {
  tools::add_choice<Format>(
      command, "--format", options.format,
      {{"tsv", Format::kTsv}, {"jsonl", Format::kJsonl}, {"lengths", Format::kLengths}},
      "tsv (the default), jsonl or lengths; all are binary-safe");
}

/// "-" stands for standard input, once.
void take_input(KvOptions& options) {
  if (options.key == "-" && options.value == "-")
    throw Exception(Code::kInvalid, "only one of key and value can come from standard input");
  for (std::string* field : {&options.key, &options.value}) {
    if (*field == "-") *field = all_of(std::cin);
  }
}

constexpr const char* kFooter =
    R"(Examples:
  perdure kv put words.pool moon "a natural satellite"
  perdure kv get words.pool moon
  perdure kv load words.pool words.tsv --batch 1000
  perdure kv dump words.pool --format jsonl | jq -r .key
  perdure kv dump old.pool --format lengths | perdure kv load new.pool --format lengths
Formats: tsv, with \t \n \\ \0 for the bytes of that name; jsonl, with base64 "key64", "value64" for what is not UTF-8;
lengths: "KEYBYTES VALUEBYTES", newline, key, value, newline, all raw.
get and del end with 1 when there is no such key.)";

}  // namespace

void add_kv_commands(tools::Command app) {
  tools::Command kv = app.add_subcommand(
      "kv", "Store and find records in a pool: a durable key-value store in one file");
  kv.require_subcommand();
  const auto add = [&](const char* name, const char* about, void (*run)(const KvOptions&)) {
    auto options = std::make_shared<KvOptions>();
    tools::Command command = kv.add_subcommand(name, about);
    command.add_option("FILE", options->file, "The pool").required();
    tools::add_json_flag(command, options->json);
    command.callback([options, run] {
      take_input(*options);
      run(*options);
    });
    return std::pair(command, options);
  };
  const auto add_writing = [](tools::Command command, KvOptions& options) {
    tools::add_open_options(command, options.pool);
    tools::add_create_options(command, options.pool);
    command.add_flag("--must-exist", options.must_exist,
                     "Refuse a missing file instead of creating it");
  };

  const auto [putting, put_options] = add("put", "Store a record; on return it is durable", put);
  putting.add_option("KEY", put_options->key, kKeyHelp).required();
  putting
      .add_option("VALUE", put_options->value, "The value; - takes all of standard input as it is")
      .required();
  add_writing(putting, *put_options);

  const auto [getting, get_options] = add("get", "Print the value of a key, and a newline", get);
  getting.add_option("KEY", get_options->key, kKeyHelp).required();
  getting.add_flag("--raw", get_options->raw, "Print the value only");

  const auto [deleting, del_options] =
      add("del", "Remove a record; on return that is durable", del);
  deleting.add_option("KEY", del_options->key, kKeyHelp).required();
  tools::add_open_options(deleting, del_options->pool);

  const auto [scanning, scan_options] = add("scan", "Print records, in no particular order", scan);
  scanning.add_option("--prefix", scan_options->prefix, "Only keys that begin with this");
  tools::add_count(scanning, "--limit", scan_options->limit, "At most so many");
  add_format(scanning, *scan_options);

  add("count", "Print how many records there are", count);

  const auto [loading, load_options] =
      add("load", "Store the records of a file or of standard input", load);
  loading.add_option("INPUT", load_options->input, "The file; - is standard input").show_default();
  loading
      .add_option("--batch", load_options->batch, "Records to a transaction: all of them or none")
      .show_default()
      .range(std::uint64_t{1}, std::uint64_t{1} << 20);
  add_format(loading, *load_options);
  add_writing(loading, *load_options);

  const auto [dumping, dump_options] = add("dump", "Print every record, for `kv load`", dump);
  add_format(dumping, *dump_options);
  dumping.add_flag("--salvage", dump_options->salvage,
                   "Of a damaged store, what can be proved; exit code 1 if something is left out");

  add("stats", "Tell size, use of space, and what an acknowledged record survives", stats);
  add_demo_command(kv);
  kv.footer(kFooter);  // last: commands take over the footer that they are born under
}

}  // namespace perdure::kv
