// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/choices.h"

#include <algorithm>
#include <charconv>

namespace perdure::crash {

Choices::Choices(const Media::Frontier& frontier, std::uint64_t full_limit, std::uint64_t samples,
                 Random& random)
    : full_(frontier.everything()), current_(frontier.nothing()) {
  for (const std::uint32_t writes : full_) {
    count_ *= writes + 1;
    if (count_ > full_limit) {
      exhaustive_ = false;
      sample(samples, random);
      count_ = sampled_.size();
      return;
    }
  }
}

const Media::Choice* Choices::next() {
  if (!exhaustive_) return next_sampled_ < sampled_.size() ? &sampled_[next_sampled_++] : nullptr;
  if (!std::exchange(begun_, true)) return &current_;
  for (std::size_t i = 0; i < current_.size(); ++i) {
    if (current_[i] < full_[i]) {
      ++current_[i];
      return &current_;
    }
    current_[i] = 0;
  }
  return nullptr;
}

void Choices::sample(std::uint64_t samples, Random& random) {
  const std::size_t units = full_.size();
  const Media::Choice nothing(units, 0);
  sampled_ = {nothing, full_};
  // All numbers below `count`, or `samples` of them.
  const auto some_of = [&](std::uint64_t count, auto visit) {
    for (std::uint64_t i = 0; i < std::min(count, samples); ++i) {
      visit(count <= samples ? i : random.below(count));
    }
  };
  const auto prefix = [&](std::size_t unit) {
    return static_cast<std::uint32_t>(1 + random.below(full_[unit]));
  };
  std::vector<std::size_t> unit_of_write;
  for (std::size_t unit = 0; unit < units; ++unit)
    unit_of_write.insert(unit_of_write.end(), full_[unit], unit);
  some_of(unit_of_write.size(), [&](std::uint64_t write) {
    const std::size_t unit = unit_of_write[write];
    const auto first = std::find(unit_of_write.begin(), unit_of_write.end(), unit);
    sampled_.push_back(nothing);
    sampled_.back()[unit] = static_cast<std::uint32_t>(
        write + 1 - static_cast<std::uint64_t>(first - unit_of_write.begin()));
  });
  some_of(units, [&](std::uint64_t unit) {
    sampled_.push_back(full_);
    sampled_.back()[unit] = 0;
  });
  some_of(units * units, [&](std::uint64_t pair) {
    const std::size_t first = pair / units;
    const std::size_t second = pair % units;
    if (first >= second) return;
    sampled_.push_back(nothing);
    sampled_.back()[first] = full_[first];
    sampled_.back()[second] = full_[second];
  });
  for (const std::uint64_t tenths : {1, 5, 9}) {
    for (std::uint64_t i = 0; i < samples; ++i) {
      sampled_.push_back(nothing);
      for (std::size_t unit = 0; unit < units; ++unit) {
        if (random.below(10) < tenths) sampled_.back()[unit] = prefix(unit);
      }
    }
  }
}

std::string text_of_choice(const Media::Choice& choice, const Media::Frontier& frontier) {
  const Media::Choice full = frontier.everything();
  const auto list = [&](const Media::Choice& usual) {
    std::string text;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      if (choice[i] == usual[i]) continue;
      if (!text.empty()) text += ',';
      text += std::to_string(i);
      if (choice[i] != full[i] && choice[i] != 0) text += '=' + std::to_string(choice[i]);
    }
    return text;
  };
  const std::string there = list(frontier.nothing());
  const std::string missing = list(full);
  if (there.empty()) return "-";
  if (missing.empty()) return "*";
  return there.size() <= missing.size() ? there : '~' + missing;
}

std::optional<Media::Choice> choice_of(std::string_view text, const Media::Frontier& frontier) {
  if (text == "*") return frontier.everything();
  if (text == "-") return frontier.nothing();
  const bool missing = !text.empty() && text.front() == '~';
  if (missing) text.remove_prefix(1);
  const Media::Choice full = frontier.everything();
  Media::Choice choice = missing ? full : frontier.nothing();
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    std::size_t unit = 0;
    const auto number = std::from_chars(at, end, unit);
    if (number.ec != std::errc() || unit >= full.size()) return std::nullopt;
    choice[unit] = missing ? 0 : full[unit];
    at = number.ptr;
    if (at < end && *at == '=') {
      const auto prefix = std::from_chars(at + 1, end, choice[unit]);
      if (prefix.ec != std::errc() || choice[unit] > full[unit]) return std::nullopt;
      at = prefix.ptr;
    }
    if (at == end) break;
    if (*at != ',') return std::nullopt;
    ++at;
  }
  return choice;
}

}  // namespace perdure::crash
