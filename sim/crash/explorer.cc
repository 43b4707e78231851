// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/explorer.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "sim/crash/choices.h"

namespace perdure::crash {
namespace {

/// Steps between which a correct structure stands: no older than acknowledged, no newer than begun.
struct Bounds {
  std::uint64_t acked;
  std::uint64_t started;
};

/// Where one life ended, and what it left: one step of a replay text.
struct Cut {
  std::size_t event;
  bool
      kill;  // a process kill: everything visible is seen by the next life, and is still on its way
  bool longer;  // the file measures more than the pool knows of
  std::string choice;
};

std::string text_of(const Cut& cut) {
  return std::to_string(cut.event) + (cut.kill ? "k" : "") + (cut.longer ? "+" : "") + ":" +
         cut.choice;
}

bool is_barrier(const TraceEvent& event) {
  return event.kind == TraceEvent::Kind::kFence || event.kind == TraceEvent::Kind::kSync;
}
/// Where images are tried: as each may be possible for the last time.
bool ends_moment(const TraceEvent& event) {
  return is_barrier(event) || event.kind == TraceEvent::Kind::kMark;
}

class Explorer {
 public:
  Explorer(const Subject& subject, Model model, const Options& options)
      : subject_(subject),
        options_(options),
        depth_(std::max(options.depth, subject.depth)),
        each_store_(model == Model::kCaches),
        lab_(model, subject.bytes, options.omission) {
    report_.scenario = subject.name;
    report_.model = model_name(model);
    for (unsigned i = 0; i <= depth_; ++i) levels_.emplace_back(lab_);
  }

  Report run() {
    const auto start = std::chrono::steady_clock::now();
    if (record()) {
      Media media(lab_.model(), levels_[0].image.data(), lab_.base());
      cut_trace(0, media, {0, 0});
    }
    report_.executions = lab_.executions();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    report_.seconds = spent.count();
    return std::move(report_);
  }

  /// Explores only this chain of cuts.
  Report replay(std::vector<Cut> cuts) {
    replayed_ = std::move(cuts);
    return run();
  }

 private:
  /// One trace and the durable bytes under it: level 0 is the first run, level 1 a recovery, …
  struct Level {
    explicit Level(Lab& lab) : image(lab.bytes()), trace(lab.base()) {}
    std::vector<std::byte> image;
    Trace trace;
    std::vector<Lab::Growth> growths;

    std::uint64_t file_bytes(std::size_t event) const {
      std::uint64_t bytes = 0;
      for (const Lab::Growth& growth : growths) {
        if (growth.event <= event) bytes = growth.file_bytes;
      }
      return bytes;
    }
  };

  // ---- sessions ---------------------------------------------------------------------------------

  bool record();
  /// One life on what is in the lab's memory. What is wrong with it, or nothing.
  std::optional<std::string> live(Bounds bounds, std::uint64_t file_bytes, unsigned resume_steps);
  void undo_session(const std::vector<std::byte>& image);
  void keep_session(Level& level) {
    std::swap(lab_.trace(), level.trace);
    level.growths = lab_.growths();
  }
  void fill_memory(const std::vector<std::byte>& from) {
    std::memcpy(lab_.base(), from.data(), from.size());
  }

  // ---- cutting them -----------------------------------------------------------------------------

  bool cut_trace(unsigned depth, Media& media, Bounds bounds);
  bool cut_at(unsigned depth, std::size_t event, Media& media, Bounds bounds);
  bool try_image(unsigned depth, Cut cut, const Media& media, const Media::Frontier& frontier,
                 const Media::Choice& choice, Bounds bounds, bool nest);
  bool nest_into(unsigned depth) const { return depth + 1 < depth_; }
  const Cut* replayed(unsigned depth) const {
    return replayed_.empty() ? nullptr : &replayed_[depth];
  }
  bool check_memory(unsigned depth);

  bool violation(const std::string& what);
  std::string where() const;

  const Subject& subject_;
  const Options& options_;
  const unsigned depth_;
  const bool each_store_;  // is durable at once: any two may have a power cut between them
  Lab lab_;
  std::vector<Level> levels_;
  std::vector<Cut> path_;
  std::vector<Cut> replayed_;
  Report report_;
};

// ---- sessions -----------------------------------------------------------------------------------

template <class Body>
std::optional<std::string> caught(const Body& body) {
  try {
    return body();
  } catch (const Exception& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    return std::string(error.what());
  }
}

/// The first run: format, set up, then the steps, whose trace is level 0's.
bool Explorer::record() {
  Level& first = levels_[0];
  const std::uint64_t format_bytes = subject_.format(lab_.base());
  std::memcpy(first.image.data(), lab_.base(), lab_.bytes());
  const auto wrong = caught([&]() -> std::optional<std::string> {
    lab_.begin(format_bytes);
    subject_.open(lab_)->setup();
    // Everything of the set-up is made durable; on files, that is what was handed to the device, no
    // more.
    Media media(lab_.model(), first.image.data(), lab_.base());
    for (const TraceEvent& event : lab_.trace().events()) media.advance(event, lab_.trace());
    media.settle_all();
    fill_memory(first.image);

    lab_.begin(lab_.file_bytes());
    const std::unique_ptr<Session> session = subject_.open(lab_);
    std::uint64_t acked = 0;
    for (std::uint64_t step = 0; step <= subject_.steps; ++step) {
      if (step > 0) session->step(step);
      if (session->durable(step)) acked = step;
      lab_.trace().mark(acked, step);  // now: what looks at it may wait until it is durable
      if (auto bad = session->check(step)) return "step " + std::to_string(step) + ": " + *bad;
      if (auto bad = session->audit()) return "step " + std::to_string(step) + ": " + *bad;
      lab_.trace().mark(acked, step + 1);
    }
    return std::nullopt;
  });
  keep_session(first);
  report_.events = first.trace.events().size();
  fill_memory(first.image);
  if (wrong) violation("without any cut, " + *wrong);
  return !wrong;
}

std::optional<std::string> Explorer::live(Bounds bounds, std::uint64_t file_bytes,
                                          unsigned resume_steps) {
  lab_.begin(file_bytes);
  return caught([&]() -> std::optional<std::string> {
    const std::unique_ptr<Session> session = subject_.open(lab_);
    std::string against;
    std::uint64_t step = bounds.started;
    while (auto bad = session->check(step)) {
      against += "; not in state " + std::to_string(step) + " (begun): " + *bad;
      if (step-- == bounds.acked) return "recovered, but" + against.substr(1);
    }
    if (auto bad = session->audit()) return "recovered, but " + *bad;
    // Whoever asks now sees this state: it must not be lost any more.
    std::uint64_t acked = step;
    lab_.trace().mark(acked, step + 1);
    for (unsigned i = 0; i < resume_steps; ++i) {
      session->step(++step);
      if (session->durable(step)) acked = step;
      lab_.trace().mark(acked, step);
      auto bad = session->check(step);
      if (!bad) bad = session->audit();
      if (bad) return "recovered, but after the next step, " + std::to_string(step) + ": " + *bad;
      lab_.trace().mark(acked, step + 1);
    }
    return std::nullopt;
  });
}

void Explorer::undo_session(const std::vector<std::byte>& image) {
  for (const TraceEvent& event : lab_.trace().events()) {
    if (event.kind != TraceEvent::Kind::kStore && event.kind != TraceEvent::Kind::kWriteThrough)
      continue;
    std::memcpy(lab_.base() + event.offset, image.data() + event.offset, kWordBytes);
  }
}

// ---- cutting them -------------------------------------------------------------------------------

/// Cuts the trace of `levels_[depth]`. False: stop, enough violations.
bool Explorer::cut_trace(unsigned depth, Media& media, Bounds bounds) {
  const Level& level = levels_[depth];
  const std::vector<TraceEvent>& events = level.trace.events();
  std::uint64_t last = bounds.started;
  for (const TraceEvent& event : events) {
    if (event.kind == TraceEvent::Kind::kMark) last = event.offset - 1;  // none follows it
  }
  const std::uint64_t most = depth == 0 ? options_.most_points : options_.nested_most_points;
  const auto moments = static_cast<std::uint64_t>(
      each_store_ ? events.size() : std::count_if(events.begin(), events.end(), ends_moment));
  // Apart from those of the other choices at the same event.
  constexpr std::uint64_t kOfPoints = 1 << 8;
  const auto is_sampled = [&](std::size_t event) {
    return moments <= most || Random(options_.seed, kOfPoints + depth, event).below(moments) < most;
  };
  // Whether an image is possible that no earlier cut has tried. The bare image under a recovery has
  // been.
  bool fresh = depth == 0;
  for (std::size_t i = 0;; ++i) {
    const bool end = i == events.size();
    const bool after_mark = i > 0 && events[i - 1].kind == TraceEvent::Kind::kMark;
    if (const Cut* wanted = replayed(depth)) {
      if (wanted->event == i) return cut_at(depth, i, media, bounds);
    } else if (fresh && (end || after_mark || is_barrier(events[i]) || each_store_)) {
      // All that is possible between two barriers is possible right before the second.
      if (is_sampled(i) && !cut_at(depth, i, media, bounds)) return false;
      fresh = false;
    } else if (fresh && nest_into(depth) &&
               Random(options_.seed, depth, i).below(options_.kill_every) == 0) {
      const Media::Frontier frontier = media.frontier();
      const Cut cut{i, true, false, {}};
      if (!try_image(depth, cut, media, frontier, frontier.everything(), bounds, true))
        return false;
    }
    if (end) return true;
    if (media.advance(events[i], level.trace)) fresh = true;
    if (events[i].kind == TraceEvent::Kind::kMark) {
      bounds = {events[i].value, std::min(events[i].offset, last)};
      fresh = true;  // the same images, but less may be missing from them
    }
  }
}

/// Tries the images that a cut right before `event` may leave.
bool Explorer::cut_at(unsigned depth, std::size_t event, Media& media, Bounds bounds) {
  const Media::Frontier frontier = media.frontier();
  if (const Cut* wanted = replayed(depth)) {
    const auto choice = choice_of(wanted->choice, frontier);
    if (!choice) return violation("the replay text does not fit this build of the scenario");
    const bool nest = depth + 1 < replayed_.size();
    return try_image(depth, *wanted, media, frontier, *choice, bounds, nest);
  }
  const bool nested = depth > 0;
  Random random(options_.seed, depth, event);
  Choices choices(frontier, nested ? options_.nested_full_limit : options_.full_limit,
                  nested ? options_.nested_samples : options_.samples, random);
  ++(nested ? report_.nested_points : report_.crash_points);
  if (!nested && choices.exhaustive()) ++report_.exhaustive_points;
  // Two images of each moment at least, where there are as many.
  const std::uint64_t stride = std::clamp<std::uint64_t>(
      choices.count() / 2, 1, std::max<std::uint64_t>(options_.nest_every, 1));
  const std::uint64_t first_nested = random.below(stride);
  // Of moments with one image each, a share is enough.
  const bool of_share = !each_store_ || random.below(options_.kill_every) == 0;
  std::uint64_t number = 0;
  while (const Media::Choice* choice = choices.next()) {
    const bool nest = nest_into(depth) && of_share && number % stride == first_nested;
    const Cut cut{event, false, number % 2 == 1, {}};
    if (!try_image(depth, cut, media, frontier, *choice, bounds, nest)) return false;
    ++number;
  }
  if (nest_into(depth) && !frontier.units.empty()) {
    const Cut cut{event, true, false, {}};
    if (!try_image(depth, cut, media, frontier, frontier.everything(), bounds, true)) return false;
  }
  return check_memory(depth);
}

/// Opens one image and judges it; with `nest`, cuts the recovery too.
bool Explorer::try_image(unsigned depth, Cut cut, const Media& media,
                         const Media::Frontier& frontier, const Media::Choice& choice,
                         Bounds bounds, bool nest) {
  const Level& level = levels_[depth];
  std::uint64_t file_bytes = level.file_bytes(cut.event);
  if (cut.longer) file_bytes = std::min(file_bytes + kMinSegmentBytes, lab_.bytes());
  if (cut.kill) {
    ++report_.kills;
  } else {
    ++(depth == 0 ? report_.images : report_.nested_images);
  }
  frontier.apply(choice, lab_.base());
  // A replayed session must leave the trace that it left when it was found, so it goes on as far as
  // any.
  const bool whole = nest || !replayed_.empty();
  const auto wrong = live(bounds, file_bytes, whole ? subject_.resume_steps : 1);
  undo_session(level.image);
  frontier.undo(choice, level.image.data(), lab_.base());
  if (!wrong && !nest) return true;
  if (!wrong && !check_memory(depth))
    return false;  // what follows fills the memory anew, and would hide it

  cut.choice = text_of_choice(choice, frontier);
  path_.push_back(std::move(cut));
  bool go_on = true;
  if (wrong) {
    go_on = violation(*wrong);
  } else {
    Level& next = levels_[depth + 1];
    keep_session(next);
    next.image = level.image;
    if (path_.back().kill) {
      Media inner = media.after_kill(next.image.data(), lab_.base());
      go_on = cut_trace(depth + 1, inner, bounds);
    } else {
      frontier.apply(choice, next.image.data());
      frontier.apply(choice, lab_.base());
      Media inner(lab_.model(), next.image.data(), lab_.base());
      go_on = cut_trace(depth + 1, inner, bounds);
    }
    fill_memory(level.image);
  }
  path_.pop_back();
  return go_on;
}

/// After all sessions were undone, the memory must be what it was.
bool Explorer::check_memory(unsigned depth) {
  if (depth > 0) return true;
  const std::vector<std::byte>& image = levels_[depth].image;
  if (std::memcmp(lab_.base(), image.data(), image.size()) == 0) return true;
  const auto differs = std::mismatch(image.begin(), image.end(), lab_.base());
  return violation("a store at offset " + std::to_string(differs.first - image.begin()) +
                   " went around the domain: no cut can be simulated there");
}

bool Explorer::violation(const std::string& what) {
  std::string text = report_.scenario + "/" + report_.model;
  if (options_.omission.active) {
    text += "!" + std::string(kSites[static_cast<std::size_t>(options_.omission.site)].name) + "#" +
            std::to_string(options_.omission.first) + "#" + std::to_string(options_.omission.count);
  }
  for (const Cut& cut : path_) text += (&cut == &path_.front() ? "@" : ">") + text_of(cut);
  report_.violations.push_back({report_.scenario, report_.model, where() + what, text});
  return report_.violations.size() < options_.max_violations;
}

/// The path in words: "power cut before fence kHead…; "
std::string Explorer::where() const {
  std::string text;
  for (std::size_t depth = 0; depth < path_.size(); ++depth) {
    const Cut& cut = path_[depth];
    const auto& events = levels_[depth].trace.events();
    text += depth == 0 ? "" : "recovered, then ";
    text += cut.kill ? "killed before " : "power cut before ";
    if (cut.event >= events.size()) {
      text += "the end";
    } else if (events[cut.event].kind == TraceEvent::Kind::kFence) {
      text += "fence " + std::string(kSites[static_cast<std::size_t>(events[cut.event].site)].name);
    } else {
      text += "event " + std::to_string(cut.event);
    }
    text += "; ";
  }
  return text;
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

// ---- the face -----------------------------------------------------------------------------------

Options Options::exhaustive() {
  Options options;
  options.full_limit = std::uint64_t{1} << 16;
  options.samples = 4096;
  options.nested_full_limit = 1024;
  options.nested_samples = 128;
  options.nest_every = 1;
  options.kill_every = 1;
  return options;
}

void Report::add(const Report& other) {
  if (scenario.empty()) scenario = other.scenario;
  model = model.empty() || model == other.model ? other.model : "all";
  events += other.events;
  crash_points += other.crash_points;
  exhaustive_points += other.exhaustive_points;
  images += other.images;
  nested_points += other.nested_points;
  nested_images += other.nested_images;
  kills += other.kills;
  seconds += other.seconds;
  for (std::size_t i = 0; i < kSiteCount; ++i) executions[i] += other.executions[i];
  violations.insert(violations.end(), other.violations.begin(), other.violations.end());
}

Report explore(const Subject& subject, Model model, const Options& options) {
  return Explorer(subject, model, options).run();
}

Report explore(const Subject& subject, const Options& options) {
  Report report;
  report.scenario = subject.name;
  if (subject.memory && options.memory) report.add(explore(subject, Model::kMemory, options));
  if (subject.memory && options.caches) report.add(explore(subject, Model::kCaches, options));
  if (subject.file && options.file) report.add(explore(subject, Model::kFile, options));
  return report;
}

Report explore(const Scenario& scenario, const Options& options) {
  return explore(subject_of(scenario), options);
}

std::string_view replay_name(std::string_view text) { return text.substr(0, text.find('/')); }

Result<Report> replay(const Subject& subject, std::string_view text) {
  const Error bad{Code::kInvalid,
                  "not a replay text of scenario " + subject.name + ": " + std::string(text)};
  if (replay_name(text) != subject.name || text.size() == subject.name.size()) return bad;
  text.remove_prefix(subject.name.size() + 1);
  const auto model_text = text.substr(0, text.find_first_of("!@"));
  text.remove_prefix(model_text.size());
  constexpr std::array kModels = {Model::kMemory, Model::kCaches, Model::kFile};
  const auto found = std::find_if(kModels.begin(), kModels.end(),
                                  [&](Model model) { return model_name(model) == model_text; });
  if (found == kModels.end()) return bad;
  const Model model = *found;

  Options options;
  if (take(text, '!')) {
    const auto site_text = text.substr(0, text.find('#'));
    const auto site = std::find_if(std::begin(kSites), std::end(kSites),
                                   [&](const SiteInfo& info) { return info.name == site_text; });
    if (site == std::end(kSites) || site_text.size() == text.size()) return bad;
    text.remove_prefix(site_text.size() + 1);
    const auto first = take_number(text);
    const bool more = take(text, '#');
    const auto count = take_number(text);
    if (!first || !more || !count) return bad;
    options.omission.active = true;
    options.omission.site = site->site;
    options.omission.first = *first;
    options.omission.count = *count;
  }
  std::vector<Cut> cuts;
  while (!text.empty()) {
    if (!take(text, cuts.empty() ? '@' : '>')) return bad;
    const auto event = take_number(text);
    if (!event) return bad;
    const bool kill = take(text, 'k');
    const bool longer = take(text, '+');
    if (!take(text, ':')) return bad;
    const auto choice = text.substr(0, text.find('>'));
    text.remove_prefix(choice.size());
    cuts.push_back({*event, kill, longer, std::string(choice)});
  }
  if (cuts.empty()) return bad;
  options.depth = static_cast<unsigned>(cuts.size());
  return Explorer(subject, model, options).replay(std::move(cuts));
}

}  // namespace perdure::crash
