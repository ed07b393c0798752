// SPDX-License-Identifier: MIT
// Reads the limits of cores and memory from the operating system, and plans threads.
#include "src/base/host_resources.h"

#include "src/base/printable.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace equi {

namespace {

constexpr double NO_LIMIT = std::numeric_limits<double>::infinity();
// Plans store numbers as int; no machine has that many cores.
constexpr int MOST_THREADS = 1000000;
constexpr size_t SETTING_SHOWN = 40;    // characters of a user's setting that a line of the log shows

// The only number of a file. NO_LIMIT for "max", for a missing file, and for any other content.
double read_limit(const std::string &path) {
  std::ifstream file(path);
  double value;
  return file >> value && value >= 0.0 ? value : NO_LIMIT;
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string> &words, const std::string &word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Mount points encode blanks as a backslash and three octal digits.
std::string unescaped(const std::string &text) {
  std::string plain;
  for (size_t k = 0; k < text.size(); ++k)
    if (text[k] == '\\' && k + 3 < text.size() && text.find_first_not_of("01234567", k + 1) > k + 3) {
      plain += static_cast<char>(std::stoi(text.substr(k + 1, 3), nullptr, 8));
      k += 3;
    } else {
      plain += text[k];
    }
  return plain;
}

// Where the groups of a hierarchy are visible: its folder `root` is mounted at `point`.
struct Mount {
  std::string root, point;
};

// Version 2 of control groups has one hierarchy, version 1 one per controller; a machine may have both.
bool find_mount(const std::string &root, bool is_version_2, const std::string &controller, Mount &mount) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // id parent device ROOT POINT options ... - TYPE source SUPER_OPTIONS
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> words = split(line.substr(0, dash), ' '), rest = split(line.substr(dash + 3), ' ');
    if (words.size() < 5 || rest.empty()) continue;
    if (is_version_2 ? rest[0] != "cgroup2"
                     : rest[0] != "cgroup" || rest.size() < 3 || !contains(split(rest[2], ','), controller))
      continue;
    mount = {unescaped(words[3]), unescaped(words[4])};
    return true;
  }
  return false;
}

// Calls f(folder, is_version_2) for the control groups of this process that have the controller, from its own to the
// outermost visible one. Each group limits those within it.
template <class F>
void for_control_groups(const std::string &root, const std::string &controller, const F &f) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // number:controllers:path, without controllers in version 2
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool is_version_2 = controllers.empty();
    Mount mount;
    if (!is_version_2 && !contains(split(controllers, ','), controller)) continue;
    if (!find_mount(root, is_version_2, controller, mount)) continue;
    // A container may see the same path as the host, but only its own part of the hierarchy's folders.
    if (mount.root != "/") {
      const bool is_below = path.compare(0, mount.root.size(), mount.root) == 0 &&
                            (path.size() == mount.root.size() || path[mount.root.size()] == '/');
      path = is_below ? path.substr(mount.root.size()) : "";
    }
    while (!path.empty() && path.back() == '/') path.pop_back();
    while (true) {
      f(root + mount.point + path, is_version_2);
      const size_t parent = path.rfind('/');
      if (path.empty() || parent == std::string::npos) break;
      path.resize(parent);
    }
  }
}

// The soft limit of this process with this name in /proc/self/limits.
double resource_limit(const std::string &root, const std::string &name) {
  std::ifstream file(root + "/proc/self/limits");
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, name.size(), name) == 0) {
      std::istringstream numbers(line.substr(name.size()));
      double bytes = 0.0;
      return numbers >> bytes ? bytes : NO_LIMIT;    // "unlimited"
    }
  return NO_LIMIT;
}

}    // namespace

std::vector<unsigned char> affinity_mask() {
  // The operating system returns its whole mask or nothing, and its length is unknown in advance.
  constexpr int LARGEST = 1 << 20;
  for (int num_cores = 1024; num_cores <= LARGEST; num_cores *= 2) {
    std::vector<unsigned char> mask(CPU_ALLOC_SIZE(num_cores), 0);
    if (sched_getaffinity(0, mask.size(), reinterpret_cast<cpu_set_t *>(mask.data())) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

int count_cores(const std::vector<unsigned char> &mask) {
  int count = 0;
  for (unsigned char byte : mask)
    for (; byte; byte &= byte - 1) ++count;
  return count;
}

double core_quota(const std::string &root) {
  double least = NO_LIMIT;
  for_control_groups(root, "cpu", [&](const std::string &folder, bool is_version_2) {
    double time = NO_LIMIT, period = NO_LIMIT;    // microseconds; version 1 uses -1 for no limit
    if (is_version_2) {
      std::ifstream file(folder + "/cpu.max");
      if (!(file >> time >> period)) return;
    } else {
      time = read_limit(folder + "/cpu.cfs_quota_us");
      period = read_limit(folder + "/cpu.cfs_period_us");
    }
    if (std::isfinite(time) && std::isfinite(period) && time > 0.0 && period > 0.0)
      least = std::min(least, time / period);
  });
  return least;
}

double shared_memory_limit(const std::string &root) {
  double least = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  for_control_groups(root, "memory", [&](const std::string &folder, bool is_version_2) {
    least = std::min(least, read_limit(folder + (is_version_2 ? "/memory.max" : "/memory.limit_in_bytes")));
  });
  return least;
}

double own_memory_left(const std::string &root) {
  // Pages: all, resident, shared, text, libraries, data and stack.
  double all = 0.0, data = 0.0, skipped;
  std::ifstream file(root + "/proc/self/statm");
  file >> all >> skipped >> skipped >> skipped >> skipped >> data;
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::max(0.0, std::min(resource_limit(root, "Max address space") - page * all,
                                resource_limit(root, "Max data size") - page * data));
}

double second_level_cache(const std::string &root) {
  constexpr int MOST_CACHES = 16;
  for (int k = 0; k < MOST_CACHES; ++k) {
    const std::string cache = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(k);
    std::string type, unit;
    double size = 0.0;
    std::ifstream(cache + "/type") >> type;
    if (read_limit(cache + "/level") != 2.0 || type == "Instruction") continue;
    std::ifstream(cache + "/size") >> size >> unit;
    return size * (unit == "K" ? 1024.0 : unit == "M" ? 1024.0 * 1024.0 : 1.0);
  }
  return 0.0;
}

int parse_num_threads(const char *text) {
  if (!text) return 0;
  int first = 0;
  while (true) {
    while (std::isspace(static_cast<unsigned char>(*text))) ++text;
    if (!std::isdigit(static_cast<unsigned char>(*text))) return 0;
    char *end;
    errno = 0;
    const long number = std::strtol(text, &end, 10);
    if (number <= 0) return 0;
    if (first == 0) first = static_cast<int>(std::min<long>(number, MOST_THREADS));
    text = end;
    while (std::isspace(static_cast<unsigned char>(*text))) ++text;
    if (*text == '\0') return first;
    if (*text++ != ',') return 0;
  }
}

ThreadPlan plan_threads(const char *wish, int node_cores, int own_cores, int processes) {
  ThreadPlan plan;
  plan.cores = own_cores;
  const int asked = parse_num_threads(wish);
  if (asked > 0) {
    plan.number = asked;
    plan.is_asked = true;
    return plan;
  }
  if (wish) plan.ignored = wish;
  plan.number = std::clamp(node_cores / std::max(1, processes), 1, std::max(1, own_cores));
  return plan;
}

int processes_on_device(int in_world, int partitions, int processes, int num_devices) {
  if (partitions <= 1) return in_world;
  const int in_turn = (processes - 1) / std::max(1, num_devices) + 1;
  return std::min(in_world * partitions, std::max(in_world, in_turn));
}

int launched_on_node(const Environment &variable) {
  for (const char *name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"})
    if (const char *text = variable(name))
      if (const int number = std::atoi(text); number > 0) return number;
  return 0;
}

int processes_on_node(int in_world, int partitions, int launched) {
  const int all = in_world * std::max(1, partitions);
  return launched > 0 ? std::clamp(launched, in_world, all) : all;
}

std::string describe_threads(const ThreadPlan &plan, int running) {
  const auto threads = [](int n) { return std::to_string(n) + (n == 1 ? " thread" : " threads"); };
  std::string text;
  if (!plan.ignored.empty())
    text = "OMP_NUM_THREADS is \"" + printable(plan.ignored, SETTING_SHOWN) + "\", which is not a number of threads; ";
  if (running != plan.number)
    return text + (plan.is_asked ? "OMP_NUM_THREADS asks for " : "planned were ") + threads(plan.number) +
           (plan.number >= MOST_THREADS ? " or more" : "") + ", " + std::to_string(running) +
           " are used: Kokkos and OpenMP give no more";
  if (plan.cores > 0 && running > plan.cores)
    return text + "OMP_NUM_THREADS asks for " + threads(running) + ", and a rank may use " +
           std::to_string(plan.cores) + (plan.cores == 1 ? " core" : " cores") + ": the threads wait for one another";
  return text.empty() ? text : text + threads(running) + (running == 1 ? " is used" : " are used");
}

}    // namespace equi
