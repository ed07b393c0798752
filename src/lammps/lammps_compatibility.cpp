// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "src/lammps/lammps_compatibility.h"

#include <mpi.h>
#include "lmptype.h"

#include <cstdio>
#include <cstring>
#include <string>

// Of LAMMPS's C library (library.h), which an lmp that is linked statically may lack.
extern "C" {
__attribute__((weak)) int lammps_version(void *lmp);                              // 20250204
__attribute__((weak)) int lammps_extract_setting(void *lmp, const char *name);    // -1: not known
}

namespace equi {

namespace {

// "4 Feb 2025" as lammps_version() has it; 0 if it is something else.
[[maybe_unused]] int number_of_version(const char *text) {
  constexpr const char *MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int day = 0, year = 0;
  char month[4] = "";
  if (std::sscanf(text, "%d %3s %d", &day, month, &year) != 3) return 0;
  for (int m = 0; m < 12; ++m)
    if (std::strcmp(month, MONTHS[m]) == 0) return (year * 100 + m + 1) * 100 + day;
  return 0;
}

// Implementations whose handles are the same, by what their libraries say of themselves; empty: not known.
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

// In what the LAMMPS differs, or nothing.
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
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "";    // as long as that of another MPI may be
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
