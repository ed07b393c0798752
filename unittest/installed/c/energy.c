// SPDX-License-Identifier: MIT
// Prints energy, energies of atoms, forces and stress of a structure: energy MODEL SYMBOLS KEYWORDS < STRUCTURE.
// STRUCTURE has nine components of lattice vectors, three flags of periodicity, then type, x, y and z of each atom.
#include <equi.h>

#include <stdio.h>
#include <stdlib.h>

#define MOST_ATOMS 1000

static void fail(void) {
  fprintf(stderr, "%s\n", equi_last_error());
  exit(1);
}

int main(int argc, char **argv) {
  static int types[MOST_ATOMS];
  static double positions[3 * MOST_ATOMS], energies[MOST_ATOMS], forces[3 * MOST_ATOMS];
  double cell[9], energy, stress[6];
  int periodic[3], num_atoms = 0;
  if (argc != 4) return 2;
  for (int k = 0; k < 9; k++)
    if (scanf("%lf", &cell[k]) != 1) return 2;
  for (int k = 0; k < 3; k++)
    if (scanf("%d", &periodic[k]) != 1) return 2;
  while (num_atoms < MOST_ATOMS) {
    double *r = positions + 3 * num_atoms;
    if (scanf("%d %lf %lf %lf", &types[num_atoms], r, r + 1, r + 2) != 4) break;
    num_atoms++;
  }

  equi_calculator *calculator = equi_create(argv[1], argv[2], argv[3]);
  if (!calculator) fail();
  if (equi_set_atoms(calculator, num_atoms, types, positions, cell, periodic) != EQUI_OK) fail();
  double *wanted_stress = periodic[0] && periodic[1] && periodic[2] ? stress : NULL;
  if (equi_compute(calculator, &energy, energies, forces, NULL, wanted_stress) != EQUI_OK) fail();

  printf("energy %.17g\n", energy);
  for (int i = 0; i < num_atoms; i++)
    printf("atom %.17g %.17g %.17g %.17g\n", energies[i], forces[3 * i], forces[3 * i + 1], forces[3 * i + 2]);
  for (int k = 0; wanted_stress && k < 6; k++) printf("stress %.17g\n", stress[k]);
  equi_free(calculator);
  return 0;
}
