#include "tests/simulation/seed_jobs.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/check.h"
#include "rpc/base/owned_fd.h"

namespace skua::simulation {
namespace {

constexpr std::chrono::minutes kBetweenLines{1};

void write_line(int pipe, std::string_view line) {
  const std::string text = std::string(line) + "\n";
  // One write is enough: a line is shorter than PIPE_BUF. A program that reads no more has ended.
  if (::write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::_Exit(1);
}

/// A job as the program sees it.
class Job {
 public:
  Job(pid_t process, OwnedFd pipe) : process_(process), pipe_(std::move(pipe)) {}

  [[nodiscard]] int pipe() const { return pipe_.get(); }
  void kill() {
    is_killed_ = true;
    ::kill(process_, SIGKILL);
  }

  /// Reads what is there. False: the job has closed its pipe.
  bool read(Progress& progress) {
    char bytes[4096];
    const ssize_t got = ::read(pipe_.get(), bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    text_.append(bytes, static_cast<size_t>(got));
    for (size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      take(text_.substr(0, end), progress);
    }
    return true;
  }

  /// Waits for the process. False: a world broke its promise.
  bool wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0) SKUA_CHECK(errno == EINTR, "waiting for a job");
    if (WIFSIGNALED(status) && !is_killed_) {
      std::printf("seed %" PRIu64 ": ended by signal %d\n", seed_, WTERMSIG(status));
    }
    // A job that was killed may have told a part of what it counted.
    if (!WIFEXITED(status)) summary_ = {};
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  void take(const std::string& line, Progress& progress) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    uint64_t number = 0;
    if (words[0] == "virtual_s") {
      SKUA_CHECK(absl::SimpleAtod(words.at(1), &summary_.virtual_s), "a job's line");
      return;
    }
    SKUA_CHECK(absl::SimpleAtoi(words.at(1), &number), "a job's line");
    if (words[0] == "seed") {
      seed_ = number;
      progress.count_world();
    } else if (words[0] == "count") {
      summary_.counts.emplace_back(words.at(2), number);
    } else {
      summary_.probes.emplace(words.at(2), number);
    }
  }

  pid_t process_;
  OwnedFd pipe_;
  std::string text_;
  bool is_killed_ = false;
  uint64_t seed_ = 0;
  Summary summary_;
};

Job start_job(uint64_t number, const std::function<bool(uint64_t number, const JobReport& report)>& job) {
  int ends[2];
  SKUA_CHECK(::pipe(ends) == 0, "a pipe for a job");
  std::fflush(stdout);
  const pid_t child = ::fork();
  SKUA_CHECK(child >= 0, "a process for a job");
  if (child == 0) {
    ::close(ends[0]);
    const bool held = job(number, JobReport(ends[1]));
    std::fflush(stdout);
    // The worlds of a process that was forked are not taken down.
    std::_Exit(held ? 0 : 1);
  }
  ::close(ends[1]);
  return {child, OwnedFd(ends[0])};
}

}  // namespace

Progress::Progress(std::string program, uint64_t worlds)
    : program_(std::move(program)),
      worlds_(worlds),
      start_(std::chrono::steady_clock::now()),
      next_line_(start_ + kBetweenLines) {}

void Progress::count_world() {
  ++begun_;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_line_) return;
  next_line_ = now + kBetweenLines;
  const std::chrono::duration<double> seconds = now - start_;
  std::fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " seeds, %.0f s\n", program_.c_str(), begun_, worlds_,
               seconds.count());
}

void JobReport::begin_world(uint64_t seed) const {
  write_line(pipe_, absl::StrCat("seed ", seed));
}

void JobReport::end(const Summary& summary) const {
  for (const auto& [name, number] : summary.counts) write_line(pipe_, absl::StrCat("count ", number, " ", name));
  for (const auto& [name, number] : summary.probes) write_line(pipe_, absl::StrCat("probe ", number, " ", name));
  write_line(pipe_, absl::StrCat("virtual_s ", summary.virtual_s));
}

JobsResult run_jobs(uint64_t jobs, bool stop_early, Progress& progress,
                    const std::function<bool(uint64_t number, const JobReport& report)>& job) {
  std::vector<Job> running;
  for (uint64_t number = 0; number < jobs; ++number) running.push_back(start_job(number, job));
  JobsResult result;
  while (!running.empty()) {
    std::vector<pollfd> pipes;
    for (const Job& one : running) pipes.push_back({.fd = one.pipe(), .events = POLLIN, .revents = 0});
    SKUA_CHECK(::poll(pipes.data(), pipes.size(), -1) >= 0 || errno == EINTR, "waiting for jobs");
    for (size_t i = pipes.size(); i-- > 0;) {
      if (pipes[i].revents == 0 || running[i].read(progress)) continue;
      const bool held = running[i].wait();
      result.all_held = result.all_held && held;
      result.total.add(running[i].summary());
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      if (held || !stop_early) continue;
      for (Job& other : running) other.kill();
    }
  }
  return result;
}

}  // namespace skua::simulation
