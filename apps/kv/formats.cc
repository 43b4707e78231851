// SPDX-License-Identifier: BSD-3-Clause
#include "apps/kv/formats.h"

#include <array>
#include <charconv>

#include <nlohmann/json.hpp>

#include "apps/base64.h"
#include "perdure/error.h"

namespace perdure::kv {
namespace {

using Json = nlohmann::ordered_json;

// ---- tsv ----------------------------------------------------------------------------------------

void append_escaped(std::string& out, std::string_view raw) {
  for (const char c : raw) {
    switch (c) {
      case '\t': out += "\\t"; break;
      case '\n': out += "\\n"; break;
      case '\\': out += "\\\\"; break;
      case '\0': out += "\\0"; break;
      default: out += c;
    }
  }
}

/// False at a backslash that begins no escape.
bool append_unescaped(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) return false;
    switch (text[i]) {
      case 't': out += '\t'; break;
      case 'n': out += '\n'; break;
      case '\\': out += '\\'; break;
      case '0': out += '\0'; break;
      default: return false;
    }
  }
  return true;
}

// ---- jsonl --------------------------------------------------------------------------------------

/// Well-formed UTF-8 by the library that will print it.
bool is_utf8(std::string_view raw) {
  try {
    (void)Json(raw).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

void put_field(Json& object, const std::string& name, std::string_view raw) {
  if (is_utf8(raw)) {
    object[name] = raw;
  } else {
    object[name + "64"] = to_base64(raw);
  }
}

bool get_field(const Json& object, const std::string& name, std::string& out) {
  out.clear();
  if (const auto plain = object.find(name); plain != object.end() && plain->is_string()) {
    out = plain->get<std::string>();
    return true;
  }
  const auto coded = object.find(name + "64");
  return coded != object.end() && coded->is_string() &&
         from_base64(coded->get_ref<const std::string&>(), out);
}

}  // namespace

std::string encode(Format format, std::string_view key, std::string_view value) {
  std::string out;
  switch (format) {
    case Format::kTsv:
      append_escaped(out, key);
      out += '\t';
      append_escaped(out, value);
      break;
    case Format::kJsonl: {
      Json object;
      put_field(object, "key", key);
      put_field(object, "value", value);
      out = object.dump();
      break;
    }
    case Format::kLengths:
      out = std::to_string(key.size()) + ' ' + std::to_string(value.size()) + '\n';
      out += key;
      out += value;
      break;
  }
  out += '\n';
  return out;
}

bool RecordReader::next(Record& record) {
  if (format_ == Format::kLengths) return next_lengths(record);
  if (!next_line()) return false;
  if (format_ == Format::kJsonl) {
    const Json object = Json::parse(line_, nullptr, false);
    if (object.is_discarded() || !object.is_object()) fail("is not a JSON object");
    if (!get_field(object, "key", record.key)) fail("has no string \"key\" or base64 \"key64\"");
    if (!get_field(object, "value", record.value))
      fail("has no string \"value\" or base64 \"value64\"");
    return true;
  }
  const auto tab = line_.find('\t');
  if (tab == line_.npos) fail("has no tab between key and value");
  record.key.clear();
  record.value.clear();
  const std::string_view text = line_;
  if (text.find('\t', tab + 1) != text.npos)
    fail("has a second tab; write a tab inside a value as \\t");
  if (!append_unescaped(record.key, text.substr(0, tab)) ||
      !append_unescaped(record.value, text.substr(tab + 1)))
    fail("has a backslash that is none of \\t \\n \\\\ \\0");
  return true;
}

bool RecordReader::next_line() {
  if (!std::getline(*input_, line_)) {
    if (input_->bad()) throw Exception(Code::kIo, "the input cannot be read to its end");
    return false;
  }
  ++number_;
  bytes_ += line_.size() + 1;
  return true;
}

bool RecordReader::next_lengths(Record& record) {
  if (!next_line()) return false;
  const char* const end = line_.data() + line_.size();
  std::array<std::uint64_t, 2> lengths{};
  const auto key = std::from_chars(line_.data(), end, lengths[0]);
  const bool space = key.ec == std::errc() && key.ptr != end && *key.ptr == ' ';
  const auto value = space ? std::from_chars(key.ptr + 1, end, lengths[1]) : key;
  if (!space || value.ec != std::errc() || value.ptr != end)
    fail("does not begin with two lengths");
  for (std::size_t i = 0; i < 2; ++i) {
    std::string& field = i == 0 ? record.key : record.value;
    // Piecewise, so that a hostile length costs no more memory than the input has bytes.
    field.clear();
    while (field.size() < lengths[i]) {
      const std::size_t had = field.size();
      field.resize(had + std::min<std::uint64_t>(lengths[i] - had, std::uint64_t{1} << 20));
      if (!input_->read(field.data() + had, static_cast<std::streamsize>(field.size() - had)))
        fail("ends too early");
    }
  }
  if (input_->get() != '\n') fail("does not end with a newline after its value");
  bytes_ += record.key.size() + record.value.size() + 1;
  return true;
}

void RecordReader::fail(const std::string& what) const {
  throw Exception(Code::kInvalid, (format_ == Format::kLengths ? "record " : "line ") +
                                      std::to_string(number_) + " " + what);
}

}  // namespace perdure::kv
