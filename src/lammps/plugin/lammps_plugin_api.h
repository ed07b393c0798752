// SPDX-License-Identifier: MIT
// The plugin interface of LAMMPS (its package PLUGIN). Binary distributions of LAMMPS do not always install
// lammpsplugin.h. So the few types that a plugin shares with its host are declared here. They have been stable since
// LAMMPS 10Mar2021.
#ifndef EQUI_LAMMPS_PLUGIN_API_H
#define EQUI_LAMMPS_PLUGIN_API_H

extern "C" {

typedef void *(*lammpsplugin_make)(void *lammps);
typedef void *(*lammpsplugin_make_with_arguments)(void *lammps, int narg, char **arg);

struct lammpsplugin_t {
  const char *version;    // version of the LAMMPS that the plugin was compiled for
  const char *style;      // "pair"
  const char *name;
  const char *info;
  const char *author;
  union {
    lammpsplugin_make v1;                   // pair, bond, ... styles
    lammpsplugin_make_with_arguments v2;    // fixes, computes, ...
  } creator;
  void *handle;
};

typedef void (*lammpsplugin_register)(lammpsplugin_t *, void *lammps);

// Called by the host after loading; the last argument is a lammpsplugin_register.
void lammpsplugin_init(void *lammps, void *handle, void *register_function);
}

#endif
