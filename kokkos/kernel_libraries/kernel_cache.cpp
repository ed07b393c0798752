// SPDX-License-Identifier: MIT
// Checks, opens and stores the libraries of kernels in the user's cache folder.
#include "kokkos/kernel_libraries/kernel_cache.h"

#include "src/base/fnv_hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace equi {

namespace {

// Keys of path groups with many paths are longer than the 255 bytes that a file name may have.
constexpr size_t LONGEST_KEY = 120, KEPT_OF_KEY = 60;
// The limit of kernels of operating systems: more links than this are a circle.
constexpr int MOST_LINKS = 40;
constexpr mode_t OTHERS_WRITE = S_IWGRP | S_IWOTH;

std::string reason_of(int error) {
  return std::strerror(error);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor &&other) noexcept : number_(other.release()) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

bool is_trusted(uid_t owner) {
  return owner == 0 || owner == geteuid();
}

// Returns why a folder or file with this state is not trustworthy; else empty. may_be_sticky: everybody may write to
// the folder if nobody may rename or remove the files of others. The owner of a file in such a folder is then
// checked.
std::string fault_of(const std::string &path, const struct stat &state, bool may_be_sticky) {
  if (!is_trusted(state.st_uid))
    return path + " belongs to user " + std::to_string(state.st_uid) + ", expected " + std::to_string(geteuid()) +
           (geteuid() == 0 ? "" : " or root");
  if ((state.st_mode & OTHERS_WRITE) && !(may_be_sticky && (state.st_mode & S_ISVTX)))
    return path + " can be written by others than its owner ('chmod go-w' mends that)";
  return "";
}

struct Folder {
  Descriptor descriptor;    // -1 if it does not exist
  std::string fault;
};

// Opens a folder by its absolute path, step by step. Each folder on the way is checked before it is used. So is each
// symbolic link, whose target is followed in the same way. create: makes missing folders, accessible only to the
// user.
Folder open_folder(const std::string &path, bool create) {
  // Folders below the cache folder belong only to us and need not be open to others.
  constexpr size_t OWN_FOLDERS = 2;
  std::deque<std::string> left;
  const auto add_in_front = [&left](const std::string &names) {
    std::istringstream parts(names);
    std::deque<std::string> added;
    for (std::string part; std::getline(parts, part, '/');)
      if (!part.empty() && part != ".") added.push_back(part);
    left.insert(left.begin(), added.begin(), added.end());
  };
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Descriptor folder(open("/", flags));
  std::string place = "/";
  const auto failed = [&](const std::string &what) { return Folder{Descriptor(), what}; };
  const auto check = [&]() -> std::string {
    struct stat state;
    if (folder.get() < 0 || fstat(folder.get(), &state) != 0) return place + ": " + reason_of(errno);
    return fault_of(place, state, left.size() >= OWN_FOLDERS);
  };
  add_in_front(path);
  std::string fault = check();
  for (int links = 0; fault.empty() && !left.empty();) {
    const std::string name = left.front();
    left.pop_front();
    const std::string next = place + (place == "/" ? "" : "/") + name;
    struct stat state;
    if (fstatat(folder.get(), name.c_str(), &state, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) return failed(next + ": " + reason_of(errno));
      if (!create) return {};
      // Another process may have made it meanwhile.
      if (mkdirat(folder.get(), name.c_str(), S_IRWXU) != 0 && errno != EEXIST)
        return failed("cannot make the folder " + next + ": " + reason_of(errno));
    } else if (S_ISLNK(state.st_mode)) {
      if (!is_trusted(state.st_uid)) return failed(fault_of(next, state, true));
      char target[PATH_MAX];
      const ssize_t length = readlinkat(folder.get(), name.c_str(), target, sizeof target);
      if (length < 0 || length == sizeof target || ++links > MOST_LINKS)
        return failed(next + ": " + reason_of(length < 0 ? errno : ELOOP));
      if (target[0] == '/') {
        folder = Descriptor(open("/", flags));
        place = "/";
      }
      add_in_front(std::string(target, static_cast<size_t>(length)));
      continue;
    }
    Descriptor opened(openat(folder.get(), name.c_str(), flags));
    if (opened.get() < 0) return failed(next + ": " + reason_of(errno));
    folder = std::move(opened);
    place = next;
    fault = check();
  }
  if (!fault.empty()) return failed(fault);
  return {std::move(folder), ""};
}

std::pair<std::string, std::string> split(const std::string &file) {
  const size_t slash = file.rfind('/');
  return {file.substr(0, slash), file.substr(slash + 1)};
}

std::string seal_of(const std::string &name, const std::string &content) {
  FnvHash hash;
  hash.add(content);
  return "\nequi kernels " + name + " " + hash.hex() + "\n";
}

// Returns what is wrong with the content, or empty if it ends with its seal.
std::string fault_of_content(const std::string &name, const std::string &content) {
  const size_t length = seal_of(name, "").size();
  const std::string head = "\nequi kernels " + name + " ";
  const std::string end = content.size() < length ? "" : content.substr(content.size() - length);
  if (end.compare(0, head.size(), head) != 0 || end.back() != '\n')
    return "it is cut off, or 'equi compile' made it for another purpose or not at all";
  if (end != seal_of(name, content.substr(0, content.size() - length))) return "it is damaged";
  return "";
}

bool read_all(int descriptor, std::string &content) {
  char block[1 << 16];
  for (off_t at = 0;;) {
    const ssize_t n = pread(descriptor, block, sizeof block, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    content.append(block, static_cast<size_t>(n));
    at += n;
  }
}

bool write_all(int descriptor, const std::string &content) {
  for (size_t at = 0; at < content.size();) {
    const ssize_t n = write(descriptor, content.data() + at, content.size() - at);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += static_cast<size_t>(n);
  }
  return fsync(descriptor) == 0;
}

}    // namespace

KernelCache kernel_cache() {
  KernelCache cache;
  // A relative path would refer to the folder in which a run happens to start, perhaps somebody else's.
  const auto folder_of = [&cache](const char *variable) -> std::string {
    const char *value = std::getenv(variable);
    if (!value || !*value) return "";
    std::string folder = value;
    const bool climbs = (folder + "/").find("/../") != std::string::npos;
    if (folder[0] == '/' && !climbs) return folder;
    cache.note += (cache.note.empty() ? "" : "; ") + std::string("the environment variable ") + variable +
                  " is passed over: expected an absolute path without '..', found '" + folder + "'";
    return "";
  };
  std::string folder = folder_of("XDG_CACHE_HOME");
  if (folder.empty()) {
    folder = folder_of("HOME");
    if (!folder.empty()) folder += "/.cache";
  }
  if (!folder.empty()) cache.folder = folder + "/equi/kernels";
  return cache;
}

std::string kernel_library_file(const KernelCache &cache, const std::string &instruction_set, const std::string &key) {
  const char *stamp = instruction_set == "avx2"     ? EQUI_KERNEL_STAMP_AVX2
                      : instruction_set == "avx512" ? EQUI_KERNEL_STAMP_AVX512
                      : instruction_set == "neon"   ? EQUI_KERNEL_STAMP_NEON
                                                    : nullptr;
  if (!stamp) throw std::invalid_argument("expected the target avx2, avx512 or neon, found '" + instruction_set + "'");
  if (cache.folder.empty()) return "";
  std::string of_key = key;
  if (key.size() > LONGEST_KEY) {
    FnvHash hash;
    hash.add(key);
    of_key = key.substr(0, KEPT_OF_KEY) + "-" + hash.hex();
  }
  return cache.folder + "/kernel-" + instruction_set + "-" + stamp + "-" + of_key + ".so";
}

OpenedFile open_kernel_library(const std::string &file) {
  const auto [folder_name, name] = split(file);
  const auto refused = [](const std::string &fault) { return OpenedFile{-1, fault}; };
  const Folder folder = open_folder(folder_name, false);
  if (!folder.fault.empty()) return refused(folder.fault);
  if (folder.descriptor.get() < 0) return {};
  // Without O_NONBLOCK a pipe of this name would wait for a writer.
  Descriptor opened(openat(folder.descriptor.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (opened.get() < 0) {
    if (errno == ENOENT) return {};
    return refused(errno == ELOOP ? "it is a symbolic link" : reason_of(errno));
  }
  struct stat state;
  if (fstat(opened.get(), &state) != 0) return refused(reason_of(errno));
  if (!S_ISREG(state.st_mode)) return refused("it is not a regular file");
  std::string fault = fault_of("it", state, false);
  if (!fault.empty()) return refused(fault);
  std::string content;
  if (!read_all(opened.get(), content)) return refused(reason_of(errno));
  fault = fault_of_content(name, content);
  if (!fault.empty()) return refused(fault);
  return {opened.release(), ""};
}

void store_kernel_library(const std::string &source, const std::string &file) {
  const auto [folder_name, name] = split(file);
  std::ifstream stream(source, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  if (!stream || !bytes) throw std::runtime_error("cannot read " + source);
  const Folder folder = open_folder(folder_name, true);
  if (!folder.fault.empty()) throw std::runtime_error("cannot put kernels into " + folder_name + ": " + folder.fault);
  const int place = folder.descriptor.get();
  // A process with this number may run on another machine with the same file system.
  Descriptor part;
  std::string part_name;
  for (int attempt = 0; part.get() < 0; ++attempt) {
    part_name = name + "." + std::to_string(getpid()) + "-" + std::to_string(attempt);
    part = Descriptor(
        openat(place, part_name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (part.get() < 0 && (errno != EEXIST || attempt == 1000))
      throw std::runtime_error("cannot write to " + folder_name + ": " + reason_of(errno));
  }
  const std::string content = bytes.str();
  if (!write_all(part.get(), content + seal_of(name, content)) ||
      renameat(place, part_name.c_str(), place, name.c_str()) != 0) {
    const std::string reason = reason_of(errno);
    unlinkat(place, part_name.c_str(), 0);
    throw std::runtime_error("cannot write " + file + ": " + reason);
  }
}

}    // namespace equi
