// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Compares version, integers and MPI of the running LAMMPS with those that the plugin was compiled for.
#include "src/lammps/plugin/lammps_compatibility.h"

#include <mpi.h>
#include "lmptype.h"

#include <cstdio>
#include <cstring>
#include <string>

// From LAMMPS's C library (library.h); weak, because a static lmp may lack it.
extern "C" {
__attribute__((weak)) int lammps_version(void *lmp);                              // 20250204
__attribute__((weak)) int lammps_extract_setting(void *lmp, const char *name);    // -1: unknown setting
}

namespace equi {

namespace {

// Converts "4 Feb 2025", the form of lammps_version(); returns 0 for any other text.
[[maybe_unused]] int number_of_version(const char *text) {
  constexpr const char *MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int day = 0, year = 0;
  char month[4] = "";
  if (std::sscanf(text, "%d %3s %d", &day, month, &year) != 3) return 0;
  for (int m = 0; m < 12; ++m)
    if (std::strcmp(month, MONTHS[m]) == 0) return (year * 100 + m + 1) * 100 + day;
  return 0;
}

// Returns the family of MPI implementations with the same handles, from the text of its library; empty: unknown.
std::string mpi_family(const std::string &text) {
  for (const char *name : {"MPICH", "Intel(R) MPI", "MVAPICH"})
    if (text.find(name) != std::string::npos) return "MPICH";
  if (text.find("Open MPI") != std::string::npos) return "Open MPI";
  if (text.find("STUBS") != std::string::npos) return "LAMMPS's own, for one rank";
  return "";
}

#if defined(OPEN_MPI)
constexpr const char *COMPILED_FOR_MPI = "Open MPI";
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION) || defined(MVAPICH_VERSION)
constexpr const char *COMPILED_FOR_MPI = "MPICH";
#else
constexpr const char *COMPILED_FOR_MPI = "";
#endif

// Returns the difference between this LAMMPS and the plugin's, or nothing.
std::string difference(void *lmp) {
#ifdef EQUI_LAMMPS_VERSION
  if (lammps_version) {
    const int expected = number_of_version(EQUI_LAMMPS_VERSION), found = lammps_version(lmp);
    if (expected != 0 && found != expected)
      return std::string("LAMMPS ") + EQUI_LAMMPS_VERSION + ", and this one is of another version, " +
             std::to_string(found) + " (year, month, day)";
  }
#endif
  constexpr struct {
    const char *name;
    size_t size;
  } INTEGERS[] = {{"bigint", sizeof(LAMMPS_NS::bigint)},
                  {"tagint", sizeof(LAMMPS_NS::tagint)},
                  {"imageint", sizeof(LAMMPS_NS::imageint)}};
  for (const auto &integer : INTEGERS) {
    const int found = lammps_extract_setting ? lammps_extract_setting(lmp, integer.name) : -1;
    if (found > 0 && static_cast<size_t>(found) != integer.size)
      return std::string("a LAMMPS whose ") + integer.name + " has " + std::to_string(8 * integer.size) +
             " bits, and that of this one has " + std::to_string(8 * found) + " (smallbig or bigbig)";
  }
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "";    // large enough for the text of another MPI
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string family = mpi_family(text);
  if (*COMPILED_FOR_MPI && !family.empty() && family != COMPILED_FOR_MPI)
    return std::string("a LAMMPS with ") + COMPILED_FOR_MPI + " as its MPI, and this one has another, " + family;
  return "";
}

}    // namespace

bool is_compatible(void *lmp) {
  const std::string text = difference(lmp);
  if (text.empty()) return true;
  if (!lammps_extract_setting || lammps_extract_setting(lmp, "world_rank") <= 0)
    std::fprintf(stderr,
                 "WARNING: The plugin equi was compiled for %s: it is not used, and pair style equi stays unknown. "
                 "Build it with the headers of this LAMMPS (LAMMPS_ROOT or LAMMPS_SOURCE_DIR, doc/install.rst)\n",
                 text.c_str());
  return false;
}

}    // namespace equi
