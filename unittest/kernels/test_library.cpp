// SPDX-License-Identifier: MIT
// Libraries of kernels in a user's cache folder: which files are loaded, and which kernels are used.
#include "kokkos/kernel_libraries/kernel_cache.h"
#include "kokkos/kernel_libraries/kernel_check.h"
#include "kokkos/kernel_libraries/kernel_library.h"
#include "src/generator/common_kernels.h"
#include "src/generator/contraction_generator.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace {

using namespace equi;
namespace fs = std::filesystem;

constexpr const char *KEY = "4_88";

// A variable of the environment, during the life of a test.
class Variable {
 public:
  Variable(const char *name, const std::optional<std::string> &value) : name_(name) {
    if (const char *old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_); }

 private:
  void set(const std::optional<std::string> &value) {
    if (value)
      setenv(name_, value->c_str(), 1);
    else
      unsetenv(name_);
  }
  const char *name_;
  std::optional<std::string> old_;
};

std::string file_in(const std::string &cache, const std::string &key = KEY, const std::string &set = "avx2") {
  return kernel_library_file({cache, ""}, set, key);
}

void write(const fs::path &file, const std::string &content) {
  std::ofstream(file, std::ios::binary) << content;
}
std::string read(const fs::path &file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream content;
  content << stream.rdbuf();
  return content.str();
}

unsigned mode_of(const fs::path &file) {
  struct stat state {};
  EXPECT_EQ(stat(file.c_str(), &state), 0) << file;
  return state.st_mode & 07777;
}

// A cache with one library, in a new folder.
class KernelCacheFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "equi-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    cache = folder / "user" / "equi" / "kernels";
    source = folder / "library.so";
    write(source, "machine code");
    file = file_in(cache);
    store_kernel_library(source, file);
  }
  void TearDown() override { fs::remove_all(folder); }

  // Empty if the library is used, or else the reason.
  std::string fault() const { return fault_of(file); }
  static std::string fault_of(const fs::path &file) {
    const OpenedFile opened = open_kernel_library(file);
    if (opened.descriptor < 0) return opened.fault.empty() ? "missing" : opened.fault;
    close(opened.descriptor);
    return opened.fault;
  }
  void expect_refused(const std::string &reason) const {
    EXPECT_NE(fault().find(reason), std::string::npos) << "found '" << fault() << "', expected '" << reason << "'";
  }

  fs::path folder, cache, source, file;
};

TEST(KernelCache, lies_in_an_absolute_folder) {
  const auto expect = [](const std::optional<std::string> &cache, const std::optional<std::string> &home,
                         const std::string &folder, const std::string &note) {
    const Variable x("XDG_CACHE_HOME", cache), h("HOME", home);
    const KernelCache found = kernel_cache();
    EXPECT_EQ(found.folder, folder);
    EXPECT_EQ(found.note.empty(), note.empty()) << found.note;
    EXPECT_NE(found.note.find(note), std::string::npos) << found.note;
  };
  expect("/cache", "/home/u", "/cache/equi/kernels", "");
  expect(std::nullopt, "/home/u", "/home/u/.cache/equi/kernels", "");
  expect("", "/home/u", "/home/u/.cache/equi/kernels", "");
  for (const char *path : {"cache", ".", "./cache", "../cache", "~/cache", "/a/../b", "/a/.."})
    expect(path, "/home/u", "/home/u/.cache/equi/kernels", std::string("found '") + path + "'");
  expect("cache", "home", "", "HOME");
  expect(std::nullopt, "", "", "");
  expect(std::nullopt, std::nullopt, "", "");
  expect("/a/..b/c", std::nullopt, "/a/..b/c/equi/kernels", "");
}

TEST(KernelCache, names_tell_instruction_sets_and_keys_apart_and_fit_a_file_system) {
  EXPECT_NE(file_in("/c", "1_12", "avx2"), file_in("/c", "1_12", "avx512"));
  EXPECT_NE(file_in("/c", "1_12"), file_in("/c", "1_12_21"));
  std::string key = "8";
  for (int k = 0; k < 200; ++k) key += "_88";
  EXPECT_LT(fs::path(file_in("/c", key)).filename().string().size(), 200u);
  EXPECT_NE(file_in("/c", key), file_in("/c", key + "_88"));
  EXPECT_THROW(file_in("/c", "1_12", "warp32"), std::invalid_argument);
}

TEST_F(KernelCacheFiles, what_was_stored_is_taken) {
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(fault_of(file_in(cache, "4_84")), "missing");
  EXPECT_EQ(fault_of(file_in(folder / "none" / "equi" / "kernels")), "missing");
  EXPECT_EQ(read(file).substr(0, 12), "machine code");
}

TEST_F(KernelCacheFiles, files_and_folders_are_the_users_alone_whatever_the_mask) {
  const mode_t old = umask(0);
  store_kernel_library(source, file_in(folder / "other" / "equi" / "kernels"));
  umask(old);
  EXPECT_EQ(mode_of(file_in(folder / "other" / "equi" / "kernels")), 0600u);
  for (const char *made : {"other", "other/equi", "other/equi/kernels"}) EXPECT_EQ(mode_of(folder / made), 0700u);
  // Nothing remains of the temporary file that is renamed.
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 1);
}

TEST_F(KernelCacheFiles, storing_replaces) {
  write(source, "other machine code");
  store_kernel_library(source, file);
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(read(file).substr(0, 5), "other");
  EXPECT_THROW(store_kernel_library(folder / "none.so", file), std::runtime_error);
  EXPECT_EQ(fault(), "");
}

TEST_F(KernelCacheFiles, what_others_can_write_is_refused) {
  for (const mode_t bit : {S_IWGRP, S_IWOTH}) {
    for (const fs::path &what : {file, cache, cache.parent_path(), folder / "user", folder}) {
      const mode_t mode = mode_of(what);
      ASSERT_EQ(chmod(what.c_str(), mode | bit), 0);
      expect_refused("can be written by others");
      // Nothing is written there either, except that a file is replaced.
      if (what != file) {
        EXPECT_THROW(store_kernel_library(source, file), std::runtime_error) << what;
      }
      ASSERT_EQ(chmod(what.c_str(), mode), 0);
      EXPECT_EQ(fault(), "") << what;
    }
  }
}

TEST_F(KernelCacheFiles, a_sticky_folder_is_good_above_the_cache_folder_alone) {
  ASSERT_EQ(chmod((folder / "user").c_str(), 01777), 0);
  EXPECT_EQ(fault(), "");
  for (const fs::path &own : {cache, cache.parent_path()}) {
    ASSERT_EQ(chmod(own.c_str(), 01777), 0);
    expect_refused("can be written by others");
    ASSERT_EQ(chmod(own.c_str(), 0700), 0);
  }
}

TEST_F(KernelCacheFiles, what_belongs_to_others_is_refused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t SOMEBODY = 12345;
  for (const fs::path &what : {file, cache, cache.parent_path(), folder / "user", folder}) {
    ASSERT_EQ(chown(what.c_str(), SOMEBODY, static_cast<gid_t>(-1)), 0);
    expect_refused("belongs to user 12345");
    ASSERT_EQ(chown(what.c_str(), 0, static_cast<gid_t>(-1)), 0);
  }
  EXPECT_EQ(fault(), "");
}

TEST_F(KernelCacheFiles, a_link_is_no_library_and_leads_to_checked_folders_alone) {
  const fs::path real = file.string() + ".real";
  fs::rename(file, real);
  fs::create_symlink(real, file);
  expect_refused("symbolic link");
  fs::remove(file);
  fs::rename(real, file);
  // A folder of the user may be elsewhere.
  const fs::path elsewhere = folder / "elsewhere";
  fs::rename(cache, elsewhere);
  fs::create_symlink("../../elsewhere", cache);
  EXPECT_EQ(fault(), "");
  ASSERT_EQ(chmod(elsewhere.c_str(), 0777), 0);
  expect_refused("elsewhere can be written by others");
  ASSERT_EQ(chmod(elsewhere.c_str(), 01777), 0);
  expect_refused("elsewhere can be written by others");
  ASSERT_EQ(chmod(elsewhere.c_str(), 0700), 0);
  fs::remove(cache);
  fs::create_symlink(cache, cache);
  EXPECT_NE(fault(), "");
  EXPECT_NE(fault(), "missing");
}

TEST_F(KernelCacheFiles, what_is_not_whole_is_refused) {
  const std::string content = read(file);
  for (size_t size = 0; size < content.size(); ++size) {
    write(file, content.substr(0, size));
    expect_refused("cut off");
  }
  for (size_t k = 0; k < content.size(); ++k) {
    std::string other = content;
    other[k] ^= 1;
    write(file, other);
    EXPECT_NE(fault(), "") << "byte " << k;
  }
  write(file, "x" + content);
  expect_refused("damaged");
  write(file, content);
  EXPECT_EQ(fault(), "");
}

TEST_F(KernelCacheFiles, the_library_of_another_kernel_is_refused) {
  const fs::path other = file_in(cache, "4_84");
  fs::rename(file, other);
  EXPECT_NE(fault_of(other).find("another purpose"), std::string::npos) << fault_of(other);
}

TEST_F(KernelCacheFiles, only_a_regular_file_is_a_library) {
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  expect_refused("not a regular file");
  fs::remove(file);
  fs::create_directory(file);
  expect_refused("not a regular file");
  EXPECT_THROW(store_kernel_library(source, file), std::runtime_error);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 1);
}

TEST_F(KernelCacheFiles, what_is_no_library_is_named) {
  const Variable cache_home("XDG_CACHE_HOME", folder.string());
  const InstructionSet set = best_instruction_set();
  if (set == InstructionSet::generic) GTEST_SKIP() << "this CPU takes no libraries";
  const PathGroupShape shape = PathGroupShape::from_key(KEY);
  const std::string place = kernel_library_file(kernel_cache(), instruction_set_name(set), KEY);
  EXPECT_EQ(kernel_library_fault(set, KEY), "");
  store_kernel_library(source, place);
  EXPECT_EQ(find_path_group_kernel<float>(set, shape), nullptr);
  EXPECT_EQ(find_path_group_kernel<double>(set, shape), nullptr);
  const std::string found = kernel_library_fault(set, KEY);
  EXPECT_NE(found.find(place + " is not used: it does not load"), std::string::npos) << found;
  EXPECT_EQ(kernel_library_fault(set, "4_84"), "");
}

// ---- the numbers of a library
// Kernels of the build as a library of one path group or contraction.
struct LibraryOfBuild {
  PathGroupKernel<float> float_path_group{};
  PathGroupKernel<double> double_path_group{};
  PathGroupKernel<Dual<float>> dual_float_path_group{};
  PathGroupKernel<Dual<double>> dual_double_path_group{};
  UvwKernel<float> float_uvw{};
  UvwKernel<double> double_uvw{};
  ContractionKernel<float> float_contraction{};
  ContractionKernel<double> double_contraction{};

  template <class F>
  std::string fault(const F &check) const {
    const auto list = [](const auto *const &kernel) {
      using K = std::remove_const_t<std::remove_pointer_t<std::decay_t<decltype(kernel)>>>;
      return KernelList<K>{1, &kernel};
    };
    const auto *fu = &float_path_group;
    const auto *du = &double_path_group;
    const auto *dfu = &dual_float_path_group;
    const auto *ddu = &dual_double_path_group;
    const auto *fw = &float_uvw;
    const auto *dw = &double_uvw;
    const auto *fc = &float_contraction;
    const auto *dc = &double_contraction;
    return check(KernelLibrary{PATH_GROUP_KERNEL_ABI, "", list(fu), list(du), list(fw), list(dw), list(fc), list(dc),
                               list(dfu), list(ddu)});
  }
};

LibraryOfBuild library_of(InstructionSet set, const PathGroupShape &shape) {
  LibraryOfBuild library;
  if (shape.is_uvw()) {
    library.float_uvw = *find_uvw_kernel<float>(set, shape);
    library.double_uvw = *find_uvw_kernel<double>(set, shape);
  } else {
    library.float_path_group = *find_path_group_kernel<float>(set, shape);
    library.double_path_group = *find_path_group_kernel<double>(set, shape);
    library.dual_float_path_group = *find_path_group_kernel<Dual<float>>(set, shape);
    library.dual_double_path_group = *find_path_group_kernel<Dual<double>>(set, shape);
  }
  return library;
}

template <class F>
void for_sets(const F &f) {
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (set != InstructionSet::generic && instruction_set_available(set)) f(set);
}

std::string fault_of(const LibraryOfBuild &library, const PathGroupShape &shape, InstructionSet set) {
  return library.fault([&](const KernelLibrary &l) { return fault_of_kernels(l, shape, set); });
}

TEST(KernelCheck, all_kernels_of_the_build_pass) {
  for_sets([](InstructionSet set) {
    for (const auto &shapes : {common_path_groups(), common_uvw_paths()})
      for (const PathGroupShape &shape : shapes)
        EXPECT_EQ(fault_of(library_of(set, shape), shape, set), "") << shape.key() << instruction_set_name(set);
    for (const std::string &name : common_contractions()) {
      const ContractionSchedule schedule = make_contraction_schedule(contraction_of(name));
      LibraryOfBuild library;
      library.float_contraction = *find_contraction_kernel<float>(set, schedule);
      library.double_contraction = *find_contraction_kernel<double>(set, schedule);
      EXPECT_EQ(library.fault([&](const KernelLibrary &l) { return fault_of_kernels(l, schedule, set); }), "") << name;
    }
  });
}

TEST(KernelCheck, the_kernels_of_another_path_group_do_not_pass) {
  for_sets([](InstructionSet set) {
    const PathGroupShape shape = PathGroupShape::from_key("1_01_10_11");
    EXPECT_NE(fault_of(library_of(set, PathGroupShape::from_key("1_01_10_12_21")), shape, set).find("lacks the kernel"),
              std::string::npos);
    // A kernel that writes less than it should.
    LibraryOfBuild renamed = library_of(set, PathGroupShape::from_key("uvw_1_11"));
    renamed.float_uvw.key = renamed.double_uvw.key = "uvw_1_12";
    EXPECT_NE(fault_of(renamed, PathGroupShape::from_key("uvw_1_12"), set).find("differs"), std::string::npos);
  });
}

// Changes one number by a thousandth.
template <class T>
void a_little_more(Pointer<T> p) {
  put(p, 3, Real<T>(1.001) * p[3]);
}

// Replaces each function of a kernel in turn: by none, by one that does nothing, and by one that is slightly wrong.
template <class T, class Place>
void expect_found(InstructionSet set, const PathGroupShape &shape, const std::string &type, Place place) {
  using Function = void (*)(const PathGroupCall<T> &);
  static Function right;
  const auto change = [&](auto slot_of, Function changed, const std::string &what) {
    LibraryOfBuild library = library_of(set, shape);
    Function &slot = slot_of(library.*place);
    if (!slot) return;
    right = slot;
    slot = changed;
    const std::string fault = fault_of(library, shape, set);
    EXPECT_NE(fault.find(changed ? "differs" : "lacks"), std::string::npos) << what << ": '" << fault << "'";
    EXPECT_NE(fault.find(type), std::string::npos) << what << ": '" << fault << "'";
  };
  const Function nothing = [](const PathGroupCall<T> &) {};
  const Function wrong_out = [](const PathGroupCall<T> &u) {
    right(u);
    if (u.count > 0) a_little_more<T>(u.out[0]);
  };
  const Function wrong_x_adj = [](const PathGroupCall<T> &u) {
    right(u);
    if (u.count > 0) a_little_more<T>(u.x_adj);
  };
  const Function wrong_y_adj = [](const PathGroupCall<T> &u) {
    right(u);
    if (u.count > 0) u.y_adj[0] += T(0.001) + T(0.001) * u.y_adj[0];
  };
  for (const int k : {0, 1, 2}) {
    const auto forward = [k](PathGroupKernel<T> &kernel) -> Function & { return kernel.forward[k]; };
    const auto backward = [k](PathGroupKernel<T> &kernel) -> Function & { return kernel.backward[k]; };
    const auto gather = [k](PathGroupKernel<T> &kernel) -> Function & { return kernel.gather[k]; };
    const std::string number = std::to_string(k);
    for (const Function f : {nothing, wrong_out, Function()}) change(forward, f, "forward " + number);
    for (const Function f : {nothing, wrong_x_adj, wrong_y_adj, Function()}) change(backward, f, "backward " + number);
    for (const Function f : {nothing, wrong_x_adj, Function()}) change(gather, f, "gather " + number);
  }
  for (const Function f : {nothing, wrong_out})
    change([](PathGroupKernel<T> &kernel) -> Function & { return kernel.moving_forward; }, f, "moving forward");
  change([](PathGroupKernel<T> &kernel) -> Function & { return kernel.rigid_forward; }, nothing, "rigid forward");
  change([](PathGroupKernel<T> &kernel) -> Function & { return kernel.rigid_backward; }, nothing, "rigid backward");
}

TEST(KernelCheck, every_function_that_is_wrong_is_found) {
  for_sets([](InstructionSet set) {
    const PathGroupShape shape = PathGroupShape::from_key("1_01_10_11");
    expect_found<float>(set, shape, "for float", &LibraryOfBuild::float_path_group);
    expect_found<double>(set, shape, "for double", &LibraryOfBuild::double_path_group);
    expect_found<Dual<float>>(set, shape, "for float with derivatives", &LibraryOfBuild::dual_float_path_group);
    expect_found<Dual<double>>(set, shape, "for double with derivatives", &LibraryOfBuild::dual_double_path_group);
  });
}

TEST(KernelCheck, wrong_functions_of_uvw_paths_and_contractions_are_found) {
  for_sets([](InstructionSet set) {
    const PathGroupShape shape = PathGroupShape::from_key("uvw_1_12");
    const auto expect_uvw_found = [&](auto kernel, int place) {
      using Kernel = std::decay_t<decltype(LibraryOfBuild().*kernel)>;
      for (auto member : {&Kernel::forward, &Kernel::backward, &Kernel::gather}) {
        LibraryOfBuild library = library_of(set, shape);
        (library.*kernel.*member)[place] = [](const auto &) {};
        EXPECT_NE(fault_of(library, shape, set).find("differs"), std::string::npos);
        (library.*kernel.*member)[place] = nullptr;
        EXPECT_NE(fault_of(library, shape, set).find("lacks"), std::string::npos);
      }
    };
    for (const int rows : {CUBIC_ROWS, QUINTIC_ROWS})
      expect_uvw_found(&LibraryOfBuild::float_uvw, kernel_place<float>(rows));
    expect_uvw_found(&LibraryOfBuild::double_uvw, kernel_place<double>(SPLIT_ROWS));
    const ContractionSchedule schedule = make_contraction_schedule(contraction_of("2_01_3"));
    for (auto member : {&ContractionKernel<float>::forward, &ContractionKernel<float>::backward}) {
      LibraryOfBuild library;
      library.float_contraction = *find_contraction_kernel<float>(set, schedule);
      library.double_contraction = *find_contraction_kernel<double>(set, schedule);
      library.float_contraction.*member = [](const ContractionCall<float> &) {};
      const std::string fault =
          library.fault([&](const KernelLibrary &l) { return fault_of_kernels(l, schedule, set); });
      EXPECT_NE(fault.find("differs"), std::string::npos) << fault;
    }
  });
}

}    // namespace
