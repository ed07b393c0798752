// SPDX-License-Identifier: MIT
// The resources of a process on its machine, read from files of an operating system that the test invents.
#include "src/base/host_resources.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace {

using namespace equi;

constexpr double GB = 1e9, NONE = std::numeric_limits<double>::infinity();

// A machine's files, in a separate folder.
class Files : public ::testing::Test {
 protected:
  Files() {
    char name[] = "/tmp/equi_resources_XXXXXX";
    root = mkdtemp(name);
  }
  ~Files() override { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  // One hierarchy, mounted as on most machines.
  void version_2(const std::string &group) const {
    write("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    write("/proc/self/cgroup", "0::" + group + "\n");
  }
  void version_1(const std::string &group) const {
    write("/proc/self/mountinfo",
          "22 1 0:1 / / rw - ext4 /dev/sda rw\n"
          "30 24 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
          "31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
          "32 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    write("/proc/self/cgroup",
          "12:name=systemd:/\n5:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n3:cpuset:/elsewhere\n");
  }
  std::string root;
};

double physical_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

TEST_F(Files, without_control_groups_the_machine_is_the_limit) {
  EXPECT_EQ(shared_memory_limit(root), physical_memory());
  EXPECT_EQ(core_quota(root), NONE);
  EXPECT_EQ(own_memory_left(root), NONE);
}

TEST_F(Files, tell_the_size_of_the_second_level_cache) {
  EXPECT_EQ(second_level_cache(root), 0.0);
  const auto cache = [&](int k, const char *level, const char *type, const char *size) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(k);
    write(folder + "/level", level + std::string("\n"));
    write(folder + "/type", type + std::string("\n"));
    write(folder + "/size", size + std::string("\n"));
  };
  cache(0, "1", "Data", "48K");
  cache(1, "2", "Instruction", "64K");
  cache(3, "3", "Unified", "32M");
  EXPECT_EQ(second_level_cache(root), 0.0);
  cache(2, "2", "Unified", "1024K");
  EXPECT_EQ(second_level_cache(root), 1048576.0);
  cache(2, "2", "Unified", "2M");
  EXPECT_EQ(second_level_cache(root), 2097152.0);
  cache(2, "2", "Unified", "large");
  EXPECT_EQ(second_level_cache(root), 0.0);
}

TEST_F(Files, version_2_limits_memory_by_the_group_or_any_parent) {
  version_2("/slurm/job_7/step_0");
  const std::string top = "/sys/fs/cgroup";
  write(top + "/slurm/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(shared_memory_limit(root), physical_memory());
  write(top + "/slurm/job_7/memory.max", "300000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.3 * GB);
  write(top + "/slurm/job_7/step_0/memory.max", "100000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.1 * GB);
  write(top + "/memory.max", "50000000\n");    // a container's root is a group with limits
  EXPECT_EQ(shared_memory_limit(root), 0.05 * GB);
  write(top + "/slurm/job_8/memory.max", "1000\n");    // limits of other jobs
  EXPECT_EQ(shared_memory_limit(root), 0.05 * GB);
}

TEST_F(Files, version_1_limits_memory_by_the_group_or_any_parent) {
  version_1("/docker/a b");
  const std::string top = "/sys/fs/cgroup/memory";
  write(top + "/memory.limit_in_bytes", "9223372036854771712\n");    // this value means that there is no limit
  EXPECT_EQ(shared_memory_limit(root), physical_memory());
  write(top + "/docker/a b/memory.limit_in_bytes", "400000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.4 * GB);
  write(top + "/docker/memory.limit_in_bytes", "200000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.2 * GB);
  write("/sys/fs/cgroup/cpu,cpuacct/docker/memory.limit_in_bytes", "1000\n");    // another hierarchy
  EXPECT_EQ(shared_memory_limit(root), 0.2 * GB);
}

TEST_F(Files, both_versions_side_by_side_limit_together) {
  version_1("/job");
  write("/proc/self/cgroup", "4:memory:/job\n0::/unified/job\n");
  std::ofstream(root + "/proc/self/mountinfo", std::ios::app)
      << "33 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "400000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.4 * GB);
  write("/sys/fs/cgroup/unified/unified/job/memory.max", "300000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.3 * GB);
}

// A container sees its path as the host does, and mounts only its own part of the hierarchy.
TEST_F(Files, paths_begin_where_the_hierarchy_is_mounted) {
  write("/proc/self/mountinfo", "29 23 0:26 /docker/f00 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/docker/f00/inner\n");
  write("/sys/fs/cgroup/memory.max", "700000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.7 * GB);
  write("/sys/fs/cgroup/inner/memory.max", "600000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.6 * GB);
  write("/proc/self/cgroup", "0::/docker/f001\n");    // not below the mount, so the visible files count
  EXPECT_EQ(shared_memory_limit(root), 0.7 * GB);
  write("/proc/self/mountinfo", "29 23 0:26 / /groups\\040of\\040all rw - cgroup2 cgroup2 rw\n");
  write("/groups of all/docker/memory.max", "500000000\n");
  EXPECT_EQ(shared_memory_limit(root), 0.5 * GB);
}

TEST_F(Files, text_that_is_no_limit_is_none) {
  version_2("/job");
  for (const char *text : {"", "\n", "much\n", "-5\n", "max", "nan\n"}) {
    write("/sys/fs/cgroup/job/memory.max", text);
    write("/sys/fs/cgroup/job/cpu.max", text);
    EXPECT_EQ(shared_memory_limit(root), physical_memory()) << text;
    EXPECT_EQ(core_quota(root), NONE) << text;
  }
  for (const char *text : {"", "0::", "::", "no colon", "0:/job", "4:memory\n"}) {
    write("/proc/self/cgroup", text);
    EXPECT_EQ(shared_memory_limit(root), physical_memory()) << text;
  }
  for (const char *text : {"", "29 23 0:26 / - cgroup2\n", "- cgroup2 cgroup2 rw\n", " - \n"}) {
    version_2("/job");
    write("/proc/self/mountinfo", text);
    EXPECT_EQ(shared_memory_limit(root), physical_memory()) << text;
  }
}

TEST_F(Files, quotas_of_computing_time_are_cores) {
  version_2("/pod/container");
  write("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(core_quota(root), NONE);
  write("/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  EXPECT_DOUBLE_EQ(core_quota(root), 3.5);
  write("/sys/fs/cgroup/pod/container/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(core_quota(root), 0.5);

  version_1("/job");
  const std::string group = "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_";
  write(group + "period_us", "100000\n");
  write(group + "quota_us", "-1\n");
  EXPECT_EQ(core_quota(root), NONE);
  write(group + "quota_us", "800000\n");
  EXPECT_DOUBLE_EQ(core_quota(root), 8.0);
}

TEST_F(Files, resource_limits_leave_what_is_not_taken) {
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto limits = [&](const std::string &data, const std::string &space) {
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max file size             1000                 unlimited            bytes     \n"
          "Max data size             " +
              data +
              "  unlimited            bytes     \n"
              "Max address space         " +
              space + "  unlimited            bytes     \n");
  };
  write("/proc/self/statm", "1000 10 5 1 0 200 0\n");
  limits("unlimited", "unlimited");
  EXPECT_EQ(own_memory_left(root), NONE);
  limits("unlimited", "5000000000");
  EXPECT_EQ(own_memory_left(root), 5e9 - 1000 * page);
  limits("2000000000", "5000000000");
  EXPECT_EQ(own_memory_left(root), 2e9 - 200 * page);
  limits("2000000000", "1000");
  EXPECT_EQ(own_memory_left(root), 0.0);
}

// Without a folder of the test the functions read the files of this process.
TEST(HostResources, this_process_has_cores_and_memory) {
  EXPECT_GT(shared_memory_limit(), 1e6);
  EXPECT_LE(shared_memory_limit(), physical_memory());
  EXPECT_GT(own_memory_left(), 1e6);
  EXPECT_GT(core_quota(), 0.0);
  EXPECT_GE(count_cores(affinity_mask()), 1);
  EXPECT_LE(count_cores(affinity_mask()), sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_EQ(count_cores({}), 0);
  EXPECT_EQ(count_cores(std::vector<unsigned char>(1000, 0xff)), 8000);
}

TEST(HostResources, numbers_of_threads_are_read_as_openmp_reads_them) {
  for (const char *text : {"4", " 4", "4 ", "4,2", "4 , 2,1", "\t4\n"}) {
    EXPECT_EQ(parse_num_threads(text), 4) << text;
  }
  for (const char *text : {"", " ", "0", "-3", "four", "4x", "4,", ",4", "4,,2", "4,0", "4;2", "4 2", "0x4", "3.5"})
    EXPECT_EQ(parse_num_threads(text), 0) << text;
  EXPECT_EQ(parse_num_threads(nullptr), 0);
  // Too large for any type, but a valid request.
  EXPECT_GT(parse_num_threads("99999999999999999999999999"), 10000);
  EXPECT_GT(parse_num_threads("4294967297"), 10000);
}

TEST(HostResources, threads_are_those_asked_for_or_a_share_of_the_cores) {
  EXPECT_EQ(plan_threads("600", 2, 2, 1).number, 600);
  EXPECT_EQ(plan_threads("3,2", 64, 64, 4).number, 3);
  EXPECT_EQ(plan_threads(nullptr, 64, 64, 4).number, 16);
  EXPECT_EQ(plan_threads(nullptr, 64, 8, 2).number, 8);    // a launcher has bound the process
  EXPECT_EQ(plan_threads(nullptr, 2, 2, 3).number, 1);
  EXPECT_EQ(plan_threads(nullptr, 0, 0, 1).number, 1);    // nothing is known
  EXPECT_EQ(plan_threads("many", 64, 64, 4).number, 16);
  EXPECT_EQ(plan_threads(nullptr, 768, 768, 1).number, 768);
}

TEST(HostResources, what_is_unusual_about_threads_is_said) {
  EXPECT_EQ(describe_threads(plan_threads(nullptr, 8, 8, 2), 4), "");
  EXPECT_EQ(describe_threads(plan_threads("4", 8, 8, 2), 4), "");
  const auto expect_words = [](const std::string &text, std::initializer_list<const char *> words) {
    for (const char *word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  };
  expect_words(describe_threads(plan_threads("600", 768, 768, 1), 512), {"asks for 600 threads", "512 are used"});
  expect_words(describe_threads(plan_threads(nullptr, 768, 768, 1), 512), {"768 threads", "512 are used"});
  expect_words(describe_threads(plan_threads("4", 2, 2, 1), 4), {"4 threads", "2 cores"});
  expect_words(describe_threads(plan_threads("none", 2, 2, 1), 2), {"\"none\"", "2 threads are used"});
  // No control characters of the environment reach the log.
  const std::string text = describe_threads(plan_threads("\x1b[31m4\nWARNING\xff", 2, 2, 1), 2);
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~') << text;
  EXPECT_LT(describe_threads(plan_threads(std::string(5000, 'x').c_str(), 2, 2, 1), 2).size(), 200u);
}

TEST(HostResources, processes_of_a_node_are_those_of_all_partitions_or_those_that_the_launcher_counts) {
  const auto environment = [](const char *set, const char *value) {
    return [=](const char *name) { return std::string(name) == set ? value : nullptr; };
  };
  EXPECT_EQ(launched_on_node(environment("", "")), 0);
  EXPECT_EQ(launched_on_node(environment("MPI_LOCALNRANKS", "4")), 4);
  EXPECT_EQ(launched_on_node(environment("OMPI_COMM_WORLD_LOCAL_SIZE", "128")), 128);
  for (const char *nonsense : {"", "many", "0", "-3"})
    EXPECT_EQ(launched_on_node(environment("MPI_LOCALNRANKS", nonsense)), 0) << nonsense;
  EXPECT_EQ(processes_on_node(4, 1, 0), 4);
  EXPECT_EQ(processes_on_node(4, 3, 0), 12) << "the launcher does not say it";
  EXPECT_EQ(processes_on_node(4, 3, 12), 12);
  EXPECT_EQ(processes_on_node(4, 3, 4), 4) << "each partition has a node of its own";
  EXPECT_EQ(processes_on_node(4, 3, 8), 8);
  EXPECT_EQ(processes_on_node(4, 1, 1), 4) << "a variable of another launch";
  EXPECT_EQ(processes_on_node(4, 3, 100), 12) << "other programs run on the node, too";
}

TEST(Devices, are_shared_by_the_processes_that_are_known_to_and_as_many_of_others_as_can) {
  // All processes of a single LAMMPS are known.
  for (const int num_devices : {0, 1, 4}) {
    EXPECT_EQ(processes_on_device(1, 1, 8, num_devices), 1);
    EXPECT_EQ(processes_on_device(3, 1, 8, num_devices), 3);
  }
  // Two LAMMPS with four processes each: they use all GPUs in turn, or each is bound to the GPU of one or two of its
  // own.
  EXPECT_EQ(processes_on_device(1, 2, 8, 8), 1);
  EXPECT_EQ(processes_on_device(1, 2, 8, 4), 2);
  EXPECT_EQ(processes_on_device(2, 2, 8, 2), 4);
  EXPECT_EQ(processes_on_device(1, 2, 8, 1), 2);
  EXPECT_EQ(processes_on_device(2, 2, 8, 1), 4);
  EXPECT_EQ(processes_on_device(4, 2, 8, 1), 8) << "a node with one GPU";
  EXPECT_EQ(processes_on_device(4, 2, 8, 0), 8) << "without any, of the memory of the node";
}

}    // namespace
